#include "cli/spec_bench.h"

#include <algorithm>
#include <exception>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <utility>

#include "cli/command.h"
#include "error.h"
#include "json/json_writer.h"
#include "spec_bench/spec_bench.h"
#include "system/file_output.h"
#include "system/text_input.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "terminal/standard_output.h"

namespace specbound {

namespace {

constexpr const char* kSpecBenchExamples =
    "Examples:\n"
    "  specbound spec-bench -f question.jsonl --limit 60 -n 128\n"
    "  specbound spec-bench -f question.jsonl -m model.gguf --out answers --json result.json\n"
    "  specbound spec-bench -f question.jsonl --compare all --out answers\n"
    "  specbound spec-bench -f question.jsonl --compare specbound,ngram --limit 30\n"
    "  specbound spec-bench -f question.jsonl --setting 'eager: --tau 0.2 --w-max 8'\n"
    "  specbound spec-bench -f question.jsonl --sampling-table --limit 60";

// "NAME: FLAGS", the flags over those of the command line.
std::pair<std::string, SpeculationOptions> parse_setting(const SpeculationOptions& base,
                                                         const std::string& text) {
  const size_t colon = std::min(text.find(':'), text.size());
  std::pair<std::string, SpeculationOptions> setting{text.substr(0, colon), base};
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
  const std::string& name = setting.first;
  if (name.empty() || name[0] == '.' || name.size() > 64 ||
      name.find_first_not_of(kLetters) != name.npos || colon == text.size()) {
    throw Error(ErrorCode::kUsage,
                format("--setting: expected a name of letters, digits and -._, a colon and flags, "
                       "found \"%s\"",
                       printable(text).c_str()));
  }
  std::istringstream rest(text.substr(colon + 1));
  std::vector<std::string> words;
  std::string word;
  for (; rest >> std::quoted(word); word.clear()) words.push_back(word);
  if (!word.empty()) {
    throw Error(ErrorCode::kUsage,
                format("--setting %s: expected a second \", found none behind \"%s\"", name.c_str(),
                       printable(word).c_str()));
  }
  Flags flags;
  add_speculation_flags(flags, setting.second);
  try {
    parse_words(flags, words);
  } catch (const Error& e) {
    throw Error(ErrorCode::kUsage, format("--setting %s: %s", name.c_str(), e.what()));
  }
  return setting;
}

}  // namespace

void add_spec_bench_flags(Flags& flags, SpecBenchFlags& given) {
  const Flags::Group group(flags, "Benchmark");
  flags.add_file("-f,--file", given.options.questions, "the questions: Spec-Bench's question.jsonl")
      .type("FILE.jsonl");
  flags.add_int("-n,--n-predict,--predict", given.options.replies.n_predict, 1, 1 << 24,
                "tokens of a reply at most (default 1024, as Spec-Bench)");
  flags.add_int("--limit", given.options.limit, 1, 1 << 24,
                "only so many questions, spread evenly over the six tasks (default: all)");
  flags.add_int("--repeats", given.options.replies.repeats, 1, 1000,
                "times that each reply is written by each drafter; the fastest counts, on a "
                "machine that others disturb (default 1)");
  flags
      .add_text("--compare", given.options.compare,
                "several drafters in one table: all, or names such as specbound,paper,ngram "
                "(paper: specbound --preset paper)")
      .type("all|LIST");
  flags
      .add_texts(
          "--setting", given.settings,
          "one more drafter for the table: a name and its flags, as 'eager: --tau 0.2'; a value "
          "with blanks in \"\"; may be repeated")
      .type("'NAME: FLAGS'");
  flags.add_switch("--sampling-table", given.options.sampling_table,
                   "greedy, T 0.3, T 1.0 and top-p 0.9 in turn (the paper's Table 2)");
  flags
      .add_text("--out", given.options.out,
                "folder for the answers, a file for each drafter in Spec-Bench's format; what an "
                "interrupted run left there is not done again")
      .type("FOLDER");
  flags.add_switch("--fresh", given.options.fresh, "do all again, whatever lies in --out");
  flags.add_output_file("--json", given.options.json, "write every figure as JSON");
  given.options.sampling.params.temperature = 0;
  given.options.sampling.seed = 1;
  add_sampling_flags(flags, given.options.sampling);
  flags["--seed"].description("the same seed gives the same text (default 1)");
  add_speculation_flags(flags, given.options.drafting);
  add_model_flags(flags, given.options.model);
  given.options.model.write_tiles = false;
  flags.all_command_line_only_but({"--device", "--threads"});
  flags.add_check([&given] { given.check(); });
}

void SpecBenchFlags::check() {
  const auto refuse = [](const char* what) { throw Error(ErrorCode::kUsage, what); };
  if (options.questions.empty()) {
    refuse("expected -f FILE, the questions (Spec-Bench's question.jsonl), found none");
  }
  if (options.fresh && options.out.empty()) refuse("--fresh: needs --out FOLDER");
  if (options.drafting.on && !*options.drafting.on)
    refuse("--spec off: plain decoding is there already");
  if (options.drafting.speculator == "none") {
    refuse("--speculator none: plain decoding is there already");
  }
  // A drafter's own flags stand for that drafter wherever it is compared.
  if (options.compare.empty()) options.drafting.check();
  options.settings.clear();
  for (const std::string& text : settings) {
    options.settings.push_back(parse_setting(options.drafting, text));
  }
  const auto remembers = [](const SpeculationOptions& o) { return o.remember.value_or(false); };
  if ((options.replies.repeats > 1 || options.sampling_table) &&
      (remembers(options.drafting) ||
       std::ranges::any_of(options.settings, remembers,
                           &decltype(options.settings)::value_type::second))) {
    refuse(options.sampling_table
               ? "--sampling-table: a drafter with --remember on would look its own replies up"
               : "--repeats: a drafter with --remember on would look its own reply up");
  }
}

namespace {

int run_spec_bench(SpecBenchFlags& given) {
  const SpecBenchOptions& options = given.options;
  if (!options.json.empty()) check_writable(options.json);
  std::vector<SpecBenchQuestion> questions =
      parse_questions(read_bytes(options.questions), options.questions);
  if (options.limit > 0) {
    questions = spread_questions(questions, static_cast<size_t>(options.limit));
  }

  catch_interrupts();
  LoadedModel model(options.model, terminal_watcher());
  SpecBench bench(options, model, std::move(questions));
  bench.run();
  // What was measured must not be lost where one of the two takes nothing.
  std::exception_ptr untold;
  try {
    write_stdout(bench.report());
  } catch (const Error&) {
    untold = std::current_exception();
  }
  if (!options.json.empty()) write_file(options.json, dump(bench.json(), 1) + "\n");
  if (untold) std::rethrow_exception(untold);
  return bench.n_differing() == 0 ? 0 : 1;
}

const CommandOf<SpecBenchFlags> kSpecBench(
    {.rank = 100,
     .name = "spec-bench",
     .summary = "Spec-Bench's questions, plainly and speculatively: the paper's tables",
     .text = "Spec-Bench (Xia et al. 2024): its questions answered plainly and speculatively, turn "
             "about. "
             "Tables and figures of the SpecBound paper are drawn from --json by scripts of "
             "tests/bench. "
             "The exit status is 1 where a text is not plain decoding's.",
     .footer = kSpecBenchExamples},
    add_spec_bench_flags, run_spec_bench);

}  // namespace

}  // namespace specbound
