#include "drafters/row_costs.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "numerics/float_mode.h"

namespace specbound {
namespace {

// 9: a second tile of rows, where there are such.
constexpr std::array kSizes = {1, 2, 4, 8, 9, 16};
constexpr int kTurns = 8;                         // at most
constexpr int kFar = kRowCostContext - kMaxRows;  // positions before the rows
constexpr int kFarEnough = 256;                   // to tell what positions cost
constexpr double kAssumedSlope = 0.09;            // of one row, each row more
constexpr double kMostSeen = 15;                  // passes that a factor is the mean of
constexpr double kSeenKept = 0.98;                // of them, with each pass of another size
constexpr double kMostChange = 1.5;               // of a factor, at once: more is an interruption

using Clock = std::chrono::steady_clock;
using Sizes = std::array<double, kSizes.size()>;

class RowTimer {
 public:
  explicit RowTimer(Backend& backend)
      : backend_(backend), z_(static_cast<size_t>(most()) * backend.config().vocab_size) {}

  int most() const { return std::min(kMaxRows, backend_.n_ctx()); }
  Clock::time_point now() {
    backend_.wait();
    return Clock::now();
  }
  // Seconds of a pass over `rows` rows behind `pos` positions, whatever is there.
  double pass(int rows, int pos) {
    backend_.restore(pos);
    for (int r = 0; r < rows; ++r) backend_.embed(r, r % backend_.config().vocab_size);
    const Clock::time_point begin = now();
    backend_.run_layers(0, rows, pos, 1, backend_.config().n_layers);
    // As a reply does by default: where a device draws, no logits come over.
    if (DeviceSampling* device = backend_.device_sampling()) {
      device->draw(0, rows, {.temperature = 1, .filtered = true}, {}, draws_);
    } else {
      backend_.logits(0, rows, z_.data());
    }
    const std::chrono::duration<double> seconds = now() - begin;
    backend_.truncate(0);
    return seconds.count();
  }

 private:
  Backend& backend_;
  std::vector<float> z_;  // (rows, vocab_size)
  RowDraw draws_[kMaxRows];
};

// Never falling: more rows never cost less.
void between(const Sizes& figures, std::array<double, kMaxRows + 1>& out) {
  for (int rows = 1; rows <= kMaxRows; ++rows) {
    size_t i = 1;
    while (kSizes[i] < rows) ++i;
    const double share = double(rows - kSizes[i - 1]) / (kSizes[i] - kSizes[i - 1]);
    out[rows] = figures[i - 1] + share * (figures[i] - figures[i - 1]);
    if (rows > 1) out[rows] = std::max(out[rows], out[rows - 1]);
  }
}

}  // namespace

RowCosts measure_row_costs(Backend& backend, double seconds) {
  const FloatMode mode;
  RowTimer timer(backend);
  const int far = std::min(kFar, backend.n_ctx() - timer.most());
  Sizes start, end;
  start.fill(std::numeric_limits<double>::infinity());
  end = start;
  const Clock::time_point begin = timer.now();
  const auto over = [&] {
    return std::chrono::duration<double>(timer.now() - begin).count() > seconds;
  };
  timer.pass(1, 0);  // comes cold
  for (int turn = 0; turn < kTurns && (turn == 0 || !over()); ++turn) {
    for (size_t i = 0; i < kSizes.size(); ++i) {
      const int rows = std::min(kSizes[i], timer.most());
      start[i] = std::min(start[i], timer.pass(rows, 0));
      if (far >= kFarEnough) end[i] = std::min(end[i], timer.pass(rows, far));
    }
  }
  for (size_t i = 0; i < kSizes.size(); ++i) {
    end[i] = far >= kFarEnough ? std::max((end[i] - start[i]) / far, 0.0) : 0;
  }
  RowCosts costs;
  between(start, costs.start);
  between(end, costs.position);
  return costs;
}

LearnedRowCosts::LearnedRowCosts(const RowCosts& costs) : first_(costs), now_(costs) {
  factor_.fill(1);
}

// What a number of rows takes says something of its neighbours too, the less the farther they are,
// and little of those that were seen themselves: passes over one row are most of all, and where one
// is half as fast as it was first measured, what two add to it is not.
void LearnedRowCosts::learn(int rows, int pos, double seconds) {
  const double found = seconds / first_.pass(rows, pos);
  if (!(found > 0) || !std::isfinite(found)) return;
  if (scaled_ < kScale) {
    scale_[scaled_++] = found;
    if (scaled_ < kScale) return;
    std::ranges::sort(scale_);
    factor_.fill(scale_[kScale / 2]);
    return apply();
  }
  ++passes_;
  for (int m = 1; m <= kMaxRows; ++m) {
    const int apart = std::abs(m - rows);
    seen_[m] = apart == 0 ? std::min(seen_[m] + 1, kMostSeen) : kSeenKept * seen_[m];
    const double own = 1 / (seen_[m] + 1);
    const double change = std::clamp(found / factor_[m], 1 / kMostChange, kMostChange) - 1;
    factor_[m] *= 1 + change * (apart == 0 ? own : own * own / (1 + apart * apart));
  }
  apply();
}

// More rows never cost less.
void LearnedRowCosts::apply() {
  for (int m = 1; m <= kMaxRows; ++m) {
    now_.start[m] = std::max(factor_[m] * first_.start[m], now_.start[m - 1]);
    now_.position[m] = std::max(factor_[m] * first_.position[m], now_.position[m - 1]);
  }
}

RowCosts assumed_row_costs() {
  RowCosts costs;
  for (int rows = 1; rows <= kMaxRows; ++rows) costs.start[rows] = 1 + kAssumedSlope * (rows - 1);
  return costs;
}

}  // namespace specbound
