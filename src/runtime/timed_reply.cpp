#include "runtime/timed_reply.h"

namespace specbound {

TimedReply timed_reply(Session& session, const TimedRequest& request) {
  TimedReply reply;
  GenerateOptions options;
  options.max_tokens = request.max_tokens;
  options.reply = request.reply;
  options.is_end = request.ends;
  options.abort = request.abort;
  if (request.max_tokens > 0) reply.tokens.reserve(static_cast<size_t>(request.max_tokens));
  options.on_token = [&](const TokenEvent& event) {
    reply.tokens.push_back(event.token);
    if (request.on_progress) request.on_progress(reply.n_tokens());
  };
  options.on_round = [&](const RoundEvent& round) {
    reply.round_tokens.push_back(static_cast<int>(round.tokens.size()));
  };
  session.forget();
  session.backend().wait();
  reply.stats = session.generate(request.prompt, options);
  reply.prefill_seconds = reply.stats.prefill_seconds;
  reply.ttft_seconds = reply.stats.ttft_seconds.value_or(0);
  reply.decode_seconds = reply.stats.decode_seconds;
  reply.total_seconds = reply.prefill_seconds + reply.decode_seconds;
  return reply;
}

}  // namespace specbound
