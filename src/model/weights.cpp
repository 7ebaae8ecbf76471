#include "model/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "error.h"
#include "model/codec.h"

namespace specbound {
namespace {

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> endings) {
  for (std::string_view ending : endings) {
    if (name.ends_with(ending)) return true;
  }
  return false;
}

// The names of all types that run as they are, or after conversion.
std::string types_that_run(bool as_they_are) {
  std::string names;
  for (const DTypeInfo& info : kDTypes) {
    if (!info.runs_as || (*info.runs_as == info.type) != as_they_are) continue;
    names += (names.empty() ? "" : ", ") + std::string(info.name);
  }
  return names;
}

// Takes tensors out of the file by name, each with the shape it must have, and remembers which:
// what is left over at the end is something this program does not compute.
class TensorTaker {
 public:
  explicit TensorTaker(const Gguf& gguf) : gguf_(gguf), taken_(gguf.tensors().size(), false) {}

  bool has(const std::string& name) const { return gguf_.find_tensor(name) != nullptr; }

  Matrix matrix(const std::string& name, int n_out, int n_in) {
    return matrix_of(name, {static_cast<uint64_t>(n_in), static_cast<uint64_t>(n_out)});
  }

  // Of n matrices, one below the other.
  Matrix matrices(const std::string& name, int n, int n_out, int n_in) {
    return matrix_of(name, {static_cast<uint64_t>(n_in), static_cast<uint64_t>(n_out),
                            static_cast<uint64_t>(n)});
  }

  // Gives (n) floats. They are used in place, so only F32 will do.
  const float* vector(const std::string& name, int n) {
    const GgufTensor& tensor = take(name, {static_cast<uint64_t>(n)});
    if (tensor.type != DType::kF32) {
      fail(ErrorCode::kUnsupported, name,
           format("expected F32, as converters write it, found %s", dtype_info(tensor.type)->name));
    }
    return reinterpret_cast<const float*>(tensor.bytes.data());
  }

  const float* optional_vector(const std::string& name, int n) {
    return has(name) ? vector(name, n) : nullptr;
  }

  // The first tensor that nobody took, and that is not merely a stored table of ours.
  void refuse_leftovers(const ModelConfig& config) const {
    for (size_t i = 0; i < taken_.size(); ++i) {
      const GgufTensor& tensor = gguf_.tensors()[i];
      // Old converters stored the rotary frequencies, which follow from the configuration.
      if (taken_[i] || ends_with_any(tensor.name, {".attn_rot_embd", ".attn_rot_embd.weight",
                                                   ".rotary_emb.inv_freq"})) {
        continue;
      }
      fail(ErrorCode::kUnsupported, std::string(tensor.name),
           format("expected only tensors that %s models of %d layers have, found this one",
                  config.architecture.c_str(), config.n_layers));
    }
  }

  [[noreturn]] void fail(ErrorCode code, const std::string& name, const std::string& text) const {
    throw Error(code, format("%s: tensor '%s': %s", gguf_.path().c_str(), printable(name).c_str(),
                             text.c_str()));
  }

 private:
  Matrix matrix_of(const std::string& name, const std::vector<uint64_t>& shape) {
    const GgufTensor& tensor = take(name, shape);
    if (!runs_as(tensor.type)) {
      fail(ErrorCode::kUnsupported, name,
           format("expected %s or a quantization that becomes Q8_0 at load (%s), found %s",
                  types_that_run(true).c_str(), types_that_run(false).c_str(),
                  dtype_info(tensor.type)->name));
    }
    const uint64_t n_out = shape[1] * (shape.size() > 2 ? shape[2] : 1);
    return {tensor.type, static_cast<int>(n_out), static_cast<int>(shape[0]), tensor.bytes.data()};
  }

  const GgufTensor& take(const std::string& name, const std::vector<uint64_t>& shape) {
    const GgufTensor* tensor = gguf_.find_tensor(name);
    if (!tensor) {
      fail(ErrorCode::kFormat, name,
           format("expected shape %s, found no such tensor", shape_text(shape).c_str()));
    }
    // Trailing dimensions of 1 are the same tensor to every writer.
    std::vector<uint64_t> found = tensor->shape, expected = shape;
    while (found.size() > 1 && found.back() == 1) found.pop_back();
    while (expected.size() > 1 && expected.back() == 1) expected.pop_back();
    if (found != expected) {
      fail(ErrorCode::kFormat, name,
           format("expected shape %s, found %s", shape_text(shape).c_str(),
                  shape_text(tensor->shape).c_str()));
    }
    taken_[tensor - gguf_.tensors().data()] = true;
    return *tensor;
  }

