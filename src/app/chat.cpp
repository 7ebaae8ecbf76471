// specbound chat: a conversation, one line a message. Works on a terminal and through pipes:
// prompts appear on a terminal only, replies go to stdout, everything else to stderr.
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "app/cli.h"
#include "app/commands.h"
#include "app/conversation.h"
#include "app/file_output.h"
#include "app/interrupt.h"
#include "app/loaded_model.h"
#include "app/reply.h"
#include "app/terminal_text.h"
#include "app/text_input.h"
#include "error.h"

namespace specbound {

namespace {

constexpr const char* kExamples =
    "Commands inside: /help /clear /regen /stats /exit. Ctrl-C stops a reply; at the prompt it "
    "leaves.\n"
    "\n"
    "Examples:\n"
    "  specbound chat\n"
    "  specbound chat -m model.gguf --sys \"Answer in one sentence.\" --temp 0.6\n"
    "  printf 'Hello!\\n/regen\\n' | specbound chat --seed 7";

constexpr const char* kHelp =
    "/clear   forget the conversation\n"
    "/regen   another reply to the last message\n"
    "/stats   figures of this session\n"
    "/help    this list\n"
    "/exit    leave (so do Ctrl-D, and Ctrl-C at the prompt)\n"
    "//text   send a message that begins with a slash\n";

struct ChatFlags {
  ModelFlags model;
  SamplingFlags sampling;
  ReplyFlags reply;
};

class Chat {
 public:
  Chat(LoadedModel& model, const ChatTemplate& chat_template, const ReplyFlags& flags,
       const SamplingParams& sampling)
      : model_(model),
        template_(chat_template),
        flags_(flags),
        session_(model.backend(), Sampler(sampling)),
        conversation_(model.tokenizer(), chat_template, flags.system) {}

  // False when the conversation is over.
  bool handle(const std::string& line);
  // The exit status. Throws Error(kFile) if stdout could not take the replies.
  int finish() const;

 private:
  void message(std::string text);
  void regenerate();
  bool answer(uint32_t reply_number);
  void report(const Reply& reply);
  int reserve() const;

  LoadedModel& model_;
  const ChatTemplate& template_;
  const ReplyFlags& flags_;
  Session session_;
  Conversation conversation_;
  TextOutput output_;
  uint32_t reply_ = 0;  // how often the newest message was answered before
  size_t n_used_ = 0;   // positions of the context that the conversation takes
  TotalStats totals_;
};

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool Chat::handle(const std::string& line) {
  const std::string_view word = trimmed(line);
  if (word.empty()) return true;
  if (word.starts_with("//")) {
    message(std::string(word.substr(1)));
  } else if (!word.starts_with("/")) {
    message(line);
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
  } else if (word == "/stats") {
    std::fprintf(stderr, "%s\n", totals_line(totals_, n_used_, model_.n_ctx()).c_str());
  } else {
    std::fprintf(stderr, "unknown command %s; /help lists them, //... sends a message\n",
                 printable(word.substr(0, word.find(' '))).c_str());
  }
  return output_.error() == 0;
}

int Chat::finish() const {
  output_.check();
  return output_.error() != 0 ? 1 : 0;
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

// Positions kept free for a reply before old turns are dropped for it.
int Chat::reserve() const {
  const int quarter = model_.n_ctx() / 4;
  return flags_.n_predict >= 0 ? std::min(flags_.n_predict, quarter) : quarter;
}

// Adds the reply with this number to the conversation. False, and nothing added, if there was none:
// the message does not fit, or Ctrl-C came while the prompt was being read.
bool Chat::answer(uint32_t reply_number) {
  Conversation::Prompt prompt;
  try {
    prompt = conversation_.prompt(model_.n_ctx(), reserve());
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
  const Reply reply = generate_reply(
      model_, session_, flags_,
      {.prompt = prompt.ids, .reply = reply_number, .first_piece = first_piece}, output_);
  clear_interrupt();
  const GenerateStats& generated = reply.stats.generated;
  if (generated.stop == StopReason::kAborted && generated.generated_tokens == 0) {
    std::fprintf(stderr, "stopped before the reply began: %s\n",
                 reply_number == 0 ? "the message is forgotten" : "the reply before it stays");
    return false;
  }
  output_.end_line();
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
  add_sampling_flags(app, flags.sampling);
  add_model_flags(app, flags.model);
  app.footer(kExamples);
  if (const std::optional<int> status = parse_cli(app, argc, argv)) return *status;
  if (!flags.reply.stats_json.empty()) check_writable(flags.reply.stats_json);
  const SamplingParams sampling = flags.sampling.resolve();

  catch_interrupts();
  LoadedModel model(flags.model);
  const std::unique_ptr<ChatTemplate> chat_template = ChatTemplate::from_gguf(model.gguf());
  model.load();
  Chat chat(model, *chat_template, flags.reply, sampling);
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
