// Logarithms of probabilities as OpenAI's interface has them: of chats, and of completions, whose
// form is older. What they are of is in decode/row_logprobs.h.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace specbound::server {

struct PieceLogprob {
  std::string piece;  // the bytes of the token, whatever they are
  double logprob = 0;
};

// Of one token of a reply.
struct TokenLogprobs {
  PieceLogprob drawn;
  std::vector<PieceLogprob> top;  // the likeliest in its place, in their order
  size_t offset = 0;              // characters of the reply before it
};

// {"content": [{"token", "logprob", "bytes", "top_logprobs"}, ...], "refusal": null}
nlohmann::ordered_json chat_logprobs(std::span<const TokenLogprobs> tokens);
// {"tokens": [..], "token_logprobs": [..], "top_logprobs": [{token: logprob}, ..], "text_offset":
// [..]}. As OpenAI has it, the token that was drawn is among its top.
nlohmann::ordered_json completion_logprobs(std::span<const TokenLogprobs> tokens);

}  // namespace specbound::server