  const Gguf& gguf_;
  std::vector<bool> taken_;
};

// Of architectures that have no fused matrices: other programs' converters may write some.
void refuse_fused(const TensorTaker& tensors, const std::string& block) {
  const struct {
    const char *fused, *apart;
  } kFused[] = {{"attn_qkv.weight", "attn_q, attn_k and attn_v"},
                {"ffn_gate_up.weight", "ffn_gate and ffn_up"},
                {"ffn_gate_up_exps.weight", "ffn_gate_exps and ffn_up_exps"}};
  for (const auto& f : kFused) {
    if (tensors.has(block + f.fused)) {
      tensors.fail(ErrorCode::kUnsupported, block + f.fused,
                   format("expected %s as separate tensors, found a fused one", f.apart));
    }
  }
}

LayerWeights map_layer(TensorTaker& tensors, const ModelConfig& c, int index) {
  const std::string block = format("blk.%d.", index);
  const Architecture& has = *find_architecture(c.architecture);
  if (!has.fused) refuse_fused(tensors, block);
  const auto bias = [&](const char* name, int n, bool required) {
    return required ? tensors.vector(block + name, n) : tensors.optional_vector(block + name, n);
  };

  LayerWeights w;
  w.attn_norm = tensors.vector(block + "attn_norm.weight", c.dim);
  if (has.fused) {
    const Matrix qkv = tensors.matrix(block + "attn_qkv.weight", c.q_dim() + 2 * c.kv_dim(), c.dim);
    w.wq = rows_of(qkv, 0, c.q_dim());
    w.wk = rows_of(qkv, c.q_dim(), c.kv_dim());
    w.wv = rows_of(qkv, c.q_dim() + c.kv_dim(), c.kv_dim());
  } else {
    w.wq = tensors.matrix(block + "attn_q.weight", c.q_dim(), c.dim);
    w.wk = tensors.matrix(block + "attn_k.weight", c.kv_dim(), c.dim);
    w.wv = tensors.matrix(block + "attn_v.weight", c.kv_dim(), c.dim);
    w.bq = bias("attn_q.bias", c.q_dim(), has.qkv_bias);
    w.bk = bias("attn_k.bias", c.kv_dim(), has.qkv_bias);
    w.bv = bias("attn_v.bias", c.kv_dim(), has.qkv_bias);
  }
  if (has.qk_norm) {
    w.q_norm = tensors.vector(block + "attn_q_norm.weight", c.head_dim);
    w.k_norm = tensors.vector(block + "attn_k_norm.weight", c.head_dim);
  }
  w.wo = tensors.matrix(block + "attn_output.weight", c.dim, c.q_dim());
  w.bo = bias("attn_output.bias", c.dim, false);
  w.ffn_norm = tensors.vector(block + "ffn_norm.weight", c.dim);
  if (has.post_norms) {
    w.post_attn_norm = tensors.vector(block + "post_attention_norm.weight", c.dim);
    w.post_ffn_norm = tensors.vector(block + "post_ffw_norm.weight", c.dim);
  }
  if (has.experts) {
    w.router = tensors.matrix(block + "ffn_gate_inp.weight", c.n_experts, c.dim);
    w.w_gate = tensors.matrices(block + "ffn_gate_exps.weight", c.n_experts, c.ffn_dim, c.dim);
    w.w_up = tensors.matrices(block + "ffn_up_exps.weight", c.n_experts, c.ffn_dim, c.dim);
    w.w_down = tensors.matrices(block + "ffn_down_exps.weight", c.n_experts, c.dim, c.ffn_dim);
    return w;
  }
  if (has.fused) {
    const Matrix gate_up = tensors.matrix(block + "ffn_up.weight", 2 * c.ffn_dim, c.dim);
    w.w_gate = rows_of(gate_up, 0, c.ffn_dim);
    w.w_up = rows_of(gate_up, c.ffn_dim, c.ffn_dim);
  } else {
    w.w_gate = tensors.matrix(block + "ffn_gate.weight", c.ffn_dim, c.dim);
    w.w_up = tensors.matrix(block + "ffn_up.weight", c.ffn_dim, c.dim);
  }
  w.w_down = tensors.matrix(block + "ffn_down.weight", c.dim, c.ffn_dim);
  return w;
}

// Frequency divisors, finite and no smaller than a rope scale.
const float* rope_factors(TensorTaker& tensors, const char* name, const ModelConfig& config) {
  const float* factors = tensors.vector(name, config.rope_dim / 2);
  for (int i = 0; i < config.rope_dim / 2; ++i) {
    if (!(std::isfinite(factors[i]) && factors[i] >= kLeastRopeFactor)) {
      tensors.fail(ErrorCode::kFormat, name,
                   format("expected finite factors from %g on, found %g at %d", kLeastRopeFactor,
                          factors[i], i));
    }
  }
  return factors;
}

size_t bytes_as(const Matrix& matrix, DType type) {
  const DTypeInfo* info = dtype_info(type);
  return static_cast<size_t>(matrix.n_out) * matrix.n_in / info->block * info->bytes;
}

}  // namespace

