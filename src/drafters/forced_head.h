// A head that looks at nothing: exits, confidences and tokens come from a script, right and wrong
// on purpose. It takes the drafting loop through every path that a real head might, whatever the
// model; the text must not change. For tests and `specbound verify --speculator forced`; and to
// replay the rounds of one model on another, which cannot draft.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "drafters/exit_head.h"
#include "trace/recorded_rounds.h"

namespace specbound {

// How one row is made to behave.
struct ForcedExit {
  int layer = kNoDraft;  // where it is confident
  int32_t token = 0;     // what it drafts there
  float confidence = 1;  // at `layer`
  float elsewhere = 0;   // at every other check
};

// Asked once for each row, at its first check.
using ForcedScript = std::function<ForcedExit(const Round&)>;

class ForcedHead final : public ExitHead {
 public:
  explicit ForcedHead(ForcedScript script) : script_(std::move(script)) {}

  const char* name() const override { return "forced"; }
  std::optional<int32_t> check(Round& round, int layer, float temperature,
                               const ShouldExit& should_exit) override;

 private:
  ForcedScript script_;
  ForcedExit exit_;
  int last_pos_ = -1, last_layer_ = -1;  // of the last check
};

// How often, in 0..1, rows of a seeded script leave at all, and with the right token.
struct ForcedRates {
  double exit = 0.9;
  double right = 0.8;
};

// A script that knows the plain text (prompt and reply; `text` must outlive it) and draws each
// row's fate from `seed`: any of `layers` with equal chance; the text's own token or another one.
ForcedScript forced_by_chance(std::span<const int32_t> text, std::vector<int> layers,
                              int vocab_size, const ForcedRates& rates, uint64_t seed);

// Rounds in turn, again and again, each begun at its first row's first check. `rounds` (at least
// one) and `text` (prompt and reply as the model writes them plainly) must outlive it.
ForcedScript recorded_script(std::span<const RecordedRound> rounds, std::span<const int32_t> text,
                             int vocab_size);

// What speculation would give if this model drafted as well as a recorded one: checks and layers
// are real and cost what they cost; where a row leaves and whether its draft is right is in the
// script.
class ReplayedHead final : public ExitHead {
 public:
  // `heads` must outlive it; the backend must have been given them.
  ReplayedHead(const ExitHeads& heads, HeadKind kind, ForcedScript script)
      : real_(heads, kind), forced_(std::move(script)) {}

  const char* name() const override { return "replayed"; }
  std::optional<int32_t> check(Round& round, int layer, float temperature,
                               const ShouldExit& should_exit) override {
    real_.check(round, layer, temperature, [](float) { return false; });
    return forced_.check(round, layer, temperature, should_exit);
  }
  void begin() override { real_.begin(); }
  void on_commit(Backend& backend, int slot) override { real_.on_commit(backend, slot); }
  bool ready(const Round& round) const override { return real_.ready(round); }

 private:
  TrainedHead real_;
  ForcedHead forced_;
};

}  // namespace specbound
