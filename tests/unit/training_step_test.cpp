// Losses and gradients of heads against formulas written out in double and differences of them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "farther.h"
#include "gradient_check.h"
#include "train/adamw.h"
#include "train/softmax_loss.h"
#include "train/training_step.h"

namespace training_step_test {

using namespace specbound;

namespace {

constexpr int kDim = 8, kVocab = 24, kRows = 6;

class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed) {}
  std::vector<float> vector(size_t n, float size) {
    std::vector<float> values(n);
    for (float& v : values) {
      state_ = state_ * 6364136223846793005u + 1442695040888963407u;
      v = size * (static_cast<float>(state_ >> 40) * 0x1p-23f - 1);
    }
    return values;
  }

 private:
  uint64_t state_;
};

using Doubles = std::vector<double>;

Doubles product(const std::vector<float>& w, const Doubles& u) {
  Doubles y(w.size() / u.size());
  for (size_t o = 0; o < y.size(); ++o) {
    for (size_t i = 0; i < u.size(); ++i) y[o] += w[o * u.size() + i] * u[i];
  }
  return y;
}

Doubles log_softmax(Doubles z) {
  double sum = 0;
  for (const double v : z) sum += std::exp(v);
  for (double& v : z) v -= std::log(sum);
  return z;
}

Doubles capped(Doubles z, double cap) {
  if (cap > 0) {
    for (double& v : z) v = cap * std::tanh(v / cap);
  }
  return z;
}

// KL(softmax(rows goal) || softmax(rows y)), of capped logits.
double divergence(const std::vector<float>& rows, const Doubles& y, const Doubles& goal,
                  double cap) {
  const Doubles p = log_softmax(capped(product(rows, goal), cap));
  const Doubles q = log_softmax(capped(product(rows, y), cap));
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) sum += std::exp(p[i]) * (p[i] - q[i]);
  return sum;
}

Doubles row(const std::vector<float>& values, int r) {
  return Doubles(values.begin() + r * kDim, values.begin() + (r + 1) * kDim);
}

// A head's y by the formula of model/exit_heads.h.
Doubles head_y(const LearningHead& head, const Doubles& x, const Doubles& state) {
  Doubles u = x;
  if (head.chained()) u.insert(u.end(), state.begin(), state.end());
  Doubles y = product(head.map.value, u);
  if (head.n_inner == 0) return y;
  Doubles hidden = product(head.inner.value, u);
  for (double& h : hidden) h = h / (1 + std::exp(-h));
  const Doubles more = product(head.outer.value, hidden);
  for (int i = 0; i < kDim; ++i) y[i] += more[i];
  return y;
}

struct Rig {
  std::vector<float> lm_head;
  std::vector<int32_t> shortlist = {7, 0, 23, 4, 9, 1, 16, 3, 2, 12};
  std::vector<float> shortlist_rows;
  TrainingBatch batch;
  ThreadPool pool{2};
  Gemm gemm{pool};
  float softcap;

  explicit Rig(uint64_t seed, float softcap = 0) : softcap(softcap) {
    Numbers numbers(seed);
    lm_head = numbers.vector(size_t{kVocab} * kDim, 0.8f);
    for (const int32_t token : shortlist) {
      shortlist_rows.insert(shortlist_rows.end(), lm_head.begin() + token * kDim,
                            lm_head.begin() + (token + 1) * kDim);
    }
    batch.n = kRows;
    batch.chained = {5, 4, 2};
    batch.x.resize(1);
    for (const int n : {kRows, 4, 2}) {
      batch.x[0].push_back(numbers.vector(static_cast<size_t>(n) * kDim, 1.5f));
      batch.y.push_back(numbers.vector(static_cast<size_t>(n) * kDim, 1.5f));
    }
    batch.state = numbers.vector(size_t{5} * kDim, 1.5f);
  }

