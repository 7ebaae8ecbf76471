// What INT8 kernels are tested on: random matrices of every form and rows, on the device and as the
// CPU backend has them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "engine/cpu/kernels.h"
#include "engine/cpu/linear.h"
#include "engine/cuda/weight_layout.h"
#include "layouts.h"
#include "numerics/half.h"
#include "simt/rig.h"
#include "unit/tiny_blocks.h"

namespace specbound::test {

// All but Q8_0.
inline constexpr DType kPackedForms[] = {DType::kQ4_0, DType::kQ4_1, DType::kQ4_K, DType::kQ5_0,
                                         DType::kQ5_1, DType::kQ5_K, DType::kQ6_K};

// Rows of every kind that the formula has a word for, beside ordinary ones: row r is of kind r % 8.
inline std::vector<float> odd_rows(int n_rows, int n, uint64_t seed) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> x = random_floats(static_cast<size_t>(n_rows) * n, seed);
  std::mt19937_64 random(seed);
  for (int r = 0; r < n_rows; ++r) {
    float* row = &x[static_cast<size_t>(r) * n];
    float& one = row[random() % n];
    if (r % 8 == 1) std::fill_n(row, n, r % 16 == 1 ? 0.0f : -0.0f);
    if (r % 8 == 2) one = std::numeric_limits<float>::quiet_NaN();
    if (r % 8 == 3) one = r % 16 == 3 ? kInf : -kInf;
    if (r % 8 == 4) std::fill_n(row, 32, r % 16 == 4 ? 1e-31f : 1e-42f);
    if (r % 8 == 5) one = 1e30f;
    if (r % 8 == 6)
      for (int k = 0; k < n; ++k) row[k] = 1e-20f * row[k];
    if (r % 8 == 7)
      for (int k = 0; k < n; ++k) row[k] = static_cast<float>(k % 5 - 2);  // ties
  }
  return x;
}

// RowsI8 on the host.
struct QuantizedRows {
  std::vector<int8_t> q;
  std::vector<float> d;

  bool operator==(const QuantizedRows& other) const {
    return q == other.q && same_floats(d, other.d);
  }
};

// x (n_rows, ld) as the CPU quantizes it, in the layout of RowsI8.
inline QuantizedRows quantized(const Kernels& cpu, const std::vector<float>& x, int ld, int n_rows,
                               int n_in) {
  RowBuffer buffer(1, n_in);
  const QuantRows one = buffer.rows(1, n_in, nullptr, 0).quantized;
  QuantizedRows out;
  out.q.resize(size_t(kernels::panels_of(n_rows)) * 8 * n_in);
  out.d.resize(out.q.size() / 32);
  for (int r = 0; r < n_rows; ++r) {
    cpu.quantize(&x[size_t(r) * ld], 0, 0, n_in / 32, one);
    for (int b = 0; b < n_in / 32; ++b) {
      const size_t at = (size_t(r / 8) * (n_in / 32) + b) * 8 + r % 8;
      std::memcpy(&out.q[at * 32], one.q + b * 32, 32);
      out.d[at] = one.blocks[b].scale;
    }
  }
  return out;
}

// RowsI8 on the device.
struct DeviceRows {
  int n_in;
  simt::DeviceBuffer<int8_t> q;
  simt::DeviceBuffer<float> d;

  // Memory for up to max_rows rows.
  DeviceRows(int max_rows, int n_in)
      : n_in(n_in), q(size_t(kernels::panels_of(max_rows)) * 8 * n_in), d(q.size() / 32) {}
  // The first n_rows rows of x (rows, n_in), as the CPU quantizes them.
  DeviceRows(const std::vector<float>& x, int n_rows, int n_in) : DeviceRows(n_rows, n_in) {
    const QuantizedRows rows = quantized(kernels_for(best_isa()), x, n_in, n_rows, n_in);
    q.write(rows.q);
    d.write(rows.d);
    q.from_kernel();
    d.from_kernel();
  }

  kernels::RowsI8 rows() const { return {n_in, q.data(), d.data()}; }
  QuantizedRows read(int n_rows) const {
    QuantizedRows all{q.read(), d.read()};
    all.q.resize(size_t(kernels::panels_of(n_rows)) * 8 * n_in);
    all.d.resize(all.q.size() / 32);
    return all;
  }
};

// A matrix on the device, of a type that runs as it is.
struct DeviceTiles {
  int n_out, n_in;
  DType type;
  simt::DeviceBuffer<int8_t> q;
  simt::DeviceBuffer<uint16_t> d;
  simt::DeviceBuffer<uint32_t> d2;

