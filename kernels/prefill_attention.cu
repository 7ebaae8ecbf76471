// Attention of a prefill chunk on tensor cores: a block takes 64 rows of one head, 16 a warp,
// through all keys that they see, in tiles at absolute positions.
#include "prefill_attention.h"

#include "finish_head.cuh"
#include "launch.cuh"

namespace specbound::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarp;
constexpr int kBlockRows = kWarps * kQueryTile;
constexpr float kWeightScale = 16384.0f;  // of weights (0..1), so that FP16 holds small ones too

struct PrefillArguments {
  PrefillAttention p;
  int row_tiles;  // of q_tiles
  int padded;     // D
};

SPECBOUND_DEVICE uint32_t pack(uint16_t low, uint16_t high) {
  return low | static_cast<uint32_t>(high) << 16;
}

// x as two FP16 numbers: their sum is x to 22 bits.
struct Halves {
  uint16_t upper, rest;
};
SPECBOUND_DEVICE Halves split(float x) {
  const uint16_t upper = half_bits(x);
  return {upper, half_bits(x - half_float(upper))};
}

// ---- store_heads ----

// A finished query y (head_dim) into its row of the tiles, scaled so that its largest magnitude
// lies in [2^13, 2^14).
SPECBOUND_DEVICE void store_query(const PrefillArguments& a, int row, int head, const float* y) {
  const int n = a.p.heads.head_dim, lane = lane_index();
  uint32_t largest = 0;
  for (int d = lane; d < n; d += kWarp) {
    const uint32_t magnitude = bits_of(y[d]) & 0x7fffffffu;
    largest = largest > magnitude ? largest : magnitude;
  }
  const int exponent = static_cast<int>(max_bits_of_32(largest) >> 23);
  // Of the scale, as floats have it. An infinite or NaN query stays what it is.
  const int shifted = exponent == 255 ? 127 : exponent > 14 ? exponent - 13 : 1;
  const float inverse = float_of(static_cast<uint32_t>(254 - shifted) << 23);
  const int tile = row / kQueryTile, of_tile = row % kQueryTile;
  const size_t first = static_cast<size_t>(head) * a.row_tiles + tile;
  auto* to = reinterpret_cast<uint32_t*>(a.p.q_tiles) + first * (a.padded / 16) * 2 * kWarp * 4;
  for (int i = lane; i < a.padded / 2; i += kWarp) {
    const int d = 2 * i, of_block = d % 16;
    const Halves x = split(d < n ? y[d] * inverse : 0.0f);
    const Halves next = split(d < n ? y[d + 1] * inverse : 0.0f);
    const int owner = 4 * (of_tile % 8) + of_block % 8 / 2;
    const int word = 2 * (of_block / 8) + of_tile / 8;
    uint32_t* at = to + (d / 16 * 2 * kWarp + owner) * 4 + word;
    at[0] = pack(x.upper, next.upper);
    at[kWarp * 4] = pack(x.rest, next.rest);
  }
  if (lane == 0) {
    a.p.q_scale[first * kQueryTile + of_tile] = float_of(static_cast<uint32_t>(shifted) << 23);
  }
}

// A warp finishes a query head, or a key with its value, of one row.
template <class Kv>
__global__ void __launch_bounds__(kThreads) store_heads_kernel(PrefillArguments a) {
  const Heads& heads = a.p.heads;
  const int row = static_cast<int>(blockIdx.x), pos = a.p.pass->pos + row;
  if (row >= a.p.pass->n_rows) return;
  float* y = block_shared<float>() + warp_index() * heads.head_dim;
  const int first = a.p.store_queries ? 0 : heads.n_heads;
  const int head = first + static_cast<int>(blockIdx.y) * kWarps + warp_index();
  if (head < heads.n_heads) {
    finish_query(heads, row, head, pos, y);
    store_query(a, row, head, y);
  } else if (head < heads.n_heads + heads.n_kv_heads) {
    store_key_value<Kv>(heads, row, head - heads.n_heads, pos, pos, y);
  }
}

// ---- prefill_attention ----

