// Which metadata makes a model that can run here, and what is said about the rest.
#include "model/config.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "expect_error.h"
#include "gguf_bytes.h"
#include "tiny_gguf.h"

namespace specbound::test::config_test {
namespace {

// Metadata alone, as read_config sees it.
ModelConfig config_of(const TinySpec& spec, const std::vector<TinyTensor>& tensors = {}) {
  const std::vector<std::byte> bytes = tiny_file(spec, tensors);
  return read_config(Gguf::parse(bytes, "tiny.gguf"));
}

// The spec with `key` (under the architecture's name) left out and written anew by `write`.
TinySpec with(TinySpec spec, const std::string& key,
              std::function<void(GgufWriter&, const std::string&)> write) {
  const std::string full = spec.architecture + "." + key;
  spec.without.insert(full);
  spec.metadata = [full, write, before = spec.metadata](GgufWriter& writer) {
    if (before) before(writer);
    if (write) write(writer, full);
  };
  return spec;
}
TinySpec with_uint(const TinySpec& spec, const std::string& key, uint32_t value) {
  return with(spec, key, [value](GgufWriter& w, const std::string& k) { w.add_uint(k, value); });
}
TinySpec with_float(const TinySpec& spec, const std::string& key, float value) {
  return with(spec, key, [value](GgufWriter& w, const std::string& k) { w.add_float(k, value); });
}
TinySpec with_string(const TinySpec& spec, const std::string& key, const std::string& value) {
  return with(spec, key, [value](GgufWriter& w, const std::string& k) { w.add_string(k, value); });
}
TinySpec with_ints(const TinySpec& spec, const std::string& key, std::vector<int32_t> values) {
  return with(spec, key, [values](GgufWriter& w, const std::string& k) { w.add_ints(k, values); });
}
TinySpec without(const TinySpec& spec, const std::string& key) {
  return with(spec, key, nullptr);
}

void refuse(const TinySpec& spec, ErrorCode code, std::initializer_list<std::string_view> parts) {
  const std::string text = expect_error(code, [&] { config_of(spec); });
  check_mentions(text, {"tiny.gguf: ", "expected ", "found "});
  check_mentions(text, parts);
}

const TinySpec kLlama;

TEST_CASE("config: every architecture") {
  for (const char* name : {"llama", "qwen2", "qwen3", "qwen3moe", "gemma", "gemma2", "gemma3",
                           "phi3", "smollm3", "ernie4_5"}) {
    TinySpec spec;
    spec.architecture = name;
    spec.head_dim = 24;
    CAPTURE(name);
    const ModelConfig c = config_of(spec);
    CHECK(c.architecture == name);
    CHECK(c.name == "tiny");
    CHECK(c.dim == 64);
    CHECK(c.ffn_dim == 96);
    CHECK(c.n_experts == (c.architecture == "qwen3moe" ? 5 : 0));
    CHECK(c.n_experts_used == (c.architecture == "qwen3moe" ? 2 : 0));
    CHECK(c.n_layers == 2);
    CHECK(c.n_heads == 4);
    CHECK(c.n_kv_heads == 2);
    CHECK(c.head_dim == 24);
    CHECK(c.q_dim() == 96);
    CHECK(c.kv_dim() == 48);
    CHECK(c.vocab_size == 97);
    CHECK(c.max_seq_len == 256);
    CHECK(c.norm_eps == 1e-5f);
    CHECK(c.rope_theta == 10000.0);
    CHECK(c.rope_scale == 1.0);
    CHECK(c.rope_dim == 24);
    CHECK(c.rope_attn_factor == 1);
    CHECK(c.rope_original_context == 0);
    CHECK(c.score_scale == 1.0f / std::sqrt(24.0f));
    CHECK(c.window == 0);
    const std::string a = c.architecture;
    const bool interleaved = a == "llama" || a == "smollm3" || a == "ernie4_5",
               gemma = a == "gemma" || a == "gemma2" || a == "gemma3";
    CHECK(c.rope_style == (interleaved ? RopeStyle::kInterleaved : RopeStyle::kHalves));
    CHECK(c.activation == (gemma ? Activation::kGelu : Activation::kSilu));
    CHECK(c.embedding_scale == (gemma ? 8.0f : 1.0f));
    CHECK(c.attn_softcap == (a == "gemma2" ? 50.0f : 0.0f));
    CHECK(c.final_softcap == (a == "gemma2" ? 30.0f : 0.0f));
    for (int l = 1; l <= 8; ++l) CHECK(c.rotates(l) == (a != "smollm3" || l % 4 != 0));
  }
}

TEST_CASE("config: windows, of all layers, of every other one, or where the context ends") {
  const auto windowed = [](const char* name, uint32_t window) {
    TinySpec spec;
    spec.architecture = name;
    return with_uint(spec, "attention.sliding_window", window);
  };
  for (const char* name : {"llama", "phi3"}) {
    const ModelConfig c = config_of(windowed(name, 64));
    CHECK(c.max_seq_len == 256);
    for (int l = 1; l <= 4; ++l) CHECK(c.window_of(l) == 64);
  }
  const ModelConfig c = config_of(windowed("gemma2", 64));
  CHECK(c.max_seq_len == 256);
  for (int l = 1; l <= 4; ++l) CHECK(c.window_of(l) == (l % 2 == 1 ? 64 : 0));
  TinySpec longer;
  longer.architecture = "gemma2";
  longer.max_seq_len = 8192;
  CHECK(config_of(longer).window_of(1) == 4096);  // Gemma 2's own
  CHECK(config_of(with_uint(longer, "attention.sliding_window", 0)).window_of(1) == 0);
  for (const char* name : {"qwen2", "qwen3", "qwen3moe", "gemma", "smollm3", "ernie4_5"}) {
    const ModelConfig cut = config_of(windowed(name, 64));
    CHECK(cut.max_seq_len == 64);
    CHECK(cut.window == 0);
  }
  for (const char* name : {"llama", "gemma2", "phi3", "qwen2"}) {
    for (uint32_t window : {256u, 4096u, 0u}) {  // hide nothing
      const ModelConfig whole = config_of(windowed(name, window));
      CHECK(whole.max_seq_len == 256);
      CHECK(whole.window_of(1) == 0);
    }
  }
  const TinySpec gemma2 = windowed("gemma2", 64);
  const char* pattern = "attention.sliding_window_pattern";
  CHECK(config_of(with_uint(gemma2, pattern, 2)).window_of(3) == 64);
  const ModelConfig sixth = config_of(with_uint(gemma2, pattern, 6));
  for (int l = 1; l <= 12; ++l) CHECK(sixth.window_of(l) == (l % 6 != 0 ? 64 : 0));
  for (uint32_t bad : {0u, 1u, 5000u, UINT32_MAX}) {
    refuse(with_uint(gemma2, pattern, bad), ErrorCode::kFormat, {pattern, "2 to 4096"});
  }
  refuse(with_ints(gemma2, pattern, {1, 0}), ErrorCode::kUnsupported, {pattern, "1 and 0"});
  const TinySpec llama = windowed("llama", 64);
  CHECK(config_of(with_uint(llama, pattern, 1)).window_of(2) == 64);
  refuse(with_uint(llama, pattern, 6), ErrorCode::kUnsupported, {pattern, "expected 1", "found 6"});
  refuse(with_ints(llama, pattern, {1, 0}), ErrorCode::kUnsupported, {pattern, "one per layer"});
  refuse(with_float(gemma2, "rope.freq_base_swa", 5000), ErrorCode::kUnsupported,
         {"rope.freq_base_swa", "found 5000"});
}

TEST_CASE("config: gemma3's windowed layers have their own rotation, which nothing scales") {
  TinySpec spec;
  spec.architecture = "gemma3";
  spec.rope_theta = 1e6f;
  spec.window = 64;
  const ModelConfig c = config_of(with_float(spec, "rope.scaling.factor", 8));
  CHECK(c.rope_theta == 1e6f);
  CHECK(c.rope_scale == 8);
  CHECK(c.windowed_rope_theta == 1e4);
  REQUIRE(c.n_rotations() == 2);
  for (int l = 1; l <= 13; ++l) {
    CHECK(c.window_of(l) == (l % 6 != 0 ? 64 : 0));
    CHECK(c.rotation_of(l) == (l % 6 != 0 ? 1 : 0));
  }
  const char *window = "attention.sliding_window", *theta = "rope.freq_base_swa";
  CHECK(config_of(with_float(spec, theta, 5000)).windowed_rope_theta == 5000);
  // They rotate so even where the window hides nothing.
  const ModelConfig whole = config_of(with_uint(spec, window, 256));
  CHECK(whole.window_of(1) == 0);
  CHECK(whole.max_seq_len == 256);
  CHECK(whole.rotation_of(1) == 1);
  CHECK(whole.rotation_of(6) == 0);
  CHECK(config_of(kLlama).rotation_of(1) == 0);

  refuse(with_uint(spec, window, 0), ErrorCode::kFormat, {window, "1 or more", "found 0"});
  refuse(without(spec, window), ErrorCode::kFormat, {window, "1 or more", "no such key"});
  const float inf = std::numeric_limits<float>::infinity();
  for (float value : {0.0f, -1e4f, inf, std::nanf("")}) {
    refuse(with_float(spec, theta, value), ErrorCode::kFormat, {theta, "finite"});
  }
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    refuse(with_float(spec, key, 30), ErrorCode::kUnsupported, {key, "found 30"});
  }
  spec.n_layers = 62;  // the 27B: dim / n_heads
  spec.head_dim = 32;
  CHECK(config_of(spec).score_scale == 1.0f / std::sqrt(64.0f / 4));
}

TEST_CASE("config: soft caps, which only gemma2 has, and the scale of its scores") {
  TinySpec spec;
  spec.architecture = "gemma2";
  spec.attn_softcap = 5;
  spec.final_softcap = 2.5f;
  CHECK(config_of(spec).attn_softcap == 5);
  CHECK(config_of(spec).final_softcap == 2.5f);
  const float inf = std::numeric_limits<float>::infinity();
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    for (float value : {-1.0f, inf, std::nanf("")}) {
      TinySpec plain;
      plain.architecture = "gemma2";
      refuse(with_float(plain, key, value), ErrorCode::kFormat, {key, "finite"});
    }
  }
  spec.head_dim = 32;
  spec.n_layers = 46;  // the 27B: dim / n_heads
  CHECK(config_of(spec).score_scale == 1.0f / std::sqrt(64.0f / 4));
  spec.n_layers = 42;
  CHECK(config_of(spec).score_scale == 1.0f / std::sqrt(32.0f));
}

