// AdamW (Loshchilov and Hutter, arXiv 1711.05101) with a clipped gradient, in float.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/cpu/thread_pool.h"

namespace specbound {

// Values that are learnt, what the batch says of them, and the optimizer's memory.
struct Parameter {
  std::vector<float> value, gradient, mean, square;

  void resize(size_t n);  // zeros
};

struct AdamW {
  float weight_decay = 0.01f;
  float beta1 = 0.9f, beta2 = 0.98f, epsilon = 1e-8f;
  float max_norm = 5;  // of all gradients of a head together: longer ones are shortened

  // One step, the `step`-th from 1, for all parameters of one head; gradients are zeroed.
  void step(ThreadPool& pool, std::span<Parameter* const> parameters, int64_t step,
            float rate) const;
};

// What heads of a model with rows of `dim` numbers learn at: 2e-3 up to 576 of them, and less as
// there are more, for what each weight's step changes adds up over a row (Yang et al., Tensor
// Programs V, arXiv 2203.03466: Adam's rate goes with one over the width).
float rate_for(int dim);

// The rate at `done` (0..1) of the training: warm-up over the first 2 %, then half a cosine down to
// 3 % of `peak`.
float learning_rate(float peak, double done);

}  // namespace specbound
