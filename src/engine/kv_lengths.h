// How many positions have their K and V at each layer: the paper's Cache Manager, whatever holds
// the keys and values. docs/architecture.md 3.2.
#pragma once

#include <algorithm>
#include <vector>

#include "error.h"

namespace specbound {

class KvLengths {
 public:
  explicit KvLengths(int n_layers) : len_(n_layers, 0) {}

  int at(int layer) const {  // 1..L
    SB_CHECK(1 <= layer && layer <= static_cast<int>(len_.size()));
    return len_[layer - 1];
  }
  // Where it is the same at every layer.
  int everywhere() const {
    SB_CHECK(len_.front() == len_.back());  // it never grows with the layer
    return len_.front();
  }

  // Positions pos..pos+n-1 go through layers from..to, or pass them by.
  void extend(int pos, int n, int from, int to) {
    for (int l = from; l <= to; ++l) {
      // A row runs layer l after layer l - 1.
      SB_CHECK(at(l) == pos && (l == 1 || at(l - 1) >= pos + n));
      len_[l - 1] = pos + n;
    }
  }
  // At most `len` positions stay at any layer.
  void truncate(int len) {
    SB_CHECK(len >= 0);
    for (int& l : len_) l = std::min(l, len);
  }
  // `len` positions are there at every layer: truncate() taken back.
  void restore(int len) {
    for (int& l : len_) {
      SB_CHECK(l <= len);
      l = len;
    }
  }

 private:
  std::vector<int> len_;  // [n_layers], never growing with the layer
};

}  // namespace specbound