  LearningHead head(HeadKind kind, int n_inner, uint64_t seed) const {
    Numbers numbers(seed);
    LearningHead head;
    head.kind = kind;
    head.dim = kDim;
    head.n_inner = n_inner;
    const size_t n_in = static_cast<size_t>(head.n_in());
    head.map.resize(kDim * n_in);
    head.inner.resize(static_cast<size_t>(n_inner) * n_in);
    head.outer.resize(static_cast<size_t>(n_inner) * kDim);
    for (Parameter* p : head.parameters()) p->value = numbers.vector(p->value.size(), 0.5f);
    return head;
  }

  // The loss by its definition.
  double loss(const LearningHead& head) const {
    const auto& rows = head.kind == HeadKind::kFull ? lm_head : shortlist_rows;
    double sum = 0;
    if (!head.chained()) {
      for (int r = 0; r < batch.n; ++r) {
        sum +=
            divergence(rows, head_y(head, row(batch.x[0][0], r), {}), row(batch.y[0], r), softcap);
      }
      return sum / batch.n;
    }
    int count = 0;
    for (int r = 0; r < batch.chained[0]; ++r) {
      Doubles state = row(batch.state, r);
      for (size_t k = 0; k < batch.chained.size() && r < batch.chained[k]; ++k) {
        state = head_y(head, row(batch.x[0][k], r), state);
        sum += divergence(rows, state, row(batch.y[k], r), softcap);
        ++count;
      }
    }
    return sum / count;
  }
};

void check_gradients(const Rig& rig, LearningHead head) {
  TrainingStep step(rig.gemm, rig.lm_head, kDim, rig.shortlist, 1, rig.softcap);
  std::vector<LearningHead> heads = {head};
  const int x_index[] = {0};
  double loss[1];
  step.run(heads, x_index, rig.batch, loss);
  CHECK(loss[0] == doctest::Approx(rig.loss(head)).epsilon(1e-5));
  test::check_gradients(head.parameters(), heads[0].parameters(), [&] { return rig.loss(head); });
}

}  // namespace

TEST_CASE("gradients of all kinds of heads are those of finite differences") {
  for (const float softcap : {0.0f, 1.5f}) {
    CAPTURE(softcap);
    const Rig rig(11, softcap);
    check_gradients(rig, rig.head(HeadKind::kFolded, 0, 1));
    check_gradients(rig, rig.head(HeadKind::kFull, 0, 2));
    check_gradients(rig, rig.head(HeadKind::kChained, 0, 3));
    check_gradients(rig, rig.head(HeadKind::kChained, 5, 4));
  }
}

TEST_CASE("a folded head is a full one on the shortlist") {
  Rig rig(12);
  const LearningHead folded = rig.head(HeadKind::kFolded, 0, 5);
  LearningHead full = folded;
  full.kind = HeadKind::kFull;
  // A model whose whole vocabulary is that shortlist.
  std::vector<int32_t> none;
  const int x_index[] = {0};
  std::vector<LearningHead> some = {folded}, whole = {full};
  double losses[2];
  TrainingStep(rig.gemm, rig.lm_head, kDim, rig.shortlist)
      .run(some, x_index, rig.batch, {losses, 1});
  TrainingStep(rig.gemm, rig.shortlist_rows, kDim, none)
      .run(whole, x_index, rig.batch, {losses + 1, 1});
  CHECK(losses[0] == losses[1]);
  CHECK(some[0].map.gradient == whole[0].map.gradient);
}

