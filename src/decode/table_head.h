// Exit heads of layer 0 that look tokens up: what followed these tokens in text that the model
// wrote itself. No layer runs for a draft, and where the table is sure, no head either.
#pragma once

#include <memory>

#include "decode/exit_head.h"
#include "model/draft_table.h"

namespace specbound {

class TableHead final : public ExitHead {
 public:
  // `table` must outlive it.
  explicit TableHead(const DraftTable& table) : table_(table) {}

  const char* name() const override { return "table"; }
  std::optional<int32_t> check(Round& round, int layer, float temperature,
                               const ShouldExit& should_exit) override;

 private:
  const DraftTable& table_;
};

// The table; where it is less sure than `table_tau`, the chained head of layer 0, which leaves at
// the speculator's own tau. Rows that the table drafted leave no state behind them: the chained
// head looks at these first, when it is needed.
class TableOrChainedHead final : public ExitHead {
 public:
  // Both must outlive it; `heads` has a chained head at layer 0, and the backend was given it.
  TableOrChainedHead(const DraftTable& table, const ExitHeads& heads, float table_tau,
                     ConfidenceRule rule = ConfidenceRule::kPeak);

  const char* name() const override { return "hybrid"; }
  std::optional<int32_t> check(Round& round, int layer, float temperature,
                               const ShouldExit& should_exit) override;
  void begin() override { chained_.begin(); }
  void on_commit(Backend& backend, int slot) override { chained_.on_commit(backend, slot); }

  float table_tau() const { return table_tau_; }
  int64_t looks() const { return looks_; }  // of the chained head, ever

 private:
  const DraftTable& table_;
  TrainedHead chained_;
  int head_;  // the chained one, of the file
  float table_tau_;
  int64_t looks_ = 0;
  int states_ = 0;  // slots that it has looked at in this round
};

// The head of this kind, which the file must have. `table_tau`: of a hybrid.
std::unique_ptr<ExitHead> make_exit_head(const ExitHeads& heads, HeadKind kind, float table_tau,
                                         ConfidenceRule rule = ConfidenceRule::kPeak);

}  // namespace specbound
