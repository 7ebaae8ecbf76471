// A source of drafts that costs time, and can be asked about one row at a time: exit heads, a draft
// model. Others than its own rule may then decide when it is asked. docs/architecture.md 3.4.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "decode/speculator.h"
#include "numerics/noise.h"

namespace specbound {

class Guesser : public Speculator {
 public:
  // A row can be asked about this often, deeper each time.
  virtual int stages() const = 0;
  // What stage `stage` may take of a plain round, as long as that was not measured.
  virtual double assumed_cost(int stage) const = 0;
  // Whether it can guess what follows the newest row.
  virtual bool ready(const Round& round) const = 0;
  struct Guess {
    int32_t token = 0;
    float confidence = 0;  // NaN counts as none
    int layer = 0;         // that the row has come to; 0: none
    // What it may be instead, likeliest first.
    struct Other {
      int32_t token = 0;
      float share = 0;  // as a confidence
    };
    static constexpr int kMostOthers = 7;
    std::array<Other, kMostOthers> other = {};
    int others = 0;

    // From the logits z that `token` was drawn by, of the tokens `ids` (empty: place is token): the
    // likeliest few, which share what the confidence leaves as they would be drawn at `place`.
    void add_others(std::span<const float> z, std::span<const int32_t> ids, float temperature,
                    const DrawPlace& place);
  };
  // Stages of a row are asked in order, 0 the first. Empty: aborted.
  virtual std::optional<Guess> guess(Round& round, int stage) = 0;
};

}  // namespace specbound
