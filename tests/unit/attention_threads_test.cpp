// Attention over the rows of a pass by several threads, whole tasks and cut ones: every query has
// the bits that the kernel gives it alone.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <vector>

#include "engine/cpu/attention.h"
#include "engine_rig.h"
#include "numerics/float_mode.h"
#include "sanitized.h"

namespace attention_threads_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kContext = 900;

struct Shape {
  int head_dim, kv_heads, group, window;
  float softcap;
  KvType kv = KvType::kFp16;
};

ModelConfig config_of(const Shape& shape) {
  ModelConfig config;
  config.n_layers = 1;
  config.head_dim = shape.head_dim;
  config.n_kv_heads = shape.kv_heads;
  config.n_heads = shape.kv_heads * shape.group;
  config.window = shape.window;
  config.attn_softcap = shape.softcap;
  config.score_scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
  return config;
}

void fill(const Kernels& kernels, const ModelConfig& config, TinyRandom& random, Sequence& text) {
  std::vector<float> k(config.head_dim), v(config.head_dim);
  for (int head = 0; head < config.n_kv_heads; ++head) {
    for (int pos = 0; pos < kContext; ++pos) {
      for (float& x : k) x = random.normal();
      for (float& x : v) x = random.normal();
      kernels.store_kv(k.data(), v.data(), config.head_dim, pos, text.kv.head(1, head));
    }
  }
}

// (rows, q_dim): each query alone.
std::vector<float> alone(const Kernels& kernels, const ModelConfig& config, const Outputs& q,
                         const PassRows& rows) {
  const int head_dim = config.head_dim, q_dim = config.n_heads * head_dim;
  std::vector<float> out(static_cast<size_t>(rows.n()) * q_dim), scratch(head_dim + 16 + 2);
  for (int row = 0; row < rows.n(); ++row) {
    for (int head = 0; head < config.n_heads; ++head) {
      Query query{q.at(row, head * head_dim), &out[size_t(row) * q_dim + head * head_dim],
                  rows.position(row)};
      if (config.window > 0) query.first = std::max(0, query.pos - config.window + 1);
      if (const RowPath* path = rows.tree(row)) {
        query.path = path->slots.data();
        query.root = rows.root(row);
      }
      const int kv_head = head / (config.n_heads / config.n_kv_heads);
      kernels.attention(rows.sequence_of(row).kv.head(1, kv_head), &query, 1, head_dim,
                        config.score_scale, config.attn_softcap, scratch.data());
    }
  }
  return out;
}

class Threads {
 public:
  Threads(const ModelConfig& config, const Kernels& kernels, int n)
      : n(n),
        config_(config),
        pool_(n),
        attended_(kMaxRows, config.q_dim()),
        attention_(config_, kernels, pool_, false, kContext) {}

  const int n;

  // Whether the rows have these bits, and their blocks those of these numbers.
  bool give(const Kernels& kernels, const Outputs& q, const PassRows& rows,
            const std::vector<float>& expected) {
    const int q_dim = config_.q_dim();
    const Rows quantized = attended_.rows(rows.n(), q_dim, nullptr, 0);
    const size_t size = static_cast<size_t>(rows.n()) * q_dim;
    std::fill_n(attended_.row(0), size, 1e9f);  // nothing is left of the call before
    const QuantRows& found = quantized.quantized;
    const size_t n_blocks = size / kQuantBlock;
    std::fill_n(found.q, size, int8_t{99});
    std::fill_n(found.blocks, n_blocks, RowBlock{99, 99, 99, {99, 99}});
    attention_.plan(rows);
    pool_.run([&](int thread) { attention_.run(thread, q, 1, rows, attended_, &quantized); });
    RowBuffer again(rows.n(), q_dim);
    const Rows blocks = again.rows(rows.n(), q_dim, nullptr, 0);
    bool same = true;
    for (int row = 0; row < rows.n(); ++row) {
      const float* own = &expected[size_t(row) * q_dim];
      kernels.quantize(own, row, 0, blocks.quantized.n_blocks(), blocks.quantized);
      same = same && same_bits(attended_.row(row), own, q_dim);
    }
    const QuantRows& own = blocks.quantized;
    return same && same_bits(own.q, found.q, size) && same_bits(own.blocks, found.blocks, n_blocks);
  }

 private:
  ModelConfig config_;
  ThreadPool pool_;
  RowBuffer attended_;
  Attention attention_;
};

}  // namespace

