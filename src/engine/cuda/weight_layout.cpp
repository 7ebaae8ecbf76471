#include "engine/cuda/weight_layout.h"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <utility>

#include "engine/cuda/fragments.h"
#include "engine/int8_formula.h"

namespace specbound {
namespace {

bool becomes_int8(const Matrix& m, GpuDtype dtype) {
  switch (dtype) {
    case GpuDtype::kAsStored:
      return takes_int8_rows(m.type);
    case GpuDtype::kInt8:
      return m.n_in % kQuantBlock == 0;
    case GpuDtype::kFp16:
      break;
  }
  return false;
}

bool all_become_int8(std::initializer_list<const Matrix*> group, GpuDtype dtype) {
  for (const Matrix* m : group) {
    if (!becomes_int8(*m, dtype)) return false;
  }
  return true;
}

// Takes nothing, counts all.
class SizeCounter final : public WeightSink {
 public:
  size_t source = 0, widest_tile = 0;

  DeviceMatrix matrix(const Matrix& m, bool int8) override {
    const MatrixBytes bytes = matrix_bytes(m, int8), tile = tile_bytes(m, int8);
    source += m.bytes();
    group_ +=
        device_aligned(bytes.values) + device_aligned(bytes.scales) + device_aligned(bytes.d2);
    widest_tile = std::max(widest_tile, tile.values + tile.scales + tile.d2);
    return {};
  }
  const float* floats(const float*, int n) override {
    source += n * sizeof(float);
    group_ += device_aligned(n * sizeof(float));
    return nullptr;
  }
  // Bytes since the last call.
  size_t end_group() { return std::exchange(group_, 0); }

 private:
  size_t group_ = 0;
};

}  // namespace

const char* gpu_dtype_name(GpuDtype dtype) {
  switch (dtype) {
    case GpuDtype::kAsStored:
      return "as stored";
    case GpuDtype::kInt8:
      return "int8";
    case GpuDtype::kFp16:
      break;
  }
  return "fp16";
}

MatrixBytes matrix_bytes(const Matrix& source, bool int8) {
  const size_t n_tiles = half_fragments(source).n_tiles;  // of either form
  const MatrixBytes tile = tile_bytes(source, int8);
  return {n_tiles * tile.values, n_tiles * tile.scales, n_tiles * tile.d2};
}

MatrixBytes tile_bytes(const Matrix& source, bool int8) {
  if (!int8) return {half_fragments(source).bytes_of(1), 0, 0};
  const FragmentShape shape = int8_fragments(source);
  return {shape.bytes_of(1), shape.scales_of(1) * sizeof(uint16_t),
          shape.supers_of(1) * sizeof(uint32_t)};
}

size_t device_aligned(size_t bytes) {
  constexpr size_t kAlignment = 256;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

size_t device_bytes(const Matrix& source, bool int8) {
  const MatrixBytes bytes = matrix_bytes(source, int8);
  return device_aligned(bytes.values) + device_aligned(bytes.scales) + bytes.d2;
}

DeviceLayer place_layer(const ModelConfig& c, const LayerWeights& w, GpuDtype dtype,
                        WeightSink& sink) {
  const auto optional = [&](const float* source, int n) {
    return source ? sink.floats(source, n) : nullptr;
  };
  const bool qkv = all_become_int8({&w.wq, &w.wk, &w.wv}, dtype);
  const bool gate_up = all_become_int8({&w.w_gate, &w.w_up, &w.w_down}, dtype);

  DeviceLayer to;
  to.attn_norm = sink.floats(w.attn_norm, c.dim);
  to.wq = sink.matrix(w.wq, qkv);
  to.wk = sink.matrix(w.wk, qkv);
  to.wv = sink.matrix(w.wv, qkv);
  to.bq = optional(w.bq, c.q_dim());
  to.bk = optional(w.bk, c.kv_dim());
  to.bv = optional(w.bv, c.kv_dim());
  to.q_norm = optional(w.q_norm, c.head_dim);
  to.k_norm = optional(w.k_norm, c.head_dim);
  to.wo = sink.matrix(w.wo, becomes_int8(w.wo, dtype));
  to.bo = optional(w.bo, c.dim);
  to.post_attn_norm = optional(w.post_attn_norm, c.dim);
  to.ffn_norm = sink.floats(w.ffn_norm, c.dim);
  to.post_ffn_norm = optional(w.post_ffn_norm, c.dim);
  to.w_gate = sink.matrix(w.w_gate, gate_up);
  to.w_up = sink.matrix(w.w_up, gate_up);
  to.w_down = sink.matrix(w.w_down, becomes_int8(w.w_down, dtype));
  return to;
}

DeviceHead place_head(const ModelConfig& c, const Weights& w, GpuDtype dtype, WeightSink& sink) {
  DeviceHead to;
  to.output_norm = sink.floats(w.output_norm, c.dim);
  to.lm_head = sink.matrix(w.lm_head, becomes_int8(w.lm_head, dtype));
  return to;
}

size_t WeightSizes::total() const {
  return std::accumulate(layers.begin(), layers.end(), head + embedding);
}

WeightSizes weight_sizes(const ModelConfig& config, const Weights& weights, GpuDtype dtype) {
  WeightSizes sizes;
  SizeCounter counter;
  for (const LayerWeights& layer : weights.layers) {
    place_layer(config, layer, dtype, counter);
    sizes.layers.push_back(counter.end_group());
  }
  place_head(config, weights, dtype, counter);
  sizes.head = counter.end_group();
  sizes.embedding = weights.token_embd.bytes();
  sizes.source = counter.source + sizes.embedding;
  sizes.widest_tile = counter.widest_tile;
  return sizes;
}

Weights random_weights(const ModelConfig& c) {
  const auto matrix = [](int n_out, int n_in) { return Matrix{DType::kF16, n_out, n_in, nullptr}; };
  LayerWeights layer;
  layer.wq = matrix(c.q_dim(), c.dim);
  layer.wk = layer.wv = matrix(c.kv_dim(), c.dim);
  layer.wo = matrix(c.dim, c.q_dim());
  layer.w_gate = layer.w_up = matrix(c.ffn_dim, c.dim);
  layer.w_down = matrix(c.dim, c.ffn_dim);
  Weights weights;
  weights.layers.assign(c.n_layers, layer);
  weights.token_embd = weights.lm_head = matrix(c.vocab_size, c.dim);
  return weights;
}

}  // namespace specbound
