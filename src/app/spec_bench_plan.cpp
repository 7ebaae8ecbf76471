#include "app/spec_bench_plan.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>
#include <sstream>
#include <string_view>

#include "error.h"

namespace specbound {

namespace {

constexpr const char* kGroup = "Benchmark";
constexpr const char* kPaper = "paper";

constexpr const char* kExamples =
    "Examples:\n"
    "  specbound spec-bench -f question.jsonl --limit 60 -n 128\n"
    "  specbound spec-bench -f question.jsonl -m model.gguf --out answers --json result.json\n"
    "  specbound spec-bench -f question.jsonl --compare all --out answers\n"
    "  specbound spec-bench -f question.jsonl --compare specbound,ngram --limit 30\n"
    "  specbound spec-bench -f question.jsonl --setting 'eager: --tau 0.2 --w-max 8'\n"
    "  specbound spec-bench -f question.jsonl --sampling-table --limit 60\n"
    "  specbound spec-bench -f question.jsonl --sweep --head lens --limit 30 --out figures";

SpecBenchDrafter named_drafter(const SpecBenchFlags& flags, const std::string& name, bool needed) {
  SpeculationFlags drafting = flags.drafting.with_speculator(name == kPaper ? "specbound" : name);
  if (name == kPaper) {
    drafting.specbound = {};
    drafting.specbound.preset = Preset::kPaper;
  }
  return {name, std::move(drafting), needed};
}

// "a,b" or all.
std::vector<SpecBenchDrafter> compared(const SpecBenchFlags& flags) {
  std::vector<std::string> known = speculators();
  known.insert(known.begin() + 1, kPaper);
  std::vector<SpecBenchDrafter> drafters;
  if (flags.compare == "all") {
    for (const std::string& name : known) {
      drafters.push_back(named_drafter(flags, name, false));
    }
    return drafters;
  }
  std::istringstream list(flags.compare);
  for (std::string name; std::getline(list, name, ',');) {
    if (name == "plain") continue;  // always there
    if (std::ranges::count(known, name) == 0) {
      throw Error(ErrorCode::kUsage,
                  format("--compare: expected all, or a list of plain, %s, found \"%s\"",
                         or_list(known).c_str(), printable(name).c_str()));
    }
    drafters.push_back(named_drafter(flags, name, true));
  }
  return drafters;
}

// "NAME: FLAGS", the flags over those of the command line.
SpecBenchDrafter parse_setting(const SpecBenchFlags& flags, const std::string& text) {
  const size_t colon = std::min(text.find(':'), text.size());
  SpecBenchDrafter drafter{text.substr(0, colon), flags.drafting, true};
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
  const std::string& name = drafter.name;
  if (name.empty() || name[0] == '.' || name.size() > 64 ||
      name.find_first_not_of(kLetters) != name.npos || colon == text.size()) {
    throw Error(ErrorCode::kUsage,
                format("--setting: expected a name of letters, digits and -._, a colon and flags, "
                       "found \"%s\"",
                       printable(text).c_str()));
  }
  std::istringstream rest(text.substr(colon + 1));
  std::vector<std::string> words;
  for (std::string word; rest >> word;) words.push_back(word);
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  CLI::App app;
  app.set_help_flag();
  add_speculation_flags(app, *drafter.flags);
  try {
    app.parse(words);
  } catch (const CLI::ParseError& e) {
    throw Error(ErrorCode::kUsage, format("--setting %s: %s", name.c_str(), e.what()));
  }
  return drafter;
}

}  // namespace

void add_spec_bench_flags(CLI::App& app, SpecBenchFlags& flags) {
  add_file(app, "-f,--file", flags.questions, "the questions: Spec-Bench's question.jsonl")
      ->type_name("FILE.jsonl")
      ->group(kGroup);
  add_int(app, "-n,--n-predict,--predict", flags.n_predict, 1, 1 << 24,
          "tokens of a reply at most (default 1024, as Spec-Bench)")
      ->group(kGroup);
  add_int(app, "--limit", flags.limit, 1, 1 << 24,
          "only so many questions, spread evenly over the six tasks (default: all)")
      ->group(kGroup);
  app.add_option("--compare", flags.compare,
                 "several drafters in one table: all, or names such as specbound,paper,ngram "
                 "(paper: specbound --preset paper)")
      ->type_name("all|LIST")
      ->group(kGroup);
  app.add_option("--setting", flags.settings,
                 "one more drafter for the table: a name and its flags, as 'eager: --tau 0.2'; may "
                 "be repeated")
      ->allow_extra_args(false)
      ->type_name("'NAME: FLAGS'")
      ->group(kGroup);
  app.add_flag("--sampling-table", flags.sampling_table,
               "greedy, T 0.3, T 1.0 and top-p 0.9 in turn (Table 2 of the paper)")
      ->group(kGroup);
  app.add_flag("--sweep", flags.sweep,
               "tau, alpha, d_max and w_max one at a time around the setting (Figure 3), and each "
               "bound left out (Figure 4), with the controller off; as SVG in --out")
      ->group(kGroup);
  app.add_option("--out", flags.out,
                 "folder for the answers, a file for each drafter in Spec-Bench's format; what an "
                 "interrupted run left there is not done again")
      ->type_name("FOLDER")
      ->group(kGroup);
  app.add_flag("--fresh", flags.fresh, "do all again, whatever lies in --out")->group(kGroup);
  add_output_file(app, "--json", flags.json, "write every figure as JSON")->group(kGroup);
  flags.sampling.params.temperature = 0;
  flags.sampling.seed = 1;
  add_sampling_flags(app, flags.sampling);
  add_speculation_flags(app, flags.drafting);
  add_model_flags(app, flags.model);
  app.footer(kExamples);
  // A measurement is what its command line says; where it runs is the machine's matter.
  for (CLI::Option* option : app.get_options()) {
    if (!option->check_lname("device") && !option->check_lname("threads")) {
      option->configurable(false);
    }
  }
}

void SpecBenchFlags::check() const {
  const auto refuse = [](const char* what) { throw Error(ErrorCode::kUsage, what); };
  if (questions.empty()) {
    refuse("expected -f FILE, the questions (Spec-Bench's question.jsonl), found none");
  }
  if (sweep && (!compare.empty() || !settings.empty() || sampling_table)) {
    refuse("--sweep names its own settings: leave out --compare, --setting and --sampling-table");
  }
  if (sweep && out.empty()) refuse("--sweep: needs --out FOLDER for its figures");
  if (fresh && out.empty()) refuse("--fresh: needs --out FOLDER");
  if (drafting.on && !*drafting.on) refuse("--spec off: plain decoding is there already");
  if (drafting.speculator == "none") {
    refuse("--speculator none: plain decoding is there already");
  }
  // A drafter's own flags stand for that drafter wherever it is compared.
  if (compare.empty()) drafting.check();
}

std::vector<SpecBenchDrafter> spec_bench_drafters(const SpecBenchFlags& flags) {
  std::vector<SpecBenchDrafter> drafters = {{"plain", std::nullopt, true}};
  if (flags.compare.empty()) {
    drafters.push_back({flags.drafting.speculator, flags.drafting, true});
  } else {
    for (SpecBenchDrafter& drafter : compared(flags)) drafters.push_back(std::move(drafter));
  }
  for (const std::string& text : flags.settings) drafters.push_back(parse_setting(flags, text));
  std::set<std::string> names;
  for (const SpecBenchDrafter& drafter : drafters) {
    if (drafter.flags && drafter.needed) drafter.flags->check();
    if (names.insert(drafter.name).second) continue;
    throw Error(ErrorCode::kUsage, format("%s is named twice: expected drafters of different names",
                                          drafter.name.c_str()));
  }
  if (drafters.size() < 2) {
    throw Error(ErrorCode::kUsage, "--compare: expected a drafter beside plain decoding");
  }
  return drafters;
}

std::vector<SpecBenchStrategy> spec_bench_strategies(const SpecBenchFlags& flags) {
  const SamplingParams given = flags.sampling.resolve();
  if (!flags.sampling_table) return {{"as asked for", "", given}};
  const auto with = [&](float temperature, float top_p) {
    SamplingParams params = given;
    params.temperature = temperature;
    params.top_p = top_p;
    params.top_k = 0;  // the paper names no other filter
    params.min_p = 0;
    validate(params);
    return params;
  };
  return {{"greedy", "", with(0, 1)},
          {"T 0.3", "t0.3-", with(0.3f, 1)},
          {"T 1.0", "t1.0-", with(1, 1)},
          {"top-p 0.9", "top-p0.9-", with(1, 0.9f)}};
}

}  // namespace specbound
