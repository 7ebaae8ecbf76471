// cuBLAS opened at run time: products in the stream, what goes wrong, and prefill's matmuls by it.
#include "engine/cuda/cublas.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "engine/cuda/device_weights.h"
#include "engine/cuda/prefill_matmuls.h"
#include "error.h"
#include "numerics/dtype.h"
#include "numerics/half.h"
#include "simt/cublas_rig.h"
#include "simt/int8_rig.h"
#include "simt/rig.h"
#include "simt/simt_device.h"
#include "unit/farther.h"

namespace cublas_host_test {

using namespace specbound;
using namespace specbound::test;
using simt::SimtDevice;

namespace {

std::vector<uint16_t> halves(const std::vector<float>& x) {
  std::vector<uint16_t> half;
  for (const float v : x) half.push_back(float_to_half(v));
  return half;
}

template <class T>
DeviceMemory<T> on_device(SimtDevice& device, const std::vector<T>& values) {
  DeviceMemory<T> memory(device, values.size());
  device.write(memory.data(), values);
  return memory;
}

std::string message_of(ErrorCode code, const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    CHECK(e.code() == code);
    return e.what();
  }
  return "";
}

// A small model's shape.
ModelConfig small_config() {
  ModelConfig config;
  config.dim = 64;
  config.n_heads = 4;
  config.n_kv_heads = 2;
  config.head_dim = 16;
  config.ffn_dim = 100;
  return config;
}

}  // namespace

TEST_CASE("cuBLAS multiplies row-major matrices of every kind, in the stream") {
  const FakeCublas fake;
  CHECK(cublas_found() == "cuBLAS 13.7 (libcublas.so.13)");
  SimtDevice device;
  Cublas cublas(device);
  CHECK(cublas.name() == "cuBLAS 13.7");
  CHECK(device.log().device_bytes >= Cublas::kWorkspaceBytes);
  const int m = 5, n = 7, k = 11;
  const std::vector<float> a = random_floats(size_t(m) * k, 1), b = random_floats(size_t(k) * n, 2);
  const std::vector<float> c = random_floats(size_t(m) * 9, 3);
  for (int kind = 0; kind < 4; ++kind) {
    CAPTURE(kind);
    const bool turn_a = kind & 1, turn_b = kind & 2;
    std::vector<float> stored_a(a.size()), stored_b(b.size());
    for (int i = 0; i < m; ++i) {
      for (int l = 0; l < k; ++l) stored_a[turn_a ? l * m + i : i * k + l] = a[i * k + l];
    }
    for (int l = 0; l < k; ++l) {
      for (int j = 0; j < n; ++j) stored_b[turn_b ? j * k + l : l * n + j] = b[l * n + j];
    }
    const auto device_a = on_device(device, halves(stored_a));
    const auto device_b = on_device(device, halves(stored_b));
    const auto device_c = on_device(device, c);
    const auto half_c = on_device(device, std::vector<uint16_t>(size_t(m) * n));
    HalfMatrix left{device_a.data(), turn_a ? m : k}, right{device_b.data(), turn_b ? k : n};
    if (turn_a) left = left.transposed();
    if (turn_b) right = right.transposed();
    cublas.multiply(m, n, k, 2, left, right, -1, device_c.data(), 9);
    cublas.multiply(m, n, k, 2, left, right, half_c.data(), n);
    const std::vector<float> found = device.read(device_c.data(), c.size());
    const std::vector<uint16_t> found_half = device.read(half_c.data(), size_t(m) * n);
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < 9; ++j) {
        double sum = 0;
        for (int l = 0; l < k && j < n; ++l) sum += double(a[i * k + l]) * b[l * n + j];
        const double wanted = j < n ? 2 * sum - c[i * 9 + j] : c[i * 9 + j];
        REQUIRE(std::abs(found[i * 9 + j] - wanted) < 2e-2);
        if (j < n) REQUIRE(std::abs(half_to_float(found_half[i * n + j]) - 2 * sum) < 2e-2);
      }
    }
  }
}

TEST_CASE("what is wrong with cuBLAS is one line") {
  SimtDevice device;
  const char* const files[] = {"libno-such-cublas.so.13"};
  const std::string missing = message_of(ErrorCode::kUnsupported, [&] { Cublas(device, files); });
  CHECK(missing.find("pip install") != std::string::npos);
  CHECK(missing.find('\n') == std::string::npos);
  // A library without these functions is none of them.
  const char* const others[] = {"libstdc++.so.6"};
  CHECK(message_of(ErrorCode::kUnsupported, [&] { Cublas(device, others); }) == missing);

  const FakeCublas fake;
  Cublas cublas(device);
  fake.fail_after(0);
  const auto x = on_device(device, std::vector<uint16_t>(64));
  const DeviceMemory<float> y(device, 64);
  const HalfMatrix matrix{x.data(), 8};
  CHECK(message_of(ErrorCode::kDevice, [&] {
          cublas.multiply(8, 8, 8, 1, matrix, matrix, 0, y.data(), 8);
        }) == "cuBLAS 13.7, cublasGemmEx: CUBLAS_STATUS_EXECUTION_FAILED");
}

