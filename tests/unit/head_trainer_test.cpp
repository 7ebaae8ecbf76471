// The whole training on planted features: what can be learnt is learnt, the same seed gives the
// same bytes, and a killed training comes out like one that was not.
#include <doctest/doctest.h>

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "error.h"
#include "expect_error.h"
#include "farther.h"
#include "train/calibration.h"
#include "train/head_trainer.h"
#include "train/report_html.h"
#include "train/softmax_loss.h"

namespace head_trainer_test {

using namespace specbound;

namespace {

constexpr int kDim = 32, kVocab = 64, kLayers = 4;

class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed) {}
  float next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(state_ >> 40) * 0x1p-23f - 1;
  }
  std::vector<float> vector(size_t n, float size) {
    std::vector<float> values(n);
    for (float& v : values) v = size * next();
    return values;
  }

 private:
  uint64_t state_;
};

// Rows in chunks; y is what `target` makes of x and the y before it.
struct Planted {
  std::vector<FeatureChunk> chunks;
  std::vector<float> lm_head;
  std::vector<int32_t> shortlist;
  HeadsBase base{"llama", kLayers, kDim, kVocab, "0123456789abcdef"};

  enum class Law { kLinear, kChain, kNoise };
  explicit Planted(Law law, std::vector<int> chunk_rows = {300, 500, 250}) {
    Numbers numbers(5);
    lm_head = numbers.vector(size_t{kVocab} * kDim, 1);
    for (int i = 0; i < kVocab; ++i) shortlist.push_back((i * 37 + 11) % kVocab);
    const std::vector<float> w = numbers.vector(size_t{kDim} * kDim, 0.6f);
    const std::vector<float> v = numbers.vector(size_t{kDim} * kDim, 0.5f);
    std::vector<float> before(kDim);
    int row_in_reply = 0;
    for (const int rows : chunk_rows) {
      FeatureChunk chunk;
      chunk.rows = rows;
      chunk.dim = kDim;
      chunk.x.resize(2);
      for (int r = 0; r < rows; ++r) {
        const bool follows = r > 0 && row_in_reply % 23 != 0;
        ++row_in_reply;
        const std::vector<float> x = numbers.vector(kDim, 1.7f);
        std::vector<float> y(kDim);
        for (int o = 0; o < kDim; ++o) {
          for (int i = 0; i < kDim; ++i) {
            y[o] += w[o * kDim + i] * x[i];
            if (law == Law::kChain) y[o] += v[o * kDim + i] * std::tanh(3 * before[i]);
          }
          if (law == Law::kNoise) y[o] += numbers.next() * 4;
        }
        for (std::vector<float>& layer : chunk.x) layer.insert(layer.end(), x.begin(), x.end());
        chunk.y.insert(chunk.y.end(), y.begin(), y.end());
        chunk.next.push_back(0);
        chunk.follows.push_back(follows);
        before = y;
      }
      chunks.push_back(std::move(chunk));
    }
  }

  FeatureSource source() const {
    FeatureSource source;
    source.layers = {0, 2};
    source.dim = kDim;
    source.n_chunks = static_cast<int>(chunks.size());
    for (const FeatureChunk& chunk : chunks) source.n_rows += chunk.rows;
    source.load = [this](int i) { return chunks[static_cast<size_t>(i)]; };
    return source;
  }

  TrainedHeads train(const TrainOptions& options,
                     const std::function<bool(const TrainProgress&)>& progress = nullptr) const {
    return train_heads(source(), lm_head, shortlist, base, options, progress);
  }
};

TrainOptions options() {
  TrainOptions o;
  o.kinds = {HeadKind::kChained, HeadKind::kFolded, HeadKind::kFull};
  o.layers = {0, 2};
  o.epochs = 3;
  o.batch = 64;
  o.threads = 1;
  o.learning_rate = 3e-3f;
  o.sharpen = 1;
  return o;
}

// Every bit of what goes into the file.
std::vector<uint32_t> bits(const NewHeads& heads) {
  std::vector<uint32_t> all;
  const auto add = [&](const std::vector<float>& values) {
    all.push_back(static_cast<uint32_t>(values.size()));
    for (const float v : values) all.push_back(std::bit_cast<uint32_t>(v));
  };
  for (const NewHead& head : heads.heads) {
    all.push_back(static_cast<uint32_t>(head.kind));
    all.push_back(static_cast<uint32_t>(head.layer));
    add({head.margin_scale, head.margin_offset, head.temperature});
    for (const HeadTensor* t : {&head.map, &head.folded, &head.inner, &head.outer}) add(t->values);
  }
  for (const int32_t token : heads.shortlist) all.push_back(static_cast<uint32_t>(token));
  return all;
}

