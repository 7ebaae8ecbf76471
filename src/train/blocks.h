// Work cut into blocks of a fixed size, shared by a team of threads: who does a block is chance,
// what it computes is not, so results do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "engine/cpu/thread_pool.h"

namespace specbound {

// work(begin, end) for each `block` of 0..n.
template <typename Work>
void for_blocks(ThreadPool& pool, int64_t n, int64_t block, const Work& work) {
  if (n <= block) {
    if (n > 0) work(int64_t{0}, n);
    return;
  }
  std::atomic<int64_t> next{0};
  pool.run([&](int) {
    for (;;) {
      const int64_t begin = next.fetch_add(block, std::memory_order_relaxed);
      if (begin >= n) return;
      work(begin, std::min(begin + block, n));
    }
  });
}

}  // namespace specbound
