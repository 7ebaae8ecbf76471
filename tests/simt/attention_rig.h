// What attention kernels are tested on: random heads, and the CPU backend's kernels over the same.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "attention.h"
#include "engine/cpu/kernels.h"
#include "engine/row_paths.h"
#include "numerics/exact_math.h"
#include "numerics/half.h"
#include "simt/rig.h"

namespace specbound::test {

struct HeadShape {
  int n_heads, n_kv_heads, head_dim;
  bool bias = false, norm = false, interleaved = false;
  int rotated = -1;  // of a head; -1: all of it
  float softcap = 0;
  int window = 0;

  int rope_dim() const { return rotated < 0 ? head_dim : rotated; }
  float score_scale() const { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }
  int first_key(int pos) const { return window > 0 ? std::max(0, pos - window + 1) : 0; }
  int q_dim() const { return n_heads * head_dim; }
  int kv_dim() const { return n_kv_heads * head_dim; }
  int group() const { return n_heads / n_kv_heads; }
};

// A layer's weights, the K/V cache of `n_ctx` positions, and the matmul's results for `n_rows` rows
// whose place is `pos` and on. Places from `pos` on hold NaN in the cache.
class HeadProblem {
 public:
  static constexpr uint16_t kNanHalf = 0x7e01;
  static constexpr float kEps = 1e-5f;

  HeadProblem(const HeadShape& shape, int n_ctx, int pos, int n_rows, uint64_t seed = 1)
      : shape(shape), n_ctx(n_ctx), pos(pos), n_rows(n_rows) {
    const int n = shape.head_dim;
    qkv = random_floats(static_cast<size_t>(n_rows) * stride(), seed + 1);
    if (shape.bias) {
      q_bias = random_floats(shape.q_dim(), seed + 2);
      k_bias = random_floats(shape.kv_dim(), seed + 3);
      v_bias = random_floats(shape.kv_dim(), seed + 4);
    }
    if (shape.norm) {
      q_norm = random_floats(n, seed + 5, 0.2f, 1);
      k_norm = random_floats(n, seed + 6, 0.2f, 1);
    }
    const int rotated = shape.rope_dim();
    for (int p = 0; p < n_ctx; ++p) {
      for (int i = 0; i < rotated; ++i) {
        const int pair = shape.interleaved ? i / 2 : i % (rotated / 2);
        const bool first = shape.interleaved ? i % 2 == 0 : i < rotated / 2;
        const SinCos angle = exact_sin_cos(p * std::pow(10000.0, -2.0 * pair / rotated));
        cosine.push_back(static_cast<float>(angle.cos));
        sine.push_back(static_cast<float>(first ? -angle.sin : angle.sin));
      }
    }
    const size_t cached = static_cast<size_t>(shape.n_kv_heads) * n_ctx * n;
    const std::vector<float> k_values = random_floats(cached, seed + 7),
                             v_values = random_floats(cached, seed + 8);
    k.assign(cached, kNanHalf);
    v.assign(cached, kNanHalf);
    for (int h = 0; h < shape.n_kv_heads; ++h) {
      for (int p = 0; p < pos; ++p) {
        for (int d = 0; d < n; ++d) {
          k[k_place(h, p, d)] = float_to_half(k_values[v_place(h, p, d)]);
          v[v_place(h, p, d)] = float_to_half(v_values[v_place(h, p, d)]);
        }
      }
    }
  }

  int stride() const { return shape.q_dim() + 2 * shape.kv_dim(); }
  size_t k_place(int head, int p, int d) const {
    return static_cast<size_t>(head) * n_ctx * shape.head_dim +
           (static_cast<size_t>(p / 16) * shape.head_dim + d) * 16 + p % 16;
  }
  size_t v_place(int head, int p, int d) const {
    return (static_cast<size_t>(head) * n_ctx + p) * shape.head_dim + d;
  }

  // The rows are those of slots slot.. of a round.
  HeadProblem& in_tree(const RowPaths& rows, int first_slot) {
    tree = true;
    paths = rows;
    slot = first_slot;
    return *this;
  }
  int root() const { return pos - slot; }
  int position(int row) const { return tree ? root() + paths[slot + row].depth : pos + row; }

