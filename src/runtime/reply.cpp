#include "runtime/reply.h"

#include <algorithm>
#include <vector>

namespace specbound {

Reply generate_reply(const LoadedModel& model, Session& session, const ReplyRequest& request) {
  const Tokenizer& tokenizer = model.tokenizer();
  Reply reply;
  bool wanted = true;
  const auto piece = [&](int32_t id) {
    return tokenizer.piece(id, std::ranges::count(request.spelled, id) > 0);
  };
  ReplyText text(request.stop, piece, request.first_piece);
  const auto show = [&](const std::vector<ReplyText::Stretch>& stretches) {
    for (const auto& [bytes, exit_layer] : stretches) {
      reply.text += bytes;
      if (wanted && request.on_text) wanted = request.on_text(bytes, exit_layer);
    }
  };

  GenerateOptions options;
  options.max_tokens = request.max_tokens;
  options.reply = request.reply;
  options.abort = request.abort;
  options.unwanted = [&] { return !wanted; };
  options.measure_plain = true;
  if (!request.ignore_eos) options.is_end = [&](int32_t id) { return model.ends_reply(id); };
  if (!request.stop.empty()) {
    options.is_stop = [&](std::span<const int32_t> tokens) { return text.ends(tokens); };
  }
  options.on_prefill = request.on_prefill;
  options.on_logits = request.on_logits;
  options.on_token = [&](const TokenEvent& event) {
    if (!reply.first_token) reply.first_token = std::chrono::steady_clock::now();
    if (request.on_token) request.on_token(event);
    show(text.push(event.token, event.accepted() ? event.exit_layer : kNoDraft));
  };
  options.on_round = request.on_round;
  reply.stats.generated = session.generate(request.prompt, options);
  show(text.finish());
  reply.stats.seed = session.sampler().params().seed;
  reply.stats.reply = request.reply;
  reply.stats.model = model.path();
  reply.stats.n_ctx = session.backend().n_ctx();
  reply.stats.n_ctx_trained = model.config().max_seq_len;
  reply.stats.backend = session.backend().description();
  reply.stats.load_seconds = model.load_seconds();
  return reply;
}

}  // namespace specbound
