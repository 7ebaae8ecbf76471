// What a head with a list of tokens would have said of a row, had it looked when the text ended
// there, and with a shorter list: a backend that was shown more of the text has met its tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend.h"

namespace specbound {

class ShortenedCheck {
 public:
  // Rows are of `text` from now on.
  void begin(std::span<const int32_t> text, int vocab_size);
  // Of the backend's last check, by a head that says tokens of the list, of the row at `pos`: the
  // first n of them and, with_text, the text's up to `pos`, whether the longer list has them or
  // not.
  void take(const Backend& backend, int n, int pos, bool with_text);
  std::span<const float> logits() const { return logits_; }
  std::span<const int32_t> ids() const { return ids_; }  // of these

 private:
  std::vector<int> first_at_;  // [token]: its first position in the text
  std::vector<float> logits_;
  std::vector<int32_t> ids_;
};

}  // namespace specbound
