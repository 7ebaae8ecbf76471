#include "convert/tensor_plan.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "convert/quantize_plan.h"
#include "error.h"
#include "model/codec.h"

namespace specbound {
namespace {

class Planner {
 public:
  Planner(const HfConfig& config, const Checkpoint& checkpoint, DType type)
      : config_(config), checkpoint_(checkpoint), type_(type) {}

  std::vector<PlannedTensor> plan() {
    matrix("model.embed_tokens.weight", "token_embd.weight", config_.vocab_size, config_.dim);
    for (uint64_t l = 0; l < config_.n_layers; ++l) layer(l);
    norm("model.norm", "output_norm", config_.dim);
    if (!config_.tied) matrix("lm_head.weight", "output.weight", config_.vocab_size, config_.dim);
    refuse_leftovers();
    return std::move(planned_);
  }

 private:
  void layer(uint64_t l) {
    const std::string number = std::to_string(l);
    from_ = "model.layers." + number + ".";
    to_ = "blk." + number + ".";
    const Architecture& a = *config_.model;
    norm("input_layernorm", "attn_norm", config_.dim);
    attention();
    // Gemma 2 has norms on both sides of either part, and other names for them.
    if (a.post_norms) {
      norm("post_attention_layernorm", "post_attention_norm", config_.dim);
      norm("pre_feedforward_layernorm", "ffn_norm", config_.dim);
      norm("post_feedforward_layernorm", "post_ffw_norm", config_.dim);
    } else {
      norm("post_attention_layernorm", "ffn_norm", config_.dim);
    }
    if (a.fused) {
      matrix("mlp.gate_up_proj.weight", "ffn_up.weight", 2 * config_.ffn_dim, config_.dim);
    } else {
      matrix("mlp.gate_proj.weight", "ffn_gate.weight", config_.ffn_dim, config_.dim);
      matrix("mlp.up_proj.weight", "ffn_up.weight", config_.ffn_dim, config_.dim);
    }
    matrix("mlp.down_proj.weight", "ffn_down.weight", config_.dim, config_.ffn_dim);
    from_.clear(), to_.clear();
  }

  void attention() {
    const Architecture& a = *config_.model;
    const uint64_t q_dim = config_.q_dim(), kv_dim = config_.kv_dim();
    if (a.fused) {
      matrix("self_attn.qkv_proj.weight", "attn_qkv.weight", q_dim + 2 * kv_dim, config_.dim);
    } else {
      const bool moved = config_.interleaved() && !config_.architecture->in_pairs;
      const uint64_t head_rows = moved ? config_.head_dim : 0;
      projection("self_attn.q_proj", "attn_q", q_dim, head_rows);
      projection("self_attn.k_proj", "attn_k", kv_dim, head_rows);
      projection("self_attn.v_proj", "attn_v", kv_dim, 0);
    }
    if (a.qk_norm) {
      norm("self_attn.q_norm", "attn_q_norm", config_.head_dim);
      norm("self_attn.k_norm", "attn_k_norm", config_.head_dim);
    }
    matrix("self_attn.o_proj.weight", "attn_output.weight", config_.dim, q_dim);
    if (config_.o_bias) vector("self_attn.o_proj.bias", "attn_output.bias", config_.dim);
  }

  void projection(const std::string& hf, const std::string& gguf, uint64_t n_out,
                  uint64_t head_rows) {
    matrix(hf + ".weight", gguf + ".weight", n_out, config_.dim, head_rows);
    if (config_.qkv_bias) vector(hf + ".bias", gguf + ".bias", n_out, head_rows);
  }

  void matrix(const std::string& hf, const std::string& gguf, uint64_t n_out, uint64_t n_in,
              uint64_t head_rows = 0) {
    const uint64_t shape[] = {n_out, n_in};
    const SafeTensor& source = take(from_ + hf, shape);
    const std::string name = to_ + gguf;
    const DType type = matrix_type(name, n_in, type_);
    planned_.push_back({name, &source, n_out, n_in, false, type, head_rows, false});
  }

