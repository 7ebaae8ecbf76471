// config.json of a Hugging Face model directory: what the model is, and the GGUF keys that say so,
// named as llama.cpp's convert_hf_to_gguf.py names them. What no GGUF file of the architecture can
// say is refused by name: experts in some layers only, quantized checkpoints, biases and windows
// that no reader would look for.
//
// What the file leaves out is what transformers takes for it. Rotary embeddings are read in both
// spellings, `rope_theta` with `rope_scaling` and `rope_parameters`.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/architecture.h"
#include "model/gguf_writer.h"

namespace specbound {

// When transformers looks at a window.
enum class HfWindow { kNone, kAlways, kWhenAsked };
// The layers that it concerns in files that do not list them.
enum class HfWindowLayers {
  kAsModel,         // those that the row of model/architecture.cpp says
  kFromSomeOn,      // from max_window_layers on
  kWithoutRotation  // those that rotate nothing
};

// The projections that attention_bias in the file gives biases to; none: no model has it.
enum class HfBias { kNone, kQkv, kAll };

// Tensors of multi-token prediction in a model's checkpoint, which published_heads.h reads.
inline constexpr const char* kMtpLayers = "model.mtp_layers.";
inline constexpr const char* kMtpCount = "num_nextn_predict_layers";

// A class of transformers: what is not the same in all of them and not said by the GGUF name.
struct HfArchitecture {
  const char* hf_name;    // "LlamaForCausalLM"
  const char* gguf_name;  // "llama": the row of model/architecture.cpp
  // Unless the file says otherwise; head_dim 0: hidden size over heads.
  bool tied = false;
  int head_dim = 0;
  double rope_theta = 1e4;

  bool norm_offset = false;  // norms hold weight - 1
  bool in_pairs = false;     // query and key heads are in interleaved pairs here already
  bool old_gelu = false;     // the first files said gelu for its tanh approximation
  HfBias attention_bias = HfBias::kNone;
  HfWindow window = HfWindow::kNone;
  HfWindowLayers window_layers = HfWindowLayers::kAsModel;
  int window_size = 0;  // of files that do not mention it; 0: none
  double query_pre_attn_scalar =
      0;             // what such files mean; 0: scores are divided by sqrt(head_dim)
  bool mtp = false;  // it may have kMtpLayers
};

// Rotary embedding: how positions become angles.
struct HfRope {
  double theta = 0;
  double windowed_theta = 0;             // of windowed layers; 0: as elsewhere
  uint64_t dim = 0;                      // first numbers of a head that are rotated
  double linear_factor = 0;              // positions are divided by it; 0: no scaling of this kind
  double yarn_factor = 0;                // 0: no YaRN
  double beta_fast = 32, beta_slow = 1;  // YaRN
  uint64_t original_context = 0;         // phi3 and YaRN; else 0
  std::optional<double> attn_factor;     // phi3 with long factors; YaRN where not the usual one
  std::vector<float> factors;            // (dim/2) divisors of frequencies: llama3 scaling
  std::vector<float> short_factors, long_factors;  // (dim/2) likewise: longrope
};

struct HfConfig {
  const HfArchitecture* architecture = nullptr;
  const Architecture* model = nullptr;
  uint64_t vocab_size = 0;
  uint64_t dim = 0, ffn_dim = 0;
  // Of a mixture: in each layer, of them for a row, and numbers of one's inside.
  uint64_t n_experts = 0, n_experts_used = 0, expert_ffn_dim = 0;
  uint64_t n_layers = 0, n_heads = 0, n_kv_heads = 0, head_dim = 0;
  bool head_dim_stated = false;
  uint64_t max_seq_len = 0;
  double norm_eps = 0;
  bool tied = false;
  bool qkv_bias = false, o_bias = false;
  HfRope rope;
  std::optional<uint64_t> window;  // keys that a row sees, on layers that the model's row says
  std::optional<double> attn_softcap, final_softcap;  // gemma2: 0 for none

  uint64_t q_dim() const { return n_heads * head_dim; }
  uint64_t kv_dim() const { return n_kv_heads * head_dim; }
  // GGUF has the rows of query and key heads in interleaved pairs.
  bool interleaved() const { return model->rope_style == RopeStyle::kInterleaved; }
};

// "LlamaForCausalLM, ...": the classes that are read.
std::string hf_class_names();

// `path` names the file in messages. Throws Error(kFormat) for missing or senseless values,
// Error(kUnsupported) for what cannot be represented.
HfConfig read_hf_config(const nlohmann::json& config, const std::string& path);

// The keys "{architecture}.*" and general.architecture.
void add_config_keys(const HfConfig& config, GgufWriter& writer);

}  // namespace specbound