template <int D>
struct Shape {
  static constexpr int kKeys = D > 128 ? 32 : 64;  // of a tile
  static constexpr int kKeyStride = kKeys + 8;  // words; 8 mod 16, so that a warp's reads of four
  static constexpr int kValueStride = D + 8;    // rows by eight columns are in different banks
  static constexpr int kKeyWords = D / 2 * kKeyStride, kValueWords = kKeys / 2 * kValueStride;
  static constexpr size_t kSharedBytes = (kKeyWords + kValueWords + 2 * kWarps) * sizeof(uint32_t);
};

// Two rows of eight halves as eight words, the first row in the lower halves.
SPECBOUND_DEVICE void store_pairs(const Word4& a, const Word4& b, uint32_t* to) {
  const uint32_t lower = 0xffffu, upper = 0xffff0000u;
  auto* four = reinterpret_cast<Word4*>(to);
  four[0] = {(a.x & lower) | b.x << 16, a.x >> 16 | (b.x & upper), (a.y & lower) | b.y << 16,
             a.y >> 16 | (b.y & upper)};
  four[1] = {(a.z & lower) | b.z << 16, a.z >> 16 | (b.z & upper), (a.w & lower) | b.w << 16,
             a.w >> 16 | (b.w & upper)};
}

// Keys begin.. of `k` (n_ctx/16, head_dim, 16) as (D/2, kKeys) words of two dimensions each.
template <int D>
SPECBOUND_DEVICE void stage_keys(const uint16_t* k, int head_dim, int begin, uint32_t* staged) {
  const auto* from = reinterpret_cast<const Word4*>(k + static_cast<size_t>(begin) * head_dim);
#pragma unroll
  for (int block = 0; block < Shape<D>::kKeys / 16; ++block) {
    for (int i = static_cast<int>(threadIdx.x); i < D; i += kThreads) {
      const int pair = i / 2, half = i % 2;
      const bool there = 2 * pair < head_dim;
      const Word4* at = from + (block * head_dim + 2 * pair) * 2 + half;
      const Word4 first = there ? at[0] : Word4{0, 0, 0, 0};
      const Word4 second = there ? at[2] : Word4{0, 0, 0, 0};
      store_pairs(first, second, staged + pair * Shape<D>::kKeyStride + 16 * block + 8 * half);
    }
  }
}

SPECBOUND_DEVICE bool finite_halves(uint32_t word) {
  return (word & 0x7c00u) != 0x7c00u && (word & 0x7c000000u) != 0x7c000000u;
}

// Some keys of a tile, a bit each: key 0 is the lowest bit of the first word.
SPECBOUND_DEVICE Word2 keys_below(int n) {
  const auto bits = [](int n) { return n <= 0 ? 0u : n >= 32 ? ~0u : (1u << n) - 1; };
  return {bits(n), bits(n - 32)};
}

// Values begin.. of `v` (n_ctx, head_dim) as (kKeys/2, D) words of two positions each. Eight of
// which one is not finite become zero: a weight of zero must not meet that. Returns the keys where
// this thread found one; past the pass's last position memory may hold anything.
template <int D>
SPECBOUND_DEVICE Word2 stage_values(const uint16_t* v, int head_dim, int begin, uint32_t* staged) {
  constexpr int kEights = D / 8;
  Word2 bad{0, 0};
#pragma unroll 2
  for (int i = static_cast<int>(threadIdx.x); i < Shape<D>::kKeys / 2 * kEights; i += kThreads) {
    const int pair = i / kEights, eight = i % kEights;
    Word4 rows[2];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int key = 2 * pair + e;
      rows[e] = Word4{0, 0, 0, 0};
      if (8 * eight >= head_dim) continue;
      const Word4 eight_values = *reinterpret_cast<const Word4*>(
          v + static_cast<size_t>(begin + key) * head_dim + 8 * eight);
      if (finite_halves(eight_values.x) && finite_halves(eight_values.y) &&
          finite_halves(eight_values.z) && finite_halves(eight_values.w)) {
        rows[e] = eight_values;
      } else {
        const uint32_t bit = 1u << key % 32;
        bad.x |= key < 32 ? bit : 0;
        bad.y |= key < 32 ? 0 : bit;
      }
    }
    store_pairs(rows[0], rows[1], staged + pair * Shape<D>::kValueStride + 8 * eight);
  }
  return bad;
}

