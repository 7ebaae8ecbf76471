// Decode attention of rows that are a tree, against the CPU backend's kernels and against the same
// rows in a chain, bit for bit.
#include <doctest/doctest.h>

#include <random>

#include "attention_rig.h"

namespace attention_tree_test {

using namespace specbound;
using namespace specbound::test;

namespace {

// Rows slot.. of a round of 16, with what the rows before them have left.
HeadProblem rows_of(const HeadProblem& round, const PassResult& after, int slot, int n) {
  HeadProblem p(round.shape, round.n_ctx, round.root() + slot, n, 13);
  p.in_tree(round.paths, slot);
  const auto* from = round.qkv.data() + static_cast<size_t>(slot) * round.stride();
  p.qkv.assign(from, from + static_cast<size_t>(n) * round.stride());
  if (round.int8) {  // what follows lies where these rows will be, and is not seen
    p.int8 = true;
    p.k = after.k;
    p.v = after.v;
    return p;
  }
  for (int h = 0; h < round.shape.n_kv_heads; ++h) {
    for (int at = round.root(); at < p.pos; ++at) {
      for (int d = 0; d < round.shape.head_dim; ++d) {
        p.k[p.k_place(h, at, d)] = after.k[p.k_place(h, at, d)];
        p.v[p.v_place(h, at, d)] = after.v[p.v_place(h, at, d)];
      }
    }
  }
  return p;
}

}  // namespace

TEST_CASE("decode attention of trees has the CPU's bits, within a chunk and across chunks") {
  std::mt19937_64 random(1);
  const HeadShape shape{4, 2, 32, true, true, true};
  for (const int root : {0, 1, 40, 47, 48, 49, 55, 62, 63, 64, 65, 118, 127, 128}) {
    for (const RowPaths& paths : {siblings(), shifted(), random_paths(random)}) {
      for (const int n_rows : {2, 11, 16}) {
        HeadProblem p(shape, 192, root, n_rows, 11);
        check_against_cpu(p.in_tree(paths, 0));
      }
    }
  }
}

TEST_CASE("decode attention of trees: head sizes, groups, biases, windows, caps, lagging rows") {
  const HeadShape shapes[] = {
      {1, 1, 8},
      {4, 2, 24, true, false, true, -1, 0, 9},
      {3, 1, 40, false, true, false, -1, 2, 3},
      {9, 1, 64, true, true, false, 32, 0, 70},  // more queries than keys are staged for at once
      {6, 2, 80, true, false, false, -1, 5},
      {8, 1, 128, true, true, true},
      {2, 2, 136, false, true},
      {4, 1, 256, true, true},  // fewer are, or shared memory would not do
      {5, 1, 256, false, false, false, -1, 0, 12},
  };
  std::mt19937_64 random(2);
  for (const HeadShape& shape : shapes) {
    for (const int root : {20, 54, 61, 63}) {
      const int slot = static_cast<int>(random() % 9), n_rows = 1 + random() % (kMaxRows - slot);
      HeadProblem p(shape, 128, root + slot, n_rows, 7);
      check_against_cpu(p.in_tree(random_paths(random), slot));
    }
  }
}

TEST_CASE("decode attention of trees depends on neither thread order nor the grid") {
  std::mt19937_64 random(3);
  for (const int window : {0, 5}) {
    HeadProblem p({8, 2, 32, true, true, false, -1, 0, window}, 320, 57, 16, 9);
    p.in_tree(random_paths(random), 0);
    with_each_kv(p, [](const HeadProblem& p) {
      const HeadResult expected = attend_on_cpu(p);
      CHECK(
          same_floats(simt::for_each_order([&] { return attend(p).attended; }), expected.attended));
      CHECK(simt::for_each_order([&] { return attend(p).k; }) == expected.k);
      for (const int context : {192, 320}) {
        CHECK(same_floats(attend(p, false, context).attended, expected.attended));
      }
    });
  }
}

TEST_CASE("a row of a tree has the bits that it has in a chain, alone and among others") {
  std::mt19937_64 random(4);
  const HeadShape shape{6, 2, 40, true, true};
  const size_t q_dim = shape.q_dim();
  for (const int root : {30, 51, 60}) {
    HeadProblem of_fp16(shape, 192, root, 16, 13);
    of_fp16.in_tree(random_paths(random), 0);
    with_each_kv(of_fp16, [&](const HeadProblem& round) {
      const PassResult together = attend(round);
      for (int slot = 0; slot < kMaxRows; ++slot) {
        const RowPath& path = round.paths[slot];
        HeadProblem chain(shape, 192, root, path.depth + 1, 13);
        for (int d = 0; d <= path.depth; ++d) {
          std::copy_n(&round.qkv[static_cast<size_t>(path.slots[d]) * round.stride()],
                      round.stride(), &chain.qkv[static_cast<size_t>(d) * round.stride()]);
        }
        const PassResult in_chain = attend(round.int8 ? chain.in_int8() : chain);
        CHECK(same_bits(&in_chain.attended[path.depth * q_dim], &together.attended[slot * q_dim],
                        q_dim));
        for (const int n : {1, kMaxRows - slot}) {  // the rows before it came earlier
          const PassResult found =
              attend(rows_of(round, together, slot, n), false, 0,
                     n == 1 && !round.int8 ? Joins::kLastBlock : Joins::kKernel);
          CHECK(same_bits(found.attended.data(), &together.attended[slot * q_dim], n * q_dim));
          CHECK((n == 1 || found.k == together.k));
          CHECK((n == 1 || found.v == together.v));
        }
      }
    });
  }
}

TEST_CASE("a row of a tree does not see its siblings, whatever they are") {
  const HeadShape shape{4, 2, 32};
  const size_t q_dim = shape.q_dim();
  for (const int root : {20, 60}) {
    HeadProblem p(shape, 128, root, 16, 19);
    p.in_tree(siblings(), 0);
    with_each_kv(p, [&](const HeadProblem& p) {
      const std::vector<float> expected = attend(p).attended;
      for (const int bad : {1, 7, 15}) {
        for (const int kv : {0, shape.kv_dim()}) {
          HeadProblem spoiled = p;
          spoiled.qkv[bad * p.stride() + q_dim + kv + 3] = std::nanf("");
          const std::vector<float> found = attend(spoiled).attended;
          for (int row = 0; row < 16; ++row) {
            const bool same = same_bits(&found[row * q_dim], &expected[row * q_dim], q_dim);
            CHECK(same == (row != bad));
          }
        }
      }
    });
  }
}

}  // namespace attention_tree_test
