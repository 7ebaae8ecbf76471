#include "engine/cuda/read_bandwidth.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <vector>

#include "kernels/probe.h"

namespace specbound {

namespace {

constexpr size_t kMostBytes = size_t{1} << 30;
constexpr size_t kCaches = 64;      // that what is read would fill
constexpr size_t kLeastCaches = 4;  // with fewer it would be they that are read
constexpr int kLeastRounds = 3;
constexpr int kThreads[] = {256, 512, 1024};
constexpr int kBlocksEach[] = {1, 2, 4, 8};  // of a multiprocessor

struct Grid {
  int blocks, threads;
};

}  // namespace

std::optional<double> read_bandwidth(Device& device, double seconds) {
  const DeviceInfo& info = device.info();
  const size_t wanted = std::min(kMostBytes, kCaches * info.l2_bytes);
  const size_t bytes = std::min(wanted, device.free_bytes() / 2) / 256 * 256;
  if (bytes == 0 || bytes < std::min(wanted, kLeastCaches * info.l2_bytes)) return std::nullopt;
  const DeviceMemory<uint32_t> words(device, bytes / sizeof(uint32_t));
  std::vector<Grid> grids;
  size_t most_threads = 0;
  for (const int threads : kThreads) {
    for (const int each : kBlocksEach) {
      grids.push_back({info.multiprocessors * each, threads});
      most_threads = std::max(most_threads, static_cast<size_t>(grids.back().blocks) * threads);
    }
  }
  const DeviceMemory<uint32_t> sums(device, most_threads);
  const auto read = [&](const Grid& grid) {
    kernels::read_words({words.data(), bytes, sums.data(), grid.blocks, grid.threads},
                        device.stream());
  };
  kernels::fill_random({words.data(), words.size(), ~0u, 0, 0}, device.stream());
  read(grids.front());  // loads it
  device.synchronize();

  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  double least = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kLeastRounds || Clock::now() < end; ++round) {
    for (const Grid& grid : grids) {
      const auto from = device.mark();
      read(grid);
      const auto to = device.mark();
      least = std::min(least, device.seconds_between(*from, *to));
    }
  }
  return static_cast<double>(bytes) / least;
}

}  // namespace specbound