TEST_CASE("config: phi3 rotates parts of heads, and has factors for short and long contexts") {
  TinySpec spec;
  spec.architecture = "phi3";
  spec.head_dim = 24;
  for (int rotated : {2, 18, 24}) {
    spec.rope_dim = rotated;
    CHECK(config_of(spec).rope_dim == rotated);
  }
  for (uint32_t bad : {0u, 7u, 26u, UINT32_MAX}) {
    refuse(with_uint(spec, "rope.dimension_count", bad), ErrorCode::kFormat,
           {"rope.dimension_count", "even", "2 to 24"});
  }
  spec.rope_dim = 18;
  spec.long_rope = true;
  const std::vector<TinyTensor> tensors = tiny_tensors(spec);
  const ModelConfig c = config_of(spec, tensors);
  CHECK(c.rope_original_context == 64);
  CHECK(c.rope_attn_factor == doctest::Approx(std::sqrt(1 + std::log(4.0) / std::log(64.0))));
  CHECK(c.max_seq_len == 256);
  const auto longer = [&](const TinySpec& s) { return config_of(s, tensors); };
  CHECK(longer(with_float(spec, "rope.scaling.attn_factor", 1.19f)).rope_attn_factor == 1.19f);
  CHECK(longer(with_string(spec, "rope.scaling.type", "longrope")).rope_original_context == 64);
  const TinySpec same = with_uint(spec, "rope.scaling.original_context_length", 256);
  CHECK(longer(same).rope_attn_factor == 1);
  const auto refuse_long = [&](const TinySpec& s, ErrorCode code,
                               std::initializer_list<std::string_view> parts) {
    check_mentions(expect_error(code, [&] { config_of(s, tensors); }), parts);
  };
  for (float value : {0.0f, -1.0f, std::nanf("")}) {
    refuse_long(with_float(spec, "rope.scaling.attn_factor", value), ErrorCode::kFormat,
                {"attn_factor", "above 0"});
  }
  const char* original = "rope.scaling.original_context_length";
  refuse_long(without(spec, original), ErrorCode::kFormat, {original, "no such key"});
  refuse_long(with_uint(spec, original, 1), ErrorCode::kFormat, {original, "2 to "});
  refuse_long(with_string(spec, "rope.scaling.type", "yarn"), ErrorCode::kUnsupported,
              {"rope.scaling.type", "longrope", "'yarn'"});
  refuse_long(with_float(spec, "rope.scaling.factor", 4), ErrorCode::kUnsupported,
              {"rope.scaling.factor", "found 4"});
  // Without such tensors a factor has nothing to belong to.
  spec.long_rope = false;
  refuse(with_float(spec, "rope.scaling.attn_factor", 1.19f), ErrorCode::kUnsupported,
         {"attn_factor", "found 1.19"});
}

