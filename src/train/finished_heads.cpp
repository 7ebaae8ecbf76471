#include "train/finished_heads.h"

#include <algorithm>
#include <vector>

#include "train/head_trainer.h"
#include "train/layer_learning.h"
#include "train/place_heads.h"

namespace specbound {

NewHead finished_head(const Gemm& gemm, const TrainingStep& step, const LearningHead& head,
                      const BlockForm* form, std::span<const int32_t> shortlist,
                      const TrainOptions& options) {
  NewHead out;
  if (head.by_place()) out = finished_places(head, *step.token_rows());
  if (is_layer(head.kind)) out = finished_layer(head, *form, step.token_rows());
  out.kind = head.kind;
  out.layer = head.layer;
  if (head.kind == HeadKind::kEagle3) {
    // V is nothing but lm_head's rows of a list, and both stay as they are.
    const std::span<const float> words = step.words_of(head.kind);
    out.lm_head = {step.shortlist_size(), head.dim, {words.begin(), words.end()}};
    out.tokens.assign(shortlist.begin(), shortlist.end());
    out.states = options.states;
  }
  if (is_published(head.kind) || head.kind == HeadKind::kLayer) return out;
  const int dim = head.dim;
  if (head.kind == HeadKind::kFolded) {
    const int n = step.shortlist_size();
    out.folded = {n, dim, std::vector<float>(static_cast<size_t>(n) * dim)};
    gemm.multiply(Op::kPlain, Op::kPlain, n, dim, dim, 1.0f, step.shortlist_rows().data(), dim,
                  head.map.value.data(), dim, 0.0f, out.folded.values.data(), dim);
    return out;
  }
  out.map = {dim, head.n_in(), head.map.value};
  if (head.n_inner > 0) {
    out.inner = {head.n_inner, head.n_in(), head.inner.value};
    out.outer = {dim, head.n_inner, head.outer.value};
  }
  return out;
}

HeadDefaults untuned_defaults(std::span<const LearningHead> heads, int shortlist, int n_layers) {
  HeadDefaults result;
  result.shortlist = shortlist;
  const auto has = [&](HeadKind kind) {
    return std::ranges::any_of(heads, [=](const LearningHead& head) { return head.kind == kind; });
  };
  const bool chained = has(HeadKind::kChained);
  result.kind = chained                  ? HeadKind::kChained
                : has(HeadKind::kFolded) ? HeadKind::kFolded
                : has(HeadKind::kFull)   ? HeadKind::kFull
                                         : heads[0].kind;
  result.d_max = std::clamp(result.d_max, 1, std::max(1, n_layers - 1));
  std::vector<int> layers;
  for (const LearningHead& head : heads) {
    if (head.kind == result.kind) layers.push_back(head.layer);
  }
  std::sort(layers.begin(), layers.end());
  if (chained) layers.resize(1);
  std::vector<int> shallow;
  for (const int layer : layers) {
    if (layer <= result.d_max) shallow.push_back(layer);
  }
  result.check_layers = shallow.empty() ? layers : shallow;
  result.d_max = std::max(result.d_max, result.check_layers.back());
  return result;
}

}  // namespace specbound
