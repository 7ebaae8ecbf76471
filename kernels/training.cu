// Rows and heads that learn; a block computes a row, or many share the values of a parameter.
#include "training.h"

#include "float_formula.cuh"
#include "launch.cuh"
#include "numerics/exact_math.h"

namespace specbound::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr size_t kMostBlocks = 1024;  // that share many values

SPECBOUND_DEVICE size_t first_of_grid() {
  return static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
}
SPECBOUND_DEVICE size_t threads_of_grid() {
  return static_cast<size_t>(gridDim.x) * kThreads;
}

// What all of the block's values come to, for every thread: a tree in each warp, then the warps in
// their order. `staged` (kWarps) is shared and holds nothing that is still read.
template <class T, class Join>
SPECBOUND_DEVICE T joined(T value, T* staged, const Join& join) {
  for (int step = kWarp / 2; step >= 1; step /= 2) value = join(value, shuffle_xor(value, step));
  if (lane_index() == 0) staged[warp_index()] = value;
  __syncthreads();
  T all = staged[0];
  for (int warp = 1; warp < kWarps; ++warp) all = join(all, staged[warp]);
  return all;
}

struct Largest {
  SPECBOUND_DEVICE float operator()(float a, float b) const { return a > b ? a : b; }
};
struct Sum {
  template <class T>
  SPECBOUND_DEVICE T operator()(T a, T b) const {
    return a + b;
  }
};

// FP16 has no larger number than 65504; NaN stays.
SPECBOUND_DEVICE uint16_t nearest_half(float x) {
  constexpr float kMost = 65504.0f;
  if (x > kMost) x = kMost;
  if (x < -kMost) x = -kMost;
  return half_bits(x);
}

SPECBOUND_DEVICE float sigmoid(float x) {
  return 1.0f / (1.0f + exp_formula(0.0f - x));
}

__global__ void __launch_bounds__(kThreads) halve_rows_kernel(HalveRows p) {
  const int row = static_cast<int>(blockIdx.x);
  const int i = static_cast<int>(blockIdx.y) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= p.n) return;
  const float x = p.from[static_cast<size_t>(row) * p.ld_from + i];
  p.to[static_cast<size_t>(row) * p.ld_to + i] = nearest_half(p.factor * x);
}

__global__ void __launch_bounds__(kThreads) gather_rows_kernel(GatherRows p) {
  const int row = static_cast<int>(blockIdx.x);
  const RowPlace place = p.places[row];
  const uint16_t* from = place.row + p.plane * place.plane + static_cast<int64_t>(p.ahead) * p.n;
  uint16_t* to = p.to + static_cast<size_t>(row) * p.ld_to;
  for (int i = 8 * static_cast<int>(threadIdx.x); i < p.n; i += 8 * kThreads) {
    *reinterpret_cast<Word4*>(to + i) = *reinterpret_cast<const Word4*>(from + i);
  }
}

// The largest of a row of logits, and in `total` the sum of e^(z - largest).
struct RowSums {
  float largest, total;
};
SPECBOUND_DEVICE RowSums row_sums(const float* z, int width) {
  float* staged = block_shared<float>();
  float largest = -infinity();
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kThreads) {
    largest = Largest()(largest, z[i]);
  }
  largest = joined(largest, staged, Largest());
  float total = 0;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kThreads) {
    total += exp_formula(z[i] - largest);
  }
  return {largest, joined(total, staged + kWarps, Sum())};
}

// The sum of weight[i] (z[i] - shift) over a row.
SPECBOUND_DEVICE float weighted_sum(const float* weight, const float* z, int width, float shift) {
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kThreads) {
    sum += weight[i] * (z[i] - shift);
  }
  return joined(sum, block_shared<float>() + 2 * kWarps, Sum());
}

// Values that this thread alone reads until the end of row_sums().
SPECBOUND_DEVICE void cap_row(float* z, int width, float cap, float factor) {
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kThreads) {
    z[i] = factor * (cap > 0.0f ? softcap(z[i], cap) : z[i]);
  }
}

__global__ void __launch_bounds__(kThreads) target_rows_kernel(TargetRows p) {
  float* z = p.z + static_cast<size_t>(blockIdx.x) * p.width;
  cap_row(z, p.width, p.softcap, p.factor);
  const RowSums row = row_sums(z, p.width);
  const float scale = 1.0f / row.total;
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < p.width; i += kThreads) {
    const float x = z[i] - row.largest, e = exp_formula(x) * scale;
    if (e > 0.0f) sum += e * x;
    z[i] = e;
  }
  sum = joined(sum, block_shared<float>() + 2 * kWarps, Sum());
  if (threadIdx.x == 0) {
    p.entropy[blockIdx.x] = static_cast<float>(exact_log(static_cast<double>(row.total))) - sum;
  }
}

