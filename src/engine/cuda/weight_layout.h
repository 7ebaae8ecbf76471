// In which form each weight lies on a GPU, in which order, and what that takes. Free of kernels:
// known before there is a device.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "kernels/layouts.h"
#include "model/config.h"
#include "model/weights.h"

namespace specbound {

// What rows matrices are made for on the device. For INT8 rows Q4_0 and Q4_K are as they are, in 4
// bits, and all others Q8_0. Those that read the same rows (q, k and v; gate and up) want the same,
// and gate and up want INT8 rows only where down does: their INT8 kernel leaves its rows quantized.
enum class GpuDtype {
  kAsStored,  // quantizations for INT8 rows, all others as FP16
  kInt8,      // all for INT8 rows; those whose rows are not whole blocks of 32 as FP16
  kFp16,
};
const char* gpu_dtype_name(GpuDtype dtype);  // "as stored", "int8", "fp16"

// A matrix (n_out, n_in) in fragment order, for INT8 rows or for FP16 ones.
struct DeviceMatrix {
  std::optional<kernels::TilesI8> i8;
  std::optional<kernels::TilesF16> f16;

  int n_out() const { return i8 ? i8->n_out : f16 ? f16->n_out : 0; }
  int n_in() const { return i8 ? i8->n_in : f16 ? f16->n_in : 0; }
  bool int8() const { return i8.has_value(); }
};

struct DeviceLayer {
  const float* attn_norm = nullptr;                         // (dim)
  DeviceMatrix wq, wk, wv;                                  // all INT8 or all FP16
  const float *bq = nullptr, *bk = nullptr, *bv = nullptr;  // (q_dim), (kv_dim) twice, or null
  const float *q_norm = nullptr, *k_norm = nullptr;         // (head_dim) or null
  DeviceMatrix wo;
  const float* bo = nullptr;              // (dim) or null
  const float* post_attn_norm = nullptr;  // (dim) or null
  const float* ffn_norm = nullptr;        // (dim)
  const float* post_ffn_norm = nullptr;   // (dim) or null
  DeviceMatrix w_gate, w_up;              // both INT8 or both FP16
  DeviceMatrix w_down;
};

// Where a token's row goes at the end, and where it comes from.
struct DeviceHead {
  const float* output_norm = nullptr;  // (dim)
  DeviceMatrix lm_head;                // (vocab_size, dim)
};

// Bytes of each part of a matrix, or of a tile, on the device. Scales: not of FP16; d2: of Q4_K.
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

// Those of a model that has no file: F16 matrices and norms, shapes without data.
Weights random_weights(const ModelConfig& config);

}  // namespace specbound