  HeadShape shape;
  int n_ctx, pos, n_rows;
  bool tree = false;
  RowPaths paths;
  int slot = 0;
  std::vector<float> qkv, q_bias, k_bias, v_bias, q_norm, k_norm, cosine, sine;
  std::vector<uint16_t> k, v;  // as layouts.h has them
};

// Everything that outlives a pass: queries as finished, attended rows, the cache after the pass.
struct HeadResult {
  std::vector<float> q, attended;  // (n_rows, q_dim)
  std::vector<uint16_t> k, v;      // as layouts.h has them, NaN where nothing was written
};

// The CPU backend's way (cpu_backend.cpp: finish_head, attend_task).
inline HeadResult attend_on_cpu(const HeadProblem& p, Isa isa = best_isa()) {
  const Kernels& kernels = kernels_for(isa);
  const HeadShape& s = p.shape;
  const int n = s.head_dim, v_stride = (n + 15) / 16 * 16;
  HeadResult out{{}, std::vector<float>(static_cast<size_t>(p.n_rows) * s.q_dim()), p.k, p.v};
  for (int row = 0; row < p.n_rows; ++row) {
    const float* from = &p.qkv[static_cast<size_t>(row) * p.stride()];
    out.q.insert(out.q.end(), from, from + s.q_dim());
  }
  const auto finish = [&](float* x, const float* bias, const std::vector<float>& norm, int pos) {
    for (int i = 0; bias && i < n; ++i) x[i] += bias[i];
    if (!norm.empty()) kernels.rmsnorm(x, norm.data(), HeadProblem::kEps, n, x);
    if (s.rope_dim() == 0) return;
    const size_t angles = static_cast<size_t>(pos) * s.rope_dim();
    kernels.rotate(x, &p.cosine[angles], &p.sine[angles], s.interleaved, s.rope_dim());
  };
  for (int h = 0; h < s.n_kv_heads; ++h) {
    // Its own layout: values padded to whole vectors.
    std::vector<uint16_t> keys(p.k.begin() + p.k_place(h, 0, 0),
                               p.k.begin() + p.k_place(h, 0, 0) + static_cast<size_t>(p.n_ctx) * n);
    std::vector<uint16_t> values(static_cast<size_t>(p.n_ctx) * v_stride);
    for (int at = 0; at < p.n_ctx; ++at) {
      std::memcpy(&values[static_cast<size_t>(at) * v_stride], &p.v[p.v_place(h, at, 0)],
                  n * sizeof(uint16_t));
    }
    const KvHead head{keys.data(), values.data(), v_stride};
    std::vector<Query> queries;
    for (int row = 0; row < p.n_rows; ++row) {
      const float* k_row = &p.qkv[static_cast<size_t>(row) * p.stride() + s.q_dim() + h * n];
      std::vector<float> k(k_row, k_row + n), v(k_row + s.kv_dim(), k_row + s.kv_dim() + n);
      finish(k.data(), s.bias ? &p.k_bias[h * n] : nullptr, p.k_norm, p.position(row));
      for (int i = 0; s.bias && i < n; ++i) v[i] += p.v_bias[h * n + i];
      kernels.store_kv(k.data(), v.data(), n, p.pos + row, head);
      for (int g = 0; g < s.group(); ++g) {
        const size_t first = static_cast<size_t>(h * s.group() + g) * n;
        const size_t at = static_cast<size_t>(row) * s.q_dim() + first;
        const int pos = p.position(row);
        finish(&out.q[at], s.bias ? &p.q_bias[first] : nullptr, p.q_norm, pos);
        queries.push_back({&out.q[at], &out.attended[at], pos, s.first_key(pos)});
        if (!p.tree || p.paths[p.slot + row].straight) continue;
        queries.back().path = p.paths[p.slot + row].slots.data();
        queries.back().root = p.root();
      }
    }
    std::vector<float> scratch(queries.size() * (v_stride + 2));
    kernels.attention(head, queries.data(), static_cast<int>(queries.size()), n, s.score_scale(),
                      s.softcap, scratch.data());
    std::copy(keys.begin(), keys.end(), out.k.begin() + p.k_place(h, 0, 0));
    for (int at = 0; at < p.n_ctx; ++at) {
      std::memcpy(&out.v[p.v_place(h, at, 0)], &values[static_cast<size_t>(at) * v_stride],
                  n * sizeof(uint16_t));
    }
  }
  return out;
}

// The problem on the device, as kernels take it.
class HeadBuffers {
 public:
  explicit HeadBuffers(const HeadProblem& p)
      : k(p.k),
        v(p.v),
        qkv_(p.qkv),
        q_bias_(p.q_bias),
        k_bias_(p.k_bias),
        v_bias_(p.v_bias),
        q_norm_(p.q_norm),
        k_norm_(p.k_norm),
        cosine_(p.cosine),
        sine_(p.sine) {
    const auto or_null = [](const simt::DeviceBuffer<float>& b) {
      return b.size() > 0 ? b.data() : nullptr;
    };
    heads.n_heads = p.shape.n_heads;
    heads.n_kv_heads = p.shape.n_kv_heads;
    heads.head_dim = p.shape.head_dim;
    heads.qkv = qkv_.data();
    heads.q_bias = or_null(q_bias_);
    heads.k_bias = or_null(k_bias_);
    heads.v_bias = or_null(v_bias_);
    heads.q_norm = or_null(q_norm_);
    heads.k_norm = or_null(k_norm_);
    heads.norm_eps = HeadProblem::kEps;
    heads.cosine = or_null(cosine_);
    heads.sine = or_null(sine_);
    heads.interleaved = p.shape.interleaved;
    heads.rope_dim = p.shape.rope_dim();
    heads.score_scale = p.shape.score_scale();
    heads.softcap = p.shape.softcap;
    heads.window = p.shape.window;
    heads.kv = {k.data(), v.data(), p.n_ctx};
  }

