// Draft layers while they learn: loss and gradients against a reference in double, differences of
// it and PyTorch's autograd; what the engine says of a trained layer; texts that only attention can
// learn; kills.
#include "train/layer_learning.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "engine_rig.h"
#include "gradient_check.h"
#include "layer_reference.h"
#include "temp_dir.h"
#include "tiny_heads.h"
#include "tools/tuning.h"
#include "train/feature_passes.h"
#include "train/gradients.h"
#include "train/head_trainer.h"
#include "train/place_heads.h"

namespace layer_learning_test {

using namespace specbound;
using namespace specbound::test;

namespace {

// Even in -size..size; tests/golden/make_layer_golden.py has the same.
std::vector<float> random_values(size_t n, float size, uint64_t seed) {
  std::vector<float> values(n);
  fill_uniform(seed, size, values);
  return values;
}

ModelConfig small_config(int dim, int n_heads, int n_kv_heads, int head_dim) {
  ModelConfig config;
  config.dim = dim;
  config.n_heads = n_heads;
  config.n_kv_heads = n_kv_heads;
  config.head_dim = config.rope_dim = head_dim;
  config.norm_eps = 1e-5f;
  config.rope_theta = 100;
  config.score_scale = 1 / std::sqrt(static_cast<float>(head_dim));
  return config;
}

// Two passages, rows that are not learnt from in both, and chains that end at one's end.
struct Rig {
  static constexpr int kDim = 16, kInner = 12, kWords = 20, kSteps = 3, kRotated = 4;
  static constexpr double kStateSize = 2.5;
  static constexpr float kSharpen = 1.5f;
  ModelConfig config = small_config(kDim, 4, 2, 6);
  std::vector<float> words = random_values(size_t{kWords} * kDim, 0.8f, 4);
  std::vector<int32_t> all;
  std::vector<uint8_t> learn = {0, 0, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 1, 1, 1};
  PassageBatch batch;
  ThreadPool pool{2};
  Gemm gemm{pool};

  Rig() {
    config.rope_dim = kRotated;
    for (int i = 0; i < kWords; ++i) all.push_back(i);
    batch.n = 15;
    batch.first = {0, 9, 15};
    batch.x = random_values(cells(15, kDim), 1.5f, 1);
    batch.state = random_values(cells(15, kDim), 2, 2);
    batch.y = random_values(cells(15, kDim), 2, 3);
    set_steps(learn, kSteps, batch);
  }
  BlockForm form(HeadKind kind) const { return {kind, config, nullptr, 9, kInner, kStateSize}; }
  LearningHead head(HeadKind kind) const {
    LearningHead head = layer_head(form(kind), kSteps);
    uint64_t seed = 100;
    for (Parameter* p : head.parameters()) p->value = random_values(p->value.size(), 0.5f, seed++);
    return head;
  }
  double learn_once(LearningHead& head) const {
    TrainingStep step(gemm, words, kDim, all, kSharpen);
    std::vector<BlockStep> steps;
    return step.run(head, form(head.kind), batch, steps);
  }
};

constexpr HeadKind kKinds[] = {HeadKind::kLayer, HeadKind::kEagle};

// How far apart, as a part of how far `expected` spreads.
double distance(const Doubles& found, const Doubles& expected) {
  double mean = 0, spread = 0, off = 0;
  for (const double v : expected) mean += v / static_cast<double>(expected.size());
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    spread += (expected[i] - mean) * (expected[i] - mean);
    off += (found[i] - expected[i]) * (found[i] - expected[i]);
  }
  return std::sqrt(off / spread);
}

// Texts of 5 to 24 rows, three of them of a prompt, whose second token says which of four laws
// makes y of x in all rows behind it: who sees a row and the state before it alone cannot tell.
struct Planted {
  static constexpr int kDim = 32, kVocab = 48, kLaws = 4, kWords = kVocab - kLaws - 1;
  std::vector<FeatureChunk> chunks;
  std::vector<float> lm_head = random_values(size_t{kVocab} * kDim, 1, 5);
  std::vector<float> embedding = random_values(size_t{kVocab} * kDim, 0.1f, 6);
  std::vector<float> norm = std::vector<float>(kDim, 1.3f);
  std::vector<int32_t> shortlist;
  ModelConfig config = small_config(kDim, 4, 2, 8);
  HeadsBase base{"llama", 4, kDim, kVocab, "0123456789abcdef", 32, 16};

