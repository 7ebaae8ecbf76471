#include "engine/cuda/weight_layout.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <numeric>
#include <utility>
#include <vector>

#include "error.h"
#include "model/codec.h"
#include "numerics/dtype.h"
#include "numerics/half.h"
#include "numerics/int8_formula.h"

namespace specbound {

namespace {

constexpr int kInt8Block = 32, kHalfBlock = 16;
constexpr int kLanesOfOutput = 4;  // t = 0..3
constexpr int kLanes = 32;
constexpr int kBlockBytes = 512;  // of a tile

// What lane 4 g + t holds of output `output`, eight bytes of a row: words 0 and 2 of the lane are
// those of output g, 1 and 3 those of g + 8.
void store_words(std::byte* block, int output, int t, const void* eight_bytes) {
  std::byte* lane = block + (output % 8 * kLanesOfOutput + t) * 16 + output / 8 * 4;
  std::memcpy(lane, eight_bytes, 4);
  std::memcpy(lane + 8, static_cast<const std::byte*>(eight_bytes) + 4, 4);
}

// The same of 4 bits, eight numbers: the first four below, the others above, in word 0 or 1.
void store_nibbles(std::byte* block, int output, int t, uint32_t eight) {
  std::memcpy(block + (output % 8 * kLanesOfOutput + t) * 8 + output / 8 * 4, &eight, 4);
}

// The same of 6 bits, four words of numbers.
void store_six_bits(std::byte* block, int lane, const uint32_t (&four)[4]) {
  const SixBitWords six = six_bit_words(four[0], four[1], four[2], four[3]);
  for (int i = 0; i < 3; ++i) std::memcpy(block + (i * kLanes + lane) * 4, &six.word[i], 4);
}

// Where the scale of an output lies among those of a block.
int scale_place(int output) {
  return 2 * (output % 8) + output / 8;
}

uint16_t rounded(float x, size_t& too_large) {
  const uint16_t half = float_to_half(x);
  const bool finite = (std::bit_cast<uint32_t>(x) & 0x7f800000u) != 0x7f800000u;
  too_large += finite && (half & 0x7fffu) == 0x7c00u;
  return half;
}

int tiles(const Matrix& source) {
  return (source.n_out + kFragmentOutputs - 1) / kFragmentOutputs;
}

// Numbers 8 t .. 8 t + 7 of a part: in the lower (t < 2) or the upper halves of two words.
template <class Block>
uint32_t nibbles(const Block& block, int part, int t) {
  const int g = t % 2 * 2, shift = t / 2 * 4;
  return (block.word(part, g) >> shift & 0x0f0f0f0fu) |
         (block.word(part, g + 1) >> shift & 0x0f0f0f0fu) << 4;
}

// The fifth bits of a block, behind the other four: a word for each two lanes (kernels/layouts.h).
template <class Block>
void store_fifths(const Block* const (&rows)[kFragmentOutputs], int part, std::byte* to) {
  uint32_t words[kLanes / 2] = {};
  for (int o = 0; o < kFragmentOutputs; ++o) {
    const uint32_t fifths = rows[o] ? rows[o]->fifths(part) : 0;
    for (int t = 0; t < kLanesOfOutput; ++t) {
      const int lane = o % 8 * kLanesOfOutput + t;
      for (int second = 0; second < 2; ++second) {
        const uint32_t four = fifths >> (2 * t + second) & 0x01010101u;
        words[lane / 2] |= four << (lane % 2 * 4 + 2 * second + o / 8);
      }
    }
  }
  std::memcpy(to, words, sizeof words);
}

// Words of d2 for 256 k, without parts for 32: of each output, or of each pair of them.
constexpr int d2_words(DType form) {
  return kernels::d2_of_each_output(form) ? kFragmentOutputs : kFragmentOutputs / 2;
}

// The tile of a block's numbers, `rows` its outputs' blocks.
template <class Block>
void repack_numbers(const Block* const (&rows)[kFragmentOutputs], int part, std::byte* q) {
  constexpr int kBits = bits_of_form(Block::kForm);
  constexpr uint32_t kTurned = kBits == 6 ? 0x20202020 : 0;  // less 32: the top bit becomes a sign
  const auto word = [&](int o, int g) { return rows[o] ? rows[o]->word(part, g) ^ kTurned : 0; };
  for (int o = 0; o < kFragmentOutputs; ++o) {
    for (int t = 0; t < kLanesOfOutput; ++t) {
      if constexpr (kBits == 8) {
        const uint32_t eight[] = {word(o, 2 * t), word(o, 2 * t + 1)};
        store_words(q, o, t, eight);
      } else if constexpr (kBits == 6) {
        if (o >= 8) continue;  // with output o - 8
        store_six_bits(
            q, kLanesOfOutput * o + t,
            {word(o, 2 * t), word(o + 8, 2 * t), word(o, 2 * t + 1), word(o + 8, 2 * t + 1)});
      } else {
        store_nibbles(q, o, t, rows[o] ? nibbles(*rows[o], part, t) : 0);
      }
    }
  }
  if constexpr (kBits == 5) store_fifths(rows, part, q + kLanes * 8);
}

// Of output o: d and the min in a word of its own, or that of them which is not in `d` in half a
// word.
template <class Block>
void put_d2(const Block& block, int o, uint32_t* d2) {
  if constexpr (kernels::d2_of_each_output(Block::kForm)) {
    d2[scale_place(o)] = block.d | static_cast<uint32_t>(block.min()) << 16;
  } else {
    uint32_t half;
    if constexpr (form_has_parts(Block::kForm)) {
      half = block.d;
    } else {
      half = block.min();
    }
    uint32_t& pair = d2[o % 8];
    pair = o < 8 ? half : pair | half << 16;
  }
}

template <class Block>
void repack_blocks(const Matrix& source, int begin, int end, std::byte* q, uint16_t* d,
                   uint32_t* d2) {
  constexpr DType kForm = Block::kForm;
  constexpr int kBits = bits_of_form(kForm), kParts = dtype_info(kForm)->block / kInt8Block;
  constexpr bool kHasParts = form_has_parts(kForm), kHasD2 = kernels::has_d2(kForm);
  const int n_blocks = source.n_in / kInt8Block;
  const auto* blocks = reinterpret_cast<const Block*>(source.data);
  for (int tile = begin; tile < end; ++tile) {
    for (int b = 0; b < n_blocks; ++b, q += 64 * kBits, d += kFragmentOutputs) {
      const int part = b % kParts;
      const Block* rows[kFragmentOutputs] = {};
      for (int o = 0; o < kFragmentOutputs; ++o) {
        const size_t output = static_cast<size_t>(tile) * kFragmentOutputs + o;
        if (output >= static_cast<size_t>(source.n_out)) break;
        rows[o] = blocks + output * (n_blocks / kParts) + b / kParts;
      }
      repack_numbers(rows, part, q);
      static constexpr Block kNothing{};
      for (int o = 0; o < kFragmentOutputs; ++o) {
        const Block& block = rows[o] ? *rows[o] : kNothing;
        if constexpr (kHasParts) {
          const PartBytes two = block.part_bytes(part);
          d[scale_place(o)] = static_cast<uint16_t>(two.first | two.second << 8);
        } else {
          d[scale_place(o)] = block.d;
        }
        if constexpr (kHasD2) {
          if (part == 0) put_d2(block, o, d2);
        }
      }
      if (kHasD2 && part == 0) d2 += d2_words(kForm);
    }
  }
}

}  // namespace

FragmentShape int8_fragments(const Matrix& source) {
  const DType form = int8_form(source.type);
  const int n_blocks = source.n_in / kInt8Block;
  return {tiles(source), n_blocks, 64 * bits_of_form(form),
          kernels::has_d2(form) ? n_blocks / kernels::d2_blocks(form) * d2_words(form) : 0};
}

FragmentShape half_fragments(const Matrix& source) {
  return {tiles(source), (source.n_in + 31) / 32 * 2, kBlockBytes, 0};
}

void repack_int8(const Matrix& source, int begin, int end, int8_t* q, uint16_t* d, uint32_t* d2) {
  SB_CHECK(takes_int8_rows(source.type) && int8_form(source.type) == source.type);
  SB_CHECK(source.n_in % static_cast<int>(dtype_info(source.type)->block) == 0);
  SB_CHECK(begin >= 0 && end <= tiles(source));
  SB_CHECK(d2 || !kernels::has_d2(source.type));
  with_block_of(source.type, [&]<class Block>(const Block*) {
    repack_blocks<Block>(source, begin, end, reinterpret_cast<std::byte*>(q), d, d2);
  });
}

size_t repack_half(const Matrix& source, int begin, int end, uint16_t* w) {
  SB_CHECK(begin >= 0 && end <= tiles(source));
  const int n_in = source.n_in, n_blocks = half_fragments(source).n_blocks;
  const size_t row_bytes = source.bytes() / source.n_out;
  std::vector<float> values(n_in);
  std::vector<uint16_t> row(static_cast<size_t>(n_blocks) * kHalfBlock);
  size_t too_large = 0;
  for (int tile = begin; tile < end; ++tile) {
    auto* const blocks = reinterpret_cast<std::byte*>(w) +
                         static_cast<size_t>(tile - begin) * n_blocks * kBlockBytes;
    for (int o = 0; o < kFragmentOutputs; ++o) {
      const int output = tile * kFragmentOutputs + o;
      if (output < source.n_out) {
        const std::byte* from = source.data + output * row_bytes;
        if (source.type == DType::kF16) {
          std::memcpy(row.data(), from, row_bytes);
        } else {
          dequantize(from, source.type, n_in, values.data());
          for (int k = 0; k < n_in; ++k) row[k] = rounded(values[k], too_large);
        }
      } else {
        std::fill(row.begin(), row.end(), 0);
      }
      for (int b = 0; b < n_blocks; ++b) {
        const uint16_t* of_block = row.data() + b * kHalfBlock;
        for (int t = 0; t < kLanesOfOutput; ++t) {
          store_words(blocks + static_cast<size_t>(b) * kBlockBytes, o, t, of_block + 4 * t);
        }
      }
    }
  }
  return too_large;
}

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

namespace {

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
    count(n * sizeof(float));
    return nullptr;
  }
  const void* table(const Matrix& m) override {
    count(m.bytes());
    return nullptr;
  }
  // Bytes since the last call.
  size_t end_group() { return std::exchange(group_, 0); }

