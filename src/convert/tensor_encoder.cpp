#include "convert/tensor_encoder.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <future>
#include <system_error>
#include <vector>

#include "error.h"
#include "model/codec.h"

namespace specbound {
namespace {

constexpr uint64_t kPiece = uint64_t{1} << 18;  // elements: whole blocks of any type

struct Piece {
  std::vector<std::byte> bytes;
  uint64_t elements = 0;
  uint64_t not_finite = 0, lost = 0;  // weights; the latter are not finite any more
  EncodingError error;
};

Piece encode_piece(const TensorSource& source, DType type, uint64_t begin, uint64_t count) {
  Piece piece;
  piece.elements = count;
  std::vector<float> values(count), back(count);
  source.load(begin, count, values.data());
  piece.not_finite = static_cast<uint64_t>(std::count_if(
      values.begin(), values.end(), [](float value) { return !std::isfinite(value); }));
  if (source.as_is) {
    const DTypeInfo* info = dtype_info(type);
    const auto bytes =
        source.as_is->subspan(begin / info->block * info->bytes, count / info->block * info->bytes);
    piece.bytes.assign(bytes.begin(), bytes.end());
    return piece;
  }
  piece.bytes = encode_floats(values, type);
  dequantize(piece.bytes.data(), type, count, back.data());
  for (uint64_t i = 0; i < count; ++i) {
    piece.lost += std::isfinite(values[i]) && !std::isfinite(back[i]);
    const double value = values[i], error = double{back[i]} - value;
    piece.error.squares += value * value;
    piece.error.errors += error * error;
  }
  return piece;
}

std::future<Piece> start_piece(const TensorSource& source, DType type, uint64_t begin,
                               uint64_t count) {
  try {
    return std::async(std::launch::async, [&source, type, begin, count] {
      return encode_piece(source, type, begin, count);
    });
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::kLimit, format("cannot start a thread: %s", error.what()));
  }
}

void refuse_lost(const TensorSource& source, DType type, const Piece& piece) {
  if (piece.not_finite > 0) {
    throw Error(ErrorCode::kUnsupported,
                format("%s: expected finite weights, found %llu that are not", source.place.c_str(),
                       static_cast<unsigned long long>(piece.not_finite)));
  }
  if (piece.lost > 0) {
    throw Error(ErrorCode::kUnsupported,
                format("%s: expected weights that %s can hold, found %llu too large for it; BF16 "
                       "holds what F32 does",
                       source.place.c_str(), dtype_info(type)->name,
                       static_cast<unsigned long long>(piece.lost)));
  }
}

}  // namespace

EncodingError encode_tensor(const TensorSource& source, DType type, int n_threads,
                            const GgufWriter::Write& write,
                            const std::function<void(uint64_t elements)>& arrived) {
  SB_CHECK(n_threads >= 1);
  EncodingError sum;
  std::deque<std::future<Piece>> under_way;  // their destructors wait, also when something throws
  const auto finish = [&] {
    const Piece piece = under_way.front().get();
    under_way.pop_front();
    refuse_lost(source, type, piece);
    sum.squares += piece.error.squares;
    sum.errors += piece.error.errors;
    write(piece.bytes);
    arrived(piece.elements);
  };
  for (uint64_t begin = 0; begin < source.elements; begin += kPiece) {
    if (under_way.size() == static_cast<size_t>(n_threads)) finish();
    under_way.push_back(
        start_piece(source, type, begin, std::min(kPiece, source.elements - begin)));
  }
  while (!under_way.empty()) finish();
  return sum;
}

}  // namespace specbound