const HeadReport& report_of(const TrainedHeads& trained, HeadKind kind, int layer) {
  for (const HeadReport& report : trained.reports) {
    if (report.kind == kind && report.layer == layer) return report;
  }
  FAIL("no such head");
  return trained.reports[0];
}

struct TempFile {
  std::string path = (std::filesystem::temp_directory_path() /
                      ("specbound-train-" + std::to_string(getpid()) + ".checkpoint"))
                         .string();
  TempFile() { std::filesystem::remove(path); }
  ~TempFile() { std::filesystem::remove(path); }
};

}  // namespace

TEST_CASE("a planted map is found by least squares, to full agreement") {
  const Planted planted(Planted::Law::kLinear);
  TrainOptions o = options();
  o.quick = true;
  const TrainedHeads trained = planted.train(o);
  REQUIRE(trained.heads.heads.size() == 4);  // chained 0 and 2, folded 2, full 2
  CHECK(trained.rows + trained.validation_rows == 1050);
  CHECK(trained.validation_rows >= 53);
  CHECK(trained.validation_rows <= 53 + 23);  // to the beginning of the reply
  for (const HeadReport& report : trained.reports) {
    CAPTURE(head_kind_name(report.kind));
    CAPTURE(report.layer);
    // Only the ridge is between the head and the truth.
    CHECK(report.kl_end < 1e-3);
    CHECK(report.agreement >= 0.98);
    CHECK(report.kl_start == report.kl_end);
  }
  CHECK(trained.loss_curve.empty());
}

TEST_CASE("a chained head learns as many steps on its own state as it is unrolled over") {
  const Planted planted(Planted::Law::kLinear);
  TrainOptions o = options();
  o.epochs = 2;
  std::vector<std::vector<float>> maps;
  for (const int unroll : {1, 3, 3}) {
    o.unroll = unroll;
    const TrainedHeads trained = planted.train(o);
    REQUIRE(trained.heads.heads[0].kind == HeadKind::kChained);
    maps.push_back(trained.heads.heads[0].map.values);
  }
  CHECK(maps[0] != maps[1]);
  CHECK(maps[1] == maps[2]);
}

TEST_CASE("a head's overlap with the model counts what its shortlist leaves out") {
  Planted planted(Planted::Law::kLinear);
  planted.shortlist.resize(kVocab / 2);
  TrainOptions o = options();
  o.quick = true;
  const TrainedHeads trained = planted.train(o);
  // Nothing but the list is between folded heads and the truth, so they have what it has: its mean
  // share of the newest rows, which are the ones for validation.
  std::vector<double> shares;
  for (const FeatureChunk& chunk : planted.chunks) {
    for (int r = 0; r < chunk.rows; ++r) {
      std::vector<double> odds(kVocab, 0);
      double whole = 0, listed = 0;
      for (int token = 0; token < kVocab; ++token) {
        for (int i = 0; i < kDim; ++i) {
          odds[token] += planted.lm_head[token * kDim + i] * chunk.y[r * kDim + i];
        }
        whole += odds[token] = std::exp(odds[token]);
      }
      for (const int32_t token : planted.shortlist) listed += odds[token];
      shares.push_back(listed / whole);
    }
  }
  const auto newest = shares.end() - trained.validation_rows;
  const double share =
      std::accumulate(newest, shares.end(), 0.0) / static_cast<double>(trained.validation_rows);
  CHECK(share < 0.7);
  CHECK(report_of(trained, HeadKind::kFolded, 2).overlap == doctest::Approx(share).epsilon(0.02));
  CHECK(report_of(trained, HeadKind::kFull, 2).overlap == doctest::Approx(1).epsilon(0.02));
  CHECK(report_of(trained, HeadKind::kFull, 2).overlap < 1 + 1e-6);
}

