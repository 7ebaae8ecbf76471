// What a randomized test came across, counted, printed and required.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "error.h"

namespace specbound::test {

class Coverage {
 public:
  // `what` is to be met at each of first..last.
  void expect(const std::string& what, int first = 0, int last = 0) {
    counts_[what] = {first, std::vector<int>(last - first + 1)};
  }
  // Indices past the last one asked for count as nothing.
  void met(std::string_view what, int at = 0) {
    const auto found = counts_.find(what);
    SB_CHECK(found != counts_.end());
    auto& [first, n] = found->second;
    if (at >= first && at - first < static_cast<int>(n.size())) ++n[at - first];
  }
  // Where `what` was met least often.
  int rarest(std::string_view what) const {
    const auto found = counts_.find(what);
    SB_CHECK(found != counts_.end());
    const auto& [first, n] = found->second;
    return first + static_cast<int>(std::min_element(n.begin(), n.end()) - n.begin());
  }

  void require_all() const {
    std::string table;
    for (const auto& [what, count] : counts_) {
      const auto& [first, n] = count;
      table += "\n  " + what;
      if (n.size() > 1) table += format(" %d..%d", first, first + static_cast<int>(n.size()) - 1);
      table += ":";
      for (const int times : n) table += format(" %d", times);
    }
    MESSAGE("coverage:" << table);
    for (const auto& entry : counts_) {
      const auto& [first, n] = entry.second;
      for (size_t i = 0; i < n.size(); ++i) {
        const std::string place = format("%s %d", entry.first.c_str(), first + static_cast<int>(i));
        CAPTURE(place);
        REQUIRE(n[i] > 0);
      }
    }
  }

 private:
  std::map<std::string, std::pair<int, std::vector<int>>, std::less<>> counts_;
};

}  // namespace specbound::test
