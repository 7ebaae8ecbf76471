#include "runtime/reply.h"

#include <algorithm>
#include <utility>

namespace specbound {

ReplyWriter::ReplyWriter(const LoadedModel& model, ReplyRequest request)
    : model_(model),
      request_(std::move(request)),
      text_(
          request_.stop, [this](int32_t id) { return piece(id); }, request_.first_piece) {}

std::string ReplyWriter::piece(int32_t id) const {
  return model_.tokenizer().piece(id, std::ranges::count(request_.spelled, id) > 0);
}

void ReplyWriter::show(const std::vector<ReplyText::Stretch>& stretches) {
  for (const auto& [bytes, exit_layer] : stretches) {
    reply_.text += bytes;
    if (wanted_ && request_.on_text) wanted_ = request_.on_text(bytes, exit_layer);
  }
}

GenerateOptions ReplyWriter::options() {
  GenerateOptions options;
  options.max_tokens = request_.max_tokens;
  options.reply = request_.reply;
  options.abort = request_.abort;
  options.unwanted = [this] { return !wanted_; };
  options.measure_plain = true;
  if (!request_.ignore_eos) {
    options.is_end = [this](int32_t id) { return model_.ends_reply(id); };
  }
  if (!request_.stop.empty()) {
    options.is_stop = [this](std::span<const int32_t> tokens) { return text_.ends(tokens); };
  }
  options.on_prefill = request_.on_prefill;
  options.on_logits = request_.on_logits;
  options.on_token = [this](const TokenEvent& event) {
    if (!reply_.first_token) reply_.first_token = std::chrono::steady_clock::now();
    if (request_.on_token) request_.on_token(event);
    show(text_.push(event.token, event.accepted() ? event.exit_layer : kNoDraft));
  };
  options.on_round = request_.on_round;
  return options;
}

Reply ReplyWriter::finish(const GenerateStats& generated, uint64_t seed, const Backend& backend) {
  reply_.stats.generated = generated;
  show(text_.finish());
  reply_.stats.seed = seed;
  reply_.stats.reply = request_.reply;
  reply_.stats.model = model_.path();
  reply_.stats.n_ctx = backend.n_ctx();
  reply_.stats.n_ctx_trained = model_.config().max_seq_len;
  reply_.stats.backend = backend.description();
  reply_.stats.load_seconds = model_.load_seconds();
  return std::move(reply_);
}

Reply generate_reply(const LoadedModel& model, Session& session, const ReplyRequest& request) {
  ReplyWriter writer(model, request);
  const GenerateStats generated = session.generate(request.prompt, writer.options());
  return writer.finish(generated, session.sampler().params().seed, session.backend());
}

}  // namespace specbound
