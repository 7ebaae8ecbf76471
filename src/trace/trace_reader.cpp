#include "trace/trace_reader.h"

#include <limits>
#include <string_view>
#include <utility>

#include "trace/cost_model.h"
#include "trace/trace_field.h"

namespace specbound {

namespace {

constexpr size_t kMostStops = 64;                   // strings; far more than a reply takes
constexpr size_t kMostLineBytes = size_t{1} << 20;  // one that a recorder writes has a tenth
constexpr int kMostLayers = 4096;
constexpr int64_t kMostInt = TraceField::kMostInt;
constexpr int64_t kMostNs = int64_t{1} << 53;  // of a phase: three months

TraceHeader read_header(const TraceField& line) {
  line.at("version").integer(1, 1);
  return {.specbound = line.at("specbound").text(),
          .model = line.at("model").text(),
          .n_layers = line.at("n_layers").integer(1, kMostLayers),
          .vocab_size = line.at("vocab_size").integer(1, kMostInt),
          .n_ctx = line.at("n_ctx").integer(1, kMostInt),
          .backend = line.at("backend").text()};
}

// Lines of a trace, one after the other, held against the model and against each other.
class TraceScan {
 public:
  explicit TraceScan(const std::function<void(TraceItem, const TracePlace&)>& take) : take_(take) {}

  void line(const TraceField& line, const TracePlace& place);
  bool has_header() const { return header_.has_value(); }

 private:
  void begin_reply(const TraceField& line, const TracePlace& place);
  void change(const TraceField& line, const TracePlace& place);
  void token(const TraceField& line, const TracePlace& place);
  void round(const TraceField& line, const TracePlace& place);
  void end_reply(const TraceField& line, const TracePlace& place);

  void check_reply(const TraceField& line, const TracePlace& place) const;
  TraceSettings read_drafting(const TraceField& settings) const;
  void read_settings(const TraceField& line, TraceReply& reply) const;
  int read_token(const TraceField& id) const { return id.integer(0, header_->vocab_size - 1); }
  int read_exit(const TraceField& layer) const;
  std::vector<ExitCheck> read_checks(const TraceField& checks) const;
  void read_parent(const TraceField& slot, const RoundRecord& round, RowRecord& row,
                   const TracePlace& place) const;
  void check_exits(const RoundRecord& round, const TracePlace& place) const;
  void check_token(const TokenRecord& token, size_t place_in_round, int& slot_of_next,
                   const RoundRecord& round, const TracePlace& place) const;

