#include "app/verify_plan.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>

#include "app/text_input.h"
#include "error.h"

namespace specbound {

namespace {

constexpr size_t kMaxPrompts = 100000;
constexpr size_t kMaxPromptBytes = size_t{1} << 20;
constexpr size_t kMaxListed = 1000;

constexpr const char* kExamples =
    "Examples:\n"
    "  specbound verify --bits\n"
    "  specbound verify --bits --speculator forced --w-max 16 --ignore-eos\n"
    "  specbound verify -m base-model.gguf --raw -f prompts.txt --temps 0,1.5 --seeds 4 -n 200\n"
    "  specbound verify -p \"Find me a flight to Oslo.\" --json result.json";

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// A text option read by `parse`, whose complaints are the command line's.
template <class Parse>
CLI::Option* add_parsed(CLI::App& app, const char* name, const char* type, Parse parse,
                        const std::string& description) {
  const auto read = [parse](const std::string& text) {
    try {
      parse(text);
    } catch (const Error& e) {
      throw CLI::ValidationError(std::string(e.what()));
    }
  };
  return app.add_option_function<std::string>(name, read, description)->type_name(type);
}

void add_rate(CLI::App& app, const char* name, double& value, const std::string& description) {
  const auto parse = [name, &value](const std::string& text) {
    const std::optional<double> number = parse_number(text);
    if (!number || *number < 0 || *number > 1) {
      throw Error(ErrorCode::kUsage, format("%s: expected a number from 0 to 1, found \"%s\"", name,
                                            printable(text).c_str()));
    }
    value = *number;
  };
  add_parsed(app, name, "P", parse, description + format(" (default %g)", value))
      ->group("What is compared")
      ->configurable(false);
}

}  // namespace

const std::vector<std::string>& builtin_prompts() {
  static const std::vector<std::string> prompts = {
      "I need a table for two tonight.",
      "What is the capital of Norway, and how far is it from Berlin?",
      "Write a function that adds two numbers.\n\ndef add(a, b):\n",
      "1, 1, 2, 3, 5, 8, 13, 21, 34, 55,",
      "a",
      "Für drei Nächte ein Zimmer mit Frühstück, bitte.",
      "Привет! Как дела?",
      "今日の天気は?",
      "🎵🎵🎸",
      "{\"city\": \"Oslo\", \"nights\": 3, \"guests\": [\"Ann\", \"Bo\"]}",
      "again and again and again and again and again and again and",
      "Once upon a time there was a little girl who lived at the edge of a forest. Every morning "
      "she took her basket, walked to the old mill by the river, and asked the miller the same "
      "question. One day he did not answer. So she",
  };
  return prompts;
}

std::vector<std::string> prompt_lines(std::string_view text, const std::string& name) {
  std::vector<std::string> prompts;
  size_t number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    if (line.size() > kMaxPromptBytes) {
      throw Error(ErrorCode::kLimit,
                  format("%s, line %zu: expected a prompt of at most %zu KiB, "
                         "found %zu bytes",
                         name.c_str(), number, kMaxPromptBytes >> 10, line.size()));
    }
    if (prompts.size() == kMaxPrompts) {
      throw Error(ErrorCode::kLimit, format("%s: expected at most %zu prompts, found more",
                                            name.c_str(), kMaxPrompts));
    }
    prompts.emplace_back(line);
  }
  if (prompts.empty()) {
    throw Error(ErrorCode::kUsage,
                format("%s: expected a prompt a line, found no text", name.c_str()));
  }
  return prompts;
}

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
    temperatures.push_back(static_cast<float>(std::clamp(*number, -kMax, kMax)));
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

void add_verify_flags(CLI::App& app, VerifyFlags& flags) {
  app.add_option("-p,--prompt", flags.texts, "a prompt; may be repeated (default: a built-in set)")
      ->allow_extra_args(false)
      ->type_name("TEXT")
      ->configurable(false);
  add_file(app, "-f,--file", flags.file, "prompts from a file, one a line; - for stdin")
      ->configurable(false);
  add_prompt_flags(app, flags.prompt);
  add_int(app, "-n,--n-predict,--predict", flags.n_predict, 1, 1 << 30,
          "tokens of a reply (default 64)")
      ->configurable(false);  // chat's may be -1
  app.add_flag("--ignore-eos", flags.ignore_eos, "go on past the end of the reply");

  const std::string group = "What is compared";
  app.add_flag("--bits", flags.bits,
               "beside the tokens every bit: hidden rows after each stretch of layers, logits, K/V")
      ->group(group);
  add_parsed(
      app, "--temps", "LIST",
      [&flags](const std::string& text) { flags.temperatures = parse_temperatures(text); },
      "temperatures (default 0,0.7,1)")
      ->group(group);
  add_parsed(
      app, "--seeds", "N|LIST",
      [&flags](const std::string& text) { flags.seeds = parse_seeds(text); },
      "how many seeds, counted from 1, or which: 7,8 (default 2)")
      ->group(group);
  std::vector<std::string> words = speculators();
  words.emplace_back("forced");
  add_parsed(
      app, "--speculator", bar_list(words).c_str(),
      [&flags, words](const std::string& text) {
        if (std::ranges::count(words, text) == 0) {
          throw Error(ErrorCode::kUsage, format("--speculator: expected %s, found \"%s\"",
                                                or_list(words).c_str(), printable(text).c_str()));
        }
        flags.drafting.speculator = text;
      },
      "what drafts: the model's own shallow layers through its exit heads or the logit lens "
      "(default), another drafter of run's --speculator, or exits and tokens by chance, right and "
      "wrong on purpose")
      ->configurable(false)  // elsewhere it has other words
      ->group(group);
  add_rate(app, "--forced-exit", flags.rates.exit, "with forced: share of rows that draft");
  add_rate(app, "--forced-right", flags.rates.right, "with forced: share of drafts that are right");
  add_output_file(app, "--json", flags.json, "write every result as JSON")->group(group);
  add_sampling_flags(app, flags.sampling);
  for (const char* single : {"--temp", "--seed"}) app.remove_option(app.get_option(single));
  add_drafter_flags(app, flags.drafting);
  add_model_flags(app, flags.model);
  app.footer(kExamples);
}

std::vector<std::string> VerifyFlags::prompts() const {
  if (!texts.empty() && !file.empty()) {
    throw Error(ErrorCode::kUsage, "-p and -f both name prompts: give one of them");
  }
  if (!texts.empty()) return texts;
  if (file.empty()) return builtin_prompts();
  return prompt_lines(read_bytes(file), file == "-" ? "stdin" : file);
}

void VerifyFlags::check(const CLI::App& app) const {
  for (const char* name : {"--forced-exit", "--forced-right"}) {
    if (!forced() && app.get_option(name)->count() > 0) {
      throw Error(ErrorCode::kUsage, format("%s: needs --speculator forced", name));
    }
  }
  if (drafting.acceptance == Acceptance::kRejection) {
    throw Error(ErrorCode::kUsage,
                "--accept rejection: it keeps the probabilities of plain decoding, not its text: "
                "there is nothing to compare");
  }
  drafting.check();
  for (const float temperature : temperatures) {
    SamplingParams params = sampling.params;
    params.temperature = temperature;
    validate(params);
  }
}

}  // namespace specbound