TEST_CASE("training lowers the divergence, and a chain gets what a linear head cannot") {
  const Planted planted(Planted::Law::kChain, {6000, 6000, 300});
  TrainOptions o = options();
  o.epochs = 12;
  o.learning_rate = 1e-3f;
  const TrainedHeads trained = planted.train(o);
  for (const HeadReport& report : trained.reports) {
    CAPTURE(head_kind_name(report.kind));
    CAPTURE(report.layer);
    CHECK(report.kl_end < report.kl_start);
  }
  const HeadReport& chained = report_of(trained, HeadKind::kChained, 0);
  const HeadReport& folded = report_of(trained, HeadKind::kFolded, 2);
  CHECK(chained.agreement > folded.agreement + 0.2);
  // On its own state, too.
  REQUIRE(chained.depth_agreement.size() == 5);
  for (const double agreement : chained.depth_agreement) CHECK(agreement > folded.agreement + 0.1);
  CHECK(folded.depth_agreement.empty());
  REQUIRE(trained.loss_curve.size() > 10);
  CHECK(trained.loss_curve.back().second < trained.loss_curve.front().second);
  CHECK(trained.loss_curve.back().first == doctest::Approx(o.epochs));
  // Confidence is worth something: those above a threshold are right more often than all.
  const size_t half = 9;
  CHECK(chained.tau[half] == doctest::Approx(0.5));
  CHECK(chained.accepted[half] >= chained.agreement);
  CHECK(chained.leaving[0] >= chained.leaving[half]);
  for (const NewHead& head : trained.heads.heads) CHECK(head.margin_scale > 0);
}

TEST_CASE("a folded head comes out as the shortlist's rows of its map") {
  const Planted planted(Planted::Law::kLinear);
  TrainOptions o = options();
  o.quick = true;
  const TrainedHeads trained = planted.train(o);
  const NewHead* full = nullptr;
  const NewHead* folded = nullptr;
  for (const NewHead& head : trained.heads.heads) {
    if (head.kind == HeadKind::kFull) full = &head;
    if (head.kind == HeadKind::kFolded) folded = &head;
  }
  REQUIRE(full);
  REQUIRE(folded);
  REQUIRE(folded->folded.n_out == kVocab);
  double worst = 0;
  for (int s = 0; s < kVocab; ++s) {
    for (int i = 0; i < kDim; ++i) {
      double expected = 0;
      for (int d = 0; d < kDim; ++d) {
        expected += planted.lm_head[planted.shortlist[s] * kDim + d] *
                    static_cast<double>(full->map.values[d * kDim + i]);
      }
      worst = test::farther(worst, std::fabs(expected - folded->folded.values[s * kDim + i]));
    }
  }
  CHECK(worst < 1e-5);
}

TEST_CASE("the same seed gives the same bytes, whatever the threads; another seed does not") {
  const Planted planted(Planted::Law::kNoise);
  TrainOptions o = options();
  const std::vector<uint32_t> first = bits(planted.train(o).heads);
  CHECK(bits(planted.train(o).heads) == first);
  o.threads = 3;
  CHECK(bits(planted.train(o).heads) == first);
  o.seed = 1;
  CHECK(bits(planted.train(o).heads) != first);
}

TEST_CASE("a training that was stopped goes on to the same bytes") {
  const Planted planted(Planted::Law::kNoise);
  const TempFile file;
  TrainOptions o = options();
  const TrainedHeads whole = planted.train(o);
  o.checkpoint = file.path;
  // Each run is stopped a little later; the last one ends.
  int runs = 0;
  TrainedHeads resumed;
  do {
    REQUIRE(++runs < 200);
    int told = 0;
    resumed = planted.train(o, [&](const TrainProgress& progress) {
      const bool training = std::strcmp(progress.stage, "training") == 0;
      return !training || progress.done >= 1 || ++told <= 2;
    });
  } while (resumed.heads.heads.empty() && runs < 200);
  CHECK(runs > 20);  // of 45 batches, two each
  CHECK(bits(resumed.heads) == bits(whole.heads));
  REQUIRE(resumed.reports.size() == whole.reports.size());
  for (size_t h = 0; h < whole.reports.size(); ++h) {
    CHECK(resumed.reports[h].kl_start == whole.reports[h].kl_start);
    CHECK(resumed.reports[h].kl_end == whole.reports[h].kl_end);
  }
  CHECK(resumed.loss_curve == whole.loss_curve);
}

