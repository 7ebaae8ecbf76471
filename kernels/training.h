// The training of exit heads on a GPU (train/device_learner.h), apart from products: rows into
// FP16, the loss and its gradient, AdamW. Every sum has one order, so the same input gives the same
// bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stream.h"

namespace specbound::kernels {

// to = factor * from in FP16, to nearest even; what is too large becomes the largest number.
struct HalveRows {
  const float* from;  // (n_rows, ld_from)
  int n_rows, n, ld_from;
  float factor;
  uint16_t* to;  // (n_rows, ld_to)
  int ld_to;
};
void halve_rows(const HalveRows& p, Stream stream);

// Where a row lies in each of several planes of rows.
struct RowPlace {
  const uint16_t* row;  // in the first plane, 16-byte aligned
  int64_t plane;        // values from there to the same row of the next one, a multiple of 8
};

// Row r of `to` is the row `ahead` rows on from places[r], in plane `plane`.
struct GatherRows {
  const RowPlace* places;  // (n_rows)
  int n_rows, plane, ahead;
  int n;         // of a row, a multiple of 8
  uint16_t* to;  // (n_rows, ld_to), 16-byte aligned
  int ld_to;     // a multiple of 8
};
void gather_rows(const GatherRows& p, Stream stream);

// Rows z (n_rows, width) become the softmax of factor * softcap(z); entropy (n_rows), in nats.
struct TargetRows {
  float* z;
  int n_rows, width;
  float softcap;  // 0: none
  float factor;
  float* entropy;
};
void target_rows(const TargetRows& p, Stream stream);

// With c = softcap(z): loss (n_rows) = KL(target || softmax(c)) and gradient (n_rows, width) =
// (softmax(c) - target) dc/dz.
struct DivergenceRows {
  float* z;              // (n_rows, width), becomes c
  const float* target;   // (n_rows, width)
  const float* entropy;  // (n_rows), the target's
  int n_rows, width;
  float softcap;  // 0: none
  uint16_t* gradient;
  float* loss;
};
void divergence_rows(const DivergenceRows& p, Stream stream);

// sum = the losses, or sum += them.
struct SumLosses {
  const float* loss;  // (n)
  int n;
  bool add;
  double* sum;
};
void sum_losses(const SumLosses& p, Stream stream);

// active = silu(hidden), FP16.
struct SiluHalves {
  const float* hidden;  // (n)
  size_t n;
  uint16_t* active;
};
void silu_halves(const SiluHalves& p, Stream stream);

// What d (n), the gradient of silu(hidden), says of hidden; FP16.
struct SiluBackward {
  const float* hidden;
  const float* d;
  size_t n;
  uint16_t* d_hidden;
};
void silu_backward(const SiluBackward& p, Stream stream);

// total += part.
struct AddToDoubles {
  const float* part;  // (n)
  size_t n;
  double* total;
};
void add_to_doubles(const AddToDoubles& p, Stream stream);

// The squares of a gradient are summed in parts, as many as its size asks for.
constexpr int square_parts_of(size_t n) {
  constexpr size_t kLeast = 1 << 14, kMost = 256;
  const size_t parts = (n + kLeast - 1) / kLeast;
  return static_cast<int>(parts < kMost ? parts : kMost);
}
struct SquareParts {
  const float* gradient;  // (n), 16-byte aligned
  size_t n;               // a multiple of 4
  double* parts;          // (square_parts_of(n))
};
void square_parts(const SquareParts& p, Stream stream);

// One step of AdamW (train/adamw.h) on one parameter.
struct AdamWStep {
  float *value, *mean, *square;  // (n), 16-byte aligned
  const float* gradient;
  uint16_t* half;  // (n), value in FP16, 8-byte aligned
  size_t n;        // a multiple of 4
  // Of all parameters of the head: gradients longer than max_norm are shortened to it.
  const double* parts;
  int n_parts;
  float max_norm;
  float rate, keep, beta1, beta2, epsilon;  // keep: 1 - rate * weight_decay
  float mean_scale, square_scale;           // 1 / (1 - beta^step)
};
void adamw_step(const AdamWStep& p, Stream stream);

}  // namespace specbound::kernels
