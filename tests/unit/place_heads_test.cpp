// Medusa and hydra heads while they learn: gradients against differences, rules that can be learnt,
// and what the file says of them.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "engine_rig.h"
#include "error.h"
#include "gradient_check.h"
#include "temp_dir.h"
#include "tiny_heads.h"
#include "train/head_learner.h"
#include "train/head_trainer.h"
#include "train/place_heads.h"
#include "train/report_html.h"

namespace place_heads_test {

using namespace specbound;
using namespace specbound::test;

namespace {

using Doubles = std::vector<double>;

std::vector<float> random_values(size_t n, float size, uint64_t seed) {
  TinyRandom random(seed);
  std::vector<float> values(n);
  for (float& v : values) v = size * random.normal();
  return values;
}

// w (n_out, u) u
Doubles times(std::span<const float> w, const Doubles& u) {
  Doubles y(w.size() / u.size());
  for (size_t o = 0; o < y.size(); ++o) {
    for (size_t i = 0; i < u.size(); ++i) y[o] += w[o * u.size() + i] * u[i];
  }
  return y;
}

Doubles log_shares(Doubles z, double cap, double factor) {
  double sum = 0;
  for (double& v : z) v = factor * (cap > 0 ? cap * std::tanh(v / cap) : v);
  for (const double v : z) sum += std::exp(v);
  for (double& v : z) v -= std::log(sum);
  return z;
}

// A batch of a model of 24 tokens, and heads of three places.
struct Batch {
  static constexpr int kDim = 8, kVocab = 24;
  static constexpr float kSharpen = 1.5f, kSoftcap = 2;
  std::vector<float> lm_head = random_values(size_t{kVocab} * kDim, 0.5f, 1);
  std::vector<float> embedding = random_values(size_t{kVocab} * kDim, 0.1f, 2);
  TrainingBatch batch;
  TokenRows rows{
      Matrix{DType::kF32, kVocab, kDim, reinterpret_cast<const std::byte*>(embedding.data())}, 0.8};
  ThreadPool pool{2};
  Gemm gemm{pool};

  Batch() {
    batch.n = 7;
    batch.chained = {6, 4, 4, 1};  // the last of no use to three places
    for (size_t k = 0; k < batch.chained.size(); ++k) {
      const int n = k == 0 ? batch.n : batch.chained[k];
      batch.y.push_back(random_values(cells(n, kDim), 1, 10 + k));
      std::vector<int32_t>& tokens = batch.tokens.emplace_back();
      for (int r = 0; r < batch.chained[k]; ++r) tokens.push_back((5 * r + 7 * int(k)) % kVocab);
    }
    batch.state = random_values(size_t{6} * kDim, 1, 20);
  }

  static LearningHead head(HeadKind kind) {
    LearningHead head = place_head(kind, kDim, 3);
    uint64_t seed = 30;
    for (Parameter* p : head.parameters()) p->value = random_values(p->value.size(), 0.4f, ++seed);
    return head;
  }

  Doubles said(const LearningHead& head, size_t k, size_t r) const {
    const LearningPlace& place = head.places[k - 1];
    const bool hydra = head.kind == HeadKind::kHydra;
    Doubles u(batch.state.begin() + r * kDim, batch.state.begin() + (r + 1) * kDim);
    Doubles y = u;
    for (double& s : u) s *= static_cast<double>(rows.state_factor());
    for (size_t j = 0; hydra && j < k; ++j) {
      const float* e = embedding.data() + batch.tokens[j][r] * kDim;
      for (int i = 0; i < kDim; ++i) u.push_back(static_cast<double>(rows.token_factor()) * e[i]);
    }
    if (hydra) y = times(place.residual.value, u);
    const Doubles hidden = times(place.map.value, u);
    for (size_t i = 0; i < size_t{kDim}; ++i) {
      const double h = hidden[i] + place.bias.value[i];
      y[i] += h / (1 + std::exp(-h)) + (hydra ? place.residual_bias.value[i] : 0);
    }
    return y;
  }

