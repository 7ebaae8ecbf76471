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

// `tokens`: from -1 to vocab_size - 1, fewer than 2^32 of them. Takes 16 bytes of memory a token,
// with what it returns. `progress`, told of parts done, several in a second, may throw.
std::vector<uint32_t> sorted_places(std::span<const int32_t> tokens, int vocab_size,
                                    const std::function<void(int done, int total)>& progress = {});

}  // namespace specbound
