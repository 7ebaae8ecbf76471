#include "convert/head_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "convert/hf_rope.h"
#include "error.h"
#include "model/codec.h"

namespace specbound {
namespace {

constexpr int kSampledRows = 256;
constexpr double kMostError = 0.05;  // of squares: a model of 4 bits has 0.01

std::vector<float> floats_of(std::span<const std::byte> bytes, DType from) {
  std::vector<float> out(bytes.size() / dtype_info(from)->bytes);
  dequantize(bytes.data(), from, out.size(), out.data());
  return out;
}

// `tensor` of n_rows in its order, where that is another one in `moved`.
std::span<const std::byte> ordered(const SafeTensor& tensor, int n_rows, HeadOrder order,
                                   std::vector<std::byte>& moved) {
  if (order.head_rows == 0 && !order.halves_swapped) return tensor.bytes;
  moved.resize(tensor.bytes.size());
  const size_t row_bytes = moved.size() / static_cast<size_t>(n_rows);
  for (int row = 0; row < n_rows; ++row) {
    const uint64_t from = order.head_rows > 0 ? row_in_halves(row, order.head_rows) : row;
    const std::span<const std::byte> source = tensor.bytes.subspan(from * row_bytes, row_bytes);
    const size_t first = order.halves_swapped ? row_bytes / 2 : 0;
    std::rotate_copy(source.begin(), source.begin() + static_cast<std::ptrdiff_t>(first),
                     source.end(), moved.begin() + static_cast<std::ptrdiff_t>(row * row_bytes));
  }
  return moved;
}

}  // namespace

HeadTensor HeadTensors::matrix(const std::string& name, int n_out, int n_in, HeadOrder order) {
  const uint64_t shape[] = {static_cast<uint64_t>(n_out), static_cast<uint64_t>(n_in)};
  const SafeTensor& tensor = take_floats(name, shape);
  std::vector<std::byte> moved;
  const std::span<const std::byte> bytes = ordered(tensor, n_out, order, moved);
  HeadTensor out = {n_out, n_in};
  out.type = type_.value_or(*tensor.type);
  if (const DTypeInfo& info = *dtype_info(out.type); static_cast<unsigned>(n_in) % info.block) {
    fail(name, format("expected rows of whole %s blocks (%u elements), found rows of %d", info.name,
                      info.block, n_in));
  }
  if (out.type != *tensor.type) {
    out.encoded = encode_floats(floats_of(bytes, *tensor.type), out.type);
  } else if (!moved.empty()) {
    out.encoded = std::move(moved);
  } else {
    out.encoded.assign(bytes.begin(), bytes.end());
  }
  return out;
}

HeadTensor HeadTensors::vector(const std::string& name, int n, HeadOrder order) {
  const uint64_t shape[] = {static_cast<uint64_t>(n)};
  const SafeTensor& tensor = take_floats(name, shape);
  std::vector<std::byte> moved;
  return {1, n, floats_of(ordered(tensor, n, order, moved), *tensor.type)};
}

// n integers T, which the file calls `dtype`.
template <class T>
std::vector<T> HeadTensors::integers(const std::string& name, int n, const char* dtype) {
  const uint64_t shape[] = {static_cast<uint64_t>(n)};
  const SafeTensor& tensor = take(name, shape);
  if (tensor.dtype != dtype) {
    fail(name, format("expected %s, found %s", dtype, printable(tensor.dtype).c_str()));
  }
  std::vector<T> values(static_cast<size_t>(n));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

std::vector<int64_t> HeadTensors::offsets(const std::string& name, int n) {
  return integers<int64_t>(name, n, "I64");
}

std::vector<uint8_t> HeadTensors::flags(const std::string& name, int n) {
  return integers<uint8_t>(name, n, "BOOL");
}

bool HeadTensors::has_any(std::string_view prefix) const {
  return std::ranges::any_of(checkpoint_.tensors(), [&](const SafeTensor* tensor) {
    return tensor->name.starts_with(prefix);
  });
}

void HeadTensors::check_same(const std::string& name, const Matrix& matrix) {
  if (!has(name)) return;
  const uint64_t n_in = matrix.n_in, shape[] = {static_cast<uint64_t>(matrix.n_out), n_in};
  const SafeTensor& tensor = take_floats(name, shape);
  const size_t bytes = dtype_info(*tensor.type)->bytes * n_in;
  const size_t model_bytes = matrix.bytes() / matrix.n_out;
  std::vector<float> theirs(n_in), own(n_in);
  double squares = 0, errors = 0;
  const int step = std::max(1, matrix.n_out / kSampledRows);
  for (int row = 0; row < matrix.n_out; row += step) {
    dequantize(tensor.bytes.data() + row * bytes, *tensor.type, n_in, theirs.data());
    dequantize(matrix.data + row * model_bytes, matrix.type, n_in, own.data());
    for (uint64_t i = 0; i < n_in; ++i) {
      squares += double{own[i]} * own[i];
      errors += (double{theirs[i]} - own[i]) * (double{theirs[i]} - own[i]);
    }
  }
  if (errors <= kMostError * squares) return;
  fail(name, format("expected the model's own, found one that differs by %.3g of its size",
                    std::sqrt(errors / squares)));
}

void HeadTensors::skip(const std::string& name) {
  if (const SafeTensor* tensor = checkpoint_.find(name)) taken_.insert(tensor);
}

void HeadTensors::fail(const std::string& name, const std::string& what) const {
  throw Error(ErrorCode::kFormat, format("%s: tensor '%s': %s", checkpoint_.directory().c_str(),
                                         printable(name).c_str(), what.c_str()));
}

void HeadTensors::refuse_leftovers(const std::string& why, const std::string& advice,
                                   std::string_view prefix) const {
  for (const SafeTensor* tensor : checkpoint_.tensors()) {
    if (taken_.contains(tensor) || !tensor->name.starts_with(prefix)) continue;
    fail(tensor->name, "expected no more " + why + ", found it" + advice);
  }
}

const SafeTensor& HeadTensors::take(const std::string& name, std::span<const uint64_t> shape) {
  const SafeTensor* tensor = checkpoint_.find(name);
  if (!tensor) fail(name, "expected it, found none of this name");
  if (!std::ranges::equal(tensor->shape, shape)) {
    fail(name, format("expected the shape %s, of the model's sizes, found %s",
                      shape_text(shape).c_str(), shape_text(tensor->shape).c_str()));
  }
  taken_.insert(tensor);
  return *tensor;
}

const SafeTensor& HeadTensors::take_floats(const std::string& name,
                                           std::span<const uint64_t> shape) {
  const SafeTensor& tensor = take(name, shape);
  if (tensor.type) return tensor;
  fail(name, format("expected F32, F16 or BF16, found %s", printable(tensor.dtype).c_str()));
}

}  // namespace specbound
