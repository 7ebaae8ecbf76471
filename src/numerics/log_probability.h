// The logarithm of a probability under the softmax of a row of logits, for measuring a model.
#pragma once

#include <cstdint>
#include <span>

namespace specbound {

// log(softmax(z)[token]), in nats: the sum in double over exact_exp(), in a written order, so that
// the same logits give the same bits everywhere. NaN where a logit is NaN or +infinity, or all are
// -infinity; -infinity for a token whose own logit is that. 0 <= token < z.size().
double log_probability(std::span<const float> z, int32_t token);

}  // namespace specbound
