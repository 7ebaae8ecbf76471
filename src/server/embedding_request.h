// What a client asks of /v1/embeddings, read from JSON as OpenAI's interface has it, and the answer
// to it. What the numbers are is in decode/text_embedding.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace specbound::server {

// As OpenAI has it.
inline constexpr size_t kMaxInputs = 2048, kMaxInputTokens = 300'000;

struct EmbeddingRequest {
  struct Input {
    std::string name;             // in errors: "input", "input[3]"
    std::string text;             // a text,
    std::vector<int32_t> tokens;  // or its ids, where there are any
  };
  std::vector<Input> inputs;
  std::string model;    // as the client calls it; empty: not at all
  bool base64 = false;  // in place of lists of numbers
};

// `dim`: numbers that an embedding has. Throws ApiError(400).
EmbeddingRequest parse_embeddings(std::string_view body, int vocab_size, int dim);

// `base64`: of the numbers as 32-bit floats, the lowest byte first.
std::string embeddings_json(const std::string& model,
                            std::span<const std::vector<float>> embeddings, bool base64,
                            size_t prompt_tokens);

}  // namespace specbound::server
