// Tokens in the terminal by the layer they left at: green where it is shallow, over yellow, to red
// where it is deep (the 256-colour palette of xterm). What the last layer gave keeps the terminal's
// own colour.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "trace/event.h"

namespace specbound {

// Why a stream gets no colours: it is no terminal, or the environment asks for none. Empty: it gets
// them.
std::string color_refusal(int fd, const char* name);

class ExitColors {
 public:
  // `deepest`: the last layer that a draft may leave at; it gets the red.
  explicit ExitColors(int deepest = 1) : deepest_(deepest) {}

  // The palette's index. Layers outside 1..deepest get the nearest one's; 0, drafts of before any
  // layer, that of the first.
  int color(int layer) const;
  // `text` between the sequences that switch its colour on and off; unchanged for
  // kNoDraft.
  std::string paint(std::string_view text, int layer) const;
  // One line that explains the colours of `layers`.
  std::string legend(const std::set<int>& layers, bool painted) const;

 private:
  int deepest_;
};

}  // namespace specbound