  void vector(const std::string& hf, const std::string& gguf, uint64_t n, uint64_t head_rows = 0,
              bool add_one = false) {
    const uint64_t shape[] = {n};
    const SafeTensor& source = take(from_ + hf, shape);
    planned_.push_back({to_ + gguf, &source, n, 1, true, DType::kF32, head_rows, add_one});
  }

  void norm(const std::string& hf, const std::string& gguf, uint64_t n) {
    vector(hf + ".weight", gguf + ".weight", n, 0, config_.architecture->norm_offset);
  }

  const SafeTensor& take(const std::string& name, std::span<const uint64_t> shape) {
    const SafeTensor* tensor = checkpoint_.find(name);
    if (!tensor) fail(ErrorCode::kFormat, name, "expected it, found none of this name");
    if (!std::ranges::equal(tensor->shape, shape)) {
      fail(ErrorCode::kFormat, name,
           format("expected the shape %s, as config.json has it, found %s",
                  shape_text(shape).c_str(), shape_text(tensor->shape).c_str()));
    }
    if (!tensor->type) {
      fail(ErrorCode::kUnsupported, name,
           format("expected F32, F16 or BF16, found %s", tensor->dtype.c_str()));
    }
    taken_.insert(tensor);
    return *tensor;
  }

  void refuse_leftovers() const {
    for (const SafeTensor* tensor : checkpoint_.tensors()) {
      const std::string_view name = tensor->name;
      // Tables that old files store, and a head that is not used: the embedding is.
      const bool known =
          name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".attention.bias") ||
          name.ends_with(".attention.masked_bias") || (config_.tied && name == "lm_head.weight");
      if (taken_.contains(tensor) || known) continue;
      fail(ErrorCode::kUnsupported, tensor->name,
           format("expected none of this name in %s", config_.architecture->hf_name));
    }
  }

  [[noreturn]] void fail(ErrorCode code, const std::string& name, const std::string& what) const {
    throw Error(code, format("%s: tensor '%s': %s", checkpoint_.directory().c_str(),
                             printable(name).c_str(), what.c_str()));
  }

  const HfConfig& config_;
  const Checkpoint& checkpoint_;
  const DType type_;
  std::string from_, to_;  // what names begin with, of the layer under way
  std::vector<PlannedTensor> planned_;
  std::unordered_set<const SafeTensor*> taken_;
};

}  // namespace

std::vector<PlannedTensor> plan_tensors(const HfConfig& config, const Checkpoint& checkpoint,
                                        DType type) {
  return Planner(config, checkpoint, type).plan();
}

void load_elements(const PlannedTensor& tensor, uint64_t begin, uint64_t count, float* out) {
  const DType from = *tensor.source->type;
  const uint64_t bytes = dtype_info(from)->bytes;
  SB_CHECK(begin + count <= tensor.n_out * tensor.n_in);
  if (tensor.head_rows == 0) {
    dequantize(tensor.source->bytes.data() + begin * bytes, from, count, out);
  } else {
    const uint64_t half = tensor.head_rows / 2;
    for (uint64_t done = 0; done < count;) {
      const uint64_t row = (begin + done) / tensor.n_in, column = (begin + done) % tensor.n_in;
      const uint64_t n = std::min(tensor.n_in - column, count - done);
      const uint64_t inside = row % tensor.head_rows;
      const uint64_t source_row = row - inside + inside / 2 + (inside % 2) * half;
      const uint64_t element = source_row * tensor.n_in + column;
      dequantize(tensor.source->bytes.data() + element * bytes, from, n, out + done);
      done += n;
    }
  }
  if (tensor.add_one) {
    for (uint64_t i = 0; i < count; ++i) out[i] += 1;
  }
}

}  // namespace specbound
