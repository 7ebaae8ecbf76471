#include "app/cli.h"

#include <charconv>
#include <cmath>
#include <random>
#include <vector>

#include "error.h"

namespace specbound {

namespace {

// CLI11 reads "-ngl 0" as "-n gl 0"; these spellings become the long ones before it looks.
constexpr struct {
  const char* name;
  const char* long_name;
} kLongShortNames[] = {{"-ngl", "--gpu-layers"}};

// The arguments after argv[0], with -ngl and "--name=" spelled as CLI11 understands them. The value
// of an option is passed through whatever it looks like.
std::vector<std::string> normalized_arguments(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> out;
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    if (arg == "--") {
      out.insert(out.end(), argv + i, argv + argc);
      break;
    }
    for (const auto& [name, long_name] : kLongShortNames) {
      if (arg == name) arg = long_name;
      if (arg.starts_with(std::string(name) + "=")) {
        arg = long_name + arg.substr(std::string_view(name).size());
      }
    }
    if (arg.starts_with("--") && arg.size() > 3 && arg.find('=') == arg.size() - 1) {
      arg.pop_back();
      out.push_back(arg);
      out.emplace_back();
      continue;
    }
    out.push_back(arg);
    const CLI::Option* option =
        arg.starts_with("-") && arg.size() > 1 ? app.get_option_no_throw(arg) : nullptr;
    if (option && option->get_items_expected_min() > 0 && i + 1 < argc) out.push_back(argv[++i]);
  }
  return out;
}

// What CLI11 complains about, as one line that can be shown whatever bytes it quotes.
std::string complaint(const CLI::ParseError& e) {
  std::string text = e.what();
  const size_t missing = text.find(": 1 required ");
  if (missing != std::string::npos && text.ends_with(" missing")) {
    text = text.substr(0, missing) + ": a value is missing";
  }
  constexpr size_t kMax = 300;
  std::string line;
  for (unsigned char c : text.substr(0, kMax)) {
    line += c >= 0x20 && c != 0x7f ? std::string(1, static_cast<char>(c)) : format("\\x%02x", c);
  }
  return text.size() > kMax ? line + "..." : line;
}

// CLI11's help, with one blank line between groups instead of two.
std::string help_text(const CLI::App& app) {
  std::string text = app.help();
  for (size_t at; (at = text.find("\n\n\n")) != std::string::npos;) text.erase(at, 1);
  return text;
}

std::string number_text(double value) {
  return format("%.6g", value);
}

uint64_t random_seed() {
  std::random_device device;
  return device();  // 32 bits: short enough to type again
}

}  // namespace

std::optional<int> parse_cli(CLI::App& app, int argc, char** argv, FILE* out, FILE* err) {
  SB_CHECK(argc >= 1);
  if (app.get_name().empty()) app.name(std::string("specbound ") + argv[0]);
  for (CLI::Option* option : app.get_options()) {
    // The last one counts, so that a script's defaults can be overridden behind them.
    if (option->get_items_expected_max() == 1) {
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
  }
  std::vector<std::string> arguments = normalized_arguments(app, argc, argv);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    std::fputs(help_text(app).c_str(), out);
    return 0;
  } catch (const CLI::ParseError& e) {
    std::fprintf(err, "specbound %s: %s; specbound %s --help lists the options\n", argv[0],
                 complaint(e).c_str(), argv[0]);
    return 2;
  }
  return std::nullopt;
}

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
  const auto read = [&value, low, high, names](const std::string& text) {
    const std::optional<int64_t> number = parse_int(text);
    if (!number || *number < low || *number > high) {
      throw CLI::ValidationError(
          names, format("expected a whole number from %d to %d, found \"%s\"", low, high,
                        printable(text).c_str()));
    }
    value = static_cast<int>(*number);
  };
  return app.add_option_function<std::string>(names, read, description)->type_name("N");
}

