// Training on a device against training on the CPU: gradients, whole trainings, which go on on the
// other one, and what happens when the device cannot do it.
#include "train/head_learner.h"

#include <doctest/doctest.h>

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "error.h"
#include "numerics/half.h"
#include "simt/cublas_rig.h"
#include "simt/rig.h"
#include "simt/simt_device.h"
#include "train/device_features.h"
#include "train/device_learner.h"

namespace head_learner_host_test {

using namespace specbound;
using namespace specbound::test;
using simt::SimtDevice;

namespace {

constexpr int kDim = 32, kVocab = 96, kLayers = 4;

std::vector<float> half_floats(std::vector<float> x) {  // such as feature files hold
  for (float& v : x) v = half_to_float(float_to_half(v));
  return x;
}

// Rows in chunks; y is near a linear map of x and of the y before it.
struct Planted {
  std::vector<FeatureChunk> chunks;
  std::vector<float> lm_head = random_floats(size_t{kVocab} * kDim, 7, 0.3f);
  std::vector<int32_t> shortlist;
  HeadsBase base{"llama", kLayers, kDim, kVocab, "0123456789abcdef"};

  explicit Planted(const std::vector<int>& chunk_rows = {70, 110, 60}) {
    for (int i = 0; i < 40; ++i) shortlist.push_back(i * 37 % kVocab);
    const std::vector<float> w = random_floats(size_t{kDim} * kDim, 1, 0.3f);
    std::vector<float> before(kDim);
    uint64_t seed = 100;
    int at = 0;
    for (const int rows : chunk_rows) {
      FeatureChunk chunk;
      chunk.rows = rows;
      chunk.dim = kDim;
      const size_t n = size_t(rows) * kDim;
      for (int layer = 0; layer < 3; ++layer)
        chunk.x.push_back(half_floats(random_floats(n, ++seed)));
      const std::vector<float> noise = random_floats(n, ++seed);
      for (int r = 0; r < rows; ++r) {
        const float* x = &chunk.x[2][size_t(r) * kDim];
        std::vector<float> y(kDim);
        for (int o = 0; o < kDim; ++o) {
          y[o] = 0.5f * noise[size_t(r) * kDim + o] + 0.4f * before[o];
          for (int i = 0; i < kDim; ++i) y[o] += w[o * kDim + i] * x[i];
        }
        before = y = half_floats(y);
        chunk.y.insert(chunk.y.end(), y.begin(), y.end());
        chunk.next.push_back(0);
        chunk.follows.push_back(r > 0 && at++ % 11 != 0);
      }
      chunks.push_back(std::move(chunk));
    }
  }

  FeatureSource source() const {
    FeatureSource source{{0, 1, 2}, kDim, static_cast<int>(chunks.size()), 0, {}};
    for (const FeatureChunk& chunk : chunks) source.n_rows += chunk.rows;
    source.load = [this](int i) { return chunks[static_cast<size_t>(i)]; };
    return source;
  }
};

// What a learner is given.
struct Lesson {
  const Planted& planted;
  FeatureSource source = planted.source();
  ThreadPool pool{1};
  Gemm gemm{pool, Gemm::Use::kOwn};
  TrainingStep step;
  std::vector<LearningHead> heads;
  std::vector<int> x_index;
  BatchPlan plan{{0, 0, 0}, {0, 0, 0}, 0};

  Lesson(const Planted& planted, const std::vector<std::pair<HeadKind, int>>& kinds, int chains = 3,
         float softcap = 0)
      : planted(planted), step(gemm, planted.lm_head, kDim, planted.shortlist, 1.5f, softcap) {
    uint64_t seed = 1;
    for (const auto& [kind, layer] : kinds) {
      LearningHead head;
      head.kind = kind;
      head.layer = layer;
      head.dim = kDim;
      head.n_inner = kind == HeadKind::kChained && layer > 0 ? 64 : 0;
      head.map.resize(size_t{kDim} * head.n_in());
      head.inner.resize(size_t(head.n_inner) * head.n_in());
      head.outer.resize(size_t(head.n_inner) * kDim);
      for (Parameter* p : head.parameters())
        p->value = random_floats(p->value.size(), ++seed, 0.2f);
      heads.push_back(head);
      x_index.push_back(layer);
      plan.layer[layer] = 1;
      if (kind != HeadKind::kChained) continue;
      plan.chained_layer[layer] = 1;
      plan.chains = chains;
    }
  }
  LearningTask task() { return {source, step, heads, x_index, plan, 100, {}}; }

