#include "decode/round.h"

#include <algorithm>

#include "decode/rejection.h"
#include "decode/typical_acceptance.h"
#include "engine/layer_stretches.h"
#include "error.h"

namespace specbound {

void Round::start(Limits limits) {
  SB_CHECK(!text_.empty() && limits.width >= 1 && limits.width <= kMaxRows);
  limits_ = std::move(limits);
  pos_ = static_cast<int>(text_.size()) - 1;
  // No reallocation in a round: spans of history() stay valid.
  const size_t most = text_.size() + kMaxRows + 1;
  if (text_.capacity() < most) text_.reserve(2 * most);
  first_ = 0;
  rows_.clear();
  masks_ = 0;
  shown_ = 0;
  committed_ = typical_ = false;
  passes_.clear();
  tokens_.clear();
  ns_.fill(0);
  checks_.resize(kMaxRows);
  proposals_.resize(kMaxRows);
  running_ = Phase::kDraft;
  mark_ = std::chrono::steady_clock::now();
  embed(text_.back(), -1);
}

void Round::embed(int32_t token, int parent) {
  const int slot = rows();
  if (!limits_.shared) backend_.embed(slot, token);
  if (parent < 0) {
    paths_.reset(slot);
  } else {
    paths_.follow(slot, parent);
    if (!limits_.shared && !paths_[slot].straight) backend_.follow(slot, parent);
  }
  checks_[slot].clear();
  proposals_[slot].ids.clear();
  RowEvent& row = rows_.emplace_back();
  row.token = token;
  row.parent = parent;
}

int Round::child(int slot, int32_t token) const {
  const int draft = drafted_for(rows_, slot, token);
  return draft >= 0 && rows_[draft].token == token ? draft : -1;
}

bool Round::has_child(int slot) const {
  return std::ranges::find(rows_, slot, &RowEvent::parent) != rows_.end();
}

// The time since the last call went into `phase`.
void Round::spent(Phase phase) {
  const auto now = std::chrono::steady_clock::now();
  ns_[static_cast<int>(phase)] +=
      std::chrono::duration_cast<std::chrono::nanoseconds>(now - mark_).count();
  mark_ = now;
}

bool Round::aborted() const {
  return limits_.abort && limits_.abort->load(std::memory_order_relaxed);
}

std::span<const int32_t> Round::history(int slot) const {
  const RowPath& path = paths_[slot];
  const size_t n = static_cast<size_t>(pos_) + path.depth + 1;
  const RowPath& shown = paths_[shown_];
  if (shown.depth < path.depth || shown.slots[path.depth] != slot) {
    text_.resize(n);
    for (int d = 1; d <= path.depth; ++d) {
      text_[static_cast<size_t>(pos_) + d] = rows_[path.slots[d]].token;
    }
    shown_ = slot;
  }
  return std::span(text_).first(n);
}

int Round::rows_run() const {
  return limits_.shared ? 0 : backend_.kv_len(1) - pos_;
}

bool Round::run(int from, int to) {
  SB_CHECK(!limits_.shared);
  for (int l = from; l <= to;) {
    if (aborted()) return false;
    // kv_len never grows with the layer: a stretch of equal lengths has the same rows to run.
    const int begin = backend_.kv_len(l);
    int end = l;
    while (end < to && backend_.kv_len(end + 1) == begin) ++end;
    const int slot = begin - pos_, recorded = rows() - slot, n = recorded + masks_;
    if (n > 0) backend_.run_layers(slot, n, begin, l, end);
    if (recorded > 0) passes_.push_back({l, end, slot, recorded, running_});
    l = end + 1;
  }
  spent(running_);
  return true;
}

bool Round::run_newest_without(std::span<const int> skipped) {
  SB_CHECK(!limits_.shared);
  const int slot = newest();
  const auto run = [&](int from, int to, bool left_out) {
    if (aborted()) return false;
    if (left_out) {
      backend_.skip_layers(slot, 1, pos_ + slot, from, to);
    } else {
      backend_.run_layers(slot, 1, pos_ + slot, from, to);
      passes_.push_back({from, to, slot, 1, running_});
    }
    return true;
  };
  if (!each_stretch(backend_.config().n_layers, skipped, run)) return false;
  spent(running_);
  return true;
}

void Round::rewind() {
  backend_.truncate(pos_);
  for (int slot = 0; slot < rows(); ++slot) {
    backend_.embed(slot, rows_[slot].token);
    if (!paths_[slot].straight) backend_.follow(slot, rows_[slot].parent);
  }
  spent(running_);
}

void Round::checked(int layer, float confidence) {
  checks_[newest()].push_back({layer, confidence});
  spent(Phase::kCheck);
}

bool Round::would_end(int slot, int32_t token) {
  const std::span<const int32_t> before = history(slot);
  if (!sampler_.may_follow(before, token)) return true;
  if (!limits_.ends) return false;
  text_.resize(before.size());
  shown_ = slot;
  text_.push_back(token);
  const bool ends = limits_.ends(text_);
  text_.pop_back();
  return ends;
}

void Round::append_to(int parent, int32_t token, int exit_layer) {
  SB_CHECK(!full() && 0 <= parent && parent < rows() && child(parent, token) < 0);
  SB_CHECK(masks_ == 0);
  embed(token, parent);
  rows_.back().drafted_at = exit_layer;
  spent(Phase::kCheck);
}

int Round::append_mask(int parent, const MaskTokens& masks, int i) {
  const int slot = rows() + masks_;
  SB_CHECK(!limits_.shared);
  SB_CHECK(!full() && 0 <= parent && parent < slot && 0 <= i && i < masks.count);
  if (masks.rows) {
    const auto dim = static_cast<size_t>(backend_.config().dim);
    backend_.set_row(slot, {masks.rows + static_cast<size_t>(i) * dim, dim});
  } else {
    backend_.embed(slot, masks.token);
  }
  paths_.follow(slot, parent);
  if (!paths_[slot].straight) backend_.follow(slot, parent);
  ++masks_;
  return slot;
}

void Round::drop_behind(int slot) {
  SB_CHECK(masks_ == 0);
  SB_CHECK(0 <= slot && slot < rows() && rows_run() <= slot + 1);
  rows_.resize(static_cast<size_t>(slot) + 1);
  if (shown_ <= slot) return;
  shown_ = 0;
  text_.resize(static_cast<size_t>(pos_) + 1);
}

bool Round::verify() {
  if (limits_.width > 1) spent(Phase::kCheck);  // a search that ended without a draft
  running_ = Phase::kVerify;
  if (!run(1, backend_.config().n_layers) || aborted()) return false;
  const bool proposed = std::any_of(proposals_.begin(), proposals_.begin() + newest(),
                                    [](const TokenDistribution& q) { return !q.ids.empty(); });
  const bool chain = paths_[newest()].straight;
  row_sampler_.start(
      rows(), limits_.reply, history(newest()),
      {.chain = chain, .logits = proposed || typical_ || (!chain && limits_.logits)});
  if (typical_) {
    const auto target_after = [this](int slot) -> const TokenDistribution& {
      row_sampler_.distribution(slot, history(slot), target_);
      return target_;
    };
    judge_typical(rows_, target_after, stays_);
  }
  spent(Phase::kLogits);
  return !aborted();
}

void Round::enter(int slot) {
  SB_CHECK(limits_.shared);
  spent(Phase::kCheck);
  first_ = slot;
  for (int row = 0; row < rows(); ++row) backend_.embed(slot + row, rows_[row].token);
}

void Round::take(const GivenRows& given) {
  passes_.push_back({1, backend_.config().n_layers, 0, rows(), Phase::kVerify});
  spent(Phase::kVerify);
  if (given.draws.empty()) {
    row_sampler_.start(given.logits);
  } else {
    row_sampler_.start(given.draws, first_);
  }
}

int32_t Round::draw(std::span<const float> z) {
  const std::span<const int32_t> before = history(newest());
  return sampler_.sample(z, before, sampler_.place(limits_.reply, before));
}

std::vector<int32_t> Round::propose(std::span<const float> z, int n) {
  const std::span<const int32_t> before = history(newest());
  TokenDistribution& q = proposals_[newest()];
  sampler_.distribution(z, before, q);
  return draw_proposals(q, sampler_.place(limits_.reply, before), limits_.number, n);
}

RowSampler::Check Round::check(int head, float temperature, const WantedDraw& wanted) {
  const int slot = newest();
  return row_sampler_.check(head, {slot, limits_.reply, history(slot)}, temperature, wanted);
}

int32_t Round::sample(int slot) {
  mark_ = std::chrono::steady_clock::now();  // what the loop did with the token before is not ours
  const int32_t token = target(slot);
  spent(Phase::kSample);
  return token;
}

// By the rule that the drafts after row `slot` were made for: rejection, typical acceptance, or the
// coupled draw, which is right for any draft and for none.
int32_t Round::target(int slot) {
  if (typical_ && stays_[slot] >= 0) return rows_[stays_[slot]].token;
  std::vector<int32_t> drafts;
  if (!proposals_[slot].ids.empty()) {
    for (const RowEvent& row : rows_) {
      if (row.parent == slot) drafts.push_back(row.token);
    }
  }
  if (drafts.empty()) return row_sampler_.token(slot, limits_.reply, history(slot));
  row_sampler_.distribution(slot, history(slot), target_);
  return judge_proposals(target_, proposals_[slot], drafts,
                         sampler_.place(limits_.reply, history(slot)));
}

const TokenEvent& Round::emitted(int slot, int32_t token, bool ends_reply) {
  TokenEvent event{};
  event.round = limits_.number;
  event.rows = rows();
  event.slot = slot;
  event.pos = pos_ + depth(slot) + 1;
  event.token = token;
  if (const int draft = drafted_for(rows_, slot, token); draft >= 0) {
    event.draft = rows_[draft].token;
    event.exit_layer = rows_[draft].drafted_at;
  }
  event.ends_reply = ends_reply;
  event.checks = checks_[slot];
  return tokens_.emplace_back(event);
}

void Round::commit(int slot, int32_t token) {
  const std::span<const int32_t> before = history(slot);
  text_.resize(before.size());
  text_.push_back(token);
  shown_ = 0;
  committed_ = true;
  if (paths_[slot].straight) {
    backend_.truncate(pos_ + slot + 1);
  } else {
    backend_.keep_path(pos_, paths_[slot]);
  }
}

void Round::rest() {
  limits_ = {};
  proposals_.clear();
  target_ = {};
  row_sampler_.rest();
}

void Round::undo() {
  text_.resize(static_cast<size_t>(pos_) + 1);
  shown_ = 0;
  backend_.truncate(pos_);
}

void Round::recover() {
  if (committed_) return;  // the K/V of a path move once
  if (tokens_.empty()) {
    undo();
  } else {
    commit(tokens_.back().slot, tokens_.back().token);
  }
}

RoundEvent Round::event(DraftEnd draft_end) {
  for (int i = 0; i < rows(); ++i) {
    RowEvent& row = rows_[i];
    row.checks = checks_[i];
    row.exit_layer = kNoDraft;
    if (row.parent < 0) continue;
    RowEvent& from = rows_[row.parent];  // a slot before it
    from.exit_layer = std::max(from.exit_layer, row.drafted_at);
  }
  return {limits_.number, pos_, draft_end, rows_, tokens_, passes_, ns_};
}

}  // namespace specbound
