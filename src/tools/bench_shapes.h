// Shapes of models that exist, and of made-up ones, to measure the speed of with random weights.
#pragma once

#include <string>

namespace specbound {

struct ModelConfig;

struct BenchShape {
  const char* name;
  int n_layers, dim, ffn_dim, n_heads, n_kv_heads, head_dim, vocab_size;

  constexpr int q_dim() const { return n_heads * head_dim; }
  constexpr int kv_dim() const { return n_kv_heads * head_dim; }
};

inline constexpr BenchShape kBenchShapes[] = {
    {"1b", 22, 2048, 5632, 32, 4, 64, 32000},       // TinyLlama 1.1B
    {"7b", 32, 4096, 11008, 32, 32, 128, 32000},    // Llama 2 7B, Vicuna-7B
    {"13b", 40, 5120, 13824, 40, 40, 128, 32000}};  // Llama 2 13B, Vicuna-13B

// What --shape takes, for messages and help.
inline constexpr const char* kBenchShapeHelp = "1b, 7b, 13b or LAYERSxDIMxFFNxHEADSxKVHEADSxVOCAB";

// Of one of the above, or of "LAYERSxDIMxFFNxHEADSxKVHEADSxVOCAB" as in 4x256x704x8x4x512. Throws
// Error(kUsage).
ModelConfig bench_config(const std::string& shape);

}  // namespace specbound
