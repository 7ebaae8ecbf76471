#include "model/config.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <string_view>

#include "error.h"
#include "numerics/exact_math.h"

namespace specbound {
namespace {

// Bounds far above any real model; with them every product the engine forms fits an int.
constexpr uint64_t kMaxDim = 1 << 17;
constexpr uint64_t kMaxFfnDim = 1 << 20;
constexpr uint64_t kMaxExperts = 1024;
constexpr uint64_t kMaxLayers = 4096;
constexpr uint64_t kMaxHeads = 4096;
constexpr uint64_t kMaxHeadDim = 256;
constexpr uint64_t kHeadDimStep = 8;
constexpr uint64_t kMaxVocab = 1 << 23;
constexpr uint64_t kMaxContext = 1 << 30;

// Metadata keys of one architecture, "{architecture}.name": every complaint names file and key.
class ConfigKeys {
 public:
  ConfigKeys(const Gguf& gguf, const std::string& architecture)
      : gguf_(gguf), architecture_(architecture) {}

  std::string key(const char* name) const { return architecture_ + "." + name; }

  std::optional<double> number(const char* name) const { return gguf_.get_float(key(name)); }
  std::optional<std::string_view> text(const char* name) const {
    return gguf_.get_string(key(name));
  }

  // A whole number; some writers store one per layer, which is taken when all layers agree.
  std::optional<uint64_t> count(const char* name) const {
    const GgufValue* value = gguf_.find(key(name));
    if (!value || !value->is_array) return gguf_.get_uint(key(name));
    const std::vector<int32_t> layers = *gguf_.get_ints(key(name));
    if (layers.empty()) bad(name, "one number or one per layer", "an empty list");
    if (layers[0] < 0) bad(name, "a whole number", format("%d", layers[0]));
    for (size_t l = 1; l < layers.size(); ++l) {
      if (layers[l] != layers[0]) {
        unsupported(name, "the same number for all layers",
                    format("%d and %d", layers[0], layers[l]));
      }
    }
    return layers[0];
  }

  // A required (or defaulted) whole number within bounds.
  int bounded(const char* name, uint64_t low, uint64_t high,
              std::optional<uint64_t> fallback = std::nullopt) const {
    const std::optional<uint64_t> found = count(name);
    if (!found && !fallback) bad(name, "a whole number", "no such key");
    const uint64_t value = found ? *found : *fallback;
    if (value < low || value > high) {
      bad(name,
          format("%llu to %llu", static_cast<unsigned long long>(low),
                 static_cast<unsigned long long>(high)),
          format("%llu%s", static_cast<unsigned long long>(value), found ? "" : " (by default)"));
    }
    return static_cast<int>(value);
  }

  [[noreturn]] void bad(const char* name, const std::string& expected,
                        const std::string& found) const {
    fail(ErrorCode::kFormat, name, expected, found);
  }
  [[noreturn]] void unsupported(const char* name, const std::string& expected,
                                const std::string& found) const {
    fail(ErrorCode::kUnsupported, name, expected, found);
  }

 private:
  [[noreturn]] void fail(ErrorCode code, const char* name, const std::string& expected,
                         const std::string& found) const {
    throw Error(code, format("%s: key '%s': expected %s, found %s", gguf_.path().c_str(),
                             key(name).c_str(), expected.c_str(), found.c_str()));
  }

