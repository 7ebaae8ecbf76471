#include "drafters/specbound.h"

#include "error.h"

namespace specbound {
namespace {

constexpr int kNowhere = -1;
constexpr int kAborted = -2;
constexpr double kAssumedCheck = 0.06;  // of a plain round

}  // namespace

SpecBoundParams params_of(const HeadDefaults& settings) {
  SpecBoundParams params;
  params.w_max = settings.w_max;
  params.d_max = settings.d_max;
  params.alpha = settings.alpha;
  params.tau = settings.tau;
  params.check_layers = settings.check_layers;
  return params;
}

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

float annealed_temperature(const SpecBoundParams& params, int layer, int n_layers, float learned) {
  if (!params.anneal) return 1.0f;
  if (params.learned) return learned;
  return 1.0f + params.alpha * (1.0f - static_cast<float>(layer) / static_cast<float>(n_layers));
}

std::string annealing_text(const SpecBoundParams& params) {
  if (!params.anneal) return "no annealing";
  return params.learned ? "annealing learned" : format("alpha %g", params.alpha);
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
}

int SpecBound::width() const {
  if (check_layers_.empty()) return 1;
  return params_.width_bound ? params_.w_max : kMaxRows;
}

void SpecBound::set_params(const SpecBoundParams& params) {
  params_ = params;
  check_layers_ = bounded_check_layers(params_, n_layers_);
}

bool SpecBound::check(Round& round, int stage, const ShouldExit& should_exit,
                      std::optional<int32_t>& token) {
  const int layer = check_layers_[stage], done = stage > 0 ? check_layers_[stage - 1] : 0;
  if (!round.run(done + 1, layer)) return false;
  const float temperature =
      annealed_temperature(params_, layer, n_layers_, head_.temperature(layer));
  const auto decide = [&](float p) {
    round.checked(layer, p);
    return should_exit(p);
  };
  token = head_.check(round, layer, temperature, {decide, should_exit.least()});
  return true;
}

// The first check layer at which the newest row may leave, kNowhere or kAborted.
SpecBound::Exit SpecBound::find_exit(Round& round) {
  const ShouldExit confident([&](float p) { return p >= params_.tau; }, params_.tau);
  for (int stage = 0; stage < stages(); ++stage) {
    std::optional<int32_t> token;
    if (!check(round, stage, confident, token)) return {kAborted};
    if (token) return {check_layers_[stage], *token};
  }
  return {kNowhere};
}

double SpecBound::assumed_cost(int stage) const {
  const int done = stage > 0 ? check_layers_[stage - 1] : 0;
  return kAssumedCheck + static_cast<double>(check_layers_[stage] - done) / n_layers_;
}

std::optional<Guesser::Guess> SpecBound::guess(Round& round, int stage) {
  Guess guess;
  guess.layer = check_layers_[stage];
  std::optional<int32_t> token;
  const ShouldExit always = [&](float p) {
    guess.confidence = p;
    return true;
  };
  if (!check(round, stage, always, token)) return std::nullopt;
  guess.token = *token;
  // From a device they would have to come over.
  if (!round.backend().samples_on_device()) {
    guess.add_others(head_.logits(round.backend()), head_.ids(round.backend()),
                     round.sampler().params().temperature, round.place(round.newest()));
  }
  return guess;
}

DraftEnd SpecBound::draft(Round& round) {
  // The last permitted row is never checked; more may be permitted to others (TreeSpeculator).
  while (!round.full() && round.rows() < width()) {
    if (!head_.ready(round)) return round.rows() == 1 ? DraftEnd::kPlain : DraftEnd::kWidth;
    const auto [layer, token] = find_exit(round);
    if (layer == kAborted) return DraftEnd::kAborted;
    if (layer == kNowhere) return DraftEnd::kDifficult;
    if (round.would_end(token)) return DraftEnd::kReplyEnd;
    round.append(token, layer);
  }
  return DraftEnd::kWidth;
}

void SpecBound::accept(Backend& backend, const RoundEvent& round) {
  head_.on_commit(backend, round.tokens.back().slot);
}

}  // namespace specbound
