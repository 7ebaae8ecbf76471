#include "cli/verify.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "cli/command.h"
#include "error.h"
#include "system/file_output.h"
#include "system/number_text.h"
#include "system/text_input.h"
#include "terminal/interrupt.h"
#include "tools/prompt_sets.h"

namespace specbound {

namespace {

constexpr size_t kMaxListed = 1000;

constexpr const char* kVerifyExamples =
    "Examples:\n"
    "  specbound verify --bits\n"
    "  specbound verify --bits --speculator forced --w-max 16 --ignore-eos\n"
    "  specbound verify -m base-model.gguf --raw -f prompts.txt --temps 0,1.5 --seeds 4 -n 200\n"
    "  specbound verify -p \"Find me a flight to Oslo.\" --json result.json";

void add_rate(Flags& flags, const char* name, double& value, const std::string& description) {
  flags.add_real(name, value, 0, 1, description + format(" (default %g)", value))
      .type("P")
      .command_line_only();
}

}  // namespace

std::vector<float> parse_temperatures(std::string_view text) {
  std::vector<float> temperatures;
  for (const std::string_view part : split(text, ',')) {
    const std::optional<double> number = parse_number(part);
    if (!number || temperatures.size() == kMaxListed) {
      throw Error(ErrorCode::kUsage,
                  format("--temps: expected up to %zu numbers such as 0,0.7,1, found \"%s\"",
                         kMaxListed, printable(text).c_str()));
    }
    constexpr double kMax = std::numeric_limits<float>::max();
    SamplingParams params;
    params.temperature = static_cast<float>(std::clamp(*number, -kMax, kMax));
    try {
      validate(params);
    } catch (const Error& e) {
      throw Error(e.code(), std::string("--temps: ") + e.what());
    }
    temperatures.push_back(params.temperature);
  }
  return temperatures;
}

std::vector<uint64_t> parse_seeds(std::string_view text) {
  const auto refuse = [&] {
    return Error(ErrorCode::kUsage,
                 format("--seeds: expected how many (1 to %zu) or a list such as 7,8, found \"%s\"",
                        kMaxListed, printable(text).c_str()));
  };
  std::vector<uint64_t> seeds;
  if (text.find(',') == text.npos) {
    const std::optional<uint64_t> count = parse_uint(text);
    if (!count || *count < 1 || *count > kMaxListed) throw refuse();
    for (uint64_t seed = 1; seed <= *count; ++seed) seeds.push_back(seed);
    return seeds;
  }
  if (text.ends_with(',') && std::count(text.begin(), text.end(), ',') == 1) text.remove_suffix(1);
  for (const std::string_view part : split(text, ',')) {
    const std::optional<uint64_t> seed = parse_uint(part);
    if (!seed || seeds.size() == kMaxListed) throw refuse();
    seeds.push_back(*seed);
  }
  return seeds;
}

void add_verify_flags(Flags& flags, VerifyFlags& given) {
  flags.add_texts("-p,--prompt", given.texts, "a prompt; may be repeated (default: a built-in set)")
      .command_line_only();
  flags.add_file("-f,--file", given.file, "prompts from a file, one a line; - for stdin")
      .command_line_only();
  add_prompt_flags(flags, given.options.prompt);
  flags
      .add_int("-n,--n-predict,--predict", given.options.n_predict, 1, 1 << 30,
               "tokens of a reply (default 64)")
      .command_line_only();  // chat's may be -1
  flags.add_switch("--ignore-eos", given.options.ignore_eos, "go on past the end of the reply");

  const Flags::Group group(flags, "What is compared");
  flags.add_switch("--bits", given.options.bits,
                   "beside the tokens every bit: hidden rows after each stretch of layers, logits, "
                   "K/V");
  add_temperatures(flags, given.options.temperatures, "temperatures (default 0,0.7,1)");
  const auto read_seeds = [&given](const std::vector<std::string>& values) {
    given.options.seeds = parse_seeds(values.back());
  };
  flags
      .add_values("--seeds", Flag::Counts::kLast, read_seeds,
                  "how many seeds, counted from 1, or which: 7,8 (default 2)")
      .type("N|LIST");
  std::vector<std::string> names = speculators();
  names.emplace_back("forced");
  flags
      .add_word("--speculator", given.options.drafting.speculator, names,
                "what drafts: one of run's --speculator (default auto), or exits and tokens by "
                "chance, right and wrong on purpose")
      .command_line_only();  // elsewhere it has other words
  add_rate(flags, "--forced-exit", given.options.rates.exit,
           "with forced: share of rows that draft");
  add_rate(flags, "--forced-right", given.options.rates.right,
           "with forced: share of drafts that are right");
  flags.add_output_file("--json", given.options.json, "write every result as JSON");
  add_grammar_flags(flags, given.options.grammar);
  add_sampling_flags(flags, given.options.sampling);
  for (const char* single : {"--temp", "--seed"}) flags.remove(single);
  add_drafter_flags(flags, given.options.drafting);
  add_model_flags(flags, given.options.model);
  given.options.model.write_tiles = false;
  flags.add_check([&flags, &given] {
    given.options.prompt.check("", given.options.model);
    given.options.grammar.check(given.options.ignore_eos);
    given.check(flags);
  });
}

std::vector<std::string> VerifyFlags::prompts() const {
  if (!texts.empty() && !file.empty()) {
    throw Error(ErrorCode::kUsage, "-p and -f both name prompts: give one of them");
  }
  if (!texts.empty()) return texts;
  if (file.empty()) return verify_prompts();
  return prompt_lines(read_bytes(file), file == "-" ? "stdin" : file);
}

void VerifyFlags::check(const Flags& flags) const {
  for (const char* name : {"--forced-exit", "--forced-right"}) {
    if (!options.forced() && flags[name].given()) {
      throw Error(ErrorCode::kUsage, format("%s: needs --speculator forced", name));
    }
  }
  if (options.drafting.acceptance != Acceptance::kCoupled) {
    throw Error(ErrorCode::kUsage,
                format("--accept %s: gives another text than plain decoding: there is nothing to "
                       "compare",
                       acceptance_name(options.drafting.acceptance)));
  }
  options.drafting.check();
}

namespace {

int run_verify(VerifyFlags& given) {
  const VerifyOptions& options = given.options;
  if (!options.json.empty()) check_writable(options.json);
  std::vector<std::string> texts = given.prompts();

  catch_interrupts();
  return verify(options, std::move(texts)) ? 0 : 1;
}

const CommandOf<VerifyFlags> kVerify(
    {.rank = 50,
     .name = "verify",
     .summary = "prove that speculation changes no byte of the text",
     .text =
         "Decode each prompt plainly and with speculation and compare the results. Exits with 0 if "
         "everything is identical, with 1 at the first difference, which is located.",
     .footer = kVerifyExamples},
    add_verify_flags, run_verify);

}  // namespace

}  // namespace specbound
