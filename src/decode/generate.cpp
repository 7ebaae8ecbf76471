#include "decode/generate.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "decode/read_prompt.h"
#include "error.h"
#include "numerics/float_mode.h"

namespace specbound {
namespace {

using Clock = std::chrono::steady_clock;

static_assert(CostModel::kRows == kMaxRows);  // counters and costs have a place for each row

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

const char* stop_reason_name(StopReason reason) {
  constexpr const char* kNames[] = {"end", "stop", "length", "context", "aborted"};
  static_assert(std::size(kNames) == static_cast<size_t>(StopReason::kAborted) + 1);
  return kNames[static_cast<size_t>(reason)];
}

Session::Session(Backend& backend, Sampler sampler)
    : backend_(backend), sampler_(std::move(sampler)), round_(backend_, sampler_, tokens_) {}

void Session::set_speculator(Speculator* speculator) {
  speculator_ = speculator ? speculator : &none_;
  begun_ = false;
}

void Session::set_sampling(const SamplingParams& params) {
  validate(params);
  sampler_ = Sampler(params);
  sampler_.begin_reply(n_prompt_);  // a reply may be under way
}

void Session::rest() {
  sampler_ = Sampler(greedy_sampling());
  options_ = {};
  set_speculator(nullptr);  // which need not outlive the reply
  round_.rest();
}

void Session::forget() {
  backend_.truncate(0);
  lose();
  speculator_->forget();
}

void Session::lose() {
  tokens_.clear();
  n_prompt_ = 0;
}

void Session::take_over(std::span<const int32_t> text) {
  SB_CHECK(backend_.kv_len(1) == static_cast<int>(text.size()));
  tokens_.assign(text.begin(), text.end());
  n_prompt_ = tokens_.size();
}

bool Session::revisit(int from, int to, const Visit& visit) {
  SB_CHECK(first_decoded() <= from && from <= to && (from == to || to <= backend_.kv_len(1)));
  const FloatMode mode;
  for (int pos = from; pos < to; pos += kMaxRows) {
    if (!revisit_group(pos, std::min(kMaxRows, to - pos), visit)) return false;
  }
  return true;
}

bool Session::revisit_group(int pos, int n, const Visit& visit) {
  const int cached = backend_.kv_len(1), n_layers = backend_.config().n_layers;
  backend_.truncate(pos);
  bool on = true;
  try {
    for (int slot = 0; slot < n; ++slot) backend_.embed(slot, tokens_[pos + slot]);
    for (int layer = 1; layer <= n_layers && on; ++layer) {
      backend_.run_layers(0, n, pos, layer, layer);
      on = visit(layer, pos, n);
    }
  } catch (...) {
    backend_.truncate(pos);  // what a pass that was not finished left behind
    throw;
  }
  backend_.restore(cached);
  return on;
}

// Another chunk of the prompt. False where nobody wants it.
bool Session::read_on() {
  if (aborted()) {
    stats_.stop = StopReason::kAborted;
    return false;
  }
  const int n = read_chunk(backend_, tokens_);
  unread_ -= n;
  stats_.prefilled_tokens += n;
  stats_.prefill_seconds = seconds_since(start_);
  if (options_.on_prefill) {
    options_.on_prefill(stats_.prefilled_tokens, stats_.prefilled_tokens + unread_);
  }
  if (unread_ == 0) start_decoding();
  return true;
}

void Session::start_decoding() {
  stats_.prefill_seconds = seconds_since(start_);
  called_out_seconds_ = 0;
  decode_start_ = Clock::now();
  begun_ = false;
}

// Time in callbacks is not decoding: a reader that blocks stdout must not look like a slow model.
template <class F>
void Session::call_out(F callback) {
  const auto before = Clock::now();
  callback();
  called_out_seconds_ += seconds_since(before);
}

double Session::decode_seconds() const {
  return seconds_since(decode_start_) - called_out_seconds_;
}

// Of so many rows those that the reply and the context have room for.
int Session::bounded(int width) const {
  if (options_.max_tokens >= 0) {
    width = std::min(width, options_.max_tokens - stats_.generated_tokens);
  }
  return std::min(width, backend_.n_ctx() - static_cast<int>(tokens_.size()) + 1);
}

// Rows that the next round may have.
int Session::width() const {
  int width = speculator_->width();
  const int period = plain_.rounds() < PlainRate::kEnough ? 8 : 64;
  // The first round too: it brings the first token soonest. How many there were before must decide
  // no text.
  const bool decides = speculator_->decides_text() && sampler_.params().temperature > 0;
  const bool measures = options_.measure_plain && !decides;
  if (measures && (stats_.counters.rounds == 0 || since_plain_ + 1 >= period)) width = 1;
  return bounded(width);
}

void Session::start_round(int width, bool shared) {
  Round::Limits limits;
  limits.width = width;
  limits.shared = shared;
  limits.number = stats_.counters.rounds;
  limits.reply = options_.reply;
  limits.logits = options_.on_logits != nullptr;
  limits.abort = options_.abort;
  limits.ends = [this](std::span<const int32_t> text) {
    return (options_.is_end && options_.is_end(text.back())) || sampler_.ends(text) ||
           (options_.is_stop && options_.is_stop(text.subspan(n_prompt_)));
  };
  round_.start(std::move(limits));
}

// Draft, verify, emit. True when the reply is over.
bool Session::run_round() {
  const bool plain = round_.full();
  const Control control = speculator_->control();  // of which there may be another next round
  const DraftEnd draft_end = plain ? DraftEnd::kPlain : speculator_->draft(round_);
  if (draft_end == DraftEnd::kAborted || !round_.verify()) {
    round_.undo();
    stats_.stop = StopReason::kAborted;
    return true;
  }
  return take_round(draft_end, [&](const RoundEvent& event) {
    // A reply's first round comes cold from the prefill, and tells nothing.
    if (event.round > 0) ++since_plain_;
    if (plain && event.round > 0) {
      plain_.add(event.total_ns());
      since_plain_ = 0;
    }
    speculator_->accept(backend_, event);
    stats_.control.add(control, speculator_->control());
  });
}

// What the rows gave, of which `hear` is told. True when the reply is over.
template <class F>
bool Session::take_round(DraftEnd draft_end, F hear) {
  const bool over = emit();
  RoundEvent event = round_.event(draft_end);
  event.decode_seconds = decode_seconds();
  stats_.counters.add(event);
  stats_.places.add(event);
  hear(event);
  if (options_.on_round) call_out([&] { options_.on_round(event); });
  return over;
}

// Tokens as the verified rows give them, up to the first that was not drafted. True when the reply
// is over.
bool Session::emit() {
  for (int slot = 0;;) {
    const int32_t token = round_.sample(slot);
    sampler_.check_target(round_.history(slot), token);
    if (!stats_.ttft_seconds) stats_.ttft_seconds = seconds_since(start_);
    std::span<const float> logits;  // now: a commit moves rows
    if (options_.on_logits) logits = round_.logits(slot);
    if (options_.on_state) call_out([&] { options_.on_state(round_.state(slot)); });
    const int next = round_.child(slot, token);
    const bool drafted = next >= 0;
    if (!drafted) round_.commit(slot, token);
    // A grammar ends with its end tokens, whatever else does.
    const bool end = (options_.is_end && options_.is_end(token)) || sampler_.is_end(token);
    const TokenEvent& event = round_.emitted(slot, token, end);
    bool over = true;
    if (end) {
      stats_.stop = StopReason::kEnd;
    } else {
      ++stats_.generated_tokens;
      const std::span<const int32_t> text = drafted ? round_.history(next) : tokens_;
      if (options_.on_logits) call_out([&] { options_.on_logits(event, logits); });
      if (options_.on_token) call_out([&] { options_.on_token(event); });
      if (options_.is_stop && options_.is_stop(text.subspan(n_prompt_))) {
        stats_.stop = StopReason::kStopString;
      } else if (sampler_.ends(text)) {
        stats_.stop = StopReason::kEnd;
      } else if (aborted() || (options_.unwanted && options_.unwanted())) {
        stats_.stop = StopReason::kAborted;
      } else {
        over = false;
      }
    }
    if (over && drafted) round_.commit(slot, token);
    if (over || !drafted) return over;
    slot = next;
  }
}

void Session::begin(std::span<const int32_t> prompt, GenerateOptions options) {
  check_prompt(backend_, prompt);
  options_ = std::move(options);
  stats_ = {};
  stats_.prompt_tokens = static_cast<int>(prompt.size());
  start_ = Clock::now();
  n_prompt_ = prompt.size();
  sampler_.begin_reply(n_prompt_);
  unread_ = begin_prompt(backend_, tokens_, prompt);
  const Control control = speculator_->control();
  stats_.control.add(control, control);  // nothing yet
  if (unread_ == 0) start_decoding();
}

// Whether another token may come; else why none does.
bool Session::may_write() {
  if (options_.max_tokens >= 0 && stats_.generated_tokens >= options_.max_tokens) {
    stats_.stop = StopReason::kLength;
  } else if (static_cast<int>(tokens_.size()) > backend_.n_ctx()) {
    stats_.stop = StopReason::kContext;
  } else if (aborted()) {
    stats_.stop = StopReason::kAborted;
  } else {
    return true;
  }
  return false;
}

// The reply is over: false, for those that say whether it goes on.
bool Session::end() {
  if (unread_ == 0) stats_.decode_seconds = decode_seconds();
  stats_.plain_token_seconds = plain_.seconds_per_token();
  stats_.plain_rounds = plain_.rounds();
  return false;
}

bool Session::go_on() {
  const FloatMode mode;
  if (unread_ > 0) return read_on() || end();
  if (!std::exchange(begun_, true)) speculator_->begin(tokens_);
  stats_.speculated = stats_.speculated || speculator_->width() > 1;
  if (!may_write()) return end();
  start_round(width(), false);
  try {
    return !run_round() || end();
  } catch (...) {
    round_.recover();
    throw;
  }
}

bool Session::open_round() {
  SB_CHECK(unread_ == 0);
  const FloatMode mode;
  if (!may_write()) return end();
  begun_ = false;  // the speculator hears nothing of this round
  start_round(bounded(kMaxRows), true);
  return true;
}

// The rows of others are drawn for with them.
std::optional<DrawRule> Session::shared_rule() const {
  if (options_.on_logits) return std::nullopt;
  return sampler_.rule_without_text(options_.reply);
}

bool Session::take_rows(const GivenRows& given,
                        const std::function<void(const RoundEvent&)>& heard) {
  const FloatMode mode;
  try {
    round_.take(given);
    const DraftEnd draft_end = round_.rows() > 1 ? DraftEnd::kWidth : DraftEnd::kPlain;
    const bool over = take_round(draft_end, [&](const RoundEvent& event) {
      ++stats_.side_by_side;
      stats_.speculated = stats_.speculated || heard != nullptr;
      if (heard) heard(event);
    });
    return !over || end();
  } catch (...) {
    round_.recover();
    throw;
  }
}

GenerateStats Session::generate(std::span<const int32_t> prompt, const GenerateOptions& options) {
  const FloatMode mode;
  begin(prompt, options);
  while (go_on()) {
  }
  return stats_;
}

}  // namespace specbound