 private:
  void count(size_t bytes) {
    source += bytes;
    group_ += device_aligned(bytes);
  }

  size_t group_ = 0;
};

}  // namespace

const char* gpu_dtype_name(GpuDtype dtype) {
  constexpr const char* kNames[] = {"as stored", "int8", "fp16"};
  static_assert(std::size(kNames) == static_cast<size_t>(GpuDtype::kFp16) + 1);
  return kNames[static_cast<size_t>(dtype)];
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
          shape.d2_of(1) * sizeof(uint32_t)};
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
  // Random weights have no source at all, and norms all the same.
  const bool random = !w.wq.data;
  to.attn_norm = random ? sink.floats(nullptr, c.dim) : optional(w.attn_norm, c.dim);
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
  if (c.ffn_dim == 0) return to;  // an adapter's block: attention alone
  to.ffn_norm = sink.floats(w.ffn_norm, c.dim);
  to.post_ffn_norm = optional(w.post_ffn_norm, c.dim);
  if (c.n_experts > 0) {
    SB_CHECK(gate_up);  // why_not_on_gpu()
    if (takes_int8_rows(w.router.type)) {
      to.router.int8 = sink.matrix(w.router, true);
    } else {
      to.router.table = sink.table(w.router);
      to.router.type = w.router.type;
    }
  }
  to.w_gate = sink.matrix(w.w_gate, gate_up);
  to.w_up = sink.matrix(w.w_up, gate_up);
  to.w_down = sink.matrix(w.w_down, becomes_int8(w.w_down, dtype));
  return to;
}

