#include "decode/specbound.h"

#include "error.h"

namespace specbound {
namespace {

constexpr int kNowhere = -1;
constexpr int kAborted = -2;
constexpr int kDeclined = -3;

}  // namespace

void validate(const SpecBoundParams& params, int n_layers, int first_layer) {
  const auto check = [](const char* flag, double value, double low, double high) {
    if (value >= low && value <= high) return;  // false for NaN
    throw Error(ErrorCode::kUsage,
                format("%s: expected %g to %g, found %g", flag, low, high, value));
  };
  check("--w-max", params.w_max, 1, kMaxRows);
  if (params.d_max < 1) {
    throw Error(ErrorCode::kUsage,
                format("--d-max: expected a layer from 1 on, found %d", params.d_max));
  }
  check("--alpha", params.alpha, 0, 100);
  check("--tau", params.tau, 0, 1);
  int before = first_layer - 1;
  for (const int layer : params.check_layers) {
    if (first_layer >= n_layers) {
      throw Error(ErrorCode::kUsage,
                  "--check-layers: the model has 1 layer, and drafts leave below the last one");
    }
    if (layer < first_layer || layer >= n_layers) {
      throw Error(
          ErrorCode::kUsage,
          format("--check-layers: expected layers from %d to %d (the model has %d), found %d",
                 first_layer, n_layers - 1, n_layers, layer));
    }
    if (layer <= before) {
      throw Error(
          ErrorCode::kUsage,
          format("--check-layers: expected ascending layers, found %d after %d", layer, before));
    }
    before = layer;
  }
}

float annealed_temperature(const SpecBoundParams& params, int layer, int n_layers) {
  if (!params.anneal) return 1.0f;
  return 1.0f + params.alpha * (1.0f - static_cast<float>(layer) / static_cast<float>(n_layers));
}

std::vector<int> bounded_check_layers(const SpecBoundParams& params, int n_layers) {
  std::vector<int> layers = params.check_layers;
  if (layers.empty()) {
    for (int l = 1; l < n_layers; ++l) layers.push_back(l);
  }
  if (params.depth_bound) std::erase_if(layers, [&](int l) { return l > params.d_max; });
  return layers;
}

SpecBound::SpecBound(ExitHead& head, const SpecBoundParams& params, int n_layers, const char* name)
    : head_(head),
      params_(params),
      n_layers_(n_layers),
      name_(name),
      check_layers_(bounded_check_layers(params, n_layers)) {}

void SpecBound::begin(std::span<const int32_t>) {
  head_.begin();
  if (policy_) policy_->begin();
}

int SpecBound::width() const {
  if (check_layers_.empty()) return 1;
  if (policy_) return policy_->width();
  return params_.width_bound ? params_.w_max : kMaxRows;
}

void SpecBound::set_params(const SpecBoundParams& params) {
  params_ = params;
  check_layers_ = bounded_check_layers(params_, n_layers_);
}

// The first check layer at which the newest row may leave, kNowhere, kAborted, or kDeclined when it
// is not even looked for.
int SpecBound::exit_layer(Round& round) {
  int done = 0;
  for (size_t i = 0; i < check_layers_.size(); ++i) {
    const int check = static_cast<int>(i), layer = check_layers_[i];
    if (policy_ && !policy_->look(check)) return check == 0 ? kDeclined : kNowhere;
    if (!round.run(done + 1, layer)) return kAborted;
    done = layer;
    const float p = head_.confidence(round, layer, annealed_temperature(params_, layer, n_layers_));
    round.checked(layer, p);
    const bool confident = p >= head_.threshold(params_.tau);
    if (policy_ ? policy_->leave(check, p, confident) : confident) return layer;
  }
  return kNowhere;
}

DraftEnd SpecBound::draft(Round& round) {
  if (!head_.ready()) return DraftEnd::kPlain;
  if (policy_) policy_->start();
  while (!round.full()) {  // the last permitted row is never checked
    const int layer = exit_layer(round);
    if (layer == kAborted) return DraftEnd::kAborted;
    if (layer == kDeclined) return round.rows() == 1 ? DraftEnd::kPlain : DraftEnd::kWidth;
    if (layer == kNowhere) return DraftEnd::kDifficult;
    const int32_t token = head_.token(round);
    if (round.would_end(token)) return DraftEnd::kReplyEnd;
    round.append(token, layer);
  }
  return DraftEnd::kWidth;
}

void SpecBound::accept(Backend& backend, const RoundEvent& round) {
  head_.settled(backend, round.tokens.back().slot);
  if (policy_) policy_->learn(round);
}

}  // namespace specbound