TEST_CASE("config: other architectures are named, with those that run") {
  for (const char* name : {"gpt2", "gemma3n", "phi2", "qwen2moe", "Llama", ""}) {
    TinySpec spec;
    spec.architecture = name;
    const std::string text = expect_error(ErrorCode::kUnsupported, [&] { config_of(spec); });
    check_mentions(text, {"tiny.gguf", format("'%s'", name),
                          "qwen3, qwen3moe, gemma, gemma2, gemma3, phi3, smollm3, ernie4_5"});
  }
  TinySpec none;
  none.without = {"general.architecture"};
  refuse(none, ErrorCode::kFormat, {"general.architecture", "no such key"});
  none.metadata = [](GgufWriter& w) { w.add_uint("general.architecture", 1); };
  refuse(none, ErrorCode::kFormat, {"general.architecture", "string", "u32"});
}

TEST_CASE("config: what is left out has the format's defaults") {
  ModelConfig c =
      config_of(without(without(kLlama, "attention.key_length"), "attention.value_length"));
  CHECK(c.head_dim == 16);
  c = config_of(without(kLlama, "attention.head_count_kv"));
  CHECK(c.n_kv_heads == 4);
  CHECK_NOTHROW(config_of(without(kLlama, "rope.dimension_count")));
  c = config_of(without(kLlama, "rope.freq_base"));
  CHECK(c.rope_theta == 10000.0);
}

