// Tensors by name: what a model must have, may have and must not have.
#include "model/weights.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "expect_error.h"
#include "gguf_bytes.h"
#include "tiny_gguf.h"

namespace specbound::test::weights_test {
namespace {

// A parsed model with its bytes.
struct Loaded {
  std::vector<std::byte> bytes;
  Gguf gguf;
  ModelConfig config;

  Loaded(const TinySpec& spec, const std::vector<TinyTensor>& tensors)
      : bytes(tiny_file(spec, tensors)),
        gguf(Gguf::parse(bytes, "tiny.gguf")),
        config(read_config(gguf)) {}
  explicit Loaded(const TinySpec& spec) : Loaded(spec, tiny_tensors(spec)) {}
  Weights weights() const { return map_weights(gguf, config); }
};

void refuse(const TinySpec& spec, const std::vector<TinyTensor>& tensors, ErrorCode code,
            std::initializer_list<std::string_view> parts) {
  const Loaded model(spec, tensors);
  const std::string text = expect_error(code, [&] { model.weights(); });
  check_mentions(text, {"tiny.gguf: ", "expected ", "found "});
  check_mentions(text, parts);
}

TinyTensor& named(std::vector<TinyTensor>& tensors, const std::string& name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const TinyTensor& t) { return t.name == name; });
  REQUIRE(found != tensors.end());
  return *found;
}

void remove(std::vector<TinyTensor>& tensors, const std::string& name) {
  tensors.erase(tensors.begin() + (&named(tensors, name) - tensors.data()));
}

// Of each architecture, with as many tensors as it may have.
std::vector<TinySpec> fullest() {
  std::vector<TinySpec> specs;
  for (const char* name : {"llama", "qwen2", "qwen3", "qwen3moe", "gemma", "gemma2", "gemma3",
                           "phi3", "smollm3", "ernie4_5"}) {
    TinySpec spec;
    spec.architecture = name;
    spec.output_bias = true;
    spec.qkv_bias = spec.architecture != "phi3";
    spec.rope_freqs = spec.qkv_bias && spec.architecture != "gemma3";
    spec.long_rope = spec.architecture == "phi3";
    spec.head_dim = 24;
    specs.push_back(spec);
  }
  return specs;
}

bool is_required(const TinySpec& spec, const std::string& name) {
  if (name == "output.weight" || name == "rope_freqs.weight") return false;
  return !name.ends_with(".bias") ||
         (spec.architecture == "qwen2" && !name.ends_with("output.bias"));
}

TEST_CASE("weights: every architecture and element type is found, shapes and places") {
  for (const char* architecture : {"llama", "qwen2", "qwen3"}) {
    for (DType type : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0}) {
      TinySpec spec;
      spec.architecture = architecture;
      spec.type = type;
      spec.head_dim = 24;
      spec.rope_freqs = true;
      const Loaded model(spec);
      const Weights w = model.weights();
      REQUIRE(w.layers.size() == 2);
      CHECK(!w.tied);
      const auto at = [&](const char* name) { return model.gguf.find_tensor(name)->bytes.data(); };
      const auto check = [&](const Matrix& m, int n_out, int n_in, const char* name) {
        CHECK(m.type == type);
        CHECK(m.n_out == n_out);
        CHECK(m.n_in == n_in);
        CHECK(m.data == at(name));
      };
      check(w.token_embd, 97, 64, "token_embd.weight");
      check(w.lm_head, 97, 64, "output.weight");
      const LayerWeights& l = w.layers[1];
      check(l.wq, 96, 64, "blk.1.attn_q.weight");
      check(l.wk, 48, 64, "blk.1.attn_k.weight");
      check(l.wv, 48, 64, "blk.1.attn_v.weight");
      check(l.wo, 64, 96, "blk.1.attn_output.weight");
      check(l.w_gate, 96, 64, "blk.1.ffn_gate.weight");
      check(l.w_up, 96, 64, "blk.1.ffn_up.weight");
      check(l.w_down, 64, 96, "blk.1.ffn_down.weight");
      const auto is = [&](const float* p, const char* name) {
        return reinterpret_cast<const std::byte*>(p) == at(name);
      };
      CHECK(is(w.output_norm, "output_norm.weight"));
      CHECK(is(w.rope_factors, "rope_freqs.weight"));
      CHECK(is(l.attn_norm, "blk.1.attn_norm.weight"));
      CHECK(is(l.ffn_norm, "blk.1.ffn_norm.weight"));
      const bool qwen2 = spec.architecture == "qwen2", qwen3 = spec.architecture == "qwen3";
      CHECK((l.bq != nullptr) == qwen2);
      CHECK((l.bk != nullptr) == qwen2);
      CHECK((l.bv != nullptr) == qwen2);
      CHECK(l.bo == nullptr);
      CHECK((l.q_norm != nullptr) == qwen3);
      CHECK((l.k_norm != nullptr) == qwen3);
      CHECK(reinterpret_cast<uintptr_t>(l.attn_norm) % alignof(float) == 0);
    }
  }
}

