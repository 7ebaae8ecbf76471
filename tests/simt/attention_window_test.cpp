// Decode attention of models that see a window of keys, cap their scores, or turn a part of a head,
// against the CPU backend's kernels, bit for bit.
#include <doctest/doctest.h>

#include "attention_rig.h"

namespace attention_window_test {

using namespace specbound;
using namespace specbound::test;

namespace {

HeadShape windowed(int window, float softcap = 0) {
  return {4, 2, 24, true, true, true, -1, softcap, window};
}

}  // namespace

TEST_CASE("decode attention: windows smaller and larger than chunks, at their borders") {
  for (const int window : {1, 2, 17, 63, 64, 65, 127, 129, 200}) {
    for (const int pos : {0, 62, 64, 127, 170}) {
      for (const int n_rows : {1, 16}) check_against_cpu({windowed(window), 192, pos, n_rows, 11});
    }
  }
  // More queries of a K/V head than keys are staged for at once; wide heads.
  check_against_cpu({{9, 1, 32, false, false, false, -1, 0, 70}, 192, 100, 16, 21});
  check_against_cpu({{2, 1, 160, true, false, false, -1, 0, 9}, 192, 120, 11, 22});
}

TEST_CASE("decode attention: a window that begins in a later chunk than are joined at once") {
  for (const int window : {40, 100, 2100}) {
    for (const int pos : {2047, 2300}) {
      check_against_cpu({{2, 1, 16, false, false, false, -1, 0, window}, 2368, pos, 4, 5});
    }
  }
}

TEST_CASE("decode attention: a window's bits depend on neither thread order nor the grid") {
  with_each_kv({windowed(70, 3), 320, 120, 11, 9}, [](const HeadProblem& p) {
    const std::vector<float> expected = attend_on_cpu(p).attended;
    for (const Joins joins : {Joins::kKernel, Joins::kLastBlock}) {
      const auto found = [&](int context) { return attend(p, false, context, joins).attended; };
      CHECK(same_floats(simt::for_each_order([&] { return found(0); }), expected));
      for (const int context : {192, 320}) CHECK(same_floats(found(context), expected));
    }
  });
}

TEST_CASE("decode attention: a windowed row is the same alone and among others") {
  const HeadShape shape = windowed(50);
  const size_t q_dim = shape.q_dim();
  with_each_kv({shape, 192, 105, 16, 13}, [&](const HeadProblem& all) {
    const PassResult together = attend(all);
    for (int row = 0; row < 16; ++row) {
      HeadProblem p(shape, all.n_ctx, all.pos + row, 1, 13);
      p.int8 = all.int8;
      p.k = together.k;
      p.v = together.v;
      const auto* from = all.qkv.data() + static_cast<size_t>(row) * all.stride();
      p.qkv.assign(from, from + all.stride());
      const PassResult alone = attend(p, false, 0, Joins::kLastBlock);
      CHECK(same_bits(alone.attended.data(), &together.attended[row * q_dim], q_dim));
    }
  });
}

TEST_CASE("decode attention: what lies before a window does not matter, whatever it is") {
  const int pos = 140, n_rows = 9, window = 30;
  const HeadShape shape = windowed(window);
  const HeadProblem clean(shape, 192, pos, n_rows, 17);
  const std::vector<float> of_fp16 = attend(clean).attended;
  const std::vector<float> of_int8 = attend(clean.in_int8()).attended;
  const size_t q_dim = shape.q_dim();
  for (const float bad : {HUGE_VALF, -HUGE_VALF, std::nanf("")}) {
    for (const bool in_key : {true, false}) {
      // Seen by nobody; by the first row alone; by the first five.
      for (const int seen_by : {0, 1, 5}) {
        HeadProblem p = clean;
        const int last = shape.first_key(pos) + seen_by - 1;
        for (int at = 0; at <= last; ++at) {
          if (seen_by > 0 && at < last) continue;
          (in_key ? p.k[p.k_place(1, at, 5)] : p.v[p.v_place(1, at, 5)]) = float_to_half(bad);
        }
        with_each_kv(p, [&](const HeadProblem& p) {
          const std::vector<float>& expected = p.int8 ? of_int8 : of_fp16;
          const std::vector<float> found = attend(p).attended;
          CHECK(same_floats(found, attend_on_cpu(p).attended));
          CHECK(same_bits(&found[seen_by * q_dim], &expected[seen_by * q_dim],
                          (n_rows - seen_by) * q_dim));
          if (seen_by == 0 || in_key) return;
          const size_t last_seen = (seen_by - 1) * q_dim;
          CHECK(!same_bits(&found[last_seen], &expected[last_seen], q_dim));
        });
      }
    }
  }
}

TEST_CASE("decode attention: scores are capped after they are scaled") {
  for (const float cap : {0.3f, 2.0f, 50.0f}) {
    for (const int n_rows : {1, 16}) {
      check_against_cpu({{4, 2, 32, true, false, false, -1, cap}, 192, 61, n_rows, 7});
      check_against_cpu({windowed(50, cap), 192, 100, n_rows, 7});
    }
  }
  // Large, infinite and NaN scores.
  for (const float bad : {1e20f, HUGE_VALF, -HUGE_VALF, std::nanf("")}) {
    HeadProblem p({4, 2, 32, false, false, false, -1, 5}, 128, 66, 6, 19);
    p.qkv[2 * p.stride() + 5] = bad;
    p.qkv[4 * p.stride() + 128 + 7] = bad < 60000 ? bad : 60000.0f;  // K is FP16
    check_against_cpu(p);
  }
}

TEST_CASE("decode attention: a part of a head turns, or nothing") {
  for (const bool interleaved : {false, true}) {
    for (const bool norm : {false, true}) {
      for (const int rotated : {0, 2, 10, 32, 34, 80}) {
        check_against_cpu({{4, 2, 80, true, norm, interleaved, rotated}, 128, 61, 5, 23});
      }
    }
  }
}

}  // namespace attention_window_test