TEST_CASE("config: required keys") {
  for (const char* key :
       {"embedding_length", "feed_forward_length", "block_count", "attention.head_count",
        "context_length", "attention.layer_norm_rms_epsilon"}) {
    refuse(without(kLlama, key), ErrorCode::kFormat, {format("'llama.%s'", key), "no such key"});
  }
}

TEST_CASE("config: numbers out of bounds") {
  const auto bad = [](const char* key, uint32_t value) {
    refuse(with_uint(kLlama, key, value), ErrorCode::kFormat, {format("'llama.%s'", key)});
  };
  for (const char* key :
       {"embedding_length", "feed_forward_length", "block_count", "attention.head_count",
        "attention.head_count_kv", "context_length", "attention.key_length"}) {
    for (uint32_t value : {0u, (1u << 30) + 1, UINT32_MAX}) bad(key, value);
  }
  bad("attention.head_count_kv", 3);  // 4 query heads
  bad("attention.head_count_kv", 8);
  bad("attention.key_length", 264);  // at most 256
  refuse(with_uint(kLlama, "rope.dimension_count", 8), ErrorCode::kUnsupported,
         {"whole heads, 16 numbers", "found 8"});
  refuse(with_uint(kLlama, "attention.key_length", 20), ErrorCode::kUnsupported,
         {"divisible by 8", "found 20"});
  refuse(with_uint(kLlama, "attention.value_length", 24), ErrorCode::kUnsupported,
         {"attention.value_length", "the key size, 16", "found 24"});
  // Head size by default, when the width does not divide or divides into something odd.
  TinySpec heads = without(without(kLlama, "attention.key_length"), "attention.value_length");
  refuse(with_uint(with_uint(heads, "attention.head_count", 6), "attention.head_count_kv", 6),
         ErrorCode::kFormat, {"attention.head_count", "divisor of embedding_length 64"});
  refuse(with_uint(with_uint(heads, "attention.head_count", 16), "attention.head_count_kv", 16),
         ErrorCode::kFormat, {"attention.key_length", "8 to 256", "found 4 (by default)"});
  // Products stay within an int: 4096 heads of 256 do not.
  const TinySpec wide =
      with_uint(without(kLlama, "attention.value_length"), "attention.key_length", 256);
  refuse(with_uint(wide, "attention.head_count", 4096), ErrorCode::kFormat, {"4096 heads of 256"});
}

