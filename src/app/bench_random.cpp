#include "app/bench_random.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/bench_machine.h"
#include "app/bench_measure.h"
#include "app/bench_replay.h"
#include "app/bench_report.h"
#include "app/bench_shapes.h"
#include "app/gpu.h"
#include "app/interrupt.h"
#include "app/progress.h"
#include "engine/cpu/cpu_backend.h"
#include "engine/pages.h"
#include "error.h"
#include "model/random_heads.h"
#include "model/random_weights.h"

namespace specbound {

namespace {

using Json = nlohmann::ordered_json;

HeadKind head_of(const BenchFlags& flags, bool before_layer_1) {
  if (flags.drafting.head.empty()) return before_layer_1 ? HeadKind::kChained : HeadKind::kFolded;
  const std::optional<HeadKind> kind = parse_head_kind(flags.drafting.head);
  if (!kind || !has_weights(*kind)) {
    throw Error(ErrorCode::kUsage, format("--head: expected folded, chained or full, found \"%s\"",
                                          printable(flags.drafting.head).c_str()));
  }
  if (before_layer_1 && *kind != HeadKind::kChained) {
    throw Error(ErrorCode::kUsage,
                format("--head %s: the trace checks before layer 1, where only chained heads look",
                       flags.drafting.head.c_str()));
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

Replays plan_replays(const BenchFlags& flags, const ModelConfig& config) {
  Replays replays;
  if (!flags.replays()) return replays;
  if (config.n_layers < 2) {
    throw Error(ErrorCode::kUsage,
                "a replay needs a model of at least 2 layers: drafts leave "
                "below the last one");
  }
  if (!flags.trace.empty()) {
    std::ifstream file(flags.trace, std::ios::binary);
    if (!file) throw Error(ErrorCode::kFile, flags.trace + ": cannot open");
    RecordedRounds rounds = read_recorded_rounds(file, flags.trace).scaled(config.n_layers);
    const auto most = static_cast<size_t>(flags.rounds ? flags.rounds : 256);
    if (rounds.rounds.size() > most) rounds.rounds.resize(most);
    replays.kind = head_of(flags, rounds.check_layers.front() == 0);
    replays.groups.push_back(
        {0, static_cast<int>(rounds.check_layers.size()), {std::move(rounds)}});
    return replays;
  }
  replays.kind = head_of(flags, false);
  for (const double checks : flags.checks) {
    for (const double exit : flags.exits) {
      Replays::Group group{exit, static_cast<int>(checks), {}};
      for (const double rate : flags.rates) {
        const RoundFigures figures{rate, exit, group.checks, 8};
        group.sequences.push_back(
            drawn_rounds(figures, flags.rounds ? flags.rounds : 32, config.n_layers));
      }
      replays.groups.push_back(std::move(group));
    }
  }
  return replays;
}

// Positions before the tokens, beside none.
int context_of(const BenchFlags& flags) {
  return flags.context < 0 ? 4096 : flags.context;
}

// What is measured, and everything it stands on.
struct Bench {
  ModelConfig config;
  std::unique_ptr<RandomWeights> weights;  // on the CPU
  std::unique_ptr<Backend> backend;
  BenchMachine machine;
};

void open_gpu(const BenchFlags& flags, int n_ctx, size_t heads_bytes, Bench& bench) {
  const GpuEngine& engine = gpu_engine();
  const GpuSurvey survey = engine.survey();
  if (survey.state != GpuSurvey::State::kReady) {
    throw Error(ErrorCode::kDevice,
                format("no GPU to measure: %s; --device cpu measures the CPU, --shape 1b is of a "
                       "size for it",
                       survey.why_not.c_str()));
  }
  const int index = flags.model.device.gpu.value_or(survey.gpus.front().index);
  CudaOptions options;
  options.n_ctx = n_ctx;
  options.dtype = flags.int8() ? GpuDtype::kInt8 : GpuDtype::kFp16;
  options.heads_bytes = heads_bytes;
  bench.backend = engine.random_backend(engine.open(index), bench.config, options);
  SB_CHECK(bench.backend->gpu());
}

void open_cpu(const BenchFlags& flags, int n_ctx, Bench& bench) {
  const DType type = flags.int8() ? DType::kQ8_0 : DType::kF16;
  const size_t bytes = RandomWeights::bytes_needed(bench.config, type);
  require_memory(bytes, format("random weights %.1f MB", 1e-6 * static_cast<double>(bytes)));
  bench.weights = std::make_unique<RandomWeights>(bench.config, type, 1);
  CpuOptions options;
  options.n_ctx = n_ctx;
  options.n_threads = flags.model.n_threads;
  bench.backend = make_cpu_backend(bench.config, bench.weights->weights(), options);
}

Bench open_bench(const BenchFlags& flags, ModelConfig config, const Replays& replays) {
  Bench bench;
  bench.config = std::move(config);
  const int shortlist = std::min(flags.shortlist(), bench.config.vocab_size);
  int n_ctx = replays.context(flags.n_prompt[0]);
  size_t heads = bench_heads_bytes(bench.config, shortlist);
  if (flags.replays()) {
    heads = replays.heads_bytes(bench.config, shortlist);
  } else {
    n_ctx = context_of(flags) + std::max(flags.n_gen[0], kMaxRows) + 1;
  }
  n_ctx = (n_ctx + 63) / 64 * 64;
  if (flags.model.device.where == DeviceFlags::Where::kCpu) {
    open_cpu(flags, n_ctx, bench);
  } else {
    open_gpu(flags, n_ctx, heads, bench);
  }
  bench.machine = bench_machine(*bench.backend, flags.model.n_threads);
  return bench;
}

// Progress, one step for each thing that is measured, however often it says so.
class Steps {
 public:
  explicit Steps(size_t total) : total_(total) {}
  void operator()(const std::string& what) {
    if (interrupt_flag().load(std::memory_order_relaxed)) {
      throw Interrupted("interrupted while measuring " + what);
    }
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

BenchReport measure(const BenchFlags& flags, Bench& bench, Steps& steps) {
  BenchOptions options;
  options.repeats = flags.repeats;
  options.n_gen = flags.n_gen[0];
  options.shortlist = flags.shortlist();
  options.step = [&steps](const std::string& what) { steps(what); };
  BenchMeasure measurement(*bench.backend, options);
  Bandwidth bandwidth(bench.machine.read_bandwidth);
  BenchReport report;
  report.bytes = model_bytes(bench.config, flags.int8());
  report.n_gen = flags.n_gen[0];
  bandwidth.sample();
  std::vector<int> contexts = {0};
  if (context_of(flags) > 0) contexts.push_back(context_of(flags));
  for (const int context : contexts) {
    report.contexts.push_back(measurement.at_context(context));
    report.drafts.push_back(measurement.drafted_rows(context));
    bandwidth.sample();
  }
  report.checks = measurement.checks();
  report.launches = measurement.launches();
  report.read_bandwidth = bandwidth.result();
  return report;
}

ReplayReport replay(const BenchFlags& flags, Bench& bench, const Replays& replays, Steps& steps) {
  ReplayOptions options;
  options.repeats = flags.repeats;
  options.prompt = flags.n_prompt[0];
  options.shortlist = flags.shortlist();
  options.kind = replays.kind;
  options.step = [&steps](const std::string& what) { steps(what); };
  Bandwidth bandwidth(bench.machine.read_bandwidth);
  ReplayReport report;
  report.bytes = model_bytes(bench.config, flags.int8());
  report.prompt = flags.n_prompt[0];
  report.trace = flags.trace;
  report.compression_rates = flags.rates;
  for (const Replays::Group& group : replays.groups) {
    bandwidth.sample();
    report.groups.push_back(
        {group.mean_exit, group.checks, replay_rounds(*bench.backend, group.sequences, options)});
  }
  bandwidth.sample();
  report.read_bandwidth = bandwidth.result();
  return report;
}

Json settings_json(const BenchFlags& flags, const Replays& replays) {
  Json json = {{"repetitions", flags.repeats}, {"shortlist", flags.shortlist()}};
  if (flags.replays()) {
    json["head"] = head_kind_name(replays.kind);
  } else {
    json["n_gen"] = flags.n_gen[0];
  }
  return json;
}

Json model_json(const BenchFlags& flags, const ModelConfig& c) {
  return {{"shape", c.name},
          {"dtype", flags.dtype()},
          {"n_layers", c.n_layers},
          {"dim", c.dim},
          {"ffn_dim", c.ffn_dim},
          {"n_heads", c.n_heads},
          {"n_kv_heads", c.n_kv_heads},
          {"head_dim", c.head_dim},
          {"vocab_size", c.vocab_size}};
}

}  // namespace

void bench_shape(const BenchFlags& flags, const BenchOutput& output) {
  const ModelConfig config = bench_config(flags.shape);
  const Replays replays = plan_replays(flags, config);
  Bench bench = open_bench(flags, config, replays);
  const bool shown = output.for_people();
  if (shown) {
    std::printf("%s, random weights, %s\n%s\n", config.name.c_str(), flags.dtype(),
                bench.backend->description().c_str());
  }
  Json json = {{"hardware", bench.machine.hardware},
               {"backend", bench.backend->description()},
               {"model", model_json(flags, config)},
               {"settings", settings_json(flags, replays)},
               {"read_bandwidth", nullptr}};
  std::optional<Steps> steps;  // its bar goes before anything is printed
  const auto show = [&](const Spread& bandwidth, const auto& report, const auto& print) {
    json["read_bandwidth"] = spread_json(bandwidth);
    if (!shown) return;
    std::printf("%s\n", bandwidth_text(bandwidth).c_str());
    print(report);
  };
  if (flags.replays()) {
    steps.emplace(2 * replays.groups.size());
    const ReplayReport report = replay(flags, bench, replays, *steps);
    steps.reset();
    json["replay"] = replay_json(report);
    show(report.read_bandwidth, report, print_replay);
  } else {
    steps.emplace(context_of(flags) > 0 ? 13 : 8);
    const BenchReport report = measure(flags, bench, *steps);
    steps.reset();
    json.update(report_json(report));
    show(report.read_bandwidth, report, print_report);
  }
  output.write(json, {});
}

}  // namespace specbound
