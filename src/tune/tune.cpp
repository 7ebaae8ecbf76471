#include "tune/tune.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "engine/backend.h"
#include "error.h"

namespace specbound {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kWorth = 0.998;
constexpr size_t kKeptSets = 8;  // smaller sets of check layers that larger ones grow from

std::vector<float> thresholds() {
  std::vector<float> taus;
  for (int i = 0; i <= 19; ++i) taus.push_back(0.05f * static_cast<float>(i));
  for (const float tau : {0.02f, 0.97f, 0.98f, 0.99f}) taus.push_back(tau);
  std::sort(taus.begin(), taus.end());
  return taus;
}

class Search {
 public:
  Search(const TuningTrace& trace, const CostModel& costs, const TuneOptions& options)
      : trace_(trace), replay_(trace, costs), options_(options), plain_(replay_.plain_seconds()) {}

  TuneOutcome run();

 private:
  struct Set {
    TunePoint best;
    bool operator<(const Set& other) const {
      return best.result.total_seconds < other.best.result.total_seconds;
    }
  };

  void search_kind(HeadKind kind);
  Set descend(ReplaySettings start, bool everywhere);
  bool improve(TunePoint& best, const ReplaySettings& candidate);
  void add_to_front(const TunePoint& point);
  ReplaySettings first_settings(HeadKind kind) const;

