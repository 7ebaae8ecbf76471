// Rounds of one model replayed on another, which cannot draft: what speculation would give if it
// drafted as well. Checks and layers are real and cost what they cost; where a row leaves and
// whether its draft is right come from the record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "decode/exit_head.h"
#include "decode/forced_head.h"
#include "trace/recorded_rounds.h"

namespace specbound {

// Rounds in turn, again and again, each begun at its first row's first check. `rounds` (at least
// one) and `text` (prompt and reply as the model writes them plainly) must outlive it.
ForcedScript recorded_script(std::span<const RecordedRound> rounds, std::span<const int32_t> text,
                             int vocab_size);

// Checks as a trained head does, and hears from the script what came of it.
class ReplayedHead final : public ExitHead {
 public:
  // `heads` must outlive it; the backend must have been given them.
  ReplayedHead(const ExitHeads& heads, HeadKind kind, ForcedScript script)
      : real_(heads, kind), forced_(std::move(script)) {}

  const char* name() const override { return "replayed"; }
  float confidence(Round& round, int layer, float temperature) override {
    real_.confidence(round, layer, temperature);
    return forced_.confidence(round, layer, temperature);
  }
  int32_t token(Round& round) override { return forced_.token(round); }
  void begin() override { real_.begin(); }
  void settled(Backend& backend, int slot) override { real_.settled(backend, slot); }
  bool ready() const override { return real_.ready(); }

 private:
  TrainedHead real_;
  ForcedHead forced_;
};

}  // namespace specbound
