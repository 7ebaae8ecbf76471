#include "engine/cuda/prefill_cublas.h"

#include <algorithm>

#include "engine/cuda/device_rows.h"
#include "error.h"
#include "kernels/expand.h"

namespace specbound {
namespace {

size_t values_of(int rows, int columns) {
  return static_cast<size_t>(rows) * static_cast<size_t>(columns);
}

// What the largest matmuls of a layer take.
struct Sizes {
  size_t weights, rows, products;  // values
  size_t bytes(int max_rows) const {
    return Cublas::kWorkspaceBytes + (weights + rows) * sizeof(uint16_t) +
           (products + static_cast<size_t>(max_rows)) * sizeof(float);
  }
};

Sizes sizes_of(const ModelConfig& config, int max_rows) {
  const int dim = padded_in(config.dim), q_dim = padded_in(config.q_dim());
  const int ffn_dim = padded_in(config.ffn_dim);
  return {std::max({values_of(std::max(config.q_dim(), config.ffn_dim), dim),
                    values_of(config.dim, q_dim), values_of(config.dim, ffn_dim)}),
          values_of(max_rows, std::max({dim, q_dim, ffn_dim})),
          values_of(max_rows, std::max(config.dim, config.ffn_dim))};
}

}  // namespace

PrefillCublas::PrefillCublas(Device& device, const ModelConfig& config, int max_rows)
    : device_(device), cublas_(device), activation_(config.activation) {
  const Sizes sizes = sizes_of(config, max_rows);
  weights_ = DeviceMemory<uint16_t>(device, sizes.weights);
  rows_ = DeviceMemory<uint16_t>(device, sizes.rows);
  scales_ = DeviceMemory<float>(device, static_cast<size_t>(max_rows));
  products_ = DeviceMemory<float>(device, sizes.products);
}

size_t PrefillCublas::bytes_needed(const ModelConfig& config, int max_rows) {
  return sizes_of(config, max_rows).bytes(max_rows);
}

void PrefillCublas::prepare(const float* x, int ld, int n, const float* weight, float eps,
                            int n_rows) {
  SB_CHECK(static_cast<size_t>(n_rows) <= scales_.size());
  SB_CHECK(values_of(n_rows, padded_in(n)) <= rows_.size());
  n_rows_ = n_rows;
  n_in_ = n;
  kernels::halve_scaled_rows(
      {x, n_rows, ld, n, weight, eps, rows_.data(), padded_in(n), scales_.data()},
      device_.stream());
}

void PrefillCublas::norm(const float* h, const float* weight, int dim, float eps, int n_rows) {
  prepare(h, dim, dim, weight, eps, n_rows);
}

void PrefillCublas::take(const float* x, int ld, int n, int n_rows) {
  prepare(x, ld, n, nullptr, 0, n_rows);
}

// c (n_rows, ldc) = W x / scale
void PrefillCublas::multiply(const DeviceMatrix& w, float* c, int ldc) {
  const int n_out = w.n_out(), ld = padded_in(w.n_in());
  SB_CHECK(w.n_in() == n_in_ && values_of(n_out, ld) <= weights_.size());
  if (w.int8()) {
    kernels::expand_i8({*w.i8, weights_.data(), ld}, device_.stream());
  } else {
    kernels::expand_f16({*w.f16, weights_.data(), ld}, device_.stream());
  }
  cublas_.multiply(n_rows_, n_out, ld, 1, {rows_.data(), ld},
                   HalfMatrix{weights_.data(), ld}.transposed(), 0, c, ldc);
}

void PrefillCublas::project(const DeviceMatrix& w, float* y, int ldy) {
  multiply(w, y, ldy);
  kernels::finish_rows(
      {kernels::Finish::kScale, y, n_rows_, w.n_out(), ldy, scales_.data(), nullptr, y, ldy},
      device_.stream());
}

void PrefillCublas::project_residual(const DeviceMatrix& w, const float* bias, float* h, int ldh) {
  SB_CHECK(values_of(n_rows_, w.n_out()) <= products_.size());
  multiply(w, products_.data(), w.n_out());
  kernels::finish_rows({kernels::Finish::kAdd, products_.data(), n_rows_, w.n_out(), w.n_out(),
                        scales_.data(), bias, h, ldh},
                       device_.stream());
}

void PrefillCublas::gate_up(const DeviceMatrix& gate, const DeviceMatrix& up, float* act, int ld) {
  SB_CHECK(gate.n_out() == up.n_out() && values_of(n_rows_, gate.n_out()) <= products_.size());
  multiply(gate, products_.data(), gate.n_out());
  multiply(up, act, ld);
  kernels::finish_rows({kernels::Finish::kGate, products_.data(), n_rows_, gate.n_out(),
                        gate.n_out(), scales_.data(), nullptr, act, ld, activation_},
                       device_.stream());
}

}  // namespace specbound