  // The loss by its definition.
  double loss(const LearningHead& head) const {
    double sum = 0;
    int count = 0;
    for (size_t k = 1; k <= head.places.size(); ++k) {
      for (size_t r = 0; r < static_cast<size_t>(batch.chained[k - 1]); ++r, ++count) {
        const std::vector<float>& goal = batch.y[k - 1];
        const Doubles y(goal.begin() + r * kDim, goal.begin() + (r + 1) * kDim);
        const Doubles p = log_shares(times(lm_head, y), kSoftcap, kSharpen);
        const Doubles q = log_shares(times(lm_head, said(head, k, r)), 0, 1);
        for (size_t i = 0; i < p.size(); ++i) sum += std::exp(p[i]) * (p[i] - q[i]);
      }
    }
    return sum / count;
  }
};

// A text whose tokens follow from each other by a law, and a model that knows it: y is the row of
// lm_head of the token that it wants next, so that this is the likeliest.
struct Planted {
  static constexpr int kDim = 32, kVocab = 24, kLayers = 4;
  std::vector<float> lm_head = random_values(size_t{kVocab} * kDim, 1, 3);
  std::vector<float> embedding = random_values(size_t{kVocab} * kDim, 0.05f, 4);
  std::vector<FeatureChunk> chunks;
  HeadsBase base{"llama", kLayers, kDim, kVocab, "0123456789abcdef"};

  static int wanted(int token) { return (5 * token + 3) % kVocab; }
  // The text has what the model wants, or just any token: then nobody knows it who did not see it.
  explicit Planted(bool obeys) {
    TinyRandom random(7);
    int32_t token = 0;
    for (const int rows : {700, 500, 400}) {
      FeatureChunk chunk;
      chunk.rows = rows;
      chunk.dim = kDim;
      for (int r = 0; r < rows; ++r) {
        const bool begins = r % 31 == 0;
        if (begins) token = static_cast<int32_t>(random.next() % kVocab);
        const int next = wanted(token);
        for (int i = 0; i < kDim; ++i) {
          chunk.y.push_back(1.5f * lm_head[size_t(next) * kDim + i] + 0.05f * random.normal());
        }
        token = obeys ? next : static_cast<int32_t>(random.next() % kVocab);
        chunk.next.push_back(token);
        chunk.follows.push_back(!begins);
      }
      chunks.push_back(std::move(chunk));
    }
  }

