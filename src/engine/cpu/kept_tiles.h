// Repacked weights from one start to the next: what LinearStore asks whoever keeps them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/cpu/thread_pool.h"

namespace specbound {

// All runs of a store behind each other. Any bytes are weights, and wrong ones another text: what
// was kept is only taken with its checksum.
class KeptTiles {
 public:
  static constexpr size_t kAlignment = 64;  // of runs, in an image and in memory

  virtual ~KeptTiles() = default;
  struct Image {
    std::span<const std::byte> bytes;  // at a multiple of kAlignment, readable while this lives
    uint64_t checksum = 0;             // that it had
  };
  // What was kept of the model in this layout, of so many bytes.
  virtual std::optional<Image> find(const std::string& layout, size_t bytes) = 0;
  // What find() gave has another checksum.
  virtual void refuse() = 0;
  // Repacked just now: runs of multiples of kAlignment, readable while the store lives.
  virtual void offer(const std::string& layout, std::vector<std::span<const std::byte>> runs) = 0;
};

// 64 bits of an image, from those of its chunks, which any thread can sum: at the speed of memory,
// against disks and crashes, not against forgers.
class TileChecksum {
 public:
  static constexpr size_t kChunk = size_t{2} << 20;

  // Of a chunk, a multiple of kAlignment.
  static uint64_t of_chunk(std::span<const std::byte> bytes);
  // `progress(done, total)` in bytes, from this thread; what it throws ends it.
  static uint64_t of(std::span<const std::byte> image, ThreadPool& pool,
                     const std::function<void(size_t, size_t)>& progress = nullptr);

  // The chunks in order.
  void add(uint64_t chunk) { value_ = (value_ ^ chunk) * 0x100000001b3u; }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325u;
};

}  // namespace specbound