  explicit DeviceTiles(const Matrix& source)
      : n_out(source.n_out),
        n_in(source.n_in),
        type(source.type),
        q(int8_fragments(source).bytes_of(kernels::tiles_of(n_out))),
        d(int8_fragments(source).scales_of(kernels::tiles_of(n_out))),
        d2(int8_fragments(source).d2_of(kernels::tiles_of(n_out))) {
    std::vector<int8_t> host_q(q.size());
    std::vector<uint16_t> host_d(d.size());
    std::vector<uint32_t> host_d2(d2.size());
    if (type == DType::kQ8_0) {
      repack_int8(source, 0, kernels::tiles_of(n_out), host_q.data(), host_d.data());
    } else {
      repack_int8(source, 0, kernels::tiles_of(n_out), host_q.data(), host_d.data(),
                  host_d2.data());
    }
    q.write(host_q);
    d.write(host_d);
    d2.write(host_d2);
  }

  kernels::TilesI8 tiles() const { return {n_out, n_in, q.data(), d.data(), type, d2.data()}; }
};

// Weights of all sizes, -128 and scales of 0 among them; `scale`: the least one but for those.
inline std::vector<BlockQ8_0> random_blocks(size_t n, uint64_t seed, float scale = 1e-3f) {
  std::mt19937_64 random(seed);
  std::vector<BlockQ8_0> blocks(n);
  for (BlockQ8_0& block : blocks) {
    const float d = scale * (1 + static_cast<float>(random() % 1000) / 500);
    block.d = float_to_half(random() % 50 ? d : random() % 2 ? 0.0f : -d);
    for (int8_t& q : block.q) q = static_cast<int8_t>(random());
  }
  return blocks;
}

// A random matrix of such a type, here and on the device.
struct Int8Matrix {
  int n_out, n_in;
  DType type;
  std::vector<std::byte> bytes;
  DeviceTiles on_device;

  Int8Matrix(int n_out, int n_in, uint64_t seed, float scale = 1e-3f, DType type = DType::kQ8_0)
      : n_out(n_out),
        n_in(n_in),
        type(type),
        bytes(random_bytes(size_t(n_out) * n_in, seed, scale)),
        on_device(matrix()) {}
  Int8Matrix(int n_out, int n_in, DType type, std::vector<std::byte> bytes)
      : n_out(n_out), n_in(n_in), type(type), bytes(std::move(bytes)), on_device(matrix()) {}

  Matrix matrix() const { return {type, n_out, n_in, bytes.data()}; }
  kernels::TilesI8 tiles() const { return on_device.tiles(); }

  // W x of the first n_rows rows of x (rows, n_in), by the CPU.
  std::vector<float> times(const Kernels& cpu, const std::vector<float>& x, int n_rows) const {
    std::vector<float> y(size_t(n_rows) * n_out);
    multiply(cpu, x, n_rows, y, false);
    return y;
  }
  // The same added to y (n_rows, n_out).
  void add_times(const Kernels& cpu, const std::vector<float>& x, int n_rows,
                 std::vector<float>& y) const {
    multiply(cpu, x, n_rows, y, true);
  }

 private:
  std::vector<std::byte> random_bytes(size_t n, uint64_t seed, float scale) const {
    if (type != DType::kQ8_0) {
      return tiny_blocks(type, n, 100 * scale, std::mt19937_64(seed));
    }
    const std::vector<BlockQ8_0> blocks = random_blocks(n / 32, seed, scale);
    const auto* begin = reinterpret_cast<const std::byte*>(blocks.data());
    return {begin, begin + blocks.size() * sizeof(BlockQ8_0)};
  }

  void multiply(const Kernels& cpu, const std::vector<float>& x, int n_rows, std::vector<float>& y,
                bool add) const {
    RowBuffer buffer(n_rows, n_in);
    const Rows rows = buffer.rows(n_rows, n_in, nullptr, 0);
    for (int r = 0; r < n_rows; ++r) {
      cpu.quantize(&x[size_t(r) * n_in], r, 0, n_in / 32, rows.quantized);
    }
    const PartitionedMatrix partitioned{matrix()};
    ThreadPool alone(1);
    const LinearStore store({&partitioned, 1}, false, alone, nullptr);
    specbound::multiply(cpu, store.linear(matrix()), rows, {y.data(), n_out}, add, 0, 1);
  }
};

}  // namespace specbound::test
