#include "decode/table_head.h"

#include "error.h"

namespace specbound {

float TableHead::confidence(Round& round, int, float temperature) {
  guess_ = table_.lookup(round.history(round.newest()));
  return guess_.confidence(temperature);
}

int32_t TableHead::token(Round& round) {
  // Asked all the same by a threshold of 0: anything will do.
  if (guess_.size == 0) return round.history(round.newest()).back();
  const size_t n = static_cast<size_t>(guess_.size);
  return round.draw(std::span(guess_.log_p).first(n), std::span(guess_.ids).first(n));
}

HybridHead::HybridHead(const DraftTable& table, const ExitHeads& heads, float table_tau,
                       ConfidenceRule rule)
    : table_(table),
      chained_(heads, HeadKind::kChained, rule),
      head_(heads.find(HeadKind::kChained, 0)),
      table_tau_(table_tau) {
  SB_CHECK(head_ >= 0);
}

float HybridHead::confidence(Round& round, int layer, float temperature) {
  SB_CHECK(layer == 0);  // behind it rows that wait would have to be run first
  const int newest = round.newest();
  if (newest == 0) states_ = 0;
  const float p = table_.confidence(round, layer, temperature);
  by_table_ = (p > 0 && p >= table_tau_) || !chained_.ready();
  if (by_table_) return p;
  looks_ += newest + 1 - states_;
  for (; states_ < newest; ++states_) round.backend().exit_check(head_, states_, temperature);
  ++states_;
  return chained_.confidence(round, layer, temperature);
}

int32_t HybridHead::token(Round& round) {
  return by_table_ ? table_.token(round) : chained_.token(round);
}

std::unique_ptr<ExitHead> make_exit_head(const ExitHeads& heads, HeadKind kind, float table_tau,
                                         ConfidenceRule rule) {
  if (kind == HeadKind::kTable) return std::make_unique<TableHead>(heads.table());
  if (kind == HeadKind::kHybrid) {
    return std::make_unique<HybridHead>(heads.table(), heads, table_tau, rule);
  }
  return std::make_unique<TrainedHead>(heads, kind, rule);
}

}  // namespace specbound
