// What drafts: appends rows to a round, each done to some layer (0 for drafts that come from
// outside the model). Only the loop verifies, so a speculator that keeps to its part of Round can
// cost time but never change a token. docs/architecture.md 7.
#pragma once

#include <cstdint>
#include <span>

#include "decode/round.h"
#include "decode/shared_drafter.h"
#include "trace/event.h"

namespace specbound {

// What the tree of drafts has decided by what was measured, since the program began, or in one
// reply.
struct Control {
  bool active = false;   // it decides now
  int64_t rounds = 0;    // it decided on
  int64_t asked = 0;     // times that a source which costs time was asked about a row
  int64_t declined = 0;  // that it was not, or not deeper, because that would not have paid

  // Adds what was decided between two looks at it.
  void add(const Control& before, const Control& after) {
    active = after.active;
    rounds += after.rounds - before.rounds;
    asked += after.asked - before.asked;
    declined += after.declined - before.declined;
  }
};

class Speculator {
 public:
  virtual ~Speculator() = default;
  virtual const char* name() const = 0;
  virtual int width() const = 0;  // rows of the next round at most, 1..kMaxRows; 1: no drafts
  // What it has decided by what was measured, ever.
  virtual Control control() const { return {}; }

  // Where tokens are drawn, they are by its drafts (decode/rejection.h, typical_acceptance.h): the
  // text depends on which rounds have any.
  virtual bool decides_text() const { return false; }

  // What drafts in its place where the reply shares passes with others; nullptr: nothing does.
  virtual SharedDrafter* shared() { return nullptr; }

  // Between replies: drops what it has computed of texts before, so that nothing of the next one
  // is there. What it has learned stays.
  virtual void forget() {}
  // A reply to `text`, the prompt, begins.
  virtual void begin(std::span<const int32_t> text) { (void)text; }
  // Called with the root as the only row and more than one permitted. Says why it stopped; kPlain:
  // it had nothing to draft with.
  virtual DraftEnd draft(Round& round) = 0;
  // What became of the round, whose hidden rows `backend` still holds; of plain rounds too. Not
  // called for one that was aborted.
  virtual void accept(Backend& backend, const RoundEvent& round) {
    (void)backend;
    (void)round;
  }
};

// Plain decoding.
class NoSpeculator final : public Speculator {
 public:
  const char* name() const override { return "none"; }
  int width() const override { return 1; }
  DraftEnd draft(Round&) override { return DraftEnd::kPlain; }
};

}  // namespace specbound
