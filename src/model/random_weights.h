// A model of random weights in memory, no file: for measuring speed on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/config.h"
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

}  // namespace specbound
