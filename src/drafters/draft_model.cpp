#include "drafters/draft_model.h"

#include <algorithm>

#include "decode/common_prefix.h"
#include "error.h"

namespace specbound {

DraftModel::DraftModel(Backend& backend, int w_max, float tau, Acceptance acceptance,
                       int n_siblings)
    : backend_(backend),
      w_max_(w_max),
      tau_(tau),
      acceptance_(acceptance),
      n_siblings_(n_siblings),
      logits_(backend.config().vocab_size) {
  SB_CHECK(w_max >= 1 && w_max <= kMaxRows && n_siblings >= 1 && n_siblings <= kMaxProposals);
}

// Siblings stand behind the path, so that the row that is asked about is the newest.
DraftEnd DraftModel::draft(Round& round) {
  siblings_.clear();
  const DraftEnd end = draft_path(round);
  if (end == DraftEnd::kAborted) return end;
  for (const Sibling& sibling : siblings_) round.append_to(sibling.parent, sibling.token, 0);
  return end;
}

DraftEnd DraftModel::draft_path(Round& round) {
  SB_CHECK(backend_.config().vocab_size == round.backend().config().vocab_size);
  const auto room = [&] { return round.room() - static_cast<int>(siblings_.size()); };
  while (room() > 0) {
    if (!ready(round)) {
      return round.rows() == 1 ? DraftEnd::kPlain : DraftEnd::kWidth;
    }
    float confidence = 0;
    if (!look(round, confidence)) return DraftEnd::kAborted;
    if (confidence < tau_) return DraftEnd::kDifficult;
    const bool proposes =
        acceptance_ == Acceptance::kRejection && round.sampler().params().temperature > 0;
    int32_t token = 0;
    if (proposes) {
      const std::vector<int32_t> drafts = round.propose(logits_, std::min(n_siblings_, room()));
      token = drafts.front();
      for (size_t i = 1; i < drafts.size(); ++i) siblings_.push_back({round.newest(), drafts[i]});
    } else {
      token = round.draw(logits_);
    }
    const bool ends = round.would_end(token);
    if (ends && !proposes) return DraftEnd::kReplyEnd;
    round.append(token, 0);
    if (ends) return DraftEnd::kReplyEnd;
  }
  return DraftEnd::kWidth;
}

// Its own context may be shorter.
bool DraftModel::ready(const Round& round) const {
  return round.pos() + round.rows() <= backend_.n_ctx();
}

std::optional<Guesser::Guess> DraftModel::guess(Round& round, int) {
  Guess guess;
  if (!look(round, guess.confidence)) return std::nullopt;
  guess.token = round.draw(logits_);
  guess.add_others(logits_, {}, round.sampler().params().temperature, round.place(round.newest()));
  return guess;
}

bool DraftModel::look(Round& round, float& confidence) {
  if (!read(round)) return false;
  round.ran_beside();
  confidence = backend_.confidence(logits_, 1);
  round.checked(0, confidence);
  return true;
}

// Everything up to the newest row, of which it leaves the logits. False when aborted.
bool DraftModel::read(const Round& round) {
  const std::span<const int32_t> text = round.history(round.newest());
  // The last one is read again, for its logits.
  text_.resize(std::min<size_t>(common_prefix(text_, text), text.size() - 1));
  backend_.truncate(static_cast<int>(text_.size()));  // rejected drafts, or what an exception left
  if (text.size() - text_.size() > kMaxRows) {
    const auto go_on = [](void* context, int) {
      return !static_cast<const Round*>(context)->aborted();
    };
    backend_.prefill(text.subspan(text_.size(), text.size() - text_.size() - 1), go_on,
                     const_cast<Round*>(&round));
    text_.assign(text.begin(), text.begin() + backend_.kv_len(1));
  }
  if (round.aborted()) return false;
  const int pos = static_cast<int>(text_.size());
  const int n = static_cast<int>(text.size()) - pos;
  for (int slot = 0; slot < n; ++slot) backend_.embed(slot, text[pos + slot]);
  backend_.run_layers(0, n, pos, 1, backend_.config().n_layers);
  backend_.logits(n - 1, 1, logits_.data());
  text_.assign(text.begin(), text.end());
  return true;
}

}  // namespace specbound
