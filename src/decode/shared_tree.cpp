#include "decode/shared_tree.h"

#include <algorithm>

namespace specbound {

class SharedTree::Drafts final : public SharedDrafter::Text {
 public:
  Drafts(const SharedTree& of, std::span<const int32_t> text)
      : candidates(of.belief_, of.memory_, of.store_) {
    candidates.draft_forced(of.drafts_forced_);
    candidates.begin(text);
  }
  // What it has seen of the reply is for others to look up.
  ~Drafts() override {
    try {
      candidates.forget();
    } catch (...) {
      // Without memory for it they do without.
    }
  }

  static Drafts* of(const Reply& reply) { return static_cast<Drafts*>(reply.text); }

  Candidates candidates;
  int kept = 0;  // the last slot that is worth its cost

  void look_behind(Round& round, double path) {
    candidates.look_up(round, round.newest());
    candidates.wait(round.newest(), path);
  }
};

std::unique_ptr<SharedDrafter::Text> SharedTree::begin(std::span<const int32_t> text) {
  budget_.begin_reply();
  return std::make_unique<Drafts>(*this, text);
}

void SharedTree::draft(std::span<const Reply> replies, int room) {
  int64_t positions = 0;
  for (const Reply& reply : replies) {
    positions += reply.round->pos();
    Drafts* const drafts = Drafts::of(reply);
    if (!drafts) continue;
    drafts->candidates.start();
    drafts->kept = 0;
  }
  plain_ = rows_ = static_cast<int>(replies.size());
  tokens_ = static_cast<int>(std::ranges::count(replies, nullptr, &Reply::text));
  pos_ = static_cast<int>(positions / plain_);
  budget_.start(plain_, rows_, room, pos_);
  if (room <= 0 || !budget_.could_pay()) return;
  const auto takes_rows = [&](const Reply& reply) {
    return reply.text && !reply.round->full() && reply.round->rows() < w_max_;
  };
  for (const Reply& reply : replies) {
    if (takes_rows(reply)) Drafts::of(reply)->look_behind(*reply.round, 1);
  }
  for (; room > 0; --room) {
    const Reply* likeliest = nullptr;
    double right = 0;
    for (const Reply& reply : replies) {
      if (!takes_rows(reply)) continue;
      const Candidate* const best = Drafts::of(reply)->candidates.best(*reply.round);
      if (!best || best->right <= right) continue;
      likeliest = &reply;
      right = best->right;
    }
    if (!likeliest || !budget_.take(right)) break;
    Round& round = *likeliest->round;
    const Candidate row = Drafts::of(*likeliest)->candidates.take();
    round.append_to(row.parent, row.token, row.drafted_at);
    Drafts::of(*likeliest)->look_behind(round, right);
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

void SharedTree::accept(Text& text, const RoundEvent& round) {
  static_cast<Drafts&>(text).candidates.learn(round);
  tokens_ += static_cast<int>(round.tokens.size());
  belief_.count_round();
}

void SharedTree::end_pass() {
  budget_.gave(tokens_, plain_, rows_, pos_);
}

}  // namespace specbound
