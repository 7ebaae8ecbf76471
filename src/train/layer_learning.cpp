#include "train/layer_learning.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "error.h"
#include "train/gradients.h"
#include "train/in_memory_learner.h"
#include "train/place_heads.h"

namespace specbound {

namespace {

// A step of AdamW moves what a row of weights says by the rate times its width, through a block of
// several matrices. Of the usual 2e-3 a layer of 256 takes all; one of 576 begins by losing what
// least squares had at 9e-4, and learns at 3e-4. No wider one was tried.
float rate_part(int dim) {
  const float narrower = 256.0f / static_cast<float>(dim);
  return std::clamp(narrower * narrower, 0.15f, 1.0f);
}

HeadTensor tensor(int n_out, int n_in, const Parameter& p, float factor) {
  HeadTensor out{n_out, n_in, p.value};
  for (float& v : out.values) v *= factor;
  return out;
}

class LayerLearner final : public InMemoryLearner {
 public:
  LayerLearner(const Gemm& gemm, const LearningTask& task) : InMemoryLearner(gemm, task) {}

  void add_equations(int chunk, int most) override;
  int64_t learn(std::vector<RowAt>& passages, int64_t step, float rate,
                std::span<double> losses) override;

 private:
  PassagePlan plan(size_t head, int n_steps) const {
    return {task_.heads[head].kind, task_.x_index[head], task_.step.token_rows(), n_steps};
  }
  void add_passages(size_t equations, const Chunks& chunks, std::span<const RowAt> passages);

