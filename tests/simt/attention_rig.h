// What attention kernels are tested on: random heads, and the CPU backend's kernels over the same.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "attention.h"
#include "engine/cpu/kernels.h"
#include "engine/row_paths.h"
#include "numerics/exact_math.h"
#include "numerics/half.h"
#include "simt/rig.h"

namespace specbound::test {

// Rows follow any before them: half of them the one just before.
inline RowPaths random_paths(std::mt19937_64& random) {
  RowPaths paths;
  for (int slot = 1; slot < kMaxRows; ++slot) {
    const int any = static_cast<int>(random() % slot);
    paths.follow(slot, random() % 2 == 0 ? slot - 1 : any);
  }
  return paths;
}

// All rows follow the first.
inline RowPaths siblings() {
  RowPaths paths;
  for (int slot = 1; slot < kMaxRows; ++slot) paths.follow(slot, 0);
  return paths;
}

// One row beside the root's first child, then a chain behind that: every key one place on.
inline RowPaths shifted() {
  RowPaths paths;
  for (int slot = 1; slot < kMaxRows; ++slot) paths.follow(slot, slot == 2 ? 0 : slot - 1);
  return paths;
}

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

  // The same with K and V of 8 bits, by the CPU's formula; where a number was NaN, the scale is.
  HeadProblem in_int8() const;

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
  // As layouts.h has them; k_place() and v_place() are of FP16.
  bool int8 = false;
  std::vector<uint16_t> k, v;
};

// K and V of one head as the CPU has them: values padded to whole vectors, INT8 ones in chunks.
class CpuHead {
 public:
  CpuHead(int head_dim, int n_ctx, bool int8)
      : n_(head_dim),
        n_ctx_(n_ctx),
        v_stride_((head_dim + 15) / 16 * 16),
        type_(int8 ? KvType::kInt8 : KvType::kFp16),
        k_(kv_block_bytes(type_, n_, kAttentionChunk) * (n_ctx / kAttentionChunk)),
        v_(value_chunk_bytes(type_, v_stride_) * (n_ctx / kAttentionChunk)) {}

  KvHead head() { return {k_.data(), v_.data(), v_stride_, type_}; }
  int v_stride() const { return v_stride_; }

  // Of head `h` in the vectors of a problem.
  void read(const std::vector<uint16_t>& k, const std::vector<uint16_t>& v, int h) {
    std::memcpy(k_.data(), k.data() + k_.size() / 2 * h, k_.size());
    each_value(v, h, [](const std::byte* there, std::byte* here, size_t bytes) {
      std::memcpy(here, there, bytes);
    });
  }
  void write(std::vector<uint16_t>& k, std::vector<uint16_t>& v, int h) {
    std::memcpy(k.data() + k_.size() / 2 * h, k_.data(), k_.size());
    each_value(v, h, [](std::byte* there, const std::byte* here, size_t bytes) {
      std::memcpy(there, here, bytes);
    });
  }

 private:
  // copy(there, here, bytes) of each value's numbers, and each of their scales.
  template <class Vector, class Copy>
  void each_value(Vector& v, int h, const Copy& copy) {
    const bool int8 = type_ == KvType::kInt8;
    const size_t number = kv_number_bytes(type_), block = kernels::kv_bytes(int8, n_, 1);
    for (int at = 0; at < n_ctx_; ++at) {
      const int in_block = at % kernels::kKeyBlock, in_chunk = at % kAttentionChunk;
      const size_t blocks = size_t(h) * n_ctx_ / kernels::kKeyBlock + at / kernels::kKeyBlock;
      auto* there = bytes_of(v) + blocks * block;
      std::byte* here = v_.data() + at / kAttentionChunk * value_chunk_bytes(type_, v_stride_);
      copy(there + in_block * n_ * number, here + in_chunk * v_stride_ * number, n_ * number);
      there += kernels::kKeyBlock * n_ * number;
      here += kAttentionChunk * v_stride_ * number;
      for (int b = 0; b < kv_scales(type_, n_); ++b) {
        copy(there + 2 * (kernels::kKeyBlock * b + in_block),
             here + 2 * (kAttentionChunk * b + in_chunk), sizeof(uint16_t));
      }
    }
  }
  static std::byte* bytes_of(std::vector<uint16_t>& v) {
    return reinterpret_cast<std::byte*>(v.data());
  }
  static const std::byte* bytes_of(const std::vector<uint16_t>& v) {
    return reinterpret_cast<const std::byte*>(v.data());
  }

