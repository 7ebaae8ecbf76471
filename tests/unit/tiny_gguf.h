// Small synthetic models as GGUF bytes: seeded random weights, every architecture and element type,
// odd sizes. The same spec gives the same bytes on every machine.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "error.h"
#include "model/gguf_writer.h"
#include "numerics/dtype.h"
#include "numerics/half.h"
#include "tiny_blocks.h"

namespace specbound::test {

struct TinySpec {
  // "qwen2" gets q/k/v biases, "qwen3" and "qwen3moe" q/k norms, "gemma2" post norms, "gemma3" both
  // norms, "phi3" fused matrices.
  std::string architecture = "llama";
  int dim = 64;                           // for Q8_0: dim, q_dim and ffn_dim divisible by 32
  int ffn_dim = 96;                       // of an expert of "qwen3moe"
  int n_experts = 5, n_experts_used = 2;  // of that alone
  int n_layers = 2;
  int n_heads = 4;
  int n_kv_heads = 2;
  int head_dim = 16;  // n_heads * head_dim need not be dim
  int vocab_size = 97;
  int max_seq_len = 256;
  float norm_eps = 1e-5f;
  float rope_theta = 10000.0f;
  DType type = DType::kF32;                 // of every matrix, any that runs
  std::map<std::string, DType> types = {};  // other types by name ending, as "ffn_down.weight"
  bool tied = false;
  bool qkv_bias = false;     // also for other architectures than qwen2
  bool output_bias = false;  // attn_output.bias
  bool rope_freqs = false;   // a tensor of frequency divisors, as llama3 scaling stores it
  // Keys of some architectures, each left out where it is 0.
  int window = 0;       // gemma3, which must have one: max_seq_len
  int window_step = 0;  // gemma2 and gemma3: each so many-th layer has none
  float attn_softcap = 0, final_softcap = 0;
  int rope_dim = 0;         // 0: head_dim
  bool long_rope = false;   // phi3: short and long factors, a quarter of max_seq_len being short
  bool vocabulary = false;  // SPM tokens: <unk> <s> </s>, 256 bytes, then pieces; vocab_size >= 300
  uint64_t seed = 1;
  std::set<std::string> without = {};                   // metadata keys left out, full names
  std::function<void(GgufWriter&)> metadata = nullptr;  // adds more keys