  PassageBatch batch_;
  std::vector<BlockStep> steps_;
};

void LayerLearner::add_equations(int number, int most) {
  Chunks one;
  const FeatureChunk& chunk = one.emplace(number, task_.features.load(number)).first->second;
  std::vector<RowAt> passages;
  append_passages(chunk.follows, number, 0, std::min(most, chunk.rows), kMostPassage, passages);
  for (size_t i = 0; i < wanted_.size(); ++i) {
    for (size_t begin = 0, end = 0; begin < passages.size(); begin = end) {
      for (int rows = 0; end < passages.size() && rows < kEquationRows; ++end) {
        rows += passages[end].run;
      }
      add_passages(i, one, std::span(passages).subspan(begin, end - begin));
    }
  }
}

// The block at first being nothing, W alone should say y: of a layer before w, which its norm is
// multiplied by.
void LayerLearner::add_passages(size_t equations, const Chunks& chunks,
                                std::span<const RowAt> passages) {
  const auto of = std::ranges::find(task_.x_index, wanted_[equations].layer);
  const size_t h = static_cast<size_t>(of - task_.x_index.begin());
  const BlockForm& form = task_.forms[h];
  fill_passages(chunks, plan(h, 1), passages, batch_);
  if (batch_.learnt.empty()) return;
  steps_.resize(std::max<size_t>(steps_.size(), 1));
  block_inputs(gemm_, form, batch_, 0, steps_);
  const size_t dim = static_cast<size_t>(form.dim);
  std::vector<float> u, y;
  for (const int row : batch_.learnt) {
    const float* in = &steps_[0].in[static_cast<size_t>(row) * 2 * dim];
    u.insert(u.end(), in, in + 2 * dim);
    for (size_t i = 0; i < dim; ++i) {
      const float goal = batch_.y[static_cast<size_t>(row) * dim + i];
      y.push_back(form.eagle()        ? form.state_factor * goal
                  : form.norm[i] == 0 ? 0
                                      : goal / form.norm[i]);
    }
  }
  equations_[equations].add(gemm_, static_cast<int>(batch_.learnt.size()), u.data(), y.data());
}

int64_t LayerLearner::learn(std::vector<RowAt>& passages, int64_t step, float rate,
                            std::span<double> losses) {
  int64_t head_rows = 0;
  for (size_t h = 0; h < task_.heads.size(); ++h) {
    LearningHead& head = task_.heads[h];
    fill_passages(chunks_.chunks(), plan(h, head.most_steps), passages, batch_);
    losses[h] = task_.step.run(head, task_.forms[h], batch_, steps_);
    if (batch_.learnt.empty()) continue;  // prompts alone
    task_.adam.step(gemm_.pool(), head.parameters(), step, rate_part(head.dim) * rate);
    for (const PassageBatch::Step& of : batch_.steps) head_rows += std::ssize(of.rows);
  }
  return head_rows;
}

}  // namespace

LearningHead layer_head(const BlockForm& form, int steps) {
  LearningHead head;
  head.kind = form.kind;
  head.dim = form.dim;
  head.n_inner = form.n_inner;
  head.most_steps = steps;
  head.map.resize(cells(form.dim, 2 * form.dim));
  LearningBlock& block = head.block;
  block.q.resize(cells(form.q_dim(), form.dim));
  for (Parameter* p : {&block.k, &block.v}) p->resize(cells(form.kv_dim(), form.dim));
  block.o.resize(cells(form.dim, form.q_dim()));
  for (Parameter* p : {&block.gate, &block.up, &block.down}) {
    p->resize(cells(form.n_inner, form.dim));
  }
  block.norm.resize(static_cast<size_t>(form.dim));
  block.norm.value.assign(static_cast<size_t>(form.dim), 1.0f);
  if (form.eagle()) block.map_bias.resize(static_cast<size_t>(form.dim));
  return head;
}

void start_layer(const Gemm& gemm, const LearningTask& task, size_t h,
                 const std::vector<float>& map, uint64_t seed) {
  const BlockForm& form = task.forms[h];
  LearningHead& head = task.heads[h];
  head.map.value = map;
  const float most = std::sqrt(3.0f) * (0.5f / std::sqrt(static_cast<float>(form.dim)));
  LearningBlock& block = head.block;
  for (Parameter* p : {&block.q, &block.k, &block.v, &block.gate, &block.up}) {
    fill_uniform(seed = seed * 0x9e3779b97f4a7c15 + 1, most, p->value);
  }
  if (form.eagle()) return;
  // What W knows of a state is smaller than the state, and the norm makes it as large.
  PassageBatch batch;
  for (int c = 0; batch.learnt.empty() && c < task.features.n_chunks; ++c) {
    Chunks one;
    const FeatureChunk& chunk = one.emplace(c, task.features.load(c)).first->second;
    std::vector<RowAt> passages;
    append_passages(chunk.follows, c, 0, std::min(kEquationRows, chunk.rows), kMostPassage,
                    passages);
    fill_passages(one, {head.kind, task.x_index[h], task.step.token_rows(), 1}, passages, batch);
  }
  if (batch.learnt.empty()) return;
  std::vector<BlockStep> steps(1);
  block_forward(gemm, head, form, batch, 0, steps);
  double along = 0, square = 0;
  for (const int row : batch.learnt) {
    for (size_t i = cells(row, form.dim); i < cells(row + 1, form.dim); ++i) {
      along += static_cast<double>(batch.y[i]) * steps[0].y[i];
      square += static_cast<double>(steps[0].y[i]) * steps[0].y[i];
    }
  }
  if (along <= 0 || square <= 0) return;
  for (float& w : block.norm.value) w = static_cast<float>(along / square);
}

void fill_passages(const Chunks& chunks, const PassagePlan& plan, std::span<const RowAt> passages,
                   PassageBatch& batch) {
  batch.n = 0;
  batch.first = {0};
  batch.origin.clear();
  for (std::vector<float>* values : {&batch.x, &batch.state, &batch.y}) values->clear();
  std::vector<uint8_t> learn;
  for (const auto& [number, first, run] : passages) {
    const FeatureChunk& chunk = chunks.at(number);
    const size_t dim = static_cast<size_t>(chunk.dim);
    const auto has_state = [&](int row) {
      return row > 0 && chunk.follows[static_cast<size_t>(row)];
    };
    const auto learns = [&](int row) { return has_state(row) && chunk.learns(row); };
    bool any = false;
    for (int row = first; row < first + run; ++row) any |= learns(row);
    if (!any) continue;
    for (int row = first; row < first + run; ++row) {
      const bool follows = has_state(row);
      // Published layers have no row without a state.
      if (!follows && plan.kind == HeadKind::kEagle) continue;
      const auto add = [&](const std::vector<float>& from, int at, std::vector<float>& to) {
        const auto begin = from.begin() + static_cast<ptrdiff_t>(dim) * at;
        to.insert(to.end(), begin, begin + static_cast<ptrdiff_t>(dim));
      };
      if (plan.kind == HeadKind::kEagle) {
        batch.x.resize(batch.x.size() + dim);
        plan.token_rows->read(chunk.next[static_cast<size_t>(row) - 1],
                              batch.x.data() + batch.x.size() - dim);
      } else {
        add(chunk.x[static_cast<size_t>(plan.x_index)], row, batch.x);
      }
      if (follows) {
        add(chunk.y, row - 1, batch.state);
      } else {
        batch.state.resize(batch.state.size() + dim);
      }
      add(chunk.y, row, batch.y);
      learn.push_back(learns(row));
      batch.origin.push_back(row);
      ++batch.n;
    }
    if (batch.n > batch.first.back()) batch.first.push_back(batch.n);
  }
  set_steps(learn, plan.n_steps, batch);
}

// `rows` are some of those that the targets are of, in the same order.
void TrainingStep::keep_targets(std::span<const int> from, std::span<const int> rows, size_t width,
                                Targets& targets) {
  size_t at = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    while (from[at] != rows[r]) ++at;
    std::copy_n(targets.p.data() + at * width, width, targets.p.data() + r * width);
    targets.entropy[r] = targets.entropy[at];
  }
}

