#include "train/matrix_floats.h"

#include <cstring>

#include "error.h"
#include "model/half.h"

namespace specbound {

std::vector<float> matrix_floats(const Matrix& matrix) {
  const size_t n = static_cast<size_t>(matrix.n_out) * matrix.n_in;
  std::vector<float> out(n);
  const auto from_halves = [&](auto convert) {
    for (size_t i = 0; i < n; ++i) {
      uint16_t bits;
      std::memcpy(&bits, matrix.data + 2 * i, 2);
      out[i] = convert(bits);
    }
  };
  switch (matrix.type) {
    case DType::kF32:
      std::memcpy(out.data(), matrix.data, n * sizeof(float));
      break;
    case DType::kF16:
      from_halves(half_to_float);
      break;
    case DType::kBF16:
      from_halves(bfloat_to_float);
      break;
    case DType::kQ8_0:
      for (size_t b = 0; b < n / 32; ++b) {
        BlockQ8_0 block;
        std::memcpy(&block, matrix.data + b * sizeof block, sizeof block);
        const float d = half_to_float(block.d);
        for (size_t i = 0; i < 32; ++i) out[32 * b + i] = d * static_cast<float>(block.q[i]);
      }
      break;
    default:
      SB_CHECK(!"a matrix of a type that map_weights() refuses");
  }
  return out;
}

}  // namespace specbound
