// Attention with windows and soft caps, kernel by kernel: against double precision, whatever the
// keys outside hold, the same bits in any company and on every instruction set.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/cpu/kernels.h"
#include "engine_rig.h"
#include "numerics/half.h"

namespace attention_window_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kKeys = 200;
constexpr uint16_t kHalfNan = 0x7e00;

std::vector<float> normals(size_t n, uint64_t seed) {
  TinyRandom random(seed);
  std::vector<float> x(n);
  for (float& v : x) v = random.normal();
  return x;
}

// Keys and values of one head, rounded to FP16.
struct Cache {
  int head_dim, v_stride;
  std::vector<float> keys, values;  // (kKeys, head_dim)
  std::vector<uint16_t> k, v;
  KvHead head;

  explicit Cache(int n)
      : head_dim(n),
        v_stride((n + 15) / 16 * 16),
        keys(normals(size_t(kKeys) * n, 3)),
        values(normals(size_t(kKeys) * n, 4)),
        k(size_t(kKeys + kAttentionChunk) * n, kHalfNan),
        v(size_t(kKeys + kAttentionChunk) * v_stride, kHalfNan),
        head{k.data(), v.data(), v_stride} {
    for (float& x : keys) x = half_to_float(float_to_half(x));
    for (float& x : values) x = half_to_float(float_to_half(x));
  }
  // Positions [first, end) hold numbers, all others NaN.
  void fill(const Kernels& kernels, int first, int end) {
    std::fill(k.begin(), k.end(), kHalfNan);
    std::fill(v.begin(), v.end(), kHalfNan);
    for (int p = first; p < end; ++p) {
      kernels.store_kv(&keys[size_t(p) * head_dim], &values[size_t(p) * head_dim], head_dim, p,
                       head);
    }
  }
  std::vector<double> exact(const float* q, int first, int pos, double scale, double cap) const {
    std::vector<double> weight, out(head_dim);
    double largest = -HUGE_VAL, total = 0;
    for (int p = first; p <= pos; ++p) {
      double score = 0;
      for (int d = 0; d < head_dim; ++d) score += double{q[d]} * keys[size_t(p) * head_dim + d];
      score *= scale;
      if (cap > 0) score = cap * std::tanh(score / cap);
      weight.push_back(score);
      largest = std::max(largest, score);
    }
    for (double& w : weight) total += w = std::exp(w - largest);
    for (int p = first; p <= pos; ++p) {
      for (int d = 0; d < head_dim; ++d) {
        out[d] += weight[p - first] / total * values[size_t(p) * head_dim + d];
      }
    }
    return out;
  }
};

}  // namespace

TEST_CASE("attention with windows and soft caps: near double, masked keys never read into it") {
  struct Seen {
    int first, pos;
  };
  // One key; within a chunk; to its end; from its begin; across one; across a whole one.
  const std::vector<Seen> all = {{0, 0},   {5, 20},   {17, 63},   {64, 64},
                                 {60, 70}, {63, 128}, {100, 150}, {130, 199}};
  for (int head_dim : {8, 64, 80}) {
    Cache cache(head_dim);
    const std::vector<float> q = normals(size_t(head_dim), 5);
    std::vector<float> scratch(cache.v_stride + 2);
    for (float cap : {0.0f, 2.0f, 50.0f}) {
      const float scale = 3 / std::sqrt(static_cast<float>(head_dim));
      for (const Seen& seen : all) {
        std::vector<float> portable;
        for (Isa isa : supported_isas()) {
          CAPTURE(isa_name(isa));
          CAPTURE(cap);
          CAPTURE(seen.first);
          CAPTURE(seen.pos);
          const Kernels& kernels = kernels_for(isa);
          cache.fill(kernels, seen.first, seen.pos + 1);
          std::vector<float> out(head_dim);
          const Query query{q.data(), out.data(), seen.pos, seen.first};
          kernels.attention(cache.head, &query, 1, head_dim, scale, cap, scratch.data());
          const std::vector<double> exact = cache.exact(q.data(), seen.first, seen.pos, scale, cap);
          for (int d = 0; d < head_dim; ++d) CHECK(std::fabs(out[d] - exact[d]) <= 4e-6);
          if (portable.empty()) portable = out;
          CHECK(same_bits(out.data(), portable.data(), out.size()));
        }
      }
    }
  }
}

TEST_CASE("attention with windows: a query's bits do not depend on whose windows it shares") {
  constexpr int kHeadDim = 64, kQueries = 8;
  Cache cache(kHeadDim);
  const std::vector<float> q = normals(size_t(kQueries) * kHeadDim, 6);
  std::vector<float> scratch(kQueries * (cache.v_stride + 2));
  TinyRandom random(8);
  for (Isa isa : supported_isas()) {
    const Kernels& kernels = kernels_for(isa);
    cache.fill(kernels, 0, kKeys);
    for (int trial = 0; trial < 60; ++trial) {
      const float cap = trial % 2 ? 3.0f : 0.0f;
      std::vector<float> together(q.size()), alone(q.size());
      std::vector<Query> queries;
      for (int i = 0; i < kQueries; ++i) {
        const int pos = static_cast<int>(random.next() % kKeys);
        const int first = trial % 5 ? static_cast<int>(random.next() % (pos + 1)) : 0;
        queries.push_back({&q[size_t(i) * kHeadDim], &together[size_t(i) * kHeadDim], pos, first});
      }
      kernels.attention(cache.head, queries.data(), kQueries, kHeadDim, 0.3f, cap, scratch.data());
      for (int i = 0; i < kQueries; ++i) {
        Query query = queries[i];
        query.out = &alone[size_t(i) * kHeadDim];
        kernels.attention(cache.head, &query, 1, kHeadDim, 0.3f, cap, scratch.data());
      }
      CHECK(same_bits(together.data(), alone.data(), together.size()));
    }
  }
}

}  // namespace attention_window_test
