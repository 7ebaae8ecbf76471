#include "trace/recorded_rounds.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <numeric>

#include "error.h"
#include "trace/cost_model.h"

namespace specbound {

namespace {

using Json = nlohmann::json;

constexpr int kMostLayers = 4096, kMostRows = CostModel::kRows;
constexpr size_t kMostRounds = size_t{1} << 20;

// Layer `from` of a model of `n_from` layers, in one of `n_to`.
int scaled_layer(int from, int n_from, int n_to) {
  if (from == 0) return 0;
  const double share = static_cast<double>(from) / n_from;
  return std::clamp(static_cast<int>(std::lround(share * n_to)), 1, n_to - 1);
}

// One line of a trace, looked at field by field.
class TraceLine {
 public:
  TraceLine(const std::string& name, int number, const std::string& text)
      : name_(name), number_(number) {
    json_ = Json::parse(text, nullptr, false);
    if (json_.is_discarded()) refuse("a JSON object", "\"" + printable(text) + "\"");
    if (!json_.is_object()) refuse("a JSON object", json_.type_name());
  }

  [[noreturn]] void refuse(const std::string& expected, const std::string& found,
                           ErrorCode code = ErrorCode::kFormat) const {
    throw Error(code, format("%s: line %d: expected %s, found %s", name_.c_str(), number_,
                             expected.c_str(), found.c_str()));
  }
  const Json& at(const Json& object, const char* key) const {
    if (!object.is_object() || !object.contains(key)) {
      refuse(format("\"%s\"", key), "none: is this a file of --trace?");
    }
    return object[key];
  }
  const Json& at(const char* key) const { return at(json_, key); }
  std::string text(const char* key) const {
    const Json& value = at(key);
    if (!value.is_string()) refuse(format("a string as \"%s\"", key), value.type_name());
    return value.get<std::string>();
  }
  int number(const Json& value, const char* key, int low, int high) const {
    const bool fits = value.is_number_integer() &&
                      (value.is_number_unsigned() ? value.get<uint64_t>() <= uint64_t{INT32_MAX}
                                                  : value.get<int64_t>() >= low);
    const int64_t found = fits ? value.get<int64_t>() : 0;
    if (!fits || found < low || found > high) {
      refuse(format("a whole number from %d to %d as \"%s\"", low, high, key),
             printable(value.dump(-1, ' ', true, Json::error_handler_t::replace)));
    }
    return static_cast<int>(found);
  }
  int number(const char* key, int low, int high) const { return number(at(key), key, low, high); }
  bool boolean(const char* key) const {
    const Json& value = at(key);
    if (!value.is_boolean()) refuse(format("true or false as \"%s\"", key), value.type_name());
    return value.get<bool>();
  }
  const Json& list(const Json& value, const char* key, size_t most) const {
    if (!value.is_array()) refuse(format("a list as \"%s\"", key), value.type_name());
    if (value.size() > most) {
      refuse(format("at most %zu in \"%s\"", most, key), format("%zu", value.size()));
    }
    return value;
  }

 private:
  const std::string& name_;
  int number_;
  Json json_;
};

class TraceReader {
 public:
  explicit TraceReader(const std::string& name) : name_(name) {}

  void line(const TraceLine& line);
  RecordedRounds result() const;

 private:
  void reply(const TraceLine& line);
  void round(const TraceLine& line);