TEST_CASE("weights: phi3's fused matrices are read apart by rows") {
  for (DType type : {DType::kF32, DType::kF16, DType::kQ8_0}) {
    TinySpec spec;
    spec.architecture = "phi3";
    spec.type = type;
    const Loaded model(spec);
    const Weights w = model.weights();
    const LayerWeights& l = w.layers[1];
    const auto at = [&](const char* name) { return model.gguf.find_tensor(name)->bytes; };
    const auto follows = [&](const Matrix& m, int n_out, const std::byte* from) {
      CHECK(m.type == type);
      CHECK(m.n_out == n_out);
      CHECK(m.n_in == 64);
      CHECK(m.data == from);
      return m.data + m.bytes();
    };
    const auto qkv = at("blk.1.attn_qkv.weight"), gate_up = at("blk.1.ffn_up.weight");
    const std::byte* next = follows(l.wq, 64, qkv.data());
    next = follows(l.wk, 32, next);
    CHECK(follows(l.wv, 32, next) == qkv.data() + qkv.size());
    next = follows(l.w_gate, 96, gate_up.data());
    CHECK(follows(l.w_up, 96, next) == gate_up.data() + gate_up.size());
  }
}

TEST_CASE("weights: a mixture's experts lie one below the other; a token reads those it uses") {
  TinySpec spec;
  spec.architecture = "qwen3moe";
  spec.type = DType::kQ8_0;
  spec.types = {{"ffn_gate_inp.weight", DType::kF32}};
  spec.tied = true;
  const Loaded model(spec);
  const Weights w = model.weights();
  const LayerWeights& l = w.layers[1];
  CHECK(l.n_experts() == 5);
  CHECK(l.router.n_out == 5);
  CHECK(l.router.n_in == 64);
  const auto check = [&](const Matrix& all, int n_out, int n_in, const char* name) {
    const auto bytes = model.gguf.find_tensor(name)->bytes;
    const std::byte* next = bytes.data();
    for (int e = 0; e < 5; ++e) {
      const Matrix m = l.expert(all, e);
      CHECK(m.type == DType::kQ8_0);
      CHECK(m.n_out == n_out);
      CHECK(m.n_in == n_in);
      CHECK(m.data == next);
      next += m.bytes();
    }
    CHECK(next == bytes.data() + bytes.size());
  };
  check(l.w_gate, 96, 64, "blk.1.ffn_gate_exps.weight");
  check(l.w_up, 96, 64, "blk.1.ffn_up_exps.weight");
  check(l.w_down, 64, 96, "blk.1.ffn_down_exps.weight");
  // Head, output_norm; q and o 64x64, k and v 32x64, two experts of three 96x64; the router, norms.
  const size_t layer =
      (2 * 64 * 64 + 2 * 32 * 64 + 2 * 3 * 96 * 64) / 32 * 34 + 4 * (5 * 64 + 2 * 64);
  CHECK(w.bytes_per_token() == 97 * 64 / 32 * 34 + 64 * 4 + 2 * layer);

  // Shapes that lie: one expert more or fewer, the two sizes exchanged, no third dimension.
  for (const char* name : {"blk.0.ffn_gate_exps.weight", "blk.1.ffn_down_exps.weight"}) {
    const std::vector<TinyTensor> all = tiny_tensors(spec);
    const auto with_shape = [&](std::vector<uint64_t> shape) {
      std::vector<TinyTensor> changed = all;
      TinyTensor& tensor = named(changed, name);
      uint64_t n = 1;
      for (const uint64_t size : shape) n *= size;
      tensor.shape = std::move(shape);
      tensor.bytes.resize(n / 32 * 34);
      refuse(spec, changed, ErrorCode::kFormat, {name, "expected shape", "found ("});
    };
    const bool down = std::string_view(name).find("down") != std::string_view::npos;
    const uint64_t n_in = down ? 96 : 64, n_out = down ? 64 : 96;
    for (const uint64_t n : {4, 6}) with_shape({n_in, n_out, n});
    with_shape({n_out, n_in, 5});
    with_shape({n_in, n_out * 5});
    with_shape({n_in, n_out, 5, 2});
  }
  TinySpec fused = spec;
  std::vector<TinyTensor> changed = tiny_tensors(spec);
  named(changed, "blk.0.ffn_up_exps.weight").name = "blk.0.ffn_gate_up_exps.weight";
  refuse(fused, changed, ErrorCode::kUnsupported,
         {"ffn_gate_up_exps.weight", "as separate tensors"});
}

