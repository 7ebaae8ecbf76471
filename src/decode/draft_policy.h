// Who decides how far a round drafts, where thresholds and bounds alone do not. What it decides can
// cost time but never change a token. docs/architecture.md 9.
#pragma once

#include <cstdint>

#include "trace/event.h"

namespace specbound {

// What a controller has decided, counted since the program began, or in one reply.
struct Control {
  bool active = false;      // it decides now
  int64_t rounds = 0;       // it decided on
  int64_t asked = 0;        // drafts that were looked for
  int64_t declined = 0;     // drafts that were not, because they would not have paid
  int64_t given_up = 0;     // searches that ended before the last check layer
  int64_t other_exits = 0;  // of checks: left below tau, or went on above it
  int64_t probes = 0;       // times drafting was tried again after a pause
  double rate = 0;          // R of the renewal-reward rule, tokens in the time of a plain round;
                            // 0: not measured yet

  // Adds what one controller decided between two looks at it.
  void add(const Control& before, const Control& after) {
    active = after.active;
    rate = after.rate;
    rounds += after.rounds - before.rounds;
    asked += after.asked - before.asked;
    declined += after.declined - before.declined;
    given_up += after.given_up - before.given_up;
    other_exits += after.other_exits - before.other_exits;
    probes += after.probes - before.probes;
  }
};

// Check layers are named by their place in SpecBound::check_layers(). No call may allocate.
class DraftPolicy {
 public:
  virtual ~DraftPolicy() = default;
  virtual int width() const = 0;  // rows of a round at most, 1..kMaxRows
  // A reply begins.
  virtual void begin() = 0;
  // A round begins with the root as its only row, and more are permitted.
  virtual void start() = 0;
  // Whether the newest row runs on to this check, or what is there is verified now. `check` 0:
  // whether another draft is looked for at all.
  virtual bool should_check(int check) = 0;
  // Whether the newest row leaves here and a row is drafted. `confident`: a fixed threshold would
  // let it.
  virtual bool should_exit(int check, float confidence, bool confident) = 0;
  // The row that left last was not drafted after all: it would have ended the reply.
  virtual void withdrawn() = 0;
  // Of the round under way: the chance that all its drafts are right.
  virtual double survival() const = 0;
  // What became of a round; also of those that it was not asked about.
  virtual void learn(const RoundEvent& round) = 0;
  virtual Control control() const = 0;
};

}  // namespace specbound
