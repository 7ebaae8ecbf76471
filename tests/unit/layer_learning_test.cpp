// Draft layers while they learn: their passages, what the engine says of a trained layer, texts
// that only attention can learn, kills. layer_gradients_test.cpp has the gradients.
#include "train/layer_learning.h"

#include <doctest/doctest.h>

#include <bit>
#include <climits>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "corpus/feature_passes.h"
#include "engine_rig.h"
#include "expect_error.h"
#include "layer_reference.h"
#include "temp_dir.h"
#include "tiny_heads.h"
#include "tools/tuning.h"
#include "train/checkpoint.h"
#include "train/head_trainer.h"
#include "train/place_heads.h"
#include "train/report_html.h"

namespace layer_learning_test {

using namespace specbound;
using namespace specbound::test;

namespace {

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
  std::vector<float> lm_head = layer_values(size_t{kVocab} * kDim, 1, 5);
  std::vector<float> embedding = layer_values(size_t{kVocab} * kDim, 0.1f, 6);
  std::vector<float> norm = std::vector<float>(kDim, 1.3f);
  std::vector<int32_t> shortlist;
  ModelConfig config = layer_config(kDim, 4, 2, 8);
  HeadsBase base{"llama", 4, kDim, kVocab, "0123456789abcdef", 32, 16};

  Planted() {
    for (int i = 0; i < kVocab; ++i) shortlist.push_back((i * 37 + 11) % kVocab);
    TinyRandom random(9);
    for (const int rows : {900, 700, 400}) {
      FeatureChunk chunk;
      chunk.dim = kDim;
      chunk.x.resize(4);
      chunk.rms.resize(4);
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
            // Behind layer 1 the token, behind 2 what comes of it, behind 3 both.
            chunk.x[1].push_back(chunk.x[0].back());
            chunk.x[2].push_back(chunk.y.back() / 2);
            chunk.x[3].push_back(chunk.x[1].back() - chunk.x[2].back());
          }
          for (size_t l = 0; l < 4; ++l) {
            chunk.rms[l].push_back(static_cast<float>(3 * l + 1) * (0.5f + random.uniform()));
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
    FeatureSource source{{0, 1, 2, 3}, kDim, static_cast<int>(chunks.size()), 0, {}};
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
    o.states = {1, 2, 3};
    if (o.adapter_layer == 0) o.adapter_layer = 1;
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
          &head.up, &head.down, &head.norm, &head.map_bias, &head.ffn_norm, &head.attn_norm,
          &head.embedding_norm, &head.state_norm}) {
      for (const float v : t->values) all.push_back(std::bit_cast<uint32_t>(v));
    }
    all.push_back(std::bit_cast<uint32_t>(head.margin_scale));
  }
  return all;
}

}  // namespace

TEST_CASE("passages in which nothing is learnt are left out of a batch") {
  FeatureChunk chunk;
  chunk.rows = 9;
  chunk.dim = 2;
  chunk.x = {layer_values(18, 1, 1)};
  chunk.y = layer_values(18, 1, 2);
  chunk.next.assign(9, 0);
  chunk.follows = {0, 1, 1, 1, 1, 1, 0, 1, 1};  // passages of three: 0, 3 and 6
  chunk.learn = {0, 0, 0, 0, 1, 1, 1, 0, 0};    // row 6 has no state before it
  Chunks chunks;
  chunks.emplace(0, chunk);
  std::vector<RowAt> passages;
  append_passages(chunk.follows, 0, 0, 9, 3, passages);
  REQUIRE(passages.size() == 3);
  PassageBatch batch;
  BlockForm form(HeadKind::kLayer, layer_config(2, 1, 1, 2), nullptr, 9, 2, {});
  form.taken = {0};
  fill_passages(chunks, {form, nullptr, 2}, passages, batch);
  CHECK(batch.origin == std::vector<int>{3, 4, 5});
  CHECK(batch.first == std::vector<int>{0, 3});
  CHECK(batch.learnt == std::vector<int>{1, 2});
  CHECK(std::equal(batch.state.begin(), batch.state.begin() + 2, chunk.y.begin() + 4));
  fill_passages(chunks, {form, nullptr, 2}, std::span(passages).first(1), batch);
  CHECK(batch.n == 0);
  CHECK(batch.steps.empty());
}

