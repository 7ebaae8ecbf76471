#include "app/bench_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "app/bench_replay.h"
#include "app/bench_shapes.h"
#include "error.h"

namespace specbound {

namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  specbound bench -m model.gguf                       pp512 and tg128, as llama-bench has "
    "them\n"
    "  specbound bench -m a.gguf -m b.gguf -p 128,512 -n 0 -d 0,4096 -o csv\n"
    "  specbound bench -m model.gguf --compare spec        plain and speculative decoding in turn\n"
    "  specbound bench --compare spec --prompts chat.jsonl --temp 0.7 --json compared.json\n"
    "  specbound bench --shape 7b --dtype int8             random weights, no file\n"
    "  specbound bench --shape 13b --dtype fp16 -c 0 --json bench.json\n"
    "  specbound bench --shape 7b --replay trace.jsonl     rounds of run --trace trace.jsonl\n"
    "  specbound bench --shape 7b --replay-cr 3.78 --replay-exit 4 --checks 2\n"
    "  specbound bench --shape 7b --replay-grid            the paper's rates, exits 4 to 10";

constexpr const char* kReplayGroup = "Replay (of a shape)";
constexpr const char* kCompareGroup = "Comparison (of a model)";

// "3.78,4.2": numbers from `low` to `high`.
template <class Number>
CLI::Option* add_numbers(CLI::App& app, const char* names, std::vector<Number>& values, double low,
                         double high, bool whole, const std::string& description) {
  const std::string spelled(names);
  const std::string name = spelled.substr(spelled.find("--"));
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
      values.push_back(static_cast<Number>(*number));
      if (end == std::string_view::npos) return;
      rest.remove_prefix(end + 1);
    }
  };
  return app.add_option_function<std::string>(names, read, description)->type_name("LIST");
}

// What is measured, and where.
void add_model_part(CLI::App& app, BenchFlags& flags) {
  add_model_flags(app, flags.model);
  for (const char* other : {"--model", "--ctx-size"}) app.remove_option(app.get_option(other));
  const std::string group = "Model";
  const auto named = [](const std::string& path) {
    return std::string(path.empty() ? "expected the name of a file, found an empty one" : "");
  };
  app.add_option(
         "-m,--model", flags.models,
         "GGUF file to measure; may be repeated (default: none, a shape; with --compare the "
         "bundled demo model)")
      ->allow_extra_args(false)
      ->check(named)
      ->type_name("FILE.gguf")
      ->group(group);
  add_int(app, "-c,--ctx-size", flags.context, 0, 1 << 24,
          "of a shape: positions before the tokens, beside none (default 4096; 0: only none); of a "
          "model: its context (default: what the tests need, to compare as in run)")
      ->group(group);
  app.get_option("--device")
      ->description(
          "what is measured (default auto: the first GPU that can, with -m else the CPU)");
  app.get_option("--dtype")->description(
      "weights of a shape (default auto: int8), or of a model on a GPU, as in run");
}

void add_replay_part(CLI::App& app, BenchFlags& flags) {
  add_file(app, "--replay", flags.trace,
           "rounds recorded by --trace, layers scaled to the shape's depth")
      ->group(kReplayGroup);
  const auto list = [&](const char* name, std::vector<double>& values, double low, double high,
                        bool whole, const char* description) {
    add_numbers(app, name, values, low, high, whole, description)->group(kReplayGroup);
  };
  list("--replay-cr", flags.rates, 1, kMaxRows, false,
       "rounds drawn for these compression rates (tokens a round)");
  list("--replay-exit", flags.exits, 1, 4096, false, "... and mean exit layers (default 4)");
  list("--checks", flags.checks, 1, 64, true, "... and checks a row (default 2)");
  app.add_flag("--replay-grid", flags.grid,
               "rates that the paper has for Vicuna-7B by task, exits 4,6,8,10, checks 1,2,3,4, "
               "where not given")
      ->group(kReplayGroup);
  add_int(app, "--rounds", flags.rounds, 1, 4096,
          "rounds of a replay (default 32; of a trace 256 at most)")
      ->group(kReplayGroup);
}

