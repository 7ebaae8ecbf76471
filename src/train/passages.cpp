#include "train/passages.h"

#include "train/gemm.h"
#include "train/place_heads.h"

namespace specbound {

namespace {

// Row `row` of a (rows, dim), times `factor`.
void append_row(const std::vector<float>& a, int row, int dim, float factor,
                std::vector<float>& to) {
  const float* from = &a[cells(row, dim)];
  to.resize(to.size() + static_cast<size_t>(dim));
  float* into = &to[to.size() - static_cast<size_t>(dim)];
  for (int i = 0; i < dim; ++i) into[i] = factor * from[i];
}

// What a block's row is made of at row `row` of a chunk, its state being of `before`, -1 for none.
void append_inputs(const FeatureChunk& chunk, const PassagePlan& plan, int row, int before,
                   PassageBatch& batch) {
  const BlockForm& form = plan.form;
  const auto append_h = [&](int layer, int at) {
    const size_t l = static_cast<size_t>(layer);
    append_row(chunk.x[l], at, chunk.dim, chunk.rms[l][static_cast<size_t>(at)], batch.state);
  };
  if (form.adapter()) return append_h(form.taken[0], row);
  if (form.kind == HeadKind::kLayer) {
    append_row(chunk.x[static_cast<size_t>(form.taken[0])], row, chunk.dim, 1, batch.x);
  } else {
    const size_t at = batch.x.size();
    batch.x.resize(at + static_cast<size_t>(chunk.dim));
    const int32_t token = chunk.next[static_cast<size_t>(before)];
    form.eagle3() ? plan.token_rows->read_normed(token, form.norm_eps, &batch.x[at])
                  : plan.token_rows->read(token, &batch.x[at]);
  }
  if (form.eagle3()) {
    for (const int layer : form.taken) append_h(layer, before);
  } else if (before >= 0) {
    append_row(chunk.y, before, chunk.dim, 1, batch.state);
  } else {
    batch.state.resize(batch.state.size() + static_cast<size_t>(chunk.dim));
  }
}

}  // namespace

void set_steps(std::span<const uint8_t> learn, int n_steps, PassageBatch& batch) {
  batch.learnt.clear();
  batch.steps.clear();
  const int n_passages = static_cast<int>(batch.first.size()) - 1;
  for (int k = 0; k < n_steps; ++k) {
    PassageBatch::Step step;
    step.slot.assign(static_cast<size_t>(batch.n), -1);
    step.begin.push_back(0);
    for (int p = 0; p < n_passages; ++p) {
      const int first = batch.first[static_cast<size_t>(p)];
      for (int row = first; row < batch.first[static_cast<size_t>(p) + 1]; ++row) {
        const size_t i = static_cast<size_t>(row);
        if (k == 0 && learn[i]) batch.learnt.push_back(row);
        const bool goes_on = k == 0 || (row > first && learn[i] && learn[i - 1] &&
                                        batch.steps.back().slot[i - 1] >= 0);
        if (!goes_on) continue;
        step.slot[i] = static_cast<int>(step.rows.size());
        step.rows.push_back(row);
      }
      step.begin.push_back(static_cast<int>(step.rows.size()));
    }
    if (step.rows.empty()) break;
    batch.steps.push_back(std::move(step));
  }
}

void fill_passages(const Chunks& chunks, const PassagePlan& plan, std::span<const RowAt> passages,
                   PassageBatch& batch) {
  batch.n = 0;
  batch.first = {0};
  batch.origin.clear();
  for (std::vector<float>* values : {&batch.x, &batch.state, &batch.y}) values->clear();
  std::vector<uint8_t> learn;
  // A published layer's text begins with the first row that has a state before it; of a draft layer
  // no other row is learnt from either.
  const bool wants_state = is_published(plan.form.kind) && !plan.form.adapter();
  for (const auto& [number, first, run] : passages) {
    const FeatureChunk& chunk = chunks.at(number);
    const auto follows = [&](int row) {
      return row > 0 && chunk.follows[static_cast<size_t>(row)];
    };
    const auto learns = [&](int row) {
      return (follows(row) || plan.form.adapter()) && chunk.learns(row);
    };
    bool any = false;
    for (int row = first; row < first + run; ++row) any |= learns(row);
    if (!any) continue;
    for (int row = first; row < first + run; ++row) {
      if (wants_state && !follows(row)) continue;
      append_inputs(chunk, plan, row, follows(row) ? row - 1 : -1, batch);
      append_row(chunk.y, row, chunk.dim, 1, batch.y);
      learn.push_back(learns(row));
      batch.origin.push_back(row);
      ++batch.n;
    }
    if (batch.n > batch.first.back()) batch.first.push_back(batch.n);
  }
  set_steps(learn, plan.n_steps, batch);
}

}  // namespace specbound
