// K and V of 8 bits: what is kept of a row, by the formula of kv_format.h on every instruction set;
// attention over it, against double precision over the numbers that it stands for; and the cache,
// which moves, copies and tells apart whole rows.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/cpu/kernels.h"
#include "engine/cpu/kv_cache.h"
#include "engine/row_paths.h"
#include "engine_rig.h"
#include "numerics/half.h"

namespace kv_int8_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kContext = 200;

ModelConfig config_of(int head_dim) {
  ModelConfig config;
  config.n_layers = config.n_kv_heads = config.n_heads = 1;
  config.head_dim = head_dim;
  return config;
}

std::vector<float> normals(size_t n, uint64_t seed, float scale = 1) {
  TinyRandom random(seed);
  std::vector<float> x(n);
  for (float& v : x) v = scale * random.normal();
  return x;
}

// A cache of one head whose places hold nothing but NaN and 255 until they are written.
struct Cache {
  int head_dim, v_stride;
  KvCache kv;

  explicit Cache(int n)
      : head_dim(n), v_stride((n + 15) / 16 * 16), kv(config_of(n), kContext, 0, KvType::kInt8) {
    std::fill_n(static_cast<uint8_t*>(head().k), kv.bytes(), uint8_t{0xff});
  }
  KvHead head() { return kv.head(1, 0); }
  void store(const Kernels& kernels, int pos, const float* k, const float* v) {
    kernels.store_kv(k, v, head_dim, pos, head());
  }
  struct Kept {
    std::vector<int> k, v;                // numbers
    std::vector<float> k_scale, v_scale;  // of each
    std::vector<uint16_t> bits;           // K, then V

    double key(int d) const { return double{k_scale[d]} * k[d]; }
    double value(int d) const { return double{v_scale[d]} * v[d]; }
  };
  Kept kept(int pos) const {
    std::vector<uint16_t> k(head_dim), v(head_dim);
    kv.read(1, pos, k, v);
    Kept out;
    const auto unpack = [&](const std::vector<uint16_t>& bits, std::vector<int>& numbers,
                            std::vector<float>& scales) {
      for (int d = 0; d < head_dim; ++d) {
        const int pair = d / 2 * 2;
        numbers.push_back(static_cast<int8_t>(bits[d] & 0xff));
        scales.push_back(
            half_to_float(static_cast<uint16_t>(bits[pair] >> 8 | (bits[pair + 1] & 0xff00))));
      }
      out.bits.insert(out.bits.end(), bits.begin(), bits.end());
    };
    unpack(k, out.k, out.k_scale);
    unpack(v, out.v, out.v_scale);
    return out;
  }
};

// The formula, number by number.
void check_kept(const float* x, int n, const std::vector<int>& found,
                const std::vector<float>& scales) {
  for (int first = 0; first < n; first += kKvScaled) {
    const int end = std::min(n, first + kKvScaled);
    float amax = 0;
    bool finite = true;
    for (int d = first; d < end; ++d) {
      amax = std::max(amax, std::fabs(x[d]));
      finite = finite && std::isfinite(x[d]);
    }
    const float scale = scales[first];
    if (!finite || amax / 127 > 65504) {
      for (int d = first; d < end; ++d) {
        CHECK(std::isnan(scales[d]));
        CHECK(found[d] == 0);
      }
      continue;
    }
    CHECK(scale >= (amax < 1e-30f ? 0 : amax / 127));
    const uint16_t bits = float_to_half(scale);
    if (scale > 0) CHECK(half_to_float(static_cast<uint16_t>(bits - 1)) < amax / 127);
    for (int d = first; d < end; ++d) {
      CHECK(scales[d] == scale);
      CHECK(std::abs(found[d]) <= 127);
      if (scale == 0) {
        CHECK(found[d] == 0);
        continue;
      }
      CHECK(found[d] == static_cast<int>(std::nearbyint(x[d] * (1 / scale))));
      CHECK(std::fabs(double{scale} * found[d] - x[d]) <= 0.5001 * scale);
    }
  }
}

}  // namespace

