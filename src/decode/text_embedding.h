// A text as one vector: the mean over its tokens of the model's final states, normed as for its
// logits, scaled to length 1. What a model without a pooling head of its own can say of a text's
// place among others.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "decode/sessions.h"

namespace specbound {

// One that is being made, a chunk of its text at a time: replies beside it go on in between.
class TextEmbedding {
 public:
  // Holds one of these sessions, which outlive it, until it ends: of those that are held there must
  // be others. What that has read before is read anew after it. `output_norm` (dim): the model's.
  // `text`: 1 to n_ctx tokens, each below vocab_size; outlives it.
  TextEmbedding(Sessions& sessions, std::span<const float> output_norm,
                std::span<const int32_t> text);
  ~TextEmbedding();  // its session is selected then, and empty
  TextEmbedding(const TextEmbedding&) = delete;
  TextEmbedding& operator=(const TextEmbedding&) = delete;

  // Reads up to kPrefillChunk tokens more. Behind the last one, once: the vector (dim), summed in
  // double by ascending position. Throws Error(kFormat) where states are no numbers.
  std::optional<std::vector<float>> go_on();

 private:
  void read(std::span<const int32_t> tokens);
  void add(std::span<const float> state);
  std::vector<float> scaled() const;

  Sessions& sessions_;
  std::span<const float> output_norm_;
  std::span<const int32_t> unread_;
  int sequence_;
  std::vector<double> sum_;  // (dim)
};

}  // namespace specbound