// What a lane holds of its warp's 16 rows: rows lane/4 and lane/4 + 8, of each two columns in every
// 8 (2 (lane % 4), + 1).
template <int D>
struct Rows {
  float out[D / 8][4];       // so far, times kWeightScale
  float largest[2], sum[2];  // of scores; of exp(score - largest)
  float factor[2];           // of dot products
  int first[2], pos[2];      // keys that they see
  bool spoiled[2];           // by a value that is not finite
};

// Does row r see any of keys begin..?
template <int D>
SPECBOUND_DEVICE bool sees_tile(const Rows<D>& rows, int r, int begin) {
  return begin <= rows.pos[r] && begin + Shape<D>::kKeys > rows.first[r];
}

// Scores of a tile of keys: the rest of q first, whose products are small, then its upper half.
template <int D, int N>
SPECBOUND_DEVICE void tile_scores(const Word4* q, const uint32_t* keys, float (&score)[N][4]) {
  constexpr int kStride = Shape<D>::kKeyStride;
  const int lane = lane_index(), g = lane / 4, t = lane % 4;
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) score[n][e] = 0.0f;
  }
#pragma unroll
  for (int part = 1; part >= 0; --part) {
#pragma unroll 2
    for (int block = 0; block < D / 16; ++block) {
      const Word4 a = q[(2 * block + part) * kWarp + lane];
      const uint32_t* b = keys + (8 * block + t) * kStride + g;
#pragma unroll
      for (int n = 0; n < N; ++n) {
        mma_16x8x16(score[n], a, Word2{b[8 * n], b[8 * n + 4 * kStride]});
      }
    }
  }
}

// f(n, e) of every score that a lane holds.
template <int N, class F>
SPECBOUND_DEVICE void for_each_score(F f) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) f(n, e);
  }
}

// Scores of keys begin.. become weights; what the rows have so far must be multiplied by `old`.
template <int D, int N>
SPECBOUND_DEVICE void tile_weights(const Heads& heads, int begin, Rows<D>& rows,
                                   float (&score)[N][4], float (&old)[2]) {
  const int first = begin + 2 * (lane_index() % 4);
  float largest[2] = {-infinity(), -infinity()}, sum[2] = {0.0f, 0.0f};
  for_each_score<N>([&](int n, int e) { score[n][e] = score[n][e] * rows.factor[e / 2]; });
  if (heads.softcap > 0) {
    for_each_score<N>([&](int n, int e) { score[n][e] = softcap(score[n][e], heads.softcap); });
  }
  if (heads.window > 0) {
    for_each_score<N>([&](int n, int e) {
      if (first + 8 * n + e % 2 < rows.first[e / 2]) score[n][e] = -infinity();
    });
  }
  for_each_score<N>([&](int n, int e) {
    if (first + 8 * n + e % 2 > rows.pos[e / 2]) score[n][e] = -infinity();
    if (score[n][e] > largest[e / 2]) largest[e / 2] = score[n][e];  // NaN is passed over
  });
#pragma unroll
  for (int r = 0; r < 2; ++r) {
#pragma unroll
    for (int step = 1; step <= 2; step *= 2) {
      const float other = shuffle_xor(largest[r], step);
      if (other > largest[r]) largest[r] = other;
    }
    if (rows.largest[r] > largest[r]) largest[r] = rows.largest[r];
    old[r] = exp_formula(rows.largest[r] - largest[r]);
  }
  for_each_score<N>([&](int n, int e) {
    score[n][e] = exp_formula(score[n][e] - largest[e / 2]);  // 0 for keys that are not seen
    sum[e / 2] = sum[e / 2] + score[n][e];
  });
#pragma unroll
  for (int r = 0; r < 2; ++r) {
#pragma unroll
    for (int step = 1; step <= 2; step *= 2) sum[r] = sum[r] + shuffle_xor(sum[r], step);
    if (!sees_tile(rows, r, begin)) continue;
    rows.sum[r] = fused(rows.sum[r], old[r], sum[r]);
    rows.largest[r] = largest[r];
  }
}

