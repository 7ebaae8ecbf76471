#include "convert/hf_config.h"

#include <algorithm>

#include "convert/hf_rope.h"
#include "error.h"
#include "json/json_reader.h"

namespace specbound {
namespace {

using nlohmann::json;

constexpr HfArchitecture kArchitectures[] = {
    {.hf_name = "LlamaForCausalLM", .gguf_name = "llama", .attention_bias = HfBias::kAll},
    {.hf_name = "MistralForCausalLM",
     .gguf_name = "llama",
     .window = HfWindow::kAlways,
     .window_size = 4096},
    {.hf_name = "Qwen2ForCausalLM",
     .gguf_name = "qwen2",
     .window = HfWindow::kWhenAsked,
     .window_layers = HfWindowLayers::kFromSomeOn,
     .window_size = 4096},
    {.hf_name = "MiMoForCausalLM",
     .gguf_name = "qwen2",
     .attention_bias = HfBias::kQkv,
     .window = HfWindow::kWhenAsked,
     .window_layers = HfWindowLayers::kFromSomeOn,
     .window_size = 4096,
     .mtp = true},
    {.hf_name = "Qwen3ForCausalLM",
     .gguf_name = "qwen3",
     .head_dim = 128,
     .attention_bias = HfBias::kAll,
     .window = HfWindow::kWhenAsked,
     .window_layers = HfWindowLayers::kFromSomeOn,
     .window_size = 4096},
    {.hf_name = "Qwen3MoeForCausalLM",
     .gguf_name = "qwen3moe",
     .attention_bias = HfBias::kAll,
     .window = HfWindow::kWhenAsked,
     .window_size = 4096},
    {.hf_name = "GemmaForCausalLM",
     .gguf_name = "gemma",
     .tied = true,
     .head_dim = 256,
     .norm_offset = true,
     .old_gelu = true},
    {.hf_name = "Gemma2ForCausalLM",
     .gguf_name = "gemma2",
     .tied = true,
     .head_dim = 256,
     .norm_offset = true,
     .window = HfWindow::kAlways,
     .window_size = 4096,
     .query_pre_attn_scalar = 256},
    {.hf_name = "Gemma3ForCausalLM",
     .gguf_name = "gemma3",
     .tied = true,
     .head_dim = 256,
     .rope_theta = 1e6,
     .norm_offset = true,
     .window = HfWindow::kAlways,
     .window_size = 4096,
     .query_pre_attn_scalar = 256},
    {.hf_name = "Phi3ForCausalLM", .gguf_name = "phi3", .window = HfWindow::kAlways},
    {.hf_name = "SmolLM3ForCausalLM",
     .gguf_name = "smollm3",
     .tied = true,
     .rope_theta = 2e6,
     .attention_bias = HfBias::kAll,
     .window = HfWindow::kWhenAsked,
     .window_layers = HfWindowLayers::kWithoutRotation},
    {.hf_name = "Ernie4_5ForCausalLM",
     .gguf_name = "ernie4_5",
     .tied = true,
     .head_dim = 128,
     .rope_theta = 5e5,
     .in_pairs = true},
};

// Bounds far above any real model, so that products of any three fit 64 bits; the engine's own,
// narrower ones are asked of what is made here.
constexpr uint64_t kMaxSize = uint64_t{1} << 20, kMaxVocab = uint64_t{1} << 23;
constexpr uint64_t kMaxLayers = 4096, kMaxContext = uint64_t{1} << 30;

const HfArchitecture& class_of(const JsonObject& file) {
  const json* list = file.find("architectures");
  if (!list || !list->is_array() || list->empty() || !list->front().is_string()) {
    file.bad("architectures", "a list with the name of the model's class",
             list ? json_text(*list) : "no such key");
  }
  const std::string& name = list->front().get_ref<const std::string&>();
  for (const HfArchitecture& a : kArchitectures) {
    if (name == a.hf_name) return a;
  }
  file.unsupported("architectures", "one of " + hf_class_names(), "'" + printable(name) + "'");
}

// What changes the weights or their use and has no place in a GGUF file of these architectures.
void refuse_unknown_features(const JsonObject& file, const HfConfig& config) {
  if (const auto quantization = file.object("quantization_config")) {
    file.unsupported("quantization_config", "weights in F32, F16 or BF16",
                     "'" + printable(quantization->text("quant_method").value_or("some method")) +
                         "': convert the model it was made from");
  }
  for (const char* key : {"num_local_experts", "num_experts", "n_routed_experts"}) {
    if (config.model->experts) break;
    if (file.whole(key).value_or(0) > 0) {
      file.unsupported(key, "a dense model", json_text(*file.find(key)) + " experts");
    }
  }
  for (const char* key : {"mlp_bias", "use_bias", "use_bidirectional_attention"}) {
    if (file.flag(key).value_or(false)) file.unsupported(key, "false", "true");
  }
  const bool gelu = config.model->activation == Activation::kGelu;
  const bool old_gelu = config.architecture->old_gelu;
  const char* key =
      gelu && (!old_gelu || file.find("hidden_activation")) ? "hidden_activation" : "hidden_act";
  const std::string activation = file.text(key).value_or(gelu ? "gelu_pytorch_tanh" : "silu");
  // In the key of old files "gelu" was a mistake; who writes the newer one means it.
  const bool mistaken = activation == "gelu" && old_gelu && !file.find("hidden_activation");
  const bool known = gelu ? activation == "gelu_pytorch_tanh" || mistaken
                          : activation == "silu" || activation == "swish";
  if (!known) {
    file.unsupported(key, gelu ? "gelu_pytorch_tanh" : "silu", "'" + printable(activation) + "'");
  }
}

// Readers of GGUF look for experts in every layer, and divide the weights of a row's by their sum.
void read_experts(const JsonObject& file, HfConfig& config) {
  const char* count = file.find("num_experts") ? "num_experts" : "num_local_experts";
  config.n_experts = file.bounded(count, 1, kMaxSize, 128);
  config.n_experts_used = file.bounded("num_experts_per_tok", 1, config.n_experts, 8);
  config.expert_ffn_dim = file.bounded("moe_intermediate_size", 1, kMaxSize, 768);
  if (!file.flag("norm_topk_prob").value_or(false)) {
    const json* found = file.find("norm_topk_prob");
    file.unsupported("norm_topk_prob", "true", found ? "false" : "no such key, which means false");
  }
  if (const uint64_t step = file.bounded("decoder_sparse_step", 1, kMaxLayers, 1); step != 1) {
    file.unsupported("decoder_sparse_step", "1, experts in every layer", std::to_string(step));
  }
  if (const json* dense = file.find("mlp_only_layers");
      dense && !(dense->is_array() && dense->empty())) {
    file.unsupported("mlp_only_layers", "none", json_text(*dense));
  }
}

void read_biases(const JsonObject& file, HfConfig& config) {
  config.qkv_bias = config.model->qkv_bias;
  if (!file.flag("attention_bias").value_or(false)) return;
  const HfBias bias = config.architecture->attention_bias;
  if (bias == HfBias::kNone) file.unsupported("attention_bias", "false", "true");
  config.qkv_bias = true;
  config.o_bias = bias == HfBias::kAll;
}

// All layers have the window but each window_step-th, where not all do.
uint64_t window_step(const HfConfig& config) {
  return std::max(config.model->window_step, 1);
}

// Of layer l + 1.
bool is_windowed(uint64_t l, uint64_t step) {
  return step == 1 || (l + 1) % step != 0;
}

uint64_t no_rope_step(const HfConfig& config) {
  return config.model->no_rope_step;
}

// Which layers the window concerns, of those of the model: as listed, or as the class has it.
std::vector<bool> windowed_layers(const JsonObject& file, const HfConfig& config) {
  std::vector<bool> windowed(config.n_layers);
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
    return windowed;
  }
  const uint64_t step = file.bounded("sliding_window_pattern", 1, kMaxContext, window_step(config));
  const bool from_some_on = config.architecture->window_layers == HfWindowLayers::kFromSomeOn;
  const uint64_t first = from_some_on ? file.bounded("max_window_layers", 0, kMaxContext, 28) : 0;
  for (size_t l = 0; l < windowed.size(); ++l) {
    switch (config.architecture->window_layers) {
      case HfWindowLayers::kAsModel:
        windowed[l] = is_windowed(l, step);
        break;
      case HfWindowLayers::kFromSomeOn:
        windowed[l] = l >= first;
        break;
      case HfWindowLayers::kWithoutRotation:
        windowed[l] = (l + 1) % no_rope_step(config) == 0;
        break;
    }
  }
  return windowed;
}

// transformers looks at a window in some classes only, and in some of these only when told to.
void read_window(const JsonObject& file, HfConfig& config) {
  const HfArchitecture& architecture = *config.architecture;
  const bool asked = architecture.window == HfWindow::kWhenAsked &&
                     file.flag("use_sliding_window").value_or(false);
  if (architecture.window != HfWindow::kAlways && !asked) return;
  const bool stated = file.value().contains("sliding_window");
  std::optional<uint64_t> window = file.whole("sliding_window");
  if (!stated && architecture.window_size > 0) window = architecture.window_size;
  if (window && (*window < 1 || *window > kMaxContext)) {
    file.bad("sliding_window", "at least 1", json_text(*file.find("sliding_window")));
  }
  // Windowed layers rotate in their own way, whatever the window hides.
  const bool has_to_be = config.model->windowed_rope_theta > 0;
  if (!window) {
    if (has_to_be) file.unsupported("sliding_window", "a window", "null");
    if (config.model->window > 0) config.window = 0;  // without the key readers take their own
    return;
  }
  const std::vector<bool> windowed = windowed_layers(file, config);
  const auto count = std::count(windowed.begin(), windowed.end(), true);
  if (!has_to_be && (count == 0 || *window >= config.max_seq_len)) {
    if (config.model->window > 0) config.window = count == 0 ? 0 : *window;
    return;
  }
  const uint64_t step = window_step(config);
  bool representable = true;
  for (size_t l = 0; l < windowed.size(); ++l) representable &= windowed[l] == is_windowed(l, step);
  if (!representable) {
    file.unsupported("sliding_window",
                     step > 1 ? format("a window on all layers but %llu, %llu, ...",
                                       static_cast<unsigned long long>(step),
                                       static_cast<unsigned long long>(2 * step))
                              : "a window on all layers or on none",
                     format("one of %llu on %td of %zu layers",
                            static_cast<unsigned long long>(*window), count, windowed.size()));
  }
  config.window = window;
}

// Readers of GGUF know by the architecture alone which layers do not rotate.
void check_rotating_layers(const JsonObject& file, const HfConfig& config) {
  const json* layers = file.find("no_rope_layers");
  const uint64_t usual = no_rope_step(config);
  const uint64_t step = file.bounded("no_rope_layer_interval", 1, kMaxContext, usual);
  for (uint64_t l = 0; l < config.n_layers; ++l) {
    bool rotates = (l + 1) % step != 0;
    if (layers) {
      if (!layers->is_array() || layers->size() < config.n_layers ||
          !(*layers)[l].is_number_integer()) {
        file.bad("no_rope_layers", "a list with 0 or 1 for each layer", json_text(*layers));
      }
      rotates = (*layers)[l].get<int64_t>() != 0;
    }
    if (rotates != ((l + 1) % usual != 0)) {
      file.unsupported(
          "no_rope_layers",
          format("one layer of %llu without rotation", static_cast<unsigned long long>(usual)),
          format("another layout, from layer %llu on", static_cast<unsigned long long>(l + 1)));
    }
  }
}

void read_scores(const JsonObject& file, HfConfig& config) {
  const auto number = [&](const char* key, double low, double fallback) {
    const double value = file.value().contains(key) ? file.number(key).value_or(0) : fallback;
    if (!(value >= low && value <= 1e6)) {
      file.bad(key, format("a number, %g to 1e6", low), format("%g", value));
    }
    return value;
  };
  // Readers derive it from the sizes.
  const double scalar =
      number("query_pre_attn_scalar", 1e-3, config.architecture->query_pre_attn_scalar);
  const bool by_dim = config.n_layers == static_cast<uint64_t>(config.model->layers_scaled_by_dim);
  const uint64_t derived = by_dim ? config.dim / config.n_heads : config.head_dim;
  if (scalar != static_cast<double>(derived)) {
    file.unsupported(
        "query_pre_attn_scalar",
        format("%llu, which readers of GGUF take it for", static_cast<unsigned long long>(derived)),
        format("%g", scalar));
  }
  const auto cap = [&](const char* key, double usual) -> std::optional<double> {
    const double value = number(key, 0, usual);
    if (usual > 0) return value;
    if (value > 0) file.unsupported(key, "null", format("%g", value));
    return std::nullopt;
  };
  config.attn_softcap = cap("attn_logit_softcapping", config.model->attn_softcap);
  config.final_softcap = cap("final_logit_softcapping", config.model->final_softcap);
}

}  // namespace