TEST_CASE("sharpened targets are those of larger final logits") {
  // y twice as large doubles the final logits and leaves the head's.
  const Rig rig(14);
  const std::vector<LearningHead> head = {rig.head(HeadKind::kFolded, 0, 8)};
  std::vector<LearningHead> sharp = head, doubled = head;
  TrainingBatch batch = rig.batch;
  for (float& v : batch.y[0]) v *= 2;
  const int x_index[] = {0};
  double losses[2];
  TrainingStep(rig.gemm, rig.lm_head, kDim, rig.shortlist, 2)
      .run(sharp, x_index, rig.batch, {losses, 1});
  TrainingStep(rig.gemm, rig.lm_head, kDim, rig.shortlist)
      .run(doubled, x_index, batch, {losses + 1, 1});
  CHECK(losses[0] == doctest::Approx(losses[1]).epsilon(1e-6));
  double worst = 0;
  for (size_t i = 0; i < sharp[0].map.gradient.size(); ++i) {
    worst = test::farther(worst, std::fabs(sharp[0].map.gradient[i] - doubled[0].map.gradient[i]));
  }
  CHECK(worst < 1e-5);
}

TEST_CASE("heads learn side by side as they do alone") {
  const Rig rig(13);
  std::vector<LearningHead> both = {rig.head(HeadKind::kFolded, 0, 6),
                                    rig.head(HeadKind::kChained, 5, 7)};
  std::vector<LearningHead> alone = both;
  const int x_index[] = {0, 0};
  double losses[2], loss[1];
  TrainingStep(rig.gemm, rig.lm_head, kDim, rig.shortlist).run(both, x_index, rig.batch, losses);
  for (const size_t h : {0, 1}) {
    TrainingStep step(rig.gemm, rig.lm_head, kDim, rig.shortlist);
    step.run({&alone[h], 1}, {x_index, 1}, rig.batch, loss);
    CHECK(loss[0] == losses[h]);
    CHECK(alone[h].map.gradient == both[h].map.gradient);
  }
}

TEST_CASE("rows of logits: softmax, entropy, divergence, the top") {
  ThreadPool pool(1);
  for (const int width : {1, 3, 4, 9, 130}) {
    CAPTURE(width);
    Numbers numbers(static_cast<uint64_t>(width));
    const size_t n = static_cast<size_t>(width);
    const std::vector<float> goal = numbers.vector(n, 6), z = numbers.vector(n, 30);
    const Doubles p = log_softmax(Doubles(goal.begin(), goal.end()));
    const Doubles q = log_softmax(Doubles(z.begin(), z.end()));
    double entropy = 0, kl = 0;
    for (size_t i = 0; i < n; ++i) {
      entropy -= std::exp(p[i]) * p[i];
      kl += std::exp(p[i]) * (p[i] - q[i]);
    }
    std::vector<float> target = goal, gradient = z;
    float found_entropy, loss;
    softmax_rows(pool, 1, width, target.data(), &found_entropy);
    CHECK(found_entropy == doctest::Approx(entropy).epsilon(1e-5));
    kl_rows(pool, 1, width, 0, gradient.data(), target.data(), &found_entropy, 0.5f, &loss);
    CHECK(std::fabs(loss - kl) < 1e-5 * (1 + kl));
    double worst = 0;
    for (size_t i = 0; i < n; ++i) {
      worst = test::farther(worst, std::fabs(target[i] - std::exp(p[i])));
      worst =
          test::farther(worst, std::fabs(gradient[i] - 0.5 * (std::exp(q[i]) - std::exp(p[i]))));
    }
    CHECK(worst < 1e-6);

    const TopOfRow top = top_of_row(z.data(), width, 1.5f);
    const auto most = std::max_element(z.begin(), z.end());
    CHECK(top.index == most - z.begin());
    CHECK(top.first == *most);
    CHECK(top.probability == doctest::Approx(std::exp(q[top.index])).epsilon(1e-5));
    Doubles warmer(z.begin(), z.end());
    for (double& v : warmer) v /= 1.5;
    CHECK(top.annealed == doctest::Approx(std::exp(log_softmax(warmer)[top.index])).epsilon(1e-5));
    const ConfidenceCurve curve = confidence_curve(z.data(), width, top.first);
    for (int t = 0; t < kTemperatures; ++t) {
      Doubles scaled(z.begin(), z.end());
      for (double& v : scaled) v /= learnable_temperature(t);
      CHECK(curve[static_cast<size_t>(t)] ==
            doctest::Approx(std::exp(log_softmax(scaled)[top.index])).epsilon(1e-5));
    }
    if (width > 1) {
      std::vector<float> sorted = z;
      std::sort(sorted.rbegin(), sorted.rend());
      CHECK(top.second == sorted[1]);
    }
  }
}

