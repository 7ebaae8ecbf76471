// A draft layer and its loss in double, position by position and chain by chain, from the formulas
// of model/exit_heads.h: what the trainer's is held against. Inputs that its tests share.
#pragma once

#include <cmath>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "train/gradients.h"
#include "train/layer_learning.h"

namespace specbound::test {

inline constexpr HeadKind kLearningLayers[] = {HeadKind::kLayer, HeadKind::kEagle,
                                               HeadKind::kEagle3, HeadKind::kKangaroo};

// Even in -size..size; tests/golden/make_layer_golden.py has the same.
inline std::vector<float> layer_values(size_t n, float size, uint64_t seed) {
  std::vector<float> values(n);
  fill_uniform(seed, size, values);
  return values;
}

inline ModelConfig layer_config(int dim, int n_heads, int n_kv_heads, int head_dim) {
  ModelConfig config;
  config.dim = dim;
  config.n_heads = n_heads;
  config.n_kv_heads = n_kv_heads;
  config.head_dim = config.rope_dim = head_dim;
  config.norm_eps = 1e-2f;  // large enough to be missed
  config.rope_theta = 100;
  config.score_scale = 1 / std::sqrt(static_cast<float>(head_dim));
  return config;
}

using Doubles = std::vector<double>;

inline Doubles times(std::span<const float> w, const Doubles& u) {
  Doubles y(w.size() / u.size());
  for (size_t o = 0; o < y.size(); ++o) {
    for (size_t i = 0; i < u.size(); ++i) y[o] += double{w[o * u.size() + i]} * u[i];
  }
  return y;
}

inline Doubles log_shares(Doubles z, double factor) {
  double sum = 0;
  for (double& v : z) v *= factor;
  for (const double v : z) sum += std::exp(v);
  for (double& v : z) v -= std::log(sum);
  return z;
}

// Pairs side by side are rotated, the first `rotated` numbers of a head.
struct LayerReference {
  const LearningHead& head;
  const ModelConfig& config;
  int rotated;
  Doubles state_sizes;  // of eagle and kangaroo one, of eagle3 three

