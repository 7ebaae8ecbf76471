#include "decode/read_prompt.h"

#include <algorithm>

#include "decode/common_prefix.h"
#include "error.h"

namespace specbound {

void check_prompt(const Backend& backend, std::span<const int32_t> prompt) {
  const int n = static_cast<int>(prompt.size());
  if (n == 0) throw Error(ErrorCode::kLimit, "the prompt is empty: expected at least one token");
  if (n > backend.n_ctx()) {
    throw Error(ErrorCode::kLimit,
                format("the prompt has %d tokens, the context holds %d: shorten it or raise n_ctx",
                       n, backend.n_ctx()));
  }
  const int vocab_size = backend.config().vocab_size;
  for (const int32_t token : prompt) {
    if (token < 0 || token >= vocab_size) {
      throw Error(ErrorCode::kUsage,
                  format("token %d in the prompt: expected 0 to %d", token, vocab_size - 1));
    }
  }
}

int begin_prompt(Backend& backend, std::vector<int32_t>& text, std::span<const int32_t> prompt) {
  const int n = static_cast<int>(prompt.size());
  backend.truncate(std::min(static_cast<int>(common_prefix(text, prompt)), n - 1));
  text = std::vector<int32_t>(prompt.begin(), prompt.end());  // `prompt` may lie in `text`
  return n - 1 - backend.kv_len(1);
}

int read_chunk(Backend& backend, std::span<const int32_t> text) {
  const int start = backend.kv_len(1);
  const int n = std::min(kPrefillChunk, static_cast<int>(text.size()) - 1 - start);
  SB_CHECK(n > 0);
  try {
    backend.prefill(text.subspan(static_cast<size_t>(start), static_cast<size_t>(n)));
  } catch (...) {
    backend.truncate(start);  // what a pass that was not finished left behind
    throw;
  }
  return n;
}

}  // namespace specbound
