// Hidden states on disk: the right numbers, the bound, damage, and going on after a kill.
#include "corpus/features.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "engine_rig.h"
#include "error.h"
#include "expect_error.h"
#include "features_rig.h"
#include "model/weights.h"
#include "numerics/half.h"
#include "temp_dir.h"
#include "train/training_folder.h"

namespace features_test {

using namespace specbound;
using namespace specbound::test::features;
using test::check_mentions;
using test::expect_error;
using test::TempDir;
namespace fs = std::filesystem;

namespace {

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
  const size_t bytes = passes.bytes();
  CHECK(less.bytes() < bytes);  // rows wait
  CHECK(passes.finish());
  CHECK(less.bytes() == bytes);
  less.finish();
  CHECK(less.n_rows() == 45);
  CHECK(joined(less).rows == 45);
  CHECK(less.bytes() < need);
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
          "texts.bin.damaged", "texts.bin.orig", "seconds.txt.tmp-12-0", "tuned.heads.gguf.12.tmp",
          "tuned.heads.gguf.12.tmp.tmp-12-0", "tuned.heads.gguf.bak", "training.checkpoint.new"}) {
      std::ofstream((dir / "mixed") + "/" + name) << "";
    }
  }
  CHECK(contents((dir / "mixed")) == std::vector<std::string>{"features-00000.bin.bak",
                                                              "features-1.bin", "texts.bin.orig",
                                                              "tuned.heads.gguf.bak"});
  // A kill while the folder was emptied leaves no training, and nothing in the next one's way.
  const std::string half = dir / "half", old = half + "/specbound-manifest.json.old";
  fs::create_directories(half);
  std::ofstream(half + "/features-00001.bin") << "x";
  std::ofstream(old) << "{\"specbound\": \"training folder\"}";
  std::ofstream(half + "/notes.txt") << "mine";
  check_mentions(
      expect_error(ErrorCode::kUsage, [&] { TrainingFolder(half).begin(one, Begin::kAny); }),
      {half, "notes.txt"});
  fs::remove(half + "/notes.txt");
  check_mentions(
      expect_error(ErrorCode::kUsage, [&] { TrainingFolder(half).begin(one, Begin::kResume); }),
      {"--resume"});
  {
    TrainingFolder folder(half);
    CHECK_FALSE(folder.begin(one, Begin::kAny));
    CHECK(contents(half).size() == 1);  // the new manifest
  }
  CHECK_FALSE(fs::exists(half));
  // What cannot be removed is no training either: the manifest went first.
  {
    TrainingFolder folder(half);
    CHECK_FALSE(folder.begin(one, Begin::kAny));
    fs::create_directories(half + "/texts.bin/full");
  }
  CHECK(fs::exists(old));
  CHECK_FALSE(fs::exists(half + "/manifest.json"));
  fs::remove_all(half + "/texts.bin");
  CHECK_FALSE(TrainingFolder(half).begin(one, Begin::kAny));
  CHECK_FALSE(fs::exists(half));
  check_mentions(
      expect_error(ErrorCode::kUsage, [&] { TrainingFolder(path).begin(one, Begin::kResume); }),
      {"--resume"});
  CHECK_FALSE(fs::exists(path));
  // Nor is a folder that was there removed where no training begins in it.
  fs::create_directory(path);
  expect_error(ErrorCode::kUsage, [&] { TrainingFolder(path).begin(one, Begin::kResume); });
  CHECK(fs::exists(path));
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
