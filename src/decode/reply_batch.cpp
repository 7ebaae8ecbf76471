#include "decode/reply_batch.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "decode/common_prefix.h"
#include "decode/read_prompt.h"
#include "error.h"
#include "numerics/float_mode.h"

namespace specbound {

ReplyBatch::ReplyBatch(Sessions& sessions, int most)
    : sessions_(sessions),
      backend_(sessions.backend()),
      most_(std::min({most, sessions.size(), kMaxRows})) {
  SB_CHECK(most >= 1);
}

ReplyBatch::~ReplyBatch() {
  for (const Reply& reply : replies_) {
    if (reply.session) sessions_.hold(reply.sequence, false);
  }
  sessions_.select(0);
}

int64_t ReplyBatch::tokens_under_way() const {
  int64_t n = 0;
  for (const Reply& reply : replies_) {
    if (reply.session) {
      n += std::ssize(reply.session->tokens()) - std::ssize(reply.request.prompt);
    }
  }
  return n;
}

void ReplyBatch::add(int64_t id, BatchRequest request) {
  SB_CHECK(!full());
  validate(request.sampling);
  check_prompt(backend_, request.prompt);
  replies_.push_back({.id = id, .request = std::move(request)});
}

void ReplyBatch::drop(int64_t id) {
  const auto found = std::ranges::find(replies_, id, &Reply::id);
  if (found == replies_.end()) return;
  if (found->session) sessions_.hold(found->sequence, false);
  replies_.erase(found);
}

// An exception ends the reply that it is of.
template <class F>
void ReplyBatch::guard(Reply& reply, F work) {
  try {
    work();
  } catch (...) {
    reply.error = std::current_exception();
    reply.over = true;
  }
}

// Chosen as late as this, a session may begin with a copy of what others have read meanwhile.
void ReplyBatch::start(Reply& reply) {
  reply.session = &sessions_.for_prompt(reply.request.prompt);
  reply.sequence = sessions_.selected();
  sessions_.hold(reply.sequence, true);
  reply.session->set_sampling(reply.request.sampling);
  reply.session->set_speculator(nullptr);
  reply.session->begin(reply.request.prompt, reply.request.options);
}

// Who waits for a prompt's turn need not wait for it to leave.
void ReplyBatch::end_aborted() {
  for (Reply& reply : replies_) {
    const std::atomic<bool>* abort = reply.request.options.abort;
    const bool waits = !reply.session || reply.session->unread() > 0;
    reply.aborted = waits && abort && abort->load(std::memory_order_relaxed);
    reply.over = reply.aborted;
  }
}

// One of several from now on. A drafter that needs layers to itself has none to share.
void ReplyBatch::join(Reply& reply) {
  if (std::exchange(reply.joined, true)) return;
  Speculator* const speculator = reply.request.speculator ? reply.request.speculator() : nullptr;
  reply.drafter = speculator ? speculator->shared() : nullptr;
  if (reply.drafter) reply.drafts = reply.drafter->begin(reply.session->tokens());
}

// Not any more.
void ReplyBatch::leave(Reply& reply) {
  reply.joined = false;
  reply.drafts.reset();
  reply.drafter = nullptr;
}

void ReplyBatch::go_on_alone(Reply& reply) {
  guard(reply, [&] {
    const bool stayed = reply.alone && sessions_.selected() == reply.sequence;
    leave(reply);
    if (!reply.session) start(reply);
    Session& session = sessions_.select(reply.sequence);
    if (!stayed) {
      const auto& speculator = reply.request.speculator;
      session.set_speculator(speculator ? speculator() : nullptr);
    }
    reply.alone = true;
    reply.over = !session.go_on();
  });
}

// Tokens of its prompt that are not read yet, as far as is known.
int ReplyBatch::unread(const Reply& reply) {
  if (reply.over) return 0;
  return reply.session ? reply.session->unread()
                       : static_cast<int>(reply.request.prompt.size()) - 1;
}

// Goes on with it while `read` tokens of this step are less than a chunk. False: no longer.
bool ReplyBatch::read_prompt(Reply& reply, int& read) {
  if (reply.over) return true;
  if (!reply.session) {
    if (read >= kPrefillChunk) return false;
    guard(reply, [&] { start(reply); });
  }
  while (!reply.over && reply.session->unread() > 0) {
    const int n = std::min(reply.session->unread(), kPrefillChunk);
    if (read > 0 && read + n > kPrefillChunk) return false;
    read += n;
    guard(reply, [&] { reply.over = !sessions_.select(reply.sequence).go_on(); });
  }
  return true;
}

// In the order in which they came, but in every second step those behind a long one come before it:
// it takes up to twice the time, they do not wait for all of it. Who will find its beginning there
// waits for that.
void ReplyBatch::read_prompts() {
  int read = 0;
  const auto first = std::ranges::find_if(replies_, [](const Reply& r) { return unread(r) > 0; });
  // What its session knows of its prompt is not long, and none of those behind it takes that one.
  if (first != replies_.end() && !first->session) guard(*first, [&] { start(*first); });
  long_waits_ = !long_waits_ && first != replies_.end() && unread(*first) > kPrefillChunk;
  for (Reply& reply : replies_) {
    if (!long_waits_ || &reply == &*first) continue;
    const std::span<const int32_t> prompt = first->request.prompt;
    const std::ptrdiff_t found = std::ssize(prompt) - 1 - unread(*first);
    const bool finds_more = !reply.session && common_prefix(reply.request.prompt, prompt) > found;
    if (!finds_more && !read_prompt(reply, read)) break;
  }
  for (Reply& reply : replies_) {
    if (!read_prompt(reply, read)) break;
  }
}

void ReplyBatch::write_rounds() {
  std::vector<Reply*> opened;
  for (Reply& reply : replies_) {
    if (reply.over || !reply.session || reply.session->unread() > 0) continue;
    guard(reply, [&] {
      join(reply);
      reply.over = !reply.session->open_round();
      if (!reply.over) opened.push_back(&reply);
    });
  }
  if (opened.empty()) return;
  draft(opened);
  run_pass(opened);
}

// What they have beside their roots. Who cannot be drafted for has plain rounds, as all then have:
// an error of its own it comes to there.
void ReplyBatch::draft(std::span<Reply* const> replies) {
  const auto found = std::ranges::find_if(replies, [](const Reply* r) { return r->drafter; });
  drafter_ = found == replies.end() ? nullptr : (*found)->drafter;
  if (!drafter_) return;
  std::vector<SharedDrafter::Reply> drafting;
  for (const Reply* reply : replies) {
    const bool drafts = reply->drafter == drafter_;
    drafting.push_back({&reply->session->round(), drafts ? reply->drafts.get() : nullptr});
  }
  try {
    drafter_->draft(drafting, kMaxRows - static_cast<int>(replies.size()));
  } catch (...) {
    for (const SharedDrafter::Reply& reply : drafting) reply.round->drop_behind(0);
  }
}

// What a device may draw by for all of them, the likeliest tokens or the head of each row; nullopt:
// the logits are needed.
std::optional<DrawRule> ReplyBatch::common_rule(std::span<Reply* const> replies) {
  if (!backend_.samples_on_device()) return std::nullopt;
  DrawRule common;
  for (const Reply* reply : replies) {
    const std::optional<DrawRule> rule = reply->session->shared_rule();
    if (!rule) return std::nullopt;
    if (rule->temperature == 0) continue;
    common.temperature = 1;
    common.filtered = true;
    common.weigh = common.weigh || rule->weigh;
  }
  return common;
}

void ReplyBatch::run_pass(std::span<Reply* const> replies) {
  const size_t vocab_size = static_cast<size_t>(backend_.config().vocab_size);
  const std::optional<DrawRule> rule = common_rule(replies);
  try {
    std::array<Sequences::Part, kMaxRows> parts;
    int n = 0;
    for (size_t i = 0; i < replies.size(); ++i) {
      Round& round = replies[i]->session->round();
      round.enter(n);
      parts[i] = {replies[i]->sequence, round.rows(), round.paths()};
      n += round.rows();
    }
    backend_.sequences()->run_side_by_side(std::span(parts).first(replies.size()));
    if (rule) {
      backend_.device_sampling()->draw(0, n, *rule, {}, draws_.data());
    } else {
      const size_t needed = static_cast<size_t>(n) * vocab_size;
      if (logits_.size() < needed) logits_.resize(needed);
      backend_.logits(0, n, logits_.data());
    }
  } catch (...) {
    for (Reply* reply : replies) {
      sessions_.select(reply->sequence);
      reply->session->drop_rows();
      reply->error = std::current_exception();
      reply->over = true;
    }
    return;
  }
  size_t first = 0;
  for (Reply* reply : replies) {
    const auto rows = static_cast<size_t>(reply->session->round().rows());
    GivenRows given;
    if (rule) {
      given.draws = std::span(draws_).subspan(first, rows);
    } else {
      given.logits = std::span(logits_).subspan(first * vocab_size, rows * vocab_size);
    }
    guard(*reply, [&] { take_rows(*reply, given); });
    first += rows;
  }
  if (drafter_) drafter_->end_pass();
}

void ReplyBatch::take_rows(Reply& reply, const GivenRows& given) {
  sessions_.select(reply.sequence);
  std::function<void(const RoundEvent&)> heard;
  if (reply.drafter) {
    heard = [&](const RoundEvent& round) { reply.drafter->accept(*reply.drafts, round); };
  }
  reply.over = !reply.session->take_rows(given, heard);
}

std::vector<WrittenReply> ReplyBatch::take_ended() {
  std::vector<WrittenReply> ended;
  for (Reply& reply : replies_) {
    if (!reply.over) continue;
    WrittenReply& written = ended.emplace_back();
    written.id = reply.id;
    written.error = reply.error;
    if (reply.session) {
      const std::span<const int32_t> tokens = reply.session->tokens();
      written.tokens.assign(tokens.begin(), tokens.end());
      written.stats = reply.session->stats();
      sessions_.hold(reply.sequence, false);
    }
    if (reply.aborted) written.stats.stop = StopReason::kAborted;
  }
  std::erase_if(replies_, [](const Reply& reply) { return reply.over; });
  return ended;
}

std::vector<WrittenReply> ReplyBatch::step() {
  const FloatMode mode;
  end_aborted();
  if (replies_.size() == 1 && !replies_.front().over) {
    go_on_alone(replies_.front());
  } else {
    for (Reply& reply : replies_) reply.alone = false;
    read_prompts();
    write_rounds();
  }
  return take_ended();
}

}  // namespace specbound
