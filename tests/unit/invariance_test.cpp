// The exactness contract (docs/architecture.md 4) by memcmp: a row's bits at every layer, its
// logits, its K and V, whatever the instruction set, the row count, the slot, the thread count, the
// weights' layout, and however the rows were cut into passes.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <limits>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "engine_rig.h"
#include "sanitized.h"

namespace invariance_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kPositions = 76;  // crosses an attention chunk (64) and several key blocks (16)
constexpr int kPrefix = 52;     // rows 52..75 are the ones cut in every way

struct Case {
  std::string name;
  TinySpec spec;
  KvType kv = KvType::kFp16;
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
  all.push_back({"gemma2 Q8_0", gemma2_spec()});  // the last rows' chunk outgrows its window
  all.push_back({"gemma3 Q8_0", gemma3_spec()});
  TinySpec phi3;  // rows of fused matrices, parts of heads rotated
  phi3.architecture = "phi3";
  phi3.type = DType::kF16;
  phi3.dim = 40;
  phi3.ffn_dim = 48;
  phi3.head_dim = 24;
  phi3.rope_dim = 14;
  phi3.long_rope = true;
  phi3.window = 30;
  all.push_back({"phi3 F16", phi3});
  TinySpec smollm3;
  smollm3.architecture = "smollm3";
  smollm3.type = DType::kQ8_0;
  smollm3.n_layers = 4;  // the last one rotates nothing
  smollm3.dim = smollm3.ffn_dim = 32;
  all.push_back({"smollm3 Q8_0", smollm3});
  TinySpec q4_0;
  q4_0.type = DType::kQ4_0;
  q4_0.ffn_dim = 1056;  // 33 blocks: two chunks of K
  q4_0.n_layers = 1;
  all.push_back({"llama Q4_0", q4_0});
  TinySpec q4_k;  // as Q4_K_M mixes, and what else is converted
  q4_k.type = DType::kQ4_K;
  q4_k.dim = 256;
  q4_k.n_heads = 8;
  q4_k.head_dim = 32;
  q4_k.ffn_dim = 1280;  // 40 blocks: chunks end in the middle of a super-block
  q4_k.n_layers = 1;
  q4_k.types["attn_v.weight"] = DType::kQ6_K;
  q4_k.types["attn_output.weight"] = DType::kQ3_K;
  q4_k.types["token_embd.weight"] = DType::kQ6_K;
  q4_k.tied = true;
  all.push_back({"llama Q4_K and Q6_K", q4_k});
  TinySpec five = q4_k;
  five.type = DType::kQ5_K;
  five.types = {{"attn_v.weight", DType::kQ5_0}, {"ffn_down.weight", DType::kQ5_1}};
  all.push_back({"llama of 5 bits", five});
  TinySpec yarn = gemma3_spec();  // in the last layer
  yarn.metadata = [](GgufWriter& w) {
    w.add_string("gemma3.rope.scaling.type", "yarn");
    w.add_float("gemma3.rope.scaling.factor", 4);
    w.add_uint("gemma3.rope.scaling.original_context_length", 64);
  };
  all.push_back({"gemma3 Q8_0, YaRN", yarn});
  TinySpec experts;
  experts.architecture = "qwen3moe";
  experts.type = DType::kQ8_0;
  experts.types["ffn_gate_inp.weight"] = DType::kF32;
  experts.ffn_dim = 1056;
  experts.n_experts = 7;
  experts.n_experts_used = 3;
  all.push_back({"qwen3moe Q8_0", experts});
  experts.types["ffn_gate_inp.weight"] = DType::kQ8_0;
  experts.types["ffn_gate_exps.weight"] = DType::kF16;  // floats and INT8 in one expert
  experts.ffn_dim = 96;
  experts.n_layers = 1;
  all.push_back({"qwen3moe F16 and Q8_0", experts});
  experts.type = DType::kBF16;
  experts.types.clear();
  experts.dim = 40;
  experts.ffn_dim = 44;  // no multiple of 32
  experts.n_experts_used = 7;
  all.push_back({"qwen3moe BF16", experts});
  const size_t n = all.size();
  for (size_t i = 0; i < n; ++i) {
    // Heads of 8 to 32 numbers, windows, one K/V head for several threads.
    if (i > 8 && i != 12) continue;
    all.push_back({all[i].name + ", K/V INT8", all[i].spec, KvType::kInt8});
  }
  return all;
}

