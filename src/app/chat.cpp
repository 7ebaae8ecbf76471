// specbound chat: a conversation, one line a message. Works on a terminal and through pipes:
// prompts appear on a terminal only, replies go to stdout, everything else to stderr.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "app/cli.h"
#include "app/commands.h"
#include "app/conversation.h"
#include "app/file_output.h"
#include "app/interrupt.h"
#include "app/loaded_model.h"
#include "app/reply.h"
#include "app/speculation.h"
#include "app/terminal_text.h"
#include "app/text_input.h"
#include "error.h"

namespace specbound {

namespace {

constexpr const char* kExamples =
    "Commands inside: /help /clear /regen /spec on|off /show-exits /stats /exit. Ctrl-C stops a "
    "reply; at the prompt it leaves.\n"
    "\n"
    "Examples:\n"
    "  specbound chat\n"
    "  specbound chat -m model.gguf --sys \"Answer in one sentence.\" --temp 0.6\n"
    "  printf 'Hello!\\n/regen\\n' | specbound chat --seed 7";

constexpr const char* kHelp =
    "/clear        forget the conversation\n"
    "/regen        another reply to the last message\n"
    "/spec on|off  draft tokens, or decode plainly: the same text; alone: which of the two\n"
    "/show-exits   colour tokens by the layer their drafts left at, or stop it\n"
    "/stats        figures of this session\n"
    "/help         this list\n"
    "/exit         leave (so do Ctrl-D, and Ctrl-C at the prompt)\n"
    "//text        send a message that begins with a slash\n";

struct ChatFlags {
  ModelFlags model;
  SamplingFlags sampling;
  ReplyFlags reply;
  SpeculationFlags speculation;
};

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Commands that take nothing after their name.
constexpr std::string_view kBareCommands[] = {"/exit",  "/quit",       "/help", "/clear",
                                              "/regen", "/show-exits", "/stats"};

class Chat {
 public:
  Chat(LoadedModel& model, const ChatTemplate& chat_template, const ReplyFlags& flags,
       const SamplingParams& sampling, Speculation& speculation)
      : model_(model),
        template_(chat_template),
        flags_(flags),
        speculation_(speculation),
        session_(model.backend(), Sampler(sampling)),
        conversation_(model.tokenizer(), chat_template, flags.system),
        output_(flags) {
    session_.set_speculator(speculation_.speculator());
  }

  // False when the conversation is over.
  bool handle(const std::string& line);
  // The exit status. Throws Error(kFile) if stdout could not take the replies.
  int finish();

 private:
  void message(std::string text);
  void regenerate();
  void switch_speculation(std::string_view to);
  void toggle_exits();
  bool answer(uint32_t reply_number);
  void report(const Reply& reply);

