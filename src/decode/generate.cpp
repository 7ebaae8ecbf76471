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

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool aborted(const GenerateOptions& options) {
  return options.abort && options.abort->load(std::memory_order_relaxed);
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
  Speculator* next = speculator ? speculator : &none_;
  if (next != speculator_) begun_ = false;
  speculator_ = next;
}

void Session::set_sampling(const SamplingParams& params) {
  validate(params);
  sampler_ = Sampler(params);
  sampler_.begin_reply(n_prompt_);  // a reply may be under way
}

void Session::forget() {
  backend_.truncate(0);
  tokens_.clear();
  n_prompt_ = 0;
  speculator_->forget();
}

bool Session::read(std::span<const int32_t> text, const std::function<bool(int n)>& visit) {
  const int total = static_cast<int>(text.size());
  SB_CHECK(total >= 1 && total <= backend_.n_ctx());
  const FloatMode mode;
  forget();
  bool on = true;
  try {
    for (int pos = 0; pos < total && on; pos += kMaxRows) {
      const int n = std::min(kMaxRows, total - pos);
      for (int slot = 0; slot < n; ++slot) backend_.embed(slot, text[pos + slot]);
      backend_.run_layers(0, n, pos, 1, backend_.config().n_layers);
      on = visit(n);
    }
  } catch (...) {
    backend_.truncate(0);
    throw;
  }
  backend_.truncate(0);
  return on;
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

// Makes `prompt` the committed text and brings every layer to its last token but one.
bool Session::commit_prompt(std::span<const int32_t> prompt, const GenerateOptions& options,
                            GenerateStats& stats) {
  stats.prompt_tokens = static_cast<int>(prompt.size());
  const auto go_on = [&options](int done, int total) {
    if (options.on_prefill) options.on_prefill(done, total);
    return !aborted(options);
  };
  check_prompt(backend_, prompt);
  n_prompt_ = prompt.size();
  sampler_.begin_reply(n_prompt_);
  return read_prompt(backend_, tokens_, prompt, go_on, stats.prefilled_tokens);
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

// Rows that the next round may have.
int Session::width(const GenerateOptions& options, const GenerateStats& stats) const {
  const int round = stats.counters.rounds;
  int width = speculator_->width();
  const int period = plain_.rounds() < PlainRate::kEnough ? 8 : 64;
  // The first round too: it brings the first token soonest.
  if (options.measure_plain && round % period == 0) width = 1;
  if (options.max_tokens >= 0) {
    width = std::min(width, options.max_tokens - stats.generated_tokens);
  }
  return std::min(width, backend_.n_ctx() - static_cast<int>(tokens_.size()) + 1);
}

void Session::start_round(const GenerateOptions& options, const GenerateStats& stats) {
  Round::Limits limits;
  limits.width = width(options, stats);
  limits.number = stats.counters.rounds;
  limits.reply = options.reply;
  limits.abort = options.abort;
  limits.ends = [&](std::span<const int32_t> text) {
    return (options.is_end && options.is_end(text.back())) || sampler_.ends(text) ||
           (options.is_stop && options.is_stop(text.subspan(n_prompt_)));
  };
  round_.start(limits);
}

// Draft, verify, emit. True when the reply is over.
bool Session::run_round(const GenerateOptions& options, GenerateStats& stats) {
  const bool plain = round_.full();
  const Control control = speculator_->control();  // of which there may be another next round
  const DraftEnd draft_end = plain ? DraftEnd::kPlain : speculator_->draft(round_);
  if (draft_end == DraftEnd::kAborted || !round_.verify()) {
    round_.undo();
    stats.stop = StopReason::kAborted;
    return true;
  }
  const bool over = emit(options, stats);
  RoundEvent event = round_.event(draft_end);
  event.decode_seconds = decode_seconds();
  // A reply's first round comes cold from the prefill.
  if (plain && event.round > 0) plain_.add(event.total_ns());
  stats.counters.add(event);
  stats.places.add(event);
  speculator_->accept(backend_, event);
  stats.control.add(control, speculator_->control());
  if (options.on_round) call_out([&] { options.on_round(event); });
  return over;
}

// Tokens as the verified rows give them, up to the first that was not drafted. True when the reply
// is over.
bool Session::emit(const GenerateOptions& options, GenerateStats& stats) {
  for (int slot = 0;;) {
    const int32_t token = round_.sample(slot);
    sampler_.check_target(round_.history(slot), token);
    if (!stats.ttft_seconds) stats.ttft_seconds = seconds_since(start_);
    std::span<const float> logits;  // now: a commit moves rows
    if (options.on_logits) logits = round_.logits(slot);
    const int next = round_.child(slot, token);
    const bool drafted = next >= 0;
    if (!drafted) round_.commit(slot, token);
    // A grammar ends with its end tokens, whatever else does.
    const bool end = (options.is_end && options.is_end(token)) || sampler_.is_end(token);
    const TokenEvent& event = round_.emitted(slot, token, end);
    bool over = true;
    if (end) {
      stats.stop = StopReason::kEnd;
    } else {
      ++stats.generated_tokens;
      const std::span<const int32_t> text = drafted ? round_.history(next) : tokens_;
      if (options.on_logits) call_out([&] { options.on_logits(event, logits); });
      if (options.on_token) call_out([&] { options.on_token(event); });
      if (options.is_stop && options.is_stop(text.subspan(n_prompt_))) {
        stats.stop = StopReason::kStopString;
      } else if (sampler_.ends(text)) {
        stats.stop = StopReason::kEnd;
      } else if (aborted(options) || (options.unwanted && options.unwanted())) {
        stats.stop = StopReason::kAborted;
      } else {
        over = false;
      }
    }
    if (over && drafted) round_.commit(slot, token);
    if (over || !drafted) return over;
    slot = next;
  }
}

GenerateStats Session::generate(std::span<const int32_t> prompt, const GenerateOptions& options) {
  GenerateStats stats;
  const FloatMode mode;
  start_ = Clock::now();
  const bool ready = commit_prompt(prompt, options, stats);
  stats.prefill_seconds = seconds_since(start_);
  stats.plain_token_seconds = plain_.seconds_per_token();
  stats.plain_rounds = plain_.rounds();
  if (!ready) {
    stats.stop = StopReason::kAborted;
    return stats;
  }
  called_out_seconds_ = 0;
  decode_start_ = Clock::now();
  begun_ = false;
  const Control control = speculator_->control();
  stats.control.add(control, control);  // nothing yet
  for (;;) {
    if (!std::exchange(begun_, true)) speculator_->begin(tokens_);
    stats.speculated = stats.speculated || speculator_->width() > 1;
    if (options.max_tokens >= 0 && stats.generated_tokens >= options.max_tokens) {
      stats.stop = StopReason::kLength;
      break;
    }
    if (static_cast<int>(tokens_.size()) > backend_.n_ctx()) {
      stats.stop = StopReason::kContext;
      break;
    }
    if (aborted(options)) {
      stats.stop = StopReason::kAborted;
      break;
    }
    start_round(options, stats);
    try {
      if (run_round(options, stats)) break;
    } catch (...) {
      round_.recover();
      throw;
    }
  }
  stats.decode_seconds = decode_seconds();
  stats.plain_token_seconds = plain_.seconds_per_token();
  stats.plain_rounds = plain_.rounds();
  return stats;
}

}  // namespace specbound
