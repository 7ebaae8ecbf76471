#include "trace/recorded_rounds.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>

#include "error.h"
#include "trace/cost_model.h"
#include "trace/trace_reader.h"

namespace specbound {

namespace {

constexpr size_t kMostRounds = size_t{1} << 20;

// Layer `from` of a model of `n_from` layers, in one of `n_to`.
int scaled_layer(int from, int n_from, int n_to) {
  if (from == 0) return 0;
  const double share = static_cast<double>(from) / n_from;
  return std::clamp(static_cast<int>(std::lround(share * n_to)), 1, n_to - 1);
}

// The rounds of a trace as its lines come.
class RoundCollector {
 public:
  void take(const TraceItem& item, const TracePlace& place);
  RecordedRounds result(const std::string& name) const;

 private:
  void settings(const TraceReply& reply, const TracePlace& place);
  void round(const RoundRecord& round, const TracePlace& place);

  RecordedRounds found_;
  bool drafts_ = false;  // now
};

void RoundCollector::take(const TraceItem& item, const TracePlace& place) {
  if (const auto* header = std::get_if<TraceHeader>(&item)) {
    found_.n_layers = header->n_layers;
    if (found_.n_layers < 2) place.refuse("a model of two layers or more", "one layer");
  } else if (const auto* reply = std::get_if<TraceReply>(&item)) {
    settings(*reply, place);
  } else if (const auto* change = std::get_if<TraceChange>(&item)) {
    settings(change->reply, place);
  } else if (const auto* record = std::get_if<RoundRecord>(&item)) {
    round(*record, place);
  }
}

void RoundCollector::settings(const TraceReply& reply, const TracePlace& place) {
  drafts_ = reply.speculator != "none";
  if (!drafts_) return;
  // Lookups of auto look like exits before any layer.
  if (!reply.settings || reply.speculator == "auto") {
    place.refuse("a speculator with exit heads", printable(reply.speculator),
                 ErrorCode::kUnsupported);
  }
  const TraceSettings& s = *reply.settings;
  if (s.check_layers.empty()) place.refuse("a check layer", "none");
  const int w_max = s.width_bound ? s.w_max : CostModel::kRows;
  if (found_.check_layers.empty()) {
    found_.w_max = w_max;
    found_.check_layers = s.check_layers;
  } else if (found_.w_max != w_max || found_.check_layers != s.check_layers) {
    place.refuse("the check layers and w_max of the rounds before",
                 "others: trace one setting at a time", ErrorCode::kUnsupported);
  }
}

void RoundCollector::round(const RoundRecord& record, const TracePlace& place) {
  if (!drafts_ || record.draft_end == DraftEnd::kPlain) return;  // a first token, or measured
  if (!is_chain(record.rows)) {
    place.refuse("rounds whose rows are a chain", "a tree", ErrorCode::kUnsupported);
  }
  RecordedRound round;
  for (int i = 0; i < record.drafted(); ++i) {
    const int layer = record.rows[static_cast<size_t>(i)].exit_layer;
    const std::vector<int>& checked = found_.check_layers;
    if (!std::binary_search(checked.begin(), checked.end(), layer)) {
      place.refuse("an exit at one of the check layers", format("layer %d", layer));
    }
    round.exits.push_back(layer);
  }
  if (record.drafted() >= found_.w_max) {
    place.refuse(format("at most %d rows", found_.w_max), format("%d drafts", record.drafted()));
  }
  for (const TokenRecord& token : record.tokens) round.accepted += token.accepted() ? 1 : 0;
  if (found_.rounds.size() >= kMostRounds) {
    place.refuse(format("at most %zu rounds", kMostRounds), "more");
  }
  found_.rounds.push_back(std::move(round));
}

RecordedRounds RoundCollector::result(const std::string& name) const {
  if (found_.rounds.empty()) {
    throw Error(ErrorCode::kFormat,
                format("%s: expected rounds that looked for drafts, found none: record them with "
                       "trace=FILE",
                       name.c_str()));
  }
  return found_;
}

// A fixed, seeded order.
template <class T>
void shuffle(std::vector<T>& values, uint32_t seed) {
  for (size_t i = values.size(); i > 1; --i) {
    seed = seed * 1664525u + 1013904223u;
    std::swap(values[i - 1], values[(uint64_t{seed} * i) >> 32]);
  }
}

// `n` of the values, each as often as its share says and the last for the rest, in a seeded order.
std::vector<int> apportioned(const std::vector<int>& values, const std::vector<double>& shares,
                             int n, uint32_t seed) {
  std::vector<int> out;
  double sum = 0;
  size_t at = 0;
  for (int i = 0; i < n; ++i) {
    const double place = (i + 0.5) / n;
    while (at + 1 < values.size() && place >= sum + shares[at]) sum += shares[at++];
    out.push_back(values[at]);
  }
  shuffle(out, seed);
  return out;
}

// How often drafts leave at each of the layers so that they do so at `mean` on average, as evenly
// as that allows: shares that rise or fall along a line, cut at 0.
std::vector<double> exit_shares(const std::vector<int>& layers, double mean) {
  if (layers.size() == 1) return {1};
  const auto along = [&](double slope) {
    std::vector<double> shares;
    for (const int layer : layers) shares.push_back(std::max(0.0, 1 + slope * (layer - mean)));
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (double& share : shares) share /= sum;
    return shares;
  };
  const auto mean_of = [&](const std::vector<double>& shares) {
    return std::inner_product(shares.begin(), shares.end(), layers.begin(), 0.0);
  };
  double low = -64, high = 64;  // beyond them one layer has it all
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (mean_of(along(middle)) < mean ? low : high) = middle;
  }
  return along(0.5 * (low + high));
}

}  // namespace