  Planted() {
    for (int i = 0; i < kVocab; ++i) shortlist.push_back((i * 37 + 11) % kVocab);
    TinyRandom random(9);
    for (const int rows : {900, 700, 400}) {
      FeatureChunk chunk;
      chunk.dim = kDim;
      chunk.x.resize(1);
      while (chunk.rows < rows) {
        const int length = 5 + static_cast<int>(random.next() % 20);
        const size_t law = random.next() % kLaws;
        size_t seen = kLaws;  // every text begins with this token
        for (int r = 0; r < length; ++r, ++chunk.rows) {
          const float* x = lm_head.data() + seen * kDim;
          const size_t wanted = (seen * 5 + 7 * law + 3) % kWords + kLaws + 1;
          for (int i = 0; i < kDim; ++i) {
            chunk.x[0].push_back(1.7f * x[i]);
            chunk.y.push_back(2 * lm_head[wanted * kDim + i] + 0.05f * random.normal());
          }
          seen = r == 0 ? law : kLaws + 1 + random.next() % kWords;
          chunk.next.push_back(static_cast<int32_t>(seen));
          chunk.follows.push_back(r > 0);
          chunk.learn.push_back(r >= 3);
        }
      }
      chunks.push_back(std::move(chunk));
    }
  }
  FeatureSource source() const {
    FeatureSource source{{0}, kDim, static_cast<int>(chunks.size()), 0, {}};
    for (const FeatureChunk& chunk : chunks) {
      source.n_rows += chunk.rows;
      source.prompt_rows += std::ranges::count(chunk.learn, 0);
    }
    source.load = [this](int i) { return chunks[static_cast<size_t>(i)]; };
    return source;
  }
  TrainedHeads train(TrainOptions o,
                     const std::function<bool(const TrainProgress&)>& progress = nullptr) const {
    o.embedding = {DType::kF32, kVocab, kDim, reinterpret_cast<const std::byte*>(embedding.data())};
    o.config = &config;
    o.output_norm = norm.data();
    return train_heads(source(), lm_head, shortlist, base, o, progress);
  }
};

TrainOptions options(std::vector<HeadKind> kinds) {
  TrainOptions o;
  o.kinds = std::move(kinds);
  o.layers = {0};
  o.epochs = 40;
  o.batch = 64;
  o.threads = 1;
  o.sharpen = 1;
  o.learning_rate = 5e-3f;
  return o;
}

std::vector<uint32_t> bits(const NewHeads& heads) {
  std::vector<uint32_t> all;
  for (const NewHead& head : heads.heads) {
    for (const HeadTensor* t :
         {&head.map, &head.inner, &head.outer, &head.q, &head.k, &head.v, &head.o, &head.gate,
          &head.up, &head.down, &head.norm, &head.map_bias}) {
      for (const float v : t->values) all.push_back(std::bit_cast<uint32_t>(v));
    }
    all.push_back(std::bit_cast<uint32_t>(head.margin_scale));
  }
  return all;
}

}  // namespace

