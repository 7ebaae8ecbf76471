#include "train/device_equations.h"

#include <algorithm>

namespace specbound {
namespace {

int inputs(int dim, const EquationsOf& of) {
  return of.chained ? 2 * dim : dim;
}

int widest(int dim, std::span<const EquationsOf> wanted) {
  int n_in = 0;
  for (const EquationsOf& of : wanted) n_in = std::max(n_in, inputs(dim, of));
  return n_in;
}

}  // namespace

DeviceEquations::DeviceEquations(Device& device, Cublas& cublas, DeviceChunks& chunks, int dim,
                                 std::span<const EquationsOf> wanted)
    : device_(device),
      cublas_(cublas),
      chunks_(chunks),
      dim_(dim),
      part_(device, cells(widest(dim, wanted), widest(dim, wanted))),
      u_(device, cells(kEquationRows, 2 * dim)),
      y_(device, cells(kEquationRows, dim)),
      places_(device, kEquationRows),
      pinned_(device, kEquationRows) {
  for (const EquationsOf& of : wanted) {
    const int n_in = inputs(dim, of);
    sums_.push_back({of, n_in, DeviceMemory<double>(device, cells(n_in, n_in)),
                     DeviceMemory<double>(device, cells(n_in, dim))});
    device.clear(sums_.back().gram.data(), sums_.back().gram.bytes());
    device.clear(sums_.back().cross.data(), sums_.back().cross.bytes());
  }
}

size_t DeviceEquations::bytes_needed(int dim, std::span<const EquationsOf> wanted) {
  const int n = widest(dim, wanted);
  size_t bytes = cells(n, n) * sizeof(float) + cells(kEquationRows, 3 * dim) * sizeof(uint16_t) +
                 kEquationRows * sizeof(kernels::RowPlace);
  for (const EquationsOf& of : wanted) {
    const int n_in = inputs(dim, of);
    bytes += cells(n_in, n_in + dim) * sizeof(double);
  }
  return bytes;
}

// Rows u (n, n_in) and y (n, dim).
void DeviceEquations::add_rows(const Sums& sums, int n, const uint16_t* u, const uint16_t* y) {
  const HalfMatrix inputs{u, sums.n_in}, outputs{y, dim_};
  const auto sum = [&](const HalfMatrix& second, double* total) {
    cublas_.multiply(sums.n_in, second.ld, n, 1, inputs.transposed(), second, 0, part_.data(),
                     second.ld);
    kernels::add_to_doubles({part_.data(), cells(sums.n_in, second.ld), total}, device_.stream());
  };
  sum(inputs, sums.gram.data());
  sum(outputs, sums.cross.data());
}

void DeviceEquations::add_chained(const Sums& sums, int chunk, int rows) {
  const std::span<const uint8_t> follows = chunks_.follows(chunk);
  const kernels::Stream stream = device_.stream();
  for (int row = 1; row < rows;) {
    device_.synchronize();  // the places of the rows before are on their way
    int n = 0;
    for (; row < rows && n < kEquationRows; ++row) {
      if (follows[static_cast<size_t>(row)]) pinned_.data()[n++] = chunks_.place(chunk, row);
    }
    if (n == 0) break;
    device_.copy_in(places_.data(), pinned_.data(),
                    static_cast<size_t>(n) * sizeof(*pinned_.data()));
    const kernels::RowPlace* places = places_.data();
    const int y_plane = chunks_.y_plane();
    kernels::gather_rows({places, n, chunks_.plane_of(sums.of.layer), 0, dim_, u_.data(), 2 * dim_},
                         stream);
    kernels::gather_rows({places, n, y_plane, -1, dim_, u_.data() + dim_, 2 * dim_}, stream);
    kernels::gather_rows({places, n, y_plane, 0, dim_, y_.data(), dim_}, stream);
    add_rows(sums, n, u_.data(), y_.data());
  }
}

void DeviceEquations::add(int chunk, int most) {
  const int rows = std::min(most, static_cast<int>(chunks_.follows(chunk).size()));
  for (const Sums& sums : sums_) {
    if (sums.of.chained) {
      add_chained(sums, chunk, rows);
      continue;
    }
    const uint16_t* x = chunks_.plane(chunk, chunks_.plane_of(sums.of.layer));
    const uint16_t* y = chunks_.plane(chunk, chunks_.y_plane());
    for (int row = 0; row < rows; row += kEquationRows) {
      add_rows(sums, std::min(kEquationRows, rows - row), x + cells(row, dim_),
               y + cells(row, dim_));
    }
  }
}

std::vector<LeastSquares> DeviceEquations::take(DeviceFloats& floats) {
  std::vector<LeastSquares> equations;
  for (const Sums& sums : sums_) {
    std::vector<double> gram(sums.gram.size()), cross(sums.cross.size());
    floats.download<double>(sums.gram.data(), gram);
    floats.download<double>(sums.cross.data(), cross);
    equations.emplace_back(sums.n_in, dim_, std::move(gram), std::move(cross));
  }
  return equations;
}

}  // namespace specbound
