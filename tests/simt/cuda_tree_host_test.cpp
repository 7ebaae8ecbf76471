// Rounds that are trees on the CUDA engine: the CPU backend's bits, and those of plain decoding.
// docs/architecture.md 3, 4.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "simt/cuda_rig.h"

namespace cuda_tree_host_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kPositions = 150;  // at most; crosses two attention chunks (64)

struct Rows {
  std::vector<int32_t> tokens;
  RowPaths paths;
};

// A chain now and then; in others half of the rows follow the one before, the rest any.
Rows random_rows(std::mt19937_64& random, int n, int vocab_size) {
  Rows rows;
  const bool chain = random() % 4 == 0;
  for (int slot = 0; slot < n; ++slot) {
    rows.tokens.push_back(static_cast<int32_t>(random() % vocab_size));
    if (slot == 0 || chain) continue;
    const int any = static_cast<int>(random() % slot);
    rows.paths.follow(slot, random() % 2 == 0 ? slot - 1 : any);
  }
  return rows;
}

// What a round leaves behind, to compare by.
struct Left {
  std::vector<float> hidden, logits;
  std::vector<uint16_t> kv;
  bool operator==(const Left& other) const {
    return hidden.size() == other.hidden.size() && logits.size() == other.logits.size() &&
           same_bits(hidden.data(), other.hidden.data(), hidden.size()) &&
           same_bits(logits.data(), other.logits.data(), logits.size()) && kv == other.kv;
  }
};

void add_kv(const Backend& backend, int begin, int end, std::vector<uint16_t>& kv) {
  const size_t kv_dim = backend.config().kv_dim();
  for (int l = 1; l <= backend.config().n_layers; ++l) {
    for (int at = begin; at < end; ++at) {
      kv.resize(kv.size() + 2 * kv_dim);
      uint16_t* k = kv.data() + kv.size() - 2 * kv_dim;
      backend.inspect().read_kv(l, at, {k, kv_dim}, {k + kv_dim, kv_dim});
    }
  }
}

void add_hidden(const Backend& backend, int slot, std::vector<float>& hidden) {
  const std::span<const float> h = backend.inspect().hidden(slot);
  hidden.insert(hidden.end(), h.begin(), h.end());
}

// A row drafts behind others as deep as `schedule` has it, rows that lag catch up, and in the end
// all go through all layers, in stretches.
Left run_round(Backend& backend, const Rows& rows, int pos, std::mt19937_64 schedule) {
  const ModelConfig& c = backend.config();
  const int n = static_cast<int>(rows.tokens.size());
  Left left;
  for (int done = 0; done < n;) {
    const int end = std::min(n, done + 1 + static_cast<int>(schedule() % 5));
    for (int slot = done; slot < end; ++slot) {
      backend.embed(slot, rows.tokens[slot]);
      const RowPath& path = rows.paths[slot];
      if (!path.straight) backend.follow(slot, path.slots[path.depth - 1]);
      if (schedule() % 4 == 0) add_hidden(backend, slot, left.hidden);
    }
    done = end;
    const int depth = done == n ? c.n_layers : static_cast<int>(schedule() % (c.n_layers + 1));
    for (int from = 1, to; from <= depth; from = to + 1) {
      to = from;
      const int len = backend.kv_len(from);
      while (to < depth && backend.kv_len(to + 1) == len && schedule() % 2 == 0) ++to;
      if (len == pos + done) continue;
      backend.run_layers(len - pos, pos + done - len, len, from, to);
      for (int slot = len - pos; slot < done; ++slot) add_hidden(backend, slot, left.hidden);
    }
  }
  left.logits.resize(static_cast<size_t>(n) * c.vocab_size);
  backend.logits(0, n, left.logits.data());
  add_kv(backend, pos, pos + n, left.kv);
  return left;
}

std::vector<TinySpec> specs() {
  TinySpec llama = q8_0_spec(3);
  TinySpec qwen3 = q8_0_spec(2);
  qwen3.architecture = "qwen3";
  qwen3.head_dim = 24;
  const TinySpec gemma2 = windowed_spec(2);
  TinySpec mistral = q8_0_spec(2);
  mistral.window = 6;
  mistral.n_heads = 8;
  mistral.n_kv_heads = 1;
  mistral.head_dim = 8;
  return {llama, qwen3, gemma2, mistral};
}

}  // namespace

