// In which form each weight lies on a GPU, in which order, and what that takes. Free of kernels:
// known before there is a device.
//
// Matrices are repacked into the order in which a GPU streams them: tiles of 16 outputs, each block
// of a tile 512 bytes in which lane l of a warp finds its 16 together, as one operand of a
// tensor-core instruction; of 4, 5 and 6 bits, as much less. The host side of TilesI8 and TilesF16
// (kernels/layouts.h). Within a block lane 4 g + t holds, of output g and of g + 8,
//   INT8, 32 k:  k 8t..8t+3 of g, the same of g + 8, then k 8t+4..8t+7 of g, and of g + 8
//   4 bits, 32 k:  the same numbers, the first eight in the lower halves of its bytes
//   5 bits, 32 k:  the same, the fifth bits behind all lanes, in a word for each two of them
//   6 bits, 32 k:  as INT8, q - 32, its four words as six_bit_words() of numerics/dtype.h
//   FP16, 16 k:  k 4t, 4t+1 of g, the same of g + 8, then k 4t+2, 4t+3 of g, and of g + 8
// Scales of a block of 32 k: output g, output g + 8, g = 0..7; so do d and dmin of Q4_K and Q5_K
// lie, d of Q6_K and -m of Q4_1 and Q5_1.
// Outputs past n_out and FP16 weights past n_in are zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/experts.h"
#include "kernels/layouts.h"
#include "model/config.h"
#include "model/weights.h"

namespace specbound {

inline constexpr int kFragmentOutputs = 16;

// What a matrix takes on the GPU.
struct FragmentShape {
  int n_tiles;
  int n_blocks;     // of a tile: of 32 k, or of 16 k (FP16, K rounded up to a multiple of 32)
  int block_bytes;  // 512, of 4 bits 256, of 5 320, of 6 384
  int n_d2;         // of a tile: words of what has_d2() says

  size_t bytes_of(int tiles) const { return static_cast<size_t>(tiles) * n_blocks * block_bytes; }
  size_t scales_of(int tiles) const {  // but for FP16
    return static_cast<size_t>(tiles) * n_blocks * kFragmentOutputs;
  }
  size_t d2_of(int tiles) const { return static_cast<size_t>(tiles) * n_d2; }  // words
};
// For INT8 rows: in its int8_form().
FragmentShape int8_fragments(const Matrix& source);
FragmentShape half_fragments(const Matrix& source);

// Tiles [begin, end) of a matrix that takes INT8 rows as it is into q (end - begin, n_blocks,
// block_bytes), d (end - begin, n_blocks, 16) and, where it has_d2(), d2 (end - begin, n_d2), so
// that an upload can go piece by piece.
void repack_int8(const Matrix& source, int begin, int end, int8_t* q, uint16_t* d,
                 uint32_t* d2 = nullptr);

// The same of a matrix of any type into w (end - begin, n_blocks, 256) halves, rounded to nearest
// even. Returns how many finite weights are too large for FP16 and became infinite.
size_t repack_half(const Matrix& source, int begin, int end, uint16_t* w);

// What rows matrices are made for on the device. For INT8 rows each is its int8_form(). Those that
// read the same rows (q, k and v; gate and up) want the same, and gate and up want INT8 rows only
// where down does: their INT8 kernel leaves its rows quantized.
enum class GpuDtype {
  kAsStored,  // quantizations for INT8 rows, all others as FP16
  kInt8,      // all for INT8 rows; those whose rows are not whole blocks of 32 as FP16
  kFp16,
};
// Alone; a group does where all of it does.
bool becomes_int8(const Matrix& m, GpuDtype dtype);
const char* gpu_dtype_name(GpuDtype dtype);  // "as stored", "int8", "fp16"

// A matrix (n_out, n_in) in fragment order, for INT8 rows or for FP16 ones.
struct DeviceMatrix {
  std::optional<kernels::TilesI8> i8;
  std::optional<kernels::TilesF16> f16;

