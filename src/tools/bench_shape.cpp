// `specbound bench --shape`: figures of a model of random weights, or rounds replayed through it.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/cpu/cpu_backend.h"
#include "engine/pages.h"
#include "error.h"
#include "model/random_model.h"
#include "runtime/gpu.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "tools/bench.h"
#include "tools/bench_measure.h"
#include "tools/bench_model.h"
#include "tools/bench_replay.h"
#include "tools/bench_report.h"
#include "tools/bench_shapes.h"

namespace specbound {

namespace {

using Json = nlohmann::ordered_json;

HeadKind head_of(const BenchOptions& options, bool before_layer_1) {
  if (options.drafting.head.empty()) return before_layer_1 ? HeadKind::kChained : HeadKind::kFolded;
  const std::optional<HeadKind> kind = parse_head_kind(options.drafting.head);
  if (!kind || !is_replayed(*kind)) {
    throw Error(ErrorCode::kUsage, format("--head: expected folded, chained or full, found \"%s\"",
                                          printable(options.drafting.head).c_str()));
  }
  if (before_layer_1 && *kind != HeadKind::kChained) {
    throw Error(ErrorCode::kUsage,
                format("--head %s: the trace checks before layer 1, where only chained heads look",
                       options.drafting.head.c_str()));
  }
  return *kind;
}

// The rounds to replay: one sequence for each compression rate in each group.
struct Replays {
  HeadKind kind = HeadKind::kFolded;
  struct Group {
    double mean_exit = 0;
    int checks = 0;
    std::vector<RecordedRounds> sequences;
  };
  std::vector<Group> groups;

  int context(int prompt) const {
    int most = 0;
    for (const Group& g : groups) most = std::max(most, replay_context(g.sequences, prompt));
    return most;
  }
  size_t heads_bytes(const ModelConfig& config, int shortlist) const {
    size_t most = 0;
    for (const Group& g : groups) most = std::max(most, g.sequences[0].check_layers.size());
    return most * random_head_bytes(config, kind, shortlist) +
           random_head_bytes(config, HeadKind::kFolded, shortlist);
  }
};

Replays plan_replays(const BenchOptions& options, const ModelConfig& config) {
  Replays replays;
  if (!options.replays()) return replays;
  if (config.n_layers < 2) {
    throw Error(ErrorCode::kUsage,
                "a replay needs a model of at least 2 layers: drafts leave "
                "below the last one");
  }
  if (!options.trace.empty()) {
    std::ifstream file(options.trace, std::ios::binary);
    if (!file) throw Error(ErrorCode::kFile, options.trace + ": cannot open");
    RecordedRounds rounds = read_recorded_rounds(file, options.trace).scaled(config.n_layers);
    const auto most = static_cast<size_t>(options.rounds ? options.rounds : 256);
    if (rounds.rounds.size() > most) rounds.rounds.resize(most);
    replays.kind = head_of(options, rounds.check_layers.front() == 0);
    replays.groups.push_back(
        {0, static_cast<int>(rounds.check_layers.size()), {std::move(rounds)}});
    return replays;
  }
  replays.kind = head_of(options, false);
  for (const double checks : options.checks) {
    for (const double exit : options.exits) {
      Replays::Group group{exit, static_cast<int>(checks), {}};
      for (const double rate : options.rates) {
        const RoundFigures figures{rate, exit, group.checks, 8};
        group.sequences.push_back(
            drawn_rounds(figures, options.rounds ? options.rounds : 32, config.n_layers));
      }
      replays.groups.push_back(std::move(group));
    }
  }
  return replays;
}

// Positions before the tokens, beside none.
int context_of(const BenchOptions& options) {
  return options.context < 0 ? 4096 : options.context;
}

// What is measured, and everything it stands on.
struct Bench {
  ModelConfig config;
  std::unique_ptr<RandomWeights> weights;  // on the CPU
  std::unique_ptr<Backend> backend;
  BenchMachine machine;
};

void open_gpu(const BenchOptions& options, int n_ctx, size_t heads_bytes, Bench& bench) {
  const GpuEngine& engine = gpu_engine();
  const GpuSurvey survey = engine.survey();
  if (survey.state != GpuSurvey::State::kReady) {
    throw Error(ErrorCode::kDevice,
                format("no GPU to measure: %s; --device cpu measures the CPU, --shape 1b is of a "
                       "size for it",
                       survey.why_not.c_str()));
  }
  const int index = options.model.device.gpu.value_or(survey.gpus.front().index);
  CudaOptions cuda;
  cuda.n_ctx = n_ctx;
  cuda.dtype = options.int8() ? GpuDtype::kInt8 : GpuDtype::kFp16;
  cuda.heads_bytes = [heads_bytes](int) { return heads_bytes; };
  bench.backend = engine.random_backend(engine.open(index), bench.config, cuda);
  SB_CHECK(bench.backend->gpu());
}

void open_cpu(const BenchOptions& options, int n_ctx, Bench& bench) {
  const DType type = options.int8() ? DType::kQ8_0 : DType::kF16;
  const size_t bytes = RandomWeights::bytes_needed(bench.config, type);
  require_memory(bytes, format("random weights %.1f MB", 1e-6 * static_cast<double>(bytes)));
  bench.weights = std::make_unique<RandomWeights>(bench.config, type, 1);
  CpuOptions cpu;
  cpu.n_ctx = n_ctx;
  cpu.n_threads = options.model.n_threads;
  bench.backend = make_cpu_backend(bench.config, bench.weights->weights(), cpu);
}

Bench open_bench(const BenchOptions& options, ModelConfig config, const Replays& replays) {
  Bench bench;
  bench.config = std::move(config);
  const int shortlist = std::min(options.shortlist(), bench.config.vocab_size);
  int n_ctx = replays.context(options.n_prompt[0]);
  size_t heads = bench_heads_bytes(bench.config, shortlist);
  if (options.replays()) {
    heads = replays.heads_bytes(bench.config, shortlist);
  } else {
    n_ctx = context_of(options) + std::max(options.n_gen[0], kMaxRows) + 1;
  }
  n_ctx = (n_ctx + 63) / 64 * 64;
  if (options.model.device.where == DeviceOptions::Where::kCpu) {
    open_cpu(options, n_ctx, bench);
  } else {
    open_gpu(options, n_ctx, heads, bench);
  }
  bench.machine = bench_machine(*bench.backend, options.model.n_threads);
  return bench;
}

// Progress, one step for each thing that is measured, however often it says so.
class Steps {
 public:
  explicit Steps(size_t total) : total_(total) {}
  void operator()(const std::string& what) {
    check_interrupt("interrupted while measuring " + what);
    if (what == what_) return;
    what_ = what;
    bar_.update(done_, std::max(total_, done_), what);
    ++done_;
  }