TEST_CASE("gradients of draft layers, through chains of three steps, are those of differences") {
  const Rig rig;
  for (const HeadKind kind : kKinds) {
    CAPTURE(head_kind_name(kind));
    LearningHead head = rig.head(kind), learning = head;
    const LayerReference reference{head, rig.config, Rig::kRotated, Rig::kStateSize};
    const auto loss = [&] {
      return reference.loss(rig.batch, rig.learn, Rig::kSteps, rig.words, Rig::kSharpen);
    };
    CHECK(rig.learn_once(learning) == doctest::Approx(loss()).epsilon(1e-5));
    const std::vector<Parameter*> all = head.parameters(), learnt = learning.parameters();
    REQUIRE(all.size() == (kind == HeadKind::kEagle ? 10 : 9));
    check_gradients(all, learnt, loss);
  }
}

TEST_CASE("losses and gradients of draft layers are PyTorch's") {
  std::ifstream file(std::string(SPECBOUND_GOLDEN) + "/layer_learning.f32", std::ios::binary);
  const Rig rig;
  for (const HeadKind kind : kKinds) {
    CAPTURE(head_kind_name(kind));
    LearningHead head = rig.head(kind);
    float expected = 0;
    file.read(reinterpret_cast<char*>(&expected), sizeof expected);
    CHECK(rig.learn_once(head) == doctest::Approx(expected).epsilon(1e-5));
    for (const Parameter* p : head.parameters()) {
      std::vector<float> gradient(p->value.size());
      file.read(reinterpret_cast<char*>(gradient.data()),
                static_cast<std::streamsize>(gradient.size() * sizeof(float)));
      REQUIRE(file.good());
      float largest = 0, worst = 0;
      for (size_t i = 0; i < gradient.size(); ++i) {
        largest = std::max(largest, std::fabs(gradient[i]));
        worst = std::max(worst, std::fabs(gradient[i] - p->gradient[i]));
      }
      CHECK(largest > 1e-4f);
      CHECK(worst < 1e-4f * largest);
    }
  }
  CHECK(file.peek() == EOF);
}

TEST_CASE("chains of a batch end with their passage and where nothing is learnt") {
  const Rig rig;
  REQUIRE(rig.batch.steps.size() == 3);
  CHECK(rig.batch.learnt == std::vector<int>{2, 3, 4, 6, 7, 8, 9, 10, 12, 13, 14});
  CHECK(rig.batch.steps[1].rows == std::vector<int>{3, 4, 7, 8, 10, 13, 14});
  CHECK(rig.batch.steps[2].rows == std::vector<int>{4, 8, 14});
  CHECK(rig.batch.steps[1].begin == std::vector<int>{0, 4, 7});
}

TEST_CASE("passages in which nothing is learnt are left out of a batch") {
  FeatureChunk chunk;
  chunk.rows = 9;
  chunk.dim = 2;
  chunk.x = {random_values(18, 1, 1)};
  chunk.y = random_values(18, 1, 2);
  chunk.next.assign(9, 0);
  chunk.follows = {0, 1, 1, 1, 1, 1, 0, 1, 1};  // passages of three: 0, 3 and 6
  chunk.learn = {0, 0, 0, 0, 1, 1, 1, 0, 0};    // row 6 has no state before it
  Chunks chunks;
  chunks.emplace(0, chunk);
  std::vector<RowAt> passages;
  append_passages(chunk.follows, 0, 0, 9, 3, passages);
  REQUIRE(passages.size() == 3);
  PassageBatch batch;
  fill_passages(chunks, {HeadKind::kLayer, 0, nullptr, 2}, passages, batch);
  CHECK(batch.origin == std::vector<int>{3, 4, 5});
  CHECK(batch.first == std::vector<int>{0, 3});
  CHECK(batch.learnt == std::vector<int>{1, 2});
  CHECK(std::equal(batch.state.begin(), batch.state.begin() + 2, chunk.y.begin() + 4));
  fill_passages(chunks, {HeadKind::kLayer, 0, nullptr, 2}, std::span(passages).first(1), batch);
  CHECK(batch.n == 0);
  CHECK(batch.steps.empty());
}

