#include "tune/measure_costs.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <string>

#include "decode/generate.h"
#include "decode/row_sampler.h"
#include "decode/sampler.h"
#include "model/random_model.h"
#include "numerics/float_mode.h"
#include "trace/statistics.h"
#include "tune/tuning_trace.h"

namespace specbound {

namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}
double since(Clock::time_point start) {
  return seconds(Clock::now() - start);
}

class Measurement {
 public:
  Measurement(Backend& backend, const ExitHeads* heads, const MeasureOptions& options);
  CostModel run();

 private:
  // When all that was asked of the backend is done.
  Clock::time_point now() {
    backend_.wait();
    return Clock::now();
  }
  template <class F>
  void time(std::vector<double>& samples, F work) {
    const Clock::time_point start = now();
    work();
    samples.push_back(seconds(now() - start));
  }
  bool turns(const std::vector<int>& sizes);
  void turn();
  void time_rows(int rows);
  void pass_unprobed(int rows);
  void time_checks();
  void time_plain();
  CostModel result() const;
  void bring_row(int layer);
  void set_shortlist(int tokens);

  Backend& backend_;
  const ExitHeads* heads_;
  const MeasureOptions& options_;
  const int n_layers_, vocab_size_;
  const int n_first_;  // of n_layers_, that cost otherwise than the rest
  int context_;
  int probed_first_, probed_layers_;  // of the first ones, and of the rest
  int plain_tokens_ = 32;
  bool slow_ = false;
  int shortlist_ = 0;
  std::vector<int32_t> tokens_;
  std::vector<float> z_;  // (vocab_size)
  Sampler greedy_, warm_;
  RowSampler greedy_rows_, warm_rows_;  // as the loop draws
  Session session_;
  Clock::time_point start_;
  std::map<int, std::vector<double>> first_, layers_, logits_;  // by rows
  std::vector<double> split_first_, split_, embed_, argmax_, plain_;
  std::map<std::pair<std::string, int>, std::vector<double>> checks_;  // by kind and tokens
};

SamplingParams at_temperature(float temperature) {
  SamplingParams params;
  params.temperature = temperature;
  return params;
}

Measurement::Measurement(Backend& backend, const ExitHeads* heads, const MeasureOptions& options)
    : backend_(backend),
      heads_(heads),
      options_(options),
      n_layers_(backend.config().n_layers),
      vocab_size_(backend.config().vocab_size),
      n_first_(backend.first_layers()),
      probed_first_(n_first_),
      probed_layers_(n_layers_ - n_first_),
      greedy_(at_temperature(0)),
      warm_(at_temperature(options.temperature)),
      greedy_rows_(backend, greedy_),
      warm_rows_(backend, warm_),
      session_(backend, Sampler(at_temperature(0))) {
  context_ = std::clamp(options.context, 1, std::max(1, backend.n_ctx() - 2 * kMaxRows));
  tokens_ = any_tokens(context_ + kMaxRows, vocab_size_);
  z_.resize(vocab_size_);
}

// Slot 0 at the end of the context, after `layer`.
void Measurement::bring_row(int layer) {
  backend_.truncate(context_);
  backend_.embed(0, tokens_[context_]);
  if (layer > 0) backend_.run_layers(0, 1, context_, 1, layer);
}

void Measurement::set_shortlist(int tokens) {
  if (!heads_) return;
  shortlist_ = tokens;
  backend_.set_exit_heads(heads_, shortlist_);
  // They may say the text's tokens too, of which about half are new when they come.
  for (int i = 0; backend_.says_tokens_of_text() && i < context_; i += 2) {
    backend_.embed(0, tokens_[i]);
  }
  bring_row(n_layers_);
  backend_.keep_state(0);
}

// Rows that went through the first layers that are probed pass those by that are not.
void Measurement::pass_unprobed(int rows) {
  if (probed_first_ < n_first_) {
    backend_.skip_layers(0, rows, context_, probed_first_ + 1, n_first_);
  }
}

