#include "terminal/reply.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include "error.h"
#include "runtime/trace_output.h"
#include "system/file_output.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "terminal/terminal_text.h"

namespace specbound {

namespace {

int deepest_exit(const Speculator* speculator, int n_layers) {
  const SpecBound* specbound = as_specbound(speculator);
  const bool drafts = specbound && !specbound->check_layers().empty();
  return drafts ? specbound->check_layers().back() : n_layers - 1;
}

}  // namespace

void check_outputs(const ReplyOptions& options) {
  if (!options.stats_json.empty()) check_writable(options.stats_json);
  if (options.trace.empty()) return;
  check_distinct(options.trace, options.stats_json);
  check_writable(options.trace);
  if (shares_stdout(options.trace)) {
    throw Error(ErrorCode::kUsage,
                format("--trace %s: expected a file of its own, found stdout, which carries the "
                       "text; /dev/stderr works",
                       options.trace.c_str()));
  }
}

ReplyOutput::ReplyOutput(const ReplyOptions& options) : on_terminal_(isatty(STDOUT_FILENO) == 1) {
  if (!options.trace.empty()) trace_.emplace(options.trace, open_output(options.trace));
  if (options.show_exits) show_exits(true);
}

void ReplyOutput::break_at_words() {
  if (can_move_cursor(STDOUT_FILENO)) wrap_.emplace();
}

bool ReplyOutput::show_exits(bool on) {
  const std::string refusal = on ? color_refusal(STDOUT_FILENO, "stdout") : "";
  if (!refusal.empty()) std::fprintf(stderr, "no exit colours: %s\n", refusal.c_str());
  show_exits_ = on && refusal.empty();
  return show_exits_;
}

void ReplyOutput::begin_reply(int deepest_exit) {
  colors_ = ExitColors(deepest_exit);
  exits_.clear();
  shown_ = false;
  utf8_ = Utf8Stream();  // the one before may have ended in an error
  if (wrap_) wrap_.emplace();
}

void ReplyOutput::write(std::string_view bytes, int exit_layer) {
  std::string text = utf8_.push(bytes);
  if (on_terminal_) text = terminal_lines(text);
  shown_ = shown_ || !bytes.empty();
  if (show_exits_ && exit_layer != kNoDraft) exits_.insert(exit_layer);
  const auto painted = [&](std::string_view part) {
    return show_exits_ ? colors_.paint(part, exit_layer) : std::string(part);
  };
  put(wrap_ ? wrap_->push(text, terminal_columns(STDOUT_FILENO), painted) : painted(text));
}

void ReplyOutput::end_reply(const GenerateStats& stats) {
  put(utf8_.finish() + "\n");
  shown_ = false;
  if (show_exits_ && error_ == 0) {
    const bool painted = color_refusal(STDERR_FILENO, "stderr").empty();
    std::fprintf(stderr, "%s\n", colors_.legend(exits_, painted).c_str());
  }
  end_trace(stats);
}

void ReplyOutput::break_off() {
  if (std::exchange(shown_, false)) put(utf8_.finish() + "\n");
}

void ReplyOutput::end_trace(const GenerateStats& stats) {
  if (trace_) trace_->end_reply(trace_end(stats));
  check_trace();
}

void ReplyOutput::put(std::string_view text) {
  if (error_ != 0 || text.empty()) return;
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    error_ = errno != 0 ? errno : EIO;
  }
}

void ReplyOutput::check_trace() {
  if (!trace_ || trace_failed_ || trace_->error() == 0) return;
  trace_failed_ = true;
  std::fprintf(stderr, "warning: %s: cannot write the trace: %s; what is there is not all of it\n",
               terminal_text(trace_->path()).c_str(), std::strerror(trace_->error()));
}

int ReplyOutput::finish() {
  if (trace_) trace_->close();
  check_trace();
  if (error_ != 0 && error_ != EPIPE) {
    throw Error(ErrorCode::kFile, format("stdout: cannot write: %s", std::strerror(error_)));
  }
  return error_ != 0 || trace_failed_ ? 1 : 0;
}

Reply show_reply(LoadedModel& model, Session& session, const ReplyOptions& options,
                 ReplyRequest request, const Speculator* speculator, ReplyOutput& output) {
  std::optional<Progress> bar;
  request.max_tokens = options.n_predict;
  request.ignore_eos = options.ignore_eos;
  request.stop = options.stop;
  request.abort = &interrupt_flag();
  request.on_prefill = [&](int done, int total) {
    if (options.quiet) return;
    if (!bar) bar.emplace("reading the prompt", Progress::Unit::kItems);
    bar->update(done, total);
  };
  request.on_token = [&](const TokenEvent&) { bar.reset(); };
  request.on_text = [&](std::string_view bytes, int exit_layer) {
    output.write(bytes, exit_layer);
    return output.error() == 0;
  };
  output.begin_reply(deepest_exit(speculator, model.config().n_layers));
  Recorder* trace = output.trace();
  if (trace) {
    begin_trace(*trace, model);
    TraceReply begun = trace_reply(session.sampler().params(), speculator);
    begun.regen = request.reply;
    begun.prompt_tokens = static_cast<int>(request.prompt.size());
    begun.max_tokens = request.max_tokens;
    begun.stop_strings = request.stop.strings();
    trace->begin_reply(begun);
    request.on_round = [trace, told = std::move(request.on_round)](const RoundEvent& event) {
      trace->round(event);
      if (told) told(event);
    };
  }
  return generate_reply(model, session, request);
}

}  // namespace specbound
