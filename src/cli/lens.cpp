// specbound lens: the paper's Figure 1 for a prompt. stdout carries the table, stderr the rest.
#include <unistd.h>

#include <cstdio>
#include <optional>

#include "cli/command.h"
#include "cli/common_flags.h"
#include "cli/speculation_flags.h"
#include "runtime/loaded_model.h"
#include "runtime/prompt.h"
#include "system/file_output.h"
#include "terminal/flag_names.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "terminal/standard_output.h"
#include "tools/lens.h"

namespace specbound::lens_command {

namespace {

constexpr int kMaxTokens = 256;

struct LensFlags {
  ModelOptions model;
  TextFlags text;
  PromptOptions prompt;
  SpecBoundOptions specbound;
  std::string system, svg, json;
  int n_tokens = 16;
};

constexpr const char* kExamples =
    "Examples:\n"
    "  specbound lens -p \"I need a table for two tonight.\"\n"
    "  specbound lens -p \"Find me a flight to Oslo.\" -n 32 --svg lens.svg\n"
    "  specbound lens -m base-model.gguf --raw -p \"Once upon a time\" --tau 0.7 --alpha 0.5\n"
    "  echo \"Play some jazz.\" | specbound lens --json lens.json > table.txt";

LensTable collect(LoadedModel& model, ExitHead& head, const SpecBoundParams& params,
                  const Prompt& prompt, int n_tokens) {
  std::optional<Progress> bar;
  const auto show = [&bar](const char* label, int done, int total) {
    if (!bar) bar.emplace(label, Progress::Unit::kItems);
    bar->update(done, total);
  };
  LensRequest request;
  request.prompt = prompt.ids;
  request.n_tokens = n_tokens;
  request.is_end = [&model](int32_t id) { return model.ends_reply(id); };
  request.abort = &interrupt_flag();
  request.on_prefill = [&](int done, int total) {
    show("reading the prompt", done, total);
    if (done == total) bar.reset();
  };
  request.on_column = [&](int done, int total) { show("reading the layers", done, total); };
  return collect_lens(model.backend(), head, params, request);
}

void declare(Flags& flags, LensFlags& given) {
  add_text_flags(flags, given.text, "the prompt; what is piped in stands behind it",
                 "read the prompt from a file, - for stdin; one line end at its end is cut");
  add_prompt_flags(flags, given.prompt);
  add_system_flag(flags, given.system, "system prompt (default: none)");
  flags
      .add_int("-n,--n-predict,--predict", given.n_tokens, 1, kMaxTokens,
               "tokens at most (default 16); the end token counts")
      .command_line_only();  // chat's may be -1
  flags.add_output_file("--svg", given.svg, "write the table as a picture too");
  flags.add_output_file("--json", given.json, "write the table as JSON too");
  add_exit_flags(flags, given.specbound);
  add_model_flags(flags, given.model);
}

int run(LensFlags& given) {
  given.prompt.check(given.system, given.model);
  check_distinct(given.svg, given.json);
  if (!given.svg.empty()) check_writable(given.svg);
  if (!given.json.empty()) check_writable(given.json);
  const std::string text = given.text.prompt();

  catch_interrupts();
  LoadedModel model(given.model, terminal_watcher());
  const SpecBoundParams params = given.specbound.resolve(model.config().n_layers);
  const Prompt prompt = make_prompt(model, given.prompt, given.system, text);
  model.load();
  if (const std::string why = no_exits(params, model.config().n_layers); !why.empty()) {
    say("no exits to mark: " + why);
  }

  LensHead head;
  const LensTable table = collect(model, head, params, prompt, given.n_tokens);
  if (table.stop == StopReason::kContext) {
    std::fprintf(stderr, "the context of %d tokens is full: -c allows more\n", model.n_ctx());
  }
  const LensView view = {table, model.path(), head.name(),
                         [&model](int32_t id) { return model.tokenizer().piece(id, true); }};
  if (!given.svg.empty()) write_file(given.svg, lens_svg(view));
  if (!given.json.empty()) write_file(given.json, lens_json(view));
  return write_stdout(lens_terminal(view, terminal_style(STDOUT_FILENO, "stdout"))) ? 0 : 1;
}

const CommandOf<LensFlags> kLens(
    {.rank = 120,
     .name = "lens",
     .summary = "what each layer would say: the token it has in mind, and how sure",
     .text =
         "Show what each layer would say: for every token of the greedy reply, the top token of "
         "each "
         "layer and its confidence, and where a draft would leave (paper, Figure 1). Sampling is "
         "always greedy here. The table goes to stdout, everything else to stderr.",
     .footer = kExamples},
    declare, run);

}  // namespace

}  // namespace specbound::lens_command