  int n_, n_ctx_, v_stride_;
  KvType type_;
  std::vector<std::byte> k_, v_;
};

inline HeadProblem HeadProblem::in_int8() const {
  const int n = shape.head_dim;
  HeadProblem p = *this;
  p.int8 = true;
  p.k.assign(shape.n_kv_heads * kernels::kv_bytes(true, n, n_ctx) / 2, 0);
  p.v = p.k;
  std::vector<float> key(n), value(n);
  for (int h = 0; h < shape.n_kv_heads; ++h) {
    CpuHead head(n, n_ctx, true);
    for (int at = 0; at < n_ctx; ++at) {
      for (int d = 0; d < n; ++d) {
        key[d] = half_to_float(k[k_place(h, at, d)]);
        value[d] = half_to_float(v[v_place(h, at, d)]);
      }
      kernels_for(Isa::kPortable).store_kv(key.data(), value.data(), n, at, head.head());
    }
    head.write(p.k, p.v, h);
  }
  return p;
}

// Everything that outlives a pass: queries as finished, attended rows, the cache after the pass.
struct HeadResult {
  std::vector<float> q, attended;  // (n_rows, q_dim)
  std::vector<uint16_t> k, v;      // as layouts.h has them, NaN where nothing was written
};

// The CPU backend's way (cpu_backend.cpp: finish_head, attend_task).
inline HeadResult attend_on_cpu(const HeadProblem& p, Isa isa = best_isa()) {
  const Kernels& kernels = kernels_for(isa);
  const HeadShape& s = p.shape;
  const int n = s.head_dim;
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
    CpuHead cached(n, p.n_ctx, p.int8);
    cached.read(p.k, p.v, h);
    const KvHead head = cached.head();
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
    std::vector<float> scratch(queries.size() * (cached.v_stride() + 2));
    kernels.attention(head, queries.data(), static_cast<int>(queries.size()), n, s.score_scale(),
                      s.softcap, scratch.data());
    cached.write(out.k, out.v, h);
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
    heads.kv = {k.data(), v.data(), p.n_ctx, p.int8};
    qkv_.from_kernel();
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

// Who joins the chunks' results: a kernel, or the last block of the one that makes them.
enum class Joins { kKernel, kLastBlock };

// A pass on the device; context 0: the smallest bucket.
inline PassResult attend(const HeadProblem& p, bool quantize = false, int context = 0,
                         Joins joins = Joins::kKernel) {
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
  const simt::DeviceBuffer<uint32_t> arrived(std::vector<uint32_t>(p.shape.n_kv_heads));
  if (joins == Joins::kLastBlock) a.arrived = arrived.data();
  kernels::attend_chunks(a, simt::stream());
  if (joins == Joins::kKernel) kernels::combine_chunks(a, simt::stream());
  REQUIRE(arrived.read() == std::vector<uint32_t>(p.shape.n_kv_heads));
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

// f(problem) with K and V as FP16, then as INT8.
template <class F>
void with_each_kv(const HeadProblem& p, const F& f) {
  f(p);
  f(p.in_int8());
}

inline void check_against_cpu(const HeadProblem& of_fp16) {
  with_each_kv(of_fp16, [](const HeadProblem& p) {
    CAPTURE(p.shape.n_heads);
    CAPTURE(p.shape.n_kv_heads);
    CAPTURE(p.shape.head_dim);
    CAPTURE(p.shape.rope_dim());
    CAPTURE(p.shape.window);
    CAPTURE(p.shape.softcap);
    CAPTURE(p.int8);
    CAPTURE(p.pos);
    CAPTURE(p.slot);
    CAPTURE(p.n_rows);
    const HeadResult expected = attend_on_cpu(p);
    for (const Joins joins : {Joins::kKernel, Joins::kLastBlock}) {
      if (joins == Joins::kLastBlock && p.n_rows > 5) continue;  // it is for few
      if (joins == Joins::kLastBlock && !kernels::can_join_chunks(p.tree, p.int8)) continue;
      CAPTURE(joins);
      const PassResult found = attend(p, false, 0, joins);
      CHECK(same_floats(found.attended, expected.attended));
      CHECK(found.k == expected.k);
      CHECK(found.v == expected.v);
    }
  });
}

}  // namespace specbound::test
