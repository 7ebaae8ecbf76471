#include "decode/row_sampler.h"

#include <algorithm>

#include "error.h"

namespace specbound {

// Where draws may be left to; nullptr: nowhere.
DeviceSampling* RowSampler::device() const {
  return sampler_.changes_logits() ? nullptr : backend_.device_sampling();
}

void RowSampler::start(int n, uint32_t reply, std::span<const int32_t> text, const Rows& rows) {
  DeviceSampling* device = rows.logits ? nullptr : this->device();
  if (device && !rows.chain && !sampler_.rule_without_text(reply)) device = nullptr;
  drawn_ = device != nullptr;
  first_ = 0;
  given_ = {};
  const size_t needed = static_cast<size_t>(drawn_ ? 1 : n) * backend_.config().vocab_size;
  if (logits_.size() < needed) logits_.resize(needed);
  if (device) {
    device->draw(0, n, sampler_.rule(reply), text, draws_.data());
  } else {
    backend_.logits(0, n, logits_.data());
  }
}

void RowSampler::start(std::span<const float> logits) {
  drawn_ = false;
  given_ = logits;
}

void RowSampler::start(std::span<const RowDraw> draws, int first) {
  drawn_ = true;
  first_ = first;
  given_ = {};
  std::ranges::copy(draws, draws_.begin());
  const size_t vocab_size = backend_.config().vocab_size;
  if (logits_.size() < vocab_size) logits_.resize(vocab_size);
}

int32_t RowSampler::token(int slot, uint32_t reply, std::span<const int32_t> history) {
  const DrawPlace at = sampler_.place(reply, history);
  if (drawn_) {
    if (const auto token = sampler_.take(draws_[slot], at)) return *token;
  }
  return sampler_.sample(logits(slot), history, at);
}

void RowSampler::distribution(int slot, std::span<const int32_t> history, TokenDistribution& out) {
  SB_CHECK(!drawn_);
  sampler_.distribution(logits(slot), history, out);
}

std::span<const float> RowSampler::logits(int slot) {
  const size_t vocab_size = backend_.config().vocab_size;
  if (!given_.empty()) return given_.subspan(slot * vocab_size, vocab_size);
  if (!drawn_) return std::span(logits_).subspan(slot * vocab_size, vocab_size);
  backend_.logits(first_ + slot, 1, logits_.data());
  return std::span(logits_).first(vocab_size);
}

RowSampler::Check RowSampler::check(int head, const Row& row, float temperature,
                                    const WantedDraw& wanted) {
  Check check(*this, row);
  const SamplingParams& params = sampler_.params();
  // The draw of a greedy sampler is the peak that the check has found.
  const bool is_peak = !wanted.margin && params.temperature == 0 && params.repeat_penalty == 1 &&
                       !sampler_.changes_logits();
  DeviceSampling* device = is_peak ? nullptr : this->device();
  if (device) {
    check.peak = device->exit_draw(head, row.slot, temperature, wanted.least,
                                   sampler_.rule(row.reply), row.history, check.drawn_);
    return check;
  }
  check.peak = backend_.exit_check(head, row.slot, temperature);
  if (is_peak) check.drawn_ = RowDraw{.token = check.peak.token};
  return check;
}

int32_t RowSampler::Check::token(double* margin) const {
  const DrawPlace at = rows_.sampler_.place(row_.reply, row_.history);
  if (drawn_) {
    if (const auto token = rows_.sampler_.take(*drawn_, at, margin)) return *token;
  }
  return rows_.sampler_.sample(rows_.backend_.exit_logits(), row_.history, at,
                               rows_.backend_.exit_ids(), margin);
}

}  // namespace specbound
