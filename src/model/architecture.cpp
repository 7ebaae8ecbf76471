#include "model/architecture.h"

namespace specbound {
namespace {

constexpr Architecture kArchitectures[] = {
    {.name = "llama", .rope_style = RopeStyle::kInterleaved, .window_step = 1},
    {.name = "qwen2", .rope_style = RopeStyle::kHalves, .qkv_bias = true},
    {.name = "qwen3", .rope_style = RopeStyle::kHalves, .qk_norm = true},
    {.name = "qwen3moe", .rope_style = RopeStyle::kHalves, .qk_norm = true, .experts = true},
    {.name = "gemma",
     .rope_style = RopeStyle::kHalves,
     .activation = Activation::kGelu,
     .scaled_embedding = true},
    // The 27B model has 46 layers; GGUF does not store its scale, and llama.cpp, too, knows it by
    // them.
    {.name = "gemma2",
     .rope_style = RopeStyle::kHalves,
     .activation = Activation::kGelu,
     .scaled_embedding = true,
     .window_step = 2,
     .window = 4096,
     .attn_softcap = 50,
     .final_softcap = 30,
     .layers_scaled_by_dim = 46,
     .post_norms = true},
    {.name = "gemma3",  // the 27B model has 62 layers
     .rope_style = RopeStyle::kHalves,
     .activation = Activation::kGelu,
     .scaled_embedding = true,
     .window_step = 6,
     .windowed_rope_theta = 1e4,
     .layers_scaled_by_dim = 62,
     .qk_norm = true,
     .post_norms = true},
    {.name = "phi3",
     .rope_style = RopeStyle::kHalves,
     .partial_rope = true,
     .long_rope = true,
     .window_step = 1,
     .fused = true},
    {.name = "smollm3", .rope_style = RopeStyle::kInterleaved, .no_rope_step = 4},
    {.name = "ernie4_5", .rope_style = RopeStyle::kInterleaved},
};

}  // namespace

std::span<const Architecture> architectures() {
  return kArchitectures;
}

const Architecture* find_architecture(std::string_view name) {
  for (const Architecture& architecture : kArchitectures) {
    if (name == architecture.name) return &architecture;
  }
  return nullptr;
}

}  // namespace specbound
