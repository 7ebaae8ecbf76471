#include "decode/specbound.h"

#include "error.h"

namespace specbound {
namespace {

constexpr int kNowhere = -1;
constexpr int kAborted = -2;
constexpr int kDeclined = -3;

}  // namespace

void validate(const SpecBoundParams& params, int n_layers, int first_layer) {
  const auto check = [](const char* name, double value, double low, double high) {
    if (value >= low && value <= high) return;  // false for NaN
    throw Error(ErrorCode::kUsage,
                format("%s: expected %g to %g, found %g", name, low, high, value));
  };
  check("w_max", params.w_max, 1, kMaxRows);
  if (params.d_max < 1) {
    throw Error(ErrorCode::kUsage,
                format("d_max: expected a layer from 1 on, found %d", params.d_max));
  }
  check("alpha", params.alpha, 0, 100);
  check("tau", params.tau, 0, 1);
  int before = first_layer - 1;
  for (const int layer : params.check_layers) {
    if (first_layer >= n_layers) {
      throw Error(ErrorCode::kUsage,
                  "check_layers: the model has 1 layer, and drafts leave below the last one");
    }
    if (layer < first_layer || layer >= n_layers) {
      throw Error(ErrorCode::kUsage,
                  format("check_layers: expected layers from %d to %d (the model has %d), found %d",
                         first_layer, n_layers - 1, n_layers, layer));
    }
    if (layer <= before) {
      throw Error(
          ErrorCode::kUsage,
          format("check_layers: expected ascending layers, found %d after %d", layer, before));
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
SpecBound::Exit SpecBound::find_exit(Round& round) {
  int check = 0, done = 0;
  const ShouldExit should_exit = [&](float p) {
    round.checked(done, p);
    const bool confident = p >= params_.tau;
    return policy_ ? policy_->should_exit(check, p, confident) : confident;
  };
  for (; check < static_cast<int>(check_layers_.size()); ++check) {
    const int layer = check_layers_[check];
    if (policy_ && !policy_->should_check(check)) return {check == 0 ? kDeclined : kNowhere};
    if (!round.run(done + 1, layer)) return {kAborted};
    done = layer;
    const float temperature = annealed_temperature(params_, layer, n_layers_);
    const auto token = head_.check(round, layer, temperature, should_exit);
    if (token) return {layer, *token};
  }
  return {kNowhere};
}

DraftEnd SpecBound::draft(Round& round) {
  if (!head_.ready()) return DraftEnd::kPlain;
  if (policy_) policy_->start();
  // The last permitted row is never checked; more may be permitted to others (TreeSpeculator).
  while (!round.full() && round.rows() < width()) {
    const auto [layer, token] = find_exit(round);
    if (layer == kAborted) return DraftEnd::kAborted;
    if (layer == kDeclined) return round.rows() == 1 ? DraftEnd::kPlain : DraftEnd::kWidth;
    if (layer == kNowhere) return DraftEnd::kDifficult;
    if (round.would_end(token)) {
      if (policy_) policy_->withdrawn();
      return DraftEnd::kReplyEnd;
    }
    round.append(token, layer);
  }
  return DraftEnd::kWidth;
}

void SpecBound::accept(Backend& backend, const RoundEvent& round) {
  head_.on_commit(backend, round.tokens.back().slot);
  if (policy_) policy_->learn(round);
}

}  // namespace specbound
