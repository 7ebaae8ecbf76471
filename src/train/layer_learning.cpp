#include "train/layer_learning.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "error.h"
#include "train/block_start.h"
#include "train/gradients.h"
#include "train/in_memory_learner.h"
#include "train/place_heads.h"

namespace specbound {

namespace {

constexpr double kOfMap = 0.3;  // of a layer's start: what least squares takes to be solved

// A step of AdamW moves what a row of weights says by the rate times its width, through a block of
// several matrices. Of the usual 2e-3 a layer of 256 takes all; one of 576 begins by losing what
// least squares had at 9e-4, and learns at 3e-4. No wider one was tried.
float rate_part(int dim) {
  const float narrower = 256.0f / static_cast<float>(dim);
  return std::clamp(narrower * narrower, 0.15f, 1.0f);
}

// n_out 0 where there is none.
HeadTensor tensor(int n_out, int n_in, const Parameter& p, float factor) {
  if (p.value.empty()) return {};
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
    return {task_.forms[head], task_.step.token_rows(), n_steps};
  }
  int inputs(const EquationsOf& of) const override {
    return task_.forms[static_cast<size_t>(of.layer)].start_inputs();
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

// The block at first being nothing but what start_attention() makes it, the map alone should say y:
// of kinds with a last norm before w, which that is multiplied by.
void LayerLearner::add_passages(size_t equations, const Chunks& chunks,
                                std::span<const RowAt> passages) {
  const size_t h = static_cast<size_t>(wanted_[equations].layer);
  const BlockForm& form = task_.forms[h];
  fill_passages(chunks, plan(h, 1), passages, batch_);
  if (batch_.learnt.empty()) return;
  steps_.resize(std::max<size_t>(steps_.size(), 1));
  block_inputs(gemm_, form, batch_, 0, steps_);
  const size_t dim = static_cast<size_t>(form.dim);
  std::vector<float> u, y;
  for (const int row : batch_.learnt) {
    const float* in = &steps_[0].in[cells(row, form.map_inputs())];
    u.insert(u.end(), in, in + form.map_inputs());
    if (form.eagle3()) {
      const auto x = batch_.x.begin() + static_cast<ptrdiff_t>(cells(row, form.dim));
      u.insert(u.end(), x, x + form.dim);
    }
    for (size_t i = 0; i < dim; ++i) {
      const float goal = batch_.y[static_cast<size_t>(row) * dim + i];
      y.push_back(form.eagle() ? form.unit() * goal : form.norm[i] == 0 ? 0 : goal / form.norm[i]);
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

// What rms(h_l) mostly is at each of some layers, by index: a few rows of a text may be a thousand
// times as large as all others.
std::vector<double> usual_rms(const FeatureSource& features, std::span<const int> layers) {
  FeatureChunk chunk;  // the first with rows
  for (int c = 0; chunk.rows == 0 && c < features.n_chunks; ++c) chunk = features.load(c);
  SB_CHECK(chunk.rows > 0);
  std::vector<double> usual;
  for (const int layer : layers) {
    std::vector<float>& rms = chunk.rms.at(static_cast<size_t>(layer));
    std::ranges::nth_element(rms, rms.begin() + std::ssize(rms) / 2);
    usual.push_back(rms[rms.size() / 2]);
  }
  return usual;
}

}  // namespace

BlockForm layer_form(HeadKind kind, const FeatureSource& features, const TrainOptions& options) {
  SB_CHECK(options.config && options.output_norm && options.config->dim == features.dim);
  std::vector<int> layers;
  if (kind == HeadKind::kLayer) layers = {0};
  if (kind == HeadKind::kEagle3) layers.assign(options.states.begin(), options.states.end());
  if (kind == HeadKind::kKangaroo) layers = {options.adapter_layer};
  std::vector<int> taken;
  for (const int layer : layers) {
    const auto found = std::ranges::find(features.layers, layer);
    SB_CHECK(found != features.layers.end());
    taken.push_back(static_cast<int>(found - features.layers.begin()));
  }
  std::vector<double> sizes;
  if (kind == HeadKind::kEagle) sizes = {state_size(features)};
  if (kind == HeadKind::kEagle3 || kind == HeadKind::kKangaroo) sizes = usual_rms(features, taken);
  const int wanted = options.block_inner > 0 ? options.block_inner : 2 * features.dim;
  const int inner = (wanted + 31) / 32 * 32;  // whole blocks of Q8_0
  BlockForm form(kind, *options.config, options.rope_factors, kMostPassage, inner, sizes);
  form.taken = std::move(taken);
  form.norm.assign(options.output_norm, options.output_norm + features.dim);
  return form;
}

LearningHead layer_head(const BlockForm& form, int steps) {
  LearningHead head;
  head.kind = form.kind;
  head.dim = form.dim;
  head.n_inner = form.n_inner;
  head.most_steps = form.chains() ? steps : 1;
  if (form.maps(0)) head.map.resize(cells(form.dim, form.map_inputs()));
  LearningBlock& block = head.block;
  block.q.resize(cells(form.q_dim(), form.attn_inputs()));
  for (Parameter* p : {&block.k, &block.v}) p->resize(cells(form.kv_dim(), form.attn_inputs()));
  block.o.resize(cells(form.dim, form.q_dim()));
  for (Parameter* p : {&block.gate, &block.up, &block.down}) {
    p->resize(cells(form.n_inner, form.dim));
  }
  const auto begin_norm = [&](Parameter& norm, bool is_there) {
    if (!is_there) return;
    norm.resize(static_cast<size_t>(form.dim));
    norm.value.assign(static_cast<size_t>(form.dim), 1.0f);
  };
  begin_norm(block.norm, !form.eagle());
  begin_norm(block.ffn_norm, form.eagle() || form.eagle3());
  begin_norm(block.attn_norm, form.eagle3() || form.adapter());
  begin_norm(block.embedding_norm, form.eagle3());
  if (form.eagle()) block.map_bias.resize(static_cast<size_t>(form.dim));
  return head;
}

bool start_layer(const Gemm& gemm, const LearningTask& task, size_t h, LeastSquares& equations,
                 double ridge, uint64_t seed, const std::function<bool(double)>& progress) {
  const BlockForm& form = task.forms[h];
  LearningHead& head = task.heads[h];
  const float most = std::sqrt(3.0f) * (0.5f / std::sqrt(static_cast<float>(form.dim)));
  LearningBlock& block = head.block;
  for (Parameter* p : {&block.q, &block.k, &block.v, &block.gate, &block.up}) {
    fill_uniform(seed = seed * 0x9e3779b97f4a7c15 + 1, most, p->value);
  }
  if (form.eagle3() || form.adapter()) {
    const std::vector<double> moments = equations.moments(form.start_inputs() - form.dim);
    const std::vector<float> map = equations.solve(gemm, ridge);
    const auto of_rest = [&](double done) { return progress(kOfMap + (1 - kOfMap) * done); };
    if (!start_attention(gemm, form, map, moments, seed, head, of_rest)) return false;
  } else {
    head.map.value = equations.solve(gemm, ridge);
  }
  if (form.eagle()) return true;
  // What W knows of a state is smaller than the state, and the norm makes it as large.
  PassageBatch batch;
  for (int c = 0; batch.learnt.empty() && c < task.features.n_chunks; ++c) {
    Chunks one;
    const FeatureChunk& chunk = one.emplace(c, task.features.load(c)).first->second;
    std::vector<RowAt> passages;
    append_passages(chunk.follows, c, 0, std::min(kEquationRows, chunk.rows), kMostPassage,
                    passages);
    fill_passages(one, {form, task.step.token_rows(), 1}, passages, batch);
  }
  if (batch.learnt.empty()) return true;
  std::vector<BlockStep> steps(1);
  block_forward(gemm, head, form, batch, 0, steps);
  double along = 0, square = 0;
  for (const int row : batch.learnt) {
    for (size_t i = cells(row, form.dim); i < cells(row + 1, form.dim); ++i) {
      along += static_cast<double>(batch.y[i]) * steps[0].y[i];
      square += static_cast<double>(steps[0].y[i]) * steps[0].y[i];
    }
  }
  if (along <= 0 || square <= 0) return true;
  for (float& w : block.norm.value) w = static_cast<float>(along / square);
  return true;
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

// The steps' losses at the rows `learnt` of step 0, those of chains at the same rows: their
// gradients, times `weight`, go into dy, their sum is returned.
double TrainingStep::losses_at(HeadKind kind, std::span<const int> learnt,
                               const PassageBatch& batch, float weight,
                               std::span<BlockStep> steps) {
  const std::span<const float> words = words_of(kind);
  // As published heads are when they draft: not capped.
  const float softcap = is_published(kind) ? 0 : softcap_;
  const size_t dim = static_cast<size_t>(dim_);
  const auto rows_of = [&](const std::vector<float>& values, std::span<const int> rows) {
    std::vector<float> some(rows.size() * dim);
    for (size_t r = 0; r < rows.size(); ++r) {
      std::copy_n(values.data() + cells(rows[r], dim_), dim, some.data() + r * dim);
    }
    return some;
  };
  Targets& targets = whole_;
  set_targets(words, static_cast<int>(learnt.size()), rows_of(batch.y, learnt).data(), targets);
  std::span<const int> known = learnt;  // that the targets are of
  double sum = 0;
  for (size_t k = 0; k < batch.steps.size(); ++k) {
    const std::vector<int>& all = batch.steps[k].rows;
    std::span<const int> rows = learnt;
    if (k > 0) {
      const auto begin = std::ranges::lower_bound(all, learnt.front());
      rows = {begin, std::ranges::upper_bound(begin, all.end(), learnt.back())};
      if (rows.empty()) break;
      keep_targets(known, rows, words.size() / dim, targets);
      known = rows;
    }
    // Their places in the step: of step 0, which has all rows, they have gaps.
    std::vector<int> slots;
    for (const int row : rows) slots.push_back(batch.steps[k].slot[static_cast<size_t>(row)]);
    const std::vector<float> said = rows_of(steps[k].y, slots);
    std::vector<float> d(said.size());
    sum += loss_gradient(words, softcap, static_cast<int>(rows.size()), said.data(), targets,
                         weight, d.data());
    for (size_t r = 0; r < slots.size(); ++r) {
      std::copy_n(d.data() + r * dim, dim, steps[k].dy.data() + cells(slots[r], dim_));
    }
  }
  return sum;
}

double TrainingStep::run(LearningHead& head, const BlockForm& form, const PassageBatch& batch,
                         std::vector<BlockStep>& steps) {
  const int n_steps = static_cast<int>(batch.steps.size());
  int64_t all = std::ssize(batch.learnt);
  for (size_t k = 1; k < batch.steps.size(); ++k) all += std::ssize(batch.steps[k].rows);
  if (all == 0) return 0;
  steps.resize(std::max(steps.size(), batch.steps.size()));
  for (int k = 0; k < n_steps; ++k) {
    block_forward(gemm_, head, form, batch, k, steps);
    clear_gradients(form, batch, k, steps);
  }
  const size_t width = words_of(head.kind).size() / static_cast<size_t>(dim_);
  const size_t at_once = std::max<size_t>(1, most_logits_ / width);
  const float weight = 1.0f / static_cast<float>(all);
  double sum = 0;
  for (size_t begin = 0; begin < batch.learnt.size(); begin += at_once) {
    const size_t n = std::min(at_once, batch.learnt.size() - begin);
    sum += losses_at(head.kind, std::span(batch.learnt).subspan(begin, n), batch, weight, steps);
  }
  for (int k = n_steps; k-- > 0;) block_backward(gemm_, head, form, batch, k, steps);
  return sum / static_cast<double>(all);
}

std::unique_ptr<HeadLearner> make_layer_learner(const Gemm& gemm, const LearningTask& task) {
  return std::make_unique<LayerLearner>(gemm, task);
}

NewHead finished_layer(const LearningHead& head, const BlockForm& form,
                       const TokenRows* token_rows) {
  const int dim = form.dim, n_in = form.map_inputs(), n_attends = form.attn_inputs();
  const LearningBlock& block = head.block;
  const float out = 1 / form.unit();
  const float in = form.eagle() ? form.unit() : 1;  // of q, k and v: others take a norm's
  NewHead file;
  file.map = tensor(dim, n_in, head.map, 1);
  for (size_t i = 0; i < file.map.values.size() && is_published(form.kind); ++i) {
    const size_t part = i % static_cast<size_t>(n_in) / static_cast<size_t>(dim);
    file.map.values[i] *= out * (form.eagle3() ? form.state_factors[part]
                                 : part == 0   ? token_rows->token_factor()
                                               : form.unit());
  }
  file.map_bias = tensor(1, dim, block.map_bias, out);
  file.q = tensor(form.q_dim(), n_attends, block.q, in);
  file.k = tensor(form.kv_dim(), n_attends, block.k, in);
  file.v = tensor(form.kv_dim(), n_attends, block.v, in);
  file.o = tensor(dim, form.q_dim(), block.o, out);
  file.gate = tensor(form.n_inner, dim, block.gate, 1);
  file.up = tensor(form.n_inner, dim, block.up, 1);
  file.down = tensor(dim, form.n_inner, block.down, out);
  file.norm = tensor(1, dim, block.norm, 1);
  for (size_t i = 0; i < file.norm.values.size(); ++i) file.norm.values[i] *= form.norm[i];
  // In a file the one norm of an eagle layer is its last too, and an eagle3 layer's is of a state.
  (form.eagle() ? file.norm : file.ffn_norm) = tensor(1, dim, block.ffn_norm, 1);
  if (form.eagle()) return file;
  (form.eagle3() ? file.state_norm : file.attn_norm) = tensor(1, dim, block.attn_norm, 1);
  file.embedding_norm = tensor(1, dim, block.embedding_norm, 1);
  file.rope_theta = form.rope_theta;
  return file;
}

}  // namespace specbound