std::string hf_class_names() {
  return joined(kArchitectures, ", ", [](const HfArchitecture& a) { return a.hf_name; });
}

HfConfig read_hf_config(const json& json_config, const std::string& path) {
  const JsonObject file(json_config, path);
  HfConfig config;
  config.architecture = &class_of(file);
  config.model = find_architecture(config.architecture->gguf_name);
  SB_CHECK(config.model);
  refuse_unknown_features(file, config);

  config.vocab_size = file.bounded("vocab_size", 1, kMaxVocab);
  config.dim = file.bounded("hidden_size", 1, kMaxSize);
  config.ffn_dim = file.bounded("intermediate_size", 1, kMaxSize);
  if (config.model->experts) read_experts(file, config);
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
  if (no_rope_step(config) > 0) check_rotating_layers(file, config);
  if (config.architecture->query_pre_attn_scalar > 0) read_scores(file, config);
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
  if (config.interleaved()) add_uint("vocab_size", config.vocab_size);
  add_uint("context_length", config.max_seq_len);
  add_uint("embedding_length", config.dim);
  add_uint("block_count", config.n_layers);
  add_uint("feed_forward_length", config.ffn_dim);
  if (config.n_experts > 0) {
    add_uint("expert_count", config.n_experts);
    add_uint("expert_used_count", config.n_experts_used);
    add_uint("expert_feed_forward_length", config.expert_ffn_dim);
  }
  add_uint("attention.head_count", config.n_heads);
  add_uint("attention.head_count_kv", config.n_kv_heads);
  if (config.head_dim_stated) {
    add_uint("attention.key_length", config.head_dim);
    add_uint("attention.value_length", config.head_dim);
  }
  add_float("attention.layer_norm_rms_epsilon", config.norm_eps);
  add_float("rope.freq_base", rope.theta);
  if (rope.windowed_theta > 0) add_float("rope.freq_base_swa", rope.windowed_theta);
  if (config.interleaved() || config.model->partial_rope) {
    add_uint("rope.dimension_count", rope.dim);
  }
  if (rope.linear_factor > 0) {
    writer.add_string(architecture + ".rope.scaling.type", "linear");
    add_float("rope.scaling.factor", rope.linear_factor);
  }
  if (rope.yarn_factor > 0) {
    writer.add_string(architecture + ".rope.scaling.type", "yarn");
    add_float("rope.scaling.factor", rope.yarn_factor);
    add_float("rope.scaling.yarn_beta_fast", rope.beta_fast);
    add_float("rope.scaling.yarn_beta_slow", rope.beta_slow);
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
