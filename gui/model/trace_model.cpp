#include "gui/model/trace_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "trace/speedup.h"

namespace specbound::gui {

namespace {

constexpr int kMaxLayer = 4096;  // no model has more; a file may claim anything
// Of a phase in a reply: of what a file claims, thousands of rounds would leave 64 bits.
constexpr int64_t kMaxNs = int64_t{1} << 62;

template <class... F>
struct Cases : F... {
  using F::operator()...;
};
template <class... F>
Cases(F...) -> Cases<F...>;

bool is_layer(int layer) {
  return layer >= 0 && layer <= kMaxLayer;
}

// What the decode loop would tell. A file's reader sees to it too; what is built here must not
// depend on that.
bool plausible(const RoundRecord& round) {
  if (round.rows.empty() || round.tokens.empty() || round.tokens.size() > round.rows.size()) {
    return false;
  }
  const int n = static_cast<int>(round.rows.size());
  for (int slot = 1; slot < n; ++slot) {
    const RowRecord& row = round.rows[slot];
    if (row.parent < 0 || row.parent >= slot || !is_layer(row.drafted_at)) return false;
  }
  int slot = 0;  // each token stands behind the row that the one before was accepted as
  for (const TokenRecord& token : round.tokens) {
    if (slot < 0 || token.slot != slot || token.token < 0) return false;
    const int draft = drafted_for(round.rows, slot, token.token);
    if ((token.draft >= 0) != (draft >= 0)) return false;
    if (draft >= 0 && !is_layer(token.exit_layer)) return false;
    slot = token.accepted() ? draft : -1;
  }
  return true;
}

// Rows that followed row `slot`, directly or not.
int rows_behind(const std::vector<RowRecord>& rows, int slot) {
  std::vector<bool> behind(rows.size());
  behind[static_cast<size_t>(slot)] = true;
  int n = 0;
  for (size_t i = static_cast<size_t>(slot) + 1; i < rows.size(); ++i) {
    behind[i] = behind[static_cast<size_t>(rows[i].parent)];
    n += behind[i];
  }
  return n;
}

DraftCount& at(std::vector<DraftCount>& counts, int index) {
  if (counts.size() <= static_cast<size_t>(index)) counts.resize(static_cast<size_t>(index) + 1);
  return counts[index];
}

// Of the draft that row `slot` holds.
CheckResult result_of(const RoundRecord& round, int slot) {
  const RowRecord& row = round.rows[slot];
  for (const TokenRecord& token : round.tokens) {
    if (token.slot != row.parent) continue;
    return token.token == row.token ? CheckResult::kRight : CheckResult::kWrong;
  }
  return CheckResult::kDropped;
}

void count(DraftCount& counts, CheckResult result) {
  ++(result == CheckResult::kRight   ? counts.accepted
     : result == CheckResult::kWrong ? counts.rejected
                                     : counts.dropped);
}

// Halves the number of slices.
void join_slices(std::vector<RateSlice>& slices) {
  size_t n = 0;
  for (size_t i = 0; i < slices.size(); i += 2) {
    RateSlice joined = slices[i];
    if (i + 1 < slices.size()) {
      joined.seconds += slices[i + 1].seconds;
      joined.tokens += slices[i + 1].tokens;
      joined.rounds += slices[i + 1].rounds;
      joined.end = slices[i + 1].end;
    }
    slices[n++] = joined;
  }
  slices.resize(n);
}

}  // namespace

const TraceReply& ReplyTrace::settings_at(int column) const {
  static const TraceReply kNone;
  if (settings.empty()) return kNone;
  const auto after = std::upper_bound(settings.begin(), settings.end(), column,
                                      [](int c, const SettingsFrom& s) { return c < s.column; });
  return after == settings.begin() ? settings.front().reply : std::prev(after)->reply;
}

std::optional<double> ReplyTrace::speedup() const {
  if (newest_settings().speculator == "none" || !plain_seconds) return std::nullopt;
  return told_speedup(counters, seconds, *plain_seconds, PlainRate::kEnough);
}

void TraceModel::set_model(int n_layers) {
  n_layers_ = std::clamp(n_layers, 0, kMaxLayer);
  plain_ = PlainRate();
  plain_seconds_.reset();
  // Another vocabulary, perhaps: texts of tokens go, and guesses, which are numbers of tokens.
  texts_.clear();
  for (ReplyTrace& reply : replies_) {
    for (Column& column : reply.columns) column.guesses = {};
  }
  ++version_;
}

void TraceModel::apply(const WorkerEvent& event) {
  std::visit(Cases{
                 [&](const ModelLoaded& e) { set_model(e.model.n_layers); },
                 [&](const ReplyBegan& e) { begin_reply(e.id, e.reply); },
                 [&](const RoundDone& e) { round(e.id, e.round, e.seconds); },
                 [&](const SettingsApplied& e) { apply_settings(e.id, e.reply); },
                 [&](const ReplyEnded& e) { end_reply(e.id, stop_reason_name(e.stats.stop)); },
                 [&](const ReplyFailed& e) { end_reply(e.id, "failed"); },
                 [&](const Guesses& e) { guesses(e.id, e.pos, e.layers); },
                 [](const auto&) {},
             },
             event);
}

void TraceModel::begin_reply(uint64_t id, const TraceReply& settings) {
  forget(id);
  ReplyTrace reply;
  reply.id = id;
  reply.n_layers = n_layers_;
  reply.settings.push_back({0, settings});
  reply.plain_seconds = plain_seconds_;
  by_id_[id] = replies_.insert(replies_.end(), std::move(reply));
  ++version_;
  make_room();
}

void TraceModel::round(uint64_t id, const RoundRecord& round, double seconds) {
  ReplyTrace* reply = open(id);
  if (!reply || !plausible(round)) return;
  for (const TokenRecord& token : round.tokens) {
    // The reply's first token is shown without the space in front of it.
    if (!reply->columns.empty() && !token.ends_reply) texts_.try_emplace(token.token, token.text);
    Column column;
    column.token = token;
    if (column.kind() == TokenKind::kRejected) {
      const int draft = drafted_for(round.rows, token.slot, token.token);
      const std::string& told = round.rows[draft].text;
      column.draft_text = told.empty() ? text(token.draft).value_or("") : told;
      column.dropped = rows_behind(round.rows, draft);
    }
    reply->columns.push_back(std::move(column));
    ++n_columns_;
    if (token.draft < 0) ++reply->verified;
  }
  if (round.plain() && round.round > 0) {
    plain_.add(round.total_ns());
    if (plain_.rounds() >= PlainRate::kEnough) plain_seconds_ = plain_.seconds_per_token();
  }
  reply->plain_seconds = plain_seconds_;
  reply->counters.add(round);
  for (int64_t& ns : reply->counters.ns) ns = std::min(ns, kMaxNs);
  reply->counters.plain_ns = std::min(reply->counters.plain_ns, kMaxNs);
  count_drafts(*reply, round);
  add_slice(*reply, round, seconds);
  ++version_;
  make_room();
}

void TraceModel::apply_settings(uint64_t id, const TraceReply& settings) {
  ReplyTrace* reply = open(id);
  if (!reply) return;
  const int column = static_cast<int>(reply->columns.size());
  if (reply->settings.back().column == column) reply->settings.pop_back();
  reply->settings.push_back({column, settings});
  if (reply->settings.size() > kMaxSettings) reply->settings.erase(reply->settings.begin());
  ++version_;
}

void TraceModel::end_reply(uint64_t id, const std::string& stop) {
  ReplyTrace* reply = open(id);
  if (!reply) return;
  reply->over = true;
  reply->stop = stop;
  ++version_;
}

void TraceModel::guesses(uint64_t id, int pos, const std::vector<LayerGuess>& layers) {
  ReplyTrace* reply = open(id);
  if (!reply || reply->columns.empty() || layers.size() > kMaxLayer) return;
  const int64_t index = int64_t{pos} - reply->columns.front().token.pos;
  if (index < 0 || index >= static_cast<int64_t>(reply->columns.size())) return;
  Column& column = reply->columns[index];
  column.guesses.clear();
  column.guesses.reserve(layers.size());
  for (const LayerGuess& layer : layers) {
    column.guesses.push_back({layer.token, layer.probability});
    texts_[layer.token] = layer.text;
  }
  if (column.draft_text.empty() && column.kind() == TokenKind::kRejected) {
    column.draft_text = text(column.token.draft).value_or("");
  }
  ++version_;
}

void TraceModel::forget(uint64_t id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  n_columns_ -= found->second->columns.size();
  replies_.erase(found->second);
  by_id_.erase(found);
  ++version_;
}

void TraceModel::clear() {
  while (!replies_.empty()) forget(replies_.front().id);
  set_model(n_layers_);
}

const ReplyTrace* TraceModel::find(uint64_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &*found->second;
}

const Column* TraceModel::find(const TokenRef& ref) const {
  const ReplyTrace* reply = find(ref.reply);
  if (!reply || ref.index < 0 || static_cast<size_t>(ref.index) >= reply->columns.size()) {
    return nullptr;
  }
  return &reply->columns[ref.index];
}

std::optional<std::string> TraceModel::text(int32_t token) const {
  const auto found = texts_.find(token);
  return found == texts_.end() ? std::nullopt : std::optional(found->second);
}

ReplyTrace* TraceModel::open(uint64_t id) {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &*found->second;
}

void TraceModel::count_drafts(ReplyTrace& reply, const RoundRecord& round) {
  const int n = static_cast<int>(round.rows.size());
  std::vector<int> depth(round.rows.size());
  for (int slot = 0; slot < n; ++slot) {
    const RowRecord& row = round.rows[slot];
    // Whether the row was left by its last check: a head's own row comes first behind it.
    const int next = slot + 1;
    const bool was_left = next < n && !row.checks.empty() && round.rows[next].parent == slot &&
                          round.rows[next].drafted_at == row.checks.back().layer;
    if (slot > 0) {
      depth[slot] = depth[row.parent] + 1;
      count(at(reply.drafts_at, row.drafted_at), result_of(round, slot));
      count(at(reply.drafts_place, depth[slot] - 1), result_of(round, slot));
    }
    for (const ExitCheck& check : row.checks) {
      if (!is_layer(check.layer)) continue;
      const bool left = was_left && &check == &row.checks.back();
      reply.checks.push_back(
          {check.layer, check.confidence, left ? result_of(round, next) : CheckResult::kContinued});
    }
  }
  while (reply.checks.size() > kMaxChecks) reply.checks.pop_front();
}

void TraceModel::add_slice(ReplyTrace& reply, const RoundRecord& round, double seconds) {
  const double told = seconds - reply.seconds;
  const double lasted = std::isfinite(told) && told > 0 ? told : 0;
  reply.seconds += lasted;
  std::vector<RateSlice>& slices = reply.slices;
  if (slices.empty() || slices.back().rounds >= reply.slice_rounds) {
    if (slices.size() >= kMaxSlices) {
      join_slices(slices);
      reply.slice_rounds *= 2;
    }
    slices.emplace_back();
  }
  RateSlice& slice = slices.back();
  slice.seconds += lasted;
  slice.tokens += static_cast<int>(round.tokens.size());
  ++slice.rounds;
  slice.end = reply.seconds;
}

// The oldest replies go, the newest stays whole.
void TraceModel::make_room() {
  while (replies_.size() > 1 && (n_columns_ > kMaxColumns || replies_.size() > kMaxReplies)) {
    forget(replies_.front().id);
  }
}

}  // namespace specbound::gui