// The first pass of four does not count: in the loop, too, passes like it ran just before.
void Measurement::time_rows(int rows) {
  if (context_ + rows > backend_.n_ctx()) return;
  for (int i = slow_ ? 1 : 0; i < (slow_ ? 2 : 4); ++i) {
    const bool counts = i > 0;
    backend_.truncate(context_);
    const Clock::time_point start = now();
    for (int r = 0; r < rows; ++r) backend_.embed(r, tokens_[context_ + r]);
    const Clock::time_point embedded = now();
    if (n_first_ > 0) backend_.run_layers(0, rows, context_, 1, probed_first_);
    const Clock::time_point ran_first = now();
    pass_unprobed(rows);
    backend_.run_layers(0, rows, context_, n_first_ + 1, n_first_ + probed_layers_);
    const Clock::time_point ran = now();
    greedy_rows_.start(rows, 0, std::span(tokens_).first(context_ + rows), {});
    const Clock::time_point end = now();
    if (!counts) continue;
    if (rows == kMaxRows) embed_.push_back(seconds(embedded - start) / rows);
    if (n_first_ > 0) first_[rows].push_back(seconds(ran_first - embedded));
    layers_[rows].push_back(seconds(ran - ran_first));
    logits_[rows].push_back(seconds(end - ran));
  }
}

void Measurement::time_checks() {
  const auto history = std::span<const int32_t>(tokens_).first(1);
  bring_row(1);
  time(checks_[{"lens", vocab_size_}], [&] {
    backend_.logits(0, 1, z_.data());
    backend_.confidence(z_, 1.2f);
  });
  greedy_rows_.start(1, 0, history, {});
  time(argmax_, [&] { greedy_rows_.token(0, 0, history); });
  warm_rows_.start(1, 0, history, {});
  time(checks_[{CostModel::kDraw, vocab_size_}], [&] { warm_rows_.token(0, 0, history); });
  if (!heads_) return;
  for (const HeadKind kind : kHeadKinds) {
    const std::vector<int> layers = heads_->layers(kind);
    if (layers.empty()) continue;
    const bool full = says_all(kind);
    const int tokens = full ? vocab_size_ : shortlist_;
    const int head = heads_->find(kind, layers.front());
    const RowSampler::Row row{0, 0, history};
    if (!slow_) {  // a round like it just before: neither a first look nor two in a row
      bring_row(n_layers_);
      warm_rows_.check(head, row, 1.2f);
      bring_row(n_layers_);
      greedy_rows_.start(1, 0, history, {});
    }
    bring_row(std::min(layers.front(), n_first_ > 0 ? probed_first_ : probed_layers_));
    time(checks_[{head_kind_name(kind), tokens}], [&] { warm_rows_.check(head, row, 1.2f); });
    if (full) continue;
    const RowSampler::Check check = warm_rows_.check(head, row, 1.2f);
    time(checks_[{CostModel::kDraw, tokens}], [&] { check.token(); });
  }
}

void Measurement::time_plain() {
  if (context_ + plain_tokens_ > backend_.n_ctx()) return;
  backend_.truncate(context_ - 1);
  GenerateOptions options;
  options.max_tokens = plain_tokens_;
  Clock::time_point last;
  options.on_round = [&](const RoundEvent& round) {
    const Clock::time_point now = Clock::now();
    if (round.round > 0) plain_.push_back(seconds(now - last));
    last = now;
  };
  session_.generate(std::span<const int32_t>(tokens_).first(context_), options);
  // The session has drawn other tokens than the context goes on with.
  backend_.truncate(context_);
}

void Measurement::turn() {
  for (int rows = 1; rows <= kMaxRows; ++rows) {
    const bool even = rows % 2 == 0;
    if (slow_ && rows > 3 && (!even || (rows > 8 && rows % 4 != 0))) continue;
    time_rows(rows);
    if (rows % 4 == 0) time_checks();
  }
  bring_row(0);
  const auto one_by_one = [&](int from, int n) {
    for (int l = from; l < from + n; ++l) backend_.run_layers(0, 1, context_, l, l);
  };
  if (n_first_ > 0) time(split_first_, [&] { one_by_one(1, probed_first_); });
  pass_unprobed(1);
  time(split_, [&] { one_by_one(n_first_ + 1, probed_layers_); });
  time_plain();
}

// Shortlist sizes take turns too, for the time of a few; at least one turn of each. False when
// stopped.
bool Measurement::turns(const std::vector<int>& sizes) {
  for (size_t i = 0; i < sizes.size() || since(start_) < options_.seconds; ++i) {
    if (i < sizes.size() || i % 4 == 0)
      set_shortlist(sizes[(i < sizes.size() ? i : i / 4) % sizes.size()]);
    turn();
    if (options_.progress && !options_.progress(std::min(1.0, since(start_) / options_.seconds))) {
      return false;
    }
  }
  return true;
}

