// Draft layers while they learn: loss and gradients against a reference in double, differences of
// it and PyTorch's autograd.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "farther.h"
#include "gradient_check.h"
#include "layer_reference.h"
#include "train/layer_learning.h"

namespace layer_gradients_test {

using namespace specbound;
using namespace specbound::test;

namespace {

// Two passages, rows that are not learnt from in both, and chains that end at one's end.
struct Rig {
  static constexpr int kDim = 16, kInner = 12, kWords = 20, kRotated = 4;
  static constexpr float kSharpen = 1.5f;
  ModelConfig config = layer_config(kDim, 4, 2, 6);
  std::vector<float> words = layer_values(size_t{kWords} * kDim, 0.8f, 4);
  std::vector<int32_t> shortlist;  // all words
  std::vector<uint8_t> learn = {0, 0, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 1, 1, 1};
  ThreadPool pool{2};

  Rig() {
    config.rope_dim = kRotated;
    for (int i = 0; i < kWords; ++i) shortlist.push_back(i);
  }
  static Doubles sizes(HeadKind kind) {
    if (kind == HeadKind::kEagle3) return {2.5, 1.5, 4};
    return {2.5};
  }
  static int steps(HeadKind kind) { return kind == HeadKind::kKangaroo ? 1 : 3; }
  // Those that published layers turn by themselves are whole heads.
  int rotated(HeadKind kind) const {
    return form(kind).rope_theta > 0 ? config.head_dim : kRotated;
  }
  BlockForm form(HeadKind kind) const { return {kind, config, nullptr, 9, kInner, sizes(kind)}; }
  PassageBatch batch(HeadKind kind) const {
    PassageBatch batch;
    batch.n = 15;
    batch.first = {0, 9, 15};
    batch.x = layer_values(cells(15, kDim), 1.5f, 1);
    batch.state = layer_values(cells(15, form(kind).state_dim()), 2, 2);
    batch.y = layer_values(cells(15, kDim), 2, 3);
    set_steps(learn, steps(kind), batch);
    return batch;
  }
  // Those that a layer of this kind is to guess.
  std::vector<float> words_of(HeadKind kind) const {
    if (kind == HeadKind::kEagle || kind == HeadKind::kKangaroo) return words;
    std::vector<float> some;
    for (const int32_t id : shortlist) {
      some.insert(some.end(), &words[cells(id, kDim)], &words[cells(id, kDim)] + kDim);
    }
    return some;
  }
  LearningHead head(HeadKind kind) const {
    LearningHead head = layer_head(form(kind), 3);
    uint64_t seed = 100;
    for (Parameter* p : head.parameters()) p->value = layer_values(p->value.size(), 0.5f, seed++);
    return head;
  }
  double learn_once(const Gemm& gemm, LearningHead& head, size_t most_logits = 1 << 24) const {
    TrainingStep step(gemm, words, kDim, shortlist, kSharpen);
    step.set_most_logits(most_logits);
    std::vector<BlockStep> steps;
    return step.run(head, form(head.kind), batch(head.kind), steps);
  }
};

}  // namespace

TEST_CASE("gradients of draft layers, through chains of three steps, are those of differences") {
  Rig rig;
  rig.shortlist = {17, 3, 11, 4, 0, 8, 19, 12, 6};
  const Gemm gemm(rig.pool);
  const size_t parameters[] = {9, 10, 12, 6};
  for (size_t i = 0; i < std::size(kLearningLayers); ++i) {
    const HeadKind kind = kLearningLayers[i];
    CAPTURE(head_kind_name(kind));
    LearningHead head = rig.head(kind), learning = head;
    const LayerReference reference{head, rig.config, rig.rotated(kind), Rig::sizes(kind)};
    const PassageBatch batch = rig.batch(kind);
    const std::vector<float> words = rig.words_of(kind);
    const auto loss = [&] {
      return reference.loss(batch, rig.learn, Rig::steps(kind), words, Rig::kSharpen);
    };
    CHECK(rig.learn_once(gemm, learning) == doctest::Approx(loss()).epsilon(1e-5));
    const std::vector<Parameter*> all = head.parameters(), learnt = learning.parameters();
    REQUIRE(all.size() == parameters[i]);
    check_gradients(all, learnt, loss);
  }
}

TEST_CASE("gradients of draft layers do not depend on how many logits are in memory") {
  Rig rig;
  const Gemm gemm(rig.pool, Gemm::Use::kOwn);
  for (const HeadKind kind : kLearningLayers) {
    CAPTURE(head_kind_name(kind));
    LearningHead whole = rig.head(kind);
    const double loss = rig.learn_once(gemm, whole);
    // Rows one by one, and 3 of the 11 at a time.
    for (const size_t most : {1, 3 * Rig::kWords + 1}) {
      LearningHead parts = rig.head(kind);
      CHECK(rig.learn_once(gemm, parts, most) == doctest::Approx(loss).epsilon(1e-12));
      const std::vector<Parameter*> a = whole.parameters(), b = parts.parameters();
      for (size_t p = 0; p < a.size(); ++p) {
        CHECK(std::memcmp(a[p]->gradient.data(), b[p]->gradient.data(),
                          a[p]->gradient.size() * sizeof(float)) == 0);
      }
    }
  }
}

TEST_CASE("losses and gradients of draft layers are PyTorch's") {
  std::ifstream file(std::string(SPECBOUND_GOLDEN) + "/layer_learning.f32", std::ios::binary);
  Rig rig;
  const Gemm gemm(rig.pool);
  for (const HeadKind kind : kLearningLayers) {
    CAPTURE(head_kind_name(kind));
    LearningHead head = rig.head(kind);
    float expected = 0;
    file.read(reinterpret_cast<char*>(&expected), sizeof expected);
    CHECK(rig.learn_once(gemm, head) == doctest::Approx(expected).epsilon(1e-5));
    for (const Parameter* p : head.parameters()) {
      std::vector<float> gradient(p->value.size());
      file.read(reinterpret_cast<char*>(gradient.data()),
                static_cast<std::streamsize>(gradient.size() * sizeof(float)));
      REQUIRE(file.good());
      double largest = 0, worst = 0;
      for (size_t i = 0; i < gradient.size(); ++i) {
        largest = std::max<double>(largest, std::fabs(gradient[i]));
        worst = farther(worst, std::fabs(gradient[i] - p->gradient[i]));
      }
      CHECK(largest > 1e-4);
      CHECK(worst < 1e-4 * largest);
    }
  }
  CHECK(file.peek() == EOF);
}

TEST_CASE("chains of a batch end with their passage and where nothing is learnt") {
  const PassageBatch batch = Rig().batch(HeadKind::kLayer);
  REQUIRE(batch.steps.size() == 3);
  CHECK(batch.learnt == std::vector<int>{2, 3, 4, 6, 7, 8, 9, 10, 12, 13, 14});
  CHECK(batch.steps[1].rows == std::vector<int>{3, 4, 7, 8, 10, 13, 14});
  CHECK(batch.steps[2].rows == std::vector<int>{4, 8, 14});
  CHECK(batch.steps[1].begin == std::vector<int>{0, 4, 7});
}

}  // namespace layer_gradients_test
