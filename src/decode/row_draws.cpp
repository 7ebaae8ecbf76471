#include "decode/row_draws.h"

#include <optional>

#include "error.h"

namespace specbound {

DrawPlace RowDraws::place(uint32_t reply, std::span<const int32_t> history) const {
  return {sampler_.params().seed, reply, static_cast<uint32_t>(history.size())};
}

void RowDraws::look(int n, uint32_t reply, std::span<const int32_t> text, bool laws) {
  drawn_ = backend_.draws() && !laws;
  const size_t needed = static_cast<size_t>(drawn_ ? 1 : n) * backend_.config().vocab_size;
  if (logits_.size() < needed) logits_.resize(needed);
  if (drawn_) {
    backend_.draw(0, n, sampler_.rule(reply), text, draws_.data());
  } else {
    backend_.logits(0, n, logits_.data());
  }
}

int32_t RowDraws::token(int slot, uint32_t reply, std::span<const int32_t> history) {
  const DrawPlace at = place(reply, history);
  if (drawn_) {
    if (const auto token = sampler_.take(draws_[slot], at)) return *token;
  }
  return sampler_.sample(logits_of(slot), history, at);
}

void RowDraws::law(int slot, std::span<const int32_t> history, TokenLaw& law) {
  SB_CHECK(!drawn_);
  sampler_.law(logits_of(slot), history, law);
}

// Of a row that was looked at.
std::span<const float> RowDraws::logits_of(int slot) {
  const size_t vocab_size = backend_.config().vocab_size;
  if (!drawn_) return std::span(logits_).subspan(slot * vocab_size, vocab_size);
  backend_.logits(slot, 1, logits_.data());
  return std::span(logits_).first(vocab_size);
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
