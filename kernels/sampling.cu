// Penalty, Gumbel draws and the heads of rows. The arithmetic of scores and weights is that of
// numerics/noise.h and numerics/exact_math.h, compiled for the device.
#include "sampling.h"

#include "launch.cuh"
#include "numerics/noise.h"

namespace specbound::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

SPECBOUND_DEVICE int32_t id_at(const LogitRows& rows, int i) {
  return rows.ids ? rows.ids[i] : i;
}

SPECBOUND_DEVICE float without_nan(float logit) {
  return logit == logit ? logit : -infinity();
}

// ---- penalty ----

// A thread has four logits and looks through the text for their tokens.
__global__ void __launch_bounds__(kThreads) penalize_rows_kernel(PenalizeRows p) {
  const int row = static_cast<int>(blockIdx.y);
  const int first = 4 * static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (row >= p.rows.pass->n_rows || first >= p.rows.n) return;
  const float penalty = p.sampling->repeat_penalty;
  const int last_n = p.sampling->repeat_last_n;
  const int end = p.rows.pass->pos + row + 1;
  const int begin = last_n < 0 || last_n > end ? 0 : end - last_n;
  int32_t id[4];
  bool seen[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    id[j] = first + j < p.rows.n ? id_at(p.rows, first + j) : -1;
    seen[j] = false;
  }
#pragma unroll 4
  for (int i = begin; i < end; ++i) {
    const int32_t token = p.text[i];
#pragma unroll
    for (int j = 0; j < 4; ++j) seen[j] = seen[j] || token == id[j];
  }
  const size_t at = static_cast<size_t>(row) * p.rows.ld + first;
  const Word4 four = *reinterpret_cast<const Word4*>(p.rows.logits + at);
  uint32_t bits[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float logit = float_of(bits[j]);
    if (seen[j]) bits[j] = bits_of(logit > 0 ? logit / penalty : logit * penalty);
  }
  *reinterpret_cast<Word4*>(p.out + at) = Word4{bits[0], bits[1], bits[2], bits[3]};
}

// ---- draws ----

SPECBOUND_DEVICE DrawPart better(const DrawPart& a, const DrawPart& b) {
  const bool first = a.best > b.best || (a.best == b.best && a.id < b.id);
  const double loser = first ? b.best : a.best;
  const double second = a.second > b.second ? a.second : b.second;
  return {first ? a.best : b.best, loser > second ? loser : second, first ? a.id : b.id, 0};
}

SPECBOUND_DEVICE DrawPart best_of_warp(DrawPart mine) {
  for (int step = kWarp / 2; step >= 1; step /= 2) {
    mine = better(mine, {shuffle_xor(mine.best, step), shuffle_xor(mine.second, step),
                         shuffle_xor(mine.id, step), 0});
  }
  return mine;
}

SPECBOUND_DEVICE DrawPart nothing_drawn() {
  const double lowest = -infinity();
  return {lowest, lowest, 0x7fffffff, 0};
}

// The two largest numbers of a set.
struct TopTwo {
  float first, second;
};

SPECBOUND_DEVICE TopTwo join(const TopTwo& a, const TopTwo& b) {
  const float loser = a.first > b.first ? b.first : a.first;
  const float second = a.second > b.second ? a.second : b.second;
  return {a.first > b.first ? a.first : b.first, loser > second ? loser : second};
}

// Bounds of a score in floats, without a logarithm: with v = (r + 1/2) 2^-32 < 2^-z (z leading
// zeros), v <= -log(1 - v) <= 2 log(2) v where z > 0, and G = -log of that. The rest is for
// rounding, also of the division.
struct Bounds {
  float lower, upper;
};

SPECBOUND_DEVICE Bounds score_bounds(float logit, float temperature, uint32_t r) {
  const float scaled = logit / temperature;
  const float magnitude = scaled < 0 ? -scaled : scaled;
  if (magnitude == infinity()) return {scaled, scaled};
  const float zeros = static_cast<float>(leading_zeros(r));
  const float slack = magnitude * 0x1p-20f + 1e-3f;
  const float low = zeros > 0 ? zeros * 0.69314718f - 0.32664f : -3.13f;
  return {scaled + low - slack, scaled + (zeros + 1) * 0.69314718f + slack};
}

