// Settings that together hold every pair of levels of any two factors: far fewer than the whole
// grid, and no fault that needs two particular levels at once slips through.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tiny_gguf.h"

namespace specbound::test {

// levels[f] is the number of levels of factor f; a setting holds one level of each.
using CoveringArray = std::vector<std::vector<int>>;

// (factor, level, other factor, level), factors ascending.
using LevelPair = std::tuple<int, int, int, int>;

inline std::set<LevelPair> level_pairs(const std::vector<int>& setting) {
  std::set<LevelPair> pairs;
  const int n = static_cast<int>(setting.size());
  for (int a = 0; a < n; ++a) {
    for (int b = a + 1; b < n; ++b) pairs.insert({a, setting[a], b, setting[b]});
  }
  return pairs;
}

inline std::set<LevelPair> all_level_pairs(const std::vector<int>& levels) {
  std::set<LevelPair> pairs;
  const int n = static_cast<int>(levels.size());
  for (int a = 0; a < n; ++a) {
    for (int b = a + 1; b < n; ++b) {
      for (int i = 0; i < levels[a]; ++i) {
        for (int j = 0; j < levels[b]; ++j) pairs.insert({a, i, b, j});
      }
    }
  }
  return pairs;
}

// Greedy and the same everywhere: each setting starts from a pair that is still missing; every
// other factor takes the level that adds most missing pairs, and of equals any.
inline CoveringArray pairwise_array(const std::vector<int>& levels) {
  const int n = static_cast<int>(levels.size());
  std::set<LevelPair> missing = all_level_pairs(levels);
  CoveringArray array;
  TinyRandom random(1);
  while (!missing.empty()) {
    const auto [a, i, b, j] = *missing.begin();
    std::vector<int> setting(n, -1);
    setting[a] = i;
    setting[b] = j;
    for (int f = 0; f < n; ++f) {
      if (setting[f] >= 0) continue;
      int best = 0, most = -1;
      const uint64_t turn = random.next();
      for (int k = 0; k < levels[f]; ++k) {
        const int level = static_cast<int>((k + turn % levels[f]) % levels[f]);
        int adds = 0;
        for (int g = 0; g < n; ++g) {
          if (g == f || setting[g] < 0) continue;
          adds += static_cast<int>(g < f ? missing.count({g, setting[g], f, level})
                                         : missing.count({f, level, g, setting[g]}));
        }
        if (adds > most) most = adds, best = level;
      }
      setting[f] = best;
    }
    for (const LevelPair& pair : level_pairs(setting)) missing.erase(pair);
    array.push_back(std::move(setting));
  }
  return array;
}

}  // namespace specbound::test
