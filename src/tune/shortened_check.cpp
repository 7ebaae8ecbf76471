#include "tune/shortened_check.h"

#include <limits>

namespace specbound {

void ShortenedCheck::begin(std::span<const int32_t> text, int vocab_size) {
  first_at_.assign(static_cast<size_t>(vocab_size), std::numeric_limits<int>::max());
  for (size_t i = text.size(); i-- > 0;) first_at_[text[i]] = static_cast<int>(i);
}

void ShortenedCheck::take(const Backend& backend, int n, int pos, bool with_text) {
  const std::span<const float> z = backend.exit_logits();
  const std::span<const int32_t> ids = backend.exit_ids();
  logits_.assign(z.begin(), z.begin() + n);
  ids_.assign(ids.begin(), ids.begin() + n);
  if (!with_text) return;
  for (size_t i = n; i < z.size(); ++i) {
    if (first_at_[ids[i]] > pos) continue;
    logits_.push_back(z[i]);
    ids_.push_back(ids[i]);
  }
}

}  // namespace specbound
