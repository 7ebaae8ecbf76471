// A head that looks at nothing: exits, confidences and tokens come from a script, right and wrong
// on purpose. It takes the drafting loop through every path that a real head might, whatever the
// model; the text must not change. For tests and `specbound verify --speculator forced`.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "decode/exit_head.h"

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
  float confidence(Round& round, int layer, float temperature) override;
  int32_t token(Round&) override { return exit_.token; }

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

}  // namespace specbound