TEST_CASE("batches of passages have about as many rows as were asked for, and each row once") {
  // Ninety short texts and ten long ones.
  FeatureSource source{{0}, 4, 1, 0, {}};
  FeatureChunk chunk;
  chunk.dim = 4;
  for (int text = 0; text < 100; ++text) {
    const int length = text % 10 == 0 ? 400 : 10;
    for (int r = 0; r < length; ++r) chunk.follows.push_back(r > 0);
  }
  chunk.rows = static_cast<int>(chunk.follows.size());
  source.n_rows = chunk.rows;
  source.load = [&](int) { return chunk; };
  const RowSplit split = split_rows(source);
  constexpr int kPassage = 128, kRows = 256;
  Batches batches = Batches::of_passages(source, split, kPassage, kRows, 7);
  ChunksInMemory memory(source);
  BatchPlace place;
  std::vector<RowAt> rows;
  std::vector<int> seen(chunk.follows.size());
  int n_batches = 0;
  for (; batches.next(1, place, memory, rows); ++n_batches) {
    CHECK(batches.count(rows) > kRows / 2 - kPassage);
    CHECK(batches.count(rows) < kRows * 3 / 2 + kPassage);
    for (const RowAt& passage : rows) {
      for (int r = 0; r < passage.run; ++r) ++seen[static_cast<size_t>(passage.row + r)];
    }
  }
  CHECK(n_batches == (split.training + kRows / 2) / kRows);
  for (size_t r = 0; r < seen.size(); ++r) {
    CHECK(seen[r] == (static_cast<int64_t>(r) < split.training));
  }
}

TEST_CASE("what the trainer computes is what the engine says of the file") {
  for (const HeadKind kind : kKinds) {
    CAPTURE(head_kind_name(kind));
    const TinyModel model(kind == HeadKind::kEagle ? TinySpec{.n_layers = 3} : q8_0_spec(3));
    const HeadsBase base = heads_base(model.gguf, model.config);
    const int dim = base.dim, prompt = 13;
    TrainingText text;
    text.tokens = token_ids(41, base.vocab_size);
    text.learn.assign(text.tokens.size(), 1);
    std::fill_n(text.learn.begin(), prompt, uint8_t{0});
    text.learn.back() = 0;

    const TempDir folder;
    FeatureStore store(folder / "f", {0}, dim, size_t{1} << 30);
    store.with_prompts();
    const auto reader = model.backend(best_isa(), 1);
    {
      FeaturePasses passes(store, *reader, {model.weights.output_norm, static_cast<size_t>(dim)});
      REQUIRE(passes.add(text));
      REQUIRE(passes.finish());
    }
    store.finish();
    CHECK(store.n_rows() == 40);
    CHECK(store.n_prompt_rows() == prompt);
    const FeatureSource source = feature_source(store);

    const TokenRows rows(model.weights.token_embd, state_size(source));
    BlockForm form(kind, model.config, nullptr, kMostPassage, 96, state_size(source));
    form.norm = random_values(static_cast<size_t>(dim), 2, 40);
    LearningHead head = layer_head(form, 3);
    uint64_t seed = 50;
    for (Parameter* p : head.parameters()) p->value = random_values(p->value.size(), 0.2f, ++seed);
    NewHeads file;
    file.base = base;
    for (int i = 0; i < 48; ++i) file.shortlist.push_back((i * 7 + 5) % base.vocab_size);
    file.heads = {finished_layer(head, form, &rows)};
    file.heads[0].kind = kind;
    NewHead& made = file.heads[0];
    for (HeadTensor* t :
         {&made.map, &made.q, &made.k, &made.v, &made.o, &made.gate, &made.up, &made.down}) {
      t->type = DType::kF32;  // where a file may have it: of a layer it is Q8_0
    }
    file.defaults.kind = kind;
    const std::vector<std::byte> bytes = exit_heads_file("heads", file);
    const ExitHeads heads = ExitHeads::from_gguf(Gguf::parse(bytes, "heads"), &base);

    Chunks chunks;
    chunks.emplace(0, store.load(0));
    std::vector<RowAt> passages;
    append_passages(chunks.at(0).follows, 0, 0, 40, kMostPassage, passages);
    REQUIRE(passages.size() == 1);
    PassageBatch batch;
    fill_passages(chunks, {kind, 0, &rows, 3}, passages, batch);
    ThreadPool pool(2);
    const Gemm gemm(pool);
    std::vector<BlockStep> steps(3);
    for (int k = 0; k < 3; ++k) block_forward(gemm, head, form, batch, k, steps);

    const std::vector<float> lm_head = matrix_floats(model.weights.lm_head);
    const auto engine = model.backend(best_isa(), 1);
    engine->set_exit_heads(&heads, 48);
    const double near = kind == HeadKind::kEagle ? 0.01 : 0.06;  // INT8 rows and Q8_0 weights
    for (const int root : {13, 14, 30}) {
      engine->truncate(0);
      engine->prefill(std::span(text.tokens).first(static_cast<size_t>(root)));
      for (int k = 0; k < 3; ++k) {
        CAPTURE(root);
        CAPTURE(k);
        engine->embed(k, text.tokens[static_cast<size_t>(root + k)]);
        engine->exit_check(0, k, 1);
        const std::span<const float> said = engine->exit_logits();
        const auto row = std::ranges::find(batch.origin, root + k) - batch.origin.begin();
        const int slot = batch.steps[static_cast<size_t>(k)].slot[static_cast<size_t>(row)];
        REQUIRE(slot >= 0);
        const float* y = steps[static_cast<size_t>(k)].y.data() + cells(slot, dim);
        const Doubles z = times(lm_head, Doubles(y, y + dim));
        Doubles expected;
        for (size_t i = 0; i < said.size(); ++i) {
          const int32_t id =
              kind == HeadKind::kEagle ? static_cast<int32_t>(i) : engine->exit_ids()[i];
          expected.push_back(z[static_cast<size_t>(id)]);
        }
        CHECK(distance(Doubles(said.begin(), said.end()), expected) < near);
      }
    }
  }
}

