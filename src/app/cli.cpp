#include "app/cli.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "app/text_input.h"
#include "error.h"
#include "text/chat_template.h"

namespace specbound {

namespace {

// Of "-n,--n-predict,--predict" the one that complaints name: the first long one.
std::string complained_name(const std::string& names) {
  const size_t begin = names.find("--");
  if (begin == std::string::npos) return names;
  return names.substr(begin, names.find(',', begin) - begin);
}

// A sampling parameter. Its range is known to validate() alone: it looks at `params` once `assign`
// has put the number there.
template <typename Assign>
CLI::Option* add_sampling(CLI::App& app, const char* names, const SamplingParams& params,
                          Assign assign, const std::string& description) {
  const auto read = [&params, name = complained_name(names), assign](const std::string& text) {
    if (!assign(text)) {
      throw CLI::ValidationError(
          name, format("expected a number, found \"%s\"", printable(text).c_str()));
    }
    try {
      validate(params);
    } catch (const Error& e) {
      throw CLI::ValidationError(std::string(e.what()));
    }
  };
  return app.add_option_function<std::string>(names, read, description);
}

// --stop, which counts as often as it is given.
CLI::Option* add_stop_strings(CLI::App& app, StopStrings& stop) {
  const auto read = [&stop](const std::vector<std::string>& given) {
    try {
      stop = StopStrings(given);
    } catch (const Error& e) {
      throw CLI::ValidationError("--stop", e.what());
    }
    return true;
  };
  return app
      .add_option("--stop", read,
                  format("end the reply before this text (may be given up to %zu times)",
                         StopStrings::kMaxStrings))
      ->type_name("TEXT")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

uint64_t random_seed() {
  std::random_device device;
  return device();  // 32 bits: short enough to type again
}

}  // namespace

std::optional<int64_t> parse_int(std::string_view text) {
  int64_t value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<uint64_t> parse_uint(std::string_view text) {
  uint64_t value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

CLI::Option* add_int(CLI::App& app, const std::string& names, int& value, int low, int high,
                     const std::string& description) {
  const auto read = [&value, low, high, name = complained_name(names)](const std::string& text) {
    const std::optional<int64_t> number = parse_int(text);
    if (!number || *number < low || *number > high) {
      throw CLI::ValidationError(name, format("expected a whole number from %d to %d, found \"%s\"",
                                              low, high, printable(text).c_str()));
    }
    value = static_cast<int>(*number);
  };
  return app.add_option_function<std::string>(names, read, description)->type_name("N");
}

CLI::Option* add_file(CLI::App& app, const std::string& names, std::string& value,
                      const std::string& description) {
  const auto read = [&value, name = complained_name(names)](const std::string& text) {
    if (text.empty()) {
      throw CLI::ValidationError(name, "expected the name of a file, found an empty one");
    }
    value = text;
  };
  return app.add_option_function<std::string>(names, read, description)->type_name("FILE");
}

CLI::Option* add_output_file(CLI::App& app, const std::string& names, std::string& value,
                             const std::string& description) {
  const auto check = [](const std::string& path) {
    return std::string(path == "-" ? "expected a file, found -: stdout carries the text; "
                                     "/dev/stderr works"
                                   : "");
  };
  return add_file(app, names, value, description)->check(check)->configurable(false);
}

CLI::Option* add_model_file(CLI::App& app, std::string& value) {
  return add_file(app, "-m,--model", value, "GGUF file (default: the bundled demo model)")
      ->type_name("FILE.gguf");
}

namespace {

CLI::Option* add_chat_template(CLI::App& app, std::string& value) {
  std::string names, words;
  for (const std::string& name : ChatTemplate::names()) {
    names += (names.empty() ? "" : ", ") + name;
    words += (words.empty() ? "" : "|") + name;
  }
  const auto check = [names](const std::string& name) {
    const std::vector<std::string> known = ChatTemplate::names();
    if (std::find(known.begin(), known.end(), name) != known.end()) return std::string();
    return format("expected one of %s, found \"%s\"", names.c_str(), printable(name).c_str());
  };
  return app
      .add_option("--chat-template", value,
                  "how conversations are written (default: as the file says; ChatML if that is not "
                  "known)")
      ->type_name(words)
      ->check(check);
}

}  // namespace

void add_model_flags(CLI::App& app, ModelFlags& flags) {
  const std::string group = "Model";
  const auto text = [&](const char* names, std::string& value, const char* type,
                        const char* description) {
    return app.add_option(names, value, description)->type_name(type);
  };
  add_model_file(app, flags.model)->group(group);
  add_int(app, "-c,--ctx-size", flags.n_ctx, 1, 1 << 24,
          "context in tokens (default: as trained, at most 4096)")
      ->group(group);
  add_int(app, "-t,--threads", flags.n_threads, 0, kMaxThreads,
          "threads of the CPU (default 0: one per physical core)")
      ->group(group);
  add_chat_template(app, flags.chat_template)->group(group);
  const std::string advanced = "Advanced";
  add_device_flags(app, flags.device, group, advanced);
  app.add_flag("--no-repack", flags.no_repack,
               "read INT8 weights in place: starts at once, runs slower, same text")
      ->group(advanced);
  text("--isa", flags.isa, "auto|portable|avx2|avx512",
       "CPU kernels; all give the same text (default auto: the fastest that this CPU has)")
      ->group(advanced);
}

CpuOptions ModelFlags::cpu_options() const {
  CpuOptions options;
  options.n_ctx = n_ctx;
  options.n_threads = n_threads;
  options.repack = !no_repack;
  if (isa == "portable") {
    options.isa = Isa::kPortable;
  } else if (isa == "avx2") {
    options.isa = Isa::kAvx2;
  } else if (isa == "avx512") {
    options.isa = Isa::kAvx512Vnni;
  } else if (isa != "auto") {
    throw Error(ErrorCode::kUsage, format("--isa %s: expected auto, portable, avx2 or avx512",
                                          printable(isa).c_str()));
  }
  if (!isa_supported(options.isa)) {
    throw Error(
        ErrorCode::kUsage,
        format("--isa %s: this CPU lacks it; specbound doctor lists what it has", isa.c_str()));
  }
  return options;
}

void add_text_flags(CLI::App& app, TextFlags& flags, const char* text, const char* file) {
  app.add_option_function<std::string>(
         "-p,--prompt", [&flags](const std::string& given) { flags.text = given; }, text)
      ->type_name("TEXT")
      ->configurable(false);
  add_file(app, "-f,--file", flags.file, file)->configurable(false);
}

std::string TextFlags::path() const {
  if (text && !file.empty()) {
    throw Error(ErrorCode::kUsage, "-p and -f both name a text: give one of them");
  }
  if (!text && file.empty() && isatty(STDIN_FILENO)) {
    throw Error(ErrorCode::kUsage, "no text: give -p TEXT or -f FILE, or pipe text in");
  }
  return file.empty() ? "-" : file;
}

std::string TextFlags::bytes() const {
  const std::string from = path();
  return text ? *text : read_bytes(from);
}

std::string TextFlags::prompt() const {
  const std::string from = path();
  if (text) return *text;
  const std::string prompt = read_text(from);
  if (prompt.empty()) {
    throw Error(ErrorCode::kUsage,
                format("%s: expected a prompt, found no text; -p \"\" gives an empty prompt",
                       from == "-" ? "stdin" : from.c_str()));
  }
  return prompt;
}

void add_sampling_flags(CLI::App& app, SamplingFlags& flags) {
  const std::string group = "Sampling, applied in this order";
  SamplingParams& p = flags.params;
  const auto whole = [&](const char* name, int& value, const std::string& description) {
    const auto assign = [&value](const std::string& text) {
      constexpr int64_t kMax = std::numeric_limits<int>::max();
      const std::optional<int64_t> number = parse_int(text);
      if (number) value = static_cast<int>(std::clamp(*number, -kMax, kMax));
      return number.has_value();
    };
    add_sampling(app, name, p, assign, description)->type_name("N")->group(group);
  };
  const auto real = [&](const char* name, float& value, const std::string& description) {
    const auto assign = [&value](const std::string& text) {
      constexpr double kMax = std::numeric_limits<float>::max();
      const std::optional<double> number = parse_number(text);
      if (number) value = static_cast<float>(std::clamp(*number, -kMax, kMax));
      return number.has_value();
    };
    add_sampling(app, name, p, assign, description)->type_name("X")->group(group);
  };
  real("--repeat-penalty", p.repeat_penalty,
       format("divides the logits of recent tokens (default %g: off)", p.repeat_penalty));
  whole("--repeat-last-n", p.repeat_last_n,
        format("tokens it looks back (default %d; 0: none, -1: all)", p.repeat_last_n));
  whole("--top-k", p.top_k, format("keep the k likeliest tokens (default %d; 0: all)", p.top_k));
  real("--top-p", p.top_p,
       format("keep the likeliest tokens that sum to this (default %g; 1: all)", p.top_p));
  real("--min-p", p.min_p,
       format("drop tokens below this share of the likeliest (default %g; 0: none)", p.min_p));
  real("--temp,--temperature", p.temperature,
       format("0 always takes the likeliest token (default %g)", p.temperature));
  const auto read_seed = [&flags](const std::string& text) {
    if (text == "-1") {
      flags.seed.reset();
      return;
    }
    const std::optional<uint64_t> seed = parse_uint(text);
    if (!seed) {
      throw CLI::ValidationError(
          "--seed", format("expected a whole number from 0 to 18446744073709551615, or -1 for a "
                           "random one, found \"%s\"",
                           printable(text).c_str()));
    }
    flags.seed = *seed;
  };
  app.add_option_function<std::string>("-s,--seed", read_seed,
                                       "the same seed gives the same text (default: random, shown)")
      ->type_name("N")
      ->group(group);
}

SamplingParams SamplingFlags::resolve() const {
  SamplingParams resolved = params;
  resolved.seed = seed ? *seed : random_seed();
  validate(resolved);
  return resolved;
}

void add_reply_flags(CLI::App& app, ReplyFlags& flags) {
  const std::string group = "Reply";
  add_int(app, "-n,--n-predict,--predict", flags.n_predict, -1, 1 << 30,
          "tokens of a reply at most (default -1: until it ends or the context is full)")
      ->group(group);
  app.add_option("--sys,--system-prompt", flags.system, "system prompt (default: none)")
      ->type_name("TEXT")
      ->group(group);
  app.add_flag("--ignore-eos", flags.ignore_eos, "go on past the end of the reply")->group(group);
  add_stop_strings(app, flags.stop)->group(group);
  app.add_flag("--show-exits", flags.show_exits,
               "colour tokens by the layer their draft left at, on a terminal")
      ->group(group);
  add_output_file(app, "--stats-json", flags.stats_json, "write the figures of the reply as JSON")
      ->group(group);
  add_output_file(app, "--trace", flags.trace, "write what each round and token did as JSON lines")
      ->group(group);
}

}  // namespace specbound
