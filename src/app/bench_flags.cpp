#include "app/bench_flags.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <optional>
#include <string_view>

#include "app/bench_replay.h"
#include "app/bench_shapes.h"
#include "error.h"

namespace specbound {

namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  specbound bench --shape 7b --dtype int8\n"
    "  specbound bench --shape 13b --dtype fp16 -c 0 -o bench.json\n"
    "  specbound bench --shape 7b --replay trace.jsonl     rounds of run --trace trace.jsonl\n"
    "  specbound bench --shape 7b --replay-cr 3.78 --replay-exit 4 --checks 2\n"
    "  specbound bench --shape 7b --replay-grid            the paper's rates, exits 4 to 10";

// "3.78,4.2": numbers from `low` to `high`.
void add_numbers(CLI::App& app, const char* name, std::vector<double>& values, double low,
                 double high, bool whole, const std::string& description) {
  const auto read = [&values, name, low, high, whole](const std::string& text) {
    values.clear();
    std::string_view rest = text;
    for (;;) {
      const size_t end = rest.find(',');
      const std::optional<double> number = parse_number(rest.substr(0, end));
      const bool fits = number && *number >= low && *number <= high;
      if (!fits || (whole && *number != std::floor(*number))) {
        throw CLI::ValidationError(
            name, format("expected %s from %g to %g with commas between, found \"%s\"",
                         whole ? "whole numbers" : "numbers", low, high, printable(text).c_str()));
      }
      values.push_back(*number);
      if (end == std::string_view::npos) return;
      rest.remove_prefix(end + 1);
    }
  };
  app.add_option_function<std::string>(name, read, description)->type_name("LIST")->group("Replay");
}

}  // namespace

void add_bench_flags(CLI::App& app, BenchFlags& flags) {
  const auto text = [&](const char* name, std::string& value, const char* type,
                        const std::string& description) {
    return app.add_option(name, value, description)->type_name(type);
  };
  text("--shape", flags.shape, "SHAPE", format("%s (default 7b)", kBenchShapeHelp));
  text("--dtype", flags.dtype, "int8|fp16", "of the weights (default int8)");
  text("--device", flags.device, "auto|cuda:N|cpu",
       "what is measured (default auto: the first GPU)");
  add_int(app, "-t,--threads", flags.n_threads, 0, kMaxThreads,
          "with --device cpu: threads (default 0: one per physical core)");
  add_int(app, "-c,--ctx-size", flags.context, 0, 1 << 20,
          "positions before the tokens, beside none (default 4096; 0: only none)");
  add_int(app, "-n,--n-gen", flags.n_gen, 1, 1 << 16, "tokens of a decoding run (default 128)");
  add_int(app, "-r,--repetitions", flags.repeats, 1, 1000,
          "of each measurement; medians are shown (default 5)");
  add_int(app, "--shortlist", flags.shortlist, 16, 1 << 20,
          "tokens of a folded check (default 8192, at most the vocabulary)");
  add_output_file(app, "-o,--json", flags.json, "write every figure as JSON");

  const std::string group = "Replay";
  add_file(app, "--replay", flags.trace,
           "rounds recorded by --trace, layers scaled to the shape's depth")
      ->group(group);
  add_numbers(app, "--replay-cr", flags.rates, 1, kMaxRows, false,
              "rounds drawn for these compression rates (tokens a round)");
  add_numbers(app, "--replay-exit", flags.exits, 1, 4096, false,
              "... and mean exit layers (default 4)");
  add_numbers(app, "--checks", flags.checks, 1, 64, true, "... and checks a row (default 2)");
  app.add_flag("--replay-grid", flags.grid,
               "rates that the paper has for Vicuna-7B by task, exits 4,6,8,10, checks 1,2,3,4, "
               "where not given")
      ->group(group);
  text("--head", flags.head, "folded|chained|full",
       "what checks (default folded; chained where a trace checks before layer 1)")
      ->group(group);
  add_int(app, "--rounds", flags.rounds, 1, 4096,
          "rounds of a replay (default 32; of a trace 256 at most)")
      ->group(group);
  add_int(app, "-p,--n-prompt", flags.prompt, 1, 1 << 20, "tokens before a replay (default 128)")
      ->group(group);
  app.footer(kExamples);
  // A measurement is what its command line says; where it runs is the machine's matter.
  for (CLI::Option* option : app.get_options()) {
    if (!option->check_lname("device") && !option->check_lname("threads")) {
      option->configurable(false);
    }
  }
}

void BenchFlags::check() {
  if (dtype != "int8" && dtype != "fp16") {
    throw Error(ErrorCode::kUsage,
                format("--dtype: expected int8 or fp16, found \"%s\"", printable(dtype).c_str()));
  }
  if (!trace.empty() && draws_rounds()) {
    throw Error(ErrorCode::kUsage,
                "--replay reads its rounds from a trace: leave out --replay-cr, --replay-exit, "
                "--checks and --replay-grid");
  }
  if (grid) {
    if (rates.empty()) {
      for (const PublishedTask& task : kPublishedTasks) {
        rates.push_back(task.compression_rate);
      }
    }
    if (exits.empty()) exits = {4, 6, 8, 10};
    if (checks.empty()) checks = {1, 2, 3, 4};
  } else if (draws_rounds()) {
    if (rates.empty()) {
      throw Error(ErrorCode::kUsage,
                  "--replay-exit and --checks need --replay-cr or --replay-grid");
    }
    if (exits.empty()) exits = {4};
    if (checks.empty()) checks = {2};
  }
  if (!head.empty() && !replays()) {
    throw Error(ErrorCode::kUsage, "--head: needs a replay; the measurements show every kind");
  }
}

}  // namespace specbound