TEST_CASE("a killed training goes on from its last checkpoint to the same bytes") {
  const Planted planted(Planted::Law::kNoise);
  const TempFile file;
  TrainOptions o = options();
  const TrainedHeads whole = planted.train(o);
  o.checkpoint = file.path;
  o.checkpoint_seconds = 0;  // after every batch
  // As kill -9 leaves it: nothing is written on the way out. Here after the tenth batch.
  struct Killed {};
  int told = 0;
  const auto die = [&](const TrainProgress& progress) -> bool {
    if (std::strcmp(progress.stage, "training") == 0 && ++told > 10) throw Killed{};
    return true;
  };
  CHECK_THROWS_AS(planted.train(o, die), Killed);
  REQUIRE(std::filesystem::exists(file.path));
  const TrainedHeads resumed = planted.train(o);
  CHECK(bits(resumed.heads) == bits(whole.heads));

  // Complete: only the validation is done again.
  const TrainedHeads again = planted.train(o);
  CHECK(bits(again.heads) == bits(whole.heads));
}

TEST_CASE("what is learnt by heart is left, also by a training that was killed on the way") {
  // Half of what there is in the rows is noise, which is learnt by large steps.
  const Planted planted(Planted::Law::kNoise, {600, 600});
  const TempFile file;
  TrainOptions o = options();
  o.kinds = {HeadKind::kChained};
  o.layers = {0};
  o.epochs = 60;
  o.learning_rate = 6e-2f;
  o.own_gemm = true;
  TrainedHeads whole;  // ends early with ten seeds of twelve, which is up to the machine's products
  do {
    whole = planted.train(o);
  } while (whole.reports[0].passes >= o.epochs && ++o.seed < 6);
  const HeadReport& report = whole.reports[0];
  CHECK(report.passes < o.epochs);
  CHECK(report.passes >= 0.55 * o.epochs);  // three comparisons behind the first
  CHECK(report.taken_after >= 0.3 * o.epochs);
  CHECK(report.taken_after < report.passes);

  o.checkpoint = file.path;
  o.checkpoint_seconds = 0;  // after every batch
  struct Killed {};
  int told = 0;
  const auto die = [&](const TrainProgress& progress) -> bool {
    if (std::strcmp(progress.stage, "training") == 0 && ++told > 150) throw Killed{};
    return true;
  };
  int killed = 0;
  TrainedHeads resumed;
  while (resumed.heads.heads.empty() && killed < 20) {
    told = 0;
    try {
      resumed = planted.train(o, die);
    } catch (const Killed&) {
      ++killed;
    }
  }
  CHECK(killed >= 3);
  CHECK(bits(resumed.heads) == bits(whole.heads));
  REQUIRE(resumed.reports.size() == 1);
  CHECK(resumed.reports[0].taken_after == report.taken_after);
  CHECK(resumed.reports[0].passes == report.passes);
}

TEST_CASE("a checkpoint that is damaged or not ours is not gone on from") {
  const Planted planted(Planted::Law::kNoise);
  const TempFile file;
  TrainOptions o = options();
  o.epochs = 1;
  const std::vector<uint32_t> expected = bits(planted.train(o).heads);
  o.checkpoint = file.path;
  CHECK(bits(planted.train(o).heads) == expected);
  std::string data;
  {
    std::ifstream in(file.path, std::ios::binary);
    data.assign(std::istreambuf_iterator<char>(in), {});
  }
  REQUIRE(data.size() > 1000);
  const auto write = [&](const std::string& text) {
    std::ofstream(file.path, std::ios::binary) << text;
  };
  for (const size_t at : {size_t{0}, size_t{9}, size_t{20}, data.size() / 2, data.size() - 1}) {
    std::string damaged = data;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x20);
    write(damaged);
    CHECK(bits(planted.train(o).heads) == expected);
    write(data.substr(0, at));
    CHECK(bits(planted.train(o).heads) == expected);
  }
  write(data + "x");
  CHECK(bits(planted.train(o).heads) == expected);
  // Other options: as if it were not there.
  write(data);
  o.learning_rate *= 2;
  TrainOptions fresh = o;
  fresh.checkpoint.clear();
  CHECK(bits(planted.train(o).heads) == bits(planted.train(fresh).heads));

  o.checkpoint = "/nonexistent-folder/checkpoint";
  o.checkpoint_seconds = 0;
  std::vector<std::string> warnings;
  const TrainedHeads trained = planted.train(o, [&](const TrainProgress& progress) {
    if (!progress.warning.empty()) warnings.push_back(progress.warning);
    return true;
  });
  CHECK(bits(trained.heads) == bits(planted.train(fresh).heads));
  REQUIRE(warnings.size() == 1);  // told once, however often it fails
  CHECK(warnings[0].find(o.checkpoint) != std::string::npos);
}

