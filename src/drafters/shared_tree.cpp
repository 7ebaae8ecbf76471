#include "drafters/shared_tree.h"

#include <algorithm>

namespace specbound {

class SharedTree::Drafts final : public SharedDrafter::Text {
 public:
  Drafts(SharedTree& of, std::span<const int32_t> text)
      : candidates(of.belief_, of.memory_, of.store_), caution(of.caution_of(text)), of_(of) {
    candidates.draft_forced(of.drafts_forced_);
    candidates.draft_siblings(of.drafts_siblings_);
    candidates.begin(text);
  }
  // What it has seen of the reply is for others to look up.
  ~Drafts() override {
    try {
      of_.left(candidates.text(), caution);
      candidates.forget();
    } catch (...) {
      // Without memory for it they do without.
    }
  }

  static Drafts* of(const Reply& reply) { return static_cast<Drafts*>(reply.text); }

  Candidates candidates;
  Caution caution;
  int kept = 0;  // the last slot that is worth its cost

  void look_behind(Round& round, double path) {
    candidates.look_up(round, round.newest());
    candidates.wait(round.newest(), path);
  }
  // What a candidate of this reply is worth, in tokens, by its margin.
  double value(const Candidate& candidate) const { return candidate.right / caution.margin(); }

 private:
  SharedTree& of_;
};

void SharedTree::left(std::span<const int32_t> text, const Caution& caution) {
  left_text_.assign(text.begin(), text.end());
  left_caution_ = caution;
}

Caution SharedTree::caution_of(std::span<const int32_t> text) const {
  return std::ranges::equal(text, left_text_) ? left_caution_ : Caution();
}

std::unique_ptr<SharedDrafter::Text> SharedTree::begin(std::span<const int32_t> text) {
  return std::make_unique<Drafts>(*this, text);
}

void SharedTree::draft(std::span<const Reply> replies, int room) {
  int64_t positions = 0;
  double most = 0;  // that a candidate may be worth
  for (const Reply& reply : replies) {
    positions += reply.round->pos();
    Drafts* const drafts = Drafts::of(reply);
    if (!drafts) continue;
    drafts->candidates.start();
    drafts->kept = 0;
    most = std::max(most, drafts->value({.right = 1}));
  }
  plain_ = rows_ = static_cast<int>(replies.size());
  tokens_ = static_cast<int>(std::ranges::count(replies, nullptr, &Reply::text));
  pos_ = static_cast<int>(positions / plain_);
  budget_.start(plain_, rows_, room, pos_);
  if (room <= 0 || !budget_.could_pay(most)) return;
  const auto takes_rows = [&](const Reply& reply) {
    return reply.text && !reply.round->full() && reply.round->rows() < w_max_;
  };
  for (const Reply& reply : replies) {
    if (takes_rows(reply)) Drafts::of(reply)->look_behind(*reply.round, 1);
  }
  for (; room > 0; --room) {
    const Reply* next = nullptr;
    double value = 0;
    for (const Reply& reply : replies) {
      if (!takes_rows(reply)) continue;
      const Candidate* const best = Drafts::of(reply)->candidates.best(*reply.round);
      if (!best || Drafts::of(reply)->value(*best) <= value) continue;
      next = &reply;
      value = Drafts::of(reply)->value(*best);
    }
    if (!next || !budget_.take(value)) break;
    Round& round = *next->round;
    const Candidate row = Drafts::of(*next)->candidates.take();
    round.append_to(row.parent, row.token, row.drafted_at);
    Drafts::of(*next)->look_behind(round, row.right);
    if (!budget_.at_best()) continue;
    for (const Reply& reply : replies) {
      if (reply.text) Drafts::of(reply)->kept = reply.round->newest();
    }
  }
  for (const Reply& reply : replies) {
    if (!reply.text) continue;
    reply.round->drop_behind(Drafts::of(reply)->kept);
    rows_ += reply.round->rows() - 1;
  }
}

// All replies wait for the rows that one of them has added: to that one's loss.
void SharedTree::accept(Text& text, const RoundEvent& round) {
  Drafts& drafts = static_cast<Drafts&>(text);
  drafts.candidates.learn(round);
  const int tokens = static_cast<int>(round.tokens.size());
  tokens_ += tokens;
  belief_.count_round();
  if (!budget_.measured()) return;
  double time = 1;
  if (const int own = static_cast<int>(round.rows.size()) - 1; own > 0) {
    const double added = plain_ * (budget_.time(plain_, rows_, pos_) - 1);
    time += added * own / (rows_ - plain_);
  }
  drafts.caution.gave(tokens, time);
}

void SharedTree::end_pass() {
  budget_.gave(tokens_, plain_, budget_.time(plain_, rows_, pos_));
}

}  // namespace specbound
