#include "corpus/held_texts.h"

#include <algorithm>

#include "corpus/corpus.h"
#include "error.h"

namespace specbound {

TextSplit split_texts(std::span<const TrainingText> texts, const TextSplitOptions& options) {
  const size_t n = texts.size();
  SB_CHECK(options.held <= n && options.first <= n);
  const bool by_prompt = options.held < n;
  const size_t least = by_prompt ? options.held : options.first;
  const int64_t most = std::min(learnt_tokens(texts), options.most);
  TextSplit split{n, n};
  int64_t held = 0;
  const auto too_few = [&] {
    const bool few = held < options.wanted || n - split.held < n / 20;
    return by_prompt || (options.wanted > 0 && few);
  };
  while (split.held > least && too_few()) {
    const int64_t tokens = learnt_tokens(texts[split.held - 1]);
    if (held + tokens > most / 5) break;
    held += tokens;
    --split.held;
  }
  split.learnt = 0;
  for (int64_t left = most - held; split.learnt < split.held && left > 0; ++split.learnt) {
    left -= learnt_tokens(texts[split.learnt]);
  }
  return split;
}

size_t first_unseen(std::span<const TrainingText> texts, size_t n_texts, int64_t validated) {
  SB_CHECK(n_texts <= texts.size() && !texts.empty());
  size_t i = n_texts;
  while (i > 0 && (validated -= learnt_tokens(texts[i - 1])) >= 0) --i;
  return std::min(i, texts.size() - 1);
}

}  // namespace specbound