TEST_CASE("a time limit ends the training, not the work after it") {
  const Planted planted(Planted::Law::kNoise);
  TrainOptions o = options();
  o.epochs = 1000000;
  o.seconds = 0.3;
  const TrainedHeads trained = planted.train(o);
  CHECK(trained.heads.heads.size() == 4);
  CHECK(trained.seconds < 20);
}

TEST_CASE("a training that diverges ends at the first loss that is no number") {
  const Planted planted(Planted::Law::kNoise);
  const TempFile file;
  TrainOptions o = options();
  o.checkpoint = file.path;
  o.checkpoint_seconds = 0;
  o.learning_rate = 1e30f;
  o.epochs = 1000;
  test::check_mentions(test::expect_error(ErrorCode::kUsage, [&] { planted.train(o); }),
                       {"--lr 1e+30", "diverged"});
  CHECK(std::filesystem::exists(file.path));
}

TEST_CASE("what cannot be trained is said") {
  const Planted planted(Planted::Law::kLinear);
  TrainOptions o = options();
  o.layers = {0};
  o.kinds = {HeadKind::kFolded};
  CHECK_THROWS_AS(planted.train(o), Error);
  o = options();
  o.quick = true;
  CHECK_THROWS_AS(train_heads(planted.source(), planted.lm_head, {}, planted.base, o, nullptr),
                  Error);
  const Planted one(Planted::Law::kLinear, {1});
  CHECK_THROWS_AS(one.train(o), Error);
  Planted broken(Planted::Law::kLinear);
  broken.chunks[0].x[1][5] = std::nanf("");
  CHECK_THROWS_AS(broken.train(o), Error);
  // Two rows are few, but they are rows.
  const Planted two(Planted::Law::kLinear, {2});
  CHECK(two.train(o).validation_rows == 1);
  o.quick = false;
  CHECK(two.train(o).rows == 1);
}

TEST_CASE("calibration error, bins and the law of margins") {
  // 0.95 said and 3 of 4 right; 0.55 said and none of 2 right.
  const std::vector<float> confidence = {0.95f, 0.95f, 0.95f, 0.95f, 0.55f, 0.55f};
  const std::vector<uint8_t> right = {1, 1, 0, 1, 0, 0};
  const std::vector<ReliabilityBin> bins = reliability(confidence, right);
  REQUIRE(bins.size() == 15);
  CHECK(bins[14].rows == 4);
  CHECK(bins[14].accuracy == 0.75);
  CHECK(bins[8].rows == 2);
  CHECK(calibration_error(bins) == doctest::Approx((4 * 0.2 + 2 * 0.55) / 6));
  CHECK(calibration_error({}) == 0);
  CHECK(reliability(std::vector<float>{1}, std::vector<uint8_t>{1})[14].rows == 1);
  const std::vector<float> odd = {1e35f, -1e35f, std::nanf("")};
  const std::vector<ReliabilityBin> of_odd = reliability(odd, std::vector<uint8_t>{1, 1, 1});
  CHECK(of_odd[14].rows == 1);
  CHECK(of_odd[0].rows == 2);

  // Drawn from a law, found again.
  Numbers numbers(9);
  std::vector<float> x;
  std::vector<uint8_t> drawn;
  for (int i = 0; i < 20000; ++i) {
    x.push_back(4 + 4 * numbers.next());
    const double p = 1 / (1 + std::exp(-(1.3 * x.back() - 2)));
    drawn.push_back((numbers.next() + 1) / 2 < p);
  }
  const LogisticFit fit = fit_logistic(x, drawn);
  CHECK(std::fabs(fit.scale - 1.3) < 0.1);  // standard error about 0.02
  CHECK(std::fabs(fit.offset + 2) < 0.2);

  // All right, none right, all alike, far apart: finite, and on the right side.
  const std::vector<float> some = {0, 1, 2, 3};
  const LogisticFit all = fit_logistic(some, std::vector<uint8_t>{1, 1, 1, 1});
  CHECK(1 / (1 + std::exp(-(all.scale * 1.5 + all.offset))) > 0.7);
  const LogisticFit none = fit_logistic(some, std::vector<uint8_t>{0, 0, 0, 0});
  CHECK(1 / (1 + std::exp(-(none.scale * 1.5 + none.offset))) < 0.3);
  const LogisticFit apart = fit_logistic(some, std::vector<uint8_t>{0, 0, 1, 1});
  CHECK(apart.scale > 0);
  CHECK(std::isfinite(apart.scale));
  const LogisticFit alike =
      fit_logistic(std::vector<float>{2, 2, 2, 2}, std::vector<uint8_t>{1, 0, 1, 0});
  CHECK(std::isfinite(alike.scale));
  CHECK(1 / (1 + std::exp(-(alike.scale * 2 + alike.offset))) == doctest::Approx(0.5));
  CHECK(fit_logistic({}, {}).scale == 1);
}

