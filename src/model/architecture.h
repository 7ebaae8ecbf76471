// The architectures that run here, a row each: what sets one apart from llama. A row is read by
// whatever depends on it: the configuration, the tensors of a layer, the conversion from Hugging
// Face. An architecture that needs no new step is a row in architecture.cpp and one in
// convert/hf_config.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "numerics/activation.h"

namespace specbound {

enum class RopeStyle {
  kInterleaved,  // pairs (2i, 2i+1)
  kHalves,       // pairs (i, i + rope_dim/2)
};

struct Architecture {
  const char* name;  // general.architecture
  RopeStyle rope_style;

  // What a file may say is here as its default; see ModelConfig.
  Activation activation = Activation::kSilu;
  bool scaled_embedding = false;
  bool partial_rope = false;  // rope may leave the end of a head as it is
  bool long_rope = false;     // may have frequency factors for short and for long contexts
  int no_rope_step = 0;
  int window_step = 0;  // 0: which layers have a window is not known here; from 2 on a file may say
  uint64_t window = 0;
  double windowed_rope_theta = 0;  // of layers that may have one, which nothing scales; 0: as all
  double attn_softcap = 0, final_softcap = 0;  // 0: computes none
  // A model of so many layers divides its scores by sqrt(dim / n_heads), not by sqrt(head_dim).
  int layers_scaled_by_dim = 0;

  // The tensors of a layer.
  bool qkv_bias = false;    // always there; others have them now and then
  bool qk_norm = false;     // of each query and key head
  bool post_norms = false;  // of what attention and feed-forward add
  bool fused = false;       // q, k and v in one matrix, gate and up in another
  bool experts = false;     // a mixture of feed-forwards, in every layer
};

std::span<const Architecture> architectures();
const Architecture* find_architecture(std::string_view name);  // null: it cannot run here

}  // namespace specbound
