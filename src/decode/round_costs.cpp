#include "decode/round_costs.h"

#include <algorithm>

namespace specbound {
namespace {

// A machine of which nothing is known: rows cost little beside the weights that they share.
constexpr double kLayerSlope = 0.08, kRestSlope = 0.25;  // of one row, each row more
constexpr double kRestShare = 0.06, kCheckShare = 0.06;  // of a plain round
constexpr double kLeastRate = 1.0 / 24;  // a round's say in the figures that it is made of
constexpr double kShared = 0.01;    // and in all others, as far as plain rounds tell it too late
constexpr double kMostChange = 2;   // times what was expected: the rest is an interruption
constexpr double kNeighbours = 1;   // rounds that what the neighbours say counts for
constexpr double kPriorRise = 0.1;  // of one row, that the unit of a shape as given counts for
constexpr double kMostUnit = 4;     // of one row
constexpr double kCostKept = 0.97;  // of a weight at decay()

static_assert(CostModel::kRows == kMaxRows);

// The time of what is not a layer.
double rest_of(const CostModel& tuned, int rows) {
  return tuned.logits[rows] + rows * (tuned.row + tuned.argmax) + tuned.round;
}

bool usable(const CostModel* tuned, int n_layers, double check_seconds) {
  if (!tuned || tuned->n_layers != n_layers || !(check_seconds > 0)) return false;
  for (int m = 1; m <= kMaxRows; ++m) {
    if (!(tuned->layer[m] > 0) || !(rest_of(*tuned, m) > 0)) return false;
  }
  return true;
}

}  // namespace

RoundCosts::RoundCosts(int n_layers, const std::vector<int>& check_layers, const CostModel* tuned,
                       double check_seconds)
    : n_layers_(n_layers),
      check_layers_(check_layers),
      check_at_(static_cast<size_t>(n_layers) + 1, -1),
      tuned_(usable(tuned, n_layers, check_seconds)),
      check_measured_(check_layers.size()),
      check_(check_layers.size()),
      looks_(check_layers.size()) {
  for (size_t i = 0; i < check_layers.size(); ++i) check_at_[check_layers[i]] = static_cast<int>(i);
  // Seconds, as tuned.
  const double plain = tuned_ ? n_layers * tuned->layer[1] + tuned->pass + rest_of(*tuned, 1) : 1;
  for (int m = 1; m <= kMaxRows; ++m) {
    Figure& layer = layer_measured_[m];
    Figure& rest = rest_measured_[m];
    layer.time = (1 + kLayerSlope * (m - 1)) * (1 - kRestShare) / n_layers;
    rest.time = (1 + kRestSlope * (m - 1)) * kRestShare;
    if (tuned_) {
      layer = {(tuned->layer[m] + tuned->pass / n_layers) / plain, 1};
      rest = {rest_of(*tuned, m) / plain, 1};
    }
    layer_shape_[m] = std::max(layer.time / layer_measured_[1].time, layer_shape_[m - 1]);
    rest_shape_[m] = std::max(rest.time / rest_measured_[1].time, rest_shape_[m - 1]);
  }
  for (Figure& check : check_measured_) check.time = tuned_ ? check_seconds / plain : kCheckShare;
  terms_.reserve(kMaxRows + 1 + check_layers.size());
  decay();
}

double RoundCosts::time(const RoundEvent& round) const {
  const double plain = plain_cost_.at(round.pos + 1);
  return plain > 0 ? 1e-9 * static_cast<double>(round.total_ns()) / plain : 0;
}

void RoundCosts::learn(const RoundEvent& round) {
  if (round.plain()) {
    plain_cost_.add(round.pos + 1, 1e-9 * static_cast<double>(round.total_ns()));
  }
  const double plain = plain_cost_.at(round.pos + 1);
  if (!(plain > 0)) return;
  const auto layers_of = [&](Phase phase) {
    terms_.clear();
    passes_.fill(0);
    for (const LayerPass& pass : round.passes) {
      if (pass.phase == phase) passes_[pass.rows] += pass.to - pass.from + 1;
    }
    for (int m = 1; m <= kMaxRows; ++m) {
      if (passes_[m] > 0) terms_.push_back({&layer_measured_[m], passes_[m]});
    }
  };
  const int rows = static_cast<int>(round.rows.size());
  layers_of(Phase::kVerify);
  terms_.push_back({&rest_measured_[rows], 1});
  fit(round.seconds({Phase::kVerify, Phase::kLogits, Phase::kSample}) / plain);

  std::fill(looks_.begin(), looks_.end(), 0.0);
  bool looked = false;
  for (const RowEvent& row : round.rows) {
    for (const ExitCheck& check : row.checks) {
      const int at = check.layer <= n_layers_ ? check_at_[check.layer] : -1;
      if (at >= 0) looks_[at] += 1;
      looked = looked || at >= 0;
    }
  }
  if (rows == 1) plain_ = std::min(plain_ + 1, kEnough);
  // A search that found nothing too: where tau lets no row leave there is nothing else to learn by.
  if (rows > 1 || looked) drafting_ = std::min(drafting_ + 1, kEnough);
  if (!looked) return;
  layers_of(Phase::kDraft);
  for (size_t i = 0; i < looks_.size(); ++i) {
    if (looks_[i] > 0) terms_.push_back({&check_measured_[i], looks_[i]});
  }
  fit(round.seconds({Phase::kDraft, Phase::kCheck}) / plain);
}

// Each figure takes the part of the surprise that is its share in what was expected.
void RoundCosts::fit(double time) {
  double expected = 0, squares = 0;
  for (const Term& term : terms_) expected += term.count * term.figure->time;
  if (!(time > 0) || !(expected > 0)) return;
  for (const Term& term : terms_) {
    const double share = term.count * term.figure->time / expected;
    squares += share * share;
  }
  const double surprise = std::clamp(time / expected, 1 / kMostChange, kMostChange) - 1;
  for (const Term& term : terms_) {
    const double share = term.count * term.figure->time / expected;
    const double rate = std::max(kLeastRate, 1 / (1 + term.figure->weight));
    term.figure->time *= std::max(1 + rate * surprise * share / squares, 1 / kMostChange);
    term.figure->weight += share;
  }
  const double shared = 1 + kShared * surprise;
  for (Figure& figure : layer_measured_) figure.time *= shared;
  for (Figure& figure : rest_measured_) figure.time *= shared;
  for (Figure& figure : check_measured_) figure.time *= shared;
}

void RoundCosts::decay() {
  for (int m = 1; m <= kMaxRows; ++m) {
    layer_measured_[m].weight *= kCostKept;
    rest_measured_[m].weight *= kCostKept;
  }
  smooth(layer_measured_, layer_shape_, layer_);
  smooth(rest_measured_, rest_shape_, rest_);
  for (size_t i = 0; i < check_.size(); ++i) check_[i] = check_measured_[i].time;
}

// From few rows to many: a row more costs what was measured or, as far as that is little, as much
// as the shape says, in the unit in which it says what those before cost more than one.
void RoundCosts::smooth(const Measured& measured, const Rows& shape, Rows& out) {
  out[1] = measured[1].time;
  for (int m = 2; m <= kMaxRows; ++m) {
    const double said = shape[m - 1] - shape[1], found = out[m - 1] - out[1];
    const double unit = (found + kPriorRise * out[1]) / (said + kPriorRise);
    const double guess =
        out[m - 1] + (shape[m] - shape[m - 1]) * std::min(unit, kMostUnit * out[1]);
    const auto& [time, weight] = measured[m];
    out[m] = std::max((weight * time + kNeighbours * guess) / (weight + kNeighbours), out[m - 1]);
  }
}

double RoundCosts::row(int rows, int deepest) const {
  const int alone = check_layers_[deepest];
  return alone * layer_[1] + (n_layers_ - alone) * (layer_[rows + 1] - layer_[rows]) +
         rest_[rows + 1] - rest_[rows];
}

}  // namespace specbound