double TrainingStep::run(LearningHead& head, const BlockForm& form, const PassageBatch& batch,
                         std::vector<BlockStep>& steps) {
  const size_t n_steps = batch.steps.size();
  int64_t all = std::ssize(batch.learnt);
  for (size_t k = 1; k < n_steps; ++k) all += std::ssize(batch.steps[k].rows);
  if (all == 0) return 0;
  const float weight = 1.0f / static_cast<float>(all);
  const bool whole = says_all(head.kind);
  // As published heads are when they draft: not capped.
  const float softcap = whole ? 0 : softcap_;
  const std::span<const float> words = whole ? lm_head_ : shortlist_rows_;
  const auto rows_of = [&](const std::vector<float>& values, std::span<const int> rows) {
    std::vector<float> some(rows.size() * static_cast<size_t>(dim_));
    for (size_t r = 0; r < rows.size(); ++r) {
      std::copy_n(values.data() + cells(rows[r], dim_), dim_,
                  some.data() + r * static_cast<size_t>(dim_));
    }
    return some;
  };
  steps.resize(std::max(steps.size(), n_steps));
  Targets targets;
  set_targets(words, static_cast<int>(batch.learnt.size()), rows_of(batch.y, batch.learnt).data(),
              targets);
  std::vector<int> learnt = batch.learnt;  // that the targets are of
  double sum = 0;
  for (size_t k = 0; k < n_steps; ++k) {
    block_forward(gemm_, head, form, batch, static_cast<int>(k), steps);
    BlockStep& step = steps[k];
    const std::vector<int>& rows = batch.steps[k].rows;
    const int n = static_cast<int>(rows.size());
    step.dy.assign(cells(n, dim_), 0.0f);
    step.dk.assign(cells(n, form.kv_dim()), 0.0f);
    step.dv.assign(cells(n, form.kv_dim()), 0.0f);
    if (k > 0) {
      keep_targets(learnt, rows, words.size() / static_cast<size_t>(dim_), targets);
      learnt = rows;
      sum += loss_gradient(words, softcap, n, step.y.data(), targets, weight, step.dy.data());
      continue;
    }
    const std::vector<float> said = rows_of(step.y, learnt);
    std::vector<float> d(said.size());
    sum += loss_gradient(words, softcap, static_cast<int>(learnt.size()), said.data(), targets,
                         weight, d.data());
    for (size_t r = 0; r < learnt.size(); ++r) {
      std::copy_n(d.data() + r * static_cast<size_t>(dim_), dim_,
                  step.dy.data() + cells(learnt[r], dim_));
    }
  }
  for (size_t k = n_steps; k-- > 0;) {
    block_backward(gemm_, head, form, batch, static_cast<int>(k), steps);
  }
  return sum / static_cast<double>(all);
}

std::unique_ptr<HeadLearner> make_layer_learner(const Gemm& gemm, const LearningTask& task) {
  return std::make_unique<LayerLearner>(gemm, task);
}

NewHead finished_layer(const LearningHead& head, const BlockForm& form,
                       const TokenRows* token_rows) {
  const int dim = form.dim;
  const LearningBlock& block = head.block;
  const float in = form.state_factor, out = 1 / form.state_factor;
  NewHead file;
  file.map = tensor(dim, 2 * dim, head.map, 1);
  if (form.eagle()) {
    for (size_t i = 0; i < file.map.values.size(); ++i) {
      const bool token = i % (2 * static_cast<size_t>(dim)) < static_cast<size_t>(dim);
      file.map.values[i] *= out * (token ? token_rows->token_factor() : in);
    }
    file.map_bias = tensor(1, dim, block.map_bias, out);
  }
  file.q = tensor(form.q_dim(), dim, block.q, in);
  file.k = tensor(form.kv_dim(), dim, block.k, in);
  file.v = tensor(form.kv_dim(), dim, block.v, in);
  file.o = tensor(dim, form.q_dim(), block.o, out);
  file.gate = tensor(form.n_inner, dim, block.gate, 1);
  file.up = tensor(form.n_inner, dim, block.up, 1);
  file.down = tensor(dim, form.n_inner, block.down, out);
  file.norm = tensor(1, dim, block.norm, 1);
  for (size_t i = 0; i < form.norm.size(); ++i) file.norm.values[i] *= form.norm[i];
  return file;
}

}  // namespace specbound
