// specbound lens: the paper's Figure 1 for a prompt. stdout carries the table, stderr the rest.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>

#include "app/cli.h"
#include "app/commands.h"
#include "app/file_output.h"
#include "app/interrupt.h"
#include "app/lens_views.h"
#include "app/loaded_model.h"
#include "app/progress.h"
#include "app/prompt.h"
#include "app/speculation_flags.h"
#include "app/standard_output.h"
#include "error.h"

namespace specbound {

namespace {

constexpr int kMaxTokens = 256;

struct LensFlags {
  ModelFlags model;
  TextFlags text;
  PromptFlags prompt;
  SpecBoundFlags specbound;
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

}  // namespace

int command_lens(int argc, char** argv) {
  LensFlags flags;
  CLI::App app(
      "Show what each layer would say: for every token of the greedy reply, the top token of each "
      "layer and its confidence, and where a draft would leave (paper, Figure 1). Sampling is "
      "always greedy here. The table goes to stdout, everything else to stderr.");
  add_text_flags(app, flags.text, "the prompt",
                 "read the prompt from a file, - for stdin; one line end at its end is cut");
  add_prompt_flags(app, flags.prompt);
  app.add_option("--sys,--system-prompt", flags.system, "system prompt (default: none)")
      ->type_name("TEXT");
  add_int(app, "-n,--n-predict,--predict", flags.n_tokens, 1, kMaxTokens,
          "tokens at most (default 16); the end token counts")
      ->configurable(false);  // chat's may be -1
  add_output_file(app, "--svg", flags.svg, "write the table as a picture too");
  add_output_file(app, "--json", flags.json, "write the table as JSON too");
  add_exit_flags(app, flags.specbound);
  add_model_flags(app, flags.model);
  app.footer(kExamples);
  if (const std::optional<int> status = parse_cli(app, argc, argv)) return *status;
  flags.prompt.check(flags.system, flags.model);
  check_distinct(flags.svg, flags.json);
  if (!flags.svg.empty()) check_writable(flags.svg);
  if (!flags.json.empty()) check_writable(flags.json);
  const std::string text = flags.text.prompt();

  catch_interrupts();
  LoadedModel model(flags.model);
  const SpecBoundParams params = flags.specbound.resolve(model.config().n_layers);
  const Prompt prompt = make_prompt(model, flags.prompt, flags.system, text);
  model.load();
  if (const std::string why = no_exits(params, model.config().n_layers); !why.empty()) {
    std::fprintf(stderr, "no exits to mark: %s\n", why.c_str());
  }

  LensHead head;
  const LensTable table = collect(model, head, params, prompt, flags.n_tokens);
  if (table.stop == StopReason::kContext) {
    std::fprintf(stderr, "the context of %d tokens is full: -c allows more\n", model.n_ctx());
  }
  const LensView view = {table, model.path(), head.name(),
                         [&model](int32_t id) { return model.tokenizer().piece(id, true); }};
  if (!flags.svg.empty()) write_file(flags.svg, lens_svg(view));
  if (!flags.json.empty()) write_file(flags.json, lens_json(view));
  return write_stdout(lens_terminal(view, terminal_style(STDOUT_FILENO, "stdout"))) ? 0 : 1;
}

}  // namespace specbound
