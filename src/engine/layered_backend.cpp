#include "engine/layered_backend.h"

#include <algorithm>

#include "error.h"

namespace specbound {

void LayeredBackend::prefill(std::span<const int32_t> tokens, bool (*progress)(void*, int),
                             void* context) {
  const int total = static_cast<int>(tokens.size());
  SB_CHECK(lengths().everywhere() + total <= n_ctx_);
  prefilled_rows_ = 0;
  for (int done = 0; done < total;) {
    const int n = std::min(kPrefillChunk, total - done);
    run_prefill(tokens.subspan(done, n), true);
    done += n;
    if (progress && !progress(context, done)) return;
  }
}

void LayeredBackend::prefill_rows(std::span<const int32_t> tokens) {
  const int n = static_cast<int>(tokens.size());
  SB_CHECK(n >= 1 && n <= kPrefillChunk && lengths().everywhere() + n <= n_ctx_);
  prefilled_rows_ = 0;
  run_prefill(tokens, false);
  prefilled_rows_ = n;
}

void LayeredBackend::prefill_logits(int first, int n, float* out) {
  SB_CHECK(first >= 0 && n >= 1 && n <= kMaxRows && first + n <= prefilled_rows_);
  logits_of_prefilled(first, n, out);
}

}  // namespace specbound