size_t Matrix::bytes() const {
  return bytes_as(*this, type);
}

size_t Matrix::run_bytes() const {
  return bytes_as(*this, *runs_as(type));
}

Matrix rows_of(const Matrix& matrix, int first, int n_out) {
  const size_t row_bytes = matrix.bytes() / matrix.n_out;
  return {matrix.type, n_out, matrix.n_in, matrix.data + first * row_bytes};
}

Matrix gathered_rows(const Matrix& matrix, std::span<const int32_t> ids, std::byte* to) {
  const size_t row_bytes = matrix.bytes() / matrix.n_out;
  for (size_t i = 0; i < ids.size(); ++i) {
    std::memcpy(to + i * row_bytes, matrix.data + ids[i] * row_bytes, row_bytes);
  }
  return {matrix.type, static_cast<int>(ids.size()), matrix.n_in, to};
}

std::vector<float> matrix_floats(const Matrix& matrix) {
  const size_t n = static_cast<size_t>(matrix.n_out) * matrix.n_in;
  std::vector<float> out(n);
  dequantize(matrix.data, matrix.type, n, out.data());
  return out;
}

const float* Weights::rope_factors_for(const ModelConfig& config, int n_ctx) const {
  const bool is_long = rope_factors_long && n_ctx > config.rope_original_context;
  return is_long ? rope_factors_long : rope_factors;
}

size_t Weights::bytes_per_token() const {
  const size_t dim = lm_head.n_in;
  size_t bytes = lm_head.run_bytes() + dim * sizeof(float);  // and output_norm
  for (const LayerWeights& w : layers) {
    for (const Matrix* m : {&w.wq, &w.wk, &w.wv, &w.wo}) bytes += m->run_bytes();
    for (const Matrix* m : {&w.w_gate, &w.w_up, &w.w_down}) {
      bytes += m->run_bytes() / w.n_experts() * std::max(n_experts_used, 1);
    }
    if (w.router.n_out > 0) bytes += w.router.run_bytes();
    size_t floats = 2 * dim;  // attn_norm, ffn_norm
    if (w.bq) floats += w.wq.n_out;
    if (w.bk) floats += w.wk.n_out;
    if (w.bv) floats += w.wv.n_out;
    if (w.bo) floats += dim;
    if (w.post_attn_norm) floats += dim;
    if (w.post_ffn_norm) floats += dim;
    bytes += floats * sizeof(float);
  }
  return bytes;
}

Weights map_weights(const Gguf& gguf, const ModelConfig& config) {
  if (gguf.tensors().empty()) {
    throw Error(ErrorCode::kUnsupported,
                format("%s: expected a model with weights, found no tensors: this file is only a "
                       "vocabulary",
                       gguf.path().c_str()));
  }
  TensorTaker tensors(gguf);
  Weights w;
  w.n_experts_used = config.n_experts_used;
  w.token_embd = tensors.matrix("token_embd.weight", config.vocab_size, config.dim);
  // A file lists its layers; asking for one more than it has fails before much is allocated.
  for (int l = 0; l < config.n_layers; ++l) w.layers.push_back(map_layer(tensors, config, l));
  w.output_norm = tensors.vector("output_norm.weight", config.dim);
  w.tied = !tensors.has("output.weight");
  w.lm_head =
      w.tied ? w.token_embd : tensors.matrix("output.weight", config.vocab_size, config.dim);

  if (config.rope_original_context > 0) {
    w.rope_factors = rope_factors(tensors, "rope_factors_short.weight", config);
    w.rope_factors_long = rope_factors(tensors, "rope_factors_long.weight", config);
  } else if (config.n_rotations() == 1 && tensors.has("rope_freqs.weight")) {
    w.rope_factors = rope_factors(tensors, "rope_freqs.weight", config);
  }
  tensors.refuse_leftovers(config);
  return w;
}

}  // namespace specbound