__global__ void __launch_bounds__(kThreads) divergence_rows_kernel(DivergenceRows p) {
  const size_t first = static_cast<size_t>(blockIdx.x) * p.width;
  float* z = p.z + first;
  const float* target = p.target + first;
  if (p.softcap > 0.0f) cap_row(z, p.width, p.softcap, 1.0f);
  const RowSums row = row_sums(z, p.width);
  const float expected = weighted_sum(target, z, p.width, row.largest);
  const float scale = 1.0f / row.total;
  for (int i = static_cast<int>(threadIdx.x); i < p.width; i += kThreads) {
    const float part = p.softcap > 0.0f ? z[i] / p.softcap : 0.0f, slope = 1.0f - part * part;
    const float difference = exp_formula(z[i] - row.largest) * scale - target[i];
    p.gradient[first + i] = half_bits(difference * slope);
  }
  if (threadIdx.x == 0) {
    const float log_total = static_cast<float>(exact_log(static_cast<double>(row.total)));
    p.loss[blockIdx.x] = log_total - expected - p.entropy[blockIdx.x];
  }
}

__global__ void __launch_bounds__(kThreads) sum_losses_kernel(SumLosses p) {
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < p.n; i += kThreads) {
    sum += static_cast<double>(p.loss[i]);
  }
  sum = joined(sum, block_shared<double>(), Sum());
  if (threadIdx.x == 0) *p.sum = p.add ? *p.sum + sum : sum;
}

__global__ void __launch_bounds__(kThreads) silu_halves_kernel(SiluHalves p) {
  for (size_t i = first_of_grid(); i < p.n; i += threads_of_grid()) {
    p.active[i] = nearest_half(p.hidden[i] * sigmoid(p.hidden[i]));
  }
}

__global__ void __launch_bounds__(kThreads) silu_backward_kernel(SiluBackward p) {
  for (size_t i = first_of_grid(); i < p.n; i += threads_of_grid()) {
    const float h = p.hidden[i], s = sigmoid(h);
    p.d_hidden[i] = nearest_half(p.d[i] * (s * (1.0f + h * (1.0f - s))));
  }
}

__global__ void __launch_bounds__(kThreads) add_to_doubles_kernel(AddToDoubles p) {
  for (size_t i = first_of_grid(); i < p.n; i += threads_of_grid()) {
    p.total[i] += static_cast<double>(p.part[i]);
  }
}

__global__ void __launch_bounds__(kThreads) square_parts_kernel(SquareParts p) {
  double sum = 0;
  for (size_t i = 4 * first_of_grid(); i < p.n; i += 4 * threads_of_grid()) {
    const Float4 g = *reinterpret_cast<const Float4*>(p.gradient + i);
    sum += static_cast<double>((g.x * g.x + g.y * g.y) + (g.z * g.z + g.w * g.w));
  }
  sum = joined(sum, block_shared<double>(), Sum());
  if (threadIdx.x == 0) p.parts[blockIdx.x] = sum;
}

SPECBOUND_DEVICE void step_value(const AdamWStep& p, float clip, float gradient, float& value,
                                 float& mean, float& square) {
  const float g = gradient * clip;
  mean = p.beta1 * mean + (1.0f - p.beta1) * g;
  square = p.beta2 * square + (1.0f - p.beta2) * g * g;
  const float root = square_root(square * p.square_scale) + p.epsilon;
  value = p.keep * value - p.rate * (mean * p.mean_scale) / root;
}

__global__ void __launch_bounds__(kThreads) adamw_step_kernel(AdamWStep p) {
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < p.n_parts; i += kThreads) sum += p.parts[i];
  sum = joined(sum, block_shared<double>(), Sum());
  const float norm = square_root(static_cast<float>(sum));
  const float clip = norm > p.max_norm ? p.max_norm / norm : 1.0f;
  for (size_t i = 4 * first_of_grid(); i < p.n; i += 4 * threads_of_grid()) {
    const Float4 g = *reinterpret_cast<const Float4*>(p.gradient + i);
    Float4 value = *reinterpret_cast<const Float4*>(p.value + i);
    Float4 mean = *reinterpret_cast<const Float4*>(p.mean + i);
    Float4 square = *reinterpret_cast<const Float4*>(p.square + i);
    step_value(p, clip, g.x, value.x, mean.x, square.x);
    step_value(p, clip, g.y, value.y, mean.y, square.y);
    step_value(p, clip, g.z, value.z, mean.z, square.z);
    step_value(p, clip, g.w, value.w, mean.w, square.w);
    *reinterpret_cast<Float4*>(p.value + i) = value;
    *reinterpret_cast<Float4*>(p.mean + i) = mean;
    *reinterpret_cast<Float4*>(p.square + i) = square;
    const auto pair = [](float low, float high) {
      return nearest_half(low) | uint32_t{nearest_half(high)} << 16;
    };
    *reinterpret_cast<Word2*>(p.half + i) = {pair(value.x, value.y), pair(value.z, value.w)};
  }
}

