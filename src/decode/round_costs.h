// What the steps of a round cost, fitted to the rounds as they come: one layer over m rows, the
// rest of a verification of m rows (logits, sampling), and a check. All in plain rounds of a text
// of that length, so that neither long texts nor a slower machine change much. Every round gives
// two equations, one for drafting and one for verifying; phases are taken together, for on a device
// the time of layers shows where the loop waits for what comes after them. Begins with what
// `specbound tune` measured, or with a shape that any machine has about.
// docs/architecture.md 3.3, 9.
#pragma once

#include <array>
#include <vector>

#include "decode/plain_cost.h"
#include "engine/backend.h"
#include "trace/cost_model.h"
#include "trace/event.h"

namespace specbound {

class RoundCosts {
 public:
  // `check_layers`: ascending, below n_layers. `tuned`: a cost model of this model and machine,
  // with the seconds of a check; nullptr: none. One with a figure of 0 counts as none.
  RoundCosts(int n_layers, const std::vector<int>& check_layers, const CostModel* tuned,
             double check_seconds);

  void learn(const RoundEvent& round);
  // What was measured long ago gives way to what the neighbours say; to be called now and then.
  // The figures below are as of the last call.
  void decay();
  // Enough has been measured to decide by.
  bool known() const { return tuned_ || (plain_ >= kEnough && drafting_ >= kEnough); }

  // All in plain rounds. What a round took; 0: what a plain one takes is not known yet.
  double time(const RoundEvent& round) const;
  double verify(int rows) const { return n_layers_ * layer_[rows] + rest_[rows]; }
  double check(int check) const { return check_[check]; }
  // What a round of `rows` rows gets longer by when one of them leaves: the new row comes alone
  // through the layers up to check `deepest`, where others have been, and with them through those
  // above.
  double row(int rows, int deepest) const;

 private:
  static constexpr int kEnough = 4;  // rounds
  // A figure as measured, and by how many rounds about.
  struct Figure {
    double time = 0, weight = 0;
  };
  using Rows = std::array<double, kMaxRows + 1>;  // [rows]
  using Measured = std::array<Figure, kMaxRows + 1>;

  void fit(double time);
  static void smooth(const Measured& measured, const Rows& shape, Rows& out);

  int n_layers_;
  std::vector<int> check_layers_;
  std::vector<int> check_at_;  // [layer] its place among check_layers_, or -1
  bool tuned_;
  PlainCost plain_cost_;
  int plain_ = 0;     // rounds seen of one row, up to kEnough
  int drafting_ = 0;  // that looked for drafts, likewise

  Measured layer_measured_, rest_measured_;
  std::vector<Figure> check_measured_;
  Rows layer_shape_{}, rest_shape_{};  // in units of one row, never falling
  Rows layer_{}, rest_{};
  std::vector<double> check_;

  // One equation: so many of each figure together took a time.
  struct Term {
    Figure* figure;
    double count;
  };
  std::array<double, kMaxRows + 1> passes_{};  // layers by rows
  std::vector<double> looks_;                  // checks
  std::vector<Term> terms_;
};

}  // namespace specbound
