// The logarithms of the probabilities that a row of logits gives to tokens: its softmax at
// temperature 1, nothing changed and nothing filtered. What a client may be told beside a token,
// however that was drawn.
//
// They are numerics/log_probability.h's, the same bits on any machine, and never below
// kLeastLogprob, which stands where they are no number, too. The likeliest are by logit descending,
// then id ascending, NaN last, as greedy decoding orders them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace specbound {

// OpenAI's number for what is as good as impossible; JSON has none for -inf.
inline constexpr double kLeastLogprob = -9999;

struct TokenLogprob {
  int32_t id;
  double logprob;
};

struct RowLogprobs {
  TokenLogprob drawn;
  std::vector<TokenLogprob> top;
};

// `logits` (vocab_size >= 1), `drawn` below vocab_size, n_top >= 0; of fewer tokens all.
RowLogprobs row_logprobs(std::span<const float> logits, int32_t drawn, int n_top);

}  // namespace specbound