TEST_CASE("the temperature of a head is the one that its tokens were drawn at") {
  CHECK(learnable_temperature(0) == 4);
  CHECK(learnable_temperature(kNoAnnealing) == 1);
  constexpr int kWidth = 9;
  Numbers numbers(11);
  for (const float truth : {0.5f, 1.0f, 1.8f, 2.6f}) {
    CAPTURE(truth);
    TemperatureFit fit;
    CHECK(fit.temperature() == 1);
    CHECK(fit.error() == 0);
    for (int row = 0; row < 20000; ++row) {
      const std::vector<float> z = numbers.vector(kWidth, 3);
      const float first = *std::ranges::max_element(z);
      double rest = 0;
      for (const float v : z) rest += std::exp((v - first) / truth);
      fit.add(confidence_curve(z.data(), kWidth, first), (numbers.next() + 1) / 2 < 1 / rest);
    }
    // Half a step of the grid and some standard errors.
    CHECK(std::fabs(std::log2(fit.temperature() / truth)) < 0.16);
    CHECK(fit.error() < 0.03);
  }
}

TEST_CASE("a head that is always right, or never, has no temperature of its own") {
  ConfidenceCurve sure, odd;
  sure.fill(1);
  odd.fill(std::nanf(""));
  for (const bool right : {true, false}) {
    TemperatureFit fit;
    for (int row = 0; row < 10; ++row) fit.add(sure, right);
    CHECK(fit.temperature() == 1);
    CHECK(fit.error() == (right ? 0.0 : 1.0));
  }
  TemperatureFit fit;
  fit.add(sure, false);
  fit.add(odd, true);
  CHECK(fit.temperature() >= learnable_temperature(kTemperatures - 1));
  CHECK(fit.temperature() <= 4);
}

TEST_CASE("heads that draft by confidence learn a temperature, and the report has it") {
  const Planted planted(Planted::Law::kNoise);
  TrainOptions o = options();
  o.quick = true;
  const TrainedHeads trained = planted.train(o);
  REQUIRE(trained.reports.size() == trained.heads.heads.size());
  for (size_t h = 0; h < trained.reports.size(); ++h) {
    const HeadReport& report = trained.reports[h];
    CAPTURE(head_kind_name(report.kind));
    CHECK(trained.heads.heads[h].temperature == report.temperature);
    if (report.temperature == 1) CHECK(report.ece_learned == doctest::Approx(report.ece));
  }
  CHECK(std::ranges::any_of(trained.reports, [](const auto& r) { return r.temperature != 1; }));
}

TEST_CASE("the report is one page, without scripts, and names are only text in it") {
  const Planted planted(Planted::Law::kNoise);
  TrainOptions o = options();
  o.epochs = 1;
  const TrainedHeads trained = planted.train(o);
  const std::string page =
      report_html(trained, {"<script>alert(1)</script>\x1b", "a&b.jsonl", kLayers});
  CHECK(page.find("<script") == std::string::npos);
  CHECK(page.find("&lt;script&gt;") != std::string::npos);
  CHECK(page.find("a&amp;b.jsonl") != std::string::npos);
  CHECK(page.find('\x1b') == std::string::npos);
  CHECK(page.find("http") == std::string::npos);
  CHECK(page.find("nan") == std::string::npos);
  CHECK(page.find("inf") == std::string::npos);
  size_t plots = 0;
  for (size_t at = 0; (at = page.find("<svg", at)) != std::string::npos; ++at) ++plots;
  CHECK(plots == 7);
  CHECK(page.substr(page.size() - 8) == "</html>\n");
}

}  // namespace head_trainer_test