#if defined(__x86_64__)
float volatile_half() {
  volatile float half = 0.5f;
  return half;
}
#endif

// One row at a time on one thread of the portable kernels: what everything else must equal.
Record reference(const TinyModel& model, const std::vector<int32_t>& ids) {
  Record record(model.config, kPositions);
  auto backend = model.backend(Isa::kPortable, 1);
  run_positions(*backend, ids, 0, kPositions, 1, 0, record);
  return record;
}

// A model, the ids it reads, and what every way of reading them must leave behind.
struct Subject {
  TinyModel model;
  std::vector<int32_t> ids;
  Record expected;

  explicit Subject(const Case& c)
      : model(c.spec, c.kv),
        ids(token_ids(kPositions, model.config.vocab_size)),
        expected(reference(model, ids)) {}
};

// All but the last id by prefill, in calls of `parts` tokens, the last one by decoding.
void check_prefill(Backend& backend, const std::vector<int32_t>& ids, const std::vector<int>& parts,
                   const Record& expected) {
  int done = 0;
  for (int part : parts) {
    backend.prefill({ids.data() + done, static_cast<size_t>(part)});
    done += part;
    for (int l = 1; l <= backend.config().n_layers; ++l) REQUIRE(backend.kv_len(l) == done);
  }
  const int n = static_cast<int>(ids.size());
  REQUIRE(done == n - 1);
  Record record = expected;
  for (int pos = 0; pos < done; ++pos) record.read_kv(backend, pos);
  run_positions(backend, ids, done, n, 1, 0, record);
  REQUIRE(Record::difference(record, expected, 0, n) == "");
}

}  // namespace

TEST_CASE("rows do not depend on row count, slot, instruction set or layout") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const auto& [model, ids, expected] = Subject(c);
    for (Isa isa : supported_isas()) {
      for (bool repack : {true, false}) {
        CAPTURE(isa_name(isa));
        CAPTURE(repack);
        auto backend = model.backend(isa, 1, repack);
        Record record = expected;
        run_positions(*backend, ids, 0, kPrefix, 1, 0, record);
        REQUIRE(Record::difference(record, expected, 0, kPrefix) == "");
        for (int rows = 1; rows <= kMaxRows; rows += kSanitized ? 3 : 1) {
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

TEST_CASE("every row count in every slot gives the same rows") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const auto& [model, ids, expected] = Subject(c);
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
}

TEST_CASE("thread count changes no bit") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const auto& [model, ids, expected] = Subject(c);
    for (int threads : {1, 2, 3}) {
      for (int rows : {1, 2, 3, 11}) {
        CAPTURE(threads);
        CAPTURE(rows);
        auto backend = model.backend(best_isa(), threads, /*repack=*/rows != 2);
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
  constexpr int kLong = 2 * kPrefillChunk + 70;
  for (const KvType kv : kKvTypesTested) {
    const TinyModel model(spec, kv);
    const std::vector<int32_t> ids = token_ids(kLong + 1, model.config.vocab_size);
    Record expected(model.config, kLong + 1);
    auto decoding = model.backend(best_isa(), 2);
    run_positions(*decoding, ids, 0, kLong + 1, 16, 0, expected);
    for (const std::vector<int>& parts : {std::vector<int>{kLong},
                                          {1, kLong - 1},
                                          {kPrefillChunk + 3, kLong - kPrefillChunk - 3}}) {
      check_prefill(*model.backend(best_isa(), 2), ids, parts, expected);
    }
  }
}

TEST_CASE("prefill equals decoding for every element type and instruction set") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const auto& [model, ids, expected] = Subject(c);
    for (Isa isa : supported_isas()) {
      CAPTURE(isa_name(isa));
      for (bool repack : {true, false}) {
        check_prefill(*model.backend(isa, 2, repack), ids, {kPositions - 1}, expected);
      }
    }
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
      REQUIRE(same_bits(backend->inspect().hidden(j).data(), &expected.hidden[last], record.dim));
      std::memcpy(record.hidden_at(pos + j, 1), &expected.hidden[last - 5 * record.dim],
                  6 * record.dim * sizeof(float));
      REQUIRE(Record::difference(record, expected, pos + j, pos + j + 1) == "");
    }
  }
}

