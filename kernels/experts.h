// The feed-forward of a mixture of experts for the 1..512 rows of a pass, INT8 weights: which
// experts a row takes, what they give of it, and how that is added, in the bits of the CPU backend
// (engine/cpu/experts.h), which do not depend on the other rows.
//
// Rows are copied side by side, expert by expert, and each expert's weights go past its own rows
// alone. Such a copy has a place; those of an expert begin at a multiple of 8.
#pragma once

#include <algorithm>
#include <cstddef>

#include "layouts.h"
#include "stream.h"

namespace specbound::kernels {

inline constexpr int kMaxExperts = 1024;  // of a layer
inline constexpr int kMaxExpertsOfRow = 32;

// An expert of a row.
struct ExpertShare {
  int32_t expert;
  int32_t place;  // of the row's copy
  float weight;
};

// Up to 16 rows of an expert. `pass` has their number: 0, and there is no such group.
struct ExpertGroup {
  Pass pass;
  int32_t expert;
  int32_t place;  // of the first one
};

// Which rows go where; in device memory, for passes of up to max_rows rows.
struct ExpertRoutes {
  int n_experts, used;  // of a layer, 1..1024; of a row, 1..min(n_experts, 32)
  float* scores;        // (max_rows, n_experts)
  ExpertShare* shares;  // (max_rows, used), those of a row by ascending expert
  ExpertGroup* groups;  // (most_expert_panels(max_rows, n_experts, used)) by ascending expert
};

// Panels of 8 places, and groups, that so many rows can take.
constexpr int most_expert_panels(int rows, int n_experts, int used) {
  const int copies = rows * used;
  return std::min(copies, std::min(copies, n_experts) + copies / kPanelRows);
}

// scores = router x, for a router of floats: sums of 32 lanes (docs/architecture.md 4).
struct ScoreExperts {
  const Pass* pass;    // 1 <= n_rows <= max_rows
  const float* x;      // (n_rows, dim)
  DType type;          // of the router: F32, F16 or BF16
  const void* router;  // (n_experts, dim) as a GGUF file holds it
  int dim;             // a multiple of 32
  ExpertRoutes routes;
  int max_rows;  // 1..512
};
void score_experts(const ScoreExperts& p, Stream stream);

// The routes from the scores: the highest, ties to the lower expert, weighted by the softmax of
// those among themselves. NaN counts as -inf.
struct RouteExperts {
  const Pass* pass;
  ExpertRoutes routes;
  int max_rows;
};
void route_experts(const RouteExperts& p, Stream stream);

// The copies of rows.
struct GatherExpertRows {
  const Pass* pass;
  ExpertRoutes routes;
  RowsI8 from;  // (n_rows)
  RowsI8 to;    // (panels of places), of the same n_in
  int max_rows;
};
void gather_expert_rows(const GatherExpertRows& p, Stream stream);

// The matrices of all experts of a layer: that of expert e is `first` with each pointer so many
// bytes further on.
struct StackedTiles {
  TilesI8 first;  // n_out a multiple of 16
  size_t q_bytes, d_bytes, d2_bytes;
};

// out = quantize(activation(gate x) * (up x)), each place by its expert. Places without a row are
// written too, up to the end of a panel: zero.
struct ExpertGateUp {
  ExpertRoutes routes;
  RowsI8 x;               // (panels of places)
  StackedTiles gate, up;  // (ffn_dim, x.n_in) each, ffn_dim a multiple of 32
  RowsI8 out;             // (panels of places), n_in = ffn_dim
  Activation activation;
  int max_rows;
};
void expert_gate_up(const ExpertGateUp& p, Stream stream);

// y = down x, each place by its expert.
struct ExpertDown {
  ExpertRoutes routes;
  RowsI8 x;
  StackedTiles down;  // (dim, x.n_in)
  float* y;           // (places, dim)
  int max_rows;
};
void expert_down(const ExpertDown& p, Stream stream);

// h += the sum of weight * y over a row's experts, one after the other.
struct AddExperts {
  const Pass* pass;
  ExpertRoutes routes;
  const float* y;  // (places, dim)
  int dim;
  float* h;  // H (slots, dim): rows pass->slot..
  int max_rows;
};
void add_experts(const AddExperts& p, Stream stream);

}  // namespace specbound::kernels