  std::vector<RowAt> rows() const {
    std::vector<RowAt> rows;
    append_rows(planted.chunks[0].follows, 0, 3, 40, plan.chains, rows);
    append_rows(planted.chunks[2].follows, 2, 0, 50, plan.chains, rows);
    return rows;
  }
};

struct Outcome {
  std::vector<double> losses;
  std::vector<float> values;                  // of all heads
  std::vector<std::vector<float>> gradients;  // [parameter] as the optimizer's mean has them
};

Outcome learn(HeadLearner& learner, Lesson& lesson, int steps) {
  Outcome outcome;
  outcome.losses.resize(lesson.heads.size());
  const int chunks[] = {0, 2};
  learner.open(chunks);
  learner.begin();
  for (int i = 1; i <= steps; ++i) {
    std::vector<RowAt> rows = lesson.rows();
    int64_t head_rows = 0;
    const std::vector<int> chained = order_batch(rows, lesson.plan.chains);
    for (const LearningHead& head : lesson.heads) {
      head_rows += rows_of(head, static_cast<int>(rows.size()), chained);
    }
    const int64_t learnt = learner.learn(rows, i, 1e-3f, outcome.losses);
    CHECK(learnt == head_rows);
  }
  learner.fetch();
  for (LearningHead& head : lesson.heads) {
    for (const Parameter* p : head.parameters()) {
      outcome.values.insert(outcome.values.end(), p->value.begin(), p->value.end());
      outcome.gradients.push_back(p->mean);
    }
  }
  return outcome;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {  // relative
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
    size += double(b[i]) * b[i];
  }
  return std::sqrt(difference / size);
}

const std::vector<std::pair<HeadKind, int>> kAllKinds = {{HeadKind::kFolded, 1},
                                                         {HeadKind::kChained, 2},
                                                         {HeadKind::kFull, 2},
                                                         {HeadKind::kFolded, 2},
                                                         {HeadKind::kChained, 0}};

TrainOptions options(Device* device) {
  TrainOptions o;
  o.kinds = {HeadKind::kChained, HeadKind::kFolded};
  o.layers = {0, 2};
  o.epochs = 2;  // heads are compared in between
  o.batch = 32;
  o.threads = 1;
  o.own_gemm = true;
  o.inner = 32;
  if (device) {
    o.device_learner = [device](const LearningTask& task) {
      return make_device_learner(*device, task);
    };
  }
  return o;
}

struct Told {
  std::vector<std::string> warnings;
  std::string arithmetic;
  int stop_after = -1;  // calls in training
};

TrainedHeads train(const Planted& planted, const TrainOptions& options, Told& told) {
  return train_heads(planted.source(), planted.lm_head, planted.shortlist, planted.base, options,
                     [&](const TrainProgress& progress) {
                       if (!progress.warning.empty()) told.warnings.push_back(progress.warning);
                       told.arithmetic = progress.arithmetic;
                       return std::string(progress.stage) != "training" || told.stop_after-- != 0;
                     });
}

std::vector<float> all_values(const TrainedHeads& trained) {
  std::vector<float> all;
  for (const NewHead& head : trained.heads.heads) {
    for (const HeadTensor* t : {&head.map, &head.folded, &head.inner, &head.outer}) {
      all.insert(all.end(), t->values.begin(), t->values.end());
    }
  }
  return all;
}

}  // namespace

TEST_CASE("a device's losses and gradients are the CPU's but for FP16") {
  const FakeCublas fake;
  const Planted planted;
  for (const float softcap : {0.0f, 4.0f}) {
    CAPTURE(softcap);
    Lesson on_cpu(planted, kAllKinds, 3, softcap), on_device(planted, kAllKinds, 3, softcap);
    SimtDevice device;
    const auto cpu = make_cpu_learner(on_cpu.gemm, on_cpu.task());
    const auto gpu = make_device_learner(device, on_device.task());
    CHECK(gpu->arithmetic() == "cuBLAS 13.7 on SIMT executor");
    const Outcome expected = learn(*cpu, on_cpu, 1), found = learn(*gpu, on_device, 1);
    for (size_t h = 0; h < expected.losses.size(); ++h) {
      CAPTURE(h);
      CHECK(expected.losses[h] > 0.01);
      CHECK(found.losses[h] == doctest::Approx(expected.losses[h]).epsilon(2e-3));
    }
    REQUIRE(found.gradients.size() == expected.gradients.size());
    for (size_t p = 0; p < expected.gradients.size(); ++p) {
      CAPTURE(p);
      CHECK(distance(found.gradients[p], expected.gradients[p]) < 3e-3);
    }
    // The step that follows is in both the same: small where the signs of gradients agree.
    CHECK(distance(found.values, expected.values) < 1e-3);
    const Outcome later = learn(*cpu, on_cpu, 2), found_later = learn(*gpu, on_device, 2);
    for (size_t h = 0; h < later.losses.size(); ++h) {
      CHECK(found_later.losses[h] == doctest::Approx(later.losses[h]).epsilon(5e-3));
    }
  }
}

TEST_CASE("no row that can go a step leaves chained heads as they were but for decay") {
  const FakeCublas fake;
  const Planted planted;
  Lesson lesson(planted, {{HeadKind::kChained, 2}, {HeadKind::kFolded, 2}});
  SimtDevice device;
  const auto learner = make_device_learner(device, lesson.task());
  const int chunks[] = {0};
  learner->open(chunks);
  learner->begin();
  const std::vector<float> before = lesson.heads[0].map.value;
  std::vector<RowAt> rows = {{0, 0, 0}, {0, 12, 0}};
  std::vector<double> losses(2);
  CHECK(learner->learn(rows, 1, 1e-3f, losses) == 2);
  learner->fetch();
  CHECK(losses[0] == 0);
  CHECK(losses[1] > 0);
  for (size_t i = 0; i < before.size(); ++i) {
    REQUIRE(lesson.heads[0].map.value[i] == (1 - 1e-3f * AdamW().weight_decay) * before[i]);
  }
}

TEST_CASE("a device learns the same bits in every run and order") {
  const FakeCublas fake;
  const Planted planted;
  simt::for_each_order([&] {
    Lesson lesson(planted, {{HeadKind::kFolded, 1}, {HeadKind::kChained, 2}});
    SimtDevice device;
    const auto learner = make_device_learner(device, lesson.task());
    return learn(*learner, lesson, 1).values;
  });
}

TEST_CASE("features that do not fit come and go, and are the same") {
  const Planted planted;
  const FeatureSource source = planted.source();
  const BatchPlan plan{{0, 1, 1}, {0, 0, 0}, 0};
  simt::DeviceLog log;
  {
    simt::DeviceOptions options;
    options.log = &log;
    SimtDevice device(options);
    DeviceFloats floats(device);
    const size_t row_bytes = 3 * kDim * 2, at_start = log.device_bytes;
    CHECK(DeviceChunks::bytes_of(source, plan) == 240 * row_bytes);
    DeviceChunks chunks(device, floats, source, plan, 180 * row_bytes);
    const auto check = [&](int chunk, int layer, int row) {
      const kernels::RowPlace place = chunks.place(chunk, row);
      const FeatureChunk& of = planted.chunks[chunk];
      const float* wanted = (layer < 0 ? of.y : of.x[layer]).data() + size_t(row) * kDim;
      const int plane = layer < 0 ? chunks.y_plane() : chunks.plane_of(layer);
      const auto found = device.read(place.row + plane * place.plane, kDim);
      for (int i = 0; i < kDim; ++i) REQUIRE(half_to_float(found[i]) == wanted[i]);
    };
    // Those that go may not have arrived yet.
    const int first[] = {0, 1}, then[] = {1, 2};
    chunks.open(first);
    chunks.open(then);
    const std::vector<std::vector<int>> windows = {{0}, {0, 1}, {2, 1}, {0, 2}};
    for (const std::vector<int>& window : windows) {
      chunks.open(window);
      CHECK(log.device_bytes - at_start <= 180 * row_bytes);
      for (const int c : window) {
        CHECK(chunks.follows(c).size() == planted.chunks[c].follows.size());
        for (const int layer : {1, 2, -1}) check(c, layer, 5 * c + 2);
      }
    }
    const int too_many[] = {0, 1, 2};
    CHECK_THROWS_AS(chunks.open(too_many), Error);
    device.synchronize();
  }
  CHECK(log.live == 0);
  CHECK(log.wrong == "");
}

TEST_CASE("a whole training on a device comes out about as on the CPU") {
  const FakeCublas fake;
  const Planted planted;
  SimtDevice device;
  Told on_cpu, on_device;
  const TrainedHeads expected = train(planted, options(nullptr), on_cpu);
  const TrainedHeads found = train(planted, options(&device), on_device);
  CHECK(on_device.warnings.empty());
  CHECK(on_device.arithmetic == "cuBLAS 13.7 on SIMT executor");
  CHECK(found.arithmetic == on_device.arithmetic);
  CHECK(on_cpu.arithmetic == "own kernels");
  REQUIRE(found.reports.size() == expected.reports.size());
  for (size_t h = 0; h < found.reports.size(); ++h) {
    CHECK(found.reports[h].kl_start == doctest::Approx(expected.reports[h].kl_start).epsilon(1e-3));
    CHECK(found.reports[h].kl_end == doctest::Approx(expected.reports[h].kl_end).epsilon(1e-2));
  }
  CHECK(distance(all_values(found), all_values(expected)) < 2e-2);
}

TEST_CASE("a training that was stopped goes on on the other device") {
  const FakeCublas fake;
  const Planted planted;
  SimtDevice device;
  Told whole, ignored;
  const std::vector<float> expected = all_values(train(planted, options(nullptr), whole));
  const std::string path = (std::filesystem::temp_directory_path() /
                            ("learner-" + std::to_string(getpid()) + ".checkpoint"))
                               .string();
  for (const bool device_first : {true, false}) {
    CAPTURE(device_first);
    TrainOptions first = options(device_first ? &device : nullptr);
    TrainOptions second = options(device_first ? nullptr : &device);
    first.checkpoint = second.checkpoint = path;
    Told stopped;
    stopped.stop_after = 5;
    CHECK(train(planted, first, stopped).heads.heads.empty());
    Told resumed;
    const TrainedHeads trained = train(planted, second, resumed);
    std::filesystem::remove(path);
    CHECK(trained.rows == 240 - trained.validation_rows);
    CHECK(distance(all_values(trained), expected) < 2e-2);
  }
}

TEST_CASE("what a device cannot train, the CPU trains, and says why") {
  const Planted planted;
  Told plain;
  const std::vector<float> expected = all_values(train(planted, options(nullptr), plain));
  const auto falls_back = [&](const TrainOptions& options, const char* why) {
    Told told;
    CHECK(all_values(train(planted, options, told)) == expected);
    REQUIRE(told.warnings.size() == 1);
    CHECK(told.warnings[0].find("heads learn on the CPU: ") == 0);
    CHECK(told.warnings[0].find(why) != std::string::npos);
    CHECK(told.arithmetic == "own kernels");
  };
  TrainOptions none = options(nullptr);
  none.device_learner = [](const LearningTask&) -> std::unique_ptr<HeadLearner> {
    throw Error(ErrorCode::kUnsupported, "expected cuBLAS, found none");
  };
  falls_back(none, "cuBLAS");
  const FakeCublas fake;
  simt::DeviceLog log;
  {
    simt::DeviceOptions small;
    small.total_bytes = size_t{64} << 20;
    small.log = &log;
    SimtDevice device(small);
    falls_back(options(&device), "MB");
  }
  CHECK(log.live == 0);
  CHECK(log.wrong == "");
}

TEST_CASE("every failure of the device is one error, and nothing is left behind") {
  const FakeCublas fake;
  const Planted planted;
  const auto run = [&](const simt::DeviceOptions& options, simt::DeviceLog& log) {
    bool failed = false;
    {
      simt::DeviceOptions with_log = options;
      with_log.log = &log;
      Lesson lesson(planted, {{HeadKind::kFolded, 1}, {HeadKind::kChained, 2}});
      SimtDevice device(with_log);
      try {
        const auto learner = make_device_learner(device, lesson.task());
        const EquationsOf wanted[] = {{1, false}, {2, true}};
        learner->begin_equations(wanted);
        learner->add_equations(1, kAllRows);
        learner->take_equations();
        learn(*learner, lesson, 1);
      } catch (const Error& e) {
        failed = true;
        CHECK((e.code() == ErrorCode::kDevice || e.code() == ErrorCode::kLimit));
      }
    }
    CHECK(log.live == 0);
    CHECK(log.wrong == "");
    return failed;
  };
  simt::DeviceLog clean;
  REQUIRE(!run({}, clean));
  for (int k = 1; k <= clean.allocations; ++k) {
    CAPTURE(k);
    simt::DeviceOptions options;
    options.refuse_allocation = k;
    simt::DeviceLog log;
    CHECK(run(options, log));
  }
  for (int k = 1; k <= clean.kernels_run; k += 37) {
    CAPTURE(k);
    simt::DeviceOptions launch, kernel;
    launch.fail_launch = kernel.fail_kernel = k;
    simt::DeviceLog log;
    CHECK(run(launch, log));
    CHECK(run(kernel, log));
  }
  for (int k = 1; k <= clean.operations; k += 53) {
    CAPTURE(k);
    simt::DeviceOptions options;
    options.lose_at = k;
    simt::DeviceLog log;
    CHECK(run(options, log));
  }
}

}  // namespace head_learner_host_test