TEST_CASE("config: floats out of bounds") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  for (float value : {0.0f, -1e-5f, 1.0f, inf, -inf, nan}) {
    refuse(with_float(kLlama, "attention.layer_norm_rms_epsilon", value), ErrorCode::kFormat,
           {"attention.layer_norm_rms_epsilon", "between 0 and 1"});
  }
  for (float value : {0.0f, -1.0f, inf, nan}) {
    refuse(with_float(kLlama, "rope.freq_base", value), ErrorCode::kFormat,
           {"rope.freq_base", "finite"});
  }
  for (float value : {-1.0f, 1e-30f, 0.05f, inf, nan}) {
    refuse(with_float(kLlama, "rope.scaling.factor", value), ErrorCode::kFormat,
           {"rope.scaling.factor", "finite"});
  }
  refuse(with_uint(kLlama, "rope.freq_base", 10000), ErrorCode::kFormat,
         {"rope.freq_base", "f32 or f64", "u32"});
}

TEST_CASE("config: one number per layer is fine while all layers agree") {
  const ModelConfig c = config_of(with_ints(with_ints(kLlama, "attention.head_count_kv", {2, 2}),
                                            "feed_forward_length", {96, 96}));
  CHECK(c.n_kv_heads == 2);
  CHECK(c.ffn_dim == 96);
  refuse(with_ints(kLlama, "attention.head_count_kv", {2, 4}), ErrorCode::kUnsupported,
         {"attention.head_count_kv", "the same number for all layers", "2 and 4"});
  refuse(with_ints(kLlama, "feed_forward_length", {}), ErrorCode::kFormat,
         {"feed_forward_length", "an empty list"});
  refuse(with_ints(kLlama, "feed_forward_length", {-1, -1}), ErrorCode::kFormat,
         {"feed_forward_length"});
}

TEST_CASE("config: the vocabulary is counted by tokens, then key, then embedding") {
  CHECK(config_of(kLlama).vocab_size == 97);
  TinySpec tokens;
  tokens.metadata = [](GgufWriter& w) {
    const std::string_view list[] = {"a", "b", "c"};
    w.add_strings("tokenizer.ggml.tokens", list);
  };
  CHECK(config_of(tokens).vocab_size == 3);
  const TinySpec no_key = without(kLlama, "vocab_size");
  CHECK(config_of(no_key, tiny_tensors(no_key)).vocab_size == 97);
  refuse(no_key, ErrorCode::kFormat, {"vocab_size", "found none"});
  refuse(with_uint(kLlama, "vocab_size", 0), ErrorCode::kFormat, {"vocab_size", "found 0"});
  refuse(with_uint(kLlama, "vocab_size", UINT32_MAX), ErrorCode::kFormat,
         {"vocab_size", "found 4294967295"});
}

TEST_CASE("config: rope scaling") {
  CHECK(config_of(with_float(kLlama, "rope.scaling.factor", 4)).rope_scale == 4.0);
  CHECK(config_of(with_float(kLlama, "rope.scale_linear", 2)).rope_scale == 2.0);
  CHECK(config_of(with_float(kLlama, "rope.scaling.factor", 0)).rope_scale == 1.0);
  const auto typed = [](const char* type, float factor) {
    return with_float(with_string(kLlama, "rope.scaling.type", type), "rope.scaling.factor",
                      factor);
  };
  CHECK(config_of(typed("linear", 8)).rope_scale == 8.0);
  CHECK(config_of(typed("none", 8)).rope_scale == 1.0);
  for (const char* type : {"longrope", "dynamic", "su"}) {
    CHECK(config_of(typed(type, 1)).rope_scale == 1.0);
    refuse(typed(type, 4), ErrorCode::kUnsupported,
           {"rope.scaling.type", "none, linear, yarn or llama3", format("'%s'", type)});
    refuse(with_string(kLlama, "rope.scaling.type", type), ErrorCode::kUnsupported, {type});
  }
  refuse(with_float(typed("linear", 1), "rope.scaling.attn_factor", 1.2f), ErrorCode::kUnsupported,
         {"rope.scaling.attn_factor", "found 1.2"});
  refuse(typed("llama3", 8), ErrorCode::kUnsupported, {"llama3", "rope_freqs.weight"});
  TinySpec llama3 = typed("llama3", 8);
  llama3.rope_freqs = true;
  CHECK(config_of(llama3, tiny_tensors(llama3)).rope_scale == 1.0);
}

