#include "repl/line_input.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "error.h"
#include "repl/commands.h"
#include "terminal/interrupt.h"

namespace specbound {

namespace {

constexpr std::string_view kQuote = "\"\"\"";

}  // namespace

PlainInput::PlainInput()
    : reader_(STDIN_FILENO, interrupt_fd()),
      prompts_(isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1) {}

LineInput::Status PlainInput::next(LinePrompt prompt, std::string& line) {
  if (prompts_) std::fputs(prompt == LinePrompt::kMessage ? "\n> " : "... ", stderr);
  const LineReader::Status status = reader_.next(line);
  tell_keys();
  if (status == LineReader::Status::kLine) return Status::kLine;
  if (prompts_) std::fputc('\n', stderr);
  return status == LineReader::Status::kEnd ? Status::kEnd : Status::kCancelled;
}

LineInput::Status read_entry(LineInput& input, std::string& entry, bool& quoted) {
  using Status = LineInput::Status;
  Status status = input.next(LinePrompt::kMessage, entry);
  const std::string_view first = trimmed(entry);
  quoted = status == Status::kLine && first.starts_with(kQuote);
  if (!quoted) return status;

  std::string text;
  bool too_long = false;
  std::string line(first.substr(kQuote.size()));
  for (bool opening = true, begun = false;; opening = false) {
    const std::string_view end = trimmed(line);
    const bool closing = end.ends_with(kQuote);
    const std::string_view part =
        closing ? std::string_view(line).substr(0, line.rfind(kQuote)) : std::string_view(line);
    // Beside the marks there need not be anything.
    if (!(opening || closing) || !trimmed(part).empty()) {
      if (std::exchange(begun, true)) text += '\n';
      text += part;
    }
    if (closing) break;
    // What is too long is skipped up to its end: its lines are no messages and no commands. (A mark
    // at the end of a line that is too long by itself is skipped with it.)
    if (text.size() > kMaxTextBytes) {
      too_long = true;
      text.clear();
    }
    try {
      status = input.next(LinePrompt::kMore, line);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kLimit) throw;
      too_long = true;
      line.clear();
    }
    if (status == Status::kLine) continue;
    if (status == Status::kEnd) {
      throw Error(ErrorCode::kLimit,
                  format("the message was not ended by %s: not sent", kQuote.data()));
    }
    entry = text + line;
    return status;
  }
  if (too_long) {
    throw Error(ErrorCode::kLimit,
                format("a message is longer than %zu MiB: skipped", kMaxTextBytes >> 20));
  }
  entry = std::move(text);
  return Status::kLine;
}

}  // namespace specbound
