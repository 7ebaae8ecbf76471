// specbound run: one prompt, one reply. stdout carries the text and one newline, stderr the rest.
#include <cstdio>

#include "app/cli.h"
#include "app/commands.h"
#include "app/file_output.h"
#include "app/interrupt.h"
#include "app/loaded_model.h"
#include "app/reply.h"
#include "error.h"
#include "text/chat_template.h"

namespace specbound {

namespace {

struct RunFlags {
  ModelFlags model;
  SamplingFlags sampling;
  ReplyFlags reply;
  TextFlags text;
  bool raw = false;
  bool parse_special = false;
};

constexpr const char* kExamples =
    "Examples:\n"
    "  specbound run -p \"I need a table for two tonight.\"\n"
    "  specbound run -p \"Find me a flight to Oslo.\" -n 64 --temp 0\n"
    "  echo \"Play some jazz.\" | specbound run -m model.gguf --seed 7 > reply.txt\n"
    "  specbound run -m base-model.gguf --raw -p \"Once upon a time\" -n 200";

struct Prompt {
  std::vector<int32_t> ids;
  std::function<std::string(int32_t, std::string_view)> first_piece;
};

// The text as it is, from BOS if the vocabulary starts texts with one.
Prompt raw_prompt(const LoadedModel& model, const RunFlags& flags, const std::string& text) {
  const Tokenizer& tokenizer = model.tokenizer();
  Prompt prompt;
  prompt.ids = tokenizer.encode(text, {.parse_special = flags.parse_special});
  if (text.empty()) {
    if (prompt.ids.empty() && tokenizer.bos() >= 0) prompt.ids = {tokenizer.bos()};
    // The reply is the whole text: the space that vocabularies put before a first word goes.
    prompt.first_piece = [&tokenizer](int32_t id, std::string_view) {
      return tokenizer.decode(std::span(&id, 1));
    };
  }
  if (prompt.ids.empty()) {
    throw Error(ErrorCode::kUsage,
                format("%s: the vocabulary has no BOS token to start from: give a prompt",
                       model.path().c_str()));
  }
  return prompt;
}

Prompt chat_prompt(const LoadedModel& model, const ChatTemplate& chat_template,
                   const RunFlags& flags, const std::string& text) {
  std::vector<ChatMessage> messages;
  if (!flags.reply.system.empty()) {
    messages.push_back({ChatMessage::Role::kSystem, flags.reply.system});
  }
  messages.push_back({ChatMessage::Role::kUser, text});
  Prompt prompt;
  prompt.ids = chat_template.encode(model.tokenizer(), messages);
  prompt.first_piece = [&chat_template](int32_t, std::string_view piece) {
    return chat_template.reply_text(piece);
  };
  return prompt;
}

}  // namespace

int command_run(int argc, char** argv) {
  RunFlags flags;
  CLI::App app("Complete one prompt. The text goes to stdout, everything else to stderr.");
  add_text_flags(app, flags.text, "the prompt",
                 "read the prompt from a file, - for stdin; one line end at its end is cut");
  app.add_flag("--raw", flags.raw, "no chat template: the model continues the text");
  app.add_flag("--parse-special", flags.parse_special,
               "with --raw: control tokens spelled in the prompt become those tokens");
  add_reply_flags(app, flags.reply);
  add_sampling_flags(app, flags.sampling);
  add_model_flags(app, flags.model);
  app.footer(kExamples);
  if (const std::optional<int> status = parse_cli(app, argc, argv)) return *status;
  if (flags.raw && !flags.reply.system.empty()) {
    throw Error(ErrorCode::kUsage, "--sys needs the chat template that --raw leaves out");
  }
  if (flags.parse_special && !flags.raw) {
    throw Error(ErrorCode::kUsage, "--parse-special works with --raw only");
  }
  if (!flags.reply.stats_json.empty()) check_writable(flags.reply.stats_json);
  const SamplingParams sampling = flags.sampling.resolve();
  const std::string text = flags.text.prompt();

  catch_interrupts();
  LoadedModel model(flags.model);
  std::unique_ptr<ChatTemplate> chat_template;
  if (!flags.raw) chat_template = ChatTemplate::from_gguf(model.gguf());
  const Prompt prompt =
      flags.raw ? raw_prompt(model, flags, text) : chat_prompt(model, *chat_template, flags, text);

  // Session says the same, but only when the weights are there.
  if (prompt.ids.size() > static_cast<size_t>(model.n_ctx())) {
    throw Error(ErrorCode::kLimit,
                format("the prompt has %zu tokens, the context holds %d: shorten it or raise -c",
                       prompt.ids.size(), model.n_ctx()));
  }
  model.load();

  Session session(model.backend(), Sampler(sampling));
  TextOutput output;
  Reply reply = generate_reply(model, session, flags.reply,
                               {.prompt = prompt.ids, .first_piece = prompt.first_piece}, output);
  output.end_line();
  if (reply.first_token) {
    reply.stats.start_to_first_token_seconds =
        std::chrono::duration<double>(*reply.first_token - program_start()).count();
  }
  std::fprintf(stderr, "%s\n", stats_line(reply.stats).c_str());
  if (!flags.reply.stats_json.empty()) {
    write_file(flags.reply.stats_json, stats_json(reply.stats));
  }
  output.check();
  return reply.stats.generated.stop == StopReason::kAborted ? 1 : 0;
}

}  // namespace specbound