// For n values, `at_once` a thread at a time.
LaunchShape spread(size_t n, size_t at_once, size_t shared_bytes = 0) {
  SB_CHECK(n >= 1);
  const size_t blocks = (n + kThreads * at_once - 1) / (kThreads * at_once);
  return {
      {static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks)}, kThreads, shared_bytes};
}

LaunchShape block_a_row(int n_rows) {
  SB_CHECK(n_rows >= 1);
  return {{static_cast<unsigned>(n_rows)}, kThreads, 3 * kWarps * sizeof(float)};
}

constexpr size_t kJoinBytes = kWarps * sizeof(double);

}  // namespace

void halve_rows(const HalveRows& p, Stream stream) {
  SB_CHECK(p.n_rows >= 1 && p.n >= 1 && p.ld_from >= p.n && p.ld_to >= p.n);
  SB_CHECK(aligned(p.from, 4) && aligned(p.to, 2));
  launch(halve_rows_kernel, "halve_rows",
         {{static_cast<unsigned>(p.n_rows), static_cast<unsigned>((p.n + kThreads - 1) / kThreads)},
          kThreads,
          0},
         stream, p);
}

void gather_rows(const GatherRows& p, Stream stream) {
  SB_CHECK(p.n_rows >= 1 && p.n >= 8 && p.n % 8 == 0 && p.ld_to % 8 == 0 && p.ld_to >= p.n);
  SB_CHECK(p.places != nullptr && aligned(p.to, 16));
  launch(gather_rows_kernel, "gather_rows", {{static_cast<unsigned>(p.n_rows)}, kThreads, 0},
         stream, p);
}

void target_rows(const TargetRows& p, Stream stream) {
  SB_CHECK(p.width >= 1 && p.z != nullptr && p.entropy != nullptr);
  launch(target_rows_kernel, "target_rows", block_a_row(p.n_rows), stream, p);
}

void divergence_rows(const DivergenceRows& p, Stream stream) {
  SB_CHECK(p.width >= 1 && p.z != nullptr && p.target != nullptr && p.entropy != nullptr);
  SB_CHECK(p.gradient != nullptr && p.loss != nullptr);
  launch(divergence_rows_kernel, "divergence_rows", block_a_row(p.n_rows), stream, p);
}

void sum_losses(const SumLosses& p, Stream stream) {
  SB_CHECK(p.n >= 1 && p.loss != nullptr && aligned(p.sum, 8));
  launch(sum_losses_kernel, "sum_losses", {{}, kThreads, kJoinBytes}, stream, p);
}

void silu_halves(const SiluHalves& p, Stream stream) {
  launch(silu_halves_kernel, "silu_halves", spread(p.n, 1), stream, p);
}

void silu_backward(const SiluBackward& p, Stream stream) {
  launch(silu_backward_kernel, "silu_backward", spread(p.n, 1), stream, p);
}

void add_to_doubles(const AddToDoubles& p, Stream stream) {
  launch(add_to_doubles_kernel, "add_to_doubles", spread(p.n, 1), stream, p);
}

void square_parts(const SquareParts& p, Stream stream) {
  SB_CHECK(p.n >= 4 && p.n % 4 == 0 && aligned(p.gradient, 16) && aligned(p.parts, 8));
  launch(square_parts_kernel, "square_parts",
         {{static_cast<unsigned>(square_parts_of(p.n))}, kThreads, kJoinBytes}, stream, p);
}

void adamw_step(const AdamWStep& p, Stream stream) {
  SB_CHECK(p.n >= 4 && p.n % 4 == 0 && p.n_parts >= 1 && aligned(p.parts, 8));
  SB_CHECK(aligned(p.value, 16) && aligned(p.mean, 16) && aligned(p.square, 16));
  SB_CHECK(aligned(p.gradient, 16) && aligned(p.half, 8));
  launch(adamw_step_kernel, "adamw_step", spread(p.n, 4, kJoinBytes), stream, p);
}

}  // namespace specbound::kernels
