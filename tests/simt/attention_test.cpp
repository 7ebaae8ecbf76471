// Decode attention against the CPU backend's kernels, bit for bit.
#include <doctest/doctest.h>

#include "attention_rig.h"

namespace attention_test {

using namespace specbound;
using namespace specbound::test;

static_assert(kernels::kAttentionChunk == specbound::kAttentionChunk);
static_assert(kernels::kKeyBlock == specbound::kKeyBlock);
static_assert(kernels::kKvScaled == specbound::kKvScaled);

TEST_CASE("decode attention has the CPU's bits: head sizes, groups, biases, norms, pairings") {
  const HeadShape shapes[] = {
      {1, 1, 8},
      {4, 2, 24, true, false, true},
      {3, 1, 40, false, true},
      {4, 4, 64, true, true},
      {6, 2, 80, true, false},
      {4, 1, 96, false, true, true},
      {2, 1, 128},
      {8, 1, 128, true, true, true},
      {2, 2, 136, false, true},
      {2, 1, 160, true},
      {3, 1, 256, true, true},
  };
  for (const HeadShape& shape : shapes) {
    for (const int n_rows : {1, 5, 16}) {
      check_against_cpu({shape, 192, 61, n_rows, 7});
    }
  }
}

TEST_CASE("decode attention: the first positions, chunk edges, whole contexts") {
  const HeadShape shape{4, 2, 32, true, true, true};
  for (const int pos : {0, 1, 15, 48, 63, 64, 65, 120, 127, 128, 176}) {
    for (const int n_rows : {1, 3, 16}) check_against_cpu({shape, 192, pos, n_rows, 11});
  }
  check_against_cpu({{2, 1, 16}, 64, 0, 1, 3});
  check_against_cpu({{2, 1, 16}, 64, 48, 16, 3});
}

TEST_CASE("decode attention: more chunks than are joined at once") {
  for (const int pos : {2047, 2048, 2300}) check_against_cpu({{2, 1, 16}, 2368, pos, 4, 5});
  // The largest scores in the last chunk of those joined first, or in the first of the next.
  for (const int chunk : {31, 32}) {
    HeadProblem p({10, 2, 16}, 2368, 2100, 2, 6);
    for (int head = 0; head < 2; ++head) {
      for (int at = 64 * chunk; at < 64 * chunk + 64; ++at) {
        for (int d = 0; d < 16; ++d) {
          uint16_t& k = p.k[p.k_place(head, at, d)];
          k = float_to_half(4 * half_to_float(k));
        }
      }
    }
    with_each_kv(p, [](const HeadProblem& p) {
      const std::vector<float> expected = attend_on_cpu(p).attended;
      for (const Joins joins : {Joins::kKernel, Joins::kLastBlock}) {
        CHECK(same_floats(simt::for_each_order([&] { return attend(p, false, 0, joins).attended; }),
                          expected));
      }
    });
  }
}

TEST_CASE("decode attention: more queries of a K/V head than keys are staged for at once") {
  check_against_cpu({{9, 1, 32}, 192, 100, 16, 21});
  check_against_cpu({{5, 1, 16}, 128, 63, 13, 22});
  check_against_cpu({{5, 1, 256}, 128, 63, 13, 23});  // values take the keys' place
}

TEST_CASE("decode attention: on all instruction sets of the CPU the same") {
  with_each_kv({{6, 3, 80, true, true}, 192, 70, 9, 5}, [](const HeadProblem& p) {
    const PassResult found = attend(p);
    for (const Isa isa : kIsas) {
      if (!isa_supported(isa)) continue;
      CHECK(same_floats(found.attended, attend_on_cpu(p, isa).attended));
    }
  });
}

TEST_CASE("decode attention depends on neither thread order nor the context it is sized for") {
  with_each_kv({{8, 2, 32, true, true}, 320, 60, 11, 9}, [](const HeadProblem& p) {
    const std::vector<float> expected = attend_on_cpu(p).attended;
    for (const Joins joins : {Joins::kKernel, Joins::kLastBlock}) {
      const auto found = [&](int context) { return attend(p, false, context, joins).attended; };
      CHECK(same_floats(simt::for_each_order([&] { return found(0); }), expected));
      for (const int context : {192, 320}) CHECK(same_floats(found(context), expected));
    }
  });
}

TEST_CASE("a row's attention is the same alone and among others, in every slot") {
  const HeadShape shape{6, 2, 40, true, true};
  with_each_kv({shape, 192, 57, 16, 13}, [&](const HeadProblem& all) {
    const PassResult together = attend(all);
    const size_t q_dim = shape.q_dim();
    // Rows first.. of the pass, after those before them.
    const auto slice = [&](int first, int n) {
      HeadProblem p(shape, all.n_ctx, all.pos + first, n, 13);
      p.int8 = all.int8;
      p.k = together.k;
      p.v = together.v;
      const auto* from = all.qkv.data() + static_cast<size_t>(first) * all.stride();
      p.qkv.assign(from, from + static_cast<size_t>(n) * all.stride());
      return attend(p, false, 0, n == 1 ? Joins::kLastBlock : Joins::kKernel).attended;
    };
    for (int row = 0; row < 16; ++row) {
      const std::vector<float> alone = slice(row, 1);
      CHECK(same_bits(alone.data(), &together.attended[row * q_dim], q_dim));
      const std::vector<float> first = slice(row, 16 - row);  // in slot 0, others behind it
      CHECK(same_bits(first.data(), &together.attended[row * q_dim], (16 - row) * q_dim));
    }
  });
}

TEST_CASE("attended rows quantized at once") {
  for (const HeadShape& shape :
       {HeadShape{4, 2, 80}, HeadShape{4, 1, 8}, HeadShape{3, 3, 128}, HeadShape{2, 1, 16},
        HeadShape{8, 2, 24}, HeadShape{12, 6, 8}, HeadShape{8, 8, 24}}) {
    for (const int n_rows : {1, 8, 11, 16}) {
      const HeadProblem p(shape, 128, 60, n_rows, 17);
      const PassResult found = attend(p, true);
      const int q_dim = shape.q_dim(), blocks = q_dim / kQuantBlock;
      const int padded = (n_rows + 7) / 8 * 8;
      std::vector<int8_t> q(static_cast<size_t>(padded) * q_dim);
      std::vector<RowBlock> row_blocks(static_cast<size_t>(padded) * blocks);
      std::vector<float> rows = attend_on_cpu(p).attended;
      rows.resize(static_cast<size_t>(padded) * q_dim);  // rows past the last are zero
      const QuantRows expected{padded, q_dim, q.data(), row_blocks.data()};
      for (int r = 0; r < padded; ++r) {
        kernels_for(best_isa())
            .quantize(&rows[static_cast<size_t>(r) * q_dim], r, 0, blocks, expected);
      }
      std::vector<float> d;
      for (const RowBlock& block : row_blocks) d.push_back(block.scale);
      CHECK(std::memcmp(found.q.data(), q.data(), q.size()) == 0);
      CHECK(same_bits(found.d.data(), d.data(), d.size()));
      simt::for_each_order([&] {
        const PassResult joined = attend(p, true, 0, Joins::kLastBlock);
        CHECK(std::memcmp(joined.q.data(), q.data(), q.size()) == 0);
        CHECK(same_bits(joined.d.data(), d.data(), d.size()));
      });
      for (size_t i = q.size(); i < found.q.size(); ++i) {  // the next panel is not touched
        REQUIRE(static_cast<unsigned char>(found.q[i]) == simt::poison());
      }
    }
  }
}

TEST_CASE("chunks are joined in the last block where that is less to wait for than a launch") {
  const auto better = [](int n_heads, int n_kv_heads, int head_dim, int context, int window = 0) {
    kernels::Attend a{};
    a.heads.n_heads = n_heads;
    a.heads.n_kv_heads = n_kv_heads;
    a.heads.head_dim = head_dim;
    a.heads.window = window;
    a.context = context;
    return kernels::better_joined(a);
  };
  CHECK(better(32, 32, 128, 2048));
  CHECK(!better(32, 32, 128, 4096));
  CHECK(better(32, 8, 128, 1024));  // two outputs a thread
  CHECK(!better(32, 8, 128, 2048));
  CHECK(!better(64, 4, 256, 256));  // 16
  CHECK(better(64, 4, 256, 128));
  // Of a window up to 2 chunks are seen, 32, and 33.
  CHECK(better(32, 32, 128, 32768, 65));
  CHECK(better(32, 32, 128, 32768, 1985));
  CHECK(!better(32, 32, 128, 32768, 1986));
  // Trees over INT8 keys and values have no such kernel, rows side by side neither.
  const kernels::RowTree tree{};
  const kernels::RowSequences sequences{};
  kernels::Attend a{};
  a.heads.n_heads = a.heads.n_kv_heads = 1;
  a.heads.head_dim = 8;
  a.context = 64;
  a.tree = &tree;
  CHECK(kernels::better_joined(a));
  a.heads.kv.int8 = true;
  CHECK(!kernels::better_joined(a));
  a.tree = nullptr;
  CHECK(kernels::better_joined(a));
  a.sequences = &sequences;
  CHECK(!kernels::better_joined(a));
}

TEST_CASE(
    "decode attention: infinite and NaN queries, keys and values do what they do on the CPU") {
  const HeadShape shape{4, 2, 32};
  const float kInf = HUGE_VALF;
  const auto spoiled = [&](auto poison) {
    HeadProblem p(shape, 128, 66, 6, 19);
    poison(p);
    const HeadResult expected = attend_on_cpu(p);
    // INT8: all numbers that share a scale with what is infinite or NaN are NaN.
    const HeadProblem int8 = p.in_int8();
    const HeadResult of_int8 = attend_on_cpu(int8);
    for (const Joins joins : {Joins::kKernel, Joins::kLastBlock}) {
      CHECK(same_floats(attend(p, false, 0, joins).attended, expected.attended));
      CHECK(same_floats(attend(int8, false, 0, joins).attended, of_int8.attended));
    }
    size_t finite = 0;
    for (const float x : expected.attended) finite += std::isfinite(x);
    return finite;
  };
  const size_t all = 6 * 128;
  CHECK(spoiled([](HeadProblem&) {}) == all);
  for (const float bad : {kInf, -kInf, std::nanf("")}) {
    // Row 2's query: its head alone.
    CHECK(spoiled([&](HeadProblem& p) { p.qkv[2 * p.stride() + 5] = bad; }) == all - 32);
    // Row 3's value: rows 3.. of a K/V head in one dimension.
    CHECK(spoiled([&](HeadProblem& p) { p.qkv[3 * p.stride() + 128 + 64 + 7] = bad; }) == all - 6);
    // Row 4's key.
    spoiled([&](HeadProblem& p) { p.qkv[4 * p.stride() + 128 + 7] = bad; });
    // An old key and value.
    const uint16_t half = float_to_half(bad);
    spoiled([&](HeadProblem& p) { p.k[p.k_place(1, 3, 9)] = half; });
    spoiled([&](HeadProblem& p) { p.v[p.v_place(0, 65, 31)] = half; });
  }
  // Scores so far apart that all weights but one are zero; equal scores; zero queries.
  for (const float scale : {1000.0f, 0.0f}) {
    spoiled([&](HeadProblem& p) {
      for (float& x : p.qkv) x *= scale;
    });
  }
}

}  // namespace attention_test
