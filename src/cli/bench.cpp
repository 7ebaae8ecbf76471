#include "cli/bench.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/settings_file.h"
#include "error.h"
#include "system/number_text.h"
#include "terminal/flag_names.h"
#include "terminal/interrupt.h"
#include "tools/bench_replay.h"
#include "tools/bench_shapes.h"

namespace specbound {

namespace {

constexpr const char* kBenchAbout =
    "How fast models run here. With -m: prompts and tokens a second, as llama-bench has them. With "
    "--compare spec: plain and speculative decoding of varied prompts in turn; exits with 1 if a "
    "byte differs. Else of some size, with random weights and no file: plain tokens against the "
    "memory bandwidth of the same run, passes over 1 to 16 rows, rows that leave early, checks. "
    "With --replay...: what speculation would give, by replaying rounds through the same layers.";

constexpr const char* kBenchExamples =
    "Examples:\n"
    "  specbound bench -m model.gguf                       pp512 and tg128, as llama-bench has "
    "them\n"
    "  specbound bench -m a.gguf -m b.gguf -p 128,512 -n 0 -d 0,4096 -o csv\n"
    "  specbound bench -m model.gguf --compare spec        plain and speculative decoding in turn\n"
    "  specbound bench --compare spec --prompts chat.jsonl --temp 0.7 --json compared.json\n"
    "  specbound bench --shape 7b --dtype int8             random weights, no file\n"
    "  specbound bench --shape 13b --dtype fp16 -c 0 --json bench.json\n"
    "  specbound bench --shape 7b --replay trace.jsonl     rounds that --trace wrote\n"
    "  specbound bench --shape 7b --replay-cr 3.78 --replay-exit 4 --checks 2\n"
    "  specbound bench --shape 7b --replay-grid            the paper's rates, exits 4 to 10";

constexpr const char* kReplayGroup = "Replay (of a shape)";
constexpr const char* kCompareGroup = "Comparison (of a model)";

// "3.78,4.2": numbers from `low` to `high`.
template <class Number>
Flag& add_numbers(Flags& flags, const char* names, std::vector<Number>& values, double low,
                  double high, bool whole, const std::string& description) {
  const auto read = [&values, low, high, whole](std::string_view rest) {
    values.clear();
    for (;;) {
      const size_t end = rest.find(',');
      const std::optional<double> number = parse_number(rest.substr(0, end));
      if (!number || *number < low || *number > high) return false;
      if (whole && *number != std::floor(*number)) return false;
      values.push_back(static_cast<Number>(*number));
      if (end == std::string_view::npos) return true;
      rest.remove_prefix(end + 1);
    }
  };
  const std::string expected = format("%s from %g to %g with commas between",
                                      whole ? "whole numbers" : "numbers", low, high);
  return flags.add_read(names, expected, read, description).type("LIST");
}

// What is measured, and where.
void add_model_part(Flags& flags, BenchFlags& given) {
  add_model_flags(flags, given.options.model);
  given.options.model.write_tiles = false;
  for (const char* other : {"--model", "--hf-repo", "--ctx-size"}) flags.remove(other);
  const Flags::Group group(flags, "Model");
  flags
      .add_files("-m,--model,MODEL", given.options.models,
                 "GGUF file to measure; may be repeated (default: none, a shape; with --compare "
                 "the bundled demo model)")
      .type("FILE.gguf");
  flags.add_int(
      "-c,--ctx-size", given.options.context, 0, 1 << 24,
      "of a shape: positions before the tokens, beside none (default 4096; 0: only none); of a "
      "model: its context (default: what the tests need, to compare as in run)");
  flags["--device"].description(
      "what is measured (default auto: the first GPU that can, with -m else the CPU)");
  flags["--dtype"].description(
      "weights of a shape (default auto: int8), or of a model on a GPU, as in run");
}

void add_replay_part(Flags& flags, BenchFlags& given) {
  const Flags::Group group(flags, kReplayGroup);
  flags.add_file(
      "--replay", given.options.trace,
      "rounds recorded by --trace with --speculator specbound, layers scaled to the shape's depth");
  const auto list = [&](const char* name, std::vector<double>& values, double low, double high,
                        bool whole, const char* description) {
    add_numbers(flags, name, values, low, high, whole, description);
  };
  list("--replay-cr", given.options.rates, 1, kMaxRows, false,
       "rounds drawn for these compression rates (tokens a round)");
  list("--replay-exit", given.options.exits, 1, 4096, false,
       "... and mean exit layers (default 4)");
  list("--checks", given.options.checks, 1, 64, true, "... and checks a row (default 2)");
  flags.add_switch(
      "--replay-grid", given.grid,
      "rates that the paper has for Vicuna-7B by task, exits 4,6,8,10, checks 1,2,3,4, "
      "where not given");
  flags.add_int("--rounds", given.options.rounds, 1, 4096,
                "rounds of a replay (default 32; of a trace 256 at most)");
}

void add_compare_part(Flags& flags, BenchFlags& given) {
  const Flags::Group group(flags, kCompareGroup);
  flags.add_choice("--compare", given.compare, {{"spec", "spec"}},
                   "spec: each prompt decoded plainly and speculatively in turn, every figure side "
                   "by side");
  flags.add_file(
      "--prompts", given.options.prompts,
      "prompts from a file, one a line; .jsonl: objects {\"prompt\": text, \"name\": text} "
      "(default: a built-in set, dialogue to random bytes)");
  flags.add_switch("--ignore-eos", given.options.ignore_eos, "go on past the end of the reply");
  add_prompt_flags(flags, given.options.prompt);
  given.options.sampling.params = greedy_sampling();
  given.options.sampling.seed = 1;
  add_sampling_flags(flags, given.options.sampling);
  flags["--seed"].description("the same seed gives the same text (default 1)");
  add_speculation_flags(flags, given.options.drafting);
  flags["--head"].description(
      "what guesses: as in run; of a shape what checks in a replay, folded, chained or full "
      "(default folded; chained where a trace checks before layer 1)");
  flags["--shortlist"].description(
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

unsigned modes_of(const FlagDefinition& flag) {
  for (const Place& place : kPlaces) {
    if (flag.has_long_name(place.flag)) return place.modes;
  }
  const std::string& group = flag.group;
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

void check_shape(BenchFlags& given) {
  if (given.options.context > 1 << 20) {
    throw Error(ErrorCode::kUsage,
                format("-c %d: of a shape expected at most %d", given.options.context, 1 << 20));
  }
  if (given.options.shortlist() < 16) {
    throw Error(ErrorCode::kUsage,
                format("--shortlist: of a shape expected a whole number from 16, found %d",
                       given.options.shortlist()));
  }
  if (given.options.output == BenchFormat::kCsv ||
      given.options.output == BenchFormat::kJsonLines) {
    throw Error(ErrorCode::kUsage, "-o: of a shape expected md or json");
  }
  if (!given.options.trace.empty() && given.draws_rounds()) {
    throw Error(ErrorCode::kUsage,
                "--replay reads its rounds from a trace: leave out --replay-cr, --replay-exit, "
                "--checks and --replay-grid");
  }
  if (given.grid) {
    if (given.options.rates.empty()) {
      for (const PublishedTask& task : kPublishedTasks) {
        given.options.rates.push_back(task.compression_rate);
      }
    }
    if (given.options.exits.empty()) given.options.exits = {4, 6, 8, 10};
    if (given.options.checks.empty()) given.options.checks = {1, 2, 3, 4};
  } else if (given.draws_rounds()) {
    if (given.options.rates.empty()) {
      throw Error(ErrorCode::kUsage,
                  "--replay-exit and --checks need --replay-cr or --replay-grid");
    }
    if (given.options.exits.empty()) given.options.exits = {4};
    if (given.options.checks.empty()) given.options.checks = {2};
  }
  if (!given.options.drafting.head.empty() && !given.options.replays()) {
    throw Error(ErrorCode::kUsage, "--head: needs a replay; the measurements show every kind");
  }
}

void check_tests(const BenchOptions& options) {
  const auto any = [](const std::vector<int>& values) {
    return std::any_of(values.begin(), values.end(), [](int n) { return n > 0; });
  };
  if (!any(options.n_prompt) && !any(options.n_gen)) {
    throw Error(ErrorCode::kUsage, "-p 0 and -n 0 leave no test: give one of them a number");
  }
}

void check_compare(const BenchOptions& options) {
  if (options.drafting.on && !*options.drafting.on) {
    throw Error(ErrorCode::kUsage, "--spec off: --compare spec has a plain side already");
  }
  if (options.drafting.acceptance != Acceptance::kCoupled) {
    throw Error(ErrorCode::kUsage,
                format("--accept %s: gives another text, which cannot be timed against plain "
                       "decoding's; spec-bench measures it",
                       acceptance_name(options.drafting.acceptance)));
  }
  if (options.drafting.remember.value_or(false)) {
    throw Error(ErrorCode::kUsage,
                "--remember on: a prompt that comes again would look its own reply up; spec-bench "
                "measures it");
  }
  options.drafting.check();
  options.prompt.check("", options.model);
}

}  // namespace

void add_bench_flags(Flags& flags, BenchFlags& given) {
  flags.add_text("--shape", given.options.shape, format("%s (default 7b)", kBenchShapeHelp))
      .type("SHAPE");
  add_numbers(flags, "-p,--n-prompt", given.options.n_prompt, 0, 1 << 20, true,
              "tokens of a prompt, a test for each (default 512; 0: none); of a shape those before "
              "a replay (default 128)");
  add_numbers(flags, "-n,--n-gen", given.options.n_gen, 0, 1 << 16, true,
              "tokens to decode, a test for each (default 128; 0: none); to compare, of a reply at "
              "most");
  add_numbers(flags, "-d,--n-depth", given.options.depths, 0, 1 << 20, true,
              "positions before each test of a model (default 0)");
  flags.add_int("-r,--repetitions", given.options.repeats, 1, 1000,
                "of each measurement, after one that is not counted (default 5)");
  const auto read_format = [&given](const std::vector<std::string>& values) {
    if (parse_bench_format(values.back(), given.options.output)) return;
    throw Error(ErrorCode::kUsage,
                format("--output: expected %s, found \"%s\"; --json names a file", kBenchFormats,
                       printable(values.back()).c_str()));
  };
  flags
      .add_values("-o,--output", Flag::Counts::kLast, read_format,
                  "what stdout gets (default md, a table)")
      .type("md|csv|json|jsonl");
  flags.add_output_file("--json", given.options.json, "write every figure as JSON");
  add_model_part(flags, given);
  add_replay_part(flags, given);
  add_compare_part(flags, given);
  flags.all_command_line_only_but({"--device", "--threads"});
  flags.add_check([&flags, &given] { given.check(flags); });
}

void BenchFlags::check(const Flags& flags) {
  arguments = flags.arguments();
  mode = !compare.empty()         ? BenchMode::kCompare
         : options.models.empty() ? BenchMode::kShape
                                  : BenchMode::kTests;
  usual_shape = mode == BenchMode::kShape && !flags["--shape"].given();
  for (const auto& flag : flags.list()) {
    const unsigned modes = modes_of(flag->declared());
    if (!flag->given() || modes & bit(mode)) continue;
    throw Error(ErrorCode::kUsage, format("%s: needs %s", flag->name().c_str(), needed(modes)));
  }
  if (options.n_prompt.empty()) options.n_prompt = {mode == BenchMode::kShape ? 128 : 512};
  if (mode != BenchMode::kTests) only_one(options.n_gen, "-n");
  if (mode == BenchMode::kShape) only_one(options.n_prompt, "-p");
  if (mode == BenchMode::kShape) check_shape(*this);
  if (mode == BenchMode::kTests) check_tests(options);
  if (mode == BenchMode::kCompare) check_compare(options);
}

namespace {

int run_bench(BenchFlags& given) {
  const BenchOptions& options = given.options;
  const char* const model = std::getenv(environment_name("model").c_str());
  if (given.usual_shape && model && *model) {
    say("SPECBOUND_MODEL is not read: a measurement is what its command line says, here a shape; "
        "-m measures a model");
  }
  BenchOutput output(options.output, options.json, given.arguments);

  catch_interrupts();
  if (given.mode == BenchMode::kCompare) return bench_compare(options, output) ? 0 : 1;
  given.mode == BenchMode::kTests ? bench_tests(options, output) : bench_shape(options, output);
  return 0;
}

const CommandOf<BenchFlags> kBench(
    {.rank = 90,
     .name = "bench",
     .summary = "how fast models run here, and what speculation gives them",
     .text = kBenchAbout,
     .footer = kBenchExamples},
    add_bench_flags, run_bench);

}  // namespace

}  // namespace specbound