  LoadedModel& model_;
  const ChatTemplate& template_;
  const ReplyFlags& flags_;
  Speculation& speculation_;
  Session session_;
  Conversation conversation_;
  ReplyOutput output_;
  uint32_t reply_ = 0;  // how often the newest message was answered before
  size_t n_used_ = 0;   // positions of the context that the conversation takes
  TotalStats totals_;
};

bool Chat::handle(const std::string& line) {
  const std::string_view word = trimmed(line);
  const std::string_view command = word.substr(0, word.find_first_of(" \t"));
  if (word.empty()) return true;
  if (word.starts_with("//")) {
    message(std::string(word.substr(1)));
  } else if (!word.starts_with("/")) {
    message(line);
  } else if (word != command && std::ranges::count(kBareCommands, command) > 0) {
    std::fprintf(stderr, "%s takes nothing after it; //... sends a message\n",
                 std::string(command).c_str());
  } else if (word == "/exit" || word == "/quit") {
    return false;
  } else if (word == "/help") {
    std::fputs(kHelp, stderr);
  } else if (word == "/clear") {
    conversation_.clear();
    n_used_ = 0;
    std::fprintf(stderr, "conversation cleared%s\n",
                 flags_.system.empty() ? "" : ", system prompt kept");
  } else if (word == "/regen") {
    regenerate();
  } else if (command == "/spec") {
    switch_speculation(trimmed(word.substr(command.size())));
  } else if (word == "/show-exits") {
    toggle_exits();
  } else if (word == "/stats") {
    const std::string figures =
        totals_line(totals_, n_used_, model_.n_ctx(), speculation_.active());
    std::fprintf(stderr, "%s\n", figures.c_str());
  } else {
    std::fprintf(stderr, "unknown command %s; /help lists them, //... sends a message\n",
                 printable(command).c_str());
  }
  return output_.error() == 0;
}

int Chat::finish() {
  return output_.finish();
}

void Chat::message(std::string text) {
  conversation_.add_user(std::move(text));
  if (answer(0)) {
    reply_ = 0;
  } else {
    conversation_.remove_last();
  }
}

void Chat::regenerate() {
  if (!conversation_.ends_with_reply()) {
    std::fprintf(stderr, "nothing to answer again yet\n");
    return;
  }
  ChatMessage old = conversation_.remove_last();
  if (answer(reply_ + 1)) {
    ++reply_;
  } else {
    conversation_.add_reply(std::move(old.content));
  }
}

void Chat::switch_speculation(std::string_view to) {
  if (!to.empty() && to != "on" && to != "off") {
    std::fprintf(stderr, "/spec %s: expected on or off, or nothing to see which\n",
                 printable(to).c_str());
    return;
  }
  if (!to.empty() && speculation_.set_active(to == "on")) {
    session_.set_speculator(speculation_.speculator());
  }
  std::fprintf(stderr, "%s\n", speculation_.description().c_str());
}

void Chat::toggle_exits() {
  const bool on = !output_.shows_exits();
  if (output_.show_exits(on) != on) return;  // it said why
  std::fprintf(stderr, "tokens are %s\n",
               on ? "coloured by the layer their drafts left at" : "no longer coloured");
}

// Adds the reply with this number to the conversation. False, and nothing added, if there was none:
// the message does not fit, or Ctrl-C came while the prompt was being read.
bool Chat::answer(uint32_t reply_number) {
  Conversation::Prompt prompt;
  try {
    prompt = conversation_.prompt(model_.n_ctx(), reply_reserve(model_.n_ctx(), flags_.n_predict));
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kLimit) throw;
    std::fprintf(stderr, "%s\n", e.what());
    return false;
  }
  if (prompt.dropped_turns > 0) {
    std::fprintf(stderr, "context full: dropped the oldest %d turn%s%s\n", prompt.dropped_turns,
                 prompt.dropped_turns == 1 ? "" : "s",
                 flags_.system.empty() ? "" : ", kept the system prompt");
  }
  const auto first_piece = [this](int32_t, std::string_view piece) {
    return template_.reply_text(piece);
  };
  const Reply reply = generate_reply(model_, session_, flags_,
                                     {.prompt = prompt.ids,
                                      .reply = reply_number,
                                      .first_piece = first_piece,
                                      .speculator = speculation_.speculator()},
                                     output_);
  clear_interrupt();
  const GenerateStats& generated = reply.stats.generated;
  if (generated.stop == StopReason::kAborted && generated.generated_tokens == 0) {
    std::fprintf(stderr, "stopped before the reply began: %s\n",
                 reply_number == 0 ? "the message is forgotten" : "the reply before it stays");
    output_.end_trace(generated);
    return false;
  }
  output_.end_reply(generated);
  conversation_.add_reply(reply.text);
  n_used_ = session_.tokens().size();
  report(reply);
  return true;
}

void Chat::report(const Reply& reply) {
  totals_.add(reply.stats.generated);
  std::fprintf(stderr, "[%s]\n", stats_line(reply.stats).c_str());
  if (flags_.stats_json.empty()) return;
  try {
    write_file(flags_.stats_json, stats_json(reply.stats));
  } catch (const Error& e) {  // no reason to end the conversation
    std::fprintf(stderr, "warning: %s\n", terminal_text(e.what()).c_str());
  }
}

}  // namespace

int command_chat(int argc, char** argv) {
  ChatFlags flags;
  CLI::App app("Talk with a model: one line a message, replies as they come.");
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
  Chat chat(model, chat_template, flags.reply, sampling, speculation);
  const bool interactive = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
  if (interactive) std::fputs("Type a message; /help lists the commands.\n", stderr);

  LineReader reader(STDIN_FILENO, interrupt_fd());
  std::string line;
  for (;;) {
    if (interactive) std::fputs("\n> ", stderr);
    try {
      const LineReader::Status status = reader.next(line);
      if (status != LineReader::Status::kLine) {
        if (interactive) std::fputc('\n', stderr);
        break;
      }
      if (!chat.handle(line)) break;
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kLimit) throw;
      std::fprintf(stderr, "%s\n", e.what());
    }
  }
  return chat.finish();
}

}  // namespace specbound