RecordedRounds RecordedRounds::scaled(int to) const {
  SB_CHECK(to >= 2 && n_layers >= 2);
  RecordedRounds out = *this;
  out.n_layers = to;
  for (int& layer : out.check_layers) layer = scaled_layer(layer, n_layers, to);
  out.check_layers.erase(std::unique(out.check_layers.begin(), out.check_layers.end()),
                         out.check_layers.end());
  for (RecordedRound& round : out.rounds) {
    for (int& layer : round.exits) layer = scaled_layer(layer, n_layers, to);
  }
  return out;
}

double RecordedRounds::compression_rate() const {
  double tokens = 0;
  for (const RecordedRound& round : rounds) tokens += round.accepted + 1;
  return rounds.empty() ? 0 : tokens / static_cast<double>(rounds.size());
}

double RecordedRounds::mean_exit_layer() const {
  double sum = 0, n = 0;
  for (const RecordedRound& round : rounds) {
    sum = std::accumulate(round.exits.begin(), round.exits.end(), sum);
    n += static_cast<double>(round.exits.size());
  }
  return n > 0 ? sum / n : 0;
}

double RecordedRounds::acceptance() const {
  double accepted = 0, n = 0;
  for (const RecordedRound& round : rounds) {
    accepted += round.accepted;
    n += static_cast<double>(round.exits.size());
  }
  return n > 0 ? accepted / n : 0;
}

RecordedRounds read_recorded_rounds(std::istream& trace, const std::string& name) {
  RoundCollector rounds;
  scan_trace(trace, name,
             [&](const TraceItem& item, const TracePlace& place) { rounds.take(item, place); });
  return rounds.result(name);
}

std::vector<int> check_layers_around(double mean_exit, int checks, int n_layers) {
  SB_CHECK(checks >= 1 && n_layers >= 2);
  std::vector<int> layers;
  const double first = mean_exit - (checks - 1);
  for (int i = 0; i < checks; ++i) {
    const double layer = std::clamp(std::round(first + 2 * i), 1.0, n_layers - 1.0);
    if (layers.empty() || layer > layers.back()) layers.push_back(static_cast<int>(layer));
  }
  return layers;
}

RecordedRounds drawn_rounds(const RoundFigures& figures, int n, int n_layers) {
  SB_CHECK(n >= 1 && n_layers >= 2);
  const auto check = [](const char* what, double value, double low, double high) {
    if (value >= low && value <= high) return;  // false for NaN
    throw Error(ErrorCode::kUsage,
                format("%s: expected %g to %g, found %g", what, low, high, value));
  };
  check("rows of a round", figures.rows, 2, CostModel::kRows);
  check("compression rate of a replay", figures.compression_rate, 1, figures.rows);
  check("mean exit layer of a replay", figures.mean_exit, 1, n_layers - 1);
  check("check layers of a replay", figures.checks, 1, n_layers - 1);

  RecordedRounds out;
  out.n_layers = n_layers;
  out.w_max = figures.rows;
  out.check_layers = check_layers_around(figures.mean_exit, figures.checks, n_layers);
  const double right = acceptance_for(figures.compression_rate, figures.rows);
  std::vector<int> accepted(static_cast<size_t>(figures.rows));
  std::iota(accepted.begin(), accepted.end(), 0);
  std::vector<double> shares;
  for (const int k : accepted) shares.push_back(std::pow(right, k) * (1 - right));
  accepted = apportioned(accepted, shares, n, 1);
  const int drafts = figures.rows - 1;
  const std::vector<int> exits = apportioned(
      out.check_layers, exit_shares(out.check_layers, figures.mean_exit), n * drafts, 2);
  for (int i = 0; i < n; ++i) {
    const auto first = exits.begin() + static_cast<long>(i) * drafts;
    out.rounds.push_back({{first, first + drafts}, accepted[static_cast<size_t>(i)]});
  }
  return out;
}

}  // namespace specbound
