// Softmax and the Kullback-Leibler divergence of rows of logits, with its gradient.
#pragma once

#include "engine/cpu/thread_pool.h"
#include "train/calibration.h"

namespace specbound {

// Rows z (n, width) become factor * softcap(z) (numerics/float_formula.h); no cap where that is 0.
void cap_rows(ThreadPool& pool, int n, int width, float softcap, float factor, float* z);

// Rows z (n, width) become their softmax in place; entropy (n), in nats, where asked for.
void softmax_rows(ThreadPool& pool, int n, int width, float* z, float* entropy);

// For each row of z (n, width), logits that are still to be capped: with c = softcap(z),
// loss (n) = KL(target || softmax(c)), and z becomes weight (softmax(c) - target) dc/dz, the
// gradient of weight * loss. `entropy` is the target's.
void kl_rows(ThreadPool& pool, int n, int width, float softcap, float* z, const float* target,
             const float* entropy, float weight, float* loss);

// The largest value of a row, where it is (the first), the second largest, and the softmax of the
// largest at two temperatures.
struct TopOfRow {
  int index;
  float first, second;
  float probability, annealed;  // at temperature 1 and at `temperature`
};
TopOfRow top_of_row(const float* z, int width, float temperature);
// The softmax of the row's largest value, `first`, at each learnable_temperature().
ConfidenceCurve confidence_curve(const float* z, int width, float first);

}  // namespace specbound
