#include "app/suggestion.h"

#include <algorithm>

namespace specbound {

size_t letters_apart(std::string_view a, std::string_view b) {
  // Row i: from the first i letters of a to the first j of b. Damerau's distance, each place
  // changed once.
  std::vector<std::vector<size_t>> rows(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        rows[i][j] = i + j;
        continue;
      }
      rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1,
                             rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
      }
    }
  }
  return rows[a.size()][b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  constexpr size_t kMaxWord = 64;  // no name here is that long
  if (word.empty() || word.size() > kMaxWord) return "";
  std::string best;
  // With more than a third of its letters wrong it was another word.
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& name : known) {
    const size_t distance = letters_apart(word, name);
    if (distance < least && distance < name.size()) {
      least = distance;
      best = name;
    }
  }
  if (!best.empty() || word.size() < 3) return best;
  // Begun, and not ended.
  for (const std::string& name : known) {
    if (name.starts_with(word)) return name;
  }
  return "";
}

}  // namespace specbound
