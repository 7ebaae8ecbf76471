#include "app/reply.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>

#include "app/interrupt.h"
#include "app/progress.h"
#include "error.h"

namespace specbound {

void TextOutput::write(std::string_view bytes) {
  put(utf8_.push(bytes));
}

void TextOutput::end_line() {
  put(utf8_.finish() + "\n");
  utf8_ = Utf8Stream();
}

void TextOutput::put(std::string_view text) {
  if (error_ != 0 || text.empty()) return;
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    error_ = errno != 0 ? errno : EIO;
  }
}

void TextOutput::check() const {
  if (error_ == 0 || error_ == EPIPE) return;
  throw Error(ErrorCode::kFile, format("stdout: cannot write: %s", std::strerror(error_)));
}

Reply generate_reply(LoadedModel& model, Session& session, const ReplyFlags& flags,
                     const ReplyRequest& request, TextOutput& output) {
  Reply reply;
  std::optional<Progress> bar;
  bool first = true;

  GenerateOptions options;
  options.max_tokens = flags.n_predict;
  options.reply = request.reply;
  options.abort = &interrupt_flag();
  if (!flags.ignore_eos) options.is_end = [&](int32_t id) { return model.ends_reply(id); };
  options.on_prefill = [&](int done, int total) {
    if (!bar) bar.emplace("reading the prompt", Progress::Unit::kItems);
    bar->update(done, total);
  };
  options.on_token = [&](const TokenEvent& event) {
    const int32_t id = event.token;
    bar.reset();
    if (!reply.first_token) reply.first_token = std::chrono::steady_clock::now();
    std::string piece = model.tokenizer().piece(id);
    if (first && !piece.empty()) {
      if (request.first_piece) piece = request.first_piece(id, piece);
      first = false;
    }
    reply.text += piece;
    output.write(piece);
    if (output.error() != 0) raise_interrupt();  // nobody reads any more
  };
  reply.stats.generated = session.generate(request.prompt, options);
  bar.reset();

  reply.stats.seed = session.sampler().params().seed;
  reply.stats.reply = request.reply;
  reply.stats.model = model.path();
  reply.stats.backend = model.backend().description();
  reply.stats.load_seconds = model.load_seconds();
  return reply;
}

}  // namespace specbound