TEST_CASE("config: YaRN") {
  const char *factor = "rope.scaling.factor", *context = "rope.scaling.original_context_length",
             *fast = "rope.scaling.yarn_beta_fast", *slow = "rope.scaling.yarn_beta_slow",
             *attn = "rope.scaling.attn_factor";
  // What a file says, but for one key.
  const auto without_key = [&](const char* key) {
    TinySpec file = with_string(kLlama, "rope.scaling.type", "yarn");
    if (key != factor) file = with_float(file, factor, 4);
    return key == context ? file : with_uint(file, context, 1024);
  };
  const TinySpec spec = without_key(nullptr);
  refuse(without_key(factor), ErrorCode::kFormat, {factor, "1 or more", "no such key"});

  const ModelConfig c = config_of(spec);
  // Without it, the context that the model has.
  const auto length = static_cast<uint32_t>(c.max_seq_len);
  CHECK(config_of(without_key(context)).yarn->first ==
        config_of(with_uint(without_key(context), context, length)).yarn->first);
  REQUIRE(c.yarn);
  CHECK(c.rope_scale == 4);
  const double usual = 1 + 0.1 * std::log(4.0);
  CHECK(c.rope_attn_factor == static_cast<float>(usual));
  CHECK(c.rope_original_context == 0);  // phi3's
  // 32 turns of 1024 positions: pair 1.41 of 8; one turn: pair 4.42.
  CHECK(c.yarn->first == 1);
  CHECK(c.yarn->last == 5);
  CHECK(!config_of(kLlama).yarn);
  const ModelConfig turned = config_of(with_float(with_float(spec, fast, 2), slow, 0.25f));
  CHECK(turned.yarn->first == 3);
  CHECK(turned.yarn->last == 6);
  CHECK(config_of(with_float(spec, attn, 0.5f)).rope_attn_factor ==
        doctest::Approx(usual / 2).epsilon(1e-6));

  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  for (float value : {0.0f, -4.0f, 0.5f, inf, nan}) {
    refuse(with_float(without_key(factor), factor, value), ErrorCode::kFormat,
           {factor, "found " + format("%g", value)});
  }
  for (uint32_t value : {0u, 1u, UINT32_MAX}) {
    refuse(with_uint(without_key(context), context, value), ErrorCode::kFormat,
           {context, format("found %u", value)});
  }
  // In four positions no pair turns 20 times.
  refuse(with_float(with_uint(without_key(context), context, 4), slow, 20), ErrorCode::kFormat,
         {context, "where none does"});
  for (float value : {0.0f, -1.0f, 0.5f, 1e7f, inf, nan}) {
    refuse(with_float(spec, fast, value), ErrorCode::kFormat, {fast, "yarn_beta_slow"});
  }
  for (float value : {0.0f, -1.0f, 33.0f, inf, nan}) {
    refuse(with_float(spec, slow, value), ErrorCode::kFormat, {fast, "yarn_beta_slow"});
  }
  for (float value : {0.0f, -1.0f, inf, nan}) {
    refuse(with_float(spec, attn, value), ErrorCode::kFormat, {attn, "above 0"});
  }
  TinySpec flat = spec;
  flat.rope_theta = 1;
  refuse(flat, ErrorCode::kFormat, {"rope.freq_base", "more than 1"});
  const struct {
    const char* name;
    float same, other;
  } others[] = {{"rope.scaling.yarn_ext_factor", 1, 0.5f},
                {"rope.scaling.yarn_log_multiplier", 0, 0.1f},
                {"rope.scaling.yarn_attn_factor", static_cast<float>(usual), 1}};
  for (const auto& o : others) {
    CHECK(config_of(with_float(spec, o.name, o.same)).yarn);
    for (float value : {o.other, nan}) {
      refuse(with_float(spec, o.name, value), ErrorCode::kUnsupported, {o.name});
    }
  }
}

