// The exactness contract (DESIGN 4) by memcmp: a row's bits at every layer, its logits, its K and
// V, whatever the instruction set, the row count, the slot, the thread count, the weights' layout,
// and however the rows were cut into passes.
#include <doctest/doctest.h>

#include "engine_rig.h"

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kPositions = 76;  // crosses an attention chunk (64) and several key blocks (16)
constexpr int kPrefix = 52;     // rows 52..75 are the ones cut in every way

struct Case {
  const char* name;
  TinySpec spec;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  TinySpec q8;
  q8.type = DType::kQ8_0;
  q8.ffn_dim = 2080;  // 65 blocks: four chunks of K
  all.push_back({"llama Q8_0", q8});
  q8.architecture = "qwen3";
  q8.dim = 1024;  // two chunks
  q8.ffn_dim = 64;
  q8.head_dim = 32;
  q8.n_layers = 1;
  q8.tied = true;
  all.push_back({"qwen3 Q8_0", q8});
  TinySpec f32;
  f32.ffn_dim = 172;  // no multiple of 32
  f32.head_dim = 8;   // below a vector
  f32.n_heads = 8;
  f32.n_kv_heads = 4;
  all.push_back({"llama F32", f32});
  TinySpec f16;
  f16.architecture = "qwen2";
  f16.type = DType::kF16;
  f16.dim = 72;
  f16.head_dim = 24;
  f16.rope_freqs = true;
  all.push_back({"qwen2 F16", f16});
  TinySpec bf16;
  bf16.type = DType::kBF16;
  bf16.types["ffn_down.weight"] = DType::kQ8_0;  // floats and INT8 in one layer
  bf16.types["attn_v.weight"] = DType::kQ8_0;
  bf16.output_bias = true;
  bf16.n_kv_heads = 1;
  all.push_back({"llama BF16 and Q8_0", bf16});
  return all;
}

// One row at a time on one thread of the portable kernels: what everything else must equal.
Record reference(const TinyModel& model, const std::vector<int32_t>& ids) {
  Record record(model.config, kPositions);
  auto backend = model.backend(Isa::kPortable, 1);
  run_positions(*backend, ids, 0, kPositions, 1, 0, record);
  return record;
}

}  // namespace

TEST_CASE("rows do not depend on row count, slot, instruction set or layout") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const TinyModel model(c.spec);
    const std::vector<int32_t> ids = token_ids(kPositions, model.config.vocab_size);
    const Record expected = reference(model, ids);
    for (Isa isa : supported_isas()) {
      for (bool repack : {true, false}) {
        CAPTURE(isa_name(isa));
        CAPTURE(repack);
        auto backend = model.backend(isa, 1, repack);
        Record record = expected;
        run_positions(*backend, ids, 0, kPrefix, 1, 0, record);
        REQUIRE(Record::difference(record, expected, 0, kPrefix) == "");
        for (int rows = 1; rows <= kMaxRows; ++rows) {
          // The first pass starts at a different row each time, so that every row meets every slot.
          const int slot = (rows * 5) % (kMaxRows - rows + 1);
          CAPTURE(rows);
          CAPTURE(slot);
          backend->truncate(kPrefix);
          Record cut(model.config, kPositions);
          run_positions(*backend, ids, kPrefix, kPositions, rows, slot, cut);
          REQUIRE(Record::difference(cut, expected, kPrefix, kPositions) == "");
        }
      }
    }
  }
}

TEST_CASE("every slot gives the same row") {
  const TinyModel model(cases()[0].spec);
  const std::vector<int32_t> ids = token_ids(kPositions, model.config.vocab_size);
  const Record expected = reference(model, ids);
  auto backend = model.backend(best_isa(), 1);
  backend->prefill({ids.data(), kPrefix});
  for (int slot = 0; slot < kMaxRows; ++slot) {
    for (int rows = 1; slot + rows <= kMaxRows; ++rows) {
      CAPTURE(slot);
      CAPTURE(rows);
      backend->truncate(kPrefix);
      Record record(model.config, kPositions);
      run_positions(*backend, ids, kPrefix, kPrefix + rows, rows, slot, record);
      REQUIRE(Record::difference(record, expected, kPrefix, kPrefix + rows) == "");
    }
  }
}