TEST_CASE("INT8 K/V: a row is kept by the formula, the same on every instruction set") {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const int head_dim : {8, 24, 32, 64, 80, 128}) {
    CAPTURE(head_dim);
    // Of every size, and what no model should give.
    std::vector<std::vector<float>> rows;
    for (const float scale : {1.0f, 100.0f, 1e-3f, 1e-6f, 1e-9f, 1e-33f, 3e4f, 2e6f, 1e9f}) {
      rows.push_back(normals(head_dim, rows.size() + 1, scale));
    }
    rows.emplace_back(head_dim, 0.0f);
    rows.emplace_back(head_dim, 127.0f);
    for (const float odd : {inf, -inf, nan, 127.0f * 65504, 65520.0f * 127, 1e-38f, 1e-42f}) {
      rows.push_back(normals(head_dim, 77));
      rows.back()[head_dim - 3] = odd;
    }
    std::vector<std::vector<uint16_t>> expected;
    for (const Isa isa : supported_isas()) {
      CAPTURE(isa_name(isa));
      Cache cache(head_dim);
      for (size_t i = 0; i < rows.size(); ++i) {  // each once as K and once as V
        const int pos = static_cast<int>(i * 7);
        cache.store(kernels_for(isa), pos, rows[i].data(), rows[rows.size() - 1 - i].data());
      }
      for (size_t i = 0; i < rows.size(); ++i) {
        CAPTURE(i);
        const Cache::Kept kept = cache.kept(static_cast<int>(i * 7));
        if (isa == Isa::kPortable) {
          check_kept(rows[i].data(), head_dim, kept.k, kept.k_scale);
          check_kept(rows[rows.size() - 1 - i].data(), head_dim, kept.v, kept.v_scale);
          expected.push_back(kept.bits);
        }
        CHECK(kept.bits == expected[i]);
      }
    }
  }
}

TEST_CASE("INT8 K/V: attention agrees with softmax(q K) V in double, whatever its queries share") {
  struct Seen {
    int first, pos;
  };
  const std::vector<Seen> all = {{0, 0},   {5, 20},    {17, 63},   {64, 64}, {60, 70},
                                 {0, 128}, {100, 150}, {130, 199}, {0, 199}};
  for (const int head_dim : {8, 48, 64, 80, 128}) {
    CAPTURE(head_dim);
    const std::vector<float> keys = normals(size_t(kContext) * head_dim, 3);
    const std::vector<float> values = normals(size_t(kContext) * head_dim, 4);
    const std::vector<float> q = normals(all.size() * head_dim, 5);
    const float scale = 3 / std::sqrt(static_cast<float>(head_dim));
    for (const float cap : {0.0f, 2.0f}) {
      std::vector<float> portable;
      for (const Isa isa : supported_isas()) {
        CAPTURE(isa_name(isa));
        const Kernels& kernels = kernels_for(isa);
        std::vector<float> out(q.size());
        std::vector<float> scratch(all.size() * (round_up(head_dim, 16) + 2));
        for (size_t i = 0; i < all.size(); ++i) {
          Cache cache(head_dim);  // places that are not seen hold NaN
          for (int p = all[i].first; p <= all[i].pos; ++p) {
            cache.store(kernels, p, &keys[size_t(p) * head_dim], &values[size_t(p) * head_dim]);
          }
          const Query query{&q[i * head_dim], &out[i * head_dim], all[i].pos, all[i].first};
          kernels.attention(cache.head(), &query, 1, head_dim, scale, cap, scratch.data());
          std::vector<double> weight, exact(head_dim);
          std::vector<Cache::Kept> kept;
          double largest = -HUGE_VAL, total = 0;
          for (int p = all[i].first; p <= all[i].pos; ++p) {
            kept.push_back(cache.kept(p));
            double score = 0;
            for (int d = 0; d < head_dim; ++d) score += q[i * head_dim + d] * kept.back().key(d);
            score *= scale;
            if (cap > 0) score = cap * std::tanh(score / cap);
            weight.push_back(score);
            largest = std::max(largest, score);
          }
          for (double& w : weight) total += w = std::exp(w - largest);
          for (size_t p = 0; p < kept.size(); ++p) {
            for (int d = 0; d < head_dim; ++d) exact[d] += weight[p] / total * kept[p].value(d);
          }
          for (int d = 0; d < head_dim; ++d) {
            CHECK(std::fabs(out[i * head_dim + d] - exact[d]) <= 4e-6);
          }
        }
        if (portable.empty()) portable = out;
        CHECK(same_bits(out.data(), portable.data(), out.size()));
        // Together, in any number.
        Cache cache(head_dim);
        for (int p = 0; p < kContext; ++p) {
          cache.store(kernels, p, &keys[size_t(p) * head_dim], &values[size_t(p) * head_dim]);
        }
        for (size_t n = 1; n <= all.size(); ++n) {
          std::vector<float> again(n * head_dim);
          std::vector<Query> queries;
          for (size_t i = 0; i < n; ++i) {
            const Seen& seen = all[all.size() - n + i];
            const size_t from = (all.size() - n + i) * head_dim;
            queries.push_back({&q[from], &again[i * head_dim], seen.pos, seen.first});
          }
          kernels.attention(cache.head(), queries.data(), static_cast<int>(n), head_dim, scale, cap,
                            scratch.data());
          CHECK(same_bits(again.data(), &out[(all.size() - n) * head_dim], again.size()));
        }
      }
    }
  }
}

