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

bool read_prompt(Backend& backend, std::vector<int32_t>& text, std::span<const int32_t> prompt,
                 const std::function<bool(int done, int total)>& go_on, int& prefilled) {
  const int n = static_cast<int>(prompt.size());
  backend.truncate(std::min(static_cast<int>(common_prefix(text, prompt)), n - 1));
  text = std::vector<int32_t>(prompt.begin(), prompt.end());  // `prompt` may lie in `text`

  const int start = backend.kv_len(1);
  struct Progress {
    const std::function<bool(int, int)>& go_on;
    int total;
  } progress{go_on, n - 1 - start};
  const auto report = [](void* context, int done) {
    const auto& p = *static_cast<const Progress*>(context);
    return p.go_on(done, p.total);
  };
  try {
    if (progress.total > 0) {
      backend.prefill(std::span(text).subspan(start, progress.total), report, &progress);
    }
  } catch (...) {
    backend.truncate(start);  // what a pass that was not finished left behind
    throw;
  }
  prefilled = backend.kv_len(1) - start;
  return backend.kv_len(1) == n - 1;
}

}  // namespace specbound