TEST_CASE("thread count changes no bit") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const TinyModel model(c.spec);
    const std::vector<int32_t> ids = token_ids(kPositions, model.config.vocab_size);
    const Record expected = reference(model, ids);
    for (int threads : {1, 2, 3}) {
      for (int rows : {1, 2, 3, 11}) {
        CAPTURE(threads);
        CAPTURE(rows);
        auto backend = model.backend(best_isa(), threads);
        Record record(model.config, kPositions);
        run_positions(*backend, ids, 0, kPositions, rows, 0, record);
        REQUIRE(Record::difference(record, expected, 0, kPositions) == "");
      }
    }
  }
}

TEST_CASE("prefill equals decoding, across chunks and in several calls") {
  TinySpec spec;
  spec.type = DType::kQ8_0;
  spec.max_seq_len = 1200;
  const TinyModel model(spec);
  constexpr int kLong = 2 * kPrefillChunk + 70;
  const std::vector<int32_t> ids = token_ids(kLong + 1, model.config.vocab_size);
  Record expected(model.config, kLong + 1);
  auto decoding = model.backend(best_isa(), 2);
  run_positions(*decoding, ids, 0, kLong + 1, 16, 0, expected);
  for (const std::vector<int>& parts :
       {std::vector<int>{kLong}, {1, kLong - 1}, {kPrefillChunk + 3, kLong - kPrefillChunk - 3}}) {
    auto backend = model.backend(best_isa(), 2);
    int done = 0;
    for (int part : parts) {
      backend->prefill({ids.data() + done, static_cast<size_t>(part)});
      done += part;
      for (int l = 1; l <= model.config.n_layers; ++l) REQUIRE(backend->kv_len(l) == done);
    }
    Record record = expected;
    for (int pos = 0; pos < kLong; ++pos) record.read_kv(*backend, pos);
    run_positions(*backend, ids, kLong, kLong + 1, 1, 0, record);
    REQUIRE(Record::difference(record, expected, 0, kLong + 1) == "");
  }
}

// Rows at different depths that catch up in one batch, as drafting and verifying cut them.
TEST_CASE("layer ranges cut in any way give the same rows") {
  TinySpec spec;
  spec.type = DType::kQ8_0;
  spec.n_layers = 6;
  const TinyModel model(spec);
  const std::vector<int32_t> ids = token_ids(kPositions, model.config.vocab_size);
  const Record expected = reference(model, ids);
  TinyRandom random(3);
  auto backend = model.backend(best_isa(), 2);
  for (int trial = 0; trial < 200; ++trial) {
    const int pos = static_cast<int>(random.next() % (kPositions - kMaxRows));
    backend->truncate(0);
    backend->prefill({ids.data(), static_cast<size_t>(pos)});
    const int rows = 1 + static_cast<int>(random.next() % kMaxRows);
    const auto run_to = [&](int newest, int depth) {  // rows 0..newest through layers 1..depth
      for (int l = 1; l <= depth; ++l) {
        const int first = backend->kv_len(l) - pos;
        if (first > newest) continue;
        backend->run_layers(first, newest - first + 1, pos + first, l, l);
      }
    };
    for (int j = 0; j < rows; ++j) {
      backend->embed(j, ids[pos + j]);
      run_to(j, 1 + static_cast<int>(random.next() % 5));
    }
    run_to(rows - 1, 6);
    for (int j = 0; j < rows; ++j) {
      CAPTURE(pos + j);
      Record record(model.config, kPositions);
      backend->logits(j, 1, record.logits_at(pos + j));
      record.read_kv(*backend, pos + j);
      const size_t last = (size_t(pos + j) * 6 + 5) * record.dim;
      REQUIRE(same_bits(backend->hidden(j).data(), &expected.hidden[last], record.dim));
      std::memcpy(record.hidden_at(pos + j, 1), &expected.hidden[last - 5 * record.dim],
                  6 * record.dim * sizeof(float));
      REQUIRE(Record::difference(record, expected, pos + j, pos + j + 1) == "");
    }
  }
}

TEST_CASE("what a rejected row left in the cache is never read") {
  const TinyModel model(cases()[2].spec);
  const std::vector<int32_t> ids = token_ids(kPositions, model.config.vocab_size);
  const Record expected = reference(model, ids);
  auto backend = model.backend(best_isa(), 1);
  Record wrong(model.config, kPositions), record(model.config, kPositions);
  const std::vector<int32_t> other = token_ids(kPositions, model.config.vocab_size, 99);
  run_positions(*backend, other, 0, kPositions, 4, 0, wrong);
  CHECK(Record::difference(wrong, expected, 0, kPositions) != "");  // the comparison can fail
  backend->truncate(0);
  run_positions(*backend, ids, 0, kPositions, 5, 0, record);
  REQUIRE(Record::difference(record, expected, 0, kPositions) == "");
}
