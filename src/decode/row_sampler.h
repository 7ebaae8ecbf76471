// From rows in the backend to the tokens after them, by the sampler's rule: on the device where the
// backend samples there, so that no logits come over but where the head of a row does not decide;
// by the sampler on their logits elsewhere, and where it changes them by more than a device knows.
// The same tokens either way.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "decode/sampler.h"
#include "engine/backend.h"

namespace specbound {

// What is wanted of the draw behind a check: its margin too; nothing where the confidence is less.
struct WantedDraw {
  bool margin = false;
  float least = kAnyConfidence;
};

class RowSampler {
 public:
  RowSampler(Backend& backend, Sampler& sampler) : backend_(backend), sampler_(sampler) {}

  struct Rows {
    bool chain = true;    // each follows the one before it
    bool logits = false;  // or the distribution of any of them may be asked for: all come over
  };
  // Rows [0, n) of reply `reply` have come through all layers; `text` ends with the last of them.
  void start(int n, uint32_t reply, std::span<const int32_t> text, const Rows& rows);
  // Rows by their logits (rows, vocab_size), which hold until the next start.
  void start(std::span<const float> logits);
  // Rows by the draws after them, which the device made in slots `first`.. of the backend.
  void start(std::span<const RowDraw> draws, int first);
  // The token after row `slot` of them; `history` ends with that row.
  int32_t token(int slot, uint32_t reply, std::span<const int32_t> history);
  // What that token is drawn from, for a temperature above 0, after a start for logits.
  void distribution(int slot, std::span<const int32_t> history, TokenDistribution& out);

  // No row is started any more, and nothing kept for them.
  void rest() {
    drawn_ = false;
    given_ = {};
    logits_ = {};
  }

  // The row's logits, of a row that was started; until those of another are asked for.
  std::span<const float> logits(int slot);

  // What an exit head looks at: row `slot`, with which `history` ends.
  struct Row {
    int slot = 0;
    uint32_t reply = 0;
    std::span<const int32_t> history;
  };
  // An exit head's check of a row, and the token after it by the head's logits, which is drawn when
  // it is asked for: before the next check.
  class Check {
   public:
    ExitPeak peak;
    // `margin`, for a check that it was wanted of: as for Sampler::sample.
    int32_t token(double* margin = nullptr) const;

   private:
    friend class RowSampler;
    Check(RowSampler& rows, const Row& row) : rows_(rows), row_(row) {}

    RowSampler& rows_;
    Row row_;
    std::optional<RowDraw> drawn_;  // what the check has left to draw from; else logits
  };
  Check check(int head, const Row& row, float temperature, const WantedDraw& wanted = {});

 private:
  DeviceSampling* device() const;

  Backend& backend_;
  Sampler& sampler_;
  bool drawn_ = false;                   // the rows that were started, by the device
  int first_ = 0;                        // the slot of row 0, likewise
  std::span<const float> given_;         // the logits of those that were; empty: not given
  std::array<RowDraw, kMaxRows> draws_;  // [slot], likewise
  std::vector<float> logits_;  // (rows, vocab_size); where the device drew: (1, vocab_size)
};

}  // namespace specbound
