#include "cli/common_flags.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "cli/verify.h"
#include "error.h"
#include "library/model_name.h"
#include "library/model_path.h"
#include "runtime/gpu.h"
#include "system/text_input.h"
#include "templates/chat_template.h"
#include "terminal/flag_names.h"
#include "tools/tuning_texts.h"

namespace specbound {

// ---- which model, where it runs and how ----

Flag& add_chat_template(Flags& flags, std::string& value) {
  const std::vector<std::string> names = ChatTemplate::names();
  const auto read = [&value, names](const std::string& text) {
    value = text;
    return std::ranges::count(names, text) > 0;
  };
  return flags
      .add_read("--chat-template", "one of " + joined(names), read,
                "how conversations are written (default: as the file says; ChatML if that is not "
                "known)")
      .type(bar_list(names))
      .overrides({"raw", "chat-template-file"});
}

namespace {

constexpr const char* kAdvanced = "Advanced";

[[noreturn]] void named_twice(const char* one, const char* other, const char* what) {
  throw Error(ErrorCode::kUsage,
              format("%s and %s both name a %s: give one of them", one, other, what));
}

// llama.cpp's spelling of a model of the hub.
void add_hub_model(Flags& flags, std::string& model) {
  const auto read = [&model](const std::vector<std::string>& values) {
    model = hub_model(values.back());
  };
  flags
      .add_values("-hf,--hf-repo", Flag::Counts::kLast, read,
                  "the same as -m hf:OWNER/REPO[:QUANT], as llama.cpp spells it")
      .type("OWNER/REPO")
      .overrides({"model"})
      .command_line_only();
  flags.add_check([&flags] {
    const Flag* const hub = flags.find("-hf");
    if (hub && hub->given() && flags["-m"].given()) named_twice("-m", "-hf", "model");
  });
}

void add_device_flags(Flags& flags, DeviceOptions& options) {
  const char* none = gpu_engine().built() ? "" : "; this build has no GPU backend";
  const auto read_where = [&options](const std::vector<std::string>& values) {
    try {
      read_device(options, values.back());
    } catch (const Error& e) {
      throw Error(ErrorCode::kUsage, std::string("--device: ") + e.what());
    }
  };
  flags
      .add_values(
          "--device", Flag::Counts::kLast, read_where,
          format("where to run (default auto: the first GPU that can, else the CPU)%s", none))
      .type("auto|cpu|cuda|cuda:N")
      .overrides({"gpu-layers"});
  const auto read_layers = [&options](const std::vector<std::string>& values) {
    const std::string& text = values.back();
    const std::optional<int64_t> number =
        text == "all" ? DeviceOptions::kAllLayers : parse_int(text);
    if (!number || *number < 0) {
      throw Error(ErrorCode::kUsage,
                  format("-ngl: expected 0, all or a number of layers, found \"%s\"",
                         printable(text).c_str()));
    }
    options.layers = static_cast<int>(std::min<int64_t>(*number, DeviceOptions::kAllLayers));
  };
  flags
      .add_values(
          "-ngl,--gpu-layers,--n-gpu-layers", Flag::Counts::kLast, read_layers,
          format(
              "layers on the GPU, the first ones; the CPU runs the rest (default: all, or as many "
              "as fit)%s",
              none))
      .type("N|all")
      .overrides({"device"});
  flags.add_choice(
      "--dtype", options.dtype,
      {{"auto", GpuDtype::kAsStored}, {"int8", GpuDtype::kInt8}, {"fp16", GpuDtype::kFp16}},
      "weights on a GPU (default auto: quantized ones as INT8 or 4 to 6 bits, all else "
      "as fp16); the CPU takes them as stored");
  flags
      .add_choice("--prefill", options.prefill,
                  {{"own", PrefillPath::kOwn}, {"cublas", PrefillPath::kCublas}},
                  "what reads prompts on a GPU (default own); cublas needs the library, and the "
                  "bits of a prompt may change with its version")
      .group(kAdvanced);
}

}  // namespace

Flag& add_model_file(Flags& flags, std::string& value) {
  return flags
      .add_file("-m,--model", value,
                "GGUF file, hf:OWNER/REPO[:QUANT] or a short name, as pull takes it (default: the "
                "bundled demo model)")
      .type("FILE.gguf");
}

void add_model_flags(Flags& flags, ModelOptions& options) {
  const Flags::Group group(flags, "Model");
  add_model_file(flags, options.model);
  add_hub_model(flags, options.model);
  flags.add_int("-c,--ctx-size", options.n_ctx, 0, 1 << 24,
                "context in tokens (default 0: as trained, at most 4096)");
  flags.add_int("-t,--threads", options.n_threads, 0, kMaxThreads,
                "threads of the CPU (default 0: one per physical core)");
  flags.add_choice(
      "--kv", options.device.kv, {std::begin(kKvTypes), std::end(kKvTypes)},
      "what K and V are kept as (default fp16); int8 takes about half of the memory and is "
      "another text, the same with speculation and without");
  add_chat_template(flags, options.chat_template);
  add_device_flags(flags, options.device);
  flags
      .add_switch("--no-repack", options.no_repack,
                  "read INT8 weights in place: starts at once, runs slower, same text")
      .group(kAdvanced);
  options.keep_tiles = KeepTiles::kAuto;
  flags
      .add_choice("--keep-repacked", options.keep_tiles,
                  {{"auto", KeepTiles::kAuto}, {"on", KeepTiles::kOn}, {"off", KeepTiles::kOff}},
                  "keep repacked weights on disk for the next start (default auto: from 256 MB "
                  "on)")
      .group(kAdvanced);
  flags
      .add_text("--isa", options.isa,
                "CPU kernels; all give the same text (default auto: the fastest that this CPU has)")
      .type("auto|portable|avx2|avxvnni|avx512")
      .group(kAdvanced);
}

void add_chat_template_file(Flags& flags, ModelOptions& options) {
  const Flags::Group group(flags, "Model");
  flags
      .add_file("--chat-template-file", options.chat_template_file,
                "Jinja text that says how conversations are written (default: the model's own)")
      .overrides({"raw", "chat-template"});
}

// ---- the text ----

namespace {

// All of stdin. Whoever left a pipe open there, as ssh does, learns what is waited for.
std::string piped_text() {
  const int flags = fcntl(STDIN_FILENO, F_GETFL);
  // Closed, or as nohup leaves it: nobody pipes anything in.
  if (flags < 0 || (flags & O_ACCMODE) == O_WRONLY) return "";
  constexpr int kPatienceMs = 2000;
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  if (poll(&input, 1, kPatienceMs) == 0) {
    say("waiting for stdin, which stands behind the prompt; with </dev/null it is empty");
  }
  return read_text("-");
}

}  // namespace

void add_text_flags(Flags& flags, TextFlags& text, const char* text_description,
                    const char* file_description) {
  flags.add_text("-p,--prompt", text.text, text_description).once().command_line_only();
  flags.add_file("-f,--file", text.file, file_description).once().command_line_only();
}

std::string TextFlags::path() const {
  if (text && !file.empty()) named_twice("-p", "-f", "text");
  if (!text && file.empty() && isatty(STDIN_FILENO)) {
    throw Error(ErrorCode::kUsage, "no text: give -p TEXT or -f FILE, or pipe text in" + or_else);
  }
  return file.empty() ? "-" : file;
}

std::string TextFlags::given() const {
  const std::string from = path();
  return text ? *text : read_text(from);
}

std::string TextFlags::prompt() const {
  std::string prompt = given();
  if (text && !isatty(STDIN_FILENO)) {
    const std::string piped = piped_text();
    prompt += (prompt.empty() || piped.empty() ? "" : "\n\n") + piped;
  }
  if (prompt.empty() && !text) {
    const std::string from = path();
    throw Error(ErrorCode::kUsage,
                format("%s: expected a prompt, found no text; -p \"\" gives an empty prompt",
                       from == "-" ? "stdin" : from.c_str()));
  }
  return prompt;
}

namespace {

void check_is_model(const std::string& word, bool takes_text) {
  std::error_code ignored;
  if (word.ends_with(".gguf") || std::filesystem::exists(word, ignored) || is_model_name(word)) {
    return;
  }
  throw Error(ErrorCode::kUsage,
              format("expected a model, a GGUF file or a name, found \"%s\"%s",
                     printable(word).c_str(), takes_text ? "; -p gives a text alone" : ""));
}

}  // namespace

void add_place_flags(Flags& flags, PlaceFlags& given, ModelOptions& model, TextFlags* text) {
  flags.add_text("MODEL", given.model, "the model, as -m has it")
      .type("FILE.gguf")
      .overrides({"model"});
  if (text) flags.add_text("TEXT", given.text, "the prompt, as -p has it");
  flags.add_check([&flags, &given, &model, text] {
    const Flag& by_name = flags["-hf"].given() ? flags["-hf"] : flags["-m"];
    const bool named = by_name.given();
    if (text && named && !given.text) given.text = std::exchange(given.model, std::nullopt);
    if (given.model) {
      if (named) named_twice(by_name.declared().names.front().c_str(), "MODEL", "model");
      check_is_model(*given.model, text != nullptr);
      model.model = *given.model;
      if (text) {
        text->or_else = "; specbound chat " + shell_word(model.model) + " talks with the model";
      }
    }
    if (given.text) {
      if (text->text || !text->file.empty()) named_twice(text->text ? "-p" : "-f", "TEXT", "text");
      text->text = given.text;
    }
  });
}

void add_prompt_flags(Flags& flags, PromptOptions& options) {
  flags.add_switch("--raw", options.raw, "no chat template: the model continues the text")
      .overrides({"sys", "chat-template", "chat-template-file"});
  flags.add_switch("--parse-special", options.parse_special,
                   "with --raw: control tokens spelled in the prompt become those tokens");
}

// ---- how tokens are drawn, and what becomes of them ----

void add_sampling_flags(Flags& flags, SamplingOptions& options) {
  const Flags::Group group(flags, "Sampling, applied in this order");
  SamplingParams& p = options.params;
  const auto whole = [&](const char* names, int& value, const std::string& description) {
    add_checked<int>(
        flags, names, value, "a number", [&p] { validate(p); }, description)
        .type("N");
  };
  const auto real = [&](const char* names, float& value, const std::string& description) {
    add_checked<float>(
        flags, names, value, "a number", [&p] { validate(p); }, description)
        .type("X");
  };
  real("--presence-penalty", p.presence_penalty,
       "taken once from the logits of tokens that the reply has, -2 to 2 (default 0: off)");
  real("--frequency-penalty", p.frequency_penalty,
       "likewise, for each time that it has them (default 0: off)");
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
  const auto read_seed = [&options](const std::string& text) {
    const std::optional<uint64_t> seed = parse_uint(text);
    if (!seed && text != "-1") return false;
    options.seed = seed;
    return true;
  };
  flags
      .add_read("-s,--seed",
                "a whole number from 0 to 18446744073709551615, or -1 for a random one", read_seed,
                "the same seed gives the same text (default: random, shown)")
      .type("N");
}

Flag& add_system_flag(Flags& flags, std::string& system, const std::string& description) {
  return flags.add_text("-sys,--sys,--system-prompt", system, description).overrides({"raw"});
}

void add_grammar_flags(Flags& flags, GrammarOptions& options) {
  flags
      .add_file("--grammar", options.grammar,
                "hold replies to a grammar in GBNF, as llama.cpp has it (default: none)")
      .overrides({"json-schema", "ignore-eos"});
  flags
      .add_file("--json-schema", options.json_schema,
                "hold replies to JSON that this schema allows (default: none)")
      .overrides({"grammar", "ignore-eos"});
}

void add_reply_flags(Flags& flags, ReplyOptions& options) {
  const Flags::Group group(flags, "Reply");
  flags.add_int("-n,--n-predict,--predict", options.n_predict, -1, 1 << 30,
                "tokens of a reply at most (default -1: until it ends or the context is full)");
  add_system_flag(flags, options.system, "system prompt (default: none)");
  flags.add_switch("--ignore-eos", options.ignore_eos, "go on past the end of the reply")
      .overrides({"grammar", "json-schema"});
  const auto read_stop = [&options](const std::vector<std::string>& values) {
    try {
      options.stop = StopStrings(values);
    } catch (const Error& e) {
      throw Error(ErrorCode::kUsage, std::string("--stop: ") + e.what());
    }
  };
  flags.add_values("--stop", Flag::Counts::kEach, read_stop,
                   format("end the reply before this text (may be given up to %zu times)",
                          StopStrings::kMaxStrings));
  add_grammar_flags(flags, options.grammar);
  flags.add_check([&options] { options.grammar.check(options.ignore_eos); });
  flags.add_switch("--show-exits", options.show_exits,
                   "colour tokens by the layer their draft left at, on a terminal");
  flags.add_switch("--quiet", options.quiet,
                   "tell nothing of model, drafts and speed; errors and warnings all the same");
  flags.add_output_file("--stats-json", options.stats_json,
                        "write the figures of the reply as JSON");
  flags.add_output_file("--trace", options.trace,
                        "write what each round and token did as JSON lines");
}

// ---- texts to tune by ----

Flag& add_data_files(Flags& flags, std::vector<std::string>& paths, const std::string& what,
                     const std::string& otherwise) {
  return flags.add_files(
      "--data", paths,
      what +
          ", - for stdin; may be given several times: .jsonl with a dialogue {\"messages\": "
          "[{\"role\", \"content\"}, ...]}, a bare list of messages or a {\"text\": ...} a "
          "line, files of a chat's /save, .txt with plain text, .xz with any of these" +
          otherwise);
}

void add_temperatures(Flags& flags, std::vector<float>& values, const std::string& description) {
  const auto read = [&values](const std::vector<std::string>& given) {
    values = parse_temperatures(given.back());
  };
  flags.add_values("--temps", Flag::Counts::kLast, read, description).type("LIST");
}

void add_tuning_texts(Flags& flags, TuningTextOptions& options) {
  flags.add_files("--data", options.data,
                  "dialogues whose turns the model answers: .jsonl, .txt, .xz (default: some "
                  "of several kinds)",
                  Flag::Counts::kMany);
  add_temperatures(flags, options.temperatures, "temperatures of the replies (default 0,0.7)");
}

}  // namespace specbound