  Matrix embedding_matrix() const {
    return {DType::kF32, kVocab, kDim, reinterpret_cast<const std::byte*>(embedding.data())};
  }
  FeatureSource source() const {
    FeatureSource source{{}, kDim, static_cast<int>(chunks.size()), 0, {}};
    for (const FeatureChunk& chunk : chunks) source.n_rows += chunk.rows;
    source.load = [this](int i) { return chunks[static_cast<size_t>(i)]; };
    return source;
  }
  TrainedHeads train(TrainOptions o,
                     const std::function<bool(const TrainProgress&)>& progress = nullptr) const {
    o.embedding = embedding_matrix();
    return train_heads(source(), lm_head, {}, base, o, progress);
  }
};

TrainOptions options() {
  TrainOptions o;
  o.kinds = {HeadKind::kMedusa, HeadKind::kHydra};
  o.epochs = 30;
  o.batch = 64;
  o.threads = 1;
  o.learning_rate = 1e-2f;
  return o;
}

std::vector<uint32_t> bits(const NewHeads& heads) {
  std::vector<uint32_t> all;
  for (const NewHead& head : heads.heads) {
    for (const NewMedusaHead& one : head.medusa) {
      for (const auto& [map, bias, residual, residual_bias] : one.blocks) {
        for (const HeadTensor* t : {&map, &bias, &residual, &residual_bias}) {
          for (const float v : t->values) all.push_back(std::bit_cast<uint32_t>(v));
        }
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("gradients of medusa and hydra heads are those of finite differences") {
  const Batch rig;
  for (const HeadKind kind : {HeadKind::kMedusa, HeadKind::kHydra}) {
    CAPTURE(head_kind_name(kind));
    LearningHead head = Batch::head(kind);
    TrainingStep step(rig.gemm, rig.lm_head, Batch::kDim, {}, Batch::kSharpen, Batch::kSoftcap);
    step.set_token_rows(&rig.rows);
    std::vector<LearningHead> learning = {head};
    const int x_index[] = {-1};
    double loss[1];
    step.run(learning, x_index, rig.batch, loss);
    CHECK(loss[0] == doctest::Approx(rig.loss(head)).epsilon(1e-5));
    const std::vector<Parameter*> learnt = learning[0].parameters(), all = head.parameters();
    REQUIRE(all.size() == (kind == HeadKind::kHydra ? 12 : 6));
    test::check_gradients(all, learnt, [&] { return rig.loss(head); });
  }
}

TEST_CASE("heads by place learn beside a chained one as they do alone") {
  Batch rig;
  rig.batch.x.resize(1);
  for (const int n : {7, 4, 4}) rig.batch.x[0].push_back(random_values(cells(n, 8), 1, 50 + n));
  LearningHead chained;
  chained.kind = HeadKind::kChained;
  chained.dim = Batch::kDim;
  chained.most_steps = 2;
  chained.map.resize(size_t{2} * Batch::kDim * Batch::kDim);
  chained.map.value = random_values(chained.map.value.size(), 0.4f, 60);
  const std::vector<LearningHead> heads = {Batch::head(HeadKind::kMedusa), chained,
                                           Batch::head(HeadKind::kHydra)};
  std::vector<LearningHead> all = heads;
  const std::vector<int32_t> shortlist = {3, 8, 1, 20};
  const int x_index[] = {-1, 0, -1};
  double losses[3], loss[1];
  TrainingStep together(rig.gemm, rig.lm_head, Batch::kDim, shortlist);
  together.set_token_rows(&rig.rows);
  together.run(all, x_index, rig.batch, losses);
  CHECK(rows_of(all[0], 7, rig.batch.chained) == 14);
  CHECK(rows_of(all[1], 7, rig.batch.chained) == 10);  // two steps
  for (size_t h = 0; h < heads.size(); ++h) {
    std::vector<LearningHead> one = {heads[h]};
    TrainingStep alone(rig.gemm, rig.lm_head, Batch::kDim, shortlist);
    alone.set_token_rows(&rig.rows);
    alone.run(one, {x_index + h, 1}, rig.batch, loss);
    CHECK(loss[0] == losses[h]);
    const std::vector<Parameter*> a = one[0].parameters(), b = all[h].parameters();
    for (size_t p = 0; p < a.size(); ++p) CHECK(a[p]->gradient == b[p]->gradient);
  }
}

TEST_CASE("a text that obeys its law is learnt by both kinds, at every place") {
  const TrainedHeads trained = Planted(true).train(options());
  REQUIRE(trained.reports.size() == 2);
  for (const HeadReport& report : trained.reports) {
    CAPTURE(head_kind_name(report.kind));
    CHECK(report.agreement > 0.95);
    REQUIRE(report.depth_agreement.size() == 4);
    for (const double agreement : report.depth_agreement) CHECK(agreement > 0.95);
    CHECK(report.kl_end < 0.1);
  }
  CHECK(trained.reports[0].kl_start > 1);  // at zero it says the root again
  CHECK(trained.loss_curve.back().second < trained.loss_curve.front().second);
  CHECK(trained.heads.defaults.kind == HeadKind::kMedusa);
  const std::string page = report_html(trained, {"m.gguf", "chat.jsonl", Planted::kLayers});
  CHECK(page.find("Agreement by step") != std::string::npos);
  CHECK(page.find("hydra, layer 0") != std::string::npos);
}

TEST_CASE("hydra's start does not depend on how many places are solved at a time") {
  const Planted planted(false);
  const FeatureSource source = planted.source();
  const RowSplit split = split_rows(source);
  const TokenRows rows(planted.embedding_matrix(), state_size(source));
  ThreadPool pool(1);
  const Gemm gemm(pool);
  const size_t two = (64 * 96 + 96 * 128) * sizeof(double);  // equations of the first two
  std::vector<std::vector<float>> found[3];
  const size_t bytes[] = {0, two, size_t{1} << 30};
  for (const size_t i : {0, 1, 2}) {
    LearningHead head = place_head(HeadKind::kHydra, Planted::kDim, 4);
    double before = 0;
    CHECK(solve_places(gemm, source, split, rows, {1e-3, bytes[i]}, head, [&](double done) {
      CHECK(done >= before);
      before = done;
      return done < 1;
    }));
    for (const LearningPlace& place : head.places) found[i].push_back(place.residual.value);
    CHECK(!solve_places(gemm, source, split, rows, {1e-3, bytes[i]}, head,
                        [](double) { return false; }));
  }
  CHECK(found[0] == found[2]);
  CHECK(found[1] == found[2]);
}

TEST_CASE("what follows a token that nobody foresees is hydra's alone to know") {
  const TrainedHeads trained = Planted(false).train(options());
  const HeadReport &medusa = trained.reports[0], &hydra = trained.reports[1];
  CHECK(medusa.agreement < 0.3);  // one of 24
  CHECK(hydra.agreement > 0.95);
  REQUIRE(hydra.depth_agreement.size() == 4);
  for (const double agreement : hydra.depth_agreement) CHECK(agreement > 0.9);
}

TEST_CASE("a training of heads by place that was stopped goes on to the same bytes") {
  const Planted planted(true);
  const TempDir folder;
  TrainOptions o = options();
  o.epochs = 2;
  const std::vector<uint32_t> whole = bits(planted.train(o).heads);
  REQUIRE(whole.size() > 1000);
  o.threads = 3;
  CHECK(bits(planted.train(o).heads) == whole);
  o.checkpoint = folder / "checkpoint";
  int told = 0;
  const TrainedHeads stopped = planted.train(o, [&](const TrainProgress& progress) {
    return std::strcmp(progress.stage, "training") != 0 || ++told <= 9;
  });
  REQUIRE(stopped.heads.heads.empty());
  CHECK(bits(planted.train(o).heads) == whole);
}

TEST_CASE("a file of trained heads holds no lm_head, and says what the model's own makes of them") {
  const TinyModel model(q8_0_spec(4));
  const HeadsBase base = heads_base(model.gguf, model.config);
  const Matrix lm_head = map_weights(model.gguf, model.config).lm_head;
  REQUIRE(lm_head.type == DType::kQ8_0);
  NewHeads shared;
  shared.base = base;
  for (const HeadKind kind : {HeadKind::kMedusa, HeadKind::kHydra}) {
    LearningHead head = place_head(kind, base.dim, 2);
    uint64_t seed = 5;
    for (Parameter* p : head.parameters()) p->value = random_values(p->value.size(), 0.1f, ++seed);
    const TokenRows rows(map_weights(model.gguf, model.config).token_embd, 3);
    CHECK(rows.token_factor() != rows.state_factor());
    shared.heads.push_back(finished_places(head, rows));
    // Factors are in the weights.
    const HeadTensor& map = shared.heads.back().medusa[0].blocks[0].map;
    CHECK(map.values[0] == rows.state_factor() * head.places[0].map.value[0]);
    if (kind == HeadKind::kMedusa) continue;
    const size_t of_token = static_cast<size_t>(base.dim);
    CHECK(map.values[of_token] == rows.token_factor() * head.places[0].map.value[of_token]);
  }
  shared.defaults.kind = HeadKind::kMedusa;
  NewHeads copied = shared;
  for (NewHead& head : copied.heads) {
    for (NewMedusaHead& one : head.medusa) {
      one.lm_head = {lm_head.n_out, lm_head.n_in};
      one.lm_head.encoded.assign(lm_head.data, lm_head.data + lm_head.bytes());
      if (head.kind != HeadKind::kHydra) continue;
      one.lm_bias = {1, lm_head.n_out, std::vector<float>(static_cast<size_t>(lm_head.n_out))};
    }
  }
  const TempDir folder;
  write_exit_heads(folder / "shared.gguf", shared);
  write_exit_heads(folder / "copied.gguf", copied);
  std::vector<std::vector<float>> said[2];
  for (const bool copy : {false, true}) {
    const ExitHeads heads =
        ExitHeads::open(folder / (copy ? "copied.gguf" : "shared.gguf"), model.gguf, model.config);
    for (const HeadWeights& head : heads.heads()) {
      for (const MedusaHead& one : head.medusa) {
        CHECK((one.lm_head.n_out > 0) == copy);
        CHECK((one.lm_bias != nullptr) == (copy && head.kind == HeadKind::kHydra));
      }
    }
    for (const int threads : {1, 3}) {
      const auto backend = model.backend(best_isa(), threads);
      backend->set_exit_heads(&heads, 0);
      backend->embed(0, 3);
      backend->run_layers(0, 1, 0, 1, 4);
      backend->keep_state(0);
      for (int slot = 0; slot < 2; ++slot) backend->embed(slot, 7 + slot);
      for (size_t h = 0; h < heads.heads().size(); ++h) {
        for (int slot = 0; slot < 2; ++slot) {
          const ExitPeak peak = backend->exit_check(static_cast<int>(h), slot, 1);
          const std::span<const float> z = backend->exit_logits();
          CHECK(z.size() == static_cast<size_t>(base.vocab_size));
          CHECK(peak.token == std::ranges::max_element(z) - z.begin());
          said[copy].emplace_back(z.begin(), z.end());
        }
      }
    }
  }
  CHECK(said[0] == said[1]);
  CHECK(said[0][0] != said[0][1]);
}

}  // namespace place_heads_test
