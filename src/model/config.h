// What a model is: the numbers every floor above needs, read once from GGUF metadata. Loaders map
// the many spellings to ours at this door.
#pragma once

#include <optional>
#include <string>

#include "model/architecture.h"
#include "model/gguf.h"
#include "numerics/activation.h"

namespace specbound {

// YaRN (Peng et al. 2023, "YaRN: Efficient Context Window Extension of Large Language Models"):
// rope_scale slows pairs of a head from `first` (not at all) to `last` (by all of it, as the pairs
// behind), those between by a part. 0 <= first <= last.
struct Yarn {
  double first = 0, last = 0;
};

// Positions and pairs are slowed down by factors; smaller ones would turn so fast that sines lose
// their meaning.
inline constexpr double kLeastRopeFactor = 1.0 / 16;

struct ModelConfig {
  std::string architecture;  // the name of one of architectures()
  std::string name;          // general.name, may be empty
  int dim = 0;               // d, the width of a hidden row
  int ffn_dim = 0;           // of an expert, where there are any
  // A mixture of feed-forwards in each layer, and how many of them a row takes, 1..n_experts.
  // 0: one feed-forward, for all.
  int n_experts = 0, n_experts_used = 0;
  int n_layers = 0;    // L
  int n_heads = 0;     // query heads
  int n_kv_heads = 0;  // divides n_heads
  int head_dim = 0;  // of a query, key and value head; q_dim = n_heads * head_dim, need not be dim
  int vocab_size = 0;
  // Trained context; where the file names a window but not its layers, no longer than that: up to
  // there it hides nothing.
  int max_seq_len = 0;
  float norm_eps = 0;
  double rope_theta = 10000.0;
  double rope_scale = 1;     // linear scaling: positions are divided by this
  std::optional<Yarn> yarn;  // or only of some pairs
  // Of windowed layers, where it is another one, which nothing scales (gemma3). 0: as elsewhere.
  double windowed_rope_theta = 0;
  RopeStyle rope_style = RopeStyle::kInterleaved;
  int rope_dim = 0;  // first numbers of a head that are rotated: even, 2..head_dim
  // Layers that are multiples of this rotate nothing (smollm3: 4). 0: all rotate.
  int no_rope_step = 0;
  // Past this context the long factors of phi3 hold, up to it the short ones. 0: none of them.
  int rope_original_context = 0;
  float rope_attn_factor = 1;  // cosines and sines are multiplied by it (phi3, YaRN)

  Activation activation = Activation::kSilu;
  float embedding_scale = 1;  // rows of the embedding are multiplied by it: gemma, sqrt(dim)
  float score_scale = 0;      // of attention scores: 1/sqrt(head_dim) nearly everywhere
  // cap * tanh(x / cap), of attention scores after score_scale and of logits. 0: none.
  float attn_softcap = 0, final_softcap = 0;
  // Keys that a row of a windowed layer sees, itself among them. 0: all.
  int window = 0;
  // Each window_step-th layer sees all (gemma2: 2, gemma3: 6), others are windowed. 1: all are.
  int window_step = 1;

  int q_dim() const { return n_heads * head_dim; }
  int kv_dim() const { return n_kv_heads * head_dim; }
  int n_rotations() const { return windowed_rope_theta > 0 ? 2 : 1; }
  // Of layer 1..n_layers:
  bool is_windowed(int layer) const { return window_step == 1 || layer % window_step != 0; }
  int window_of(int layer) const { return is_windowed(layer) ? window : 0; }
  bool rotates(int layer) const { return no_rope_step == 0 || layer % no_rope_step != 0; }
  // Which of the n_rotations: 1 is that of windowed layers where they have their own.
  int rotation_of(int layer) const { return n_rotations() > 1 && is_windowed(layer) ? 1 : 0; }
};

// Throws Error(kUnsupported) naming the architecture or feature that cannot run here,
// Error(kFormat) for missing or senseless values. llama3 scaling lives in the tensor
// rope_freqs.weight, not here.
ModelConfig read_config(const Gguf& gguf);

}  // namespace specbound
