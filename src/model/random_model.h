// A model and exit heads of random weights in memory, no file, and tokens for any model: they cost
// what trained ones and real texts cost. For measuring speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/config.h"
#include "model/exit_heads.h"
#include "model/weights.h"

namespace specbound {

// Random encoded values of magnitude up to about `scale`, the same for the same seed: of type Q8_0
// (whole blocks) or F16.
void fill_random(std::span<std::byte> bytes, DType type, float scale, uint64_t seed);

class RandomWeights {
 public:
  // `type`: of all matrices, Q8_0 (dim and ffn_dim multiples of 32) or F16.
  RandomWeights(const ModelConfig& config, DType type, uint64_t seed);
  RandomWeights(const RandomWeights&) = delete;
  RandomWeights& operator=(const RandomWeights&) = delete;

  static size_t bytes_needed(const ModelConfig& config, DType type);
  const Weights& weights() const { return weights_; }

 private:
  Weights weights_;
  std::vector<float> ones_;       // all norms
  std::vector<std::byte> bytes_;  // all matrices
};

class RandomHeads {
 public:
  struct Head {
    HeadKind kind = HeadKind::kFolded;
    int layer = 1;
  };
  // `shortlist`: tokens, all that the heads have; the model's first ones. Throws what ExitHeads
  // throws for layers that the model lacks and for a dim that is no multiple of 32.
  RandomHeads(const ModelConfig& config, const std::vector<Head>& heads, int shortlist);

  const ExitHeads& heads() const { return *heads_; }
  int shortlist() const { return static_cast<int>(heads_->shortlist().size()); }

 private:
  std::vector<std::byte> bytes_;  // what a file would hold
  std::unique_ptr<ExitHeads> heads_;
};

// Bytes of one head as stored, before a backend repacks it.
size_t random_head_bytes(const ModelConfig& config, HeadKind kind, int shortlist);

// Tokens that differ from one another without meaning anything, the same every time. Whatever the
// values are, it takes the same time.
std::vector<int32_t> any_tokens(int n, int vocab_size);

}  // namespace specbound
