// Operands of a foreign GEMM, and its products.
#include "expand.h"

#include "float_formula.cuh"
#include "launch.cuh"
#include "quantize.cuh"
#include "row_norm.cuh"
#include "row_scale.cuh"
#include "weight_forms.cuh"

namespace specbound::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

// A warp takes a block of a tile, each lane of it two outputs: `output` and the eighth after it.
// Tiles are the x of the grid: its y ends at 65535, fewer than the tiles of a wide matrix.
struct TileBlock {
  int tile, output, block, lane;
};
SPECBOUND_DEVICE TileBlock tile_block() {
  const int tile = static_cast<int>(blockIdx.x);
  return {tile, tile * kTileOutputs + lane_index() / 4,
          static_cast<int>(blockIdx.y) * kWarps + warp_index(), lane_index()};
}

__global__ void __launch_bounds__(kThreads) expand_f16_kernel(ExpandF16 p) {
  const int n_blocks = (p.w.n_in + kQuantBlock - 1) / kQuantBlock * 2;
  const TileBlock at = tile_block();
  if (at.block >= n_blocks) return;
  const size_t place = (static_cast<size_t>(at.tile) * n_blocks + at.block) * kWarp + at.lane;
  const Word4 v = load_once(reinterpret_cast<const Word4*>(p.w.w) + place);
  const int k = at.block * kHalfBlock + 4 * (at.lane % 4);
#pragma unroll
  for (int upper = 0; upper < 2; ++upper) {
    const int output = at.output + 8 * upper;
    if (output >= p.w.n_out) continue;
    *reinterpret_cast<Word2*>(p.to + static_cast<size_t>(output) * p.ld + k) =
        upper ? Word2{v.y, v.w} : Word2{v.x, v.z};
  }
}

// The four weights of a word of an operand.
template <class Form>
SPECBOUND_DEVICE Word2 dequantized(uint32_t word, float dw, float mw) {
  uint32_t half[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float q = static_cast<float>(static_cast<int8_t>(word >> (8 * i))) * Form::kUnit;
    float value = dw * q;
    if constexpr (Form::kHasMins) value = value - mw;
    half[i] = half_bits(value);
  }
  return {half[0] | half[1] << 16, half[2] | half[3] << 16};
}

template <class Form>
SPECBOUND_DEVICE void expand_i8_block(const ExpandI8& p) {
  const int n_blocks = p.w.n_in / kQuantBlock;
  const TileBlock at = tile_block();
  if (at.block >= n_blocks) return;
  const size_t place = static_cast<size_t>(at.tile) * n_blocks + at.block;
  typename Form::Values values{};
  load_once_if(true, lane_values<typename Form::Stored>(p.w.q, place), values);
  const Word4 v = Form::operand(values);
  const auto* d = reinterpret_cast<const uint32_t*>(p.w.d) + place * 8 + at.lane / 4;
  const uint32_t* d2 = d2_of_tile<Form>(p.w, at.tile);
  typename Form::Scales scales{};
  Form::load(true, d, d2, at.block, scales);
  const BlockFactors of = Form::factors(scales);
  const int k = at.block * kQuantBlock + 8 * (at.lane % 4);
#pragma unroll
  for (int upper = 0; upper < 2; ++upper) {
    const int output = at.output + 8 * upper;
    if (output >= p.w.n_out) continue;
    const float dw = lane_scale<Form>(of, upper), mw = of.mw[upper];
    const Word2 first = dequantized<Form>(upper ? v.y : v.x, dw, mw);
    const Word2 second = dequantized<Form>(upper ? v.w : v.z, dw, mw);
    *reinterpret_cast<Word4*>(p.to + static_cast<size_t>(output) * p.ld + k) = {first.x, first.y,
                                                                                second.x, second.y};
  }
}

__global__ void __launch_bounds__(kThreads) expand_i8_kernel(ExpandI8 p) {
  as_form(p.w.type, [&]<class Form>(Form) { expand_i8_block<Form>(p); });
}