 private:
  Progress bar_{"bench", Progress::Unit::kItems};
  size_t total_, done_ = 0;
  std::string what_;
};

BenchReport measure(const BenchOptions& options, Bench& bench, Steps& steps) {
  ShapeCostOptions shape_costs;
  shape_costs.repeats = options.repeats;
  shape_costs.n_gen = options.n_gen[0];
  shape_costs.shortlist = options.shortlist();
  shape_costs.step = [&steps](const std::string& what) { steps(what); };
  BenchMeasure measurement(*bench.backend, shape_costs);
  BenchReport report;
  report.bytes = model_bytes(bench.config, options.int8());
  report.n_gen = options.n_gen[0];
  BandwidthSamples bandwidth(bench.machine, report.bytes.token(context_of(options)));
  bandwidth.take();
  std::vector<int> contexts = {0};
  if (context_of(options) > 0) contexts.push_back(context_of(options));
  for (const int context : contexts) {
    report.contexts.push_back(measurement.at_context(context));
    report.drafts.push_back(measurement.drafted_rows(context));
    bandwidth.take();
  }
  report.checks = measurement.checks();
  report.launches = measurement.launches();
  report.read_bandwidth = bandwidth.result();
  return report;
}

ReplayReport replay(const BenchOptions& options, Bench& bench, const Replays& replays,
                    Steps& steps) {
  ReplayOptions replay_options;
  replay_options.repeats = options.repeats;
  replay_options.prompt = options.n_prompt[0];
  replay_options.shortlist = options.shortlist();
  replay_options.kind = replays.kind;
  replay_options.step = [&steps](const std::string& what) { steps(what); };
  ReplayReport report;
  report.bytes = model_bytes(bench.config, options.int8());
  report.prompt = options.n_prompt[0];
  report.trace = options.trace;
  report.compression_rates = options.rates;
  BandwidthSamples bandwidth(bench.machine, report.bytes.token(report.prompt));
  for (const Replays::Group& group : replays.groups) {
    bandwidth.take();
    report.groups.push_back({group.mean_exit, group.checks,
                             replay_rounds(*bench.backend, group.sequences, replay_options)});
  }
  bandwidth.take();
  report.read_bandwidth = bandwidth.result();
  return report;
}

Json settings_json(const BenchOptions& options, const Replays& replays) {
  Json json = {{"repetitions", options.repeats}, {"shortlist", options.shortlist()}};
  if (options.replays()) {
    json["head"] = head_kind_name(replays.kind);
  } else {
    json["n_gen"] = options.n_gen[0];
  }
  return json;
}

Json model_json(const BenchOptions& options, const ModelConfig& c) {
  return {{"shape", c.name},
          {"dtype", options.dtype()},
          {"n_layers", c.n_layers},
          {"dim", c.dim},
          {"ffn_dim", c.ffn_dim},
          {"n_heads", c.n_heads},
          {"n_kv_heads", c.n_kv_heads},
          {"head_dim", c.head_dim},
          {"vocab_size", c.vocab_size}};
}

}  // namespace

void bench_shape(const BenchOptions& options, BenchOutput& output) {
  const ModelConfig config = bench_config(options.shape);
  const Replays replays = plan_replays(options, config);
  Bench bench = open_bench(options, config, replays);
  const bool shown = output.for_people();
  if (shown) {
    std::printf("%s, random weights, %s\n%s\n", config.name.c_str(), options.dtype(),
                bench.backend->description().c_str());
  }
  Json json = {{"hardware", bench.machine.hardware},
               {"backend", bench.backend->description()},
               {"model", model_json(options, config)},
               {"settings", settings_json(options, replays)},
               {"read_bandwidth", nullptr}};
  std::optional<Steps> steps;  // its bar goes before anything is printed
  const auto show = [&](const ReadBandwidth& bandwidth, const auto& report, const auto& print) {
    json["read_bandwidth"] = bandwidth.json();
    if (!shown) return;
    std::printf("%s\n", bandwidth.text().c_str());
    print(report);
  };
  if (options.replays()) {
    steps.emplace(2 * replays.groups.size());
    const ReplayReport report = replay(options, bench, replays, *steps);
    steps.reset();
    json["replay"] = replay_json(report);
    show(report.read_bandwidth, report, print_replay);
  } else {
    steps.emplace(context_of(options) > 0 ? 13 : 8);
    const BenchReport report = measure(options, bench, *steps);
    steps.reset();
    json.update(report_json(report));
    show(report.read_bandwidth, report, print_report);
  }
  output.write(json, {});
}

}  // namespace specbound
