// Attention of a prefill chunk on tensor cores: a block takes 64 rows of one head, 16 a warp,
// through all keys that they see, in tiles at absolute positions. The next keys are on their way
// while values are added up, these while scores are formed.
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

// A tile of keys and one of values lie in shared memory as in the cache, in pieces of eight halves.
template <int D>
struct Shape {
  static constexpr int kKeys = D > 128 ? 32 : 64;  // of a tile
  static constexpr int kKeyBlockPieces = 2 * D;    // of 16 keys
  static constexpr int kKeyPieces = kKeys / 16 * kKeyBlockPieces;
  static constexpr int kValuePieces = D / 8;  // of a value; kept one more apart, which is odd, so
  static constexpr int kValueStride = kValuePieces + 1;  // that eight rows are in different banks
  static constexpr size_t kSharedBytes =
      (kKeyPieces + kKeys * kValueStride) * sizeof(Word4) + kWarps * sizeof(Word2);
};

// Where piece i of 16 keys lies: those of every other four dimensions the other way around, so that
// eight dimensions of eight keys are in different banks.
SPECBOUND_DEVICE int place_of_piece(int i) {
  return i ^ (i / 8 & 1);
}

// f(16 keys of the tile, piece of these, its place) of all that this thread copies.
template <int D, class F>
SPECBOUND_DEVICE void for_each_key_piece(F f) {
  constexpr int kPieces = Shape<D>::kKeyBlockPieces;
  const int thread = static_cast<int>(threadIdx.x), place = place_of_piece(thread);
#pragma unroll
  for (int first = 0; first < kPieces; first += kThreads) {
    if (kPieces % kThreads != 0 && first + thread >= kPieces) continue;
#pragma unroll
    for (int block = 0; block < Shape<D>::kKeys / 16; ++block) {
      f(block, first + thread, block * kPieces + first + place);
    }
  }
}

// Keys begin.. of `k` (n_ctx/16, head_dim, 16).
template <int D>
SPECBOUND_DEVICE void fetch_keys(const uint16_t* k, int head_dim, int begin, Word4* keys) {
  const auto* from = reinterpret_cast<const Word4*>(k + static_cast<size_t>(begin) * head_dim);
  for_each_key_piece<D>([&](int block, int i, int place) {
    if (i < 2 * head_dim) copy_later(keys + place, from + block * 2 * head_dim + i);
  });
}

// Zero where there are no dimensions.
template <int D>
SPECBOUND_DEVICE void pad_keys(int head_dim, Word4* keys) {
  for_each_key_piece<D>([&](int, int i, int place) {
    if (i >= 2 * head_dim) keys[place] = Word4{0, 0, 0, 0};
  });
}

// f(key of the tile, piece of its value) of all that this thread copies.
template <int D, int kUnrolled, class F>
SPECBOUND_DEVICE void for_each_value_piece(int head_dim, F f) {
  constexpr int kPieces = Shape<D>::kValuePieces, kAtOnce = kThreads / kPieces;
  const int thread = static_cast<int>(threadIdx.x), key = thread / kPieces, i = thread % kPieces;
  if (8 * i >= head_dim || key >= kAtOnce) return;
#pragma unroll kUnrolled
  for (int first = 0; first < Shape<D>::kKeys; first += kAtOnce) {
    if (Shape<D>::kKeys % kAtOnce == 0 || first + key < Shape<D>::kKeys) f(first + key, i);
  }
}

// Values begin.. of `v` (n_ctx, head_dim).
template <int D>
SPECBOUND_DEVICE void fetch_values(const uint16_t* v, int head_dim, int begin, Word4* values) {
  const auto* from = reinterpret_cast<const Word4*>(v + static_cast<size_t>(begin) * head_dim);
  for_each_value_piece<D, Shape<D>::kKeys>(head_dim, [&](int key, int i) {
    copy_later(values + key * Shape<D>::kValueStride + i, from + key * (head_dim / 8) + i);
  });
}

SPECBOUND_DEVICE bool finite_halves(uint32_t word) {
  return (word & 0x7c00u) != 0x7c00u && (word & 0x7c000000u) != 0x7c000000u;
}