CostModel Measurement::run() {
  start_ = Clock::now();
  std::vector<int> sizes = {0};
  if (heads_) {
    sizes = shortlist_prefixes(static_cast<int>(heads_->shortlist().size()));
    if (sizes.size() > 4) sizes.erase(sizes.begin(), sizes.end() - 4);
  }
  backend_.truncate(0);
  backend_.prefill(std::span<const int32_t>(tokens_).first(context_));

  bring_row(n_layers_);  // warms up
  const Clock::time_point one = now();
  bring_row(n_layers_);
  const double token = seconds(now() - one);
  set_shortlist(sizes[0]);
  // A turn takes about 60 rows' worth of passes.
  const double share = options_.seconds / (2.0 * static_cast<double>(sizes.size()));
  if (60 * token > share) {
    slow_ = true;
    plain_tokens_ = 2;
    const auto probed = [&](int n) {
      return std::clamp(static_cast<int>(n * share / (30 * token)), std::min(2, n), n);
    };
    probed_first_ = probed(n_first_);
    probed_layers_ = probed(n_layers_ - n_first_);
  } else {
    turn();
    for (auto* samples : {&first_, &layers_, &logits_}) samples->clear();
    checks_.clear();
    for (auto* samples : {&split_first_, &split_, &embed_, &argmax_, &plain_}) samples->clear();
  }
  start_ = Clock::now();
  const bool complete = turns(sizes);
  if (heads_) set_shortlist(sizes.back());
  backend_.truncate(0);
  return complete ? result() : CostModel{};
}

// What was measured at some row counts, at all of them.
std::array<double, CostModel::kRows + 1> at_all_rows(
    const std::map<int, std::vector<double>>& samples) {
  std::array<double, CostModel::kRows + 1> out{};
  std::map<int, double> medians;
  for (const auto& [rows, values] : samples) medians[rows] = median(values);
  for (int m = 1; m <= CostModel::kRows && !medians.empty(); ++m) {
    const auto upper = medians.lower_bound(m);
    if (upper == medians.end()) {
      const auto last = std::prev(upper);
      out[m] = last->second * m / last->first;
    } else if (upper->first == m || upper == medians.begin()) {
      out[m] = upper->second;
    } else {
      const auto lower = std::prev(upper);
      const double t = static_cast<double>(m - lower->first) / (upper->first - lower->first);
      out[m] = lower->second + t * (upper->second - lower->second);
    }
  }
  return out;
}

// Passes over `n` layers, by rows, become one layer's; gives what a pass takes beside them, by how
// much longer it took when they ran one by one (`split`).
double parted(std::array<double, CostModel::kRows + 1>& layers, const std::vector<double>& split,
              int n) {
  double pass = 0;
  if (n > 1) {
    pass = std::max(0.0, (median(split) - layers[1]) / (n - 1));
    pass = std::min(pass, layers[1] / n);
  }
  for (double& seconds : layers) seconds = std::max(0.0, seconds - pass) / n;
  layers[0] = 0;
  return pass;
}

CostModel Measurement::result() const {
  CostModel costs;
  costs.n_layers = n_layers_;
  costs.vocab_size = vocab_size_;
  costs.layer = at_all_rows(layers_);
  costs.logits = at_all_rows(logits_);
  costs.pass = parted(costs.layer, split_, probed_layers_);
  if (n_first_ > 0) {
    costs.first_layers = n_first_;
    costs.first_layer = at_all_rows(first_);
    costs.first_pass = parted(costs.first_layer, split_first_, probed_first_);
  }
  for (const auto& [what, samples] : checks_) {
    costs.checks.push_back({what.first, what.second, median(samples)});
  }
  costs.row = median(embed_);
  costs.argmax = median(argmax_);
  double parts = costs.verify(1) + costs.row + costs.argmax;
  const double plain = median(plain_);
  if (plain > 0 && plain < parts && probed_first_ + probed_layers_ == n_layers_) {
    // A loop of equal passes runs smoother than passes taken one by one: what counts is how they
    // compare, so that together they are to be the token that was measured.
    const double passes = parts - costs.row - costs.argmax;
    const double scale = std::max(0.5, (passes - (parts - plain)) / passes);
    for (auto* scaled : {&costs.layer, &costs.first_layer, &costs.logits}) {
      for (double& seconds : *scaled) seconds *= scale;
    }
    costs.pass *= scale;
    costs.first_pass *= scale;
    parts = costs.verify(1) + costs.row + costs.argmax;
  }
  costs.round = std::max(0.0, plain - parts);
  costs.plain_token = parts + costs.round;  // one round of one row costs just that
  return costs;
}

}  // namespace

CostModel measure_costs(Backend& backend, const ExitHeads* heads, const MeasureOptions& options) {
  const FloatMode mode;
  return Measurement(backend, heads, options).run();
}

}  // namespace specbound