TEST_CASE("what enters a published layer is of the model's size, and of the row that it is of") {
  FeatureChunk chunk;
  chunk.rows = 4;
  chunk.dim = 2;
  for (const uint64_t seed : {1, 2, 3}) {
    chunk.x.push_back(layer_values(8, 1, seed));
    chunk.rms.push_back(layer_values(4, 9, 10 + seed));
  }
  chunk.y = layer_values(8, 1, 4);
  chunk.next = {2, 1, 0, 2};
  chunk.follows = {0, 1, 1, 1};
  Chunks chunks;
  chunks.emplace(0, chunk);
  const std::vector<RowAt> passage = {{0, 0, 4}};
  const std::vector<float> embedding = layer_values(6, 0.1f, 5);
  const TokenRows rows({DType::kF32, 3, 2, reinterpret_cast<const std::byte*>(embedding.data())},
                       1);
  const ModelConfig config = layer_config(2, 1, 1, 2);
  PassageBatch batch;
  const auto h = [&](size_t layer, size_t row, size_t i) {
    return chunk.rms[layer][row] * chunk.x[layer][2 * row + i];
  };

  BlockForm eagle3(HeadKind::kEagle3, config, nullptr, 9, 2, Doubles{1, 1, 1});
  eagle3.taken = {0, 1, 2};
  fill_passages(chunks, {eagle3, &rows, 3}, passage, batch);
  CHECK(batch.origin == std::vector<int>{1, 2, 3});  // the first row has no state before it
  REQUIRE(batch.state.size() == 3 * 6);
  for (size_t r = 0; r < 3; ++r) {
    const float* e = &embedding[2 * static_cast<size_t>(chunk.next[r])];
    const float rms = std::sqrt((e[0] * e[0] + e[1] * e[1]) / 2 + config.norm_eps);
    for (size_t i = 0; i < 2; ++i) {
      CHECK(batch.x[2 * r + i] == doctest::Approx(e[i] / rms));
      CHECK(batch.y[2 * r + i] == chunk.y[2 * (r + 1) + i]);
      for (size_t l = 0; l < 3; ++l) CHECK(batch.state[6 * r + 2 * l + i] == h(l, r, i));
    }
  }

  BlockForm adapter(HeadKind::kKangaroo, config, nullptr, 9, 2, Doubles{1});
  adapter.taken = {1};
  fill_passages(chunks, {adapter, nullptr, 3}, passage, batch);
  CHECK(batch.origin == std::vector<int>{0, 1, 2, 3});
  CHECK(batch.learnt == std::vector<int>{0, 1, 2, 3});
  CHECK(batch.x.empty());
  REQUIRE(batch.state.size() == 8);
  for (size_t i = 0; i < 8; ++i) CHECK(batch.state[i] == h(1, i / 2, i % 2));
  // What its attention takes is of one size.
  ThreadPool pool(1);
  std::vector<BlockStep> steps(1);
  block_inputs(Gemm(pool), adapter, batch, 0, steps);
  for (size_t r = 0; r < 4; ++r) {
    const float a = h(1, r, 0), b = h(1, r, 1);
    const float rms = std::sqrt((a * a + b * b) / 2 + config.norm_eps);
    CHECK(steps[0].in[2 * r] == doctest::Approx(a / rms));
    CHECK(steps[0].in[2 * r + 1] == doctest::Approx(b / rms));
  }
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
  // Whatever place a file names, what comes next is a batch or the end.
  for (const BatchPlace& named : {BatchPlace{0, INT_MAX, 0}, {0, 0, INT_MAX}, {1, 1, 7}}) {
    int left = 0;
    for (place = named; batches.next(2, place, memory, rows); ++left) CHECK(!rows.empty());
    CHECK(left <= 2 * n_batches);
  }
}

TEST_CASE("a checkpoint that names no place is none") {
  const TempDir folder;
  const std::string path = folder / "checkpoint";
  for (const BatchPlace& named : {BatchPlace{3, 2, 1}, {-1, 0, 0}, {0, -1, 0}, {0, 0, INT_MIN}}) {
    TrainingState state;
    state.place = named;
    save_checkpoint(path, 7, state, {});
    const auto loaded = load_checkpoint(path, 7, {});
    CHECK(loaded.has_value() == (named.epoch == 3));
    CHECK_FALSE(load_checkpoint(path, 8, {}));
  }
}

