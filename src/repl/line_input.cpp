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
    if (text.size() > kMaxTextBytes) {
      throw Error(ErrorCode::kLimit,
                  format("a message is longer than %zu MiB: skipped", kMaxTextBytes >> 20));
    }
    status = input.next(LinePrompt::kMore, line);
    if (status == Status::kLine) continue;
    if (status == Status::kEnd) {
      std::fprintf(stderr, "the message was not ended by %s: not sent\n", kQuote.data());
    }
    entry = text + line;
    return status;
  }
  entry = std::move(text);
  return Status::kLine;
}

}  // namespace specbound
