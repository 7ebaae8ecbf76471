// What a model is: the numbers every floor above needs, read once from GGUF metadata. Loaders map
// the many spellings to ours at this door.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/gguf.h"

namespace specbound {

enum class RopeStyle {
  kInterleaved,  // pairs (2i, 2i+1): llama
  kHalves,       // pairs (i, i + head_dim/2): qwen2, qwen3
};

struct ModelConfig {
  std::string architecture;  // "llama", "qwen2", "qwen3"
  std::string name;          // general.name, may be empty
  int dim = 0;               // d, the width of a hidden row
  int ffn_dim = 0;
  int n_layers = 0;    // L
  int n_heads = 0;     // query heads
  int n_kv_heads = 0;  // divides n_heads
  int head_dim = 0;  // of a query, key and value head; q_dim = n_heads * head_dim, need not be dim
  int vocab_size = 0;
  // Trained context, cut to the attention's sliding window where the file names one: up to there
  // the window hides nothing, so full attention computes the same model.
  int max_seq_len = 0;
  float norm_eps = 0;
  double rope_theta = 10000.0;
  double rope_scale = 1;  // linear scaling: positions are divided by this
  RopeStyle rope_style = RopeStyle::kInterleaved;

  int q_dim() const { return n_heads * head_dim; }
  int kv_dim() const { return n_kv_heads * head_dim; }
};

// Throws Error(kUnsupported) naming the architecture or feature that cannot run here,
// Error(kFormat) for missing or senseless values. llama3 scaling lives in the tensor
// rope_freqs.weight, not here.
ModelConfig read_config(const Gguf& gguf);

}  // namespace specbound
