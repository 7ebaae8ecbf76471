#include "engine/cpu/experts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "error.h"
#include "numerics/exact_math.h"

namespace specbound {

ExpertLayer::ExpertLayer(const LinearStore& store, const LayerWeights& weights)
    : router(store.linear(weights.router)) {
  for (int e = 0; e < weights.n_experts(); ++e) {
    experts.push_back({store.linear(weights.expert(weights.w_gate, e)),
                       store.linear(weights.expert(weights.w_up, e)),
                       store.linear(weights.expert(weights.w_down, e))});
  }
}

ExpertRoutes::ExpertRoutes(int n_experts, int used, int max_rows)
    : n_experts_(n_experts),
      used_(used),
      chosen_(static_cast<size_t>(max_rows) * used),
      first_(n_experts + 1),
      slots_(chosen_.size()) {
  SB_CHECK(used >= 1 && used <= n_experts);
}

// The highest scores, descending, then their weights.
void ExpertRoutes::choose_row(const float* scores, Chosen* chosen) const {
  int n = 0;
  for (int e = 0; e < n_experts_; ++e) {
    const float score = std::isnan(scores[e]) ? -std::numeric_limits<float>::infinity() : scores[e];
    if (n == used_ && !(score > chosen[n - 1].value)) continue;
    if (n < used_) ++n;
    int at = n - 1;
    for (; at > 0 && score > chosen[at - 1].value; --at) chosen[at] = chosen[at - 1];
    chosen[at] = {e, score};
  }
  const float highest = chosen[0].value;
  const auto exp_of = [highest](float score) {  // of equals also where they are infinite
    return score == highest ? 1.0 : exact_exp(double{score} - double{highest});
  };
  double total = 0;
  for (int i = 0; i < used_; ++i) total += exp_of(chosen[i].value);
  for (int i = 0; i < used_; ++i) {
    chosen[i].value = static_cast<float>(exp_of(chosen[i].value) / total);
  }
}

void ExpertRoutes::choose(const float* scores, int n) {
  SB_CHECK(static_cast<size_t>(n) * used_ <= chosen_.size());
  std::ranges::fill(first_, 0);
  for (int row = 0; row < n; ++row) {
    Chosen* chosen = &chosen_[static_cast<size_t>(row) * used_];
    choose_row(scores + static_cast<size_t>(row) * n_experts_, chosen);
    for (int i = 0; i < used_; ++i) ++first_[chosen[i].expert];
  }
  int slots = 0;
  for (int& first : first_) slots += std::exchange(first, slots);
  for (int i = 0; i < slots; ++i) {
    slots_[first_[chosen_[i].expert]++] = {i / used_, chosen_[i].value};
  }
  for (int e = n_experts_; e > 0; --e) first_[e] = first_[e - 1];  // each had come to the next one
  first_[0] = 0;
}

Experts::Experts(const ModelConfig& config, const Kernels& kernels, ThreadPool& pool,
                 const ExpertLayer& any, int max_rows)
    : config_(config),
      kernels_(kernels),
      pool_(pool),
      scores_(static_cast<size_t>(max_rows) * config.n_experts, "scores of experts"),
      in_(max_rows * config.n_experts_used, config.dim),
      act_(max_rows * config.n_experts_used, config.ffn_dim) {
  const auto rows_of = [&](const Linear& linear, int thread) {
    const Slice mine = linear.slice_of(thread, pool.size());
    return Pages<float>(static_cast<size_t>(max_rows) * (mine.end - mine.begin), "rows of experts");
  };
  for (int t = 0; t < pool.size(); ++t) {
    const ExpertLayer::Expert& expert = any.experts[0];
    routes_.emplace_back(config.n_experts, config.n_experts_used, max_rows);
    own_.push_back({rows_of(expert.gate, t), rows_of(expert.up, t), rows_of(expert.down, t)});
  }
}

void Experts::run(int thread, const ExpertLayer& layer, const Rows& x, float* h, int n) {
  multiply(kernels_, layer.router, x, {scores_.data(), config_.n_experts}, false, thread,
           pool_.size());
  pool_.barrier();
  routes_[thread].choose(scores_.data(), n);
  gather(thread, layer, x);
  pool_.barrier();
  activate(thread, layer);
  pool_.barrier();
  add_outputs(thread, layer, h);
  pool_.barrier();
}

// The rows of each expert side by side, in the forms that its matrices take.
void Experts::gather(int thread, const ExpertLayer& layer, const Rows& x) {
  const ExpertRoutes& routes = routes_[thread];
  const int dim = config_.dim;
  const Slice mine = slice(routes.n_slots(), thread, pool_.size());
  for (int e = 0; e < config_.n_experts; ++e) {
    const auto& [gate, up, down] = layer.experts[e];
    const auto slots = routes.slots(e);
    const int first = routes.first(e);
    const Rows group = in_.group(first, static_cast<int>(slots.size()), dim);
    const int end = std::min(first + static_cast<int>(slots.size()), mine.end);
    for (int s = std::max(first, mine.begin); s < end; ++s) {
      const float* row = x.x + static_cast<size_t>(slots[s - first].row) * x.ld;
      if (!gate.int8() || !up.int8()) std::copy_n(row, dim, in_.row(s));
      if (gate.int8() || up.int8()) {
        kernels_.quantize(row, s - first, 0, group.quantized.n_blocks(), group.quantized);
      }
    }
  }
}

// act = activation(Wg x) * (Wu x), this thread's outputs of each expert.
void Experts::activate(int thread, const ExpertLayer& layer) {
  const ExpertRoutes& routes = routes_[thread];
  const int threads = pool_.size(), ffn_dim = config_.ffn_dim;
  const auto activate_mul =
      config_.activation == Activation::kGelu ? kernels_.gelu_mul : kernels_.silu_mul;
  for (int e = 0; e < config_.n_experts; ++e) {
    const int n = static_cast<int>(routes.slots(e).size()), first = routes.first(e);
    if (n == 0) continue;
    const ExpertLayer::Expert& expert = layer.experts[e];
    const Rows x = in_.group(first, n, config_.dim), act = act_.group(first, n, ffn_dim);
    const Slice mine = expert.gate.slice_of(thread, threads);
    const int width = mine.end - mine.begin;
    const bool int8 = expert.down.int8();  // then nobody else reads floats
    const Outputs up{own_[thread].up.data(), width, mine.begin};
    const Outputs gate = int8 ? Outputs{own_[thread].gate.data(), width, mine.begin}
                              : Outputs{act_.row(first), act.ld};
    multiply(kernels_, expert.gate, x, gate, false, thread, threads);
    multiply(kernels_, expert.up, x, up, false, thread, threads);
    for (int r = 0; r < n; ++r) {
      activate_mul(gate.at(r, mine.begin), up.at(r, mine.begin), width);
      if (!int8) continue;
      kernels_.quantize(gate.at(r, mine.begin), r, mine.begin / kQuantBlock, mine.end / kQuantBlock,
                        act.quantized);
    }
  }
}

// h += weight * (Wd act), by ascending expert, this thread's outputs.
void Experts::add_outputs(int thread, const ExpertLayer& layer, float* h) {
  const ExpertRoutes& routes = routes_[thread];
  for (int e = 0; e < config_.n_experts; ++e) {
    const auto slots = routes.slots(e);
    if (slots.empty()) continue;
    const Linear& down = layer.experts[e].down;
    const Rows act = act_.group(routes.first(e), static_cast<int>(slots.size()), config_.ffn_dim);
    const Slice mine = down.slice_of(thread, pool_.size());
    const Outputs y{own_[thread].down.data(), mine.end - mine.begin, mine.begin};
    multiply(kernels_, down, act, y, false, thread, pool_.size());
    for (size_t i = 0; i < slots.size(); ++i) {
      const float* from = y.at(static_cast<int>(i), mine.begin);
      float* to = h + static_cast<size_t>(slots[i].row) * config_.dim;
      for (int k = mine.begin; k < mine.end; ++k) to[k] += slots[i].weight * from[k - mine.begin];
    }
  }
}

}  // namespace specbound
