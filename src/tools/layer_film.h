// The layer map of a reply as a film, for talks: an SVG file that plays in any browser, which shows
// which layer each token left from, round by round as it happened, slowed down until an eye can
// follow. Drafts stand hollow until verification fills them. Shapes, text and SMIL animation alone:
// no script, font or image from elsewhere; what cannot play it shows its end. Then it begins again.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "trace/round_record.h"

namespace specbound {

// Tokens of a reply that a film shows at most.
inline constexpr size_t kFilmTokens = 1024;

class LayerFilm {
 public:
  // `model`: its path, of which the name is shown.
  LayerFilm(std::string model, int n_layers) : model_(std::move(model)), n_layers_(n_layers) {}

  // Nothing more is shown.
  bool whole() const { return tokens_ >= kFilmTokens; }
  // The reply's next round. Precondition: not whole().
  void add(RoundRecord round);
  std::string svg() const;

 private:
  std::string model_;
  int n_layers_;
  size_t tokens_ = 0;
  std::vector<RoundRecord> rounds_;
};

}  // namespace specbound
