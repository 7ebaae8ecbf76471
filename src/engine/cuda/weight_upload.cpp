#include "engine/cuda/weight_upload.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "engine/cpu/cpu_topology.h"
#include "engine/cpu/linear.h"
#include "engine/cuda/fragments.h"
#include "engine/cuda/weight_layout.h"
#include "error.h"
#include "model/encode.h"
#include "model/half.h"

namespace specbound {
namespace {

// A thread for less than this would cost more than it does.
constexpr size_t kBytesOfThread = size_t{4} << 20;

int upload_threads(size_t source) {
  constexpr int kMost = 16;  // enough for the memory of a desktop, and for its PCIe
  const size_t wanted = std::max<size_t>(1, source / kBytesOfThread);
  return static_cast<int>(std::min<size_t>(wanted, std::min(kMost, usable_cores())));
}

// Half of what there is: the two buffers take turns with small models too.
size_t buffer_bytes(const UploadSize& size) {
  return std::max({std::min(size.staging_bytes, size.source / 2), size.widest_tile, size_t{64}});
}

// Finite values of a block that lost its scale to infinity.
size_t lost_values(const BlockQ8_0& block, const float* x) {
  if (std::isfinite(half_to_float(block.d))) return 0;
  const auto too_large = [](float v) {
    return std::isfinite(v) && !std::isfinite(half_to_float(float_to_half(std::fabs(v) / 127.0f)));
  };
  return std::count_if(x, x + sizeof block.q, too_large);
}

// Tiles [begin, end) of a float matrix, quantized. Returns what FP16 scales could not hold.
size_t quantize_int8(const Matrix& source, int begin, int end, int8_t* q, uint16_t* d) {
  const FragmentShape shape = int8_fragments(source);
  size_t too_large = 0;
  std::vector<float> values;  // (rows of a tile, n_in)
  for (int tile = begin; tile < end; ++tile) {
    const int first = tile * kFragmentOutputs;
    const int n_rows = std::min(kFragmentOutputs, source.n_out - first);
    values.resize(static_cast<size_t>(n_rows) * source.n_in);
    for (int r = 0; r < n_rows; ++r) {
      read_row(source, first + r, values.data() + static_cast<size_t>(r) * source.n_in);
    }
    const std::vector<std::byte> encoded = encode_floats(values, DType::kQ8_0);
    const auto* blocks = reinterpret_cast<const BlockQ8_0*>(encoded.data());
    for (size_t b = 0; b * sizeof blocks->q < values.size(); ++b) {
      too_large += lost_values(blocks[b], values.data() + b * sizeof blocks->q);
    }
    repack_int8({DType::kQ8_0, n_rows, source.n_in, encoded.data()}, 0, 1,
                q + shape.bytes_of(tile - begin), d + shape.scales_of(tile - begin));
  }
  return too_large;
}

}  // namespace

WeightUpload::WeightUpload(Device& device, const UploadSize& size, const Progress& progress)
    : size_(size),
      progress_(progress),
      pool_(upload_threads(size.source)),
      staging_(device, buffer_bytes(size)) {}

// Tiles [begin, end), by all threads together.
void WeightUpload::convert(const Matrix& source, bool int8, int begin, int end, std::byte* values,
                           std::byte* scales) {
  const MatrixBytes tile = tile_bytes(source, int8);
  pool_.run([&](int thread) {
    const Slice mine = slice(end - begin, thread, pool_.size());
    if (mine.begin == mine.end) return;
    const int first = begin + mine.begin, last = begin + mine.end;
    std::byte* to = values + mine.begin * tile.values;
    if (!int8) {
      too_large_ += repack_half(source, first, last, reinterpret_cast<uint16_t*>(to));
      return;
    }
    auto* q = reinterpret_cast<int8_t*>(to);
    auto* d = reinterpret_cast<uint16_t*>(scales + mine.begin * tile.scales);
    if (source.type == DType::kQ8_0) {
      repack_int8(source, first, last, q, d);
    } else {
      too_large_ += quantize_int8(source, first, last, q, d);
    }
  });
}

void WeightUpload::matrix(const Matrix& source, bool int8, std::byte* values, std::byte* scales) {
  const MatrixBytes tile = tile_bytes(source, int8);
  const size_t step = tile.values + tile.scales, row = source.bytes() / source.n_out;
  const int n_tiles = half_fragments(source).n_tiles;
  for (int begin = 0, end; begin < n_tiles; begin = end) {
    // Pieces of a reasonable size, where there is so much.
    const size_t left = (n_tiles - begin) * step;
    const auto room = staging_.room(std::min(left, std::max(step, staging_.bytes() / 4)));
    end = begin + static_cast<int>(std::min(left, room.size()) / step);
    const size_t n = end - begin;
    convert(source, int8, begin, end, room.data(), room.data() + n * tile.values);
    staging_.send(values + begin * tile.values, n * tile.values);
    if (int8) staging_.send(scales + begin * tile.scales, n * tile.scales);
    arrived((std::min(end * kFragmentOutputs, source.n_out) - begin * kFragmentOutputs) * row);
  }
}

void WeightUpload::bytes(const void* source, size_t bytes, std::byte* to) {
  constexpr size_t kUnit = 4096;  // of a thread's part
  for (size_t at = 0, n; at < bytes; at += n) {
    const auto room = staging_.room(std::min(bytes - at, staging_.bytes() / 4));
    n = std::min(bytes - at, room.size());
    const auto* from = static_cast<const std::byte*>(source) + at;
    pool_.run([&](int thread) {
      const Slice mine = slice(static_cast<int>(n), thread, pool_.size(), kUnit);
      std::memcpy(room.data() + mine.begin, from + mine.begin, mine.end - mine.begin);
    });
    staging_.send(to + at, n);
    arrived(n);
  }
}

void WeightUpload::arrived(size_t source_bytes) {
  done_ += source_bytes;
  if (progress_) progress_(done_, size_.source);
}

void WeightUpload::finish(const char* help) {
  staging_.finish();
  if (too_large_ == 0) return;
  throw Error(ErrorCode::kUnsupported,
              format("expected weights that the GPU's FP16 numbers can hold, found %zu too large "
                     "for them; %s",
                     too_large_.load(), help));
}

}  // namespace specbound
