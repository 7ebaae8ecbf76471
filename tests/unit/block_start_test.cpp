// Where the attention of an EAGLE-3 layer or an adapter begins: what least squares gives, of the
// rank that V has, at positions of their own.
#include "train/block_start.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "layer_reference.h"
#include "train/layer_learning.h"

namespace block_start_test {

using namespace specbound;
using namespace specbound::test;

namespace {

// a (dim) of positions, each |a|^2 = dim, and the sum of a a^T. A part `shared` of what they are is
// the same everywhere; of the rest, numbers behind the first `spread`, if that is set, are a tenth
// as large as others.
struct Inputs {
  std::vector<Doubles> at;
  std::vector<double> moments;

  Inputs(int n, int dim, double shared = 0, int spread = 0) : moments(cells(dim, dim)) {
    const std::vector<float> same = layer_values(static_cast<size_t>(dim), 1, 90);
    for (int i = 0; i < n; ++i) {
      const std::vector<float> own = layer_values(static_cast<size_t>(dim), 1, 100 + i);
      Doubles a(static_cast<size_t>(dim));
      double square = 0;
      for (size_t d = 0; d < a.size(); ++d) {
        const double loud = spread == 0 || d < static_cast<size_t>(spread) ? 1 : 0.1;
        a[d] = std::sqrt(shared) * same[d] + std::sqrt(1 - shared) * loud * own[d];
        square += a[d] * a[d];
      }
      for (double& v : a) v *= std::sqrt(dim / square);
      for (size_t r = 0; r < a.size(); ++r) {
        for (size_t c = 0; c < a.size(); ++c) moments[r * a.size() + c] += a[r] * a[c];
      }
      at.push_back(std::move(a));
    }
  }
};

// (dim, before + dim) [W M], and M (dim, dim) of this rank; what it says is about as large as what
// it takes.
struct StartMap {
  std::vector<float> all, last;
  StartMap(int dim, int rank, int before = 0) : all(layer_values(cells(dim, before + dim), 1, 1)) {
    const float size = 3 / std::sqrt(static_cast<float>(dim) * static_cast<float>(rank));
    const std::vector<float> a = layer_values(cells(dim, rank), size, 2);
    const std::vector<float> b = layer_values(cells(rank, dim), 1, 3);
    for (int r = 0; r < dim; ++r) {
      for (int c = 0; c < dim; ++c) {
        float sum = 0;
        for (int i = 0; i < rank; ++i) sum += a[cells(r, rank) + i] * b[cells(i, dim) + c];
        last.push_back(all[cells(r, before + dim) + before + c] = sum);
      }
    }
  }
};

BlockForm form_of(HeadKind kind, int dim, int n_heads, int n_kv_heads, int head_dim) {
  const Doubles sizes(kind == HeadKind::kEagle3 ? 3 : 1, 1.0);
  return {kind, layer_config(dim, n_heads, n_kv_heads, head_dim), nullptr, 9, 16, sizes};
}

LearningHead started(const BlockForm& form, const StartMap& map,
                     const std::vector<double>& moments) {
  ThreadPool pool(1);
  LearningHead head = layer_head(form, 1);
  uint64_t seed = 10;
  for (Parameter* p : {&head.block.q, &head.block.k, &head.block.v}) {
    p->value = layer_values(p->value.size(), 0.1f, ++seed);
  }
  double done = 0;
  const auto rises = [&](double now) { return std::exchange(done, now) <= now; };
  CHECK(start_attention(Gemm(pool), form, map.all, moments, 7, head, rises));
  return head;
}

// What attention takes at a: of eagle3 there is u too, here something.
Doubles taken(const BlockForm& form, Doubles a) {
  const std::vector<float> u =
      layer_values(static_cast<size_t>(form.attn_inputs() - form.dim), std::sqrt(3.0f), 80);
  a.insert(a.end(), u.begin(), u.end());
  return a;
}

// O of V's values at one position, where every head looks at it alone.
Doubles said(const LearningHead& head, const BlockForm& form, const Doubles& a) {
  const Doubles v = times(head.block.v.value, taken(form, a));
  Doubles attended;
  for (int h = 0; h < form.n_heads; ++h) {
    const auto mine = v.begin() + h / (form.n_heads / form.n_kv_heads) * form.head_dim;
    attended.insert(attended.end(), mine, mine + form.head_dim);
  }
  return times(head.block.o.value, attended);
}

// How far what the block says is from what `wanted` says, as a part of the latter.
template <typename Wanted>
double distance_of_start(const LearningHead& head, const BlockForm& form, const Inputs& inputs,
                         const Wanted& wanted) {
  double off = 0, square = 0;
  for (const Doubles& a : inputs.at) {
    const Doubles found = said(head, form, a), expected = wanted(a);
    for (size_t i = 0; i < found.size(); ++i) {
      off += (found[i] - expected[i]) * (found[i] - expected[i]);
      square += expected[i] * expected[i];
    }
  }
  return std::sqrt(off / square);
}

double cosine(const Doubles& a, const Doubles& b) {
  double along = 0, of_a = 0, of_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    along += a[i] * b[i];
    of_a += a[i] * a[i];
    of_b += b[i] * b[i];
  }
  return along / std::sqrt(of_a * of_b);
}

// What the first head of each group scores, on average: at its own position, and at the next.
void check_looks(const LearningHead& head, const BlockForm& form, const Inputs& inputs) {
  const int group = form.n_heads / form.n_kv_heads;
  const size_t n = inputs.at.size();
  for (int kv = 0; kv < form.n_kv_heads; ++kv) {
    CAPTURE(kv);
    const size_t query = static_cast<size_t>(kv * group * form.head_dim);
    const size_t key = static_cast<size_t>(kv * form.head_dim);
    double own = 0, others = 0;
    for (size_t t = 0; t < n; ++t) {
      const Doubles q = times(head.block.q.value, taken(form, inputs.at[t]));
      for (const size_t at : {t, (t + 1) % n}) {
        const Doubles k = times(head.block.k.value, taken(form, inputs.at[at]));
        double score = 0;
        for (int i = 0; i < form.head_dim; ++i) score += q[query + i] * k[key + i];
        (at == t ? own : others) += form.score_scale * score / static_cast<double>(n);
      }
    }
    CHECK(own > 7);
    CHECK(std::fabs(others) < 2);
  }
  // What other heads see is not said yet.
  for (int r = 0; r < form.dim; ++r) {
    for (int c = 0; c < form.q_dim(); ++c) {
      if (c / form.head_dim % group == 0) continue;
      REQUIRE(head.block.o.value[cells(r, form.q_dim()) + c] == 0);
    }
  }
}

}  // namespace

