// Rounds of a tree of all sources that are played, not run: what comes behind a row is told.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "decode/round.h"
#include "tree_rows.h"

namespace specbound::test::tree_rows {

// Rounds of a tree whose clock stands still, so that costs stay as set, but where `clock` moves it.
class Player {
 public:
  std::function<void(RoundEvent&)> clock = [](RoundEvent&) {};

  Player(TreeSpeculator& tree, const RowCosts& costs, Text prompt)
      : tree_(tree), costs_(costs), text_(std::move(prompt)) {
    tree_.set_costs(costs);
    tree_.begin(text_);
    engine_->prefill(std::span(text_).first(text_.size() - 1));
  }
  size_t length() const { return text_.size(); }

  // `next`: the token behind a row. What the rounds took beyond a plain round a token, in these.
  template <class Next>
  double lost(int rounds, const Next& next) {
    double lost = 0;
    for (int number = 0; number < rounds; ++number) {
      Round::Limits limits;
      limits.width = 4;
      limits.number = number;
      const size_t n = text_.size();
      round_.start(limits);
      tree_.draft(round_);
      RoundEvent event = round_.event(DraftEnd::kWidth);
      event.ns = {};
      std::vector<TokenEvent> tokens;
      for (int slot = 0; slot >= 0;) {
        TokenEvent& token = tokens.emplace_back();
        token.slot = slot;
        token.token = next(round_, slot);
        slot = round_.child(slot, token.token);
      }
      event.tokens = tokens;
      clock(event);
      tree_.accept(*engine_, event);
      lost += costs_.pass(round_.rows(), 0) / costs_.pass(1, 0) - double(tokens.size());
      round_.undo();
      for (const TokenEvent& token : tokens) text_.push_back(token.token);
      engine_->prefill(std::span(text_).subspan(n - 1, tokens.size()));
    }
    return lost;
  }

 private:
  TreeSpeculator& tree_;
  RowCosts costs_;
  Text text_;
  std::unique_ptr<Backend> engine_ = model().backend(best_isa(), 1);
  Sampler sampler_{SamplingParams{.temperature = 0}};
  Round round_{*engine_, sampler_, text_};
};

}  // namespace specbound::test::tree_rows
