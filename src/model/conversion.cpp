#include "model/conversion.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "error.h"
#include "model/codec.h"
#include "numerics/half.h"

namespace specbound {
namespace {

constexpr size_t kBlock = sizeof(BlockQ8_0::q);
constexpr size_t kMostInBlock = 256;  // weights of a block, of any type

// Finite values of a block that lost its scale to infinity.
size_t lost_values(const BlockQ8_0& block, const float* x) {
  if (std::isfinite(half_to_float(block.d))) return 0;
  return static_cast<size_t>(std::count_if(x, x + kBlock, [](float v) {
    return std::isfinite(v) && !std::isfinite(half_to_float(float_to_half(std::fabs(v) / 127.0f)));
  }));
}

bool is_converted(const Matrix& matrix) {
  return runs_as(matrix.type) != matrix.type;
}

// "Q5_K, Q6_K and Q3_K"
std::string and_list(const std::set<std::string>& names) {
  std::string text;
  size_t left = names.size();
  for (const std::string& name : names) {
    text += name + (--left == 0 ? "" : left == 1 ? " and " : ", ");
  }
  return text;
}

}  // namespace

size_t convert_to_int8(const Matrix& matrix, int row, BlockQ8_0* out) {
  const DTypeInfo* info = dtype_info(matrix.type);
  const size_t step = std::max<size_t>(info->block, kBlock);  // F32, F16 and BF16 have no blocks
  const size_t step_bytes = step / info->block * info->bytes;
  const std::byte* from = matrix.data + row * (matrix.bytes() / matrix.n_out);
  float values[kMostInBlock];
  SB_CHECK(step <= kMostInBlock && matrix.n_in % step == 0);
  size_t lost = 0;
  for (size_t n = matrix.n_in; n > 0; n -= step, from += step_bytes) {
    dequantize(from, matrix.type, step, values);
    encode_floats({values, step}, DType::kQ8_0, reinterpret_cast<std::byte*>(out));
    for (size_t i = 0; i < step; i += kBlock) lost += lost_values(*out++, &values[i]);
  }
  return lost;
}

void refuse_lost_weights(DType type, size_t lost) {
  if (lost == 0) return;
  throw Error(ErrorCode::kUnsupported,
              format("expected %s weights that INT8 blocks can hold, at most 127 times the largest "
                     "FP16 number, found %zu above",
                     dtype_info(type)->name, lost));
}

std::string conversion_note(const Weights& weights) {
  std::set<std::string> types;
  double before = 0, after = 0;
  const auto add = [&](const Matrix& m) {
    if (!is_converted(m)) return;
    types.insert(dtype_info(m.type)->name);
    before += static_cast<double>(m.bytes());
    after += static_cast<double>(m.run_bytes());
  };
  for (const LayerWeights& w : weights.layers) {
    for (const Matrix* m : {&w.wq, &w.wk, &w.wv, &w.wo, &w.w_gate, &w.w_up, &w.w_down}) add(*m);
    if (w.router.n_out > 0) add(w.router);
  }
  add(weights.lm_head);
  if (types.empty()) return "";
  return format("%s run%s as INT8: %.1f MB become %.1f MB, repacked at load",
                and_list(types).c_str(), types.size() == 1 ? "s" : "", 1e-6 * before, 1e-6 * after);
}

}  // namespace specbound