  const TuningTrace& trace_;
  const Replay replay_;
  const TuneOptions& options_;
  const double plain_;
  const std::vector<float> taus_ = thresholds();
  TuneOutcome outcome_;
  bool stopped_ = false;
};

// Keeps what nothing beats in both; of settings that do the same, the first.
void Search::add_to_front(const TunePoint& point) {
  const double cr = point.result.compression_rate(), speedup = point.result.speedup();
  for (const TunePoint& other : outcome_.pareto) {
    if (other.result.compression_rate() >= cr && other.result.speedup() >= speedup) return;
  }
  std::erase_if(outcome_.pareto, [&](const TunePoint& other) {
    return other.result.compression_rate() <= cr && other.result.speedup() <= speedup;
  });
  outcome_.pareto.push_back(point);
}

bool Search::improve(TunePoint& best, const ReplaySettings& candidate) {
  if (stopped_) return false;
  ++outcome_.tried;
  if (options_.progress && outcome_.tried % 64 == 0 && !options_.progress(outcome_.tried)) {
    stopped_ = true;
    return false;
  }
  // What is a little slower may still emit more tokens a round: the front wants to know.
  const ReplayResult result = replay_.run(candidate, 1.5 * best.result.total_seconds);
  if (!result.complete) return false;
  add_to_front({candidate, result});
  if (result.total_seconds >= best.result.total_seconds) return false;
  best = {candidate, result};
  return true;
}

// With another threshold.
HeadDefaults shifted(HeadDefaults settings, float shift) {
  settings.tau = std::clamp(settings.tau + shift, 0.0f, 1.0f);
  return settings;
}

ReplaySettings Search::first_settings(HeadKind kind) const {
  ReplaySettings settings;
  settings.margin = options_.margin;
  settings.heads.kind = kind;
  const std::vector<int>& sizes = trace_.shortlists();
  settings.heads.shortlist = sizes.empty() ? 0 : sizes.back();
  const std::vector<float>& alphas = trace_.alphas();
  settings.heads.alpha = *std::min_element(alphas.begin(), alphas.end(), [](float a, float b) {
    return std::abs(a - 0.2f) < std::abs(b - 0.2f);
  });
  settings.heads.tau = 0.5f;
  settings.heads.w_max = 6;
  return settings;
}

// `everywhere`: width and threshold together first, for they depend on each other; otherwise the
// start comes from settings that were searched so.
Search::Set Search::descend(ReplaySettings start, bool everywhere) {
  start.heads.d_max = std::max(1, start.heads.check_layers.back());
  TunePoint best;
  best.result.total_seconds = kInfinity;
  improve(best, start);
  for (const int w : {2, 3, 4, 6, 8, 12, 16}) {
    if (!everywhere) break;
    ReplaySettings s = best.settings;
    s.heads.w_max = w;
    for (const float tau : taus_) {
      s.heads.tau = tau;
      improve(best, s);
    }
  }
  for (bool better = true; better && !stopped_;) {
    better = false;
    ReplaySettings s = best.settings;
    for (const float tau : taus_) {
      s.heads.tau = tau;
      better |= improve(best, s);
    }
    s = best.settings;
    for (int w = 2; w <= kMaxRows; ++w) {
      s.heads.w_max = w;
      better |= improve(best, s);
    }
    // Wider rounds want surer rows.
    const HeadDefaults at = best.settings.heads;
    for (const int w : {at.w_max - 1, at.w_max + 1, at.w_max + 2}) {
      if (w < 2 || w > kMaxRows) continue;
      for (const float shift : {-0.2f, -0.1f, -0.05f, 0.05f, 0.1f, 0.2f}) {
        s.heads = shifted(at, shift);
        s.heads.w_max = w;
        better |= improve(best, s);
      }
    }
    s = best.settings;
    if (s.heads.kind != HeadKind::kFull) {
      for (const int size : trace_.shortlists()) {
        s.heads.shortlist = size;
        better |= improve(best, s);
      }
    }
    s = best.settings;
    if (!s.margin) {
      // Alpha moves the confidences, so the threshold moves with it.
      for (const float alpha : trace_.alphas()) {
        for (const float shift : {-0.15f, -0.1f, -0.05f, 0.0f, 0.05f}) {
          s.heads = shifted(best.settings.heads, shift);
          s.heads.alpha = alpha;
          better |= improve(best, s);
        }
      }
    }
  }
  return {best};
}

void Search::search_kind(HeadKind kind) {
  std::vector<int> layers;
  for (const TraceHead& head : trace_.heads()) {
    if (head.kind == kind) layers.push_back(head.layer);
  }
  std::sort(layers.begin(), layers.end());
  if (layers.empty()) return;
  std::vector<Set> kept;  // of the size before, best first
  TunePoint best;
  best.result.total_seconds = kInfinity;
  for (int n = 1; n <= options_.most_checks && !stopped_; ++n) {
    std::vector<ReplaySettings> starts;
    const auto add = [&](ReplaySettings settings, int layer) {
      std::vector<int>& checks = settings.heads.check_layers;
      checks.insert(std::upper_bound(checks.begin(), checks.end(), layer), layer);
      for (const ReplaySettings& other : starts) {
        if (other.heads.check_layers == checks) return;
      }
      starts.push_back(std::move(settings));
    };
    if (n == 1) {
      for (const int layer : layers) add(first_settings(kind), layer);
    }
    for (const Set& set : kept) {
      const std::vector<int>& checks = set.best.settings.heads.check_layers;
      for (const int layer : layers) {
        if (std::find(checks.begin(), checks.end(), layer) == checks.end()) {
          add(set.best.settings, layer);
        }
      }
    }
    std::vector<Set> sets;
    for (const ReplaySettings& start : starts) {
      if (stopped_) break;
      const Set set = descend(start, n == 1);
      if (set.best.result.total_seconds < kInfinity) sets.push_back(set);
    }
    std::stable_sort(sets.begin(), sets.end());
    if (sets.size() > kKeptSets) sets.resize(kKeptSets);
    kept = std::move(sets);
    // One more check has to earn its place: the trace is a sample.
    if (!kept.empty() && kept[0].best.result.total_seconds < kWorth * best.result.total_seconds) {
      best = kept[0].best;
    }
  }
  if (best.result.total_seconds < kInfinity) outcome_.by_kind.push_back(best);
}

TuneOutcome Search::run() {
  const auto start = std::chrono::steady_clock::now();
  for (const HeadKind kind : kHeadKinds) {
    if (!is_replayed(kind)) continue;  // nobody recorded it
    if (!options_.kind || *options_.kind == kind) search_kind(kind);
  }
  if (outcome_.by_kind.empty()) {
    throw Error(ErrorCode::kUsage, "tuning: the heads file has no head of this kind");
  }
  outcome_.winner = *std::min_element(outcome_.by_kind.begin(), outcome_.by_kind.end(),
                                      [](const TunePoint& a, const TunePoint& b) {
                                        return a.result.total_seconds < b.result.total_seconds;
                                      });
  if (outcome_.winner.result.total_seconds >= plain_) {
    outcome_.winner.settings.heads.w_max = 1;
    ReplayResult& plain = outcome_.winner.result;
    plain = replay_.run(outcome_.winner.settings);
    plain.total_seconds = plain.plain_seconds;  // the same sum, rounded in another order
  }
  std::sort(outcome_.pareto.begin(), outcome_.pareto.end(),
            [](const TunePoint& a, const TunePoint& b) {
              return a.result.compression_rate() < b.result.compression_rate();
            });
  outcome_.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return std::move(outcome_);
}

}  // namespace

TuneOutcome tune(const TuningTrace& trace, const CostModel& costs, const TuneOptions& options) {
  return Search(trace, costs, options).run();
}

}  // namespace specbound