TEST_CASE("CUDA engine, trees: the CPU backend's bits and plain decoding's, whatever rows follow") {
  uint64_t seed = 1;
  for (const TinySpec& spec : specs()) {
    for (const int first : {0, 40}) {
      const KvType kv = kKvTypesTested[seed / 2 % 2];  // each with graphs and without
      CAPTURE(spec.architecture);
      CAPTURE(first);
      CAPTURE(kv_type_name(kv));
      const TinyModel model(spec, kv);
      const ModelConfig& c = model.config;
      const auto cpu = model.backend(best_isa(), 1), plain = model.backend(best_isa(), 1);
      simt::DeviceLog log;
      {
        CudaOptions options;
        options.graphs = first == 0;
        const auto gpu = cuda_backend(model, options, &log);
        std::mt19937_64 random(++seed);
        const std::vector<int32_t> ids = token_ids(first, c.vocab_size);
        Record ignored(c, first);
        for (Backend* backend : {gpu.get(), cpu.get(), plain.get()}) {
          run_positions(*backend, ids, 0, first, 16, 0, ignored);
        }
        std::vector<float> z(c.vocab_size);
        for (int pos = first; pos + kMaxRows <= kPositions;) {
          CAPTURE(pos);
          const int n = 1 + static_cast<int>(random() % kMaxRows);
          const Rows rows = random_rows(random, n, c.vocab_size);
          const std::mt19937_64 schedule(random());
          const Left found = run_round(*gpu, rows, pos, schedule);
          REQUIRE(found == run_round(*cpu, rows, pos, schedule));

          const int kept = static_cast<int>(random() % n);
          const RowPath& path = rows.paths[kept];
          for (Backend* backend : {gpu.get(), cpu.get()}) backend->keep_path(pos, path);
          for (int d = 0; d <= path.depth; ++d) {
            const int slot = path.slots[d];
            plain->embed(0, rows.tokens[slot]);
            plain->run_layers(0, 1, pos + d, 1, c.n_layers);
            plain->logits(0, 1, z.data());
            REQUIRE(same_bits(z.data(), &found.logits[size_t(slot) * c.vocab_size], z.size()));
          }
          pos += path.depth + 1;
          std::vector<uint16_t> of_gpu, of_plain;
          for (int l = 1; l <= c.n_layers; ++l) REQUIRE(gpu->kv_len(l) == pos);
          add_kv(*gpu, std::max(0, pos - 32), pos, of_gpu);
          add_kv(*plain, std::max(0, pos - 32), pos, of_plain);
          REQUIRE(of_gpu == of_plain);
        }
        REQUIRE((log.graph_launches > 0) == options.graphs);
      }
      REQUIRE(log.live == 0);
      REQUIRE(log.wrong == "");
    }
  }
}

TEST_CASE("CUDA engine, trees: rounds of every number of rows around the border of a chunk") {
  const TinyModel model(q8_0_spec(2));
  const ModelConfig& c = model.config;
  const auto cpu = model.backend(best_isa(), 1), gpu = cuda_backend(model);
  const std::vector<int32_t> ids = token_ids(68, c.vocab_size);
  Record ignored(c, 68);
  for (Backend* backend : {cpu.get(), gpu.get()}) {
    run_positions(*backend, ids, 0, 68, 16, 0, ignored);
  }
  std::mt19937_64 random(5);
  for (int pos = 68; pos > 45; pos -= 1 + static_cast<int>(random() % 2)) {
    for (const int n : {kMaxRows, 1 + static_cast<int>(random() % kMaxRows)}) {
      CAPTURE(pos);
      CAPTURE(n);
      const Rows rows = random_rows(random, n, c.vocab_size);
      const std::mt19937_64 schedule(random());
      for (Backend* backend : {cpu.get(), gpu.get()}) backend->truncate(pos);
      REQUIRE(run_round(*gpu, rows, pos, schedule) == run_round(*cpu, rows, pos, schedule));
    }
  }
}

TEST_CASE("first layers on a GPU, trees: the bits of the CPU alone, and of the path that stays") {
  uint64_t seed = 3;
  for (const TinySpec& spec : specs()) {
    const TinyModel model(spec);
    const ModelConfig& c = model.config;
    for (int n_first = 1; n_first <= c.n_layers; ++n_first) {
      CAPTURE(spec.architecture);
      CAPTURE(n_first);
      const auto split = split_backend(model, n_first), cpu = model.backend(best_isa(), 1);
      std::mt19937_64 random(++seed);
      const std::vector<int32_t> ids = token_ids(56, c.vocab_size);
      for (Backend* backend : {split.get(), cpu.get()}) backend->prefill(ids);
      for (int pos = 56; pos < 80;) {
        CAPTURE(pos);
        const int n = 2 + static_cast<int>(random() % (kMaxRows - 1));
        const Rows rows = random_rows(random, n, c.vocab_size);
        const std::mt19937_64 schedule(random());
        REQUIRE(run_round(*split, rows, pos, schedule) == run_round(*cpu, rows, pos, schedule));
        const int kept = static_cast<int>(random() % n);
        pos += rows.paths[kept].depth + 1;
        std::vector<uint16_t> found, expected;
        for (Backend* backend : {split.get(), cpu.get()}) {
          backend->keep_path(pos - rows.paths[kept].depth - 1, rows.paths[kept]);
          for (int l = 1; l <= c.n_layers; ++l) REQUIRE(backend->kv_len(l) == pos);
          add_kv(*backend, 0, pos, backend == cpu.get() ? expected : found);
        }
        REQUIRE(found == expected);
      }
    }
  }
}

TEST_CASE("CUDA engine, trees: an embedded row follows all before it again") {
  const TinyModel model(q8_0_spec(2));
  const auto cpu = model.backend(best_isa(), 1), gpu = cuda_backend(model);
  std::vector<std::vector<float>> found;
  for (Backend* backend : {cpu.get(), gpu.get()}) {
    for (const bool follow : {true, false}) {
      backend->truncate(0);
      for (int slot = 0; slot < 4; ++slot) backend->embed(slot, 3 + slot);
      RowPaths paths;
      for (const int slot : {2, 3}) {
        const int parent = slot == 2 ? 0 : 2;
        if (!follow) continue;
        backend->follow(slot, parent);
        paths.follow(slot, parent);
      }
      backend->run_layers(0, 4, 0, 1, 2);
      std::vector<float>& hidden = found.emplace_back();
      for (int slot = 0; slot < 4; ++slot) add_hidden(*backend, slot, hidden);
      backend->keep_path(0, paths[3]);
      for (int l = 1; l <= 2; ++l) REQUIRE(backend->kv_len(l) == (follow ? 3 : 4));
    }
  }
  REQUIRE(found[0] == found[2]);
  REQUIRE(found[1] == found[3]);
  REQUIRE(found[0] != found[1]);
}

}  // namespace cuda_tree_host_test
