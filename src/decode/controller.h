// Decides how far to draft from what rounds have cost and what became of drafts: another draft, or
// another check layer, while its expected gain exceeds its measured cost. In place of the threshold
// tau and the bounds d_max and w_max, which remain as the way it begins and as bounds where they
// were asked for. What it knows it keeps from reply to reply. docs/architecture.md 9.
#pragma once

#include <vector>

#include "decode/acceptance_table.h"
#include "decode/draft_policy.h"
#include "decode/drafting_plan.h"
#include "decode/round_costs.h"

namespace specbound {

struct ControllerSettings {
  int n_layers = 0;
  std::vector<int> check_layers;     // as SpecBound::check_layers(), not empty
  int width = kMaxRows;              // rows of a round at most, 2..kMaxRows
  int first_width = kMaxRows;        // likewise, until enough is measured
  const CostModel* tuned = nullptr;  // of this model and machine; nullptr: none
  double check_seconds = 0;          // with it: of a check
};

class Controller final : public DraftPolicy {
 public:
  explicit Controller(const ControllerSettings& settings);

  int width() const override { return deciding_ ? plan_.width() : first_width_; }
  void begin() override;
  void start() override;
  bool should_check(int check) override;
  bool should_exit(int check, float confidence, bool confident) override;
  void withdrawn() override { --place_.rows; }
  double survival() const override { return place_.survival; }
  void learn(const RoundEvent& round) override;
  Control control() const override;

  const AcceptanceTable& table() const { return table_; }
  const RoundCosts& costs() const { return costs_; }

 private:
  void count(const RoundEvent& round);
  void replan();
  double rate() const;
  int check_of(int layer) const;

  std::vector<int> check_layers_;
  int most_width_, first_width_;
  int longest_ = 0;  // rows of a round since the last plan
  AcceptanceTable table_;
  RoundCosts costs_;
  DraftingPlan plan_;
  bool deciding_ = false;  // enough is measured

  // Of the round under way.
  bool asked_ = false;  // it decides on this one
  DraftingPlan::Place place_;
  int context_ = 0;  // of the next check

  double tokens_ = 0, time_ = 0;  // of its rounds, in plain ones; the newest weigh most
  int until_plan_, plan_every_;   // rounds
  Control control_;
};

}  // namespace specbound
