// `specbound quantize`: a model as a smaller file. stdout carries the summary, stderr the rest.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "app/cli.h"
#include "app/commands.h"
#include "app/file_output.h"
#include "app/new_file_job.h"
#include "app/terminal_text.h"
#include "convert/quantize_plan.h"
#include "convert/requantize.h"
#include "engine/cpu/cpu_topology.h"
#include "error.h"
#include "model/gguf.h"

namespace specbound {
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

Json summary_json(const QuantizeFlags& flags, const Gguf& gguf, size_t bytes,
                  const QuantizePlan& plan, const Requantized& done, double seconds) {
  Json tensors = Json::object();
  for (const auto& [name, n] : counted(plan)) tensors[name] = n;
  return {{"file", flags.out},
          {"source", flags.in},
          {"type", dtype_info(plan.type)->name},
          {"bytes_before", gguf.file_size()},
          {"bytes_after", bytes},
          {"tensors", tensors},
          {"weights_converted", done.weights},
          {"relative_error", done.relative_error},
          {"seconds", seconds}};
}

}  // namespace

int command_quantize(int argc, char** argv) {
  QuantizeFlags flags;
  CLI::App app(kExplained, "specbound quantize");
  add_file(app, "IN", flags.in, "the model, a GGUF file; of a split one the first file")
      ->type_name("FILE.gguf");
  add_output_file(app, "OUT", flags.out, "the file to write, a new one");
  app.add_option("TYPE", flags.type, "F16, BF16, Q8_0, Q4_0 or Q4_K")
      ->type_name("F16|BF16|Q8_0|Q4_0|Q4_K");
  app.add_option("--head", flags.head,
                 "type of the embedding and the output matrix (default: Q8_0 where TYPE has 4 "
                 "bits, else TYPE)")
      ->type_name("F16|BF16|Q8_0|Q4_0|Q4_K")
      ->configurable(false);
  add_int(app, "-t,--threads", flags.n_threads, 0, 256,
          "threads (default 0: one per physical core)");
  app.add_flag("--json", flags.json, "print the summary as JSON")->configurable(false);
  app.footer(kExamples);
  if (const std::optional<int> status = parse_cli(app, argc, argv)) return *status;
  if (flags.in.empty() || flags.out.empty() || flags.type.empty()) {
    throw Error(ErrorCode::kUsage,
                "expected a model, the file to write and a type: specbound quantize IN OUT TYPE");
  }
  const DType type = named_type("TYPE", flags.type);
  std::optional<DType> head;
  if (!flags.head.empty()) head = named_type("--head", flags.head);
  check_new_file(flags.out);

  std::optional<NewFileJob> job(std::in_place, "quantizing");
  const Gguf gguf = Gguf::open(flags.in);
  const QuantizePlan plan = plan_quantization(gguf, type, head);
  tell_plan(plan);
  RequantizeOptions options;
  options.n_threads = flags.n_threads > 0 ? flags.n_threads : usable_cores();
  options.progress = job->progress();
  const Requantized done = requantize(gguf, plan, flags.out, options);
  const double seconds = job->seconds();
  job.reset();  // the bar goes before anything else is said

  const size_t bytes = std::filesystem::file_size(flags.out);
  if (flags.json) {
    print_summary_json(summary_json(flags, gguf, bytes, plan, done, seconds));
  } else {
    print_summary(flags.out, gguf, bytes, plan, done);
  }
  return 0;
}

}  // namespace specbound