// out = old out + weights V: first with what the upper halves of the weights left.
template <int D, int N>
SPECBOUND_DEVICE void add_tile(int begin, const float (&weight)[N][4], const float (&old)[2],
                               const uint32_t* values, Rows<D>& rows) {
  constexpr int kStride = Shape<D>::kValueStride;
  const int lane = lane_index(), g = lane / 4, t = lane % 4;
  Word4 upper[N / 2], rest[N / 2];
#pragma unroll
  for (int block = 0; block < N / 2; ++block) {
    uint32_t words[2][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // rows g, g + 8, then the same of the next 8 keys
      const float(&two)[4] = weight[2 * block + i / 2];
      const Halves a = split(two[2 * (i % 2)] * kWeightScale);
      const Halves b = split(two[2 * (i % 2) + 1] * kWeightScale);
      words[0][i] = pack(a.upper, b.upper);
      words[1][i] = pack(a.rest, b.rest);
    }
    upper[block] = {words[0][0], words[0][1], words[0][2], words[0][3]};
    rest[block] = {words[1][0], words[1][1], words[1][2], words[1][3]};
  }
#pragma unroll
  for (int n = 0; n < D / 8; ++n) {
    const uint32_t* b = values + t * kStride + 8 * n + g;
    Word2 v[N / 2];
    float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int block = 0; block < N / 2; ++block) {
      v[block] = {b[8 * block * kStride], b[(8 * block + 4) * kStride]};
    }
#pragma unroll
    for (int block = 0; block < N / 2; ++block) mma_16x8x16(c, rest[block], v[block]);
#pragma unroll
    for (int block = 0; block < N / 2; ++block) mma_16x8x16(c, upper[block], v[block]);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float sum = fused(rows.out[n][e], old[e / 2], c[e]);
      rows.out[n][e] = sees_tile(rows, e / 2, begin) ? sum : rows.out[n][e];
    }
  }
}

template <int D>
__global__ void __launch_bounds__(kThreads, 2) prefill_attention_kernel(PrefillArguments a) {
  using S = Shape<D>;
  const Heads& heads = a.p.heads;
  const int n_rows = a.p.pass->n_rows, pos = a.p.pass->pos, n = heads.head_dim;
  // The last rows see most keys: they start first.
  const int block_row = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kBlockRows;
  if (block_row >= n_rows) return;
  const int head = static_cast<int>(blockIdx.y), lane = lane_index();
  const int kv_head = head / (heads.n_heads / heads.n_kv_heads);
  const size_t of_head = static_cast<size_t>(kv_head) * heads.kv.n_ctx * n;
  auto* keys = block_shared<uint32_t>();
  uint32_t* values = keys + S::kKeyWords;
  auto* bad_keys = reinterpret_cast<Word2*>(values + S::kValueWords);  // (kWarps)

  // Positions of the last row of the pass, the block, and the warp (-1: it has none).
  const int last = pos + n_rows - 1, warp_row = block_row + warp_index() * kQueryTile;
  const int block_end = pos + block_row + kBlockRows - 1;
  const int block_last = block_end < last ? block_end : last;
  const int warp_end = pos + warp_row + kQueryTile - 1;
  const int warp_last = warp_row >= n_rows ? -1 : warp_end < last ? warp_end : last;

  const size_t tile = static_cast<size_t>(head) * a.row_tiles + warp_row / kQueryTile;
  const auto* q = reinterpret_cast<const Word4*>(a.p.q_tiles) + tile * (D / 16) * 2 * kWarp;
  Rows<D> rows{};
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int of_tile = lane / 4 + 8 * r;
    rows.pos[r] = pos + warp_row + of_tile;
    rows.first[r] = first_key(heads, rows.pos[r]);
    rows.spoiled[r] = false;
    rows.largest[r] = -infinity();
    rows.factor[r] = 0.0f;
    if (warp_row + of_tile < n_rows) {
      rows.factor[r] = a.p.q_scale[tile * kQueryTile + of_tile] * heads.score_scale;
    }
  }

  // Whole tiles that the first row does not see are seen by none.
  const int block_first = first_key(heads, pos + block_row) / S::kKeys * S::kKeys;
  const int warp_first = first_key(heads, pos + warp_row);
  for (int begin = block_first; begin <= block_last; begin += S::kKeys) {
    stage_keys<D>(static_cast<const uint16_t*>(heads.kv.k) + of_head, n, begin, keys);
    Word2 bad =
        stage_values<D>(static_cast<const uint16_t*>(heads.kv.v) + of_head, n, begin, values);
#pragma unroll
    for (int step = 16; step >= 1; step /= 2) {
      bad.x |= shuffle_xor(bad.x, step);
      bad.y |= shuffle_xor(bad.y, step);
    }
    if (lane == 0) bad_keys[warp_index()] = bad;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kWarps; ++i) {
      bad.x |= bad_keys[i].x;
      bad.y |= bad_keys[i].y;
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const Word2 before = keys_below(rows.first[r] - begin);
      const Word2 until = keys_below(rows.pos[r] + 1 - begin);
      rows.spoiled[r] |= ((bad.x & until.x & ~before.x) | (bad.y & until.y & ~before.y)) != 0;
    }
    if (begin <= warp_last && begin + S::kKeys > warp_first) {
      float score[S::kKeys / 8][4], old[2];
      tile_scores<D>(q, keys, score);
      tile_weights(heads, begin, rows, score, old);
      add_tile(begin, score, old, values, rows);
    }
    __syncthreads();  // the tile has been read
  }

