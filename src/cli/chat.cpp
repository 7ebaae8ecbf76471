// specbound chat: a conversation in the terminal, edited line by line, or through pipes. Prompts
// appear on a terminal only, replies go to stdout, everything else to stderr.
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "cli/chat_settings.h"
#include "cli/command.h"
#include "cli/common_flags.h"
#include "cli/learning_flags.h"
#include "cli/speculation_flags.h"
#include "error.h"
#include "repl/chat.h"
#include "repl/commands.h"
#include "repl/history_file.h"
#include "repl/line_editor.h"
#include "repl/line_input.h"
#include "runtime/speculative_model.h"
#include "terminal/flag_names.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "terminal/reply.h"
#include "tools/lens.h"

namespace specbound::chat_command {

namespace {

constexpr const char* kExamples =
    "/help lists the commands inside: /regen, /edit, /save, /load, /set, /stats, /lens and others. "
    "\"\"\" begins and ends a message of many lines. Ctrl-C stops a reply; at the prompt it clears "
    "the line, and twice it leaves.\n"
    "\n"
    "Examples:\n"
    "  specbound chat\n"
    "  specbound chat model.gguf\n"
    "  specbound chat -m model.gguf --sys \"Answer in one sentence.\" --temp 0.6\n"
    "  printf 'Hello!\\n/regen\\n' | specbound chat --seed 7";

struct ChatFlags {
  PlaceFlags places;
  ModelOptions model;
  SamplingOptions sampling;
  ReplyOptions reply;
  SpeculationOptions speculation;
  IdleLearningOptions learning = {.mode = LearningMode::kAsk};
  bool no_history = false;
};

// Lines from a terminal, edited, where that is possible; else as they come.
std::unique_ptr<LineInput> open_input(const Chat& chat, bool no_history) {
  const SetCommand& settings = chat.settings();
  CompletionSource source = {
      settings.names(), [&settings](const std::string& name) { return settings.values(name); },
      [&settings](const std::string& name) { return settings.takes_file(name); }};
  auto editor = open_line_editor(no_history ? "" : history_path(), std::move(source));
  return editor ? std::move(editor) : std::make_unique<PlainInput>();
}

// What /lens shows.
auto lens_of(const LoadedModel& model) {
  return [&model](Session& session, const SpecBoundParams& params, int from, int to) {
    const LensTable table = look_back(session, params, from, to, interrupt_flag());
    const LensView view = {table, model.path(), "lens",
                           [&model](int32_t id) { return model.tokenizer().piece(id, true); }};
    return lens_terminal(view, terminal_style(STDERR_FILENO, "stderr"));
  };
}

// False: a line was too long to be one.
bool talk(Chat& chat, LineInput& input) {
  std::string entry;
  bool quoted = false, warned = false, whole = true;
  while (!OrderlyEnd::begun()) {
    try {
      const LineInput::Status status = read_entry(input, entry, quoted);
      if (status == LineInput::Status::kCancelled && !input.cancel_leaves()) {
        chat.cancel();
        const bool asked = entry.empty() && !quoted;
        if (asked && warned) return whole;
        warned = asked;
        if (asked) std::fputs("Ctrl-C again, Ctrl-D or /exit leaves\n", stderr);
        continue;
      }
      if (status != LineInput::Status::kLine) return whole;
      warned = false;
      if (!trimmed(entry).empty()) input.remember(quoted ? message_line(entry) : entry);
      if (!chat.handle(entry, quoted)) return whole;
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kLimit) throw;
      say(e.what());
      whole = false;
    }
  }
  return whole;
}

void declare(Flags& flags, ChatFlags& given) {
  add_place_flags(flags, given.places, given.model);
  flags.add_switch("--no-history", given.no_history,
                   "neither read nor keep the history of what was typed, and of replies to draft "
                   "from");
  add_reply_flags(flags, given.reply);
  flags["--stats-json"].description(
      "write the figures of the newest reply as JSON, rewritten after each");
  add_sampling_flags(flags, given.sampling);
  given.speculation.remember = true;  // unless a flag says otherwise
  add_speculation_flags(flags, given.speculation);
  add_learning_flags(flags, given.learning);
  add_model_flags(flags, given.model);
  add_chat_template_file(flags, given.model);
}

// Through a pipe there is nobody to ask, and no time between two lines.
IdleLearningOptions learning_options(const ChatFlags& given, bool terminal) {
  IdleLearningOptions options = given.learning;
  if (!terminal && options.mode == LearningMode::kAsk) options.mode = LearningMode::kOff;
  options.keeps_conversations = !given.no_history;
  return options;
}

int run(ChatFlags& given) {
  check_outputs(given.reply);
  SamplingParams sampling = given.sampling.resolve();
  const Grammar::Shared grammar = given.reply.grammar.read();

  const OrderlyEnd end;  // behind all that keeps something
  SpeculativeModel opened(given.model, given.speculation, terminal_watcher(given.reply.quiet));
  LoadedModel& model = opened.model();
  Speculation& speculation = opened.speculation();
  const ChatTemplate& chat_template = model.chat_template();
  sampling.grammar = model.constrain(grammar);
  opened.load();
  if (!given.no_history) speculation.recall();
  if (!given.reply.quiet) say(speculation.description());
  const bool terminal = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
  IdleLearning learning(learning_options(given, terminal), given.model, given.speculation, model,
                        speculation);
  Chat chat(model, chat_template, given.reply, sampling, given.speculation, speculation,
            {chat_setting_flags(), lens_of(model), &learning});
  const std::unique_ptr<LineInput> input = open_input(chat, given.no_history);
  chat.edit_in(*input);
  input->on_keys([&learning] { const IdleLearning::Work key(&learning); });
  begin_learning(learning, given.reply.quiet);
  if (!given.reply.quiet && terminal) {
    std::fputs("Type a message; /help lists the commands.\n", stderr);
  }
  const bool whole = talk(chat, *input);
  try {
    if (!given.no_history) speculation.keep_replies();
  } catch (const Error& e) {  // the chat was fine
    say(std::string(e.what()) + ": no replies are kept; --no-history does not try");
  }
  const int status = chat.finish();
  // Who types has seen it; a script is told.
  return !isatty(STDIN_FILENO) && (!whole || chat.unanswered()) ? 1 : status;
}

const CommandOf<ChatFlags> kChat(
    {.rank = 20,
     .name = "chat",
     .summary = "talk with a model in the terminal",
     .text = "Talk with a model: one line a message, replies as they come.",
     .footer = kExamples},
    declare, run);

}  // namespace

}  // namespace specbound::chat_command
