// Operands for kernels at the shape of a model. What a launch streams is cut anew each time from an
// arena several times as large as any cache, so that it comes from memory as it does in a model.
#pragma once

#include <utility>

#include "attention.h"
#include "gpu_bench.cuh"
#include "layouts.h"
#include "tools/bench_shapes.h"

namespace specbound::bench {

using Shape = BenchShape;
inline constexpr auto& kShapes = kBenchShapes;
inline constexpr int kVocabSize = kShapes[0].vocab_size;

using kernels::Stream;

class Operands {
 public:
  explicit Operands(Timer& timer);

  // ---- cut from the arena ----

  // `type`: Q8_0, Q4_0 or Q4_K.
  kernels::TilesI8 tiles_i8(int n_out, int n_in, DType type = DType::kQ8_0) {
    const size_t n = static_cast<size_t>(kernels::tiles_of(n_out)) * kernels::kTileOutputs * n_in;
    int8_t* q = cut<int8_t>(type == DType::kQ8_0 ? n : n / 2);
    uint16_t* d = cut_scales(n / 32);
    const void* d2 = type == DType::kQ4_K ? cut_scales(n / 256 * 2) : nullptr;
    return {n_out, n_in, q, d, type, static_cast<const uint32_t*>(d2)};
  }
  kernels::TilesF16 tiles_f16(int n_out, int n_in) {
    const size_t padded = static_cast<size_t>(n_in + 31) / 32 * 32;
    const size_t n_outputs = static_cast<size_t>(kernels::tiles_of(n_out)) * kernels::kTileOutputs;
    return {n_out, n_in, cut<uint16_t>(n_outputs * padded)};
  }
  // Keys and values are read; new rows go where the next cut may lie, and nobody minds.
  kernels::KvLayer kv(const Shape& s, int n_ctx) {
    const size_t n = static_cast<size_t>(n_ctx) * s.kv_dim();
    return {cut<uint16_t>(n), cut<uint16_t>(n), n_ctx};
  }

  // ---- kept: rows of a pass, zero at first ----

  kernels::RowsI8 rows_i8(int n_in, int max_rows = kernels::kMaxDecodeRows) {
    const size_t n = static_cast<size_t>(kernels::panels_of(max_rows)) * kernels::kPanelRows * n_in;
    return {n_in, keep<int8_t>(n), keep<float>(n / 32)};
  }
  kernels::RowsF16 rows_f16(int n_in, int max_rows = kernels::kMaxDecodeRows) {
    const int padded = (n_in + 31) / 32 * 32;
    const size_t n_rows = static_cast<size_t>(kernels::panels_of(max_rows)) * kernels::kPanelRows;
    return {padded, keep<uint16_t>(2 * n_rows * padded), keep<float>(n_rows)};
  }
  template <class T>
  T* keep(size_t n) {
    kept_.emplace_back(n * sizeof(T));
    return reinterpret_cast<T*>(kept_.back().data());
  }
  template <class T>
  T* place(const T& value) {
    T* kept = keep<T>(1);
    SB_CUDA(cudaMemcpy(kept, &value, sizeof value, cudaMemcpyHostToDevice));
    SB_CUDA(cudaDeviceSynchronize());
    return kept;
  }
  float* ones(size_t n);
  float* noise(size_t n);  // below 2 in magnitude

  // How many rows the next launches are about, and where.
  const kernels::Pass* pass() const { return pass_.data(); }
  void set_pass(int n_rows, int pos) { pass_.write({kernels::Pass{n_rows, pos}}); }
  int max_rows = kernels::kMaxDecodeRows;  // that matmuls are launched for

 private:
  template <class T>
  T* cut(size_t n) {
    return reinterpret_cast<T*>(arena_.data() + take(cursor_, arena_.bytes(), n * sizeof(T)));
  }
  uint16_t* cut_scales(size_t n) {
    return scales_.data() + take(scale_cursor_, scales_.bytes(), n * 2) / 2;
  }
  static size_t take(size_t& cursor, size_t size, size_t bytes) {
    bytes = (bytes + 511) / 512 * 512;
    SB_CHECK(bytes <= size);
    if (cursor + bytes > size) cursor = 0;
    return std::exchange(cursor, cursor + bytes);
  }

  DeviceArray<uint8_t> arena_;
  DeviceArray<uint16_t> scales_;
  DeviceArray<kernels::Pass> pass_;
  Timer& timer_;
  std::vector<DeviceArray<uint8_t>> kept_;
  size_t cursor_ = 0, scale_cursor_ = 0;
};

inline constexpr int kContext = 4096 + 64;        // positions that K/V have room for
inline constexpr int kShort = 512, kLong = 4000;  // positions before the rows of a pass

constexpr int context_of(int pos) {
  return pos == kShort ? 1024 : kContext;
}
inline double kv_bytes(const Shape& s, int pos) {
  return 2.0 * sizeof(uint16_t) * s.kv_dim() * (pos + 1);
}

// What attention works on beside K/V, for up to 16 rows.
struct AttentionRows {
  AttentionRows(const Shape& shape, Operands& operands);
  kernels::Attend attend(int context, const kernels::RowsI8& quantized) const;

  const Shape& s;
  Operands& o;
  float *qkv, *cosine, *sine, *part_states, *part_outputs, *attended;
};

// One line of the table: a kernel, or some in a row.
enum class Kind {
  kOther,
  kMatmul,   // verify(M) against decode(1) is asked of these
  kLayer,    // the kernels of a whole layer
  kOneRow,   // takes one row
  kPrefill,  // takes 512
};
struct Case {
  std::string name;
  double bytes = 0;  // that one launch has to read at least once
  std::function<void(Stream)> enqueue;
  int pos = kShort;
  Kind kind = Kind::kOther;
  double operations = 0;  // of prefill: multiplications and additions
};
void add_int8_cases(const Shape& shape, Operands& operands, std::vector<Case>& cases);
void add_half_cases(const Shape& shape, Operands& operands, std::vector<Case>& cases);

}  // namespace specbound::bench
