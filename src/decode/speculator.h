// What drafts: appends rows to a round, each done to some layer (0 for drafts that come from
// outside the model). Only the loop verifies, so a speculator that keeps to its part of Round can
// cost time but never change a token. DESIGN 7.
#pragma once

#include <cstdint>
#include <span>

#include "decode/round.h"
#include "trace/event.h"

namespace specbound {

class Speculator {
 public:
  virtual ~Speculator() = default;
  virtual const char* name() const = 0;
  virtual int width() const = 0;  // rows of a round at most, 1..kMaxRows; 1 never drafts

  // A reply to `text`, the prompt, begins.
  virtual void begin(std::span<const int32_t> text) { (void)text; }
  // Called with the root as the only row and more than one permitted. Says why it stopped.
  virtual DraftEnd draft(Round& round) = 0;
  // What became of the round. Not called for one that was aborted.
  virtual void accept(const RoundEvent& round) { (void)round; }
};

// Plain decoding.
class NoSpeculator final : public Speculator {
 public:
  const char* name() const override { return "none"; }
  int width() const override { return 1; }
  DraftEnd draft(Round&) override { return DraftEnd::kPlain; }
};

}  // namespace specbound