  const std::function<void(TraceItem, const TracePlace&)>& take_;
  std::optional<TraceHeader> header_;
  TraceReply reply_;  // under way, its settings as of now
  int number_ = -1;   // its own
  bool in_reply_ = false;
  int next_round_ = 0;
  int plain_rounds_ = 0;  // of the reply so far, and what they took: the end's line has neither
  int64_t plain_ns_ = 0;
  std::vector<TokenRecord> tokens_;  // of the round whose line is to come
};

void TraceScan::line(const TraceField& line, const TracePlace& place) {
  const std::string type = line.at("type").text();
  if (!header_ && type != "header") {
    place.refuse("a line of type \"header\" first", shown_value(type));
  }
  if (type == "header") {
    if (header_) place.refuse("one header", "another");
    header_ = read_header(line);
    take_(*header_, place);
  } else if (type == "reply") {
    begin_reply(line, place);
  } else if (type == "settings") {
    change(line, place);
  } else if (type == "token") {
    token(line, place);
  } else if (type == "round") {
    round(line, place);
  } else if (type == "end") {
    end_reply(line, place);
  }  // what else a later version may tell
}

void TraceScan::begin_reply(const TraceField& line, const TracePlace& place) {
  ++number_;
  line.at("reply").integer(number_, number_);
  if (!tokens_.empty()) place.refuse("the round of the tokens before", "a reply");
  reply_ = TraceReply();
  reply_.regen =
      static_cast<uint32_t>(line.at("regen").number(0, std::numeric_limits<uint32_t>::max()));
  reply_.prompt_tokens = line.at("prompt_tokens").count();
  const TraceField budget = line.at("max_tokens");
  if (!budget.is_null()) reply_.max_tokens = budget.count();
  for (const TraceField& text : line.at("stop_strings").list(kMostStops)) {
    reply_.stop_strings.push_back(text.text());
  }
  read_settings(line, reply_);
  in_reply_ = true;
  next_round_ = plain_rounds_ = 0;
  plain_ns_ = 0;
  take_(reply_, place);
}

void TraceScan::change(const TraceField& line, const TracePlace& place) {
  check_reply(line, place);
  if (!tokens_.empty()) place.refuse("the round of the tokens before", "settings");
  line.at("round").integer(next_round_, next_round_);
  read_settings(line, reply_);
  take_(TraceChange{next_round_, reply_}, place);
}

TraceSettings TraceScan::read_drafting(const TraceField& settings) const {
  TraceSettings out;
  out.w_max = settings.at("w_max").integer(1, CostModel::kRows);
  out.d_max = settings.at("d_max").integer(1, kMostInt);
  out.alpha = settings.at("alpha").real(0, 100);
  out.tau = settings.at("tau").real(0, 1);
  for (const TraceField& layer : settings.at("check_layers").list(kMostLayers)) {
    const int low = out.check_layers.empty() ? 0 : out.check_layers.back() + 1;
    out.check_layers.push_back(layer.integer(low, header_->n_layers - 1));
  }
  out.anneal = settings.at("anneal").boolean();
  out.depth_bound = settings.at("depth_bound").boolean();
  out.width_bound = settings.at("width_bound").boolean();
  if (const auto learned = settings.find("anneal_learned")) out.anneal_learned = learned->boolean();
  return out;
}

void TraceScan::read_settings(const TraceField& line, TraceReply& reply) const {
  constexpr double kMost = std::numeric_limits<float>::max();
  reply.seed = line.at("seed").unsigned_number();
  reply.temperature = line.at("temperature").real(0, kMost);
  reply.top_k = line.at("top_k").count();
  reply.top_p = line.at("top_p").real(0, 1);
  reply.min_p = line.at("min_p").real(0, 1);
  reply.repeat_penalty = line.at("repeat_penalty").real(0, kMost);
  reply.repeat_last_n = line.at("repeat_last_n").integer(-1, kMostInt);
  reply.speculator = line.at("speculator").text();
  const TraceField settings = line.at("settings");
  reply.settings.reset();
  if (!settings.is_null()) reply.settings = read_drafting(settings);
}

void TraceScan::check_reply(const TraceField& line, const TracePlace& place) const {
  if (!in_reply_) place.refuse("a line of type \"reply\" first", line.at("type").text());
  line.at("reply").integer(number_, number_);
}

int TraceScan::read_exit(const TraceField& layer) const {
  return layer.is_null() ? kNoDraft : layer.integer(0, header_->n_layers - 1);
}

std::vector<ExitCheck> TraceScan::read_checks(const TraceField& checks) const {
  std::vector<ExitCheck> out;
  for (const TraceField& check : checks.list(kMostLayers)) {
    const TraceField confidence = check.at("confidence");
    constexpr double kMost = std::numeric_limits<float>::max();
    out.push_back({check.at("layer").integer(0, header_->n_layers),
                   confidence.is_null() ? std::numeric_limits<float>::quiet_NaN()
                                        : confidence.real(-kMost, kMost)});
  }
  return out;
}

void TraceScan::token(const TraceField& line, const TracePlace& place) {
  check_reply(line, place);
  if (tokens_.size() >= static_cast<size_t>(CostModel::kRows)) {
    place.refuse(format("at most %d tokens before their round", CostModel::kRows), "more");
  }
  TokenRecord token;
  token.round = line.at("round").count();
  token.rows = line.at("rows").integer(1, CostModel::kRows);
  token.slot = line.at("slot").integer(0, token.rows - 1);
  token.pos = line.at("pos").integer(0, header_->n_ctx);
  token.token = read_token(line.at("token"));
  const TraceField draft = line.at("draft");
  if (!draft.is_null()) token.draft = read_token(draft);
  token.exit_layer = read_exit(line.at("exit_layer"));
  token.ends_reply = line.at("ends_reply").boolean();
  token.checks = read_checks(line.at("checks"));
  token.text = line.at("text").text();
  if (line.at("accepted").boolean() != token.accepted()) {
    place.refuse("\"accepted\" where the draft is the token", "it the other way round");
  }
  tokens_.push_back(std::move(token));
}

// A token is what its round says of it. `slot_of_next`: of the row that gave it, then of the next.
void TraceScan::check_token(const TokenRecord& token, size_t place_in_round, int& slot_of_next,
                            const RoundRecord& round, const TracePlace& place) const {
  const int slot = drafted_for(round.rows, token.slot, token.token);
  const RowRecord* draft = slot < 0 ? nullptr : &round.rows[static_cast<size_t>(slot)];
  const bool fits = token.round == round.round &&
                    static_cast<size_t>(token.rows) == round.rows.size() &&
                    token.slot == slot_of_next &&
                    token.pos == int64_t{round.pos} + static_cast<int64_t>(place_in_round) + 1 &&
                    token.draft == (draft ? draft->token : -1) &&
                    token.exit_layer == (draft ? draft->drafted_at : kNoDraft);
  slot_of_next = token.accepted() ? slot : -1;
  if (fits) return;
  place.refuse("a round that fits its tokens",
               format("another than that of the token in slot %d", token.slot));
}

// Rounds that are chains do not say where their rows belong: behind the one before, drafted where
// that was left.
void TraceScan::read_parent(const TraceField& slot, const RoundRecord& round, RowRecord& row,
                            const TracePlace& place) const {
  const int n = static_cast<int>(round.rows.size());
  const std::optional<TraceField> parent = slot.find("parent");
  if (!parent) {
    row.parent = n - 1;
    if (n > 0) row.drafted_at = round.rows.back().exit_layer;
    return;
  }
  if (parent->is_null() != (n == 0)) {
    place.refuse("a \"parent\" in every slot but the first", "it the other way round");
  }
  row.parent = n == 0 ? -1 : parent->integer(0, n - 1);
  row.drafted_at = read_exit(slot.at("drafted_at"));
}

// A row was left where, and as deep as, something was drafted behind it.
void TraceScan::check_exits(const RoundRecord& round, const TracePlace& place) const {
  for (size_t slot = 0; slot < round.rows.size(); ++slot) {
    int deepest = kNoDraft;
    bool has_draft = false, known = true;
    for (const RowRecord& row : round.rows) {
      if (row.parent != static_cast<int>(slot)) continue;
      has_draft = true;
      known = known && row.drafted_at != kNoDraft;
      deepest = std::max(deepest, row.drafted_at);
    }
    if (round.rows[slot].exit_layer != deepest || (deepest != kNoDraft) != has_draft || !known) {
      place.refuse("an \"exit_layer\" in the slots before a draft, null in all others",
                   "it the other way round");
    }
  }
}

void TraceScan::round(const TraceField& line, const TracePlace& place) {
  check_reply(line, place);
  RoundRecord round;
  round.round = line.at("round").integer(next_round_, kMostInt - 1);
  round.pos = line.at("pos").integer(0, header_->n_ctx - 1);
  round.draft_end = static_cast<DraftEnd>(line.at("draft_end").one_of(kDraftEndNames));
  const std::vector<TraceField> slots = line.at("slots").list(CostModel::kRows);
  const int n = line.at("rows").integer(1, CostModel::kRows);
  if (slots.size() != static_cast<size_t>(n)) {
    place.refuse(format("\"slots\" of %d rows", n), format("%zu", slots.size()));
  }
  round.rows.reserve(slots.size());
  for (const TraceField& slot : slots) {
    RowRecord row;
    row.token = read_token(slot.at("token"));
    row.exit_layer = read_exit(slot.at("exit_layer"));
    row.checks = read_checks(slot.at("checks"));
    read_parent(slot, round, row, place);
    if (const std::optional<TraceField> text = slot.find("text")) row.text = text->text();
    round.rows.push_back(std::move(row));
  }
  check_exits(round, place);
  const std::vector<TraceField> passes =
      line.at("passes").list(static_cast<size_t>(CostModel::kRows) * kMostLayers);
  round.passes.reserve(passes.size());
  for (const TraceField& pass : passes) {
    LayerPass out{};
    out.from = pass.at("from").integer(1, header_->n_layers);
    out.to = pass.at("to").integer(out.from, header_->n_layers);
    out.slot = pass.at("slot").integer(0, n - 1);
    out.rows = pass.at("rows").integer(1, n - out.slot);
    out.phase = static_cast<Phase>(pass.at("phase").one_of(kPhaseNames));
    round.passes.push_back(out);
  }
  const TraceField ns = line.at("ns");
  for (int i = 0; i < kPhases; ++i) round.ns[i] = ns.at(kPhaseNames[i]).number(0, kMostNs);
  const int emitted = line.at("emitted").integer(1, n);
  if (tokens_.size() != static_cast<size_t>(emitted)) {
    place.refuse(format("%d tokens before it", emitted), format("%zu", tokens_.size()));
  }
  int slot = 0;
  for (size_t i = 0; i < tokens_.size(); ++i) check_token(tokens_[i], i, slot, round, place);
  round.tokens = std::exchange(tokens_, {});
  next_round_ = round.round + 1;
  if (round.plain()) {
    ++plain_rounds_;
    plain_ns_ = std::min(plain_ns_ + round.total_ns(), kMostNs);
  }
  take_(std::move(round), place);
}

void TraceScan::end_reply(const TraceField& line, const TracePlace& place) {
  check_reply(line, place);
  if (!tokens_.empty()) place.refuse("the round of the tokens before", "an end");
  const auto seconds = [](const TraceField& field) {
    return field.is_null() ? std::nullopt : std::optional(field.real());
  };
  TraceEnd end;
  end.stop = line.at("stop").text();
  end.generated_tokens = line.at("generated_tokens").count();
  end.prefilled_tokens = line.at("prefilled_tokens").count();
  end.prefill_seconds = seconds(line.at("prefill_seconds")).value_or(0);
  end.ttft_seconds = seconds(line.at("ttft_seconds"));
  end.decode_seconds = seconds(line.at("decode_seconds")).value_or(0);
  Counters& c = end.counters;
  c.rounds = line.at("rounds").count();
  c.decoded_tokens = line.at("decoded_tokens").count();
  c.drafted_tokens = line.at("drafted_tokens").count();
  c.accepted_tokens = line.at("accepted_tokens").count();
  c.checks = line.at("checks").count();
  c.plain_rounds = plain_rounds_;
  c.plain_ns = plain_ns_;
  for (const TraceField& accepted : line.at("accepted_at").list(kMostLayers)) {
    c.accepted_at.push_back(accepted.count());
  }
  const TraceField ns = line.at("ns");
  for (int i = 0; i < kPhases; ++i) c.ns[i] = ns.at(kPhaseNames[i]).number(0, kMostNs);
  end.plain_token_seconds = seconds(line.at("plain_token_seconds")).value_or(0);
  end.plain_rounds = line.at("plain_rounds").count();
  in_reply_ = false;
  take_(std::move(end), place);
}

// What they take in memory, about.
size_t bytes_of(const TraceReply& reply) {
  size_t bytes = sizeof(RecordedReply) + reply.speculator.size();
  for (const std::string& stop : reply.stop_strings) bytes += sizeof(stop) + stop.size();
  if (reply.settings) bytes += reply.settings->check_layers.capacity() * sizeof(int);
  return bytes;
}

size_t bytes_of(const RoundRecord& round) {
  size_t bytes = sizeof(round) + round.passes.size() * sizeof(LayerPass);
  for (const RowRecord& row : round.rows) {
    bytes += sizeof(row) + row.checks.capacity() * sizeof(ExitCheck) + row.text.size();
  }
  for (const TokenRecord& token : round.tokens) {
    bytes += sizeof(token) + token.checks.capacity() * sizeof(ExitCheck) + token.text.size();
  }
  return bytes;
}

}  // namespace

void TracePlace::refuse(const std::string& expected, const std::string& found,
                        ErrorCode code) const {
  throw Error(code, format("%s: line %d: expected %s, found %s", name.c_str(), line,
                           expected.c_str(), found.c_str()));
}

void scan_trace(std::istream& trace, const std::string& name,
                const std::function<void(TraceItem item, const TracePlace& place)>& take) {
  TraceScan scan(take);
  std::vector<char> buffer(kMostLineBytes + 2);
  for (int number = 1;; ++number) {
    const TracePlace place{name, number};
    trace.getline(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    const bool cut = trace.eof();
    if (trace.bad()) throw Error(ErrorCode::kFile, name + ": cannot read");
    if (trace.gcount() == 0) break;
    if (trace.fail()) {
      place.refuse(format("a line of at most %zu bytes", kMostLineBytes),
                   "a longer one: is this a trace?");
    }
    // The line end is counted, but not there.
    const std::string_view text(buffer.data(), static_cast<size_t>(trace.gcount()) - (cut ? 0 : 1));
    const auto json = nlohmann::json::parse(text, nullptr, false);
    if (json.is_discarded() && cut && scan.has_header()) break;
    if (json.is_discarded()) {
      place.refuse("a JSON object", "\"" + printable(text.substr(0, 60)) + "\"");
    }
    if (!json.is_object()) place.refuse("a JSON object", json.type_name());
    scan.line({place, "line", json}, place);
    if (cut) break;
  }
  if (!scan.has_header()) {
    throw Error(ErrorCode::kFormat, name + ": expected the lines of a trace, found none");
  }
}

RecordedTrace read_trace(std::istream& trace, const std::string& name, size_t most_bytes) {
  RecordedTrace out;
  size_t bytes = 0;
  const auto take = [&](TraceItem item, const TracePlace& place) {
    if (auto* header = std::get_if<TraceHeader>(&item)) {
      out.header = std::move(*header);
    } else if (auto* reply = std::get_if<TraceReply>(&item)) {
      bytes += bytes_of(*reply);
      out.replies.push_back({std::move(*reply), {}, {}, {}});
    } else if (auto* change = std::get_if<TraceChange>(&item)) {
      bytes += bytes_of(change->reply);  // of few bytes in the file: it repeats the reply's
      out.replies.back().changes.push_back(std::move(*change));
    } else if (auto* round = std::get_if<RoundRecord>(&item)) {
      bytes += bytes_of(*round);
      out.replies.back().rounds.push_back(std::move(*round));
    } else if (auto* end = std::get_if<TraceEnd>(&item)) {
      bytes += end->stop.size() + end->counters.accepted_at.capacity() * sizeof(int);
      out.replies.back().end = std::move(*end);
    }
    if (bytes > most_bytes) {
      place.refuse(format("a trace that fits into %zu MiB of memory", most_bytes >> 20),
                   "a longer one", ErrorCode::kLimit);
    }
  };
  scan_trace(trace, name, take);
  return out;
}

}  // namespace specbound
