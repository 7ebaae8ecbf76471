// `specbound bench -m`: prompts of so many tokens (pp512) and so many tokens decoded one by one
// (tg128), at a depth of so many positions before them (@ d4096).
#include <algorithm>
#include <chrono>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>

#include "decode/generate.h"
#include "error.h"
#include "model/random_model.h"
#include "numerics/float_mode.h"
#include "runtime/timed_reply.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "tools/bench.h"
#include "tools/bench_measure.h"
#include "tools/bench_model.h"
#include "trace/statistics.h"

namespace specbound {

namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr const char* kEndedMeasuring = "interrupted while measuring";

// Reads `tokens` behind what is cached.
void read_tokens(Backend& backend, std::span<const int32_t> tokens) {
  if (tokens.empty()) return;
  backend.prefill(tokens, [](void*, int) { return !interrupt_flag().load(); });
  backend.wait();
  check_interrupt(kEndedMeasuring);
}

// Seconds of one run.
double run_prompt(Backend& backend, const BenchTest& test, std::span<const int32_t> tokens) {
  const FloatMode mode;
  const auto depth = static_cast<size_t>(test.depth);
  backend.truncate(0);
  read_tokens(backend, tokens.first(depth));
  backend.wait();
  const Clock::time_point start = Clock::now();
  read_tokens(backend, tokens.subspan(depth, static_cast<size_t>(test.n_prompt)));
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Likewise; the loop is the one that replies come from, plain and greedy.
double run_decoding(Backend& backend, const BenchTest& test, std::span<const int32_t> tokens) {
  Session session(backend, Sampler(greedy_sampling()));
  TimedRequest request;
  request.prompt = tokens.first(static_cast<size_t>(test.depth) + 1);
  request.max_tokens = test.n_gen;
  request.abort = &interrupt_flag();
  const TimedReply reply = timed_reply(session, request);
  check_interrupt(kEndedMeasuring);
  return reply.decode_seconds;
}

struct TestResult {
  BenchTest test;
  std::vector<double> seconds, rates;  // [repetition]
};

TestResult run_test(Backend& backend, const BenchTest& test, int repeats,
                    const std::function<void()>& done) {
  TestResult result{test, {}, {}};
  const std::vector<int32_t> tokens = any_tokens(test.context(), backend.config().vocab_size);
  for (int i = 0; i <= repeats; ++i) {
    const double seconds =
        test.n_gen > 0 ? run_decoding(backend, test, tokens) : run_prompt(backend, test, tokens);
    done();
    if (i == 0) continue;  // to warm up
    result.seconds.push_back(seconds);
    result.rates.push_back(seconds > 0 ? (test.n_gen + test.n_prompt) / seconds : 0);
  }
  return result;
}

// Of a test of decoding: bytes that a second's tokens have to read. Reading a prompt is bound by
// arithmetic.
double bytes_per_second(const TestResult& result, const ModelBytes& bytes) {
  const double context = result.test.depth + 0.5 * (result.test.n_gen - 1);
  return bytes.token(context) * mean_deviation(result.rates).mean;
}

std::vector<double> nanoseconds(const std::vector<double>& seconds) {
  std::vector<double> out;
  for (const double s : seconds) out.push_back(1e9 * s);
  return out;
}

Json record_of(const BenchModel& model, const TestResult& result, const ModelBytes& bytes,
               const ReadBandwidth& bandwidth) {
  const std::vector<double> ns = nanoseconds(result.seconds);
  const MeanDeviation time = mean_deviation(ns), rate = mean_deviation(result.rates);
  Json record = model.json();
  record.update({{"test", result.test.name()},
                 {"n_prompt", result.test.n_prompt},
                 {"n_gen", result.test.n_gen},
                 {"n_depth", result.test.depth},
                 {"avg_ns", time.mean},
                 {"stddev_ns", time.deviation},
                 {"avg_ts", rate.mean},
                 {"stddev_ts", rate.deviation},
                 {"bytes_per_second", nullptr},
                 {"share_of_read_bandwidth", nullptr},
                 {"samples_ns", ns},
                 {"samples_ts", result.rates}});
  if (result.test.n_gen == 0) return record;
  const double read = bytes_per_second(result, bytes);
  record["bytes_per_second"] = read;
  if (const auto share = bandwidth.share(read)) record["share_of_read_bandwidth"] = *share;
  return record;
}

std::vector<std::string> row_of(const BenchModel& model, const TestResult& result,
                                const ModelBytes& bytes, const ReadBandwidth& bandwidth) {
  const MeanDeviation rate = mean_deviation(result.rates);
  const bool decodes = result.test.n_gen > 0;
  const double read = decodes ? bytes_per_second(result, bytes) : 0;
  const std::optional<double> share = decodes ? bandwidth.share(read) : std::nullopt;
  return {model.name,
          model.size_text(),
          model.parameters_text(),
          model.backend,
          model.threads > 0 ? std::to_string(model.threads) : "",
          result.test.name(),
          format("%.2f ± %.2f", rate.mean, rate.deviation),
          decodes ? format("%.1f", 1e-9 * read) : "",
          share ? format("%.1f %%", 100 * *share) : ""};
}

// What the longest of them needs.
int context_of(const std::vector<BenchTest>& tests) {
  int n_ctx = 0;
  for (const BenchTest& test : tests) n_ctx = std::max(n_ctx, test.context());
  return n_ctx;
}

struct Found {
  std::vector<Json> records;
  Json models = Json::array();
  std::vector<std::vector<std::string>> rows;
};

// Adds what it finds by the time it throws, too.
void test_model(const BenchOptions& options, const ModelOptions& one,
                const std::vector<BenchTest>& tests, BenchOutput& output, Found& found) {
  LoadedModel model(one, terminal_watcher());
  model.load();
  const BenchModel facts = bench_model(model, one);
  const ModelBytes bytes = model_bytes(model, one);
  const BenchMachine machine = bench_machine(model.backend(), one.n_threads);

  std::vector<TestResult> results;
  BandwidthSamples bandwidth(machine, bytes.token(context_of(tests)));
  std::exception_ptr interrupted;
  try {
    Progress bar("bench", Progress::Unit::kWork);
    size_t done = 0;
    const size_t total = tests.size() * static_cast<size_t>(options.repeats + 1);
    bandwidth.take();
    for (const BenchTest& test : tests) {
      results.push_back(run_test(model.backend(), test, options.repeats,
                                 [&] { bar.update(++done, total, test.name()); }));
    }
    bandwidth.take();
  } catch (const Interrupted&) {
    if (results.empty()) throw;
    interrupted = std::current_exception();
  }
  const ReadBandwidth read = bandwidth.result();
  std::vector<Json> records;
  for (const TestResult& result : results) {
    records.push_back(record_of(facts, result, bytes, read));
    found.rows.push_back(row_of(facts, result, bytes, read));
  }
  found.models.push_back({{"model", facts.json()},
                          {"hardware", machine.hardware},
                          {"backend", model.backend().description()},
                          {"read_bandwidth", read.json()},
                          {"results", records}});
  found.records.insert(found.records.end(), records.begin(), records.end());
  output.tell(read.text() + "\n");
  if (interrupted) std::rethrow_exception(interrupted);
}

}  // namespace

std::string BenchTest::name() const {
  std::string text = n_gen > 0 ? format("tg%d", n_gen) : format("pp%d", n_prompt);
  return depth > 0 ? text + format(" @ d%d", depth) : text;
}

std::vector<BenchTest> bench_plan(const BenchOptions& options) {
  std::vector<BenchTest> tests;
  for (const int depth : options.depths) {
    for (const int n : options.n_prompt) {
      if (n > 0) tests.push_back({n, 0, depth});
    }
    for (const int n : options.n_gen) {
      if (n > 0) tests.push_back({0, n, depth});
    }
  }
  return tests;
}

void bench_tests(const BenchOptions& options, BenchOutput& output) {
  const std::vector<BenchTest> tests = bench_plan(options);
  const int n_ctx = context_of(tests);
  if (options.context >= 0 && options.context < n_ctx) {
    throw Error(ErrorCode::kUsage,
                format("-c %d: the tests need a context of %d", options.context, n_ctx));
  }
  const int context = std::max(n_ctx, options.context);
  check_models(options, context);
  Found found;
  bool interrupted = false;
  try {
    for (const std::string& path : options.models) {
      test_model(options, options_of(options, path, context), tests, output, found);
    }
  } catch (const Interrupted&) {
    if (found.rows.empty()) throw;
    interrupted = true;
  }
  output.tell(markdown_table({{"model", false},
                              {"size"},
                              {"params"},
                              {"backend", false},
                              {"threads"},
                              {"test"},
                              {"t/s"},
                              {"GB/s"},
                              {"of reading"}},
                             found.rows));
  output.write({{"mode", "tests"},
                {"repetitions", options.repeats},
                {"complete", !interrupted},
                {"models", found.models}},
               found.records);
  if (!interrupted) return;
  throw Interrupted(format("interrupted after %zu of %zu tests", found.rows.size(),
                           options.models.size() * tests.size()));
}

}  // namespace specbound