TEST_CASE("config: features nothing here computes are refused by name") {
  CHECK(config_of(with_uint(kLlama, "expert_count", 0)).dim == 64);
  refuse(with_uint(kLlama, "expert_count", 8), ErrorCode::kUnsupported,
         {"expert_count", "dense", "8 experts"});
  refuse(with(kLlama, "attention.causal",
              [](GgufWriter& w, const std::string& k) { w.add_bool(k, false); }),
         ErrorCode::kUnsupported, {"attention.causal", "embedding"});
  for (const char* key : {"logit_scale", "embedding_scale", "residual_scale"}) {
    CHECK(config_of(with_float(kLlama, key, 1)).dim == 64);
    refuse(with_float(kLlama, key, 0.5f), ErrorCode::kUnsupported, {key, "found 0.5"});
  }
  for (const char* key : {"attention.scale", "attention.clamp_kqv", "attention.max_alibi_bias",
                          "attn_logit_softcapping", "final_logit_softcapping"}) {
    CHECK(config_of(with_float(kLlama, key, 0)).dim == 64);
    refuse(with_float(kLlama, key, 30), ErrorCode::kUnsupported, {key, "found 30"});
    refuse(with_float(kLlama, key, std::nanf("")), ErrorCode::kUnsupported, {key, "nan"});
  }
}

TEST_CASE("config: mixtures of experts, and what is not computed of them") {
  TinySpec spec;
  spec.architecture = "qwen3moe";
  spec.n_experts = 8;
  spec.n_experts_used = 8;
  const ModelConfig all = config_of(spec);
  CHECK(all.n_experts == 8);
  CHECK(all.n_experts_used == 8);
  for (const int count : {0, 1025, -1}) {
    spec.n_experts = count;
    refuse(spec, ErrorCode::kFormat, {"qwen3moe.expert_count", "1 to 1024"});
  }
  spec.n_experts = 8;
  for (const int used : {0, 9}) {
    spec.n_experts_used = used;
    refuse(spec, ErrorCode::kFormat, {"qwen3moe.expert_used_count", "1 to 8"});
  }
  spec.n_experts_used = 2;
  for (const char* key : {"expert_count", "expert_used_count", "expert_feed_forward_length"}) {
    refuse(without(spec, key), ErrorCode::kFormat, {key, "no such key"});
  }
  CHECK(config_of(without(spec, "feed_forward_length")).ffn_dim == 96);  // of no layer
  const struct {
    const char* name;
    uint32_t same, other;
  } others[] = {{"expert_shared_count", 0, 1},       {"expert_shared_feed_forward_length", 0, 64},
                {"leading_dense_block_count", 0, 1}, {"expert_group_count", 1, 2},
                {"expert_group_used_count", 1, 2},   {"expert_gating_func", 1, 2}};
  for (const auto& o : others) {
    CHECK(config_of(with_uint(spec, o.name, o.same)).n_experts == 8);
    refuse(with_uint(spec, o.name, o.other), ErrorCode::kUnsupported, {o.name});
  }
  CHECK(config_of(with_float(spec, "expert_weights_scale", 1)).n_experts == 8);
  for (const float scale : {2.5f, std::nanf("")}) {
    refuse(with_float(spec, "expert_weights_scale", scale), ErrorCode::kUnsupported,
           {"expert_weights_scale"});
  }
  for (const bool norm : {true, false}) {
    const TinySpec said = with(spec, "expert_weights_norm",
                               [norm](GgufWriter& w, const auto& k) { w.add_bool(k, norm); });
    if (norm) {
      CHECK(config_of(said).n_experts == 8);
    } else {
      refuse(said, ErrorCode::kUnsupported, {"expert_weights_norm", "found false"});
    }
  }
}

TEST_CASE("config: adapters and parts of split models") {
  TinySpec adapter;
  adapter.metadata = [](GgufWriter& w) { w.add_string("general.type", "adapter"); };
  refuse(adapter, ErrorCode::kUnsupported, {"general.type", "'adapter'"});
  TinySpec part;
  part.metadata = [](GgufWriter& w) { w.add_uint("split.count", 3); };
  refuse(part, ErrorCode::kUnsupported, {"one of 3 parts", "open the first"});
  part.metadata = [](GgufWriter& w) { w.add_uint("split.count", 1); };
  CHECK(config_of(part).dim == 64);
}

}  // namespace
}  // namespace specbound::test::config_test