TEST_CASE("prefill's matmuls by cuBLAS are near the exact ones") {
  const FakeCublas fake;
  SimtDevice device;
  const ModelConfig config = small_config();
  const size_t before = device.log().device_bytes;
  PrefillCublas prefill(device, config, 40);
  CHECK(device.log().device_bytes - before <= PrefillCublas::bytes_needed(config, 40));
  const int dim = config.dim, ffn = config.ffn_dim, n_rows = 33;
  std::vector<float> h = random_floats(size_t(n_rows) * dim, 1);
  h[3] = 80000;  // beyond FP16
  const std::vector<float> norm = random_floats(dim, 2, 0.1f, 1), bias = random_floats(dim, 3);
  std::vector<DeviceMemory<std::byte>> memory;
  const auto check = [](const std::vector<float>& found, const std::vector<double>& wanted) {
    double largest = 0, error = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      largest = std::max(largest, std::abs(wanted[i]));
      error = test::farther(error, std::abs(found[i] - wanted[i]));
    }
    CHECK(error < 2e-3 * largest);
  };
  for (const bool int8 : {true, false}) {
    CAPTURE(int8);
    // W (n_out, n_in) on the device and as it is.
    std::vector<std::vector<float>> kept;
    std::vector<std::vector<BlockQ8_0>> kept_blocks;
    const auto weights = [&](int n_out, int n_in, uint64_t seed, std::vector<double>& w) {
      if (int8 && n_in % 32 == 0) {
        kept_blocks.push_back(random_blocks(size_t(n_out) * n_in / 32, seed));
        for (const BlockQ8_0& block : kept_blocks.back()) {
          for (const int8_t q : block.q) w.push_back(double(half_to_float(block.d)) * q);
        }
        return upload_matrix(
            device,
            {DType::kQ8_0, n_out, n_in, reinterpret_cast<std::byte*>(kept_blocks.back().data())},
            true, memory);
      }
      kept.push_back(random_floats(size_t(n_out) * n_in, seed, 0.1f));
      w.assign(kept.back().begin(), kept.back().end());
      return upload_matrix(
          device, {DType::kF32, n_out, n_in, reinterpret_cast<std::byte*>(kept.back().data())},
          false, memory);
    };
    // rows W^T, `rows` (n_rows, n_in).
    const auto product = [&](const std::vector<double>& rows, const std::vector<double>& w,
                             int n_in) {
      const size_t n_out = w.size() / n_in;
      std::vector<double> y(n_rows * n_out);
      for (int r = 0; r < n_rows; ++r) {
        for (size_t o = 0; o < n_out; ++o) {
          for (int k = 0; k < n_in; ++k)
            y[r * n_out + o] += rows[size_t(r) * n_in + k] * w[o * n_in + k];
        }
      }
      return y;
    };
    std::vector<double> q, k, gate, up, down;
    const DeviceMatrix wq = weights(64, dim, 11, q), wk = weights(32, dim, 12, k);
    const DeviceMatrix wg = weights(ffn, dim, 13, gate), wu = weights(ffn, dim, 14, up);
    const DeviceMatrix wd = weights(dim, ffn, 15, down);
    std::vector<double> x;
    for (int r = 0; r < n_rows; ++r) {
      double squares = 0;
      for (int i = 0; i < dim; ++i) squares += double(h[r * dim + i]) * h[r * dim + i];
      const double scale = 1 / std::sqrt(squares / dim + 1e-5);
      for (int i = 0; i < dim; ++i) x.push_back(h[r * dim + i] * scale * norm[i]);
    }
    const auto device_h = on_device(device, h), device_norm = on_device(device, norm);
    const auto device_bias = on_device(device, bias);
    const DeviceMemory<float> qk(device, size_t(n_rows) * 96), act(device, size_t(n_rows) * 104);

    prefill.norm(device_h.data(), device_norm.data(), dim, 1e-5f, n_rows);
    prefill.project(wq, qk.data(), 96);
    prefill.project(wk, qk.data() + 64, 96);
    prefill.gate_up(wg, wu, act.data(), 104);
    const std::vector<float> found = device.read(qk.data(), qk.size());
    const std::vector<double> all_q = product(x, q, dim), all_k = product(x, k, dim);
    std::vector<double> wanted;
    for (int r = 0; r < n_rows; ++r) {
      wanted.insert(wanted.end(), all_q.begin() + r * 64, all_q.begin() + (r + 1) * 64);
      wanted.insert(wanted.end(), all_k.begin() + r * 32, all_k.begin() + (r + 1) * 32);
    }
    check(found, wanted);
    const std::vector<double> g = product(x, gate, dim), u = product(x, up, dim);
    const std::vector<float> padded_act = device.read(act.data(), act.size());
    std::vector<float> found_act;
    std::vector<double> wanted_act;
    for (int r = 0; r < n_rows; ++r) {
      for (int i = 0; i < ffn; ++i) {
        found_act.push_back(padded_act[r * 104 + i]);
        const double z = g[r * ffn + i];
        wanted_act.push_back(z / (1 + std::exp(-z)) * u[r * ffn + i]);
      }
    }
    check(found_act, wanted_act);

    // Rows as they are, into the residual.
    prefill.take(act.data(), 104, ffn, n_rows);
    prefill.project_residual(wd, device_bias.data(), device_h.data(), dim);
    std::vector<double> sum = product(wanted_act, down, ffn);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += double(h[i]) + bias[i % dim];
    const std::vector<float> found_h = device.read(device_h.data(), h.size());
    check({found_h.begin() + dim, found_h.end()}, {sum.begin() + dim, sum.end()});
    // The first row without its large number, beside which all others are small.
    CHECK(found_h[3] == doctest::Approx(sum[3]).epsilon(1e-3));
    check({found_h.begin() + 4, found_h.begin() + dim}, {sum.begin() + 4, sum.begin() + dim});
  }
}

}  // namespace cublas_host_test