TEST_CASE("an eagle3 layer begins with what least squares gives of states and of the token") {
  constexpr int kDim = 48, kHeads = 6, kKvHeads = 3, kSize = 8;
  const BlockForm form = form_of(HeadKind::kEagle3, kDim, kHeads, kKvHeads, kSize);
  const StartMap map(kDim, kKvHeads * kSize, 3 * kDim);  // the rank that V can have
  const Inputs inputs(200, kDim);
  const LearningHead head = started(form, map, inputs.moments);
  for (int r = 0; r < kDim; ++r) {
    for (int c = 0; c < 3 * kDim; ++c) {
      REQUIRE(head.map.value[cells(r, 3 * kDim) + c] == map.all[cells(r, 4 * kDim) + c]);
    }
  }
  const auto wanted = [&](const Doubles& a) { return times(map.last, a); };
  CHECK(distance_of_start(head, form, inputs, wanted) < 0.05);  // the ridge's
  check_looks(head, form, inputs);
}

TEST_CASE("attention begins where texts have fewer tokens than V has rows") {
  constexpr int kDim = 256;
  const BlockForm form = form_of(HeadKind::kEagle3, kDim, 4, 4, kDim / 4);
  for (const int rank : {1, 3, 40}) {
    CAPTURE(rank);
    const StartMap map(kDim, rank, 3 * kDim);
    const Inputs inputs(rank, kDim);
    const LearningHead head = started(form, map, inputs.moments);
    const auto wanted = [&](const Doubles& a) { return times(map.last, a); };
    CHECK(distance_of_start(head, form, inputs, wanted) < 0.02);
  }
}