SPECBOUND_DEVICE uint32_t noise_word(const std::array<uint32_t, 4>& words, int32_t i) {
  const uint32_t low = i & 1 ? words[1] : words[0], high = i & 1 ? words[3] : words[2];
  return i & 2 ? high : low;
}

// A thread has four logits; without ids they share a block of noise. Logarithms are taken only
// where the bounds leave a chance to be first or second of the part.
__global__ void __launch_bounds__(kThreads) draw_parts_kernel(GumbelArgmax p) {
  TopTwo* tops = block_shared<TopTwo>();  // (kWarps)
  DrawPart* parts = block_shared<DrawPart>(kWarps * sizeof(TopTwo));
  const int row = static_cast<int>(blockIdx.y);
  if (row >= p.rows.pass->n_rows) return;
  const int first = 4 * static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  const float temperature = p.sampling->temperature;
  const DrawPlace place{p.sampling->seed, p.sampling->reply,
                        static_cast<uint32_t>(p.rows.pass->pos + row + 1)};
  float logit[4], upper[4];
  uint32_t random[4] = {};
  int32_t id[4];
  TopTwo lower{-infinity(), -infinity()};
  if (first < p.rows.n) {
    const float* at = p.rows.logits + static_cast<size_t>(row) * p.rows.ld + first;
    const Word4 four = *reinterpret_cast<const Word4*>(at);
    const uint32_t bits[4] = {four.x, four.y, four.z, four.w};
    std::array<uint32_t, 4> words{};
    if (!p.rows.ids && temperature > 0)
      words = noise_block(place, static_cast<uint32_t>(first) / 4);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (first + j >= p.rows.n) continue;
      id[j] = id_at(p.rows, first + j);
      logit[j] = without_nan(float_of(bits[j]));
      Bounds bounds{logit[j], logit[j]};
      if (temperature > 0) {
        if (p.rows.ids) words = noise_block(place, static_cast<uint32_t>(id[j]) / 4);
        random[j] = noise_word(words, id[j]);
        bounds = score_bounds(logit[j], temperature, random[j]);
      }
      upper[j] = bounds.upper;
      lower = join(lower, {bounds.lower, -infinity()});
    }
  }
  for (int step = kWarp / 2; step >= 1; step /= 2) {
    lower = join(lower, {shuffle_xor(lower.first, step), shuffle_xor(lower.second, step)});
  }
  if (lane_index() == 0) tops[warp_index()] = lower;
  __syncthreads();
  for (int w = 0; w < kWarps; ++w) {
    if (w != warp_index()) lower = join(lower, tops[w]);
  }
  DrawPart mine = nothing_drawn();
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if (first + j >= p.rows.n || upper[j] < lower.second) continue;
    double score = logit[j];
    if (temperature > 0) score = score / static_cast<double>(temperature) + gumbel_of(random[j]);
    mine = better(mine, {score, -infinity(), id[j], 0});
  }
  mine = best_of_warp(mine);
  if (lane_index() == 0) parts[warp_index()] = mine;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int w = 1; w < kWarps; ++w) mine = better(mine, parts[w]);
  p.parts[static_cast<size_t>(row) * gridDim.x + blockIdx.x] = mine;
}

struct JoinParts {
  const Pass* pass;
  const DrawPart* parts;  // (rows, n_parts)
  DrawnToken* drawn;
  int n_parts;
};

__global__ void __launch_bounds__(kWarp) join_parts_kernel(JoinParts p) {
  const int row = static_cast<int>(blockIdx.x);
  if (row >= p.pass->n_rows) return;
  DrawPart mine = nothing_drawn();
  for (int i = lane_index(); i < p.n_parts; i += kWarp) {
    mine = better(mine, p.parts[static_cast<size_t>(row) * p.n_parts + i]);
  }
  mine = best_of_warp(mine);
  if (lane_index() > 0) return;
  p.drawn[row] = {mine.best == mine.second ? 0.0 : mine.best - mine.second, mine.id, 0};
}