  kernels::Heads heads{};
  simt::DeviceBuffer<uint16_t> k, v;

 private:
  simt::DeviceBuffer<float> qkv_, q_bias_, k_bias_, v_bias_, q_norm_, k_norm_, cosine_, sine_;
};

// The rows of a problem's pass as the device has them.
inline kernels::RowTree row_tree(const HeadProblem& p) {
  kernels::RowTree tree{};
  for (int row = 0; row < p.n_rows; ++row) {
    const RowPath& path = p.paths[p.slot + row];
    tree.depth[row] = static_cast<uint8_t>(path.depth);
    for (int d = 0; d <= path.depth; ++d) {
      tree.path[row] |= static_cast<uint64_t>(path.slots[d]) << (4 * d);
    }
  }
  return tree;
}

// What a decode pass leaves.
struct PassResult {
  std::vector<float> attended, d;
  std::vector<int8_t> q;
  std::vector<uint16_t> k, v;
};

// A pass on the device; context 0: the smallest bucket.
inline PassResult attend(const HeadProblem& p, bool quantize = false, int context = 0) {
  const int q_dim = p.shape.q_dim(), chunks = p.n_ctx / kernels::kAttentionChunk;
  const int rows = kernels::kMaxDecodeRows;
  HeadBuffers buffers(p);
  const simt::DeviceBuffer<kernels::Pass> pass(
      std::vector<kernels::Pass>{{p.n_rows, p.pos, p.slot}});
  const simt::DeviceBuffer<kernels::RowTree> tree(std::vector<kernels::RowTree>{row_tree(p)});
  simt::DeviceBuffer<float> states(static_cast<size_t>(rows) * p.shape.n_heads * chunks * 2);
  simt::DeviceBuffer<float> outputs(static_cast<size_t>(chunks) * rows * q_dim);
  simt::DeviceBuffer<float> attended(static_cast<size_t>(rows) * q_dim);
  simt::DeviceBuffer<int8_t> q(quantize ? static_cast<size_t>(rows) * q_dim : 0);
  simt::DeviceBuffer<float> d(q.size() / kQuantBlock);
  if (context == 0) context = (p.pos + p.n_rows + 63) / 64 * 64;
  kernels::Attend a{pass.data(),
                    buffers.heads,
                    context,
                    states.data(),
                    outputs.data(),
                    attended.data(),
                    {q_dim, nullptr, nullptr}};
  if (quantize) a.quantized = {q_dim, q.data(), d.data()};
  if (p.tree) a.tree = tree.data();
  kernels::attend_chunks(a, simt::stream());
  kernels::combine_chunks(a, simt::stream());
  PassResult out{attended.read(), d.read(), q.read(), buffers.k.read(), buffers.v.read()};
  // Rows past the last are nobody's: still as they were.
  for (size_t i = static_cast<size_t>(p.n_rows) * q_dim; i < out.attended.size(); ++i) {
    unsigned char bytes[4];
    std::memcpy(bytes, &out.attended[i], 4);
    REQUIRE(bytes[0] == simt::poison());
  }
  out.attended.resize(static_cast<size_t>(p.n_rows) * q_dim);
  return out;
}

inline void check_against_cpu(const HeadProblem& p) {
  CAPTURE(p.shape.n_heads);
  CAPTURE(p.shape.n_kv_heads);
  CAPTURE(p.shape.head_dim);
  CAPTURE(p.shape.rope_dim());
  CAPTURE(p.shape.window);
  CAPTURE(p.shape.softcap);
  CAPTURE(p.pos);
  CAPTURE(p.slot);
  CAPTURE(p.n_rows);
  const HeadResult expected = attend_on_cpu(p);
  const PassResult found = attend(p);
  CHECK(same_floats(found.attended, expected.attended));
  CHECK(found.k == expected.k);
  CHECK(found.v == expected.v);
}

}  // namespace specbound::test