  int n_out() const { return i8 ? i8->n_out : f16 ? f16->n_out : 0; }
  int n_in() const { return i8 ? i8->n_in : f16 ? f16->n_in : 0; }
  bool int8() const { return i8.has_value(); }
};

// Of a mixture of experts: for INT8 rows, or as the file has it.
struct DeviceRouter {
  DeviceMatrix int8;            // (n_experts, dim)
  const void* table = nullptr;  // the same, of `type`
  DType type = DType::kF32;
};

struct DeviceLayer {
  const float* attn_norm = nullptr;                         // (dim); null in some draft layers
  DeviceMatrix wq, wk, wv;                                  // all INT8 or all FP16
  const float *bq = nullptr, *bk = nullptr, *bv = nullptr;  // (q_dim), (kv_dim) twice, or null
  const float *q_norm = nullptr, *k_norm = nullptr;         // (head_dim) or null
  DeviceMatrix wo;
  const float* bo = nullptr;              // (dim) or null
  const float* post_attn_norm = nullptr;  // (dim) or null
  const float* ffn_norm = nullptr;        // (dim); this and what follows: none in an adapter
  const float* post_ffn_norm = nullptr;   // (dim) or null
  DeviceMatrix w_gate, w_up;              // both INT8 or both FP16
  DeviceMatrix w_down;
  DeviceRouter router;  // then the last three are those of all experts, one below the other, INT8
};

// Where a token's row goes at the end, and where it comes from.
struct DeviceHead {
  const float* output_norm = nullptr;  // (dim)
  DeviceMatrix lm_head;                // (vocab_size, dim)
};

// The matrices of n experts, which lie one below the other in `all`.
kernels::StackedTiles stacked_tiles(const kernels::TilesI8& all, int n);

// Bytes of each part of a matrix, or of a tile, on the device. Scales: not of FP16; d2: where
// the form has_d2().
struct MatrixBytes {
  size_t values, scales, d2;
};
// Where they are.
struct MatrixParts {
  std::byte *values, *scales, *d2;
};
MatrixBytes matrix_bytes(const Matrix& source, bool int8);
MatrixBytes tile_bytes(const Matrix& source, bool int8);

// Each part begins at a multiple of 256 bytes of its allocation.
size_t device_aligned(size_t bytes);
// Of a matrix in an allocation of its own.
size_t device_bytes(const Matrix& source, bool int8);

// Takes weights one after another, in the order in which they lie on the device.
class WeightSink {
 public:
  virtual ~WeightSink() = default;
  virtual DeviceMatrix matrix(const Matrix& source, bool int8) = 0;
  virtual const float* floats(const float* source, int n) = 0;
  // A matrix as the file has it.
  virtual const void* table(const Matrix& source) = 0;
};
DeviceLayer place_layer(const ModelConfig& config, const LayerWeights& layer, GpuDtype dtype,
                        WeightSink& sink);
DeviceHead place_head(const ModelConfig& config, const Weights& weights, GpuDtype dtype,
                      WeightSink& sink);

// Bytes that weights take on the device, in the pieces that are allocated, and in the file.
struct WeightSizes {
  std::vector<size_t> layers;  // [n_layers]
  size_t head = 0;             // output_norm and lm_head
  size_t embedding = 0;        // the table, as the file has it
  size_t source = 0;           // what is read of the file; a tied head is read twice
  size_t widest_tile = 0;      // of any matrix

  size_t total() const;  // on the device
};
WeightSizes weight_sizes(const ModelConfig& config, const Weights& weights, GpuDtype dtype);

// Layers 1..n alone, with neither embedding nor head: for a part of a model on the device.
Weights first_layers(const Weights& weights, int n);

// Those of a model that has no file: F16 matrices and norms, shapes without data.
Weights random_weights(const ModelConfig& config);

}  // namespace specbound