// ---- heads of rows ----

constexpr int kGroups = 1024;  // threads of a block
constexpr int kMaxGathered = kGroups;

// Larger keys come first in the sampler's order; no key is 0, no two are equal. -0 is 0.
SPECBOUND_DEVICE uint64_t key_of(float logit, int32_t id) {
  const uint32_t bits = bits_of(without_nan(logit) + 0.0f);
  const uint32_t ordered = bits >> 31 ? ~bits : bits | 0x80000000u;
  return static_cast<uint64_t>(ordered) << 32 | ~static_cast<uint32_t>(id);
}
SPECBOUND_DEVICE float logit_of(uint64_t key) {
  const uint32_t ordered = static_cast<uint32_t>(key >> 32);
  return float_of(ordered >> 31 ? ordered & 0x7fffffffu : ~ordered);
}
SPECBOUND_DEVICE int32_t id_of(uint64_t key) {
  return static_cast<int32_t>(~static_cast<uint32_t>(key));
}

// Descending, in place; a bitonic network, each thread has one of the keys.
SPECBOUND_DEVICE void sort_keys(uint64_t* keys) {  // (kGroups)
  const int mine = static_cast<int>(threadIdx.x);
  for (int run = 2; run <= kGroups; run *= 2) {
    for (int step = run / 2; step >= 1; step /= 2) {
      __syncthreads();
      const int other = mine ^ step;
      if (other < mine) continue;
      const uint64_t a = keys[mine], b = keys[other];
      if ((a < b) == ((mine & run) == 0)) {
        keys[mine] = b;
        keys[other] = a;
      }
    }
  }
  __syncthreads();
}

// The sum over the threads before this one; *total over all.
SPECBOUND_DEVICE int sum_before(int count, int* warp_sums, int* total) {
  int sum = count;  // up to this lane
  for (int step = 1; step < kWarp; step *= 2) {
    const int before = shuffle(sum, (lane_index() - step) & (kWarp - 1));
    if (lane_index() >= step) sum += before;
  }
  if (lane_index() == kWarp - 1) warp_sums[warp_index()] = sum;
  __syncthreads();
  int before = 0;
  *total = 0;
  for (int w = 0; w < kGroups / kWarp; ++w) {
    if (w < warp_index()) before += warp_sums[w];
    *total += warp_sums[w];
  }
  return before + sum - count;
}

// A block has a row, a thread the logits i = thread mod 1024: at least 256 logits reach the 256th
// of the 1024 groups' best, and unless a row is odd, few more do. They are gathered and sorted.
__global__ void __launch_bounds__(kGroups, 1) top_logits_kernel(TopRows p) {
  uint64_t* keys = block_shared<uint64_t>();  // (kGroups)
  int* warp_sums = block_shared<int>(kGroups * sizeof(uint64_t));
  const int row = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  if (row >= p.rows.pass->n_rows) return;
  const int n = p.rows.n;
  const float* logits = p.rows.logits + static_cast<size_t>(row) * p.rows.ld;
  uint64_t best = 0;
#pragma unroll 4
  for (int i = thread; i < n; i += kGroups) {
    const uint64_t key = key_of(logits[i], id_at(p.rows, i));
    best = key > best ? key : best;
  }
  keys[thread] = best;
  sort_keys(keys);
  const uint64_t least = keys[kTopLogits - 1];
  TopLogits& top = p.top[row];
  if (thread == 0) {
    top.logit[0] = logit_of(keys[0]);
    top.id[0] = id_of(keys[0]);
  }
  int count = 0;
  if (best > 0 && best >= least) {
#pragma unroll 4
    for (int i = thread; i < n; i += kGroups) {
      count += key_of(logits[i], id_at(p.rows, i)) >= least;
    }
  }
  int total;
  int at = sum_before(count, warp_sums, &total);  // its barrier: all have read `least`
  const bool found = total <= kMaxGathered;
  keys[thread] = 0;
  __syncthreads();
  if (found && count > 0) {
#pragma unroll 1
    for (int i = thread; i < n; i += kGroups) {
      const uint64_t key = key_of(logits[i], id_at(p.rows, i));
      if (key >= least) keys[at++] = key;
    }
  }
  sort_keys(keys);
  if (thread == 0) {
    top.n = !found ? 0 : n < kTopLogits ? n : kTopLogits;
    top.of = n;
  }
  if (!found || thread >= kTopLogits) return;
  top.logit[thread] = logit_of(keys[thread]);
  top.id[thread] = id_of(keys[thread]);
}

