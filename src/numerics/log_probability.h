// The logarithm of a probability under the softmax of a row of logits, for measuring a model and
// for who asks what it thinks.
#pragma once

#include <cstdint>
#include <span>

namespace specbound {

// What all probabilities of a row have in common: the largest logit, and the logarithm of the sum
// of exp(logit - largest), in double over exact_exp() in a written order, so that the same logits
// give the same bits everywhere. `log_sum` is NaN where a logit is NaN or +infinity, or all are
// -infinity.
struct SoftmaxScale {
  double largest, log_sum;
};
SoftmaxScale softmax_scale(std::span<const float> z);

// log(softmax(z)[token]), in nats; NaN where the scale is, -infinity for a token whose own logit is
// that. 0 <= token < z.size().
double log_probability(std::span<const float> z, int32_t token, const SoftmaxScale& scale);
inline double log_probability(std::span<const float> z, int32_t token) {
  return log_probability(z, token, softmax_scale(z));
}

}  // namespace specbound