  int q_dim() const { return n_heads * head_dim; }
  int kv_dim() const { return n_kv_heads * head_dim; }
};

inline TinySpec q8_0_spec(int n_layers = 2) {
  TinySpec spec;
  spec.n_layers = n_layers;
  spec.type = DType::kQ8_0;
  return spec;
}

// GELU, soft caps, post norms, and a window that is soon outgrown.
inline TinySpec gemma2_spec() {
  TinySpec spec;
  spec.architecture = "gemma2";
  spec.type = DType::kQ8_0;
  spec.dim = 32;
  spec.tied = true;
  spec.window = 9;
  spec.attn_softcap = 0.5f;
  spec.final_softcap = 0.3f;
  return spec;
}

// GELU, both kinds of norms, windows in the first two layers, which have a rotation of their own.
inline TinySpec gemma3_spec() {
  TinySpec spec = gemma2_spec();
  spec.architecture = "gemma3";
  spec.n_layers = spec.window_step = 3;
  spec.rope_theta = 1000;
  spec.attn_softcap = spec.final_softcap = 0;
  return spec;
}

struct TinyTensor {
  std::string name;
  DType type;
  std::vector<uint64_t> shape;  // {n_in, n_out}, of experts {n_in, n_out, n_experts}
  std::vector<std::byte> bytes;
};

// splitmix64: a sequence that is the same everywhere, which the std distributions are not.
class TinyRandom {
 public:
  explicit TinyRandom(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  float uniform() { return static_cast<float>(next() >> 40) * 0x1p-24f; }  // [0, 1)
  // Mean 0, variance 1, bell-shaped: the sum of 12 uniforms.
  float normal() {
    float sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

 private:
  uint64_t state_;
};

// As ggml quantizes: d = amax / 127 stored as half, q = round(x / d) with the unrounded d.
inline void quantize_q8_0(const float* x, BlockQ8_0& out) {
  float amax = 0;
  for (int i = 0; i < 32; ++i) amax = std::max(amax, std::fabs(x[i]));
  const float d = amax / 127.0f;
  const float inverse = d != 0 ? 1.0f / d : 0.0f;
  out.d = float_to_half(d);
  for (int i = 0; i < 32; ++i) out.q[i] = static_cast<int8_t>(std::roundf(x[i] * inverse));
}

// Types that this file has no encoder for get random numbers of the spread of x.
inline std::vector<std::byte> tiny_encode(const std::vector<float>& x, DType type) {
  const DTypeInfo& info = *dtype_info(type);
  if (info.block > 1 && type != DType::kQ8_0) {
    float squares = 0;
    for (float v : x) squares += v * v;
    uint32_t seed;
    std::memcpy(&seed, &squares, sizeof seed);
    TinyRandom random(seed);
    return tiny_blocks(type, x.size(), std::sqrt(squares / static_cast<float>(x.size())),
                       [&] { return random.next(); });
  }
  std::vector<std::byte> out(x.size() / info.block * info.bytes);
  for (size_t i = 0; i < x.size(); i += info.block) {
    std::byte* to = out.data() + i / info.block * info.bytes;
    if (type == DType::kF32) {
      std::memcpy(to, &x[i], sizeof(float));
    } else if (type == DType::kQ8_0) {
      BlockQ8_0 block;
      quantize_q8_0(&x[i], block);
      std::memcpy(to, &block, sizeof(block));
    } else {
      SB_CHECK(type == DType::kF16 || type == DType::kBF16);
      const uint16_t bits = type == DType::kF16 ? float_to_half(x[i]) : float_to_bfloat(x[i]);
      std::memcpy(to, &bits, sizeof(bits));
    }
  }
  return out;
}

// One tensor of random values around `mean`; its numbers depend on its name, the seed, nothing
// else.
inline TinyTensor tiny_tensor(const TinySpec& spec, const std::string& name, DType type,
                              std::vector<uint64_t> shape, float mean, float deviation) {
  uint64_t hash = 0xcbf29ce484222325u ^ spec.seed;
  for (unsigned char c : name) hash = (hash ^ c) * 0x100000001b3u;
  TinyRandom random(hash);
  size_t n = 1;
  for (uint64_t size : shape) n *= size;
  std::vector<float> values(n);
  for (float& v : values) v = mean + deviation * random.normal();
  return {name, type, std::move(shape), tiny_encode(values, type)};
}

// All tensors of the model, in the order converters write them.
inline std::vector<TinyTensor> tiny_tensors(const TinySpec& s) {
  std::vector<TinyTensor> tensors;
  const auto matrix = [&](const std::string& name, int n_out, int n_in) {
    DType type = s.type;
    for (const auto& [ending, other] : s.types) {
      if (name.ends_with(ending)) type = other;
    }
    tensors.push_back(tiny_tensor(s, name, type,
                                  {static_cast<uint64_t>(n_in), static_cast<uint64_t>(n_out)}, 0,
                                  1.0f / std::sqrt(static_cast<float>(n_in))));
  };
  const auto vector = [&](const std::string& name, int n, float mean, float deviation) {
    tensors.push_back(
        tiny_tensor(s, name, DType::kF32, {static_cast<uint64_t>(n)}, mean, deviation));
  };

  matrix("token_embd.weight", s.vocab_size, s.dim);
  vector("output_norm.weight", s.dim, 1, 0.1f);
  if (!s.tied) matrix("output.weight", s.vocab_size, s.dim);
  const int rope_dim = s.rope_dim ? s.rope_dim : s.head_dim;
  if (s.rope_freqs) {
    vector("rope_freqs.weight", rope_dim / 2, 3, 0.3f);
  }
  if (s.long_rope) {
    vector("rope_factors_long.weight", rope_dim / 2, 3, 0.3f);
    vector("rope_factors_short.weight", rope_dim / 2, 1.5f, 0.1f);
  }
  for (int l = 0; l < s.n_layers; ++l) {
    const std::string block = "blk." + std::to_string(l) + ".";
    vector(block + "attn_norm.weight", s.dim, 1, 0.1f);
    if (s.architecture == "phi3") {
      matrix(block + "attn_qkv.weight", s.q_dim() + 2 * s.kv_dim(), s.dim);
    } else {
      matrix(block + "attn_q.weight", s.q_dim(), s.dim);
      matrix(block + "attn_k.weight", s.kv_dim(), s.dim);
      matrix(block + "attn_v.weight", s.kv_dim(), s.dim);
    }
    if (s.qkv_bias || s.architecture == "qwen2") {
      vector(block + "attn_q.bias", s.q_dim(), 0, 0.1f);
      vector(block + "attn_k.bias", s.kv_dim(), 0, 0.1f);
      vector(block + "attn_v.bias", s.kv_dim(), 0, 0.1f);
    }
    if (s.architecture.starts_with("qwen3") || s.architecture == "gemma3") {
      vector(block + "attn_q_norm.weight", s.head_dim, 1, 0.1f);
      vector(block + "attn_k_norm.weight", s.head_dim, 1, 0.1f);
    }
    matrix(block + "attn_output.weight", s.dim, s.q_dim());
    if (s.output_bias) vector(block + "attn_output.bias", s.dim, 0, 0.1f);
    vector(block + "ffn_norm.weight", s.dim, 1, 0.1f);
    if (s.architecture == "gemma2" || s.architecture == "gemma3") {
      vector(block + "post_attention_norm.weight", s.dim, 0.5f, 0.1f);
      vector(block + "post_ffw_norm.weight", s.dim, 0.5f, 0.1f);
    }
    if (s.architecture == "qwen3moe") {
      const auto router = static_cast<uint64_t>(std::max(s.n_experts, 1));
      matrix(block + "ffn_gate_inp.weight", static_cast<int>(router), s.dim);
      for (const char* name : {"ffn_gate", "ffn_up", "ffn_down"}) {
        const bool down = name == std::string_view("ffn_down");
        const int n_out = down ? s.dim : s.ffn_dim, n_in = down ? s.ffn_dim : s.dim;
        matrix(block + name + "_exps.weight", static_cast<int>(router) * n_out, n_in);
        tensors.back().shape = {static_cast<uint64_t>(n_in), static_cast<uint64_t>(n_out), router};
      }
      continue;
    }
    if (s.architecture == "phi3") {
      matrix(block + "ffn_up.weight", 2 * s.ffn_dim, s.dim);
    } else {
      matrix(block + "ffn_gate.weight", s.ffn_dim, s.dim);
      matrix(block + "ffn_up.weight", s.ffn_dim, s.dim);
    }
    matrix(block + "ffn_down.weight", s.dim, s.ffn_dim);
  }
  return tensors;
}

inline void tiny_vocabulary(const TinySpec& spec, GgufWriter& writer) {
  SB_CHECK(spec.vocab_size >= 300);
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<int32_t> types = {2, 3, 3};  // unknown, control, control
  for (int b = 0; b < 256; ++b) {
    tokens.push_back(format("<0x%02X>", b));
    types.push_back(6);  // byte
  }
  std::vector<std::string> pieces = {"\xe2\x96\x81"};  // U+2581, the space of SentencePiece
  for (char c = 'a'; c <= 'z'; ++c) pieces.push_back(std::string(1, c));
  for (size_t i = 0; tokens.size() + i < static_cast<size_t>(spec.vocab_size); ++i) {
    // Each longer piece is an earlier piece and one more letter, so merges can reach it.
    if (i >= pieces.size()) pieces.push_back(pieces[i / 26] + static_cast<char>('a' + i % 26));
  }
  for (size_t i = 0; tokens.size() < static_cast<size_t>(spec.vocab_size); ++i) {
    tokens.push_back(pieces[i]);
    types.push_back(1);  // normal
  }
  std::vector<float> scores(tokens.size(), 0.0f);
  for (size_t i = 259; i < scores.size(); ++i) scores[i] = -static_cast<float>(i - 259);
  const std::vector<std::string_view> views(tokens.begin(), tokens.end());
  writer.add_string("tokenizer.ggml.model", "llama");
  writer.add_strings("tokenizer.ggml.tokens", views);
  writer.add_floats("tokenizer.ggml.scores", scores);
  writer.add_ints("tokenizer.ggml.token_type", types);
  writer.add_uint("tokenizer.ggml.unknown_token_id", 0);
  writer.add_uint("tokenizer.ggml.bos_token_id", 1);
  writer.add_uint("tokenizer.ggml.eos_token_id", 2);
}

inline void tiny_metadata(const TinySpec& spec, GgufWriter& writer) {
  const auto add_uint = [&](const std::string& key, int value) {
    if (!spec.without.count(key)) writer.add_uint(key, static_cast<uint32_t>(value));
  };
  const auto add_float = [&](const std::string& key, float value) {
    if (!spec.without.count(key)) writer.add_float(key, value);
  };
  const std::string a = spec.architecture + ".";
  if (!spec.without.count("general.architecture")) {
    writer.add_string("general.architecture", spec.architecture);
  }
  writer.add_string("general.name", "tiny");
  add_uint(a + "vocab_size", spec.vocab_size);
  add_uint(a + "context_length", spec.max_seq_len);
  add_uint(a + "embedding_length", spec.dim);
  add_uint(a + "block_count", spec.n_layers);
  add_uint(a + "feed_forward_length", spec.ffn_dim);
  if (spec.architecture == "qwen3moe") {
    add_uint(a + "expert_count", spec.n_experts);
    add_uint(a + "expert_used_count", spec.n_experts_used);
    add_uint(a + "expert_feed_forward_length", spec.ffn_dim);
  }
  add_uint(a + "attention.head_count", spec.n_heads);
  add_uint(a + "attention.head_count_kv", spec.n_kv_heads);
  add_uint(a + "attention.key_length", spec.head_dim);
  add_uint(a + "attention.value_length", spec.head_dim);
  add_float(a + "attention.layer_norm_rms_epsilon", spec.norm_eps);
  add_float(a + "rope.freq_base", spec.rope_theta);
  add_uint(a + "rope.dimension_count", spec.rope_dim ? spec.rope_dim : spec.head_dim);
  const int window = spec.architecture == "gemma3" ? spec.max_seq_len : 0;
  if (spec.window || window) {
    add_uint(a + "attention.sliding_window", spec.window ? spec.window : window);
  }
  if (spec.window_step) add_uint(a + "attention.sliding_window_pattern", spec.window_step);
  if (spec.attn_softcap != 0) add_float(a + "attn_logit_softcapping", spec.attn_softcap);
  if (spec.final_softcap != 0) add_float(a + "final_logit_softcapping", spec.final_softcap);
  if (spec.long_rope) add_uint(a + "rope.scaling.original_context_length", spec.max_seq_len / 4);
  if (spec.vocabulary) tiny_vocabulary(spec, writer);
  if (spec.metadata) spec.metadata(writer);
}

// A file of these very tensors under the spec's metadata.
inline std::vector<std::byte> tiny_file(const TinySpec& spec,
                                        const std::vector<TinyTensor>& tensors) {
  GgufWriter writer;
  tiny_metadata(spec, writer);
  for (const TinyTensor& t : tensors) writer.add_tensor(t.name, t.type, t.shape, t.bytes);
  return writer.serialize();
}

inline std::vector<std::byte> tiny_model(const TinySpec& spec = {}) {
  return tiny_file(spec, tiny_tensors(spec));
}

}  // namespace specbound::test