TEST_CASE("attention begins where V has more rows than the model is wide, and where no row is") {
  constexpr int kDim = 16;
  const BlockForm form = form_of(HeadKind::kKangaroo, kDim, 4, 4, 8);
  const StartMap map(kDim, kDim);
  const Inputs inputs(100, kDim);
  const LearningHead head = started(form, map, inputs.moments);
  for (const Doubles& a : inputs.at) {
    Doubles state = said(head, form, a);
    for (size_t i = 0; i < state.size(); ++i) state[i] += a[i];
    CHECK(cosine(state, times(map.last, a)) > 0.99);
  }
  const LearningHead nothing = started(form, map, std::vector<double>(cells(kDim, kDim)));
  CHECK(nothing.block.o.value == std::vector<float>(cells(kDim, 32)));
}

TEST_CASE("an adapter begins with what least squares gives of its layer, in place of the state") {
  constexpr int kDim = 48, kHeads = 6, kKvHeads = 3, kSize = 8;
  const BlockForm form = form_of(HeadKind::kKangaroo, kDim, kHeads, kKvHeads, kSize);
  const StartMap map(kDim, 10);
  // States of one text are as near to each other as half of what they are.
  const Inputs inputs(200, kDim, 0.5);
  const LearningHead head = started(form, map, inputs.moments);
  double mean = 0, state_alone = 0;
  for (const Doubles& a : inputs.at) {
    Doubles state = said(head, form, a);
    for (size_t i = 0; i < state.size(); ++i) state[i] += a[i];
    mean += cosine(state, times(map.last, a)) / static_cast<double>(inputs.at.size());
    state_alone += cosine(a, times(map.last, a)) / static_cast<double>(inputs.at.size());
  }
  CHECK(mean > 0.95);
  CHECK(state_alone < 0.3);
  check_looks(head, form, inputs);
}

TEST_CASE(
    "of a map of higher rank than V's attention begins with what inputs and the norm let say") {
  constexpr int kDim = 48;
  BlockForm form = form_of(HeadKind::kEagle3, kDim, 3, 3, 8);
  const StartMap map(kDim, kDim, 3 * kDim);
  const auto wanted = [&](const Doubles& a) { return times(map.last, a); };
  {
    const Inputs inputs(400, kDim, 0, 20);  // fewer loud directions than the rank of 24
    CHECK(distance_of_start(started(form, map, inputs.moments), form, inputs, wanted) < 0.1);
  }
  const Inputs inputs(400, kDim);
  for (int i = 20; i < kDim; ++i) form.norm[i] = i == 47 ? 0 : 0.01f;
  const LearningHead head = started(form, map, inputs.moments);
  double off = 0, square = 0;
  for (const Doubles& a : inputs.at) {
    const Doubles found = said(head, form, a), expected = wanted(a);
    CHECK(found[47] == 0);
    for (size_t i = 0; i < 20; ++i) {
      off += (found[i] - expected[i]) * (found[i] - expected[i]);
      square += expected[i] * expected[i];
    }
  }
  CHECK(std::sqrt(off / square) < 0.1);
}

TEST_CASE("a start stops where it is told to") {
  constexpr int kDim = 48;
  const BlockForm form = form_of(HeadKind::kEagle3, kDim, 3, 3, 8);
  const StartMap map(kDim, kDim, 3 * kDim);
  const Inputs inputs(60, kDim);
  ThreadPool pool(1);
  int all = 0;
  LearningHead head = layer_head(form, 1);
  const auto start = [&](int most) {
    int told = 0;
    const bool done = start_attention(Gemm(pool), form, map.all, inputs.moments, 7, head,
                                      [&](double) { return told++ < most; });
    all = std::max(all, told);
    return done;
  };
  CHECK(start(1000));
  REQUIRE(all > 2);
  CHECK(start(all));
  for (int most = 0; most < all; ++most) CHECK(!start(most));
}

}  // namespace block_start_test
