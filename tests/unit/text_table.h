// A draft table of one text, for tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tiny_gguf.h"
#include "train/build_draft_table.h"

namespace specbound::test {

// From the text itself with tokens behind the prompt changed here and there: right often, wrong
// often, sure always.
inline NewDraftTable table_of(std::span<const int32_t> text, int n_prompt, int vocab_size,
                              double wrong, uint64_t seed) {
  TinyRandom random(seed);
  TrainingText training;
  training.tokens.assign(text.begin(), text.end());
  training.learn.assign(text.size(), 1);
  for (size_t i = n_prompt; i < text.size(); ++i) {
    if (random.uniform() < wrong) {
      training.tokens[i] = static_cast<int32_t>(random.next() % vocab_size);
    }
  }
  NewDraftTable table =
      build_draft_table(std::span(&training, 1), {4, size_t{1} << 20, vocab_size});
  std::fill(table.log_p.begin(), table.log_p.end(), uint16_t{0});
  return table;
}

}  // namespace specbound::test
