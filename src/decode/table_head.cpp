#include "decode/table_head.h"

#include "error.h"

namespace specbound {

namespace {

int32_t draw(Round& round, const TableGuess& guess) {
  // Asked all the same by a threshold of 0: anything will do.
  if (guess.size == 0) return round.history(round.newest()).back();
  const size_t n = static_cast<size_t>(guess.size);
  return round.draw(std::span(guess.log_p).first(n), std::span(guess.ids).first(n));
}

}  // namespace

std::optional<int32_t> TableHead::check(Round& round, int, float temperature,
                                        const ShouldExit& should_exit) {
  const TableGuess guess = table_.lookup(round.history(round.newest()));
  if (!should_exit(guess.confidence(temperature), {})) return std::nullopt;
  return draw(round, guess);
}

TableOrChainedHead::TableOrChainedHead(const DraftTable& table, const ExitHeads& heads,
                                       float table_tau, ConfidenceRule rule)
    : table_(table),
      chained_(heads, HeadKind::kChained, rule),
      head_(heads.find(HeadKind::kChained, 0)),
      table_tau_(table_tau) {
  SB_CHECK(head_ >= 0);
}

std::optional<int32_t> TableOrChainedHead::check(Round& round, int layer, float temperature,
                                                 const ShouldExit& should_exit) {
  SB_CHECK(layer == 0);  // behind it rows that wait would have to be run first
  const int newest = round.newest();
  if (newest == 0) states_ = 0;
  const TableGuess guess = table_.lookup(round.history(newest));
  const float p = guess.confidence(temperature);
  if ((p > 0 && p >= table_tau_) || !chained_.ready()) {
    if (!should_exit(p, table_tau_)) return std::nullopt;
    return draw(round, guess);
  }
  looks_ += newest + 1 - states_;
  for (; states_ < newest; ++states_) round.backend().exit_check(head_, states_, temperature);
  ++states_;
  return chained_.check(round, layer, temperature, should_exit);
}

std::unique_ptr<ExitHead> make_exit_head(const ExitHeads& heads, HeadKind kind, float table_tau,
                                         ConfidenceRule rule) {
  if (kind == HeadKind::kTable) return std::make_unique<TableHead>(heads.table());
  if (kind == HeadKind::kHybrid) {
    return std::make_unique<TableOrChainedHead>(heads.table(), heads, table_tau, rule);
  }
  return std::make_unique<TrainedHead>(heads, kind, rule);
}

}  // namespace specbound