__global__ void __launch_bounds__(kRowThreads) halve_scaled_rows_kernel(HalveScaledRows p) {
  const int row = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  const float* x = p.x + static_cast<size_t>(row) * p.ld;
  const float norm = p.weight ? inverse_rms(x, p.n, p.eps) : 1.0f;
  const auto value = [&](int k) { return p.weight ? (x[k] * norm) * p.weight[k] : x[k]; };
  uint32_t largest = 0;
  for (int k = thread; k < p.n; k += kRowThreads) {
    const uint32_t magnitude = magnitude_bits(value(k));
    largest = largest > magnitude ? largest : magnitude;
  }
  const RowScale scale = row_scale(block_largest(largest, block_shared<uint32_t>(kNormBytes)));
  if (thread == 0) p.scale[row] = scale.scale;
  uint16_t* out = p.out + static_cast<size_t>(row) * p.ld_out;
  for (int k = thread; k < p.ld_out; k += kRowThreads) {
    const bool any = k < p.n && scale.inverse != 0.0f;
    out[k] = any ? half_bits(value(k) * scale.inverse) : uint16_t{0};
  }
}

__global__ void __launch_bounds__(kThreads) finish_rows_kernel(FinishRows p) {
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  const int row = static_cast<int>(blockIdx.y);
  if (i >= p.n) return;
  const float scale = p.scale[row];
  const float c = p.c[static_cast<size_t>(row) * p.ldc + i] * scale;
  float& y = p.y[static_cast<size_t>(row) * p.ldy + i];
  if (p.finish == Finish::kScale) {
    y = c;
  } else if (p.finish == Finish::kAdd) {
    y = p.bias ? (y + c) + p.bias[i] : y + c;
  } else {
    y = activated(p.activation, c) * (y * scale);
  }
}

Grid tile_blocks(int n_out, int n_blocks) {
  return {static_cast<unsigned>(tiles_of(n_out)),
          static_cast<unsigned>((n_blocks + kWarps - 1) / kWarps)};
}

}  // namespace

void expand_i8(const ExpandI8& p, Stream stream) {
  check_tiles(p.w);
  SB_CHECK(aligned(p.to, 16) && p.ld % 8 == 0 && p.ld >= p.w.n_in);
  launch(expand_i8_kernel, "expand_i8",
         {tile_blocks(p.w.n_out, p.w.n_in / kQuantBlock), kThreads, 0}, stream, p);
}

void expand_f16(const ExpandF16& p, Stream stream) {
  const int n_blocks = (p.w.n_in + kQuantBlock - 1) / kQuantBlock * 2;
  SB_CHECK(p.w.n_out >= 1 && p.w.n_in >= 1 && aligned(p.w.w, 16) && aligned(p.to, 16));
  SB_CHECK(p.ld % 8 == 0 && p.ld >= n_blocks * kHalfBlock);
  launch(expand_f16_kernel, "expand_f16", {tile_blocks(p.w.n_out, n_blocks), kThreads, 0}, stream,
         p);
}

void halve_scaled_rows(const HalveScaledRows& p, Stream stream) {
  SB_CHECK(p.n_rows >= 1 && p.n >= 1 && p.n <= p.ld && p.n <= p.ld_out && p.scale != nullptr);
  SB_CHECK(aligned(p.x, 16) && aligned(p.out, 2));
  SB_CHECK(p.weight == nullptr || (p.n % 4 == 0 && p.ld % 4 == 0));
  launch(halve_scaled_rows_kernel, "halve_scaled_rows",
         {{static_cast<unsigned>(p.n_rows)},
          kRowThreads,
          kNormBytes + kRowThreads / kWarp * sizeof(uint32_t)},
         stream, p);
}

void finish_rows(const FinishRows& p, Stream stream) {
  SB_CHECK(p.n_rows >= 1 && p.n >= 1 && p.ldc >= p.n && p.ldy >= p.n && p.scale != nullptr);
  SB_CHECK(p.c != nullptr && p.y != nullptr);
  launch(finish_rows_kernel, "finish_rows",
         {{static_cast<unsigned>((p.n + kThreads - 1) / kThreads), static_cast<unsigned>(p.n_rows)},
          kThreads,
          0},
         stream, p);
}

}  // namespace specbound::kernels