TEST_CASE("what the trainer computes is what the engine says of the file") {
  for (const HeadKind kind : kLearningLayers) {
    CAPTURE(head_kind_name(kind));
    const bool layer = kind == HeadKind::kLayer;  // what others are to learn is not quantized
    const TinyModel model(layer ? q8_0_spec(3) : TinySpec{.n_layers = 3});
    const HeadsBase base = heads_base(model.gguf, model.config);
    const int dim = base.dim, prompt = 13;
    TrainingText text;
    text.tokens = token_ids(41, base.vocab_size);
    text.learn.assign(text.tokens.size(), 1);
    std::fill_n(text.learn.begin(), prompt, uint8_t{0});
    text.learn.back() = 0;

    const TempDir folder;
    FeatureStore store(folder / "f", {0, 1, 2, 3}, dim, size_t{1} << 30);
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
    TrainOptions options;
    options.config = &model.config;
    options.output_norm = model.weights.output_norm;
    options.block_inner = 96;
    options.states = {1, 2, 3};
    options.adapter_layer = 2;
    BlockForm form = layer_form(kind, source, options);
    form.norm = layer_values(static_cast<size_t>(dim), 2, 40);
    LearningHead head = layer_head(form, 3);
    uint64_t seed = 50;
    for (Parameter* p : head.parameters()) p->value = layer_values(p->value.size(), 0.2f, ++seed);
    NewHeads file;
    file.base = base;
    for (int i = 0; i < 48; ++i) file.shortlist.push_back((i * 7 + 5) % base.vocab_size);
    file.heads = {finished_layer(head, form, &rows)};
    file.heads[0].kind = kind;
    NewHead& made = file.heads[0];
    const std::vector<float> lm_head = matrix_floats(model.weights.lm_head);
    if (kind == HeadKind::kKangaroo) made.layer = options.adapter_layer;
    if (kind == HeadKind::kEagle3) {
      made.states = options.states;
      made.tokens = file.shortlist;
      made.lm_head = {static_cast<int>(made.tokens.size()), dim};
      for (const int32_t id : made.tokens) {
        made.lm_head.values.insert(made.lm_head.values.end(), &lm_head[cells(id, dim)],
                                   &lm_head[cells(id + 1, dim)]);
      }
    }
    for (HeadTensor* t : {&made.map, &made.q, &made.k, &made.v, &made.o, &made.gate, &made.up,
                          &made.down, &made.lm_head}) {
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
    fill_passages(chunks, {form, &rows, 3}, passages, batch);
    ThreadPool pool(2);
    const Gemm gemm(pool);
    std::vector<BlockStep> steps(3);
    const int n_steps = form.chains() ? 3 : 1;
    for (int k = 0; k < n_steps; ++k) block_forward(gemm, head, form, batch, k, steps);

    const auto engine = model.backend(best_isa(), 1);
    engine->set_exit_heads(&heads, 48);
    const double near = layer ? 0.06 : 0.01;  // INT8 rows and Q8_0 weights
    for (const int root : {13, 14, 30}) {
      engine->truncate(0);
      engine->prefill(std::span(text.tokens).first(static_cast<size_t>(root)));
      for (int k = 0; k < 3; ++k) {
        CAPTURE(root);
        CAPTURE(k);
        engine->embed(k, text.tokens[static_cast<size_t>(root + k)]);
        if (made.layer > 0) engine->run_layers(k, 1, root + k, 1, made.layer);
        engine->exit_check(0, k, 1);
        const std::span<const float> said = engine->exit_logits();
        const auto row = std::ranges::find(batch.origin, root + k) - batch.origin.begin();
        const size_t step = static_cast<size_t>(std::min(k, n_steps - 1));
        const int slot = batch.steps[step].slot[static_cast<size_t>(row)];
        REQUIRE(slot >= 0);
        const float* y = steps[step].y.data() + cells(slot, dim);
        const Doubles z = times(lm_head, Doubles(y, y + dim));
        Doubles expected;
        for (size_t i = 0; i < said.size(); ++i) {
          const std::span<const int32_t> ids = engine->exit_ids();  // none: all
          const int32_t id = ids.empty() ? static_cast<int32_t>(i) : ids[i];
          expected.push_back(z[static_cast<size_t>(id)]);
        }
        CHECK(distance(Doubles(said.begin(), said.end()), expected) < near);
      }
    }
  }
}

TEST_CASE("what the first word of a text decides is a layer's to learn, and no chained head's") {
  const Planted planted;
  const TrainedHeads trained =
      planted.train(options({HeadKind::kLayer, HeadKind::kChained, HeadKind::kEagle,
                             HeadKind::kEagle3, HeadKind::kKangaroo}));
  REQUIRE(trained.reports.size() == 5);
  REQUIRE(trained.heads.heads.size() == 5);
  const HeadReport &chained = trained.reports[0], &adapter = trained.reports[4];
  CHECK(chained.kind == HeadKind::kChained);
  for (size_t i = 1; i < 4; ++i) {
    const HeadReport& report = trained.reports[i];
    CAPTURE(head_kind_name(report.kind));
    // What eagle3 knows of a token comes through attention alone, here of half the width.
    const double more = report.kind == HeadKind::kEagle3 ? 0.1 : 0.2;
    CHECK(report.agreement > chained.agreement + more);
    CHECK(report.kl_end < report.kl_start);
    REQUIRE(report.depth_agreement.size() == 5);
    for (size_t k = 0; k < 3; ++k) {  // few rows come to later ones
      CHECK(report.depth_agreement[k] > chained.agreement + more / 2);
    }
  }
  // An attention alone is no table of words, but sees which law holds.
  CHECK(adapter.kind == HeadKind::kKangaroo);
  CHECK(adapter.layer == 1);
  CHECK(adapter.agreement > chained.agreement + 0.1);
  CHECK(adapter.kl_end < adapter.kl_start);
  REQUIRE(adapter.depth_agreement.size() == 5);
  CHECK(trained.loss_curve.back().second < trained.loss_curve.front().second);
  CHECK(trained.layer_loss_curve.back().second < trained.layer_loss_curve.front().second);
  const std::string page = report_html(trained, {"m.gguf", "chat.jsonl", 4});
  CHECK(page.find(">draft layers<") != std::string::npos);
  CHECK(trained.rows + trained.validation_rows < 2000);  // without those of prompts
  CHECK(trained.heads.heads[1].margin_scale > 0);
  const std::vector<std::byte> file = exit_heads_file("heads", trained.heads);
  const ExitHeads heads = ExitHeads::from_gguf(Gguf::parse(file, "heads"), &trained.heads.base);
  CHECK(heads.find(HeadKind::kLayer, 0) >= 0);
  CHECK(heads.find(HeadKind::kEagle, 0) >= 0);
  CHECK(heads.find(HeadKind::kKangaroo, 1) >= 0);
  const int eagle3 = heads.find(HeadKind::kEagle3, 0);
  REQUIRE(eagle3 >= 0);
  const HeadWeights& weights = heads.heads()[static_cast<size_t>(eagle3)];
  CHECK(weights.tokens == planted.shortlist);
  CHECK(weights.states == std::array{1, 2, 3});
  CHECK(weights.rope_theta == 100);
}

TEST_CASE("an adapter begins right where its layer's state holds elsewhere what the model says") {
  Planted planted;
  planted.config = layer_config(Planted::kDim, 2, 1, 16);
  constexpr size_t kDim = Planted::kDim, kKnown = 12;  // fewer than the 16 rows of V
  for (FeatureChunk& chunk : planted.chunks) {
    std::ranges::fill(chunk.x[3], 0.0f);
    for (size_t i = 0; i < chunk.x[3].size(); i += kDim) {
      std::copy_n(&chunk.y[i], kKnown, &chunk.x[3][i + kDim - kKnown]);
    }
  }
  TrainOptions o = options({HeadKind::kKangaroo});
  o.adapter_layer = 3;
  o.quick = true;
  const HeadReport start = planted.train(o).reports.at(0);
  CHECK(start.layer == 3);
  CHECK(start.agreement > 0.6);  // what lm_head says of the state itself: 0.02
  o.quick = false;
  o.epochs = 4;
  const HeadReport learnt = planted.train(o).reports.at(0);
  CHECK(learnt.kl_start == start.kl_start);
  CHECK(learnt.kl_end < 0.8 * start.kl_start);
  CHECK(learnt.agreement > start.agreement);
}

TEST_CASE("a training of layers that was stopped goes on to the same bytes, whatever the threads") {
  const Planted planted;
  const TempDir folder;
  TrainOptions o = options({HeadKind::kChained, HeadKind::kLayer, HeadKind::kEagle,
                            HeadKind::kEagle3, HeadKind::kKangaroo});
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

TEST_CASE("heads of all kinds are validated on the same rows, and one long prompt leaves some") {
  Planted planted;
  TrainOptions o = options({HeadKind::kFolded, HeadKind::kLayer});
  o.layers = {1};
  o.epochs = 1;
  // At the end nearly all is of prompts.
  std::fill_n(planted.chunks[2].learn.begin(), planted.chunks[2].rows - 20, uint8_t{0});
  const TrainedHeads trained = planted.train(o);
  REQUIRE(trained.reports.size() == 2);
  CHECK(trained.reports[0].rows > 20);
  for (const HeadReport& report : trained.reports) CHECK(report.rows == trained.validation_rows);

  FeatureChunk& chunk = planted.chunks[0];
  chunk.rows = 508;
  for (std::vector<float>& x : chunk.x) x.resize(508 * Planted::kDim);
  for (std::vector<float>& rms : chunk.rms) rms.resize(508);
  chunk.y.resize(508 * Planted::kDim);
  chunk.next.resize(508);
  chunk.follows.assign(508, 1);
  chunk.follows[0] = 0;
  chunk.learn.assign(508, 0);
  planted.chunks.resize(1);
  o.kinds = {HeadKind::kLayer};
  std::fill_n(chunk.learn.begin() + 500, 8, uint8_t{1});
  CHECK(planted.train(o).rows == 7);
  std::fill_n(chunk.learn.begin() + 500, 7, uint8_t{0});
  check_mentions(expect_error(ErrorCode::kUsage, [&] { planted.train(o); }),
                 {"2 positions to learn from, found 1", "more text"});
}

TEST_CASE("a layer is what drafts where its chains are right for longer than its block costs") {
  constexpr int kLayers = 30;
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
        kLayers, settings);
    CHECK(settings.shortlist == 96);
    CHECK(settings.check_layers == std::vector<int>{preferred ? 0 : beside.layer});
    CHECK((settings.w_max == 3) == !preferred);
    CHECK(preferred == (settings.kind != beside.kind));
    return settings.kind;
  };
  const auto chosen = [&](std::vector<double> agreements) {
    return chosen_beside(report(HeadKind::kChained, agreements[0]), {agreements[1], agreements[2]});
  };
  CHECK(chosen({0.5, 0.53, 0.5}) == HeadKind::kChained);
  CHECK(chosen({0.5, 0.56, 0.5}) == HeadKind::kLayer);
  CHECK(chosen({0.5, 0.56, 0.56}) == HeadKind::kLayer);
  CHECK(chosen({0.5, 0.56, 0.7}) == HeadKind::kEagle);
  // A folded head has no chain: one draft.
  HeadReport folded = report(HeadKind::kFolded, 0);
  folded.depth_agreement.clear();
  folded.agreement = 0.7;
  folded.layer = 4;
  CHECK(chosen_beside(folded, {0.4, 0.4}) == HeadKind::kFolded);
  CHECK(chosen_beside(folded, {0.6, 0.4}) == HeadKind::kLayer);
  // Nobody has to draft to where a chain is hardly ever right.
  HeadReport tailed = report(HeadKind::kLayer, 0.6);
  tailed.depth_agreement = {0.6, 0.5, 0.05, 0.05, 0.05};
  HeadDefaults chained;
  chained.kind = HeadKind::kChained;
  CHECK(prefer_layer({report(HeadKind::kChained, 0.5), tailed}, kLayers, chained));
  // An adapter's drafts cost the layers before it too, where a folded head's are few.
  for (const int layer : {2, 12}) {
    CAPTURE(layer);
    HeadReport adapter = report(HeadKind::kKangaroo, 0.6);
    adapter.layer = layer;
    HeadDefaults settings;
    settings.check_layers = {folded.layer};
    CHECK(prefer_layer({folded, adapter}, kLayers, settings) == (layer == 2));
    adapter.depth_agreement = {0.9, 0.9, 0.9, 0.9, 0.9};
    settings = {};
    CHECK(prefer_layer({folded, adapter}, kLayers, settings));
    CHECK(settings.kind == HeadKind::kKangaroo);
    CHECK(settings.check_layers == std::vector<int>{layer});
    CHECK(settings.d_max == std::max(10, layer));  // rounds are to reach it
  }
}

}  // namespace layer_learning_test