#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = warp_row + lane / 4 + 8 * r;
    if (row >= n_rows) continue;
    const float inverse =
        rows.spoiled[r] ? not_a_number() : 1.0f / rows.sum[r] * (1.0f / kWeightScale);
    float* out = a.p.attended + static_cast<size_t>(row) * q_dim_of(heads) + head * n;
#pragma unroll
    for (int i = 0; i < D / 8; ++i) {
      const int d = 8 * i + 2 * (lane % 4);
      if (d >= n) continue;
      *reinterpret_cast<Float2*>(out + d) =
          Float2{rows.out[i][2 * r] * inverse, rows.out[i][2 * r + 1] * inverse};
    }
  }
}

template <int D>
void launch_prefill(const PrefillArguments& a, Stream stream) {
  const Grid blocks{static_cast<unsigned>((a.p.max_rows + kBlockRows - 1) / kBlockRows),
                    static_cast<unsigned>(a.p.heads.n_heads)};
  launch(prefill_attention_kernel<D>, "prefill_attention",
         {blocks, kThreads, Shape<D>::kSharedBytes}, stream, a);
}

PrefillArguments checked(const PrefillAttention& p) {
  SB_CHECK(p.pass != nullptr && p.max_rows >= 1 && p.max_rows <= kMaxPrefillRows);
  check_heads(p.heads);
  if (p.store_queries) {
    SB_CHECK(p.q_tiles != nullptr && reinterpret_cast<uintptr_t>(p.q_tiles) % 16 == 0);
    SB_CHECK(p.q_scale != nullptr);
    SB_CHECK(p.attended != nullptr && reinterpret_cast<uintptr_t>(p.attended) % 8 == 0);
  }
  const int n = p.heads.head_dim;
  return {p, (p.max_rows + kQueryTile - 1) / kQueryTile, prefill_head_dim(n)};
}

}  // namespace

void store_heads(const PrefillAttention& p, Stream stream) {
  const PrefillArguments a = checked(p);
  const int units = p.heads.n_kv_heads + (p.store_queries ? p.heads.n_heads : 0);
  const Grid blocks{static_cast<unsigned>(p.max_rows),
                    static_cast<unsigned>((units + kWarps - 1) / kWarps)};
  launch(p.heads.kv.int8 ? store_heads_kernel<KvI8> : store_heads_kernel<KvF16>, "store_heads",
         {blocks, kThreads, kWarps * p.heads.head_dim * sizeof(float)}, stream, a);
}

void prefill_attention(const PrefillAttention& p, Stream stream) {
  SB_CHECK(p.store_queries && !p.heads.kv.int8);
  const PrefillArguments a = checked(p);
  switch (a.padded) {
    case 64:
      return launch_prefill<64>(a, stream);
    case 80:
      return launch_prefill<80>(a, stream);
    case 96:
      return launch_prefill<96>(a, stream);
    case 128:
      return launch_prefill<128>(a, stream);
    default:
      return launch_prefill<256>(a, stream);
  }
}

}  // namespace specbound::kernels
