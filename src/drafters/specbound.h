// The SpecBound speculator: a row leaves at the first check layer whose head is confident enough
// under the annealed threshold (ACT, paper 2.2), drafting stops at bounded depth and width (BSCS,
// paper 2.3). docs/architecture.md 3.1, 3.2.
#pragma once

#include <string>
#include <vector>

#include "drafters/exit_head.h"
#include "drafters/guesser.h"

namespace specbound {

// The defaults are the paper's setting (3.1).
struct SpecBoundParams {
  int w_max = 8;                  // rows of a round at most, 1..kMaxRows; 1 is plain decoding
  int d_max = 10;                 // deepest layer a draft may leave at, cut below the last layer
  float alpha = 0.2f;             // T_l = 1 + alpha (1 - l / L)
  float tau = 0.55f;              // a row leaves at confidence >= tau
  std::vector<int> check_layers;  // ascending, 1..L-1, chained heads also 0; empty: 1..L-1
  bool anneal = true;             // false: T_l = 1
  bool learned = false;           // T_l is the head's own, of its file
  bool depth_bound = true;        // false: up to the last check layer
  bool width_bound = true;        // false: kMaxRows
};

SpecBoundParams params_of(const HeadDefaults& settings);

// Throws Error(kUsage) naming the flag, what is possible in a model of n_layers, and what was
// given. `first_layer`: the shallowest one that can be checked.
void validate(const SpecBoundParams& params, int n_layers, int first_layer = 1);

// T_l of paper Eq. 1; 1 at the last layer. `learned`: the head's own, where that is asked for.
float annealed_temperature(const SpecBoundParams& params, int layer, int n_layers,
                           float learned = 1);
// "alpha 0.2", "annealing learned", "no annealing"
std::string annealing_text(const SpecBoundParams& params);

// The check layers that the bounds leave, ascending; none in a model of one layer.
std::vector<int> bounded_check_layers(const SpecBoundParams& params, int n_layers);

class SpecBound final : public Guesser {
 public:
  // `head` must outlive it; `params` must pass validate().
  SpecBound(ExitHead& head, const SpecBoundParams& params, int n_layers,
            const char* name = "specbound");

  const char* name() const override { return name_; }
  int width() const override;
  void begin(std::span<const int32_t>) override;
  DraftEnd draft(Round& round) override;
  void accept(Backend& backend, const RoundEvent& round) override;

  // A stage is a check layer.
  int stages() const override { return static_cast<int>(check_layers_.size()); }
  double assumed_cost(int stage) const override;
  bool ready(const Round& round) const override { return head_.ready(round); }
  std::optional<Guess> guess(Round& round, int stage) override;

  // From the next round on: between rounds only. As for the constructor.
  void set_params(const SpecBoundParams& params);

  const ExitHead& head() const { return head_; }
  const SpecBoundParams& params() const { return params_; }
  const std::vector<int>& check_layers() const { return check_layers_; }

 private:
  // Where the newest row exits, and its draft.
  struct Exit {
    int layer = 0;  // or why there is none
    int32_t token = 0;
  };
  Exit find_exit(Round& round);
  // What the head at stage `stage` says of the newest row where it lets it exit. False: aborted.
  bool check(Round& round, int stage, const ShouldExit& should_exit, std::optional<int32_t>& token);

  ExitHead& head_;
  SpecBoundParams params_;
  int n_layers_;
  const char* name_;
  std::vector<int> check_layers_;
};

}  // namespace specbound