TEST_CASE("weights: norms of gemma2 and gemma3, phi3's factors by context") {
  TinySpec spec;
  spec.architecture = "gemma2";
  spec.tied = true;
  const Loaded gemma2(spec);
  const Weights w = gemma2.weights();
  const auto is = [&](const Loaded& model, const float* p, const char* name) {
    return reinterpret_cast<const std::byte*>(p) == model.gguf.find_tensor(name)->bytes.data();
  };
  CHECK(is(gemma2, w.layers[1].post_attn_norm, "blk.1.post_attention_norm.weight"));
  CHECK(is(gemma2, w.layers[1].post_ffn_norm, "blk.1.post_ffw_norm.weight"));
  CHECK(w.rope_factors_for(gemma2.config, 1 << 20) == nullptr);

  const Loaded gemma3(gemma3_spec());
  const Weights g = gemma3.weights();
  CHECK(is(gemma3, g.layers[2].q_norm, "blk.2.attn_q_norm.weight"));
  CHECK(is(gemma3, g.layers[2].k_norm, "blk.2.attn_k_norm.weight"));
  CHECK(is(gemma3, g.layers[2].post_ffn_norm, "blk.2.post_ffw_norm.weight"));

  spec.architecture = "phi3";
  spec.long_rope = true;  // 64 of 256 positions are short
  const Loaded phi3(spec);
  const Weights p = phi3.weights();
  CHECK(p.layers[1].post_attn_norm == nullptr);
  for (int n_ctx : {1, 64}) {
    CHECK(is(phi3, p.rope_factors_for(phi3.config, n_ctx), "rope_factors_short.weight"));
  }
  for (int n_ctx : {65, 256}) {
    CHECK(is(phi3, p.rope_factors_for(phi3.config, n_ctx), "rope_factors_long.weight"));
  }
}

TEST_CASE("weights: tied embeddings, optional biases, a type per matrix, bytes a token reads") {
  TinySpec spec;
  spec.tied = true;
  spec.qkv_bias = true;
  spec.output_bias = true;
  spec.types = {{"ffn_down.weight", DType::kQ8_0}, {"token_embd.weight", DType::kF16}};
  const Loaded model(spec);
  const Weights w = model.weights();
  CHECK(w.tied);
  CHECK(w.lm_head.data == w.token_embd.data);
  CHECK(w.lm_head.type == DType::kF16);
  CHECK(w.layers[0].w_down.type == DType::kQ8_0);
  CHECK(w.layers[0].w_up.type == DType::kF32);
  CHECK(w.layers[0].bq != nullptr);
  CHECK(w.layers[0].bo != nullptr);
  CHECK(w.rope_factors == nullptr);
  // By hand: head, output_norm; per layer q 64x64, k and v 32x64, o 64x64, gate and up 96x64, down
  // 64x96 in Q8_0, norms 2x64, biases 64 + 32 + 32 + 64.
  const size_t layer = 4 * (64 * 64 + 2 * 32 * 64 + 64 * 64 + 2 * 96 * 64) + 64 * 96 / 32 * 34 +
                       4 * (2 * 64 + 64 + 32 + 32 + 64);
  CHECK(w.bytes_per_token() == 97 * 64 * 2 + 64 * 4 + 2 * layer);
}