TEST_CASE("what the first word of a text decides is a layer's to learn, and no chained head's") {
  const TrainedHeads trained =
      Planted().train(options({HeadKind::kLayer, HeadKind::kChained, HeadKind::kEagle}));
  REQUIRE(trained.reports.size() == 3);
  REQUIRE(trained.heads.heads.size() == 3);
  const HeadReport &chained = trained.reports[0], &layer = trained.reports[1],
                   &eagle = trained.reports[2];
  CHECK(chained.kind == HeadKind::kChained);
  CHECK(layer.kind == HeadKind::kLayer);
  CHECK(layer.agreement > chained.agreement + 0.2);
  CHECK(eagle.agreement > chained.agreement + 0.2);
  for (const HeadReport* report : {&layer, &eagle}) {
    CHECK(report->kl_end < report->kl_start);
    REQUIRE(report->depth_agreement.size() == 5);
    for (const double agreement : report->depth_agreement) {
      CHECK(agreement > chained.agreement + 0.1);
    }
  }
  CHECK(trained.rows + trained.validation_rows < 2000);  // without those of prompts
  CHECK(trained.heads.heads[1].margin_scale > 0);
  const std::vector<std::byte> file = exit_heads_file("heads", trained.heads);
  const ExitHeads heads = ExitHeads::from_gguf(Gguf::parse(file, "heads"), &trained.heads.base);
  CHECK(heads.find(HeadKind::kLayer, 0) >= 0);
  CHECK(heads.find(HeadKind::kEagle, 0) >= 0);
}

