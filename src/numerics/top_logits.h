// The head of a row of logits, as a device hands it over in place of the row.
// docs/architecture.md 5, 8.
#pragma once

#include <cstdint>

namespace specbound {

inline constexpr int kTopLogits = 256;
inline constexpr int kWeightParts = 64;

struct TopLogits {
  // The n best in the sampler's order: logit descending, then id ascending; NaN counts as -inf.
  float logit[kTopLogits];
  int32_t id[kTopLogits];
  int32_t n;   // min(of, kTopLogits); 0: they were not found, but for the first
  int32_t of;  // logits in the row
  // Where they were asked for: they add up to Z = sum of exp(l - max) over the row. The terms are
  // the sampler's own, their order is not: see weight_error().
  double weight[kWeightParts];
};

// How far the sum of `weight`, in any order, may be from the sampler's Z, relative to it: every
// addition of n non-negative terms, in whatever order, rounds by at most 2^-53 of Z.
constexpr double weight_error(int32_t of) {
  return (of + 256.0) * 0x1p-52;
}

}  // namespace specbound
