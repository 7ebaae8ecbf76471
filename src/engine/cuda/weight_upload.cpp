#include "engine/cuda/weight_upload.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "engine/cpu/cpu_topology.h"
#include "engine/cuda/fragments.h"
#include "error.h"
#include "model/conversion.h"

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

// Tiles [begin, end) of a matrix that is not Q8_0, as Q8_0. Returns how many weights were lost.
size_t repack_converted(const Matrix& source, int begin, int end, int8_t* q, uint16_t* d) {
  const FragmentShape shape = int8_fragments(source);
  std::vector<BlockQ8_0> blocks(static_cast<size_t>(kFragmentOutputs) * shape.n_blocks);
  size_t lost = 0;
  for (int tile = begin; tile < end; ++tile) {
    const int first = tile * kFragmentOutputs;
    const int n_rows = std::min(kFragmentOutputs, source.n_out - first);
    for (int r = 0; r < n_rows; ++r) {
      lost += convert_to_int8(source, first + r, &blocks[static_cast<size_t>(r) * shape.n_blocks]);
    }
    repack_int8(
        {DType::kQ8_0, n_rows, source.n_in, reinterpret_cast<const std::byte*>(blocks.data())}, 0,
        1, q + shape.bytes_of(tile - begin), d + shape.scales_of(tile - begin));
  }
  return lost;
}

// Where tile `n` of each part is.
MatrixParts at_tile(const MatrixParts& parts, const MatrixBytes& tile, size_t n) {
  return {parts.values + n * tile.values, parts.scales + n * tile.scales, parts.d2 + n * tile.d2};
}

}  // namespace

WeightUpload::WeightUpload(Device& device, const UploadSize& size, const Progress& progress)
    : size_(size),
      progress_(progress),
      pool_(upload_threads(size.source)),
      staging_(device, buffer_bytes(size)) {}

// Tiles [begin, end), by all threads together. Returns how many finite weights were lost.
size_t WeightUpload::convert(const Matrix& source, bool int8, int begin, int end,
                             const MatrixParts& to) {
  const MatrixBytes tile = tile_bytes(source, int8);
  std::atomic<size_t> lost = 0;
  pool_.run_parts([&](int thread) {
    const Slice mine = slice(end - begin, thread, pool_.size());
    if (mine.begin == mine.end) return;
    const int first = begin + mine.begin, last = begin + mine.end;
    const MatrixParts part = at_tile(to, tile, mine.begin);
    if (!int8) {
      lost += repack_half(source, first, last, reinterpret_cast<uint16_t*>(part.values));
      return;
    }
    auto* q = reinterpret_cast<int8_t*>(part.values);
    auto* d = reinterpret_cast<uint16_t*>(part.scales);
    if (source.type == DType::kQ8_0) {
      repack_int8(source, first, last, q, d);
    } else if (source.type == DType::kQ4_0 || source.type == DType::kQ4_K) {
      repack_4bit(source, first, last, q, d, reinterpret_cast<uint32_t*>(part.d2));
    } else {
      lost += repack_converted(source, first, last, q, d);
    }
  });
  return lost;
}

void WeightUpload::matrix(const Matrix& source, bool int8, const MatrixParts& to) {
  const MatrixBytes tile = tile_bytes(source, int8);
  const size_t step = tile.values + tile.scales + tile.d2, row = source.bytes() / source.n_out;
  const int n_tiles = half_fragments(source).n_tiles;
  size_t lost = 0;
  for (int begin = 0, end; begin < n_tiles; begin = end) {
    // Pieces of a reasonable size, where there is so much.
    const size_t left = (n_tiles - begin) * step;
    const auto room = staging_.room(std::min(left, std::max(step, staging_.bytes() / 4)));
    end = begin + static_cast<int>(std::min(left, room.size()) / step);
    const size_t n = end - begin;
    std::byte* scales = room.data() + n * tile.values;
    lost += convert(source, int8, begin, end, {room.data(), scales, scales + n * tile.scales});
    const MatrixParts piece = at_tile(to, tile, begin);
    staging_.send(piece.values, n * tile.values);
    if (tile.scales > 0) staging_.send(piece.scales, n * tile.scales);
    if (tile.d2 > 0) staging_.send(piece.d2, n * tile.d2);
    arrived((std::min(end * kFragmentOutputs, source.n_out) - begin * kFragmentOutputs) * row);
  }
  // A float matrix may be run in another way; what loses here would be lost on the CPU as well.
  if (int8 && takes_int8_rows(source.type)) {
    refuse_lost_weights(source.type, lost);
  } else {
    too_large_ += lost;
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
                     too_large_, help));
}

}  // namespace specbound
