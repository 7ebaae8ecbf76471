// `specbound quantize`: a model as a smaller file. stdout carries the summary, stderr the rest.
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/command.h"
#include "convert/quantize_plan.h"
#include "convert/requantize.h"
#include "engine/cpu/cpu_topology.h"
#include "error.h"
#include "json/json_writer.h"
#include "model/gguf.h"
#include "system/file_output.h"
#include "terminal/new_file_job.h"
#include "terminal/terminal_text.h"

namespace specbound::quantize_command {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kExplained =
    "Write a model as a smaller file, of which less must be read for each token.\n\n"
    "  F16, BF16   16 bits a weight; BF16 has the range of F32 and fewer digits\n"
    "  Q8_0        8.5 bits: close to the original\n"
    "  Q4_K        4.5 bits: half of that again, for a small loss; rows of 256 weights\n"
    "  Q4_0        4.5 bits: a simpler form with a larger loss\n\n"
    "Matrices take the type. Of Q4_0 and Q4_K, the embedding and the output matrix become Q8_0, "
    "since logits come from them directly. Norms and biases stay as they are. Rows that are no "
    "multiple of 256 become Q4_0 instead of Q4_K, those that are no multiple of 32 F16. The best "
    "source is the F16 or BF16 model: weights that were quantized before lose twice.";

constexpr const char* kExamples =
    "Examples:\n"
    "  specbound quantize model-f16.gguf model-q4_k.gguf Q4_K\n"
    "  specbound quantize model-f16.gguf model-q8_0.gguf q8_0 --json\n"
    "  specbound quantize model-f16.gguf model-small.gguf Q4_K --head Q4_K";

struct QuantizeFlags {
  std::string in, out, type, head;
  int n_threads = 0;
  bool json = false;
};

DType named_type(const char* flag, const std::string& name) {
  if (const std::optional<DType> type = quantize_type(name)) return *type;
  throw Error(ErrorCode::kUsage, format("%s %s: expected F16, BF16, Q8_0, Q4_0 or Q4_K", flag,
                                        printable(name).c_str()));
}

void tell_plan(const QuantizePlan& plan) {
  const auto matrices = [](size_t n) { return format("%zu matri%s", n, n == 1 ? "x" : "ces"); };
  for (const auto& [type, n] : plan.odd_rows) {
    std::fprintf(stderr, "%s of rows that cannot be cut into whole blocks: %s instead\n",
                 matrices(n).c_str(), dtype_info(type)->name);
  }
  for (const auto& [type, n] : plan.requantized) {
    std::fprintf(stderr,
                 "%s quantized before, as %s: what was lost then adds to what is lost now; the "
                 "model in F16 is the better source\n",
                 matrices(n).c_str(), dtype_info(type)->name);
  }
}

// Tensors of each type.
std::map<std::string, size_t> counted(const QuantizePlan& plan) {
  std::map<std::string, size_t> tensors;
  for (const DType type : plan.types) ++tensors[dtype_info(type)->name];
  return tensors;
}

void print_summary(const std::string& out, const Gguf& gguf, size_t bytes, const QuantizePlan& plan,
                   const Requantized& done) {
  std::string types;
  for (const auto& [name, n] : counted(plan)) {
    types += format("%s%zu %s", types.empty() ? "" : ", ", n, name.c_str());
  }
  std::printf("%s: %.1f MB become %.1f MB; tensors: %s\n", terminal_text(out).c_str(),
              1e-6 * static_cast<double>(gguf.file_size()), 1e-6 * static_cast<double>(bytes),
              types.c_str());
  if (done.weights > 0) {
    std::printf("rounded away: %.3g %% of the weights (root mean square)\n",
                100 * done.relative_error);
  }
}

Json summary_json(const QuantizeFlags& given, const Gguf& gguf, size_t bytes,
                  const QuantizePlan& plan, const Requantized& done, double seconds) {
  Json tensors = Json::object();
  for (const auto& [name, n] : counted(plan)) tensors[name] = n;
  return {{"file", given.out},
          {"source", given.in},
          {"type", dtype_info(plan.type)->name},
          {"bytes_before", gguf.file_size()},
          {"bytes_after", bytes},
          {"tensors", tensors},
          {"weights_converted", done.weights},
          {"relative_error", done.relative_error},
          {"seconds", seconds}};
}

void declare(Flags& flags, QuantizeFlags& given) {
  flags.add_file("IN", given.in, "the model, a GGUF file; of a split one the first file")
      .type("FILE.gguf");
  flags.add_output_file("OUT", given.out, "the file to write, a new one");
  flags.add_text("TYPE", given.type, "F16, BF16, Q8_0, Q4_0 or Q4_K")
      .type("F16|BF16|Q8_0|Q4_0|Q4_K");
  flags
      .add_text("--head", given.head,
                "type of the embedding and the output matrix (default: Q8_0 where TYPE has 4 "
                "bits, else TYPE)")
      .type("F16|BF16|Q8_0|Q4_0|Q4_K")
      .command_line_only();
  flags.add_int("-t,--threads", given.n_threads, 0, 256,
                "threads (default 0: one per physical core)");
  flags.add_switch("--json", given.json, "print the summary as JSON").command_line_only();
}

int run(QuantizeFlags& given) {
  if (given.in.empty() || given.out.empty() || given.type.empty()) {
    throw Error(ErrorCode::kUsage,
                "expected a model, the file to write and a type: specbound quantize IN OUT TYPE");
  }
  const DType type = named_type("TYPE", given.type);
  std::optional<DType> head;
  if (!given.head.empty()) head = named_type("--head", given.head);
  check_new_file(given.out, "");

  std::optional<NewFileJob> job(std::in_place, "quantizing");
  const Gguf gguf = Gguf::open(given.in);
  const QuantizePlan plan = plan_quantization(gguf, type, head);
  tell_plan(plan);
  RequantizeOptions options;
  options.n_threads = given.n_threads > 0 ? given.n_threads : usable_cores();
  options.progress = job->progress();
  const Requantized done = requantize(gguf, plan, given.out, options);
  const double seconds = job->seconds();
  job.reset();  // the bar goes before anything else is said

  const size_t bytes = std::filesystem::file_size(given.out);
  if (given.json) {
    std::printf("%s\n", dump(summary_json(given, gguf, bytes, plan, done, seconds), 2).c_str());
  } else {
    print_summary(given.out, gguf, bytes, plan, done);
  }
  return 0;
}

const CommandOf<QuantizeFlags> kQuantize(
    {.rank = 140,
     .name = "quantize",
     .summary = "write a model as a smaller file: 16, 8 or 4 bits a weight",
     .text = kExplained,
     .footer = kExamples},
    declare, run);

}  // namespace

}  // namespace specbound::quantize_command
