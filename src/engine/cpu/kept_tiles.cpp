#include "engine/cpu/kept_tiles.h"

#include <algorithm>
#include <cstring>

#include "error.h"

namespace specbound {

// Sums, and sums of the sums, so that the order counts: nothing but additions of vectors.
uint64_t TileChecksum::of_chunk(std::span<const std::byte> bytes) {
  constexpr size_t kLanes = KeptTiles::kAlignment / sizeof(uint32_t);
  SB_CHECK(bytes.size() % KeptTiles::kAlignment == 0);
  uint32_t sum[kLanes] = {}, of_sums[kLanes] = {};
  for (size_t at = 0; at < bytes.size(); at += KeptTiles::kAlignment) {
    uint32_t words[kLanes];
    std::memcpy(words, bytes.data() + at, sizeof words);
    for (size_t i = 0; i < kLanes; ++i) {
      sum[i] += words[i];
      of_sums[i] += sum[i];
    }
  }
  TileChecksum joined;
  for (size_t i = 0; i < kLanes; ++i) joined.add(uint64_t{of_sums[i]} << 32 | sum[i]);
  return joined.value();
}

uint64_t TileChecksum::of(std::span<const std::byte> image, ThreadPool& pool,
                          const std::function<void(size_t, size_t)>& progress) {
  constexpr int kChunksAtOnce = 64;  // a thread's: a disk reads these in a blink
  const size_t round = kChunksAtOnce * kChunk * pool.size();
  std::vector<uint64_t> chunks(kChunksAtOnce * pool.size());
  TileChecksum joined;
  for (size_t first = 0; first < image.size(); first += round) {
    const std::span<const std::byte> part =
        image.subspan(first, std::min(round, image.size() - first));
    const int n_chunks = static_cast<int>((part.size() + kChunk - 1) / kChunk);
    pool.run([&](int thread) {
      const Slice mine = slice(n_chunks, thread, pool.size());
      for (int i = mine.begin; i < mine.end; ++i) {
        const size_t at = i * kChunk;
        chunks[i] = of_chunk(part.subspan(at, std::min(kChunk, part.size() - at)));
      }
    });
    for (int i = 0; i < n_chunks; ++i) joined.add(chunks[i]);
    if (progress) progress(first + part.size(), image.size());
  }
  return joined.value();
}

}  // namespace specbound
