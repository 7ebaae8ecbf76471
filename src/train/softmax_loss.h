// Softmax and the Kullback-Leibler divergence of rows of logits, with its gradient.
#pragma once

#include "engine/cpu/thread_pool.h"

namespace specbound {

// Rows z (n, width) become their softmax in place; entropy (n), in nats, where asked for.
void softmax_rows(ThreadPool& pool, int n, int width, float* z, float* entropy);

// For each row of z (n, width), logits: loss (n) = KL(target || softmax(z)), and z becomes
// weight (softmax(z) - target), the gradient of weight * loss. `entropy` is the target's.
void kl_rows(ThreadPool& pool, int n, int width, float* z, const float* target,
             const float* entropy, float weight, float* loss);

// The largest value of a row, where it is (the first), the second largest, and the softmax of the
// largest at two temperatures.
struct TopOfRow {
  int index;
  float first, second;
  float probability, annealed;  // at temperature 1 and at `temperature`
};
TopOfRow top_of_row(const float* z, int width, float temperature);

}  // namespace specbound