// Some keys of a tile, a bit each: key 0 is the lowest bit of the first word.
SPECBOUND_DEVICE Word2 keys_below(int n) {
  const auto bits = [](int n) { return n <= 0 ? 0u : n >= 32 ? ~0u : (1u << n) - 1; };
  return {bits(n), bits(n - 32)};
}

// Of a tile that not all rows see whole: eight halves of which one is not finite become zero, since
// a weight of zero must not meet that; past the pass's last position memory may hold anything.
// Returns the keys where the warp found one among what it copied.
template <int D>
SPECBOUND_DEVICE Word2 clear_bad_values(int head_dim, Word4* values) {
  Word2 bad{0, 0};
  for_each_value_piece<D, 1>(head_dim, [&](int key, int i) {
    Word4& eight = values[key * Shape<D>::kValueStride + i];
    if (finite_halves(eight.x) && finite_halves(eight.y) && finite_halves(eight.z) &&
        finite_halves(eight.w)) {
      return;
    }
    eight = Word4{0, 0, 0, 0};
    const uint32_t bit = 1u << key % 32;
    bad.x |= key < 32 ? bit : 0;
    bad.y |= key < 32 ? 0 : bit;
  });
#pragma unroll
  for (int step = 16; step >= 1; step /= 2) {
    bad.x |= shuffle_xor(bad.x, step);
    bad.y |= shuffle_xor(bad.y, step);
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

// Scores of a tile of keys: the rest of q first, whose products are small, then its upper half.
template <int D, int N>
SPECBOUND_DEVICE void tile_scores(const Word4* q, const Word4* keys, float (&score)[N][4]) {
  const int lane = lane_index();
  // Matrices of 8 keys: dimensions 0-7 and 8-15 of the first 8, then of the second.
  const Word4* mine = keys + place_of_piece(2 * (lane % 16) + lane / 16);
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
#pragma unroll
      for (int n = 0; n < N; n += 2) {
        const Word4 b = load_transposed(mine + n / 2 * Shape<D>::kKeyBlockPieces + 32 * block);
        mma_16x8x16(score[n], a, Word2{b.x, b.y});
        mma_16x8x16(score[n + 1], a, Word2{b.z, b.w});
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

// Scores of keys begin.. become weights; what the rows have so far must be multiplied by `old`, 1
// where a row sees none of them but has seen others. `whole`: all rows of the block see all.
template <int D, int N>
SPECBOUND_DEVICE void tile_weights(const Heads& heads, int begin, bool whole, Rows<D>& rows,
                                   float (&score)[N][4], float (&old)[2]) {
  const int first = begin + 2 * (lane_index() % 4);
  float largest[2] = {-infinity(), -infinity()}, sum[2] = {0.0f, 0.0f};
  for_each_score<N>([&](int n, int e) { score[n][e] = score[n][e] * rows.factor[e / 2]; });
  if (heads.softcap > 0) {
    for_each_score<N>([&](int n, int e) { score[n][e] = softcap(score[n][e], heads.softcap); });
  }
  if (!whole) {
    for_each_score<N>([&](int n, int e) {
      const int key = first + 8 * n + e % 2;
      if (key < rows.first[e / 2] || key > rows.pos[e / 2]) score[n][e] = -infinity();
    });
  }
  for_each_score<N>([&](int n, int e) {
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
    const float before = rows.largest[r];
    rows.largest[r] = largest[r];
    if (largest[r] == -infinity()) largest[r] = 0.0f;  // no key seen so far
    old[r] = exp_formula(before - largest[r]);
  }
  for_each_score<N>([&](int n, int e) {
    score[n][e] = exp_formula(score[n][e] - largest[e / 2]);  // 0 for keys that are not seen
    sum[e / 2] = sum[e / 2] + score[n][e];
  });
#pragma unroll
  for (int r = 0; r < 2; ++r) {
#pragma unroll
    for (int step = 1; step <= 2; step *= 2) sum[r] = sum[r] + shuffle_xor(sum[r], step);
    rows.sum[r] = fused(rows.sum[r], old[r], sum[r]);
  }
}

// out = old out + weights V: first with what the upper halves of the weights left.
template <int D, int N>
SPECBOUND_DEVICE void add_tile(int head_dim, const float (&weight)[N][4], const float (&old)[2],
                               const Word4* values, Rows<D>& rows) {
  // Matrices of 8 keys each, 8 dimensions.
  const Word4* mine = values + lane_index() * Shape<D>::kValueStride;
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
    // Also so that not all values are on their way to registers at once: there are too few.
    if (n % 4 == 0 && 8 * n >= head_dim) break;
    Word2 v[N / 2];
    float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int block = 0; block < N / 2; block += 2) {
      const Word4 b = load_transposed(mine + 16 * block * Shape<D>::kValueStride + n);
      v[block] = {b.x, b.y};
      v[block + 1] = {b.z, b.w};
    }
#pragma unroll
    for (int block = 0; block < N / 2; ++block) mma_16x8x16(c, rest[block], v[block]);
#pragma unroll
    for (int block = 0; block < N / 2; ++block) mma_16x8x16(c, upper[block], v[block]);
#pragma unroll
    for (int e = 0; e < 4; ++e) rows.out[n][e] = fused(rows.out[n][e], old[e / 2], c[e]);
  }
}

// Which rows see bad keys (kWarps) of the tile from `begin` on.
template <int D>
SPECBOUND_DEVICE void find_spoiled(const Word2* bad_keys, int begin, Rows<D>& rows) {
  Word2 bad{0, 0};
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
  const auto* k = static_cast<const uint16_t*>(heads.kv.k) + of_head;
  const auto* v = static_cast<const uint16_t*>(heads.kv.v) + of_head;
  auto* keys = block_shared<Word4>();
  Word4* values = keys + S::kKeyPieces;
  auto* bad_keys = reinterpret_cast<Word2*>(values + S::kKeys * S::kValueStride);  // (kWarps)

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

  // Tiles before the first that the first row sees are seen by none.
  const int block_first = first_key(heads, pos + block_row) / S::kKeys * S::kKeys;
  const int warp_first = first_key(heads, pos + warp_row);
  const int block_window = first_key(heads, block_end);
  pad_keys<D>(n, keys);
  fetch_keys<D>(k, n, block_first, keys);
  for (int begin = block_first; begin <= block_last; begin += S::kKeys) {
    const int end = begin + S::kKeys;
    const bool whole = block_window <= begin && end <= pos + block_row + 1;
    const bool seen = begin <= warp_last && end > warp_first;
    wait_for_copies();  // keys
    __syncthreads();    // keys are there, values have been read
    fetch_values<D>(v, n, begin, values);
    float score[S::kKeys / 8][4], old[2];
    if (seen) {
      tile_scores<D>(q, keys, score);
      tile_weights(heads, begin, whole, rows, score, old);
    }
    wait_for_copies();  // values
    if (!whole) {
      const Word2 bad = clear_bad_values<D>(n, values);
      if (lane == 0) bad_keys[warp_index()] = bad;
    }
    __syncthreads();  // values are there, keys have been read
    if (end <= block_last) fetch_keys<D>(k, n, end, keys);
    if (!whole) find_spoiled(bad_keys, begin, rows);
    if (seen) add_tile(n, score, old, values, rows);
  }

  // In tiles that they see whole, what is not finite came into the sums.
#pragma unroll
  for (int r = 0; r < 2; ++r) {
#pragma unroll
    for (int i = 0; i < D / 8; ++i) {
      if (8 * i >= n) continue;
      rows.spoiled[r] |= !finite(rows.out[i][2 * r]) || !finite(rows.out[i][2 * r + 1]);
    }
#pragma unroll
    for (int step = 1; step <= 2; step *= 2) rows.spoiled[r] |= shuffle_xor(rows.spoiled[r], step);
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
      // Of zeros +0, however many tiles came in which the row saw nothing.
      *reinterpret_cast<Float2*>(out + d) =
          Float2{rows.out[i][2 * r] * inverse + 0.0f, rows.out[i][2 * r + 1] * inverse + 0.0f};
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
