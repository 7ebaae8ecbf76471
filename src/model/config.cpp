#include "model/config.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "error.h"

namespace specbound {
namespace {

struct Architecture {
  const char* name;
  RopeStyle rope_style;
};
constexpr Architecture kArchitectures[] = {
    {"llama", RopeStyle::kInterleaved},
    {"qwen2", RopeStyle::kHalves},
    {"qwen3", RopeStyle::kHalves},
};

// Bounds far above any real model; with them every product the engine forms fits an int.
constexpr uint64_t kMaxDim = 1 << 17;
constexpr uint64_t kMaxFfnDim = 1 << 20;
constexpr uint64_t kMaxLayers = 4096;
constexpr uint64_t kMaxHeads = 4096;
constexpr uint64_t kMaxHeadDim = 256;
constexpr uint64_t kHeadDimStep = 8;
constexpr uint64_t kMaxVocab = 1 << 23;
constexpr uint64_t kMaxContext = 1 << 30;

// Looks up "{architecture}.name" and reports every complaint with file and key.
class Keys {
 public:
  Keys(const Gguf& gguf, const std::string& architecture)
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

const Architecture& find_architecture(const Gguf& gguf) {
  const auto name = gguf.get_string("general.architecture");
  if (!name) {
    throw Error(
        ErrorCode::kFormat,
        format("%s: key 'general.architecture': expected llama, qwen2 or qwen3, found no such key",
               gguf.path().c_str()));
  }
  std::string known;
  for (const Architecture& a : kArchitectures) {
    if (*name == a.name) return a;
    known += (known.empty() ? "" : ", ") + std::string(a.name);
  }
  throw Error(ErrorCode::kUnsupported,
              format("%s: architecture '%s' cannot run here; supported: %s", gguf.path().c_str(),
                     printable(*name).c_str(), known.c_str()));
}

// Files that are well-formed but no whole model: adapters, projectors, parts of a split model.
void refuse_partial_models(const Gguf& gguf) {
  const std::string_view type = gguf.get_string("general.type").value_or("model");
  if (type != "model") {
    throw Error(ErrorCode::kUnsupported,
                format("%s: key 'general.type': expected a 'model', found '%s'",
                       gguf.path().c_str(), printable(type).c_str()));
  }
  const uint64_t parts = gguf.get_uint("split.count").value_or(0);
  if (parts > 1) {
    throw Error(ErrorCode::kUnsupported,
                format("%s: expected a whole model, found one of %llu parts: merge them first "
                       "(llama-gguf-split --merge)",
                       gguf.path().c_str(), static_cast<unsigned long long>(parts)));
  }
}

// Features that change what a layer computes and that nothing here computes.
void refuse_unknown_mathematics(const Gguf& gguf, const Keys& keys) {
  if (const uint64_t experts = keys.count("expert_count").value_or(0); experts > 0) {
    keys.unsupported("expert_count", "a dense model",
                     format("a mixture of %llu experts", static_cast<unsigned long long>(experts)));
  }
  if (!gguf.get_bool(keys.key("attention.causal")).value_or(true)) {
    keys.unsupported("attention.causal", "true", "false (an embedding model)");
  }
  struct Neutral {
    const char* name;
    double also;  // besides 0, which means "not used" everywhere
  };
  for (const Neutral& n :
       {Neutral{"attention.scale", 0}, Neutral{"attention.clamp_kqv", 0},
        Neutral{"attention.max_alibi_bias", 0}, Neutral{"logit_scale", 1},
        Neutral{"embedding_scale", 1}, Neutral{"residual_scale", 1},
        Neutral{"attn_logit_softcapping", 0}, Neutral{"final_logit_softcapping", 0}}) {
    const double value = keys.number(n.name).value_or(0);
    if (value != 0 && value != n.also) {
      keys.unsupported(n.name, n.also != 0 ? "1 or no such key" : "no such key",
                       format("%g", value));
    }
  }
}

// Positions are divided by this; 1 for none. Kinds that bend frequencies one by one are refused,
// except llama3's, whose result the file stores as a tensor.
double read_rope_scale(const Gguf& gguf, const Keys& keys) {
  const std::string_view type = keys.text("rope.scaling.type").value_or("linear");
  const char* factor_key = "rope.scaling.factor";
  std::optional<double> factor = keys.number(factor_key);
  if (!factor) {
    factor_key = "rope.scale_linear";
    factor = keys.number(factor_key);
  }
  if (factor && !(std::isfinite(*factor) && *factor >= 0)) {
    keys.bad(factor_key, "a finite factor, zero or more", format("%g", *factor));
  }
  const bool known = type == "none" || type == "linear" || type == "llama3";
  if (!known && factor.value_or(0) != 1) {
    keys.unsupported("rope.scaling.type", "none, linear or llama3",
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
uint64_t count_vocab(const Gguf& gguf, const Keys& keys) {
  const GgufValue* tokens = gguf.find("tokenizer.ggml.tokens");
  if (tokens && tokens->is_array && tokens->count > 0) return tokens->count;
  if (const auto count = keys.count("vocab_size")) return *count;
  const GgufTensor* embd = gguf.find_tensor("token_embd.weight");
  if (embd && embd->shape.size() == 2) return embd->shape[1];
  keys.bad("vocab_size", "a whole number, a token list or a tensor token_embd.weight", "none");
}

void read_attention(const Keys& keys, ModelConfig& config) {
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

void read_rope(const Gguf& gguf, const Keys& keys, ModelConfig& config) {
  config.rope_theta = keys.number("rope.freq_base").value_or(10000.0);
  if (!(std::isfinite(config.rope_theta) && config.rope_theta >= 1)) {
    keys.bad("rope.freq_base", "a finite number, 1 or more", format("%g", config.rope_theta));
  }
  const uint64_t rotated = keys.count("rope.dimension_count").value_or(config.head_dim);
  if (rotated != static_cast<uint64_t>(config.head_dim)) {
    keys.unsupported("rope.dimension_count",
                     format("rotation of whole heads, %d numbers", config.head_dim),
                     format("%llu", static_cast<unsigned long long>(rotated)));
  }
  config.rope_scale = read_rope_scale(gguf, keys);
}

}  // namespace

ModelConfig read_config(const Gguf& gguf) {
  refuse_partial_models(gguf);
  const Architecture& architecture = find_architecture(gguf);
  const Keys keys(gguf, architecture.name);
  refuse_unknown_mathematics(gguf, keys);

  ModelConfig config;
  config.architecture = architecture.name;
  config.name = gguf.get_string("general.name").value_or("");
  config.rope_style = architecture.rope_style;
  config.dim = keys.bounded("embedding_length", 1, kMaxDim);
  config.ffn_dim = keys.bounded("feed_forward_length", 1, kMaxFfnDim);
  config.n_layers = keys.bounded("block_count", 1, kMaxLayers);
  read_attention(keys, config);

  const auto epsilon = keys.number("attention.layer_norm_rms_epsilon");
  if (!epsilon) keys.bad("attention.layer_norm_rms_epsilon", "a number", "no such key");
  config.norm_eps = static_cast<float>(*epsilon);
  if (!(config.norm_eps > 0 && config.norm_eps < 1)) {
    keys.bad("attention.layer_norm_rms_epsilon", "a number between 0 and 1",
             format("%g", *epsilon));
  }
  read_rope(gguf, keys, config);

  config.max_seq_len = keys.bounded("context_length", 1, kMaxContext);
  const uint64_t window = keys.count("attention.sliding_window").value_or(0);
  if (window > 0) {
    config.max_seq_len = static_cast<int>(std::min<uint64_t>(config.max_seq_len, window));
  }
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