CLI::Option* add_number(CLI::App& app, const std::string& names, float& value, double low,
                        double high, const std::string& description) {
  const auto read = [&value, low, high, names](const std::string& text) {
    const std::optional<double> number = parse_number(text);
    if (!number || *number < low || *number > high) {
      throw CLI::ValidationError(
          names, format("expected a number from %s to %s, found \"%s\"", number_text(low).c_str(),
                        number_text(high).c_str(), printable(text).c_str()));
    }
    value = static_cast<float>(*number);
  };
  return app.add_option_function<std::string>(names, read, description)->type_name("X");
}

void add_model_flags(CLI::App& app, ModelFlags& flags) {
  const std::string group = "Model";
  const auto text = [&](const char* names, std::string& value, const char* type,
                        const char* description) {
    return app.add_option(names, value, description)->type_name(type);
  };
  text("-m,--model", flags.model, "FILE", "GGUF file (default: the bundled demo model)")
      ->group(group);
  add_int(app, "-c,--ctx-size", flags.n_ctx, 1, 1 << 24,
          "context in tokens (default: as trained, at most 4096)")
      ->group(group);
  add_int(app, "-t,--threads", flags.n_threads, 1, 1024, "threads (default: one per physical core)")
      ->group(group);
  app.add_option("--gpu-layers,--n-gpu-layers", flags.gpu_layers,
                 "also -ngl: layers on the GPU; this build has none, both run on the CPU")
      ->type_name("0|all")
      ->group(group);
  text("--device", flags.device, "auto|cpu", "where to run")->group(group);
  const std::string advanced = "Advanced";
  app.add_flag("--no-repack", flags.no_repack,
               "read INT8 weights in place: starts at once, runs slower, same text")
      ->group(advanced);
  text("--isa", flags.isa, "auto|portable|avx2|avx512", "CPU kernels; all give the same text")
      ->group(advanced);
}

CpuOptions ModelFlags::cpu_options() const {
  if (gpu_layers && *gpu_layers != "all" && *gpu_layers != "0") {
    throw Error(ErrorCode::kUsage,
                format("-ngl %s: expected 0 or all; a model cannot be split between GPU and CPU",
                       printable(*gpu_layers).c_str()));
  }
  if (device != "auto" && device != "cpu") {
    throw Error(ErrorCode::kUsage,
                format("--device %s: expected auto or cpu; this build has no GPU backend",
                       printable(device).c_str()));
  }
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

void add_sampling_flags(CLI::App& app, SamplingFlags& flags) {
  const std::string group = "Sampling, applied in this order";
  SamplingParams& p = flags.params;
  add_number(app, "--repeat-penalty", p.repeat_penalty, 0.01, 100,
             format("divides the logits of recent tokens (default %g: off)", p.repeat_penalty))
      ->group(group);
  add_int(app, "--repeat-last-n", p.repeat_last_n, -1, 1 << 24,
          format("tokens it looks back (default %d; 0: none, -1: all)", p.repeat_last_n))
      ->group(group);
  add_int(app, "--top-k", p.top_k, 0, 1 << 24,
          format("keep the k likeliest tokens (default %d; 0: all)", p.top_k))
      ->group(group);
  add_number(app, "--top-p", p.top_p, 0, 1,
             format("keep the likeliest tokens that sum to this (default %g; 1: all)", p.top_p))
      ->group(group);
  add_number(app, "--min-p", p.min_p, 0, 1,
             format("drop tokens below this share of the likeliest (default %g; 0: none)", p.min_p))
      ->group(group);
  add_number(app, "--temp", p.temperature, 0, 100,
             format("0 always takes the likeliest token (default %g)", p.temperature))
      ->group(group);
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
  add_int(app, "-n,--n-predict", flags.n_predict, -1, 1 << 30,
          "tokens of a reply at most (default -1: until it ends or the context is full)")
      ->group(group);
  app.add_option("--sys", flags.system, "system prompt")->type_name("TEXT")->group(group);
  app.add_flag("--ignore-eos", flags.ignore_eos, "go on past the end of the reply")->group(group);
  app.add_option("--stats-json", flags.stats_json, "write the figures of the reply as JSON")
      ->type_name("FILE")
      ->group(group);
}

}  // namespace specbound