TEST_CASE("a training of layers that was stopped goes on to the same bytes, whatever the threads") {
  const Planted planted;
  const TempDir folder;
  TrainOptions o = options({HeadKind::kChained, HeadKind::kLayer, HeadKind::kEagle});
  o.epochs = 2;
  const std::vector<uint32_t> whole = bits(planted.train(o).heads);
  REQUIRE(whole.size() > 1000);
  o.threads = 3;
  CHECK(bits(planted.train(o).heads) == whole);
  o.seed = 1;
  CHECK(bits(planted.train(o).heads) != whole);
  o.seed = 0;
  o.checkpoint = folder / "checkpoint";
  // Stopped among the rows, then among the texts, then not at all.
  for (const int most : {9, 90}) {
    int told = 0;
    const TrainedHeads stopped = planted.train(o, [&](const TrainProgress& progress) {
      return std::strcmp(progress.stage, "training") != 0 || ++told <= most;
    });
    REQUIRE(stopped.heads.heads.empty());
  }
  CHECK(bits(planted.train(o).heads) == whole);
}

TEST_CASE("other kinds learn again where what was stopped among layers had other options") {
  const Planted planted;
  const TempDir folder;
  TrainOptions o = options({HeadKind::kChained, HeadKind::kLayer});
  o.epochs = 4;
  o.checkpoint = folder / "checkpoint";
  double now = 0;
  o.clock = [&now] { return now += 1e-6; };
  o.seconds = 10;  // enough
  // Stopped among the texts.
  int starts = 0, told = 0;
  std::string stage;
  const TrainedHeads stopped = planted.train(o, [&](const TrainProgress& progress) {
    starts += progress.stage != stage && std::strcmp(progress.stage, "least squares") == 0;
    stage = progress.stage;
    return starts < 2 || stage != "training" || ++told < 4;
  });
  REQUIRE(stopped.heads.heads.empty());
  REQUIRE(told == 4);
  o.learning_rate = 4e-3f;
  const TrainedHeads trained = planted.train(o);
  REQUIRE(trained.reports.size() == 2);
  for (const HeadReport& report : trained.reports) CHECK(report.kl_end < 0.9 * report.kl_start);
}

TEST_CASE("a layer is what drafts where its chains are right for longer by a tenth") {
  const auto report = [](HeadKind kind, double agreement) {
    HeadReport report;
    report.kind = kind;
    report.layer = 0;
    report.depth_agreement = {agreement, 0.5};
    return report;
  };
  const auto chosen_beside = [&](const HeadReport& beside, std::vector<double> agreements) {
    HeadDefaults settings;
    settings.kind = beside.kind;
    settings.check_layers = {beside.layer};
    settings.shortlist = 96;
    settings.w_max = 3;
    const bool preferred = prefer_layer(
        {beside, report(HeadKind::kLayer, agreements[0]), report(HeadKind::kEagle, agreements[1])},
        settings);
    CHECK(settings.shortlist == 96);
    CHECK(settings.check_layers == std::vector<int>{preferred ? 0 : beside.layer});
    CHECK((settings.w_max == 3) == !preferred);
    CHECK(preferred == (settings.kind != beside.kind));
    return settings.kind;
  };
  const auto chosen = [&](std::vector<double> agreements) {
    return chosen_beside(report(HeadKind::kChained, agreements[0]), {agreements[1], agreements[2]});
  };
  CHECK(chosen({0.5, 0.54, 0.5}) == HeadKind::kChained);
  CHECK(chosen({0.5, 0.56, 0.5}) == HeadKind::kLayer);
  CHECK(chosen({0.5, 0.56, 0.6}) == HeadKind::kLayer);
  CHECK(chosen({0.5, 0.56, 0.7}) == HeadKind::kEagle);
  // A folded head has no chain: one draft.
  HeadReport folded = report(HeadKind::kFolded, 0);
  folded.depth_agreement.clear();
  folded.agreement = 0.7;
  folded.layer = 4;
  CHECK(chosen_beside(folded, {0.5, 0.4}) == HeadKind::kFolded);
  CHECK(chosen_beside(folded, {0.6, 0.4}) == HeadKind::kLayer);
}

}  // namespace layer_learning_test
