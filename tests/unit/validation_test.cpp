#include "train/validation.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "train/training_step.h"

namespace validation_test {

using namespace specbound;

namespace {

constexpr int kDim = 32, kVocab = 48;

std::vector<float> numbers(size_t n, uint64_t seed) {
  std::vector<float> values(n);
  for (float& v : values) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    v = static_cast<float>(seed >> 40) * 0x1p-23f - 1;
  }
  return values;
}

// Replies of 7 rows, with states that a head that says the row itself often gets right.
FeatureChunk chunk(int rows, uint64_t seed) {
  FeatureChunk chunk;
  chunk.rows = rows;
  chunk.dim = kDim;
  chunk.x = {numbers(static_cast<size_t>(rows) * kDim, seed)};
  chunk.y = numbers(static_cast<size_t>(rows) * kDim, seed + 1);
  for (size_t i = 0; i < chunk.y.size(); ++i) chunk.y[i] = chunk.x[0][i] + 0.5f * chunk.y[i];
  for (int r = 0; r < rows; ++r) {
    chunk.next.push_back(0);
    chunk.follows.push_back(r % 7 > 0);
  }
  return chunk;
}

struct Rig {
  Rig() {
    for (const int rows : {40, 30, 25}) {
      chunks.push_back(chunk(rows, static_cast<uint64_t>(rows)));
    }
    source.layers = {0};
    source.dim = kDim;
    source.n_chunks = 3;
    for (const FeatureChunk& each : chunks) source.n_rows += each.rows;
    source.load = [this](int i) { return chunks[static_cast<size_t>(i)]; };
    split.first_chunk = 1;
    split.first_row = 3;  // within a reply
    split.training = 43;
    split.validation = 52;
    LearningHead head;
    head.kind = HeadKind::kChained;
    head.dim = kDim;
    head.map.resize(size_t{kDim} * 2 * kDim);
    for (int i = 0; i < kDim; ++i) head.map.value[static_cast<size_t>(i) * 2 * kDim + i] = 1;
    heads.push_back(std::move(head));
  }

  HeadReport look(Look& look) {
    const Validation all = validate(gemm, step, {heads, x_index, {}}, source, split, shortlist, 4,
                                    look, [](double) { return true; });
    REQUIRE(all.reports.size() == 1);
    CHECK(all.margins.empty() == look.only_right);
    return all.reports[0];
  }

  std::vector<FeatureChunk> chunks;
  FeatureSource source;
  RowSplit split;
  std::vector<LearningHead> heads;
  std::vector<int> x_index = {0};
  std::vector<int32_t> shortlist = {5, 3, 40, 12, 33, 7, 20, 41, 0, 9, 11, 30, 31, 2, 45, 17};
  std::vector<float> lm_head = numbers(size_t{kVocab} * kDim, 9);
  ThreadPool pool{1};
  Gemm gemm{pool, Gemm::Use::kOwn};
  TrainingStep step{gemm, lm_head, kDim, shortlist};
};

}  // namespace

TEST_CASE("heads are compared by the first rows, as all of them would say of these") {
  Rig rig;
  Look all;
  const HeadReport whole = rig.look(all);
  CHECK(whole.rows > 0);
  CHECK(whole.agreement > 0);
  double right = 0;
  int64_t seen = 0;
  for (int64_t rows = 1; rows <= rig.split.validation + 3; ++rows) {
    Look compared{true, rows};
    const HeadReport report = rig.look(compared);
    // Chains begin with rows that follow another one.
    CHECK(report.rows - seen <= 1);
    const double now = report.agreement * static_cast<double>(report.rows);
    CHECK(now - right <= 1.0001);
    CHECK(now - right >= -0.0001);
    right = now;
    seen = report.rows;
    const HeadReport again = rig.look(compared);  // by what the first look has found out
    CHECK(again.rows == report.rows);
    CHECK(again.depth_agreement == report.depth_agreement);
  }
  CHECK(seen == whole.rows);
  const HeadReport again = rig.look(all);
  CHECK(again.overlap == whole.overlap);
  CHECK(again.kl_end == whole.kl_end);
  CHECK(again.depth_agreement == whole.depth_agreement);
  CHECK(right / static_cast<double>(seen) == doctest::Approx(whole.agreement));
}

}  // namespace validation_test
