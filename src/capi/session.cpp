// specbound.h: sessions and their replies.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "capi/engine.h"
#include "capi/sized.h"
#include "error.h"
#include "runtime/reply.h"

using namespace specbound;
using namespace specbound::capi;

namespace {

sb_sampling exported(const SamplingParams& params) {
  sb_sampling out = {};
  out.repeat_penalty = params.repeat_penalty;
  out.repeat_last_n = params.repeat_last_n;
  out.top_k = params.top_k;
  out.top_p = params.top_p;
  out.min_p = params.min_p;
  out.temperature = params.temperature;
  out.seed = params.seed;
  return out;
}

SamplingParams imported(const sb_sampling* sampling) {
  const sb_sampling in = take_in(sampling, "sampling");
  SamplingParams params;
  params.repeat_penalty = in.repeat_penalty;
  params.repeat_last_n = in.repeat_last_n;
  params.top_k = in.top_k;
  params.top_p = in.top_p;
  params.min_p = in.min_p;
  params.temperature = in.temperature;
  params.seed = in.seed;
  validate(params);
  return params;
}

int32_t exported(StopReason reason) {
  switch (reason) {
    case StopReason::kEnd:
      return SB_STOP_END;
    case StopReason::kStopString:
      return SB_STOP_STRING;
    case StopReason::kLength:
      return SB_STOP_LENGTH;
    case StopReason::kContext:
      return SB_STOP_CONTEXT;
    case StopReason::kAborted:
      return SB_STOP_ABORTED;
  }
  return SB_STOP_NONE;
}

// One reply of a session at a time: who aborts one must not mean another.
class Busy {
 public:
  explicit Busy(sb_session& session) : session_(session) {
    if (session.busy.exchange(true)) {
      throw Error(ErrorCode::kUsage, "a reply of this session is under way already");
    }
    session.abort = false;
  }
  ~Busy() {
    session_.abort = false;
    session_.busy = false;
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  sb_session& session_;
};

StopStrings stop_strings(const sb_request& request) {
  // More are refused below: they need not be looked at.
  const size_t n = std::min(request.n_stop, StopStrings::kMaxStrings + 1);
  std::vector<std::string> strings;
  for (const char* text : given(request.stop, n, "stop")) {
    need(text, "a stop text");
    strings.emplace_back(text);
  }
  return StopStrings(std::move(strings));
}

struct Prompt {
  std::vector<int32_t> ids;
  ReplyText::FirstPiece first_piece;
};

Prompt prompt_of(const Engine& engine, const sb_request& request) {
  const auto messages = given(request.messages, request.n_messages, "messages");
  const auto tokens = given(request.tokens, request.n_tokens, "tokens");
  if (messages.empty() == tokens.empty()) {
    throw Error(ErrorCode::kUsage, format("request: expected messages or tokens, found %s",
                                          tokens.empty() ? "neither" : "both"));
  }
  Prompt prompt;
  const size_t n_ctx = engine.model().n_ctx();
  size_t n = tokens.size();
  if (tokens.empty()) {
    prompt.ids = engine.encode(messages);
    n = prompt.ids.size();
    const ChatTemplate& chat_template = engine.chat_template();
    prompt.first_piece = [&chat_template](int32_t, std::string_view piece) {
      return chat_template.reply_text(piece);
    };
  }
  if (n > n_ctx) {
    throw Error(ErrorCode::kLimit,
                format("the prompt has %zu tokens, the context holds %zu", n, n_ctx));
  }
  if (!tokens.empty()) prompt.ids.assign(tokens.begin(), tokens.end());
  return prompt;
}

// The session's settings go to the decode loop that all sessions of the model share.
Reply reply_to(sb_session& session, const ReplyRequest& request) {
  Engine::Turn turn(*session.engine);
  {
    const std::lock_guard lock(session.mutex);
    turn.session().set_sampling(session.sampling);
    turn.session().set_speculator(session.speculates ? turn.speculation().speculator() : nullptr);
  }
  return generate_reply(session.engine->model(), turn.session(), request);
}

void generate(sb_session& session, const sb_request& asked) {
  const Busy busy(session);
  {
    const std::lock_guard lock(session.mutex);
    session.newest.reset();
  }
  if (asked.max_tokens < 0) {
    throw Error(ErrorCode::kUsage, format("max_tokens: expected 0 or more, found %d",
                                          static_cast<int>(asked.max_tokens)));
  }
  const Prompt prompt = prompt_of(*session.engine, asked);
  ReplyRequest request;
  request.prompt = prompt.ids;
  request.max_tokens = asked.max_tokens == 0 ? -1 : asked.max_tokens;
  request.reply = asked.reply;
  request.ignore_eos = asked.ignore_end != 0;
  request.stop = stop_strings(asked);
  request.first_piece = prompt.first_piece;
  request.abort = &session.abort;
  request.on_text = [&asked](std::string_view bytes, int exit_layer) {
    return !asked.on_text ||
           asked.on_text(asked.user_data, bytes.data(), bytes.size(), exit_layer) == 0;
  };
  Reply reply = reply_to(session, request);
  const std::lock_guard lock(session.mutex);
  session.newest = std::move(reply.stats);
}

double or_nan(const std::optional<double>& value) {
  return value ? *value : std::nan("");
}

sb_stats exported(const ReplyStats& reply) {
  const GenerateStats& g = reply.generated;
  sb_stats out = {};
  out.stop_reason = exported(g.stop);
  out.speculated = g.speculated;
  out.prompt_tokens = g.prompt_tokens;
  out.prefilled_tokens = g.prefilled_tokens;
  out.generated_tokens = g.generated_tokens;
  out.rounds = g.counters.rounds;
  out.drafted_tokens = g.counters.drafted_tokens;
  out.accepted_tokens = g.counters.accepted_tokens;
  out.prefill_seconds = g.prefill_seconds;
  out.decode_seconds = g.decode_seconds;
  out.first_token_seconds = or_nan(g.ttft_seconds);
  out.prefill_tokens_per_second = or_nan(reply.prefill_tokens_per_second());
  out.decode_tokens_per_second = or_nan(reply.decode_tokens_per_second());
  out.plain_tokens_per_second = or_nan(reply.plain_tokens_per_second());
  out.speedup = or_nan(reply.speedup());
  out.compression_rate = or_nan(reply.compression_rate());
  out.mean_exit_layer = or_nan(reply.mean_exit_layer());
  return out;
}

}  // namespace

sb_status sb_sampling_init(sb_sampling* sampling, size_t size) {
  if (!sampling || size < sizeof(size_t)) return SB_ERROR_USAGE;
  sampling->size = size;
  Failure nobodys;
  try {
    give_out(exported(SamplingParams()), sampling, "sampling");
    return SB_OK;
  } catch (...) {
    return keep_failure(nobodys);
  }
}

sb_status sb_session_new(sb_model* model, const sb_sampling* sampling, sb_session** session) {
  if (session) *session = nullptr;
  return guarded(model, [&] {
    need(session, "session");
    const Engine& engine = engine_of(*model);
    auto made = std::make_unique<sb_session>();
    if (sampling) made->sampling = imported(sampling);
    made->engine = model->engine;
    made->speculates = engine.begins_speculating();
    *session = made.release();
  });
}

void sb_session_free(sb_session* session) {
  delete session;
}

size_t sb_session_error(const sb_session* session, char* buffer, size_t size) {
  if (session) return session->failure.copy(buffer, size);
  if (buffer && size > 0) *buffer = '\0';
  return 0;
}

sb_status sb_session_set_sampling(sb_session* session, const sb_sampling* sampling) {
  return guarded(session, [&] {
    const SamplingParams params = imported(sampling);
    const std::lock_guard lock(session->mutex);
    session->sampling = params;
  });
}

sb_status sb_session_set_speculation(sb_session* session, int on) {
  return guarded(session, [&] {
    if (on) {
      Engine::Turn turn(*session->engine);
      Speculation& speculation = turn.speculation();
      if (!speculation.active() && !speculation.set_active(true)) {
        throw Error(ErrorCode::kUnsupported, speculation.description());
      }
    }
    const std::lock_guard lock(session->mutex);
    session->speculates = on != 0;
  });
}

sb_status sb_generate(sb_session* session, const sb_request* request) {
  return guarded(session, [&] { generate(*session, take_in(request, "request")); });
}

void sb_abort(sb_session* session) {
  if (session) session->abort = true;
}

sb_status sb_session_get_stats(const sb_session* session, sb_stats* stats) {
  return guarded(session, [&] {
    ReplyStats newest;
    bool none;
    {
      const std::lock_guard lock(session->mutex);
      none = !session->newest;
      if (session->newest) newest = *session->newest;
    }
    sb_stats out = exported(newest);
    if (none) out.stop_reason = SB_STOP_NONE;
    give_out(out, stats, "stats");
  });
}
