// From rows to the tokens after them, wherever the sampler's rule is followed: in the backend where
// it draws, so that no logits come over but where the head of a row does not decide; by the sampler
// on their logits elsewhere. The same tokens either way.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "decode/sampler.h"
#include "engine/backend.h"

namespace specbound {

class RowDraws {
 public:
  RowDraws(Backend& backend, Sampler& sampler) : backend_(backend), sampler_(sampler) {}

  // Where in the noise the token after `history` is drawn, in reply `reply`.
  DrawPlace place(uint32_t reply, std::span<const int32_t> history) const;

  // Rows [0, n) of reply `reply` have come through all layers; `text` ends with the last of them.
  // With `laws` the law of any of them may be asked for too.
  void look(int n, uint32_t reply, std::span<const int32_t> text, bool laws = false);
  // The token after row `slot` of them; `history` ends with that row.
  int32_t token(int slot, uint32_t reply, std::span<const int32_t> history);

  // The law of that token, for a temperature above 0, after a look for laws.
  void law(int slot, std::span<const int32_t> history, TokenLaw& law);

  // Exit head `head` looks at row `slot`, with which `history` ends.
  ExitPeak check(int head, int slot, float temperature, uint32_t reply,
                 std::span<const int32_t> history);
  // The token after that row by the head's logits. `ids`: whose they are, and maybe more; empty: 0,
  // 1, 2, ... `margin` as for Sampler::sample.
  int32_t exit_token(uint32_t reply, std::span<const int32_t> history, std::span<const int32_t> ids,
                     double* margin = nullptr);

 private:
  std::span<const float> logits_of(int slot);

  Backend& backend_;
  Sampler& sampler_;
  bool drawn_ = false;                   // the rows that were looked at, by the backend
  std::array<RowDraw, kMaxRows> draws_;  // [slot], of a backend that draws
  RowDraw exit_draw_;
  std::vector<float> logits_;  // (rows, vocab_size); where the backend drew: (1, vocab_size)
};

}  // namespace specbound