constexpr int kWeighing = 128;  // threads

// exp(l - max), of every 64th run of 128 logits.
__global__ void __launch_bounds__(kWeighing) weigh_rows_kernel(TopRows p) {
  double* sums = block_shared<double>();  // (warps)
  const int row = static_cast<int>(blockIdx.y), part = static_cast<int>(blockIdx.x);
  if (row >= p.rows.pass->n_rows) return;
  const float* logits = p.rows.logits + static_cast<size_t>(row) * p.rows.ld;
  TopLogits& top = p.top[row];
  const float max = top.logit[0];
  double sum = 0;
  for (int i = part * kWeighing + static_cast<int>(threadIdx.x); i < p.rows.n;
       i += kWeightParts * kWeighing) {
    const float logit = without_nan(logits[i]);
    sum += logit == max ? 1.0 : exact_exp(static_cast<double>(logit) - max);
  }
  for (int step = kWarp / 2; step >= 1; step /= 2) sum += shuffle_xor(sum, step);
  if (lane_index() == 0) sums[warp_index()] = sum;
  __syncthreads();
  if (threadIdx.x == 0) top.weight[part] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

void check(const LogitRows& rows) {
  SB_CHECK(rows.pass != nullptr && rows.max_rows >= 1 && rows.max_rows <= kMaxDecodeRows);
  SB_CHECK(aligned(rows.logits, 16) && rows.n >= 1 && rows.n <= kMaxLogits);
  SB_CHECK(rows.ld % 4 == 0 && rows.ld >= rows.n);
}

unsigned count_of(int n) {
  return static_cast<unsigned>(n);
}

}  // namespace

void penalize_rows(const PenalizeRows& p, Stream stream) {
  check(p.rows);
  SB_CHECK(p.sampling != nullptr && p.text != nullptr && aligned(p.out, 16));
  launch(penalize_rows_kernel, "penalize_rows",
         {{count_of(draw_parts(p.rows.n)), count_of(p.rows.max_rows)}, kThreads, 0}, stream, p);
}

void gumbel_argmax(const GumbelArgmax& p, Stream stream) {
  check(p.rows);
  SB_CHECK(p.sampling != nullptr && aligned(p.parts, 8) && aligned(p.drawn, 8));
  const int parts = draw_parts(p.rows.n);
  launch(draw_parts_kernel, "gumbel_argmax",
         {{count_of(parts), count_of(p.rows.max_rows)},
          kThreads,
          kWarps * (sizeof(TopTwo) + sizeof(DrawPart))},
         stream, p);
  launch(join_parts_kernel, "gumbel_argmax (join)", {{count_of(p.rows.max_rows)}, kWarp, 0}, stream,
         JoinParts{p.rows.pass, p.parts, p.drawn, parts});
}

void top_logits(const TopRows& p, Stream stream) {
  check(p.rows);
  SB_CHECK(aligned(p.top, 8));
  launch(top_logits_kernel, "top_logits",
         {{count_of(p.rows.max_rows)},
          kGroups,
          kGroups * sizeof(uint64_t) + kGroups / kWarp * sizeof(int)},
         stream, p);
  if (!p.weigh) return;
  launch(weigh_rows_kernel, "top_logits (weights)",
         {{kWeightParts, count_of(p.rows.max_rows)}, kWeighing, kWeighing / kWarp * sizeof(double)},
         stream, p);
}

}  // namespace specbound::kernels