  const std::string& name_;
  RecordedRounds found_;
  bool drafts_ = false;  // the reply under way
  int accepted_ = 0;     // drafts of the round under way
};

void TraceReader::line(const TraceLine& line) {
  const std::string type = line.text("type");
  if (found_.n_layers == 0 && type != "header") {
    line.refuse("a line of type \"header\" first", "\"" + printable(type) + "\"");
  }
  if (type == "header") {
    line.number("version", 1, 1);
    found_.n_layers = line.number("n_layers", 2, kMostLayers);
  } else if (type == "reply") {
    reply(line);
  } else if (type == "token") {
    accepted_ += line.boolean("accepted") ? 1 : 0;
  } else if (type == "round") {
    round(line);
    accepted_ = 0;
  }
}

void TraceReader::reply(const TraceLine& line) {
  accepted_ = 0;
  drafts_ = line.text("speculator") != "none";
  if (!drafts_) return;
  const Json& settings = line.at("settings");
  if (settings.is_null()) {
    line.refuse("a speculator with exit heads", line.text("speculator"), ErrorCode::kUnsupported);
  }
  const int w_max = line.number(line.at(settings, "w_max"), "w_max", 1, kMostRows);
  std::vector<int> layers;
  for (const Json& layer :
       line.list(line.at(settings, "check_layers"), "check_layers", kMostLayers)) {
    const int low = layers.empty() ? 0 : layers.back() + 1;
    layers.push_back(line.number(layer, "check_layers", low, found_.n_layers - 1));
  }
  if (layers.empty()) line.refuse("a check layer", "none");
  if (found_.check_layers.empty()) {
    found_.w_max = w_max;
    found_.check_layers = layers;
  } else if (found_.w_max != w_max || found_.check_layers != layers) {
    line.refuse("the check layers and --w-max of the replies before",
                "others: trace one setting at a time", ErrorCode::kUnsupported);
  }
}

void TraceReader::round(const TraceLine& line) {
  if (!drafts_) return;
  const std::string end = line.text("draft_end");
  if (end == "plain") return;  // brought a first token, or was measured
  RecordedRound round;
  const Json& slots = line.list(line.at("slots"), "slots", kMostRows);
  for (size_t i = 0; i + 1 < slots.size(); ++i) {
    const int layer =
        line.number(line.at(slots[i], "exit_layer"), "exit_layer", 0, found_.n_layers - 1);
    const std::vector<int>& checked = found_.check_layers;
    if (!std::binary_search(checked.begin(), checked.end(), layer)) {
      line.refuse("an exit at one of the check layers", format("layer %d", layer));
    }
    round.exits.push_back(layer);
  }
  const int drafts = static_cast<int>(round.exits.size());
  if (accepted_ > drafts || drafts >= found_.w_max) {
    line.refuse(format("at most %d rows and no more accepted drafts than drafts", found_.w_max),
                format("%d drafts, %d accepted", drafts, accepted_));
  }
  round.accepted = accepted_;
  if (found_.rounds.size() >= kMostRounds) {
    line.refuse(format("at most %zu rounds", kMostRounds), "more");
  }
  found_.rounds.push_back(std::move(round));
}

RecordedRounds TraceReader::result() const {
  if (found_.rounds.empty()) {
    throw Error(ErrorCode::kFormat,
                format("%s: expected rounds that looked for drafts, found none: record them with "
                       "specbound run --trace FILE",
                       name_.c_str()));
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
std::vector<int> dealt(const std::vector<int>& values, const std::vector<double>& shares, int n,
                       uint32_t seed) {
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
  TraceReader reader(name);
  std::string text;
  for (int number = 1; std::getline(trace, text); ++number) {
    reader.line(TraceLine(name, number, text));
  }
  if (trace.bad()) throw Error(ErrorCode::kFile, name + ": cannot read");
  return reader.result();
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
  check("rows of a round", figures.rows, 2, kMostRows);
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
  accepted = dealt(accepted, shares, n, 1);
  const int drafts = figures.rows - 1;
  const std::vector<int> exits =
      dealt(out.check_layers, exit_shares(out.check_layers, figures.mean_exit), n * drafts, 2);
  for (int i = 0; i < n; ++i) {
    const auto first = exits.begin() + static_cast<long>(i) * drafts;
    out.rounds.push_back({{first, first + drafts}, accepted[static_cast<size_t>(i)]});
  }
  return out;
}

}  // namespace specbound
