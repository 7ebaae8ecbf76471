// specbound run: one prompt, one reply. stdout carries the text and one newline, stderr the rest.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "app/cli.h"
#include "app/commands.h"
#include "app/file_output.h"
#include "app/interrupt.h"
#include "app/loaded_model.h"
#include "app/prompt.h"
#include "app/reply.h"
#include "app/speculation.h"

namespace specbound {

namespace {

struct RunFlags {
  ModelFlags model;
  SamplingFlags sampling;
  ReplyFlags reply;
  SpeculationFlags speculation;
  TextFlags text;
  PromptFlags prompt;
};

constexpr const char* kExamples =
    "Examples:\n"
    "  specbound run -p \"I need a table for two tonight.\"\n"
    "  specbound run -p \"Find me a flight to Oslo.\" -n 64 --temp 0\n"
    "  echo \"Play some jazz.\" | specbound run -m model.gguf --seed 7 > reply.txt\n"
    "  specbound run -m base-model.gguf --raw -p \"Once upon a time\" -n 200\n"
    "  specbound run -p \"Book me a hotel.\" --speculator ngram --show-exits";

}  // namespace

int command_run(int argc, char** argv) {
  RunFlags flags;
  CLI::App app("Complete one prompt. The text goes to stdout, everything else to stderr.");
  add_text_flags(app, flags.text, "the prompt",
                 "read the prompt from a file, - for stdin; one line end at its end is cut");
  add_prompt_flags(app, flags.prompt);
  add_reply_flags(app, flags.reply);
  add_sampling_flags(app, flags.sampling);
  add_speculation_flags(app, flags.speculation);
  add_model_flags(app, flags.model);
  app.footer(kExamples);
  if (const std::optional<int> status = parse_cli(app, argc, argv)) return *status;
  flags.prompt.check(flags.reply.system, flags.model);
  check_outputs(flags.reply);
  const SamplingParams sampling = flags.sampling.resolve();
  const std::string text = flags.text.prompt();

  catch_interrupts();
  LoadedModel model(flags.model);
  Speculation speculation(flags.speculation, model);
  const Prompt prompt = make_prompt(model, flags.prompt, flags.reply.system, text);
  model.load(speculation.heads());
  speculation.attach(model.backend());
  std::fprintf(stderr, "%s\n", speculation.description().c_str());

  Session session(model.backend(), Sampler(sampling));
  session.set_speculator(speculation.speculator());
  ReplyOutput output(flags.reply);
  Reply reply = generate_reply(model, session, flags.reply,
                               {.prompt = prompt.ids,
                                .first_piece = prompt.first_piece,
                                .speculator = speculation.speculator()},
                               output);
  output.end_reply(reply.stats.generated);
  if (reply.first_token) {
    reply.stats.start_to_first_token_seconds =
        std::chrono::duration<double>(*reply.first_token - program_start()).count();
  }
  std::fprintf(stderr, "%s\n", stats_line(reply.stats).c_str());
  if (!flags.reply.stats_json.empty()) {
    write_file(flags.reply.stats_json, stats_json(reply.stats));
  }
  const int status = output.finish();
  return reply.stats.generated.stop == StopReason::kAborted ? 1 : status;
}

}  // namespace specbound
