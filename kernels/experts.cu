// A mixture of experts, step by step: scores, routes, copies, two products, their sum.
#include "experts.h"

#include "numerics/exact_math.h"
#include "projections_int8.cuh"

namespace specbound::kernels {
namespace {

// ---- which experts ----

constexpr int kScoreWarps = 8;  // an expert each

SPECBOUND_DEVICE float router_value(DType type, const void* router, size_t i) {
  if (type == DType::kF32) return static_cast<const float*>(router)[i];
  const uint16_t bits = static_cast<const uint16_t*>(router)[i];
  return type == DType::kF16 ? half_float(bits) : float_of(uint32_t{bits} << 16);
}

__global__ void __launch_bounds__(kScoreWarps* kWarp) score_experts_kernel(ScoreExperts p) {
  const int expert = static_cast<int>(blockIdx.x) * kScoreWarps + warp_index();
  const int row = static_cast<int>(blockIdx.y);
  if (expert >= p.routes.n_experts || row >= p.pass->n_rows) return;  // the whole warp
  const size_t first = static_cast<size_t>(expert) * p.dim;
  const float* x = p.x + static_cast<size_t>(row) * p.dim;
  float sum = 0.0f;
  for (int k = lane_index(); k < p.dim; k += kWarp) {
    sum = fused(router_value(p.type, p.router, first + k), x[k], sum);
  }
  sum = sum_of_32(sum);
  if (lane_index() == 0) {
    p.routes.scores[static_cast<size_t>(row) * p.routes.n_experts + expert] = sum;
  }
}

constexpr int kRouteThreads = 512;
constexpr int kRouteWarps = kRouteThreads / kWarp;

struct Scored {
  float score;
  int expert;
};

// Of two experts the one that a row takes first.
SPECBOUND_DEVICE bool goes_before(const Scored& a, const Scored& b) {
  return a.score > b.score || (a.score == b.score && a.expert < b.expert);
}

// A warp chooses the experts of a row, one after the other; lane i keeps number i.
SPECBOUND_DEVICE void choose_experts(const float* scores, const ExpertRoutes& routes,
                                     ExpertShare* shares) {
  const int lane = lane_index();
  Scored mine{0.0f, 0}, last{infinity(), -1};  // before all
  float highest = 0.0f;
  for (int i = 0; i < routes.used; ++i) {
    Scored best{-infinity(), routes.n_experts};  // behind all
    for (int e = lane; e < routes.n_experts; e += kWarp) {
      const float score = scores[e];
      const Scored one{score == score ? score : -infinity(), e};
      if (goes_before(last, one) && goes_before(one, best)) best = one;
    }
    for (int step = kWarp / 2; step >= 1; step /= 2) {
      const Scored other{shuffle_xor(best.score, step), shuffle_xor(best.expert, step)};
      if (goes_before(other, best)) best = other;
    }
    last = best;
    if (i == 0) highest = best.score;
    if (lane == i) mine = best;
  }
  // Of equals also where they are infinite.
  const double power =
      mine.score == highest ? 1.0 : exact_exp(static_cast<double>(mine.score) - highest);
  double total = 0.0;
  int rank = 0;  // by expert
  for (int i = 0; i < routes.used; ++i) {
    total += shuffle(power, i);
    if (shuffle(mine.expert, i) < mine.expert) ++rank;
  }
  if (lane < routes.used) shares[rank] = {mine.expert, 0, static_cast<float>(power / total)};
}

// Of a warp's lanes those for which something holds: of all, and of those below this one.
struct Counted {
  int all, below;
};
SPECBOUND_DEVICE Counted count_lanes(bool holds) {
  const uint32_t bits = ballot(holds);
  return {count_bits(bits), count_bits(bits & ((1u << lane_index()) - 1))};
}

// The sum of `value` over the lanes below this one.
SPECBOUND_DEVICE int sum_below(int value) {
  const int lane = lane_index();
  int sum = value;
  for (int step = 1; step < kWarp; step *= 2) {
    const int other = shuffle(sum, (lane + kWarp - step) % kWarp);
    if (lane >= step) sum += other;
  }
  return sum - value;
}

// One block: the experts of each row by a warp, then the rows of each expert by a warp.
__global__ void __launch_bounds__(kRouteThreads) route_experts_kernel(RouteExperts p) {
  int* n_copies = block_shared<int>();  // (n_experts)
  int* first_panel = n_copies + kMaxExperts;
  int* first_group = first_panel + kMaxExperts;  // (n_experts + 1)
  const ExpertRoutes& routes = p.routes;
  const int n_rows = p.pass->n_rows, n_experts = routes.n_experts;
  const int warp = warp_index(), lane = lane_index();
  for (int row = warp; row < n_rows; row += kRouteWarps) {
    choose_experts(routes.scores + static_cast<size_t>(row) * n_experts, routes,
                   routes.shares + static_cast<size_t>(row) * routes.used);
  }
  __syncthreads();
  const int copies = n_rows * routes.used;
  const auto goes_to = [&](int i, int e) { return i < copies && routes.shares[i].expert == e; };
  for (int e = warp; e < n_experts; e += kRouteWarps) {
    int n = 0;
    for (int i = lane; i - lane < copies; i += kWarp) n += count_lanes(goes_to(i, e)).all;
    if (lane == 0) n_copies[e] = n;
  }
  __syncthreads();
  if (warp == 0) {
    int panels = 0, groups = 0;
    for (int e = lane; e - lane < n_experts; e += kWarp) {
      const int n = e < n_experts ? n_copies[e] : 0;
      const int own_panels = panels_of(n);
      const int own_groups = (n + kMaxDecodeRows - 1) / kMaxDecodeRows;
      const int panel = panels + sum_below(own_panels), group = groups + sum_below(own_groups);
      if (e < n_experts) {
        first_panel[e] = panel;
        first_group[e] = group;
      }
      panels = shuffle(panel + own_panels, kWarp - 1);
      groups = shuffle(group + own_groups, kWarp - 1);
    }
    if (lane == 0) first_group[n_experts] = groups;
  }
  __syncthreads();
  for (int e = warp; e < n_experts; e += kRouteWarps) {
    const int n = n_copies[e], first = first_panel[e] * kPanelRows;
    for (int i = lane, done = 0; done < n; i += kWarp) {
      const bool mine = goes_to(i, e);
      const Counted found = count_lanes(mine);
      if (mine) routes.shares[i].place = first + done + found.below;
      done += found.all;
    }
    for (int g = lane; g * kMaxDecodeRows < n; g += kWarp) {
      const int done = g * kMaxDecodeRows, left = n - done;
      routes.groups[first_group[e] + g] = {
          {left < kMaxDecodeRows ? left : kMaxDecodeRows, 0, 0}, e, first + done};
    }
  }
  const int most = most_expert_panels(p.max_rows, n_experts, routes.used);
  const int thread = static_cast<int>(threadIdx.x);
  for (int g = first_group[n_experts] + thread; g < most; g += kRouteThreads) {
    routes.groups[g].pass.n_rows = 0;
  }
}

// ---- what they give ----

constexpr int kCopyThreads = 128;

__global__ void __launch_bounds__(kCopyThreads) gather_expert_rows_kernel(GatherExpertRows p) {
  const int row = static_cast<int>(blockIdx.x), i = static_cast<int>(blockIdx.y);
  if (row >= p.pass->n_rows) return;
  const int place = p.routes.shares[static_cast<size_t>(row) * p.routes.used + i].place;
  const int n_blocks = p.from.n_in / kQuantBlock;
  for (int k = static_cast<int>(threadIdx.x); k < 2 * n_blocks; k += kCopyThreads) {
    const size_t from = row_block(n_blocks, row, k / 2), to = row_block(n_blocks, place, k / 2);
    reinterpret_cast<Word4*>(p.to.q + to * kQuantBlock)[k % 2] =
        reinterpret_cast<const Word4*>(p.from.q + from * kQuantBlock)[k % 2];
    if (k % 2 == 0) p.to.d[to] = p.from.d[from];
  }
}

template <class T>
SPECBOUND_DEVICE const T* bytes_on(const T* p, size_t bytes) {
  return reinterpret_cast<const T*>(reinterpret_cast<const char*>(p) + bytes);
}

SPECBOUND_DEVICE TilesI8 tiles_of_expert(const StackedTiles& all, int expert) {
  const size_t e = static_cast<size_t>(expert);
  TilesI8 w = all.first;
  w.q = bytes_on(w.q, e * all.q_bytes);
  w.d = bytes_on(w.d, e * all.d_bytes);
  w.d2 = bytes_on(w.d2, e * all.d2_bytes);
  return w;
}

// The rows from `place` on, which begins a panel.
SPECBOUND_DEVICE RowsI8 rows_from(const RowsI8& x, int place) {
  const size_t values = static_cast<size_t>(place) * x.n_in;
  return {x.n_in, x.q + values, x.d + values / kQuantBlock};
}

template <int kPanels>
__global__ void __launch_bounds__(2 * kUnitThreads) expert_gate_up_kernel(ExpertGateUp p) {
  const ExpertGroup group = p.routes.groups[blockIdx.y];
  const int n_rows = group.pass.n_rows;
  if (n_rows == 0) return;
  const GateUp one{nullptr,
                   rows_from(p.x, group.place),
                   tiles_of_expert(p.gate, group.expert),
                   tiles_of_expert(p.up, group.expert),
                   rows_from(p.out, group.place),
                   p.activation,
                   kPanels * kPanelRows};
  const int first = static_cast<int>(blockIdx.x) * (kUnitWarps / k_chunks(p.x.n_in));
  gate_up_sums<kPanels, depth_of(false, kPanels)>(
      tiles_of_expert(has_up() ? p.up : p.gate, group.expert), one.x, first, n_rows);
  store_gate_up(one, first, n_rows, 2 * kUnitWarps);
}

// A Project of one matrix.
struct ExpertProject {
  static constexpr int kMaxParts = 1;
  const Pass* pass;
  RowsI8 x;
  TilesI8 parts[kMaxParts];
  int n_parts;
  float* y;
  int ld;
};

template <int kPanels>
__global__ void __launch_bounds__(kUnitThreads, kPanels > 1 ? 1 : 2)
    expert_down_kernel(ExpertDown p) {
  const ExpertGroup* group = p.routes.groups + blockIdx.y;
  if (group->pass.n_rows == 0) return;
  const int place = group->place, dim = p.down.first.n_out;
  const ExpertProject one{&group->pass,
                          rows_from(p.x, place),
                          {tiles_of_expert(p.down, group->expert)},
                          1,
                          p.y + static_cast<size_t>(place) * dim,
                          dim};
  project_units<kPanels, depth_of(false, kPanels)>(one, one.x);
}

constexpr int kAddThreads = 256;

__global__ void __launch_bounds__(kAddThreads) add_experts_kernel(AddExperts p) {
  const int k = static_cast<int>(blockIdx.x * kAddThreads + threadIdx.x);
  const int row = static_cast<int>(blockIdx.y);
  if (k >= p.dim || row >= p.pass->n_rows) return;
  const ExpertShare* shares = p.routes.shares + static_cast<size_t>(row) * p.routes.used;
  float& h = p.h[static_cast<size_t>(p.pass->slot + row) * p.dim + k];
  float sum = h;
  for (int i = 0; i < p.routes.used; ++i) {
    sum = sum + shares[i].weight * p.y[static_cast<size_t>(shares[i].place) * p.dim + k];
  }
  h = sum;
}

// ---- launchers ----

void check_routes(const ExpertRoutes& r, int max_rows) {
  SB_CHECK(r.n_experts >= 1 && r.n_experts <= kMaxExperts);
  SB_CHECK(r.used >= 1 && r.used <= r.n_experts && r.used <= kMaxExpertsOfRow);
  SB_CHECK(aligned(r.scores, 4) && aligned(r.shares, 4) && aligned(r.groups, 4));
  SB_CHECK(max_rows >= 1 && max_rows <= kMaxPrefillRows);
}

void check_stacked(const StackedTiles& w, int n_in) {
  check_weights(w.first, n_in);
  SB_CHECK(w.first.n_out % kTileOutputs == 0 && w.q_bytes % 16 == 0 && w.d_bytes % 4 == 0);
  SB_CHECK(w.d2_bytes % 8 == 0);
}

Grid each_row(int x, int rows) {
  return {static_cast<unsigned>(x), static_cast<unsigned>(rows)};
}

// A unit of `n_out` outputs for each group that there may be.
LaunchShape groups_shape(const ExpertRoutes& routes, int max_rows, int n_out, int n_in,
                         int matrices) {
  LaunchShape shape = units_shape(units_of(n_out), n_in, matrices);
  shape.blocks.y =
      static_cast<unsigned>(most_expert_panels(max_rows, routes.n_experts, routes.used));
  shape.overlaps = false;  // which groups there are is asked first
  return shape;
}

}  // namespace

void score_experts(const ScoreExperts& p, Stream stream) {
  check_routes(p.routes, p.max_rows);
  SB_CHECK(p.pass != nullptr && p.dim >= kWarp && p.dim % kWarp == 0);
  SB_CHECK(aligned(p.x, 4) && aligned(p.router, 4));
  SB_CHECK(p.type == DType::kF32 || p.type == DType::kF16 || p.type == DType::kBF16);
  const int blocks = (p.routes.n_experts + kScoreWarps - 1) / kScoreWarps;
  launch(score_experts_kernel, "score_experts", {each_row(blocks, p.max_rows), kScoreWarps * kWarp},
         stream, p);
}

void route_experts(const RouteExperts& p, Stream stream) {
  check_routes(p.routes, p.max_rows);
  SB_CHECK(p.pass != nullptr);
  launch(route_experts_kernel, "route_experts",
         {{1}, kRouteThreads, (3 * kMaxExperts + 1) * sizeof(int)}, stream, p);
}

void gather_expert_rows(const GatherExpertRows& p, Stream stream) {
  check_routes(p.routes, p.max_rows);
  SB_CHECK(p.pass != nullptr && p.from.n_in == p.to.n_in);
  check_rows(p.from);
  check_rows(p.to);
  launch(gather_expert_rows_kernel, "gather_expert_rows",
         {each_row(p.max_rows, p.routes.used), kCopyThreads}, stream, p);
}

void expert_gate_up(const ExpertGateUp& p, Stream stream) {
  check_routes(p.routes, p.max_rows);
  check_rows(p.x);
  check_rows(p.out);
  check_stacked(p.gate, p.x.n_in);
  check_stacked(p.up, p.x.n_in);
  SB_CHECK(p.gate.first.n_out == p.out.n_in && p.up.first.n_out == p.out.n_in);
  const bool few = p.max_rows <= kPanelRows;  // so many at most of an expert too
  launch(few ? expert_gate_up_kernel<1> : expert_gate_up_kernel<2>, "expert_gate_up",
         groups_shape(p.routes, p.max_rows, p.out.n_in, p.x.n_in, 2), stream, p);
}

void expert_down(const ExpertDown& p, Stream stream) {
  check_routes(p.routes, p.max_rows);
  check_rows(p.x);
  check_stacked(p.down, p.x.n_in);
  SB_CHECK(aligned(p.y, 4));
  const bool few = p.max_rows <= kPanelRows;
  launch(few ? expert_down_kernel<1> : expert_down_kernel<2>, "expert_down",
         groups_shape(p.routes, p.max_rows, p.down.first.n_out, p.x.n_in, 1), stream, p);
}

void add_experts(const AddExperts& p, Stream stream) {
  check_routes(p.routes, p.max_rows);
  SB_CHECK(p.pass != nullptr && aligned(p.y, 4) && aligned(p.h, 4) && p.dim >= 1);
  launch(add_experts_kernel, "add_experts",
         {each_row((p.dim + kAddThreads - 1) / kAddThreads, p.max_rows), kAddThreads}, stream, p);
}

}  // namespace specbound::kernels
