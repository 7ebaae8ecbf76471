// The feed-forward of a mixture of experts on the CPU. The router of a layer scores all experts for
// a row; the n_experts_used highest, ties to the lower index, are weighted by the softmax of their
// scores among themselves (that over all experts divided by its sum over these). What they give is
// added to the row by ascending expert, so a row's bits know nothing of the rows beside it.
//
// The rows of a pass are grouped by expert: each expert's weights are read once. The better-known
// design, expert by expert with a barrier after each, waits hundreds of times a token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/cpu/kernels.h"
#include "engine/cpu/linear.h"
#include "engine/cpu/thread_pool.h"
#include "engine/pages.h"
#include "model/config.h"
#include "model/weights.h"

namespace specbound {

// Of one layer, as the CPU multiplies by them.
struct ExpertLayer {
  ExpertLayer() = default;  // of a layer that has one feed-forward
  ExpertLayer(const LinearStore& store, const LayerWeights& weights);

  Linear router;
  struct Expert {
    Linear gate, up, down;
  };
  std::vector<Expert> experts;
};

// Which experts rows go through: each pair of a row and an expert has a slot, by ascending expert,
// the rows of one ascending too.
class ExpertRoutes {
 public:
  // For as many rows. used: experts of a row, 1..n_experts.
  ExpertRoutes(int n_experts, int used, int max_rows);

  // scores (n, n_experts). NaN counts as -inf; of infinite scores the largest share all weight.
  void choose(const float* scores, int n);

  struct Slot {
    int row;
    float weight;
  };
  int n_slots() const { return first_.back(); }
  int first(int expert) const { return first_[expert]; }
  std::span<const Slot> slots(int expert) const {
    return std::span(slots_).subspan(first_[expert], first_[expert + 1] - first_[expert]);
  }

 private:
  struct Chosen {
    int expert;
    float value;  // its score, then its weight
  };
  void choose_row(const float* scores, Chosen* chosen) const;

  const int n_experts_, used_;
  std::vector<Chosen> chosen_;  // (rows, used)
  std::vector<int> first_;      // [n_experts + 1] slots before each expert's
  std::vector<Slot> slots_;     // (rows * used)
};

class Experts {
 public:
  // For passes of up to max_rows rows through layers that are dealt to threads as `any` is. Throws
  // Error(kLimit).
  Experts(const ModelConfig& config, const Kernels& kernels, ThreadPool& pool,
          const ExpertLayer& any, int max_rows);

  // h (n, dim) += what its experts give of each row of x (n, dim), quantized where the router takes
  // that. Called by all threads in step.
  void run(int thread, const ExpertLayer& layer, const Rows& x, float* h, int n);

 private:
  void gather(int thread, const ExpertLayer& layer, const Rows& x);
  void activate(int thread, const ExpertLayer& layer);
  void add_outputs(int thread, const ExpertLayer& layer, float* h);

  const ModelConfig& config_;
  const Kernels& kernels_;
  ThreadPool& pool_;
  Pages<float> scores_;  // (rows, n_experts)
  RowBuffer in_;         // (slots, dim)
  RowBuffer act_;        // (slots, ffn_dim)
  // [thread]: each finds the routes for itself, which costs less than waiting for them.
  std::vector<ExpertRoutes> routes_;
  struct Own {
    Pages<float> gate, up, down;  // (rows, its outputs)
  };
  std::vector<Own> own_;  // [thread]
};

}  // namespace specbound
