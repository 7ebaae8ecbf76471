// specbound chat: a conversation in the terminal, edited line by line, or through pipes. Prompts
// appear on a terminal only, replies go to stdout, everything else to stderr.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "app/cli.h"
#include "app/commands.h"
#include "app/interrupt.h"
#include "app/loaded_model.h"
#include "app/reply.h"
#include "app/speculation.h"
#include "error.h"
#include "repl/chat.h"
#include "repl/commands.h"
#include "repl/history_file.h"
#include "repl/line_editor.h"
#include "repl/line_input.h"

namespace specbound {

namespace {

constexpr const char* kExamples =
    "/help lists the commands inside: /regen, /edit, /save, /load, /set, /stats, /lens and others. "
    "\"\"\" begins and ends a message of many lines. Ctrl-C stops a reply; at the prompt it clears "
    "the line, and twice it leaves.\n"
    "\n"
    "Examples:\n"
    "  specbound chat\n"
    "  specbound chat -m model.gguf --sys \"Answer in one sentence.\" --temp 0.6\n"
    "  printf 'Hello!\\n/regen\\n' | specbound chat --seed 7";

struct ChatFlags {
  ModelFlags model;
  SamplingFlags sampling;
  ReplyFlags reply;
  SpeculationFlags speculation;
  bool no_history = false;
};

// Lines from a terminal, edited, where that is possible; else as they come.
std::unique_ptr<LineInput> open_input(const Chat& chat, bool no_history) {
  const Settings& settings = chat.settings();
  CompletionSource source = {
      settings.names(), [&settings](const std::string& name) { return settings.values(name); }};
  auto editor = open_line_editor(no_history ? "" : history_path(), std::move(source));
  return editor ? std::move(editor) : std::make_unique<PlainInput>();
}

void talk(Chat& chat, LineInput& input) {
  EntryReader entries(input);
  std::string entry;
  bool quoted = false, warned = false;
  for (;;) {
    try {
      const LineInput::Status status = entries.next(entry, quoted);
      if (status == LineInput::Status::kCancelled && !input.cancel_leaves()) {
        chat.cancel();
        const bool asked = entry.empty() && !quoted;
        if (asked && warned) return;
        warned = asked;
        if (asked) std::fputs("Ctrl-C again, Ctrl-D or /exit leaves\n", stderr);
        continue;
      }
      if (status != LineInput::Status::kLine) return;
      warned = false;
      if (!trimmed(entry).empty()) input.remember(quoted ? message_line(entry) : entry);
      if (!chat.handle(entry, quoted)) return;
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kLimit) throw;
      std::fprintf(stderr, "%s\n", e.what());
    }
  }
}

}  // namespace

int command_chat(int argc, char** argv) {
  ChatFlags flags;
  CLI::App app("Talk with a model: one line a message, replies as they come.");
  app.add_flag("--no-history", flags.no_history,
               "neither read nor keep the history of what was typed");
  add_reply_flags(app, flags.reply);
  app.get_option("--stats-json")
      ->description("write the figures of the newest reply as JSON, rewritten after each");
  add_sampling_flags(app, flags.sampling);
  add_speculation_flags(app, flags.speculation);
  add_model_flags(app, flags.model);
  app.footer(kExamples);
  if (const std::optional<int> status = parse_cli(app, argc, argv)) return *status;
  check_outputs(flags.reply);
  const SamplingParams sampling = flags.sampling.resolve();

  catch_interrupts();
  LoadedModel model(flags.model);
  Speculation speculation(flags.speculation, model);
  const ChatTemplate& chat_template = model.chat_template();
  model.load(speculation.heads());
  speculation.attach(model.backend());
  std::fprintf(stderr, "%s\n", speculation.description().c_str());
  Chat chat(model, chat_template, flags.reply, sampling, flags.speculation, speculation);
  const std::unique_ptr<LineInput> input = open_input(chat, flags.no_history);
  chat.edit_in(*input);
  if (isatty(STDIN_FILENO) && isatty(STDERR_FILENO)) {
    std::fputs("Type a message; /help lists the commands.\n", stderr);
  }
  talk(chat, *input);
  return chat.finish();
}

}  // namespace specbound