TEST_CASE("weights: each tensor missing in turn") {
  for (const TinySpec& spec : fullest()) {
    const std::vector<TinyTensor> all = tiny_tensors(spec);
    for (const TinyTensor& tensor : all) {
      std::vector<TinyTensor> rest = all;
      remove(rest, tensor.name);
      INFO(spec.architecture, " without ", tensor.name);
      if (tensor.name == "rope_factors_long.weight") {  // by which the others are known
        refuse(spec, rest, ErrorCode::kUnsupported, {"rope_factors_short.weight"});
      } else if (is_required(spec, tensor.name)) {
        refuse(spec, rest, ErrorCode::kFormat, {"'" + tensor.name + "'", "no such tensor"});
      } else {
        CHECK_NOTHROW(Loaded(spec, rest).weights());
      }
    }
  }
}

TEST_CASE("weights: each tensor mis-shaped in turn, expected and found are told") {
  for (const TinySpec& spec : fullest()) {
    const std::vector<TinyTensor> all = tiny_tensors(spec);
    for (size_t i = 0; i < all.size(); ++i) {
      INFO(spec.architecture, " with another ", all[i].name);
      std::vector<TinyTensor> longer = all;  // one row, or one number, more
      const size_t row = all[i].bytes.size() / all[i].shape.back();
      longer[i].shape.back() += 1;
      longer[i].bytes.resize(longer[i].bytes.size() + row);
      const std::string found = std::to_string(longer[i].shape.back()) + ")";
      refuse(spec, longer, ErrorCode::kFormat,
             {"'" + all[i].name + "'", "expected shape (", "found (", found});
      if (all[i].shape.size() == 2 && all[i].shape[0] != all[i].shape[1]) {
        std::vector<TinyTensor> turned = all;
        std::swap(turned[i].shape[0], turned[i].shape[1]);
        refuse(spec, turned, ErrorCode::kFormat, {"'" + all[i].name + "'", "expected shape ("});
      }
      std::vector<TinyTensor> more_dims = all;  // the same numbers under another number of dims
      more_dims[i].shape.insert(more_dims[i].shape.begin(), 1);
      refuse(spec, more_dims, ErrorCode::kFormat, {"'" + all[i].name + "'", "found (1, "});
      std::vector<TinyTensor> ones = all;  // trailing ones mean nothing
      ones[i].shape.push_back(1);
      CHECK_NOTHROW(Loaded(spec, ones).weights());
    }
  }
}

TEST_CASE("weights: element types that cannot run") {
  TinySpec spec;
  spec.ffn_dim = 256;
  const std::vector<TinyTensor> all = tiny_tensors(spec);
  const auto retyped = [&](const std::string& name, DType type) {
    std::vector<TinyTensor> tensors = all;
    TinyTensor& t = named(tensors, name);
    const DTypeInfo* info = dtype_info(type);
    uint64_t n = 1;
    for (uint64_t size : t.shape) n *= size;
    t.type = type;
    t.bytes.assign(n / info->block * info->bytes, std::byte{0});
    return tensors;
  };
  for (DType type : {DType::kIQ4_XS, DType::kI8, DType::kF64, DType::kMXFP4}) {
    refuse(spec, retyped("blk.0.ffn_down.weight", type), ErrorCode::kUnsupported,
           {"'blk.0.ffn_down.weight'", "F32, F16, BF16, Q8_0, Q4_0, Q4_K, Q6_K, Q4_1",
            dtype_info(type)->name});
  }
  // Those that run keep the type they are stored in; what a token reads is what they become.
  for (DType type : {DType::kQ4_0, DType::kQ4_K, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                     DType::kQ2_K, DType::kQ3_K, DType::kQ5_K, DType::kQ6_K, DType::kIQ4_NL}) {
    CAPTURE(dtype_info(type)->name);
    const Loaded model(spec, retyped("blk.0.ffn_down.weight", type));
    const Weights w = model.weights();
    CHECK(w.layers[0].w_down.type == type);
    const DTypeInfo *stored = dtype_info(type), *running = dtype_info(*runs_as(type));
    CHECK(w.layers[0].w_down.bytes() == size_t{64} * 256 / stored->block * stored->bytes);
    const size_t plain = Loaded(spec).weights().bytes_per_token();
    CHECK(w.bytes_per_token() ==
          plain - size_t{64} * 256 * 4 + size_t{64} * 256 / running->block * running->bytes);
  }
  for (DType type : {DType::kF16, DType::kBF16, DType::kQ8_0}) {
    refuse(spec, retyped("blk.1.attn_norm.weight", type), ErrorCode::kUnsupported,
           {"'blk.1.attn_norm.weight'", "expected F32", dtype_info(type)->name});
  }
}

