// Hidden states on disk: the right numbers, whichever texts share a pass, the bound, damage, and
// going on after a kill.
#include "train/feature_passes.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>

#include "engine_rig.h"
#include "error.h"
#include "expect_error.h"
#include "forwarding_backend.h"
#include "model/weights.h"
#include "numerics/half.h"
#include "sequences_rig.h"
#include "temp_dir.h"
#include "train/training_folder.h"

namespace features_test {

using namespace specbound;
using test::TinySpec;
namespace fs = std::filesystem;

namespace {

using test::check_mentions;
using test::expect_error;
using test::TempDir;

constexpr size_t kPlenty = size_t{1} << 30;
constexpr int kTexts = 40;

// Those that are not there yet.
void add_all(FeatureStore& store, Backend& backend, std::span<const float> norm,
             std::span<const TrainingText> texts) {
  {
    FeaturePasses passes(store, backend, norm);
    for (size_t i = static_cast<size_t>(store.n_texts()); i < texts.size(); ++i) {
      REQUIRE(passes.add(texts[i]));
    }
    REQUIRE(passes.finish());
    CHECK(passes.learnt_rows() == store.n_rows() - store.n_prompt_rows());
  }
  store.finish();
}

struct Rig {
  test::TinyModel model;
  std::unique_ptr<Backend> backend;
  std::vector<float> norm;
  std::vector<TrainingText> texts;

  Rig() : model(spec()), backend(model.backend(Isa::kPortable, 1)) {
    norm.assign(model.weights.output_norm, model.weights.output_norm + model.config.dim);
    // The second begins as the first does; long gaps, and gaps shorter than a pass.
    const auto ids = test::token_ids(120, model.config.vocab_size);
    const auto add = [&](int from, int to, std::vector<std::pair<int, int>> learnt) {
      TrainingText text;
      text.tokens.assign(ids.begin() + from, ids.begin() + to);
      text.learn.assign(to - from, 0);
      for (const auto& [begin, end] : learnt) {
        std::fill(text.learn.begin() + begin, text.learn.begin() + end, 1);
      }
      texts.push_back(text);
    };
    add(0, 60, {{40, 59}});
    add(0, 100, {{30, 33}, {36, 40}, {80, 99}});
    add(0, 10, {});
    add(100, 120, {{0, 19}});
  }
  static test::TinySpec spec() {
    test::TinySpec spec;
    spec.n_layers = 4;
    return spec;
  }

