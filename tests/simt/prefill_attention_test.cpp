// Prefill attention against FP64, its error beside that of the CPU backend's kernels.
#include <doctest/doctest.h>

#include <bit>

#include "attention_rig.h"
#include "prefill_attention.h"

namespace prefill_attention_test {

using namespace specbound;
using namespace specbound::test;
using simt::DeviceBuffer;

namespace {

struct PrefillResult {
  std::vector<float> attended;
  std::vector<uint16_t> k, v;
};

PrefillResult prefill(const HeadProblem& p, bool store_queries = true, int max_rows = 0) {
  if (max_rows == 0) max_rows = p.n_rows;
  const int q_dim = p.shape.q_dim(), padded = kernels::prefill_head_dim(p.shape.head_dim);
  const size_t tiles = static_cast<size_t>(p.shape.n_heads) * ((max_rows + 15) / 16);
  HeadBuffers buffers(p);
  const DeviceBuffer<kernels::Pass> pass = pass_of(p.n_rows, p.pos);
  DeviceBuffer<uint16_t> q_tiles(store_queries ? tiles * 16 * padded * 2 : 0);
  DeviceBuffer<float> q_scale(store_queries ? tiles * 16 : 0);
  DeviceBuffer<float> attended(static_cast<size_t>(p.n_rows) * q_dim);
  kernels::PrefillAttention a{pass.data(), buffers.heads, max_rows, store_queries,
                              nullptr,     nullptr,       nullptr};
  if (store_queries) {
    a.q_tiles = q_tiles.data();
    a.q_scale = q_scale.data();
    a.attended = attended.data();
  }
  kernels::store_heads(a, simt::stream());
  if (store_queries) kernels::prefill_attention(a, simt::stream());
  return {attended.read(), buffers.k.read(), buffers.v.read()};
}

// The rows from `first` on as a chunk of their own, behind the K and V that the whole one left.
HeadProblem second_chunk(const HeadProblem& all, int first, const PrefillResult& together) {
  HeadProblem p(all.shape, all.n_ctx, all.pos + first, all.n_rows - first, 8);
  p.k = together.k;
  p.v = together.v;
  p.qkv.assign(all.qkv.begin() + static_cast<ptrdiff_t>(first) * all.stride(), all.qkv.end());
  return p;
}

// softmax(cap(q K / sqrt(n))) V in FP64, of queries and the cache as they are after the pass.
std::vector<double> attend_in_fp64(const HeadProblem& p, const HeadResult& with) {
  const HeadShape& s = p.shape;
  const int n = s.head_dim;
  std::vector<double> out(with.q.size());
  for (int row = 0; row < p.n_rows; ++row) {
    for (int h = 0; h < s.n_heads; ++h) {
      const size_t first = static_cast<size_t>(row) * s.q_dim() + static_cast<size_t>(h) * n;
      const int kv_head = h / s.group(), n_keys = p.pos + row + 1;
      const int first_key = s.first_key(p.pos + row);
      std::vector<double> weight(n_keys);
      double largest = -HUGE_VAL, sum = 0;
      for (int key = first_key; key < n_keys; ++key) {
        double dot = 0;
        for (int d = 0; d < n; ++d) {
          dot += double{with.q[first + d]} * half_to_float(with.k[p.k_place(kv_head, key, d)]);
        }
        weight[key] = dot / std::sqrt(static_cast<double>(n));
        if (s.softcap > 0) weight[key] = s.softcap * std::tanh(weight[key] / s.softcap);
        largest = std::max(largest, weight[key]);
      }
      for (int key = first_key; key < n_keys; ++key) {
        sum += weight[key] = std::exp(weight[key] - largest);
      }
      for (int key = first_key; key < n_keys; ++key) {
        for (int d = 0; d < n; ++d) {
          out[first + d] += weight[key] / sum * half_to_float(with.v[p.v_place(kv_head, key, d)]);
        }
      }
    }
  }
  return out;
}

// `q_scale` multiplies queries, so that a few keys weigh more, or all the same.
void check_errors(HeadProblem p, float q_scale = 1) {
  CAPTURE(p.shape.head_dim);
  CAPTURE(p.shape.rope_dim());
  CAPTURE(p.shape.window);
  CAPTURE(p.shape.softcap);
  CAPTURE(p.pos);
  CAPTURE(p.n_rows);
  CAPTURE(q_scale);
  for (int row = 0; row < p.n_rows; ++row) {
    for (int i = 0; i < p.shape.q_dim(); ++i) {
      p.qkv[static_cast<size_t>(row) * p.stride() + i] *= q_scale;
    }
  }
  const HeadResult cpu = attend_on_cpu(p);
  const std::vector<double> exact = attend_in_fp64(p, cpu);
  const PrefillResult found = prefill(p);
  CHECK(found.k == cpu.k);
  CHECK(found.v == cpu.v);
  const Errors own = errors_of(found.attended, exact), allowed = errors_of(cpu.attended, exact);
  CAPTURE(allowed.rms);
  CAPTURE(allowed.largest);
  CAPTURE(own.rms);
  CAPTURE(own.largest);
  CHECK(own.rms <= 2 * allowed.rms);
  // Of thousands of errors the largest: one value, which may be unlucky here and lucky there.
  CHECK(own.largest <= 3 * allowed.largest);
}

}  // namespace

TEST_CASE("prefill attention: head sizes, groups, biases, norms, pairings") {
  check_errors({{2, 1, 8}, 192, 61, 40, 3});
  check_errors({{2, 2, 24, true, true}, 192, 0, 70, 3});
  check_errors({{4, 2, 64, true, true, true}, 256, 61, 100, 3});
  check_errors({{3, 1, 80, true}, 192, 30, 65, 3});
  check_errors({{2, 1, 96, false, true, true}, 192, 0, 64, 3});
  check_errors({{2, 1, 128, true}, 256, 150, 64, 3});
  check_errors({{1, 1, 136}, 128, 60, 20, 3});
  check_errors({{2, 1, 256, false, true}, 192, 91, 66, 3});
}

TEST_CASE("prefill attention: one row, tile edges, few keys that count, queries large and small") {
  const HeadShape shape{2, 1, 64};
  for (const int n_rows : {1, 15, 16, 17, 63, 64, 65}) {
    for (const int pos : {0, 63}) check_errors({shape, 192, pos, n_rows, 5});
  }
  for (const float scale : {1e-30f, 1e-3f, 4.0f, 20.0f}) {
    check_errors({shape, 192, 70, 48, 6}, scale);
  }
}

TEST_CASE("prefill attention: a whole chunk of 512 rows") {
  check_errors({{1, 1, 16}, 576, 64, 512, 9});
}

TEST_CASE("prefill attention: only keys and values are stored when asked for no more") {
  with_each_kv({{4, 2, 24, true, true}, 128, 33, 50, 4}, [](const HeadProblem& p) {
    const HeadResult cpu = attend_on_cpu(p);
    const PrefillResult found = prefill(p, false);
    CHECK(found.k == cpu.k);
    CHECK(found.v == cpu.v);
  });
}

TEST_CASE("prefill attention depends on neither thread order, the grid, nor the other rows") {
  const HeadShape shape{2, 1, 40, true, true};
  const HeadProblem all(shape, 192, 50, 90, 8);
  const PrefillResult together = prefill(all);
  CHECK(simt::for_each_order([&] { return prefill(all).attended; }) == together.attended);
  CHECK(prefill(all, true, 512).attended == together.attended);
  const size_t q_dim = shape.q_dim();
  for (const int first : {1, 14, 64, 70, 89}) {  // cut into two chunks: the second one
    const HeadProblem p = second_chunk(all, first, together);
    CHECK(
        same_bits(prefill(p).attended.data(), &together.attended[first * q_dim], p.n_rows * q_dim));
  }
  for (const int n : {1, 20, 64}) {  // the first
    HeadProblem p = all;
    p.n_rows = n;
    p.qkv.resize(static_cast<size_t>(n) * all.stride());
    CHECK(same_bits(prefill(p).attended.data(), together.attended.data(), n * q_dim));
  }
}

TEST_CASE(
    "prefill attention: any cut into chunks, of every size of tiles, with what is not finite") {
  for (const int head_dim : {64, 72, 96, 120, 136}) {
    for (const int window : {0, 37}) {
      HeadShape shape{1, 1, head_dim};
      shape.window = window;
      HeadProblem all(shape, 192, 50, 90, 8);
      all.qkv[static_cast<size_t>(21) * all.stride() + 2 * head_dim + 5] =
          HUGE_VALF;  // position 71
      const PrefillResult together = prefill(all);
      for (const int first : {14, 40, 70}) {
        const std::vector<float> found = prefill(second_chunk(all, first, together)).attended;
        int wrong = 0;
        for (size_t i = 0; i < found.size(); ++i) {
          wrong += !same_floats(found[i], together.attended[first * head_dim + i]);
        }
        CAPTURE(head_dim);
        CAPTURE(window);
        CAPTURE(first);
        CHECK(wrong == 0);
      }
    }
  }
}

// What the first tile gives is negative and falls below all numbers where the second one's scores
// are so much larger: -0, to which a third tile adds +0 where it comes in at all.
TEST_CASE("prefill attention: a zero is +0, however rows are cut into chunks") {
  HeadShape shape{1, 1, 8};
  shape.rotated = 0;
  const int n_rows = 16, pos = 120;
  HeadProblem all(shape, 192, pos, n_rows);
  const float length = std::sqrt(8.0f);
  for (int p = 0; p < pos; ++p) {
    for (int d = 0; d < 8; ++d) {
      const float score = p == 5 ? -11.0f : p < 64 ? 0.0f : 86.0f;
      all.k[all.k_place(0, p, d)] = float_to_half(d == 0 ? score : 0.0f);
      all.v[all.v_place(0, p, d)] = p == 5 ? 0x8001 : 0;  // the least there is
    }
  }
  std::fill(all.qkv.begin(), all.qkv.end(), 0.0f);
  for (int row = 0; row < n_rows; ++row) {
    float* const qkv = &all.qkv[static_cast<size_t>(row) * all.stride()];
    qkv[0] = length;
    qkv[8] = 86.0f;
  }
  const PrefillResult together = prefill(all);
  HeadProblem last = all;  // of those that see two tiles alone
  last.n_rows = 8;
  last.qkv.resize(8 * last.stride());
  CHECK(same_bits(prefill(last).attended.data(), together.attended.data(), 8 * 8));
  CHECK(std::bit_cast<uint32_t>(together.attended[7 * 8]) == 0);
}

TEST_CASE("prefill attention: what is infinite or NaN spoils the rows that see it, no others") {
  const HeadShape shape{2, 2, 32};
  const int pos = 20, n_rows = 70, q_dim = 64;
  const std::vector<float> clean = prefill({shape, 128, pos, n_rows, 12}).attended;
  for (const float bad : {HUGE_VALF, -HUGE_VALF, std::nanf("")}) {
    for (const int what : {0, 64, 128}) {  // in a query, key, value of row 37, head 0
      HeadProblem p(shape, 128, pos, n_rows, 12);
      p.qkv[static_cast<size_t>(37) * p.stride() + what + 9] = bad;
      const std::vector<float> found = prefill(p).attended;
      int wrong = 0, spoiled = 0;
      for (int row = 0; row < n_rows; ++row) {
        for (int i = 0; i < q_dim; ++i) {
          const float x = found[row * q_dim + i];
          const bool sees = i < 32 && (what == 0 ? row == 37 : row >= 37);
          spoiled += sees && std::isnan(x);
          if (!sees) wrong += !same_bits(&x, &clean[row * q_dim + i], 1);
        }
      }
      CHECK(wrong == 0);
      CHECK(spoiled > 0);
      if (what == 0) CHECK(spoiled == 32);
      if (what == 128) CHECK(spoiled == 32 * (n_rows - 37));
    }
  }
}

TEST_CASE("prefill attention: windows, from one key to more than there are") {
  for (const int window : {1, 5, 33, 64, 65, 100, 300}) {
    check_errors({{2, 1, 32, true, false, true, -1, 0, window}, 256, 70, 90, 3});
  }
  check_errors({{1, 1, 256, false, true, false, -1, 0, 40}, 192, 60, 70, 3});  // tiles of 32 keys
  check_errors({{1, 1, 80, false, false, false, -1, 0, 20}, 192, 0, 150, 3});
}

TEST_CASE("prefill attention: capped scores; heads that turn in part or not at all") {
  for (const float cap : {0.5f, 50.0f}) {
    check_errors({{2, 1, 64, false, false, false, -1, cap}, 192, 61, 70, 3}, 4);
  }
  check_errors({{2, 1, 96, true, true, false, 24, 30, 50}, 192, 61, 70, 3});
  check_errors({{2, 1, 32, true, true, true, 10}, 128, 30, 40, 3});
  check_errors({{2, 1, 32, true, true, true, 0}, 128, 30, 40, 3});
}

TEST_CASE("prefill attention: a window's rows depend on neither order, the grid, nor other rows") {
  const HeadShape shape{2, 1, 40, true, false, false, -1, 20, 37};
  const HeadProblem all(shape, 192, 50, 90, 8);
  const PrefillResult together = prefill(all);
  CHECK(simt::for_each_order([&] { return prefill(all).attended; }) == together.attended);
  CHECK(prefill(all, true, 512).attended == together.attended);
  const size_t q_dim = shape.q_dim();
  for (const int first : {1, 14, 37, 64, 89}) {
    const HeadProblem p = second_chunk(all, first, together);
    CHECK(
        same_bits(prefill(p).attended.data(), &together.attended[first * q_dim], p.n_rows * q_dim));
  }
}

TEST_CASE("prefill attention: what is not finite spoils the rows whose window it is in") {
  const int pos = 20, n_rows = 70, window = 12, q_dim = 64;
  const HeadShape shape{2, 2, 32, false, false, false, -1, 0, window};
  const std::vector<float> clean = prefill({shape, 128, pos, n_rows, 12}).attended;
  for (const float bad : {HUGE_VALF, std::nanf("")}) {
    for (const int what : {64, 128}) {  // in a key, value of rows 15 and 37, head 0
      HeadProblem p(shape, 128, pos, n_rows, 12);
      for (const int row : {15, 37}) p.qkv[static_cast<size_t>(row) * p.stride() + what + 9] = bad;
      // What nobody sees any more may hold anything.
      for (int at = 0; at < shape.first_key(pos); ++at) {
        p.k[p.k_place(0, at, 3)] = p.v[p.v_place(0, at, 3)] = HeadProblem::kNanHalf;
      }
      const std::vector<float> found = prefill(p).attended;
      int wrong = 0, spoiled = 0;
      for (int row = 0; row < n_rows; ++row) {
        const bool in_window = (row >= 15 && row < 15 + window) || (row >= 37 && row < 37 + window);
        for (int i = 0; i < q_dim; ++i) {
          const float x = found[row * q_dim + i];
          const bool sees = i < 32 && in_window;
          spoiled += sees && std::isnan(x);
          if (!sees) wrong += !same_bits(&x, &clean[row * q_dim + i], 1);
        }
      }
      CHECK(wrong == 0);
      CHECK(spoiled > 0);
      if (what == 128) CHECK(spoiled == 32 * 2 * window);
    }
  }
}

}  // namespace prefill_attention_test
