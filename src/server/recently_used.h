// Lists of what was asked for before, the last first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace specbound::server {

// Moves the first that is wanted to the front. False: there is none.
template <class T, class Wanted>
bool move_to_front(std::vector<T>& kept, Wanted wanted) {
  const auto known = std::ranges::find_if(kept, wanted);
  if (known == kept.end()) return false;
  std::rotate(kept.begin(), known, known + 1);
  return true;
}

// Drops what is behind the first `most`, or the first `most_bytes`; the very first stays whatever
// it takes.
template <class T, class Bytes>
void keep_first(std::vector<T>& kept, size_t most, size_t most_bytes, Bytes bytes_of) {
  size_t bytes = bytes_of(kept[0]), n = 1;
  while (n < std::min(kept.size(), most) && (bytes += bytes_of(kept[n])) <= most_bytes) ++n;
  kept.resize(n);
}

}  // namespace specbound::server