TEST_CASE("weights: tensors the architecture does not know") {
  TinySpec spec;
  const std::vector<TinyTensor> all = tiny_tensors(spec);
  const auto plus = [&](const std::string& name, std::vector<uint64_t> shape) {
    std::vector<TinyTensor> tensors = all;
    tensors.push_back(tiny_tensor(spec, name, DType::kF32, std::move(shape), 0, 1));
    return tensors;
  };
  for (const char* name : {"blk.0.ffn_gate.bias", "blk.2.attn_norm.weight", "output.bias",
                           "blk.0.attn_q_norm.weight", "blk.00.attn_norm.weight", "mystery"}) {
    refuse(spec, plus(name, {64}), ErrorCode::kUnsupported,
           {format("'%s'", name), "llama models of 2 layers"});
  }
  refuse(spec, plus("blk.0.attn_qkv.weight", {64, 128}), ErrorCode::kUnsupported,
         {"'blk.0.attn_qkv.weight'", "attn_q, attn_k and attn_v", "fused"});
  refuse(spec, plus("blk.1.ffn_gate_up.weight", {64, 192}), ErrorCode::kUnsupported,
         {"'blk.1.ffn_gate_up.weight'", "fused"});
  // Rotary tables of old converters follow from the configuration.
  for (const char* name :
       {"blk.0.attn_rot_embd", "blk.0.attn_rot_embd.weight", "blk.1.attn.rotary_emb.inv_freq"}) {
    CHECK_NOTHROW(Loaded(spec, plus(name, {8})).weights());
  }
}

TEST_CASE("weights: more layers announced than there are") {
  TinySpec spec;
  const std::vector<TinyTensor> two = tiny_tensors(spec);
  spec.n_layers = 4096;
  refuse(spec, two, ErrorCode::kFormat, {"'blk.2.attn_norm.weight'", "no such tensor"});
  spec.n_layers = 1;
  refuse(spec, two, ErrorCode::kUnsupported, {"'blk.1.attn_norm.weight'", "1 layers"});
}

TEST_CASE("weights: a vocabulary without tensors says so") {
  refuse(TinySpec{}, {}, ErrorCode::kUnsupported, {"no tensors", "only a vocabulary"});
}

TEST_CASE("weights: rope factors must be finite and not too small") {
  TinySpec spec;
  spec.rope_freqs = true;
  for (float bad : {0.0f, -1.0f, 1e-38f, std::nanf(""), std::numeric_limits<float>::infinity()}) {
    std::vector<TinyTensor> tensors = tiny_tensors(spec);
    std::memcpy(named(tensors, "rope_freqs.weight").bytes.data() + 12, &bad, sizeof(bad));
    refuse(spec, tensors, ErrorCode::kFormat, {"'rope_freqs.weight'", "finite", "at 3"});
  }
  spec = gemma3_spec();  // which layers would they be for?
  spec.rope_freqs = true;
  refuse(spec, tiny_tensors(spec), ErrorCode::kUnsupported,
         {"'rope_freqs.weight'", "only tensors that gemma3"});
}

}  // namespace
}  // namespace specbound::test::weights_test
