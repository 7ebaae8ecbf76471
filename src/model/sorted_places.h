// The places of a text of tokens in the order of what stands there: a suffix array, as far as
// lookups look. Sorting ends at kSortedTokens, which a text that repeats itself for pages (where a
// full suffix array takes longest) does not make slower; what is alike so far stays in the order of
// the text. Prefix doubling (Manber and Myers 1990): sorted by h tokens, a counting sort makes it
// 2 h. SA-IS is linear, and several times as much code; the corpora here are sorted in seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace specbound {

inline constexpr int kSortedTokens = 32;

// Bytes of memory that sorted_places() takes for n tokens, with what it returns.
constexpr uint64_t sorted_places_bytes(uint64_t n) {
  return 16 * n;
}

// `tokens`: from -1 to vocab_size - 1, fewer than 2^32 of them. `progress`, told of steps done, may
// throw.
std::vector<uint32_t> sorted_places(std::span<const int32_t> tokens, int vocab_size,
                                    const std::function<void(int done, int total)>& progress = {});

}  // namespace specbound
