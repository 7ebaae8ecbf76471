#include "train/matrix_floats.h"

#include "model/codec.h"

namespace specbound {

std::vector<float> matrix_floats(const Matrix& matrix) {
  const size_t n = static_cast<size_t>(matrix.n_out) * matrix.n_in;
  std::vector<float> out(n);
  dequantize(matrix.data, matrix.type, n, out.data());
  return out;
}

}  // namespace specbound
