#include "decode/reply_batch.h"

#include <algorithm>
#include <utility>

#include "decode/common_prefix.h"
#include "decode/read_prompt.h"
#include "error.h"
#include "numerics/float_mode.h"

namespace specbound {
namespace {

Sequences& sequences_of(Backend& backend) {
  SB_CHECK(backend.sequences());
  return *backend.sequences();
}

}  // namespace

ReplyBatch::ReplyBatch(Backend& backend)
    : backend_(backend),
      sequences_(sequences_of(backend)),
      places_(static_cast<size_t>(sequences_.n_sequences())) {
  for (int i = 0; i < sequences_.n_sequences(); ++i) {
    sequences_.select(i);
    backend_.truncate(0);
  }
}

ReplyBatch::~ReplyBatch() {
  sequences_.select(0);
}

int64_t ReplyBatch::tokens_under_way() const {
  int64_t n = 0;
  for (const Place& place : places_) {
    if (place.request) n += std::ssize(place.text) - std::ssize(place.request->prompt);
  }
  return n;
}

bool ReplyBatch::add(int64_t id, BatchRequest request, const std::atomic<bool>* abort) {
  SB_CHECK(!full() && request.max_tokens != 0);
  validate(request.sampling);
  check_prompt(backend_, request.prompt);
  const FloatMode mode;
  Place* best = nullptr;
  for (Place& place : places_) {
    if (place.request) continue;
    if (!best ||
        common_prefix(place.text, request.prompt) > common_prefix(best->text, request.prompt)) {
      best = &place;
    }
  }
  sequences_.select(static_cast<int>(best - places_.data()));
  const auto go_on = [abort](int, int) {
    return !abort || !abort->load(std::memory_order_relaxed);
  };
  int prefilled = 0;
  if (!read_prompt(backend_, best->text, request.prompt, go_on, prefilled)) return false;
  best->sampler = Sampler(request.sampling);
  best->sampler.begin_reply(request.prompt.size());
  best->request = std::move(request);
  best->id = id;
  ++n_under_way_;
  return true;
}

// The next token of a reply by the logits of its newest row; why it ends with it, if it does. In
// the order in which Session looks.
std::optional<StopReason> ReplyBatch::take(Place& place, std::span<const float> logits) {
  const BatchRequest& request = *place.request;
  const int32_t token =
      place.sampler.sample(logits, place.text, place.sampler.place(request.reply, place.text));
  place.sampler.check_target(place.text, token);
  const bool end = request.is_end && request.is_end(token);
  place.text.push_back(token);
  if (end || place.sampler.ends(place.text)) return StopReason::kEnd;
  const int64_t written = std::ssize(place.text) - std::ssize(request.prompt);
  if (request.max_tokens >= 0 && written >= request.max_tokens) return StopReason::kLength;
  if (std::ssize(place.text) > backend_.n_ctx()) return StopReason::kContext;
  return {};
}

std::vector<WrittenReply> ReplyBatch::step() {
  const FloatMode mode;
  std::vector<int> of;  // [row] sequence
  for (size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].request) of.push_back(static_cast<int>(i));
  }
  std::vector<WrittenReply> ended;
  if (of.empty()) return ended;
  const size_t vocab_size = static_cast<size_t>(backend_.config().vocab_size);
  size_t taken = 0;  // rows
  try {
    logits_.resize(kMaxRows * vocab_size);
    for (size_t row = 0; row < of.size(); ++row) {
      backend_.embed(static_cast<int>(row), places_[of[row]].text.back());
    }
    sequences_.run_side_by_side(of);
    backend_.logits(0, static_cast<int>(of.size()), logits_.data());
    for (; taken < of.size(); ++taken) {
      Place& place = places_[of[taken]];
      const auto stop = take(place, std::span(logits_).subspan(taken * vocab_size, vocab_size));
      if (!stop) continue;
      ended.push_back({place.id, place.text, *stop});
      place.request.reset();
      --n_under_way_;
    }
  } catch (...) {
    // What a pass that was not finished left behind, and rows whose token nobody has.
    for (; taken < of.size(); ++taken) {
      sequences_.select(of[taken]);
      Place& place = places_[of[taken]];
      backend_.truncate(static_cast<int>(place.text.size()) - 1);
    }
    throw;
  }
  return ended;
}

}  // namespace specbound