void add_compare_part(CLI::App& app, BenchFlags& flags) {
  const auto compare = [&flags](const std::string& text) {
    if (text != "spec") {
      throw CLI::ValidationError("--compare",
                                 format("expected spec, found \"%s\"", printable(text).c_str()));
    }
    flags.compare = text;
  };
  app.add_option_function<std::string>(
         "--compare", compare,
         "spec: each prompt decoded plainly and speculatively in turn, every figure side by side")
      ->type_name("spec")
      ->group(kCompareGroup);
  add_file(app, "--prompts", flags.prompts,
           "prompts from a file, one a line; .jsonl: objects {\"prompt\": text, \"name\": text} "
           "(default: a built-in set, dialogue to random bytes)")
      ->group(kCompareGroup);
  app.add_flag("--ignore-eos", flags.ignore_eos, "go on past the end of the reply")
      ->group(kCompareGroup);
  const size_t before = app.get_options().size();
  add_prompt_flags(app, flags.prompt);
  for (size_t i = before; i < app.get_options().size(); ++i) {
    app.get_options()[i]->group(kCompareGroup);
  }
  flags.sampling.params = greedy_sampling();
  flags.sampling.seed = 1;
  add_sampling_flags(app, flags.sampling);
  app.get_option("--seed")->description("the same seed gives the same text (default 1)");
  add_speculation_flags(app, flags.drafting);
  app.get_option("--head")->description(
      "what guesses: as in run; of a shape what checks in a replay, folded, chained or full "
      "(default folded; chained where a trace checks before layer 1)");
  app.get_option("--shortlist")
      ->description(
          "likely tokens that a head guesses among, a multiple of 16 (default: the "
          "preset's; of a shape 8192, at most the vocabulary)");
}

// ---- which flags go with which mode ----

constexpr unsigned bit(BenchMode mode) {
  return 1u << static_cast<unsigned>(mode);
}
constexpr unsigned kShape = bit(BenchMode::kShape), kTests = bit(BenchMode::kTests),
                   kCompare = bit(BenchMode::kCompare), kAll = kShape | kTests | kCompare;

struct Place {
  std::string_view flag;  // without its dashes
  unsigned modes;
};
// Where its group does not say it.
constexpr Place kPlaces[] = {{"shape", kShape},
                             {"n-gen", kAll},
                             {"repetitions", kAll},
                             {"output", kAll},
                             {"json", kAll},
                             {"ctx-size", kAll},
                             {"threads", kAll},
                             {"device", kAll},
                             {"dtype", kAll},
                             {"n-prompt", kShape | kTests},
                             {"n-depth", kTests},
                             {"head", kShape | kCompare},
                             {"shortlist", kShape | kCompare},
                             {"chat-template", kCompare}};

unsigned modes_of(const CLI::Option& option) {
  for (const Place& place : kPlaces) {
    if (option.check_lname(std::string(place.flag))) return place.modes;
  }
  const std::string& group = option.get_group();
  if (group == kReplayGroup) return kShape;
  if (group == "Model" || group == "Advanced") return kTests | kCompare;
  if (group == "Options" || group == "Settings") return kAll;
  return kCompare;
}

// What a flag of these modes would need.
const char* needed(unsigned modes) {
  switch (modes) {
    case kShape:
      return "a shape: leave out -m and --compare";
    case kTests:
      return "the tests of a model: give -m, without --compare";
    case kTests | kCompare:
      return "a model: give -m or --compare spec";
    case kShape | kTests:
      return "a shape or the tests of a model: --prompts are compared";
    case kShape | kCompare:
      return "a shape or --compare spec";
    default:
      return "--compare spec";
  }
}

int only_one(const std::vector<int>& values, const char* flag) {
  if (values.size() == 1 && values[0] > 0) return values[0];
  throw Error(
      ErrorCode::kUsage,
      format("%s: expected one number above 0; lists and 0 are for the tests of a model (-m)",
             flag));
}

void check_shape(BenchFlags& flags) {
  if (flags.context > 1 << 20) {
    throw Error(ErrorCode::kUsage,
                format("-c %d: of a shape expected at most %d", flags.context, 1 << 20));
  }
  if (flags.shortlist() < 16) {
    throw Error(ErrorCode::kUsage,
                format("--shortlist: of a shape expected a whole number from 16, found %d",
                       flags.shortlist()));
  }
  if (flags.output == BenchFormat::kCsv || flags.output == BenchFormat::kJsonLines) {
    throw Error(ErrorCode::kUsage, "-o: of a shape expected md or json");
  }
  if (!flags.trace.empty() && flags.draws_rounds()) {
    throw Error(ErrorCode::kUsage,
                "--replay reads its rounds from a trace: leave out --replay-cr, --replay-exit, "
                "--checks and --replay-grid");
  }
  if (flags.grid) {
    if (flags.rates.empty()) {
      for (const PublishedTask& task : kPublishedTasks) {
        flags.rates.push_back(task.compression_rate);
      }
    }
    if (flags.exits.empty()) flags.exits = {4, 6, 8, 10};
    if (flags.checks.empty()) flags.checks = {1, 2, 3, 4};
  } else if (flags.draws_rounds()) {
    if (flags.rates.empty()) {
      throw Error(ErrorCode::kUsage,
                  "--replay-exit and --checks need --replay-cr or --replay-grid");
    }
    if (flags.exits.empty()) flags.exits = {4};
    if (flags.checks.empty()) flags.checks = {2};
  }
  if (!flags.drafting.head.empty() && !flags.replays()) {
    throw Error(ErrorCode::kUsage, "--head: needs a replay; the measurements show every kind");
  }
}