  bool eagle() const { return head.kind == HeadKind::kEagle; }
  bool eagle3() const { return head.kind == HeadKind::kEagle3; }
  bool adapter() const { return head.kind == HeadKind::kKangaroo; }
  bool layer() const { return head.kind == HeadKind::kLayer; }
  // Of what a division by a state's size made.
  double eps() const {
    const double size = eagle() || adapter() ? state_sizes[0] : 1;
    return config.norm_eps / (size * size);
  }
  struct Inner {
    Doubles u, q, k, v;
  };
  Doubles over_rms(Doubles x, double eps) const {
    double squares = 0;
    for (const double v : x) squares += v * v;
    for (double& v : x) v /= std::sqrt(squares / static_cast<double>(x.size()) + eps);
    return x;
  }
  static Doubles weighed(Doubles x, const Parameter& w) {
    for (size_t i = 0; i < x.size(); ++i) x[i] *= w.value[i];
    return x;
  }
  Doubles turned(Doubles heads, int pos) const {
    const size_t size = static_cast<size_t>(config.head_dim);
    for (size_t h = 0; h < heads.size(); h += size) {
      for (int i = 0; i < rotated; i += 2) {
        const double angle = pos * std::pow(config.rope_theta, -double(i) / rotated);
        double &a = heads[h + i], &b = heads[h + i + 1];
        const double first = a * std::cos(angle) - b * std::sin(angle);
        b = a * std::sin(angle) + b * std::cos(angle);
        a = first;
      }
    }
    return heads;
  }
  // What enters the block at a position: the model's state or, where `own`, what a step left.
  Doubles entering(const Doubles& x, Doubles state, bool own) const {
    if (eagle3() && own) return state;
    if (layer()) {
      state = over_rms(state, config.norm_eps);
    } else {
      const size_t dim = static_cast<size_t>(head.dim);
      for (size_t i = 0; i < state.size(); ++i) state[i] /= state_sizes[i / dim];
    }
    if (adapter()) return state;
    if (!eagle3()) state.insert(state.begin(), x.begin(), x.end());
    Doubles u = times(head.map.value, state);
    for (size_t i = 0; i < u.size() && eagle(); ++i) u[i] += head.block.map_bias.value[i];
    return u;
  }
  Inner enter(const Doubles& x, const Doubles& state, bool own, int pos) const {
    const Doubles u = entering(x, state, own);
    Doubles a = eagle() ? u : over_rms(u, eps());
    if (eagle3() || adapter()) a = weighed(a, head.block.attn_norm);
    if (eagle3()) {
      const Doubles e = weighed(x, head.block.embedding_norm);
      a.insert(a.begin(), e.begin(), e.end());
    }
    return {u, turned(times(head.block.q.value, a), pos), turned(times(head.block.k.value, a), pos),
            times(head.block.v.value, a)};
  }
  // What is said of a position that sees `seen`, itself among them, and what the next step takes.
  struct Left {
    Doubles y, state;
  };
  Left leave(Doubles u, const Doubles& q, const std::vector<const Inner*>& seen) const {
    const size_t size = static_cast<size_t>(config.head_dim);
    Doubles attended(q.size());
    for (int h = 0; h < config.n_heads; ++h) {
      const size_t mine = h * size, kv = h / (config.n_heads / config.n_kv_heads) * size;
      Doubles scores;
      for (const Inner* one : seen) {
        double score = 0;
        for (size_t i = 0; i < size; ++i) score += q[mine + i] * one->k[kv + i];
        scores.push_back(score);
      }
      scores = log_shares(scores, static_cast<double>(config.score_scale));
      for (size_t j = 0; j < seen.size(); ++j) {
        for (size_t i = 0; i < size; ++i) {
          attended[mine + i] += std::exp(scores[j]) * seen[j]->v[kv + i];
        }
      }
    }
    const auto add = [&u](const Doubles& more) {
      for (size_t i = 0; i < u.size(); ++i) u[i] += more[i];
    };
    add(times(head.block.o.value, attended));
    if (!adapter()) {
      Doubles f = over_rms(u, eps());
      if (!layer()) f = weighed(f, head.block.ffn_norm);
      Doubles gate = times(head.block.gate.value, f);
      const Doubles up = times(head.block.up.value, f);
      for (size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
      add(times(head.block.down.value, gate));
    }
    if (eagle()) {
      for (double& v : u) v *= state_sizes[0];
      return {u, u};
    }
    const Doubles y = weighed(over_rms(u, eps()), head.block.norm);
    return {y, eagle3() ? u : y};
  }

  // said(k, row, y) for each step k of each chain, at the row that it has come to; chains begin and
  // go on where learn says so.
  void unroll(const PassageBatch& batch, std::span<const uint8_t> learn, int n_steps,
              const std::function<void(int, int, const Doubles&)>& said) const {
    const auto row_of = [&](const std::vector<float>& values, int row) {
      const ptrdiff_t width = std::ssize(values) / batch.n;
      return Doubles(values.begin() + row * width, values.begin() + (row + 1) * width);
    };
    for (size_t p = 0; p + 1 < batch.first.size(); ++p) {
      const int first = batch.first[p], end = batch.first[p + 1];
      std::vector<Inner> kept;
      for (int r = first; r < end; ++r) {
        kept.push_back(enter(row_of(batch.x, r), row_of(batch.state, r), false, r - first));
      }
      for (int start = first; start < end; ++start) {
        if (!learn[static_cast<size_t>(start)]) continue;
        std::vector<const Inner*> seen;
        for (int r = first; r <= start; ++r) seen.push_back(&kept[static_cast<size_t>(r - first)]);
        std::vector<Inner> own;
        own.reserve(static_cast<size_t>(n_steps));
        Left left = leave(seen.back()->u, seen.back()->q, seen);
        said(0, start, left.y);
        for (int k = 1; k < n_steps; ++k) {
          const int row = start + k;
          if (row >= end || !learn[static_cast<size_t>(row)]) break;
          own.push_back(enter(row_of(batch.x, row), left.state, true, row - first));
          seen.push_back(&own.back());
          left = leave(own.back().u, own.back().q, seen);
          said(k, row, left.y);
        }
      }
    }
  }

  // By its definition: KL to the sharpened distribution of y, over the words (n, dim).
  double loss(const PassageBatch& batch, std::span<const uint8_t> learn, int n_steps,
              std::span<const float> words, double sharpen) const {
    double sum = 0;
    int n = 0;
    unroll(batch, learn, n_steps, [&](int, int row, const Doubles& y) {
      const Doubles goal(batch.y.begin() + row * head.dim, batch.y.begin() + (row + 1) * head.dim);
      const Doubles p = log_shares(times(words, goal), sharpen);
      const Doubles q = log_shares(times(words, y), 1);
      for (size_t i = 0; i < p.size(); ++i) sum += std::exp(p[i]) * (p[i] - q[i]);
      ++n;
    });
    return sum / n;
  }
};

}  // namespace specbound::test