TEST_CASE("attention by several threads: the bits of each query alone, however tasks are cut") {
  const FloatMode mode;
  TinyRandom random(11);
  for (const Shape& shape :
       {Shape{64, 3, 3, 0, 0}, Shape{64, 1, 1, 0, 30}, Shape{96, 1, 7, 0, 0},
        Shape{64, 2, 4, 300, 0}, Shape{64, 3, 3, 0, 0, KvType::kInt8},
        Shape{96, 1, 7, 0, 30, KvType::kInt8}, Shape{32, 2, 4, 300, 0, KvType::kInt8}}) {
    const ModelConfig config = config_of(shape);
    std::vector<float> numbers(size_t(kMaxRows) * config.q_dim());
    for (float& x : numbers) x = random.normal();
    const Outputs q{numbers.data(), config.q_dim()};
    for (const Isa isa : supported_isas()) {
      const Kernels& kernels = kernels_for(isa);
      std::vector<Sequence> texts;
      for (int i = 0; i < 3; ++i) {
        texts.push_back({KvCache(config, kContext, 0, shape.kv), KvLengths(1)});
        fill(kernels, config, random, texts.back());
      }
      std::deque<Threads> all;
      for (const int n : some_of({1, 2, 3, 5, 8})) all.emplace_back(config, kernels, n);
      const auto check = [&](const PassRows& rows) {
        const std::vector<float> expected = alone(kernels, config, q, rows);
        for (Threads& threads : all) {
          CAPTURE(isa_name(isa));
          CAPTURE(shape.kv_heads);
          CAPTURE(threads.n);
          CAPTURE(rows.n());
          CAPTURE(rows.place(0));
          CHECK(threads.give(kernels, q, rows, expected));
        }
      };
      for (const int n : some_of({1, 2, 4, 7, 16})) {
        // 740: windows of 300 begin in different chunks.
        for (const int pos : {0, 60, 130, 740, kContext - n}) {
          TextRows rows{&texts[0], n, pos};
          check(PassRows(rows));
          RowPaths paths;
          for (int slot = 1; slot < n; ++slot) {
            if (random.next() % 2) paths.follow(slot, static_cast<int>(random.next() % slot));
          }
          rows.paths = &paths[0];
          check(PassRows(rows));
        }
      }
      // Texts of different lengths, of one row each, then trees of them.
      for (int most = 1; most <= 5; ++most) {
        std::vector<TextRows> apart;
        std::deque<RowPaths> paths;
        int first = 0;
        for (Sequence& text : texts) {
          const int n = 1 + static_cast<int>(random.next() % most);
          const int pos = static_cast<int>(random.next() % (kContext - n));
          RowPaths& tree = paths.emplace_back();
          for (int slot = 1; slot < n; ++slot) {
            tree.follow(slot, static_cast<int>(random.next() % slot));
          }
          apart.push_back({&text, n, pos, &tree[0], 0, first});
          first += n;
        }
        check(PassRows(apart));
      }
    }
  }
}

// A thread that would begin in the last chunk of a text's many rows, nearer to its end, begins with
// the next text, whose chunks cost a third.
TEST_CASE("attention by several threads: texts of many rows beside texts of one") {
  const FloatMode mode;
  TinyRandom random(12);
  const ModelConfig config = config_of({64, 5, 3, 0, 0});
  const Kernels& kernels = kernels_for(best_isa());
  std::vector<float> numbers(size_t(kMaxRows) * config.q_dim());
  for (float& x : numbers) x = random.normal();
  const Outputs q{numbers.data(), config.q_dim()};
  std::vector<Sequence> texts;
  for (int i = 0; i < 3; ++i) {
    texts.push_back({KvCache(config, kContext, 0, KvType::kFp16), KvLengths(1)});
    fill(kernels, config, random, texts.back());
  }
  std::deque<Threads> all;
  for (const int n : {2, 3, 8}) all.emplace_back(config, kernels, n);
  const auto check = [&](const std::vector<TextRows>& rows) {
    const PassRows pass(rows);
    const std::vector<float> expected = alone(kernels, config, q, pass);
    for (Threads& threads : all) {
      CAPTURE(threads.n);
      REQUIRE(threads.give(kernels, q, pass, expected));
    }
  };
  check({{&texts[0], 12, 71, nullptr, 0, 0}, {&texts[1], 1, 889, nullptr, 0, 12}});
  for (int pass = 0; pass < 300; ++pass) {
    std::vector<TextRows> rows;
    int first = 0;
    for (Sequence& text : texts) {
      const bool one = random.next() % 2;
      const int n = one ? 1 : 1 + static_cast<int>(random.next() % (kMaxRows - 2 - first));
      const int pos = static_cast<int>(random.next() % (kContext - n));
      rows.push_back({&text, n, pos, nullptr, 0, first});
      first += n;
      if (first + 3 > kMaxRows) break;
    }
    check(rows);
  }
}

TEST_CASE("a backend that cuts attention in some layers: rows of one thread's") {
  constexpr int kPrompt = 300;
  TinySpec spec = gemma2_spec();  // every other layer has a window
  spec.head_dim = 64;
  spec.n_kv_heads = 3;
  spec.n_heads = 9;
  spec.window = 150;
  spec.max_seq_len = kPrompt + kMaxRows;
  const TinyModel model(spec);
  const std::vector<int32_t> ids = token_ids(spec.max_seq_len, model.config.vocab_size, 12);
  std::vector<float> expected;
  for (const int threads : {1, 2, 5}) {
    CAPTURE(threads);
    auto backend = model.backend(best_isa(), threads);
    backend->prefill(std::span(ids).first(kPrompt));
    std::vector<float> logits(size_t(kMaxRows) * model.config.vocab_size), all;
    for (const int n : {1, 3, kMaxRows}) {
      backend->truncate(kPrompt);
      for (int slot = 0; slot < n; ++slot) backend->embed(slot, ids[kPrompt + slot]);
      for (int slot = 0; slot < n; ++slot) {  // drafted row by row through the first layer
        backend->run_layers(slot, 1, kPrompt + slot, 1, 1);
      }
      backend->run_layers(0, n, kPrompt, 2, model.config.n_layers);
      backend->logits(0, n, logits.data());
      all.insert(all.end(), logits.begin(), logits.begin() + size_t(n) * model.config.vocab_size);
    }
    if (expected.empty()) expected = all;
    REQUIRE(all.size() == expected.size());
    CHECK(same_bits(all.data(), expected.data(), all.size()));
  }
}

}  // namespace attention_threads_test