DeviceHead place_head(const ModelConfig& c, const Weights& w, GpuDtype dtype, WeightSink& sink) {
  DeviceHead to;
  if (w.lm_head.n_out == 0) return to;  // first_layers()
  to.output_norm = sink.floats(w.output_norm, c.dim);
  to.lm_head = sink.matrix(w.lm_head, becomes_int8(w.lm_head, dtype));
  return to;
}

kernels::StackedTiles stacked_tiles(const kernels::TilesI8& all, int n) {
  SB_CHECK(all.n_out % n == 0 && all.n_out / n % kFragmentOutputs == 0);
  const Matrix one{all.type, all.n_out / n, all.n_in, nullptr};
  const MatrixBytes bytes = matrix_bytes(one, true);
  kernels::StackedTiles stacked{all, bytes.values, bytes.scales, bytes.d2};
  stacked.first.n_out = one.n_out;
  return stacked;
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

Weights first_layers(const Weights& weights, int n) {
  SB_CHECK(0 <= n && n <= static_cast<int>(weights.layers.size()));
  Weights part;
  part.layers.assign(weights.layers.begin(), weights.layers.begin() + n);
  return part;
}

Weights random_weights(const ModelConfig& c) {
  const auto matrix = [](int n_out, int n_in) { return Matrix{DType::kF16, n_out, n_in, nullptr}; };
  LayerWeights layer;
  layer.wq = matrix(c.q_dim(), c.dim);
  layer.wk = layer.wv = matrix(c.kv_dim(), c.dim);
  layer.wo = matrix(c.dim, c.q_dim());
  const int experts = std::max(c.n_experts, 1);
  if (c.n_experts > 0) layer.router = matrix(experts, c.dim);
  layer.w_gate = layer.w_up = matrix(experts * c.ffn_dim, c.dim);
  layer.w_down = matrix(experts * c.dim, c.ffn_dim);
  Weights weights;
  weights.layers.assign(c.n_layers, layer);
  weights.token_embd = weights.lm_head = matrix(c.vocab_size, c.dim);
  return weights;
}

}  // namespace specbound
