#include "convert/hf_config.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "convert/hf_rope.h"
#include "convert/json_file.h"
#include "error.h"

namespace specbound {
namespace {

using nlohmann::json;

//   Hugging Face           GGUF     interleaved, norm offset, post norms, fused, qkv bias, qk norm,
//                                   tied, head_dim, theta
constexpr HfArchitecture kArchitectures[] = {
    {"LlamaForCausalLM", "llama", true, false, false, false, false, false, false, 0, 1e4},
    {"MistralForCausalLM", "llama", true, false, false, false, false, false, false, 0, 1e4},
    {"Qwen2ForCausalLM", "qwen2", false, false, false, false, true, false, false, 0, 1e4},
    {"Qwen3ForCausalLM", "qwen3", false, false, false, false, false, true, false, 128, 1e4},
    {"GemmaForCausalLM", "gemma", false, true, false, false, false, false, true, 256, 1e4},
    {"Gemma2ForCausalLM", "gemma2", false, true, true, false, false, false, true, 256, 1e4},
    {"Phi3ForCausalLM", "phi3", false, false, false, true, false, false, false, 0, 1e4},
    {"SmolLM3ForCausalLM", "smollm3", true, false, false, false, false, false, true, 0, 2e6},
};

// Bounds far above any real model, so that products of any three fit 64 bits; the engine's own,
// narrower ones are asked of what is made here.
constexpr uint64_t kMaxSize = uint64_t{1} << 20, kMaxVocab = uint64_t{1} << 23;
constexpr uint64_t kMaxLayers = 4096, kMaxContext = uint64_t{1} << 30;
constexpr uint64_t kSmolLm3NoRopeStep = 4;  // what readers of GGUF take for granted

const HfArchitecture& find_architecture(const JsonObject& file) {
  const json* list = file.find("architectures");
  if (!list || !list->is_array() || list->empty() || !list->front().is_string()) {
    file.bad("architectures", "a list with the name of the model's class",
             list ? json_text(*list) : "no such key");
  }
  const std::string& name = list->front().get_ref<const std::string&>();
  std::string known;
  for (const HfArchitecture& a : kArchitectures) {
    if (name == a.hf_name) return a;
    known += (known.empty() ? "" : ", ") + std::string(a.hf_name);
  }
  file.unsupported("architectures", "one of " + known, "'" + printable(name) + "'");
}

bool is(const HfConfig& config, std::string_view gguf_name) {
  return config.architecture->gguf_name == gguf_name;
}

// What changes the weights or their use and has no place in a GGUF file of these architectures.
void refuse_unknown_features(const JsonObject& file, const HfConfig& config) {
  if (const auto quantization = file.object("quantization_config")) {
    file.unsupported("quantization_config", "weights in F32, F16 or BF16",
                     "'" + printable(quantization->text("quant_method").value_or("some method")) +
                         "': convert the model it was made from");
  }
  for (const char* key : {"num_local_experts", "num_experts", "n_routed_experts"}) {
    if (file.whole(key).value_or(0) > 0) {
      file.unsupported(key, "a dense model", json_text(*file.find(key)) + " experts");
    }
  }
  for (const char* key : {"mlp_bias", "use_bidirectional_attention"}) {
    if (file.flag(key).value_or(false)) file.unsupported(key, "false", "true");
  }
  const bool gelu = config.architecture->norm_offset;
  const char* key = is(config, "gemma2") || (gelu && file.find("hidden_activation"))
                        ? "hidden_activation"
                        : "hidden_act";
  const std::string activation = file.text(key).value_or(gelu ? "gelu_pytorch_tanh" : "silu");
  // Gemma's first files say gelu and mean its tanh approximation, as transformers knows.
  const bool known =
      gelu ? activation == "gelu_pytorch_tanh" || (activation == "gelu" && is(config, "gemma"))
           : activation == "silu" || activation == "swish";
  if (!known) {
    file.unsupported(key, gelu ? "gelu_pytorch_tanh" : "silu", "'" + printable(activation) + "'");
  }
}

void read_biases(const JsonObject& file, HfConfig& config) {
  config.qkv_bias = config.architecture->qkv_bias;
  if (!file.flag("attention_bias").value_or(false)) return;
  const std::string_view name = config.architecture->hf_name;
  if (name != "LlamaForCausalLM" && name != "SmolLM3ForCausalLM" && name != "Qwen3ForCausalLM") {
    file.unsupported("attention_bias", "false", "true");
  }
  config.qkv_bias = config.o_bias = true;
}

// Which layers the window concerns, of those of the model: as listed, or as the class has it.
std::vector<bool> windowed_layers(const JsonObject& file, const HfConfig& config) {
  std::vector<bool> windowed(config.n_layers, true);  // mistral, phi3
  if (const json* types = file.find("layer_types")) {
    if (!types->is_array() || types->size() != config.n_layers) {
      file.bad("layer_types",
               format("a list of %llu", static_cast<unsigned long long>(config.n_layers)),
               json_text(*types));
    }
    for (size_t l = 0; l < types->size(); ++l) {
      const json& type = (*types)[l];
      const std::string name = type.is_string() ? type.get<std::string>() : "";
      windowed[l] = name == "sliding_attention";
      if (!windowed[l] && name != "full_attention") {
        file.unsupported("layer_types", "full_attention or sliding_attention", json_text(type));
      }
    }
  } else if (is(config, "gemma2")) {
    for (size_t l = 0; l < windowed.size(); ++l) windowed[l] = l % 2 == 0;
  } else if (is(config, "qwen2") || is(config, "qwen3")) {
    const uint64_t first = file.bounded("max_window_layers", 0, kMaxContext, 28);
    for (size_t l = 0; l < windowed.size(); ++l) windowed[l] = l >= first;
  } else if (is(config, "smollm3")) {
    for (size_t l = 0; l < windowed.size(); ++l) windowed[l] = (l + 1) % kSmolLm3NoRopeStep == 0;
  }
  return windowed;
}

// transformers looks at a window in some classes only, and in some of these only when told to.
void read_window(const JsonObject& file, HfConfig& config) {
  const std::string_view name = config.architecture->hf_name;
  const bool always = name == "MistralForCausalLM" || is(config, "gemma2") || is(config, "phi3");
  const bool asked = is(config, "qwen2") || is(config, "qwen3") || is(config, "smollm3");
  if (!always && !(asked && file.flag("use_sliding_window").value_or(false))) return;
  const bool stated = file.value().contains("sliding_window");
  std::optional<uint64_t> window = file.whole("sliding_window");
  // The classes' default, in files that do not mention it.
  if (!stated && !is(config, "phi3") && !is(config, "smollm3")) window = 4096;
  if (window && (*window < 1 || *window > kMaxContext)) {
    file.bad("sliding_window", "at least 1", json_text(*file.find("sliding_window")));
  }
  if (!window) {
    if (is(config, "gemma2")) config.window = 0;  // without the key readers take 4096
    return;
  }
  const std::vector<bool> windowed = windowed_layers(file, config);
  const auto count = std::count(windowed.begin(), windowed.end(), true);
  if (count == 0 || *window >= config.max_seq_len) {
    if (is(config, "gemma2")) config.window = count == 0 ? 0 : *window;
    return;
  }
  bool representable = count == std::ssize(windowed);
  if (is(config, "gemma2")) {
    representable = true;
    for (size_t l = 0; l < windowed.size(); ++l) representable &= windowed[l] == (l % 2 == 0);
  }
  if (!representable) {
    file.unsupported("sliding_window",
                     is(config, "gemma2") ? "a window on layers 1, 3, 5, ..."
                                          : "a window on all layers or on none",
                     format("one of %llu on %td of %zu layers",
                            static_cast<unsigned long long>(*window), count, windowed.size()));
  }
  config.window = window;
}

// Readers of GGUF know by the architecture alone which layers of SmolLM3 do not rotate.
void check_smollm3_layers(const JsonObject& file, const HfConfig& config) {
  const json* layers = file.find("no_rope_layers");
  const uint64_t step = file.bounded("no_rope_layer_interval", 1, kMaxContext, kSmolLm3NoRopeStep);
  for (uint64_t l = 0; l < config.n_layers; ++l) {
    bool rotates = (l + 1) % step != 0;
    if (layers) {
      if (!layers->is_array() || layers->size() < config.n_layers ||
          !(*layers)[l].is_number_integer()) {
        file.bad("no_rope_layers", "a list with 0 or 1 for each layer", json_text(*layers));
      }
      rotates = (*layers)[l].get<int64_t>() != 0;
    }
    if (rotates != ((l + 1) % kSmolLm3NoRopeStep != 0)) {
      file.unsupported(
          "no_rope_layers", "every fourth layer without rotation",
          format("another layout, from layer %llu on", static_cast<unsigned long long>(l + 1)));
    }
  }
}

void read_gemma2(const JsonObject& file, HfConfig& config) {
  const auto number = [&](const char* key, double low, double fallback) {
    const double value = file.value().contains(key) ? file.number(key).value_or(0) : fallback;
    if (!(value >= low && value <= 1e6)) {
      file.bad(key, format("a number, %g to 1e6", low), format("%g", value));
    }
    return value;
  };
  // Readers derive it from the sizes, for the model of 46 layers in another way.
  const double scalar = number("query_pre_attn_scalar", 1e-3, 256);
  const uint64_t derived = config.n_layers == 46 ? config.dim / config.n_heads : config.head_dim;
  if (scalar != static_cast<double>(derived)) {
    file.unsupported(
        "query_pre_attn_scalar",
        format("%llu, which readers of GGUF take it for", static_cast<unsigned long long>(derived)),
        format("%g", scalar));
  }
  config.attn_softcap = number("attn_logit_softcapping", 0, 50);
  config.final_softcap = number("final_logit_softcapping", 0, 30);
}

}  // namespace

HfConfig read_hf_config(const json& json_config, const std::string& path) {
  const JsonObject file(json_config, path);
  HfConfig config;
  config.architecture = &find_architecture(file);
  refuse_unknown_features(file, config);

  config.vocab_size = file.bounded("vocab_size", 1, kMaxVocab);
  config.dim = file.bounded("hidden_size", 1, kMaxSize);
  config.ffn_dim = file.bounded("intermediate_size", 1, kMaxSize);
  config.n_layers = file.bounded("num_hidden_layers", 1, kMaxLayers);
  config.n_heads = file.bounded("num_attention_heads", 1, kMaxSize);
  config.n_kv_heads = file.bounded("num_key_value_heads", 1, kMaxSize, config.n_heads);
  const uint64_t usual = config.architecture->head_dim > 0 ? config.architecture->head_dim
                                                           : config.dim / config.n_heads;
  config.head_dim = file.bounded("head_dim", 2, kMaxSize, usual);
  config.head_dim_stated = file.find("head_dim") || config.architecture->head_dim > 0;
  if (config.head_dim % 2 != 0) {
    file.unsupported("head_dim", "an even number",
                     format("%llu", static_cast<unsigned long long>(config.head_dim)));
  }
  config.max_seq_len = file.bounded("max_position_embeddings", 1, kMaxContext);
  const auto norm_eps = file.number("rms_norm_eps");
  if (!norm_eps || !(*norm_eps > 0 && *norm_eps < 1)) {
    file.bad("rms_norm_eps", "a number between 0 and 1",
             norm_eps ? format("%g", *norm_eps) : "no such key");
  }
  config.norm_eps = *norm_eps;
  config.tied = file.flag("tie_word_embeddings").value_or(config.architecture->tied);
  read_biases(file, config);
  config.rope = read_hf_rope(file, config);
  read_window(file, config);
  if (is(config, "smollm3")) check_smollm3_layers(file, config);
  if (is(config, "gemma2")) read_gemma2(file, config);
  return config;
}

void add_config_keys(const HfConfig& config, GgufWriter& writer) {
  const std::string architecture = config.architecture->gguf_name;
  const auto add_uint = [&](const char* name, uint64_t value) {
    writer.add_uint(architecture + "." + name, static_cast<uint32_t>(value));
  };
  const auto add_float = [&](const char* name, double value) {
    writer.add_float(architecture + "." + name, static_cast<float>(value));
  };
  const HfRope& rope = config.rope;
  writer.add_string("general.architecture", architecture);
  if (config.architecture->interleaved) add_uint("vocab_size", config.vocab_size);
  add_uint("context_length", config.max_seq_len);
  add_uint("embedding_length", config.dim);
  add_uint("block_count", config.n_layers);
  add_uint("feed_forward_length", config.ffn_dim);
  add_uint("attention.head_count", config.n_heads);
  add_uint("attention.head_count_kv", config.n_kv_heads);
  if (config.head_dim_stated) {
    add_uint("attention.key_length", config.head_dim);
    add_uint("attention.value_length", config.head_dim);
  }
  add_float("attention.layer_norm_rms_epsilon", config.norm_eps);
  add_float("rope.freq_base", rope.theta);
  if (config.architecture->interleaved || config.architecture->fused) {
    add_uint("rope.dimension_count", rope.dim);
  }
  if (rope.linear_factor > 0) {
    writer.add_string(architecture + ".rope.scaling.type", "linear");
    add_float("rope.scaling.factor", rope.linear_factor);
  }
  if (rope.original_context > 0) {
    add_uint("rope.scaling.original_context_length", rope.original_context);
  }
  if (rope.attn_factor) add_float("rope.scaling.attn_factor", *rope.attn_factor);
  if (config.window) add_uint("attention.sliding_window", *config.window);
  if (config.attn_softcap) add_float("attn_logit_softcapping", *config.attn_softcap);
  if (config.final_softcap) add_float("final_logit_softcapping", *config.final_softcap);
}

}  // namespace specbound
