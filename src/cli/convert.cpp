// `specbound convert`: a Hugging Face model directory as a GGUF file, or published draft heads as a
// heads file. stdout carries the summary, stderr the rest.
#include "convert/convert.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/command.h"
#include "convert/hf_config.h"
#include "convert/published_heads.h"
#include "engine/cpu/cpu_topology.h"
#include "engine/pages.h"
#include "error.h"
#include "json/json_writer.h"
#include "library/model_path.h"
#include "system/file_output.h"
#include "terminal/new_file_job.h"
#include "terminal/terminal_text.h"

namespace specbound::convert_command {
namespace {

using Json = nlohmann::ordered_json;

const std::string kExplained =
    "Write a Hugging Face model as one GGUF file, with its tokenizer and chat template.\n\n"
    "DIR holds config.json, the weights as safetensors (one file, or several with their index), "
    "and tokenizer.json or tokenizer.model: what `git clone` or `hf download` leave. Models of "
    "these classes are read: " +
    hf_class_names() +
    ".\n\n"
    "  F32, F16, BF16   32 or 16 bits a weight; BF16 has the range of F32 and fewer digits\n"
    "  Q8_0             8.5 bits: close to the original\n"
    "  Q4_K, Q4_0       4.5 bits: `specbound quantize --help` says more\n\n"
    "Nothing is downloaded and no code of the directory runs. What the files ask for and a GGUF "
    "file cannot say is told; what would change the model's text is refused.\n\n"
    "With --heads DIR holds draft heads as Medusa, Hydra, EAGLE (1 to 3) or Kangaroo publish them, "
    "weights as safetensors, for the model of -m, or is the directory of a MiMo model, whose layer "
    "of multi-token prediction is taken. They become a heads file, each matrix in the type that it "
    "has, or as F32, F16, BF16 or Q8_0; --heads of run and chat takes it, and beside MODEL.gguf as "
    "MODEL.heads.gguf it is found.";

constexpr const char* kExamples =
    "Examples:\n"
    "  specbound convert Qwen2.5-0.5B-Instruct --type Q8_0\n"
    "  specbound convert ~/models/SmolLM3-3B -o smollm3.gguf && specbound chat -m smollm3.gguf\n"
    "  specbound convert my-finetune --pre qwen2 --name \"My finetune\" --json\n"
    "  specbound convert --heads medusa-vicuna-7b -m vicuna-7b.gguf -o vicuna-7b.heads.gguf";

struct ConvertFlags {
  std::string directory, heads, model, out, type, name, pre;
  int n_threads = 0;
  bool json = false;
};

ConvertOptions read_options(const ConvertFlags& given) {
  if (given.directory.empty()) {
    throw Error(ErrorCode::kUsage,
                "expected the directory of a Hugging Face model: specbound convert DIR");
  }
  ConvertOptions options;
  options.directory = given.directory;
  const std::optional<DType> type = given.type.empty() ? DType::kF16 : convert_type(given.type);
  if (!type) {
    throw Error(ErrorCode::kUsage, format("--type %s: expected F32, F16, BF16, Q8_0, Q4_0 or Q4_K",
                                          printable(given.type).c_str()));
  }
  options.type = *type;
  options.name = given.name;
  if (!given.pre.empty()) options.pre = given.pre;
  options.output = given.out;
  if (given.out.empty()) {
    std::string suffix = dtype_info(*type)->name;
    std::transform(suffix.begin(), suffix.end(), suffix.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    options.output = model_name(given.directory) + "-" + suffix + ".gguf";
  }
  check_new_file(options.output, "");
  options.n_threads = given.n_threads > 0 ? given.n_threads : usable_cores();
  return options;
}

ConvertHeadsOptions read_heads_options(const ConvertFlags& given) {
  const auto refuse = [](const char* flag, const char* expected) {
    throw Error(ErrorCode::kUsage, format("--heads: expected %s%s", flag, expected));
  };
  if (!given.directory.empty()) refuse("one directory", ", found another one beside it");
  if (!given.name.empty() || !given.pre.empty()) refuse("no --name and no --pre", "");
  if (given.model.empty()) refuse("-m MODEL", ", the model that the heads are for");
  if (given.out.empty()) refuse("-o FILE", ", the file to write");
  ConvertHeadsOptions options;
  options.directory = given.heads;
  if (!given.type.empty()) {
    options.type = convert_type(given.type);
    if (!options.type || *options.type == DType::kQ4_0 || *options.type == DType::kQ4_K) {
      throw Error(ErrorCode::kUsage,
                  format("--type %s: expected F32, F16, BF16 or Q8_0 with --heads",
                         printable(given.type).c_str()));
    }
  }
  options.model = find_model(given.model);
  options.reserve = [](size_t bytes) {
    require_memory(bytes, format("the heads, %.1f MB", 1e-6 * static_cast<double>(bytes)));
  };
  options.output = given.out;
  check_new_file(options.output, "");
  return options;
}

Json summary_json(const ConvertOptions& options, const Converted& done, size_t bytes,
                  double seconds) {
  Json types = Json::object();
  for (const auto& [type, size] : done.by_type) types[dtype_info(type)->name] = size;
  return {{"file", options.output},
          {"source", options.directory},
          {"name", done.name},
          {"class", done.hf_architecture},
          {"architecture", done.architecture},
          {"type", dtype_info(options.type)->name},
          {"bytes", bytes},
          {"tensors", done.tensors},
          {"parameters", done.parameters},
          {"bytes_by_type", types},
          {"tokens", done.n_tokens},
          {"tokenizer", done.tokenizer},
          {"pre", done.pre},
          {"chat_template", done.chat_template},
          {"notes", done.notes},
          {"seconds", seconds}};
}

void print_summary(const ConvertOptions& options, const Converted& done, size_t bytes) {
  std::printf("%s: %s (%s), %zu tensors, %.1f million parameters, %.1f MB\n",
              terminal_text(options.output).c_str(), terminal_text(done.name).c_str(),
              done.architecture.c_str(), done.tensors, 1e-6 * static_cast<double>(done.parameters),
              1e-6 * static_cast<double>(bytes));
  const bool by_score = done.tokenizer == "llama";
  std::printf("tokenizer: %zu tokens, %s; %s\n", done.n_tokens,
              by_score ? "SentencePiece BPE"
                       : ("byte-level BPE, words cut as " + terminal_text(done.pre)).c_str(),
              done.chat_template ? "with a chat template" : "no chat template");
}

void declare(Flags& flags, ConvertFlags& given) {
  flags.add_file("DIR", given.directory, "the directory of the model").type("DIR");
  flags.add_output_file("-o,--out", given.out,
                        "the file to write, a new one (default: NAME-TYPE.gguf in this directory)");
  flags
      .add_file("--heads", given.heads,
                "draft heads to convert in place of a model, as Medusa, Hydra, EAGLE or MiMo "
                "publish them")
      .type("DIR")
      .command_line_only();
  flags.add_file("-m,--model", given.model, "with --heads: the model that they are for")
      .type("MODEL.gguf")
      .command_line_only();
  flags
      .add_text("--type", given.type,
                "what matrices become (default F16; with --heads what they are)")
      .type("F32|F16|BF16|Q8_0|Q4_0|Q4_K")
      .command_line_only();
  flags.add_text("--name", given.name, "the model's name (default: that of the directory)")
      .type("NAME")
      .command_line_only();
  flags
      .add_text("--pre", given.pre,
                "how words are cut, as tokenizer.ggml.pre has it (qwen2, llama-bpe, ...), where "
                "tokenizer.json says it in a way that is not known")
      .type("NAME")
      .command_line_only();
  flags.add_int("-t,--threads", given.n_threads, 0, 256,
                "threads (default 0: one per physical core; --heads takes one)");
  flags.add_switch("--json", given.json, "print the summary as JSON").command_line_only();
}

int run_heads(const ConvertFlags& given) {
  const ConvertHeadsOptions options = read_heads_options(given);
  std::optional<NewFileJob> job(std::in_place, "converting");
  const ConvertedHeads done = convert_heads(options);
  const double seconds = job->seconds();
  job.reset();
  if (given.json) {
    const Json json = {{"file", options.output}, {"source", options.directory},
                       {"model", options.model}, {"kind", head_kind_name(done.kind)},
                       {"bytes", done.bytes},    {"parameters", done.parameters},
                       {"seconds", seconds}};
    std::printf("%s\n", dump(json, 2).c_str());
  } else {
    std::printf("%s: %s, %.1f million parameters, %.1f MB\n", terminal_text(options.output).c_str(),
                done.what.c_str(), 1e-6 * static_cast<double>(done.parameters),
                1e-6 * static_cast<double>(done.bytes));
  }
  return 0;
}

int run(ConvertFlags& given) {
  if (!given.heads.empty()) return run_heads(given);
  if (!given.model.empty()) {
    throw Error(ErrorCode::kUsage, "-m: expected --heads DIR with it, which are for that model");
  }
  ConvertOptions options = read_options(given);

  std::optional<NewFileJob> job(std::in_place, "converting");
  options.progress = job->progress();
  const Converted done = convert_model(options);
  const double seconds = job->seconds();
  job.reset();  // the bar goes before anything else is said

  for (const std::string& note : done.notes) {
    std::fprintf(stderr, "specbound convert: note: %s\n", terminal_text(note).c_str());
  }
  const size_t bytes = std::filesystem::file_size(options.output);
  if (given.json) {
    std::printf("%s\n", dump(summary_json(options, done, bytes, seconds), 2).c_str());
  } else {
    print_summary(options, done, bytes);
  }
  return 0;
}

const CommandOf<ConvertFlags> kConvert(
    {.rank = 130,
     .name = "convert",
     .summary = "write a Hugging Face model, or draft heads, as a GGUF file",
     .text = kExplained.c_str(),
     .footer = kExamples},
    declare, run);

}  // namespace

}  // namespace specbound::convert_command