TEST_CASE("INT8 K/V: keys of a tree are read where they lie, and give what they give in a row") {
  constexpr int kHeadDim = 80, kRows = 16;
  const std::vector<float> keys = normals(size_t(kContext) * kHeadDim, 3);
  const std::vector<float> values = normals(size_t(kContext) * kHeadDim, 4);
  const std::vector<float> q = normals(kHeadDim, 5);
  std::vector<float> scratch(kHeadDim + 2);
  TinyRandom random(6);
  for (const Isa isa : supported_isas()) {
    CAPTURE(isa_name(isa));
    const Kernels& kernels = kernels_for(isa);
    for (const int root : {3, 55, 60, 62, 120}) {  // within chunks and across their ends
      CAPTURE(root);
      Cache tree(kHeadDim);
      for (int p = 0; p < root + kRows; ++p) {
        tree.store(kernels, p, &keys[size_t(p) * kHeadDim], &values[size_t(p) * kHeadDim]);
      }
      for (int trial = 0; trial < 20; ++trial) {
        std::vector<uint8_t> path = {0};
        while (path.back() + 1 < kRows && path.size() < 9) {
          path.push_back(static_cast<uint8_t>(path.back() + 1 + random.next() % 3));
          if (path.back() >= kRows) path.pop_back();
        }
        const int depth = static_cast<int>(path.size()) - 1;
        std::vector<float> found(kHeadDim), expected(kHeadDim);
        Query query{q.data(), found.data(), root + depth, trial % 2 ? root / 2 : 0};
        query.path = path.data();
        query.root = root;
        kernels.attention(tree.head(), &query, 1, kHeadDim, 0.1f, 0, scratch.data());
        // The same rows where they stand in the text: stored there, and moved there.
        Cache straight(kHeadDim), moved(kHeadDim);
        moved.kv.reach(kContext);
        moved.kv.copy_prefix(tree.kv, root + kRows);
        for (int p = 0; p <= root + depth; ++p) {
          const int place = p < root ? p : root + path[p - root];
          const size_t at = size_t(place) * kHeadDim;
          straight.store(kernels, p, &keys[at], &values[at]);
          if (place != p) moved.kv.copy(1, place, p);
          CHECK(moved.kept(p).bits == straight.kept(p).bits);
        }
        Query plain{q.data(), expected.data(), query.pos, query.first};
        for (Cache* cache : {&straight, &moved}) {
          kernels.attention(cache->head(), &plain, 1, kHeadDim, 0.1f, 0, scratch.data());
          CHECK(same_bits(found.data(), expected.data(), kHeadDim));
        }
      }
    }
  }
}

TEST_CASE("INT8 K/V: 34 bytes for 32 numbers, and every bit of a row is told apart") {
  ModelConfig config = config_of(64);
  config.n_layers = 3;
  config.n_kv_heads = 2;
  const size_t numbers = size_t{2} * 3 * 2 * 64 * 256;
  CHECK(KvCache::bytes_needed(config, 200, 0) == numbers * 2);
  CHECK(KvCache::bytes_needed(config, 200, 0, KvType::kInt8) == numbers * 34 / 32);
  CHECK(KvCache::bytes_needed(config, 200, 2, KvType::kInt8) == numbers * 34 / 32 / 3);

  for (const int head_dim : {8, 40, 64, 80, 128}) {
    CAPTURE(head_dim);
    const ModelConfig one = config_of(head_dim);
    for (const KvType type : {KvType::kFp16, KvType::kInt8}) {
      CHECK(kv_position_bytes(one, type) * 64 == KvCache::bytes_needed(one, 64, 0, type));
    }
  }

  Cache cache(64);
  std::vector<float> k = normals(64, 1), v = normals(64, 2);
  cache.store(kernels_for(best_isa()), 70, k.data(), v.data());
  const std::vector<uint16_t> before = cache.kept(70).bits;
  // Twice as much: the same numbers, and another scale.
  for (float& x : k) x *= 2;
  for (float& x : v) x *= 2;
  cache.store(kernels_for(best_isa()), 70, k.data(), v.data());
  const std::vector<uint16_t> after = cache.kept(70).bits;
  for (size_t d = 0; d < before.size(); ++d) CHECK((before[d] & 0xff) == (after[d] & 0xff));
  for (size_t first = 0; first < before.size(); first += kKvScaled) {
    CHECK(!std::equal(&before[first], &before[first] + kKvScaled, &after[first]));
  }
}

}  // namespace kv_int8_test