  void add_all(FeatureStore& store) { ::features_test::add_all(store, *backend, norm, texts); }
};

// The rows of all chunks, one behind the other.
FeatureChunk joined(const FeatureStore& store) {
  FeatureChunk all;
  all.x.resize(store.layers().size());
  all.rms.resize(store.layers().size());
  all.dim = store.dim();
  for (int c = 0; c < store.n_chunks(); ++c) {
    const FeatureChunk chunk = store.load(c);
    all.rows += chunk.rows;
    for (size_t l = 0; l < all.x.size(); ++l) {
      all.x[l].insert(all.x[l].end(), chunk.x[l].begin(), chunk.x[l].end());
      all.rms[l].insert(all.rms[l].end(), chunk.rms[l].begin(), chunk.rms[l].end());
    }
    all.y.insert(all.y.end(), chunk.y.begin(), chunk.y.end());
    all.next.insert(all.next.end(), chunk.next.begin(), chunk.next.end());
    all.follows.insert(all.follows.end(), chunk.follows.begin(), chunk.follows.end());
    all.learn.insert(all.learn.end(), chunk.learn.begin(), chunk.learn.end());
  }
  return all;
}

// Of all lengths up to the context, dialogues that go on and texts that begin alike among them,
// replies anywhere in them, none at all in some.
std::vector<TrainingText> random_texts(int vocab_size, test::TinyRandom& random) {
  const auto below = [&](int n) { return static_cast<int>(random.next() % n); };
  std::vector<TrainingText> texts;
  for (int i = 0; i < kTexts; ++i) {
    TrainingText& text = texts.emplace_back();
    const int n = below(4) == 0 ? 100 + below(156) : 2 + below(60);
    if (below(3) == 0 && i > 0) {
      const std::vector<int32_t>& other = texts[below(i)].tokens;
      const int begins = below(static_cast<int>(other.size()) + 1);
      text.tokens.assign(other.begin(), other.begin() + std::min(begins, n));
    } else if (below(2)) {
      text.tokens = test::token_ids(std::min(n, 11), vocab_size);
    }
    while (std::ssize(text.tokens) < n) text.tokens.push_back(below(vocab_size));
    text.learn.assign(text.tokens.size(), 0);
    for (int runs = below(4); runs > 0; --runs) {
      const int from = below(n), to = std::min(from + 1 + below(40), n);
      std::fill(text.learn.begin() + from, text.learn.begin() + to, uint8_t{1});
    }
    text.learn.back() = 0;
  }
  return texts;
}

std::vector<std::string> contents(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    out.push_back(entry.path().filename().string() +
                  std::string((std::istreambuf_iterator<char>(file)), {}));
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

TEST_CASE("features: what a row holds is what the model computes there") {
  Rig rig;
  const TempDir dir;
  FeatureStore store((dir / "f"), {0, 1, 3}, 64, kPlenty);
  rig.add_all(store);
  CHECK(store.n_rows() == 19 + 26 + 0 + 19);
  REQUIRE(store.n_chunks() == 1);
  const FeatureChunk chunk = store.load(0);
  REQUIRE(chunk.rows == store.n_rows());
  int row = 0;
  const auto half = [](float v) { return half_to_float(float_to_half(v)); };
  const auto backend = rig.model.backend(Isa::kPortable, 2);
  for (const TrainingText& text : rig.texts) {
    backend->truncate(0);
    for (int pos = 0; pos + 1 < static_cast<int>(text.tokens.size()); ++pos) {
      backend->embed(0, text.tokens[pos]);
      std::vector<std::vector<float>> h;
      for (int l = 0; l <= 4; ++l) {
        if (l > 0) backend->run_layers(0, 1, pos, l, l);
        h.emplace_back(backend->inspect().hidden(0).begin(), backend->inspect().hidden(0).end());
      }
      if (!text.learn[pos]) continue;
      CAPTURE(row);
      CHECK(chunk.next[row] == text.tokens[pos + 1]);
      CHECK(chunk.follows[row] == (row > 0 && pos > 0 && text.learn[pos - 1]));
      const auto check = [&](const std::vector<float>& state, const float* got,
                             const float* weight) {
        double sum = 0;
        for (const float v : state) sum += double(v) * v;
        const float scale = static_cast<float>(1 / std::sqrt(sum / 64 + rig.model.config.norm_eps));
        for (int d = 0; d < 64; ++d) {
          const float v = state[d] * scale;
          if (got[d] != half(weight ? v * weight[d] : v)) return false;
        }
        return true;
      };
      const int layers[] = {0, 1, 3};
      for (int l = 0; l < 3; ++l) {
        CHECK(check(h[layers[l]], &chunk.x[l][row * 64], nullptr));
        double sum = 0;
        for (const float v : h[layers[l]]) sum += double(v) * v;
        CHECK(chunk.rms[l][row] ==
              doctest::Approx(std::sqrt(sum / 64 + rig.model.config.norm_eps)).epsilon(1e-6));
      }
      CHECK(check(h[4], &chunk.y[row * 64], rig.norm.data()));
      ++row;
    }
  }
  CHECK(row == chunk.rows);
}

TEST_CASE("features: chunks cut rows anywhere and say so") {
  Rig rig;
  const TempDir dir;
  FeatureStore whole((dir / "a"), {0, 2}, 64, kPlenty);
  rig.add_all(whole);
  FeatureStore cut((dir / "b"), {0, 2}, 64, kPlenty, 3000);
  rig.add_all(cut);
  CHECK(cut.n_chunks() > 5);
  const FeatureChunk a = joined(whole), b = joined(cut);
  CHECK(a.x == b.x);
  CHECK(a.rms == b.rms);
  CHECK(a.y == b.y);
  CHECK(a.next == b.next);
  for (int c = 0; c < cut.n_chunks(); ++c) CHECK(cut.load(c).follows[0] == 0);
  size_t on_disk = 0;
  for (const auto& entry : fs::directory_iterator((dir / "b"))) on_disk += entry.file_size();
  CHECK(on_disk == cut.bytes());
}

TEST_CASE("features: with prompts texts are whole, and without them what other heads see") {
  Rig rig;
  const TempDir dir;
  FeatureStore plain((dir / "a"), {0, 2}, 64, kPlenty);
  rig.add_all(plain);
  CHECK(plain.n_prompt_rows() == 0);
  for (const size_t chunk_bytes : {size_t{32} << 20, size_t{3000}}) {
    const std::string folder = dir / ("b" + std::to_string(chunk_bytes));
    FeatureStore whole(folder, {0, 2}, 64, kPlenty, chunk_bytes);
    whole.with_prompts();
    rig.add_all(whole);
    CHECK(whole.n_rows() == 59 + 99 + 19);  // up to the last row that is learnt from
    CHECK(whole.n_rows() - whole.n_prompt_rows() == plain.n_rows());
    const FeatureChunk all = joined(whole);
    size_t row = 0;
    for (const TrainingText& text : rig.texts) {
      const auto learns = [&](size_t pos) { return text.learn[pos] != 0; };
      size_t end = text.learn.size();
      while (end > 0 && !learns(end - 1)) --end;
      for (size_t pos = 0; pos < end; ++pos, ++row) {
        CHECK(all.next[row] == text.tokens[pos + 1]);
        CHECK(all.learns(static_cast<int>(row)) == learns(pos));
        if (whole.n_chunks() == 1) CHECK(all.follows[row] == (pos > 0));
      }
    }
    FeatureChunk learnt = learnt_rows(all);
    const FeatureChunk expected = joined(plain);
    CHECK(learnt.rows == expected.rows);
    CHECK(learnt.x == expected.x);
    CHECK(learnt.rms == expected.rms);
    CHECK(learnt.y == expected.y);
    CHECK(learnt.next == expected.next);
    if (whole.n_chunks() == 1) CHECK(learnt.follows == expected.follows);
    whole.keep();
    FeatureStore again(folder, {0, 2}, 64, kPlenty, chunk_bytes);
    again.with_prompts();
    CHECK(again.resume());
    CHECK(again.n_prompt_rows() == whole.n_prompt_rows());
  }
}

TEST_CASE("features: the bound holds to the byte and leaves what is there whole") {
  Rig rig;
  const TempDir dir;
  size_t need;
  {
    FeatureStore store((dir / "a"), {1}, 64, kPlenty, 3000);
    rig.add_all(store);
    need = store.bytes();
  }
  CHECK(fs::is_empty((dir / "a")));  // removed with the store
  FeatureStore exact((dir / "a"), {1}, 64, need, 3000);
  rig.add_all(exact);
  FeatureStore less((dir / "b"), {1}, 64, need - 1, 3000);
  FeaturePasses passes(less, *rig.backend, rig.norm);
  CHECK(passes.add(rig.texts[0]));
  CHECK(passes.add(rig.texts[1]));
  CHECK(passes.add(rig.texts[2]));
  CHECK_FALSE(passes.add(rig.texts[3]));
  CHECK(passes.learnt_rows() == 45);
  CHECK(passes.finish());
  less.finish();
  CHECK(less.n_rows() == 45);
  CHECK(joined(less).rows == 45);
  CHECK(less.bytes() < need);
}

TEST_CASE("features: a raised flag stops it") {
  Rig rig;
  const TempDir dir;
  FeatureStore store((dir / "a"), {1}, 64, kPlenty);
  std::atomic<bool> abort = false;
  FeaturePasses passes(store, *rig.backend, rig.norm, &abort);
  CHECK(passes.add(rig.texts[0]));
  abort = true;
  CHECK_FALSE(passes.add(rig.texts[1]));
  CHECK_FALSE(passes.leave_out());
  CHECK_FALSE(passes.finish());
  CHECK(store.n_rows() == 0);
}

TEST_CASE("features: what is left out is counted in its place") {
  Rig rig;
  const TempDir dir;
  FeatureStore store((dir / "a"), {1}, 64, kPlenty);
  FeaturePasses passes(store, *rig.backend, rig.norm);
  CHECK(passes.add(rig.texts[0]));
  CHECK(store.n_texts() == 0);  // its rows wait
  CHECK(passes.learnt_rows() == 19);
  CHECK(passes.leave_out());
  CHECK(store.n_texts() == 2);
  CHECK(passes.add(rig.texts[3]));
  CHECK(passes.finish());
  store.finish();
  CHECK(store.n_texts() == 3);
  CHECK(store.n_rows() == 38);
}

TEST_CASE("features: texts that share passes have the bytes of each alone") {
  TinySpec mixture;
  mixture.architecture = "qwen3moe";
  mixture.type = DType::kQ8_0;
  mixture.head_dim = 32;
  uint64_t seed = 1;
  for (const TinySpec& spec :
       {test::q8_0_spec(3), test::gemma2_spec(), test::gemma3_spec(), mixture}) {
    CAPTURE(spec.architecture);
    const test::TinyModel model(spec);
    const std::vector<int> layers = {0, 1};
    const std::span norm(model.weights.output_norm, static_cast<size_t>(model.config.dim));
    test::TinyRandom random(seed++);
    const std::vector<TrainingText> texts = random_texts(model.config.vocab_size, random);
    for (const bool prompts : {false, true}) {
      CAPTURE(prompts);
      const TempDir dir;
      const auto store_in = [&](const std::string& name, size_t chunk_bytes = 5000) {
        auto store = std::make_unique<FeatureStore>(dir / name, layers, model.config.dim, kPlenty,
                                                    chunk_bytes);
        if (prompts) store->with_prompts();
        return store;
      };
      const auto want = store_in("want");
      for (const TrainingText& text : texts) {
        // Alone, in slots, nothing there from before.
        test::ForwardingBackend slots(model.backend(Isa::kPortable, 1));
        FeaturePasses alone(*want, slots, norm);
        REQUIRE(alone.add(text));
        REQUIRE(alone.finish());
      }
      want->finish();
      for (const int sequences : {1, 2, 16, kTexts}) {
        CAPTURE(sequences);
        const int threads = 1 + sequences % 3;
        const auto backend = test::with_sequences(model, best_isa(), threads, sequences);
        const std::string name = "found" + std::to_string(sequences);
        auto found = store_in(name);
        add_all(*found, *backend, norm, texts);
        CHECK(contents(dir / name) == contents(dir / "want"));
        // After a kill behind any chunk, in other company.
        found.reset();
        for (const int kept : {0, 1, want->n_chunks() / 2, want->n_chunks() - 1}) {
          CAPTURE(kept);
          fs::create_directories(dir / name);
          for (int c = 0; c < kept; ++c) {
            const std::string file = format("/features-%05d.bin", c);
            fs::copy_file((dir / "want") + file, (dir / name) + file);
          }
          found = store_in(name);
          CHECK_FALSE(found->resume());
          add_all(*found, *backend, norm, texts);
          CHECK(contents(dir / name) == contents(dir / "want"));
          found.reset();
        }
      }
    }
  }
}

TEST_CASE("features: after a kill at any chunk the same files come out") {
  Rig rig;
  const TempDir dir;
  const std::vector<int> layers = {0, 2};
  FeatureStore want((dir / "want"), layers, 64, kPlenty, 3000);
  rig.add_all(want);
  for (int kept = 0; kept <= want.n_chunks(); ++kept) {
    const std::string folder = (dir / "f" + std::to_string(kept));
    fs::create_directories(folder);
    for (int c = 0; c < kept; ++c) {
      const std::string name = format("/features-%05d.bin", c);
      fs::copy_file((dir / "want") + name, folder + name);
    }
    FeatureStore store(folder, layers, 64, kPlenty, 3000);
    CHECK(store.resume() == (kept == want.n_chunks()));
    rig.add_all(store);
    CHECK(store.n_rows() == want.n_rows());
    CHECK(contents(folder) == contents((dir / "want")));
  }
}

TEST_CASE("features: keep() leaves the files, another store takes them up") {
  Rig rig;
  const TempDir dir;
  {
    FeatureStore store((dir / "f"), {1}, 64, kPlenty);
    rig.add_all(store);
    store.keep();
  }
  FeatureStore other((dir / "f"), {2}, 64, kPlenty);
  CHECK_FALSE(other.resume());
  FeatureStore same((dir / "f"), {1}, 64, kPlenty);
  CHECK(same.resume());
  CHECK(same.n_rows() == 64);
  CHECK(same.load(0).rows == 64);
}

TEST_CASE("features: damaged chunks are refused, truncated ones made again") {
  Rig rig;
  const TempDir dir;
  FeatureStore store((dir / "f"), {1}, 64, kPlenty);
  rig.add_all(store);
  const std::string path = (dir / "f") + "/features-00000.bin";
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  file.close();
  const auto put = [&](const std::string& b) { std::ofstream(path, std::ios::binary) << b; };
  for (size_t at = 0; at < bytes.size(); at += at < 100 ? 1 : 997) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    put(damaged);
    CAPTURE(at);
    check_mentions(expect_error(ErrorCode::kFormat, [&] { store.load(0); }), {path, "--fresh"});
  }
  for (const size_t n : {size_t{0}, size_t{10}, size_t{200}, bytes.size() - 1}) {
    put(bytes.substr(0, n));
    check_mentions(expect_error(ErrorCode::kFormat, [&] { store.load(0); }), {path, "--fresh"});
    FeatureStore again((dir / "f"), {1}, 64, kPlenty);
    CHECK_FALSE(again.resume());
    CHECK(again.n_texts() == 0);
    again.keep();
  }
  fs::remove(path);
  check_mentions(expect_error(ErrorCode::kFile, [&] { store.load(0); }), {path, "No such file"});
}

TEST_CASE("training folder: one run at a time, the same options, nothing left") {
  const TempDir dir;
  const std::string path = (dir / "t");
  const TrainingFolder::MadeWith one = {{"--seed", "1"}, {"data", "abc"}};
  const TrainingFolder::MadeWith two = {{"--seed", "2"}, {"data", "abc"}};
  using Begin = TrainingFolder::Begin;
  {
    TrainingFolder folder(path);
    CHECK_FALSE(folder.begin(one, Begin::kAny));
    std::ofstream(folder.texts()) << "x";
    check_mentions(expect_error(ErrorCode::kFile, [&] { TrainingFolder other(path); }),
                   {path, "another training"});
    fs::copy(path, (dir / "killed"), fs::copy_options::recursive);
  }
  CHECK_FALSE(fs::exists(path));
  const std::string killed = (dir / "killed");
  check_mentions(
      expect_error(ErrorCode::kUsage, [&] { TrainingFolder(killed).begin(two, Begin::kAny); }),
      {killed, "--seed 2, there: 1", "--fresh"});
  TrainingFolder::MadeWith more = one;
  more.emplace_back("--kv", "int8");
  check_mentions(
      expect_error(ErrorCode::kUsage, [&] { TrainingFolder(killed).begin(more, Begin::kAny); }),
      {killed, "--kv int8, there: none"});
  CHECK(fs::exists(killed + "/texts.bin"));  // a slip must not cost what is there
  {
    TrainingFolder folder(path);
    CHECK_FALSE(folder.begin(more, Begin::kAny));
    folder.keep();
  }
  check_mentions(
      expect_error(ErrorCode::kUsage, [&] { TrainingFolder(path).begin(one, Begin::kAny); }),
      {path, "no --kv, there: int8"});
  fs::remove_all(path);
  fs::copy(killed, (dir / "copy"), fs::copy_options::recursive);
  {
    TrainingFolder folder(killed);
    CHECK(folder.begin(one, Begin::kResume));
    CHECK(fs::exists(folder.texts()));
  }
  CHECK_FALSE(fs::exists(killed));
  {
    TrainingFolder folder((dir / "copy"));
    std::ofstream((dir / "copy") + "/notes.txt") << "mine";
    CHECK_FALSE(folder.begin(two, Begin::kFresh));
    CHECK_FALSE(fs::exists(folder.texts()));
  }
  CHECK(contents((dir / "copy")) == std::vector<std::string>{"notes.txtmine"});
  const auto refused = [&](const std::string& file, const std::string& text, Begin begin) {
    const std::string folder = (dir / "foreign");
    fs::create_directories(folder);
    std::ofstream(folder + "/" + file) << text;
    check_mentions(
        expect_error(ErrorCode::kUsage, [&] { TrainingFolder(folder).begin(one, begin); }),
        {folder, begin == Begin::kResume ? "--resume" : file});
    CHECK(contents(folder) == std::vector<std::string>{file + text});
    fs::remove_all(folder);
  };
  for (const Begin begin : {Begin::kAny, Begin::kFresh, Begin::kResume}) {
    refused("manifest.json", "{\"--seed\": \"1\", \"data\": \"abc\"}", begin);
    refused("manifest.json.bak", "{}", begin);
    refused("texts.bin.orig", "x", begin);
    refused("features-00000.bin", "x", begin);
    refused("notes.txt", "mine", begin);
  }
  {
    // In a folder of ours, others' files stay whatever they are called like.
    TrainingFolder folder((dir / "mixed"));
    CHECK_FALSE(folder.begin(one, Begin::kAny));
    for (const char* name :
         {"features-00000.bin", "features-1.bin", "features-00000.bin.bak", "texts.bin",
          "texts.bin.orig", "seconds.txt.12.tmp", "training.checkpoint.new"}) {
      std::ofstream((dir / "mixed") + "/" + name) << "";
    }
  }
  CHECK(contents((dir / "mixed")) ==
        std::vector<std::string>{"features-00000.bin.bak", "features-1.bin", "texts.bin.orig"});
  check_mentions(
      expect_error(ErrorCode::kUsage, [&] { TrainingFolder(path).begin(one, Begin::kResume); }),
      {"--resume"});
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("matrix floats: every type that a model's output has") {
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0}) {
    test::TinySpec spec;
    spec.type = type;
    const test::TinyModel model(spec);
    const std::vector<float> got = matrix_floats(model.weights.lm_head);
    test::TinySpec exact = spec;
    exact.type = DType::kF32;
    const test::TinyModel reference(exact);
    const std::vector<float> want = matrix_floats(reference.weights.lm_head);
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      REQUIRE(std::abs(got[i] - want[i]) <= (type == DType::kF32 ? 0.0f : 0.01f));
    }
  }
}

}  // namespace features_test