  const Gguf& gguf_;
  const std::string architecture_;
};

const Architecture& architecture_of(const Gguf& gguf) {
  const auto name = gguf.get_string("general.architecture");
  if (const Architecture* found = name ? find_architecture(*name) : nullptr) return *found;
  const std::string known =
      joined(architectures(), ", ", [](const Architecture& a) { return a.name; });
  if (!name) {
    throw Error(ErrorCode::kFormat,
                format("%s: key 'general.architecture': expected one of %s, found no such key",
                       gguf.path().c_str(), known.c_str()));
  }
  throw Error(ErrorCode::kUnsupported,
              format("%s: architecture '%s' cannot run here; supported: %s", gguf.path().c_str(),
                     printable(*name).c_str(), known.c_str()));
}

// Files that are well-formed but no whole model: adapters, projectors, one part of several (parsed
// by itself).
void refuse_partial_models(const Gguf& gguf) {
  const std::string_view type = gguf.get_string("general.type").value_or("model");
  if (type != "model") {
    throw Error(ErrorCode::kUnsupported,
                format("%s: key 'general.type': expected a 'model', found '%s'",
                       gguf.path().c_str(), printable(type).c_str()));
  }
  const uint64_t parts = gguf.get_uint("split.count").value_or(0);
  if (parts > gguf.parts().size()) {
    throw Error(ErrorCode::kUnsupported,
                format("%s: expected a whole model, found one of %llu parts: open the first of its "
                       "files, with the others beside it",
                       gguf.path().c_str(), static_cast<unsigned long long>(parts)));
  }
}

// Features that change what a layer computes and that nothing here computes.
void refuse_unknown_mathematics(const Gguf& gguf, const ConfigKeys& keys) {
  if (!gguf.get_bool(keys.key("attention.causal")).value_or(true)) {
    keys.unsupported("attention.causal", "true", "false (an embedding model)");
  }
  struct Neutral {
    const char* name;
    double also;  // besides 0, which means "not used" everywhere
  };
  for (const Neutral& n : {Neutral{"attention.scale", 0}, Neutral{"attention.clamp_kqv", 0},
                           Neutral{"attention.max_alibi_bias", 0}, Neutral{"logit_scale", 1},
                           Neutral{"embedding_scale", 1}, Neutral{"residual_scale", 1},
                           Neutral{"expert_weights_scale", 1}}) {
    const double value = keys.number(n.name).value_or(0);
    if (value != 0 && value != n.also) {
      keys.unsupported(n.name, n.also != 0 ? "1 or no such key" : "no such key",
                       format("%g", value));
    }
  }
}

// The feed-forward: one, or a mixture of experts whose router is a softmax over all of them, of
// which the largest are taken and divided by their sum.
void read_ffn(const Gguf& gguf, const ConfigKeys& keys, const Architecture& architecture,
              ModelConfig& config) {
  const char* count_key = "expert_count";
  if (!architecture.experts) {
    config.ffn_dim = keys.bounded("feed_forward_length", 1, kMaxFfnDim);
    if (const uint64_t experts = keys.count(count_key).value_or(0); experts > 0) {
      keys.unsupported(
          count_key, format("a dense model, as %s models are here", architecture.name),
          format("a mixture of %llu experts", static_cast<unsigned long long>(experts)));
    }
    return;
  }
  config.n_experts = keys.bounded(count_key, 1, kMaxExperts);
  config.n_experts_used =
      keys.bounded("expert_used_count", 1, static_cast<uint64_t>(config.n_experts));
  config.ffn_dim = keys.bounded("expert_feed_forward_length", 1, kMaxFfnDim);
  const struct {
    const char* name;
    uint64_t also;  // besides 0, which means "not used"
  } kNeutral[] = {{"expert_shared_count", 0},       {"expert_shared_feed_forward_length", 0},
                  {"leading_dense_block_count", 0}, {"expert_group_count", 1},
                  {"expert_group_used_count", 1},   {"expert_gating_func", 1}};  // 1: softmax
  for (const auto& [name, also] : kNeutral) {
    const uint64_t value = keys.count(name).value_or(0);
    if (value == 0 || value == also) continue;
    keys.unsupported(name, also != 0 ? "1 or no such key" : "no such key",
                     format("%llu", static_cast<unsigned long long>(value)));
  }
  if (!gguf.get_bool(keys.key("expert_weights_norm")).value_or(true)) {
    keys.unsupported("expert_weights_norm", "true or no such key", "false");
  }
}

// Positions are divided by this; 1 for none. Kinds that bend frequencies one by one are refused,
// except llama3's, whose result the file stores as a tensor.
double read_rope_scale(const Gguf& gguf, const ConfigKeys& keys) {
  const std::string_view type = keys.text("rope.scaling.type").value_or("linear");
  const char* factor_key = "rope.scaling.factor";
  std::optional<double> factor = keys.number(factor_key);
  if (!factor) {
    factor_key = "rope.scale_linear";
    factor = keys.number(factor_key);
  }
  if (factor && *factor != 0 && !(std::isfinite(*factor) && *factor >= kLeastRopeFactor)) {
    keys.bad(factor_key, format("a finite factor from %g on, or 0", kLeastRopeFactor),
             format("%g", *factor));
  }
  const bool known = type == "none" || type == "linear" || type == "llama3";
  if (!known && factor.value_or(0) != 1) {
    keys.unsupported("rope.scaling.type", "none, linear, yarn or llama3",
                     format("'%s'", printable(type).c_str()));
  }
  const double attn_factor = keys.number("rope.scaling.attn_factor").value_or(1);
  if (attn_factor != 1) {
    keys.unsupported("rope.scaling.attn_factor", "1 or no such key", format("%g", attn_factor));
  }
  if (type == "linear") return factor.value_or(0) == 0 ? 1 : *factor;  // 0 means unused
  if (type == "llama3" && !gguf.find_tensor("rope_freqs.weight")) {
    keys.unsupported("rope.scaling.type", "llama3 scaling as a tensor rope_freqs.weight",
                     "no such tensor");
  }
  return 1;
}

// Rows of the embedding: the token list says it, else the key, else the tensor.
uint64_t count_vocab(const Gguf& gguf, const ConfigKeys& keys) {
  const GgufValue* tokens = gguf.find("tokenizer.ggml.tokens");
  if (tokens && tokens->is_array && tokens->count > 0) return tokens->count;
  if (const auto count = keys.count("vocab_size")) return *count;
  const GgufTensor* embd = gguf.find_tensor("token_embd.weight");
  if (embd && embd->shape.size() == 2) return embd->shape[1];
  keys.bad("vocab_size", "a whole number, a token list or a tensor token_embd.weight", "none");
}

void read_attention(const ConfigKeys& keys, ModelConfig& config) {
  config.n_heads = keys.bounded("attention.head_count", 1, kMaxHeads);
  config.n_kv_heads = keys.bounded("attention.head_count_kv", 1, kMaxHeads, config.n_heads);
  if (config.n_heads % config.n_kv_heads != 0) {
    keys.bad("attention.head_count_kv", format("a divisor of %d query heads", config.n_heads),
             format("%d", config.n_kv_heads));
  }
  const auto key_length = keys.count("attention.key_length");
  if (!key_length && config.dim % config.n_heads != 0) {
    keys.bad("attention.head_count",
             format("a divisor of embedding_length %d, or a key_length", config.dim),
             format("%d", config.n_heads));
  }
  config.head_dim =
      keys.bounded("attention.key_length", kHeadDimStep, kMaxHeadDim, config.dim / config.n_heads);
  if (config.head_dim % kHeadDimStep != 0) {
    keys.unsupported(
        "attention.key_length",
        format("a head size divisible by %llu", static_cast<unsigned long long>(kHeadDimStep)),
        format("%d%s", config.head_dim, key_length ? "" : " (by default)"));
  }
  const auto value_length = keys.count("attention.value_length");
  if (value_length && *value_length != static_cast<uint64_t>(config.head_dim)) {
    keys.unsupported("attention.value_length", format("the key size, %d", config.head_dim),
                     format("%llu", static_cast<unsigned long long>(*value_length)));
  }
  if (static_cast<uint64_t>(config.q_dim()) > kMaxDim) {
    keys.bad("attention.head_count",
             format("queries of at most %llu numbers", static_cast<unsigned long long>(kMaxDim)),
             format("%d heads of %d", config.n_heads, config.head_dim));
  }
}

// What cosines and sines are multiplied by.
float read_attn_factor(const ConfigKeys& keys, double by_default) {
  const double factor = keys.number("rope.scaling.attn_factor").value_or(by_default);
  const auto stored = static_cast<float>(factor);
  if (!(std::isfinite(stored) && stored > 0 && stored <= 1e6f)) {
    keys.bad("rope.scaling.attn_factor", "a number above 0, up to 1e6", format("%g", factor));
  }
  return stored;
}

// Frequency factors for short and for long contexts, as tensors; cosines and sines then have a
// factor, which follows from how far the context was stretched where the file does not name it
// (Ding et al. 2024, "LongRoPE", as transformers and llama.cpp's converter compute it).
void read_long_rope(const ConfigKeys& keys, ModelConfig& config) {
  const std::string_view type = keys.text("rope.scaling.type").value_or("longrope");
  if (type != "longrope") {
    keys.unsupported("rope.scaling.type", "longrope, with tensors rope_factors_long and _short",
                     format("'%s'", printable(type).c_str()));
  }
  if (const double factor = keys.number("rope.scaling.factor").value_or(1); factor != 1) {
    keys.unsupported("rope.scaling.factor", "1 or no such key, beside rope_factors_long",
                     format("%g", factor));
  }
  config.rope_original_context =
      keys.bounded("rope.scaling.original_context_length", 2, kMaxContext);
  const double stretch = static_cast<double>(config.max_seq_len) / config.rope_original_context;
  const double by_default =
      stretch > 1 ? std::sqrt(1 + std::log(stretch) / std::log(config.rope_original_context)) : 1;
  config.rope_attn_factor = read_attn_factor(keys, by_default);
}

// As transformers and llama.cpp compute it. Cosines and sines have a factor that follows from the
// other one; what the file says of it comes on top.
void read_yarn(const ConfigKeys& keys, ModelConfig& config) {
  const char *factor_key = "rope.scaling.factor", *fast_key = "rope.scaling.yarn_beta_fast",
             *context_key = "rope.scaling.original_context_length";
  const auto factor = keys.number(factor_key);
  if (!factor || !(std::isfinite(*factor) && *factor >= 1)) {
    keys.bad(factor_key, "a finite factor, 1 or more",
             factor ? format("%g", *factor) : "no such key");
  }
  const int context = keys.bounded(context_key, 2, kMaxContext, config.max_seq_len);
  const double fast = keys.number(fast_key).value_or(32);
  const double slow = keys.number("rope.scaling.yarn_beta_slow").value_or(1);
  if (!(slow >= 1e-6 && slow <= fast && fast <= 1e6)) {
    keys.bad(fast_key, "yarn_beta_slow or more, both of them 1e-6 to 1e6",
             format("%g, and %g", fast, slow));
  }
  if (config.rope_theta == 1) keys.bad("rope.freq_base", "more than 1 beside yarn", "1");
  const double derived = 1 + 0.1 * std::log(*factor);
  const struct {
    const char* name;
    double usual;
  } others[] = {{"rope.scaling.yarn_ext_factor", 1},
                {"rope.scaling.yarn_log_multiplier", 0},
                {"rope.scaling.yarn_attn_factor", derived}};  // readers differ about another one
  for (const auto& [name, usual] : others) {
    const double value = keys.number(name).value_or(usual);
    if (!(std::abs(value - usual) <= 1e-5 * usual)) {
      keys.unsupported(name, format("%g or no such key", usual), format("%g", value));
    }
  }
  // The pair that turns so many times in the original context.
  const auto pair = [&](double turns) {
    return config.rope_dim * exact_log(context / (turns * 2 * std::numbers::pi)) /
           (2 * exact_log(config.rope_theta));
  };
  const Yarn yarn = {std::max(std::floor(pair(fast)), 0.0),
                     std::min(std::ceil(pair(slow)), config.rope_dim - 1.0)};
  if (yarn.first > yarn.last) {
    keys.bad(context_key, "one in which some pairs turn yarn_beta_slow to yarn_beta_fast times",
             format("%d, where none does", context));
  }
  config.yarn = yarn;
  config.rope_scale = *factor;
  config.rope_attn_factor = static_cast<float>(derived * read_attn_factor(keys, 1));
}

double read_rope_theta(const ConfigKeys& keys, const char* name, double by_default) {
  const double theta = keys.number(name).value_or(by_default);
  if (!(std::isfinite(theta) && theta >= 1)) {
    keys.bad(name, "a finite number, 1 or more", format("%g", theta));
  }
  return theta;
}

void read_rope(const Gguf& gguf, const ConfigKeys& keys, const Architecture& architecture,
               ModelConfig& config) {
  config.rope_style = architecture.rope_style;
  config.no_rope_step = architecture.no_rope_step;
  config.rope_theta = read_rope_theta(keys, "rope.freq_base", 10000.0);
  const char* windowed_key = "rope.freq_base_swa";
  if (architecture.windowed_rope_theta > 0) {
    config.windowed_rope_theta =
        read_rope_theta(keys, windowed_key, architecture.windowed_rope_theta);
  } else if (const double windowed = keys.number(windowed_key).value_or(config.rope_theta);
             windowed != config.rope_theta) {
    keys.unsupported(windowed_key, format("rope.freq_base, %g", config.rope_theta),
                     format("%g", windowed));
  }
  const uint64_t whole = config.head_dim;
  const uint64_t rotated = keys.count("rope.dimension_count").value_or(whole);
  if (!architecture.partial_rope && rotated != whole) {
    keys.unsupported("rope.dimension_count",
                     format("rotation of whole heads, %d numbers", config.head_dim),
                     format("%llu", static_cast<unsigned long long>(rotated)));
  }
  if (rotated < 2 || rotated > whole || rotated % 2 != 0) {
    keys.bad("rope.dimension_count", format("an even number, 2 to %d", config.head_dim),
             format("%llu", static_cast<unsigned long long>(rotated)));
  }
  config.rope_dim = static_cast<int>(rotated);
  if (architecture.long_rope && gguf.find_tensor("rope_factors_long.weight")) {
    read_long_rope(keys, config);
  } else if (keys.text("rope.scaling.type") == "yarn") {
    read_yarn(keys, config);
  } else {
    config.rope_scale = read_rope_scale(gguf, keys);
  }
}

// A window hides nothing up to its size: one no smaller than the context is none. Where it is not
// known which layers have it, the context ends there.
void read_window(const Gguf& gguf, const ConfigKeys& keys, const Architecture& architecture,
                 ModelConfig& config) {
  const char* pattern_key = "attention.sliding_window_pattern";
  int step = architecture.window_step;
  if (step > 1) {
    step = keys.bounded(pattern_key, 2, kMaxLayers, step);
  } else if (const GgufValue* pattern = gguf.find(keys.key(pattern_key))) {
    const uint64_t found = pattern->is_array ? 0 : *gguf.get_uint(keys.key(pattern_key));
    if (found != 1) {
      keys.unsupported(pattern_key, "1 or no such key",
                       pattern->is_array ? "one per layer" : std::to_string(found));
    }
  }
  const char* window_key = "attention.sliding_window";
  const auto stated = keys.count(window_key);
  const uint64_t window = stated.value_or(architecture.window);
  if (config.windowed_rope_theta > 0) {
    // Layers that have no window would rotate as windowed ones: some readers take them for others.
    if (window == 0) keys.bad(window_key, "a window, 1 or more", stated ? "0" : "no such key");
    config.window_step = step;
  }
  if (window == 0 || window >= static_cast<uint64_t>(config.max_seq_len)) return;
  if (step == 0) {
    config.max_seq_len = static_cast<int>(window);
    return;
  }
  config.window = static_cast<int>(window);
  config.window_step = step;
}

float read_softcap(const ConfigKeys& keys, const char* name, double by_default) {
  const double cap = keys.number(name).value_or(by_default);
  if (by_default == 0 && cap != 0) keys.unsupported(name, "no such key", format("%g", cap));
  if (!(std::isfinite(static_cast<float>(cap)) && cap >= 0)) {
    keys.bad(name, "a finite number, 0 for no cap", format("%g", cap));
  }
  return static_cast<float>(cap);
}

float score_scale(const Architecture& architecture, const ModelConfig& c) {
  const bool by_dim = c.n_layers == architecture.layers_scaled_by_dim;
  const auto dim = static_cast<float>(c.dim), heads = static_cast<float>(c.n_heads);
  return 1.0f / std::sqrt(by_dim ? dim / heads : static_cast<float>(c.head_dim));
}

}  // namespace

ModelConfig read_config(const Gguf& gguf) {
  refuse_partial_models(gguf);
  const Architecture& architecture = architecture_of(gguf);
  const ConfigKeys keys(gguf, architecture.name);
  refuse_unknown_mathematics(gguf, keys);

  ModelConfig config;
  config.architecture = architecture.name;
  config.name = gguf.get_string("general.name").value_or("");
  config.dim = keys.bounded("embedding_length", 1, kMaxDim);
  read_ffn(gguf, keys, architecture, config);
  config.n_layers = keys.bounded("block_count", 1, kMaxLayers);
  read_attention(keys, config);

  const auto epsilon = keys.number("attention.layer_norm_rms_epsilon");
  if (!epsilon) keys.bad("attention.layer_norm_rms_epsilon", "a number", "no such key");
  config.norm_eps = static_cast<float>(*epsilon);
  if (!(config.norm_eps > 0 && config.norm_eps < 1)) {
    keys.bad("attention.layer_norm_rms_epsilon", "a number between 0 and 1",
             format("%g", *epsilon));
  }
  config.max_seq_len = keys.bounded("context_length", 1, kMaxContext);
  read_rope(gguf, keys, architecture, config);
  read_window(gguf, keys, architecture, config);

  config.activation = architecture.activation;
  if (architecture.scaled_embedding) {
    config.embedding_scale = std::sqrt(static_cast<float>(config.dim));
  }
  config.score_scale = score_scale(architecture, config);
  config.attn_softcap = read_softcap(keys, "attn_logit_softcapping", architecture.attn_softcap);
  config.final_softcap = read_softcap(keys, "final_logit_softcapping", architecture.final_softcap);

  const uint64_t vocab_size = count_vocab(gguf, keys);
  if (vocab_size < 1 || vocab_size > kMaxVocab) {
    keys.bad("vocab_size",
             format("a vocabulary of 1 to %llu", static_cast<unsigned long long>(kMaxVocab)),
             format("%llu", static_cast<unsigned long long>(vocab_size)));
  }
  config.vocab_size = static_cast<int>(vocab_size);
  return config;
}

}  // namespace specbound