void check_tests(const BenchFlags& flags) {
  const auto any = [](const std::vector<int>& values) {
    return std::any_of(values.begin(), values.end(), [](int n) { return n > 0; });
  };
  if (!any(flags.n_prompt) && !any(flags.n_gen)) {
    throw Error(ErrorCode::kUsage, "-p 0 and -n 0 leave no test: give one of them a number");
  }
}

void check_compare(const BenchFlags& flags) {
  if (flags.drafting.on && !*flags.drafting.on) {
    throw Error(ErrorCode::kUsage, "--spec off: --compare spec has a plain side already");
  }
  if (flags.drafting.acceptance == Acceptance::kRejection) {
    throw Error(
        ErrorCode::kUsage,
        "--accept rejection: gives the same probabilities and another text, which cannot be "
        "timed against plain decoding's; spec-bench measures it");
  }
  flags.drafting.check();
  flags.prompt.check("", flags.model);
}

}  // namespace

void add_bench_flags(CLI::App& app, BenchFlags& flags) {
  app.add_option("--shape", flags.shape, format("%s (default 7b)", kBenchShapeHelp))
      ->type_name("SHAPE");
  add_numbers(app, "-p,--n-prompt", flags.n_prompt, 0, 1 << 20, true,
              "tokens of a prompt, a test for each (default 512; 0: none); of a shape those before "
              "a replay (default 128)");
  add_numbers(app, "-n,--n-gen", flags.n_gen, 0, 1 << 16, true,
              "tokens to decode, a test for each (default 128; 0: none); to compare, of a reply at "
              "most");
  add_numbers(app, "-d,--n-depth", flags.depths, 0, 1 << 20, true,
              "positions before each test of a model (default 0)");
  add_int(app, "-r,--repetitions", flags.repeats, 1, 1000,
          "of each measurement, after one that is not counted (default 5)");
  const auto output = [&flags](const std::string& text) {
    if (parse_bench_format(text, flags.output)) return;
    throw CLI::ValidationError("--output", format("expected %s, found \"%s\"; --json names a file",
                                                  kBenchFormats, printable(text).c_str()));
  };
  app.add_option_function<std::string>("-o,--output", output,
                                       "what stdout gets (default md, a table)")
      ->type_name("md|csv|json|jsonl");
  add_output_file(app, "--json", flags.json, "write every figure as JSON");
  add_model_part(app, flags);
  add_replay_part(app, flags);
  add_compare_part(app, flags);
  app.footer(kExamples);
  // A measurement is what its command line says; where it runs is the machine's matter.
  for (CLI::Option* option : app.get_options()) {
    if (!option->check_lname("device") && !option->check_lname("threads")) {
      option->configurable(false);
    }
  }
}

void BenchFlags::check(const CLI::App& app) {
  mode = !compare.empty() ? BenchMode::kCompare
         : models.empty() ? BenchMode::kShape
                          : BenchMode::kTests;
  for (const CLI::Option* option : app.get_options()) {
    const unsigned modes = modes_of(*option);
    if (option->count() == 0 || modes & bit(mode)) continue;
    throw Error(ErrorCode::kUsage,
                format("%s: needs %s", option->get_name().c_str(), needed(modes)));
  }
  if (n_prompt.empty()) n_prompt = {mode == BenchMode::kShape ? 128 : 512};
  if (mode != BenchMode::kTests) only_one(n_gen, "-n");
  if (mode == BenchMode::kShape) only_one(n_prompt, "-p");
  if (mode == BenchMode::kShape) check_shape(*this);
  if (mode == BenchMode::kTests) check_tests(*this);
  if (mode == BenchMode::kCompare) check_compare(*this);
}

}  // namespace specbound