TEST_CASE("logits are capped, then multiplied; without a cap and a factor they stay as they are") {
  ThreadPool pool(1);
  const std::vector<float> z = {-1e30f, -40, -3, -1e-4f, 0, 0.5f, 2, 29, 1e5f};
  const int n = static_cast<int>(z.size());
  std::vector<float> same = z, larger = z, low = z;
  cap_rows(pool, 1, n, 0, 1, same.data());
  CHECK(same == z);
  cap_rows(pool, 1, n, 0, 1.5f, larger.data());
  cap_rows(pool, 1, n, 3, 2, low.data());
  for (int i = 0; i < n; ++i) {
    CAPTURE(z[i]);
    CHECK(larger[i] == 1.5f * z[i]);
    CHECK(low[i] == doctest::Approx(6 * std::tanh(z[i] / 3.0)).epsilon(1e-5));
  }
}

TEST_CASE("logits far apart neither overflow nor become NaN") {
  ThreadPool pool(1);
  std::vector<float> goal = {3e4f, -3e4f, 0, 1, 2}, z = {-3e4f, 3e4f, 0, 1, 2};
  float entropy, loss;
  softmax_rows(pool, 1, 5, goal.data(), &entropy);
  CHECK(goal[0] == 1);
  CHECK(std::fabs(entropy) < 1e-6f);
  kl_rows(pool, 1, 5, 0, z.data(), goal.data(), &entropy, 1, &loss);
  CHECK(loss == doctest::Approx(6e4));
  CHECK(z[0] == doctest::Approx(-1));
  CHECK(z[1] == doctest::Approx(1));
}

TEST_CASE("AdamW makes the steps of its definition") {
  ThreadPool pool(2);
  AdamW adam;
  adam.max_norm = 1;
  Parameter p;
  p.resize(3);
  p.value = {1, -2, 0.5f};
  const std::vector<float> gradients[] = {{0.3f, -0.4f, 0}, {3, 4, 12}};
  Doubles value = {1, -2, 0.5}, mean(3), square(3);
  for (int step = 1; step <= 2; ++step) {
    p.gradient = gradients[step - 1];
    Parameter* const all[] = {&p};
    adam.step(pool, all, step, 0.1f);
    const double clip = step == 1 ? 1 : 1.0 / 13;  // the norm of (3, 4, 12) is 13
    for (int i = 0; i < 3; ++i) {
      const double g = gradients[step - 1][i] * clip;
      mean[i] = 0.9 * mean[i] + 0.1 * g;
      square[i] = 0.98 * square[i] + 0.02 * g * g;
      const double m = mean[i] / (1 - std::pow(0.9, step));
      const double v = square[i] / (1 - std::pow(0.98, step));
      value[i] -= 0.1 * (0.01 * value[i] + m / (std::sqrt(v) + 1e-8));
      CHECK(p.value[i] == doctest::Approx(value[i]).epsilon(1e-4));
      CHECK(p.gradient[i] == 0);
    }
  }
  CHECK(learning_rate(1, 0) < 0.02f);
  CHECK(learning_rate(1, 0.02) == doctest::Approx(1).epsilon(0.01));
  CHECK(learning_rate(1, 1) == doctest::Approx(0.03));
  CHECK(rate_for(64) == 2e-3f);
  CHECK(rate_for(576) == 2e-3f);
  CHECK(rate_for(1152) == 1e-3f);
}

}  // namespace training_step_test