TEST_CASE("what a rejected row left in the cache is never read") {
  for (const KvType kv : kKvTypesTested) {
    const TinyModel model(cases()[2].spec, kv);
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
}

// Constants: every compiler, optimization level and sanitizer build is held to the same bits.
TEST_CASE("the bits are the same from build to build") {
  const uint64_t expected[] = {
      15085930341079558449u, 1732508154574676213u, 15598368885687009444u, 14160064025680477103u,
      4633290100991379771u,  7058181350283893096u, 4623389278360096339u,  8371078157278704706u,
      14066548450215113198u, 1605463453760223722u, 8774291739499499050u,  10156768635844640772u,
      11960230127102727117u, 8469194596075466146u, 7642126123818421663u,  16366168103199012789u,
      7753935391536913649u,  4999511600802691924u, 15162911100881104858u, 18075764614774230456u,
      14730699097619591296u, 4024236343761278542u, 1394204252947238129u,  1024920603607674008u,
      6176486309414605336u,  5521865161396055755u};
  const std::vector<Case> all = cases();
  REQUIRE(all.size() == std::size(expected));
  for (size_t i = 0; i < all.size(); ++i) {
    CAPTURE(all[i].name);
    const TinyModel model(all[i].spec, all[i].kv);
    const Record record = reference(model, token_ids(kPositions, model.config.vocab_size));
    uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
    for (float x : record.logits) {
      uint32_t bits;
      std::memcpy(&bits, &x, sizeof bits);
      for (int b = 0; b < 32; b += 8) hash = (hash ^ (bits >> b & 0xff)) * 0x100000001b3u;
    }
    CHECK(hash == expected[i]);
  }
}

#if defined(__x86_64__)
TEST_CASE("a caller that flushes subnormals to zero changes no bit") {
  const TinySpec spec;
  std::vector<TinyTensor> tensors = tiny_tensors(spec);
  for (TinyTensor& t : tensors) {
    if (t.name != "output.weight") continue;
    auto* weights = reinterpret_cast<float*>(t.bytes.data());
    for (size_t i = 0; i < t.bytes.size() / sizeof(float); ++i) weights[i] *= 1e-39f;
  }
  const TinyModel model(tiny_file(spec, tensors));
  const std::vector<int32_t> ids = token_ids(kPositions, model.config.vocab_size);
  const Record expected = reference(model, ids);
  CHECK(std::fpclassify(expected.logits[0]) == FP_SUBNORMAL);
  auto backend = model.backend(best_isa(), 2);
  const unsigned mode = _mm_getcsr();
  _mm_setcsr(mode | 0x8040);  // flush-to-zero, denormals-are-zero
  const bool flushes = std::numeric_limits<float>::min() * volatile_half() == 0;
  Record record(model.config, kPositions);
  run_positions(*backend, ids, 0, kPositions, 1, 0, record);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(mode);
  CHECK(flushes);
  CHECK((after & 0x8040) == 0x8040);  // the caller's own setting is left as it was
  CHECK(Record::difference(record, expected, 0, kPositions) == "");
}
#endif

TEST_CASE("a long context takes memory as it fills, not before") {
  TinySpec spec;
  spec.n_layers = 8;
  spec.n_heads = spec.n_kv_heads = 8;
  spec.head_dim = 64;
  const TinyModel model(spec);
  auto backend = model.backend(best_isa(), 1, true, 1 << 17);  // 2 GB of K and V
  const auto resident = [] {
    long pages = 0, ignored = 0;
    FILE* f = std::fopen("/proc/self/statm", "r");
    REQUIRE(f);
    REQUIRE(std::fscanf(f, "%ld %ld", &ignored, &pages) == 2);
    std::fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
  };
  const long before = resident();
  backend->embed(0, 1);
  backend->run_layers(0, 1, 0, 1, spec.n_layers);
  CHECK(resident() - before < 16 << 20);  // huge pages took 270 MB
}

}  // namespace invariance_test
