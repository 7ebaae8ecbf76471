#include "decode/row_draws.h"

#include <optional>

namespace specbound {

DrawPlace RowDraws::place(uint32_t reply, std::span<const int32_t> history) const {
  return {sampler_.params().seed, reply, static_cast<uint32_t>(history.size())};
}

void RowDraws::look(int n, uint32_t reply, std::span<const int32_t> text) {
  const bool draws = backend_.draws();
  const size_t needed = static_cast<size_t>(draws ? 1 : n) * backend_.config().vocab_size;
  if (logits_.size() < needed) logits_.resize(needed);
  if (draws) {
    backend_.draw(0, n, sampler_.rule(reply), text, draws_.data());
  } else {
    backend_.logits(0, n, logits_.data());
  }
}

int32_t RowDraws::token(int slot, uint32_t reply, std::span<const int32_t> history) {
  const DrawPlace at = place(reply, history);
  const size_t vocab_size = backend_.config().vocab_size;
  size_t first = slot * vocab_size;
  if (backend_.draws()) {
    if (const auto token = sampler_.take(draws_[slot], at)) return *token;
    first = 0;
    backend_.logits(slot, 1, logits_.data());
  }
  return sampler_.sample(std::span(logits_).subspan(first, vocab_size), history, at);
}

ExitPeak RowDraws::check(int head, int slot, float temperature, uint32_t reply,
                         std::span<const int32_t> history) {
  if (!backend_.draws()) return backend_.exit_check(head, slot, temperature);
  return backend_.exit_draw(head, slot, temperature, sampler_.rule(reply), history, exit_draw_);
}

int32_t RowDraws::exit_token(uint32_t reply, std::span<const int32_t> history,
                             std::span<const int32_t> ids, double* margin) {
  const DrawPlace at = place(reply, history);
  if (backend_.draws()) {
    if (const auto token = sampler_.take(exit_draw_, at, margin)) return *token;
  }
  const std::span<const float> z = backend_.exit_logits();
  if (!ids.empty()) ids = ids.first(z.size());
  return sampler_.sample(z, history, at, ids, margin);
}

}  // namespace specbound
