// specbound run: one prompt, one reply. stdout carries the text and one newline, stderr the rest.
#include <utility>

#include "cli/command.h"
#include "cli/common_flags.h"
#include "cli/speculation_flags.h"
#include "runtime/prompt.h"
#include "runtime/speculative_model.h"
#include "system/file_output.h"
#include "terminal/flag_names.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "terminal/reply.h"
#include "tools/layer_film.h"

namespace specbound::run_command {

namespace {

struct RunFlags {
  ModelOptions model;
  SamplingOptions sampling;
  ReplyOptions reply;
  SpeculationOptions speculation;
  PlaceFlags places;
  TextFlags text;
  PromptOptions prompt;
  std::string record;  // empty: none
};

constexpr const char* kExamples =
    "Examples:\n"
    "  specbound run -p \"I need a table for two tonight.\"\n"
    "  specbound run model.gguf \"Find me a flight to Oslo.\"\n"
    "  specbound run -p \"Find me a flight to Oslo.\" -n 64 --temp 0\n"
    "  echo \"Play some jazz.\" | specbound run -m model.gguf --seed 7 > reply.txt\n"
    "  specbound run -m model.gguf -p \"Sum this up:\" < notes.txt\n"
    "  specbound run -m base-model.gguf --raw -p \"Once upon a time\" -n 200\n"
    "  specbound run -p \"Book me a hotel.\" --speculator ngram --show-exits\n"
    "  specbound run -m model.gguf -p \"Ann is 31.\" --json-schema person.json";

void declare(Flags& flags, RunFlags& given) {
  add_place_flags(flags, given.places, given.model, &given.text);
  add_text_flags(flags, given.text, "the prompt; what is piped in stands behind it",
                 "read the prompt from a file, - for stdin; one line end at its end is cut");
  add_prompt_flags(flags, given.prompt);
  add_reply_flags(flags, given.reply);
  flags
      .add_output_file("--record", given.record,
                       "write which layer each token left from as an animated SVG, for a browser")
      .type("FILE.svg");
  add_sampling_flags(flags, given.sampling);
  add_speculation_flags(flags, given.speculation);
  add_model_flags(flags, given.model);
  add_chat_template_file(flags, given.model);
}

void check_record(const RunFlags& given) {
  if (given.record.empty()) return;
  check_distinct(given.record, given.reply.trace);
  check_distinct(given.record, given.reply.stats_json);
  check_writable(given.record);
}

int run(RunFlags& given) {
  given.prompt.check(given.reply.system, given.model);
  check_outputs(given.reply);
  check_record(given);
  SamplingParams sampling = given.sampling.resolve();
  const Grammar::Shared grammar = given.reply.grammar.read();
  const std::string text = given.text.prompt();

  catch_interrupts();
  SpeculativeModel opened(given.model, given.speculation, terminal_watcher(given.reply.quiet));
  LoadedModel& model = opened.model();
  const Prompt prompt = make_prompt(model, given.prompt, given.reply.system, text);
  sampling.grammar = model.constrain(grammar);
  opened.load();
  Speculation& speculation = opened.speculation();
  if (!given.reply.quiet) say(speculation.description());

  Session session(model.backend(), Sampler(sampling));
  session.set_speculator(speculation.speculator());
  ReplyOutput output(given.reply);
  ReplyRequest request;
  request.prompt = prompt.ids;
  request.first_piece = prompt.first_piece;
  LayerFilm film(model.path(), model.config().n_layers);
  if (!given.record.empty()) {
    request.on_round = [&](const RoundEvent& round) {
      if (film.whole()) return;
      film.add(record_round(round, [&](int32_t id) { return model.tokenizer().piece(id); }));
    };
  }
  Reply reply =
      show_reply(model, session, given.reply, std::move(request), speculation.speculator(), output);
  output.end_reply(reply.stats.generated);
  if (reply.first_token) {
    reply.stats.start_to_first_token_seconds =
        std::chrono::duration<double>(*reply.first_token - program_start()).count();
  }
  name_heads(reply.stats, speculation.heads());
  if (!given.reply.quiet) say(stats_line(reply.stats));
  if (!given.reply.stats_json.empty()) {
    write_file(given.reply.stats_json, stats_json(reply.stats));
  }
  if (!given.record.empty()) write_file(given.record, film.svg());
  const int status = output.finish();
  return reply.stats.generated.stop == StopReason::kAborted ? 1 : status;
}

const CommandOf<RunFlags> kRun(
    {.rank = 10,
     .name = "run",
     .summary = "complete one prompt and print the text",
     .text = "Complete one prompt. The text goes to stdout, everything else to stderr.",
     .footer = kExamples},
    declare, run);

}  // namespace

}  // namespace specbound::run_command
