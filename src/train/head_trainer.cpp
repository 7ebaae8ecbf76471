#include "train/head_trainer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

#include "corpus/corpus.h"
#include "corpus/running_time.h"
#include "engine/cpu/cpu_topology.h"
#include "error.h"
#include "numerics/exact_math.h"
#include "train/batches.h"
#include "train/best_heads.h"
#include "train/checkpoint.h"
#include "train/finished_heads.h"
#include "train/gemm.h"
#include "train/gradients.h"
#include "train/head_learner.h"
#include "train/layer_learning.h"
#include "train/least_squares.h"
#include "train/place_heads.h"
#include "train/training_step.h"
#include "train/validation.h"

namespace specbound {

namespace {

constexpr double kRidge = 1e-3;                     // of the mean square, least squares
constexpr size_t kEquationBytes = size_t{1} << 30;  // of normal equations at a time
constexpr double kSummed = 0.9;                     // of the time that equations take
constexpr double kCurvePoints = 200;                // of the loss curve
// How good heads are is looked at in the middle of a training from this part of it on, so far apart
// or farther, on so many rows; and it ends where all have been worse so many times in a row.
constexpr double kFirstComparison = 0.3, kBetweenComparisons = 0.1;
constexpr int64_t kComparedRows = 2048;
constexpr int64_t kPatience = 3;

class Clock {
 public:
  explicit Clock(std::function<double()> counted)
      : counted_(std::move(counted)), start_(seconds_now(counted_)) {}
  double seconds() const { return seconds_now(counted_) - start_; }

 private:
  std::function<double()> counted_;
  double start_;
};

// FNV-1a over values.
class Hash {
 public:
  template <typename T>
  void add(const T& value) {
    const unsigned char* bytes = reinterpret_cast<const unsigned char*>(&value);
    for (size_t i = 0; i < sizeof(T); ++i) value_ = (value_ ^ bytes[i]) * 0x100000001b3;
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

class Trainer {
 public:
  Trainer(const FeatureSource& features, const RowSplit& split, std::span<const float> lm_head,
          std::span<const int32_t> shortlist, const HeadsBase& base, const TrainOptions& options,
          const std::function<bool(const TrainProgress&)>& progress);
  TrainedHeads run();
  // Whether there is a checkpoint of this training.
  bool begun() { return load_checkpoint(options_.checkpoint, options_hash(), heads_).has_value(); }

 private:
  void make_heads();
  void make_learner();
  uint64_t options_hash() const;
  bool least_squares();
  void add_layer(HeadKind kind);
  EquationsOf equations_of(size_t h) const {
    return {forms_.empty() ? x_index_[h] : static_cast<int>(h), has_state(heads_[h].kind)};
  }
  LearningTask task();
  void take_solution(size_t h, const std::vector<float>& map);
  bool train();
  void note_loss(double loss, double done);
  void save();
  bool say(const char* stage, double done);
  double passes() const {  // over all rows
    return static_cast<double>(state_.rows) / static_cast<double>(split_.training);
  }
  bool time_is_up() const { return options_.seconds > 0 && clock_.seconds() >= options_.seconds; }
  bool is_due(double done) const;
  bool compare(double done);
  bool take_best();
  std::optional<Validation> measure();
  std::vector<HeadReport> right_now(double done);
  Validation measured(Look& look, const std::function<bool(double)>& progress);

  const FeatureSource& features_;
  std::span<const int32_t> shortlist_;
  const HeadsBase& base_;
  const TrainOptions& options_;
  const float rate_;  // of learning
  const std::function<bool(const TrainProgress&)>& progress_;
  Clock clock_{options_.clock};
  ThreadPool pool_;
  Gemm gemm_;
  TrainingStep step_;
  const RowSplit split_;
  std::vector<LearningHead> heads_;
  std::vector<int> x_index_;             // [head] index of its layer among the features, or -1
  std::vector<BlockForm> forms_;         // [head] of draft layers, where there is nothing else
  std::optional<TokenRows> token_rows_;  // of heads by place, of eagle and eagle3 layers
  std::optional<Batches> batches_;
  std::unique_ptr<HeadLearner> learner_;
  TrainingState state_;
  Look whole_, comparison_{true, kComparedRows};
  double newest_loss_ = 0, saved_at_ = 0;
  bool warned_ = false;  // that no checkpoint can be written
  std::string warning_;
};

Trainer::Trainer(const FeatureSource& features, const RowSplit& split,
                 std::span<const float> lm_head, std::span<const int32_t> shortlist,
                 const HeadsBase& base, const TrainOptions& options,
                 const std::function<bool(const TrainProgress&)>& progress)
    : features_(features),
      shortlist_(shortlist),
      base_(base),
      options_(options),
      rate_(options.learning_rate > 0 ? options.learning_rate : rate_for(features.dim)),
      progress_(progress),
      pool_(options.threads > 0 ? options.threads : usable_cores()),
      gemm_(pool_, options.own_gemm ? Gemm::Use::kOwn : Gemm::Use::kBest),
      step_(gemm_, lm_head, features.dim, shortlist, options.sharpen, options.softcap),
      split_(split) {
  make_heads();
  state_.best.resize(heads_.size());
  make_learner();
}

void Trainer::make_heads() {
  for (const HeadKind kind : options_.kinds) {
    if (is_by_place(kind) || kind == HeadKind::kEagle || kind == HeadKind::kEagle3) {
      SB_CHECK(options_.embedding.n_in == features_.dim);
      if (!token_rows_) token_rows_.emplace(options_.embedding, state_size(features_));
      step_.set_token_rows(&*token_rows_);
    }
    if (is_by_place(kind)) {
      heads_.push_back(place_head(kind, features_.dim, options_.places));
      x_index_.push_back(-1);
      continue;
    }
    if (learns_shortlist(kind) && shortlist_.empty()) {
      throw Error(ErrorCode::kUsage,
                  format("heads of kind %s need a shortlist", head_kind_name(kind)));
    }
    if (is_layer(kind)) {
      add_layer(kind);
      continue;
    }
    for (const int layer : options_.layers) {
      const bool chained = kind == HeadKind::kChained;
      if (chained ? layer > options_.deepest_chained : layer == 0) continue;
      const auto found = std::find(features_.layers.begin(), features_.layers.end(), layer);
      SB_CHECK(found != features_.layers.end());
      SB_CHECK(layer >= 0 && layer < base_.n_layers);
      LearningHead head;
      head.kind = kind;
      head.layer = layer;
      head.dim = features_.dim;
      const size_t dim = static_cast<size_t>(features_.dim);
      head.map.resize(dim * static_cast<size_t>(head.n_in()));
      if (chained) {
        const int inner = options_.inner < 0 ? features_.dim : options_.inner;
        head.n_inner = (inner + 31) / 32 * 32;  // whole blocks of Q8_0
        head.inner.resize(static_cast<size_t>(head.n_inner) * 2 * dim);
        head.outer.resize(dim * static_cast<size_t>(head.n_inner));
        head.most_steps = std::max(1, options_.unroll);
      }
      heads_.push_back(std::move(head));
      x_index_.push_back(static_cast<int>(found - features_.layers.begin()));
    }
  }
  if (heads_.empty()) {
    throw Error(ErrorCode::kUsage,
                format("no layer for the heads asked for: chained ones go on layers 0 to %d, full "
                       "and folded ones on 1 to %d",
                       options_.deepest_chained, base_.n_layers - 1));
  }
}

void Trainer::add_layer(HeadKind kind) {
  forms_.push_back(layer_form(kind, features_, options_));
  heads_.push_back(layer_head(forms_.back(), std::max(1, options_.unroll)));
  if (kind == HeadKind::kKangaroo) heads_.back().layer = options_.adapter_layer;
  x_index_.push_back(-1);
}

LearningTask Trainer::task() {
  AdamW adam;
  adam.weight_decay = options_.weight_decay;
  return {features_, step_, heads_, x_index_, {}, 0, adam, forms_};
}

void Trainer::make_learner() {
  LearningTask task = this->task();
  const int batch = std::max(1, options_.batch);
  if (!forms_.empty()) {
    batches_ = Batches::of_passages(features_, split_, kMostPassage, batch, options_.seed);
    learner_ = make_layer_learner(gemm_, task);
    return;
  }
  task.plan = plan_of(heads_, x_index_, features_.layers.size(), std::max(1, options_.unroll));
  batches_.emplace(features_, split_, task.plan.chains, batch, options_.seed);
  task.most_rows = batches_->most_rows();
  if (options_.device_learner) {
    try {
      learner_ = options_.device_learner(task);
      return;
    } catch (const Error& e) {
      warning_ = format("heads learn on the CPU: %s", e.what());
    }
  }
  learner_ = make_cpu_learner(gemm_, task);
}

uint64_t Trainer::options_hash() const {
  Hash hash;
  for (const LearningHead& head : heads_) {
    hash.add(head.kind);
    hash.add(head.layer);
    hash.add(head.n_inner);
    hash.add(head.places.size());
    if (head.kind == HeadKind::kEagle3) hash.add(options_.states);
  }
  for (const int layer : features_.layers) hash.add(layer);
  for (const int32_t token : shortlist_) hash.add(token);
  for (const char c : base_.fingerprint) hash.add(c);
  hash.add(features_.dim);
  hash.add(features_.n_chunks);
  hash.add(features_.n_rows);
  hash.add(split_.first_chunk);
  hash.add(split_.first_row);
  hash.add(options_.epochs);
  hash.add(rate_);
  hash.add(options_.weight_decay);
  hash.add(options_.sharpen);
  hash.add(options_.softcap);
  hash.add(options_.batch);
  hash.add(options_.unroll);
  hash.add(options_.seed);
  hash.add(options_.own_gemm);
  return hash.value();
}

bool Trainer::say(const char* stage, double done) {
  if (!progress_) return true;
  TrainProgress progress{
      stage, done, newest_loss_, 0, std::exchange(warning_, {}), learner_->arithmetic()};
  if (state_.training_seconds > 0) {
    progress.tokens_x_layers_per_second =
        static_cast<double>(state_.head_rows) / state_.training_seconds;
  }
  return progress_(progress);
}

bool Trainer::least_squares() {
  std::vector<EquationsOf> wanted;
  for (size_t h = 0; h < heads_.size(); ++h) {
    if (heads_[h].by_place()) continue;
    const EquationsOf key = equations_of(h);
    if (std::find(wanted.begin(), wanted.end(), key) == wanted.end()) wanted.push_back(key);
  }
  const size_t dim = static_cast<size_t>(features_.dim);
  const auto bytes = [&](const EquationsOf& of) {
    const size_t n_in = !forms_.empty() ? static_cast<size_t>(forms_[of.layer].start_inputs())
                        : of.chained    ? 2 * dim
                                        : dim;
    return n_in * (n_in + dim) * sizeof(double) + n_in * n_in * sizeof(float);
  };
  const int n_chunks = split_.first_chunk + (split_.first_row > 0 ? 1 : 0);
  for (size_t begin = 0; begin < wanted.size();) {
    size_t end = begin, total = 0;
    while (end < wanted.size() && (end == begin || total + bytes(wanted[end]) <= kEquationBytes)) {
      total += bytes(wanted[end++]);
    }
    const std::span<const EquationsOf> some = std::span(wanted).subspan(begin, end - begin);
    const double share = static_cast<double>(some.size()) / static_cast<double>(wanted.size());
    const double done = static_cast<double>(begin) / static_cast<double>(wanted.size());
    learner_->begin_equations(some);
    for (int c = 0; c < n_chunks; ++c) {
      if (!say("least squares", done + kSummed * share * c / n_chunks)) return false;
      learner_->add_equations(c, c == split_.first_chunk ? split_.first_row : kAllRows);
    }
    std::vector<LeastSquares> equations = learner_->take_equations();
    for (size_t i = 0; i < some.size(); ++i) {
      if (!forms_.empty()) {
        const size_t h = static_cast<size_t>(some[i].layer);
        const auto started = [&](double part) {
          const double of_some = (static_cast<double>(i) + part) / static_cast<double>(some.size());
          return say("least squares", done + share * (kSummed + (1 - kSummed) * of_some));
        };
        if (!start_layer(gemm_, task(), h, equations[i], kRidge, options_.seed, started)) {
          return false;
        }
        continue;
      }
      const std::vector<float> map = equations[i].solve(gemm_, kRidge);
      for (size_t h = 0; h < heads_.size(); ++h) {
        if (!heads_[h].by_place() && equations_of(h) == some[i]) take_solution(h, map);
      }
    }
    begin = end;
  }
  for (LearningHead& head : heads_) {
    if (head.kind == HeadKind::kHydra &&
        !solve_places(gemm_, features_, split_, *token_rows_, {kRidge, kEquationBytes}, head,
                      [&](double done) { return say("least squares", done); })) {
      return false;
    }
  }
  return say("least squares", 1);
}

// The inner map of a chained head starts small and random, the outer one at zero: the head is its
// linear part at first.
void Trainer::take_solution(size_t h, const std::vector<float>& map) {
  LearningHead& head = heads_[h];
  head.map.value = map;
  if (head.n_inner == 0) return;
  // With the variance of 1 / n_in.
  fill_uniform(options_.seed * 0x9e3779b97f4a7c15 + static_cast<uint64_t>(head.layer),
               std::sqrt(3.0f / static_cast<float>(head.n_in())), head.inner.value);
}

void Trainer::note_loss(double loss, double done) {
  newest_loss_ = newest_loss_ == 0 ? loss : 0.95 * newest_loss_ + 0.05 * loss;
  state_.curve_sum += loss;
  ++state_.curve_batches;
  const double points = static_cast<double>(state_.loss_curve.size());
  if (done * kCurvePoints < points + 1) return;
  state_.loss_curve.emplace_back(done * options_.epochs,
                                 state_.curve_sum / static_cast<double>(state_.curve_batches));
  state_.curve_sum = 0;
  state_.curve_batches = 0;
}

void Trainer::save() {
  if (options_.checkpoint.empty()) return;
  learner_->fetch();
  const double before = state_.seconds;
  state_.seconds += clock_.seconds();
  try {
    save_checkpoint(options_.checkpoint, options_hash(), state_, heads_);
  } catch (const Error& e) {
    // Hours of training are not thrown away because a disk is full.
    if (!warned_) {
      warning_ = format("%s; the training goes on, but could not after a kill", e.what());
    }
    warned_ = true;
  }
  state_.seconds = before;
  saved_at_ = clock_.seconds();
}

bool Trainer::train() {
  const double all_rows = static_cast<double>(split_.training) * options_.epochs;
  std::vector<double> losses(heads_.size());
  std::vector<RowAt> rows;
  learner_->begin();
  double mark = clock_.seconds();
  for (;;) {
    const double by_rows = static_cast<double>(state_.rows) / all_rows;
    double done = by_rows;
    if (options_.seconds > 0) {
      const double all = state_.seconds + options_.seconds;
      done = std::max(done, (state_.seconds + clock_.seconds()) / all);
    }
    if (!say("training", std::min(done, 1.0))) {
      save();
      return false;
    }
    if (is_due(done)) {
      if (!compare(done)) return false;
      mark = clock_.seconds();
    }
    if (state_.worse >= kPatience) break;
    if (time_is_up() || !batches_->next(options_.epochs, state_.place, *learner_, rows)) break;
    const float rate = learning_rate(rate_, done);
    state_.head_rows += learner_->learn(rows, ++state_.step, rate, losses);
    state_.rows += batches_->count(rows);
    double loss = 0;
    for (const double of_head : losses) loss += of_head / static_cast<double>(heads_.size());
    if (!std::isfinite(loss)) {
      throw Diverged(
          format("learning_rate=%g: the training diverged after %lld steps, its loss is no number: "
                 "expected a smaller one, which goes on with what is there",
                 rate_, static_cast<long long>(state_.step)));
    }
    note_loss(loss, static_cast<double>(state_.rows) / all_rows);
    const double now = clock_.seconds();
    state_.training_seconds += now - mark;
    mark = now;
    if (now - saved_at_ >= options_.checkpoint_seconds) {
      save();
      mark = clock_.seconds();
    }
  }
  save();
  if (options_.checkpoint.empty()) learner_->fetch();
  learner_->open({});
  return say("training", 1);
}

// A first pass over the rows says of each something new.
bool Trainer::is_due(double done) const {
  return done >= kFirstComparison && done < 1 && done >= state_.compared_at + kBetweenComparisons &&
         static_cast<int64_t>(passes()) > state_.compared_passes && !time_is_up();
}

bool Trainer::compare(double done) {
  learner_->fetch();
  const std::vector<HeadReport> now = right_now(done);
  if (now.empty()) {
    save();
    return false;
  }
  state_.compared_at = done;
  state_.compared_passes = static_cast<int64_t>(passes());
  hold_best(now, passes(), heads_, state_.best);
  state_.worse = all_are_worse(now, state_.best) ? state_.worse + 1 : 0;
  return true;
}

// Of each head what was best of the rows of comparisons.
bool Trainer::take_best() {
  if (state_.compared_passes == 0) return true;
  const std::vector<HeadReport> now = right_now(1);
  if (now.empty()) return false;
  put_back_best(now, heads_, state_.best);
  return true;
}

// How often heads are right, of the rows of comparisons, with a training that is `done`.
std::vector<HeadReport> Trainer::right_now(double done) {
  const auto told = [&](double part) { return part == 1 || say("training", done); };
  return measured(comparison_, told).reports;
}

std::optional<Validation> Trainer::measure() {
  Validation result = measured(whole_, [&](double done) { return say("validation", done); });
  if (result.reports.empty()) return {};
  return result;
}

Validation Trainer::measured(Look& look, const std::function<bool(double)>& progress) {
  return validate(gemm_, step_, {heads_, x_index_, forms_}, features_, split_, shortlist_,
                  base_.n_layers, look, progress);
}

TrainedHeads Trainer::run() {
  std::optional<TrainingState> resumed;
  if (!options_.checkpoint.empty() && !options_.quick) {
    resumed = load_checkpoint(options_.checkpoint, options_hash(), heads_);
  }
  std::optional<Validation> validation;
  if (resumed) {
    state_ = std::move(*resumed);
  } else {
    if (!least_squares()) return {};
    validation = measure();
    if (!validation) return {};
    for (const HeadReport& report : validation->reports) state_.kl_start.push_back(report.kl_end);
  }
  if (!options_.quick) {
    if (!train() || !take_best()) return {};
    validation = measure();
    if (!validation) return {};
  }
  TrainedHeads result;
  result.heads.base = base_;
  result.heads.shortlist.assign(shortlist_.begin(), shortlist_.end());
  result.heads.defaults =
      untuned_defaults(heads_, static_cast<int>(shortlist_.size()), base_.n_layers);
  for (size_t h = 0; h < heads_.size(); ++h) {
    HeadReport& report = validation->reports[h];
    report.kl_start = state_.kl_start[h];
    report.passes = passes();
    report.taken_after = state_.best[h].epoch;
    NewHead head = finished_head(gemm_, step_, heads_[h], forms_.empty() ? nullptr : &forms_[h],
                                 shortlist_, options_);
    head.margin_scale = static_cast<float>(validation->margins[h].scale);
    head.margin_offset = static_cast<float>(validation->margins[h].offset);
    head.temperature = report.temperature;
    result.heads.heads.push_back(std::move(head));
  }
  result.reports = std::move(validation->reports);
  (forms_.empty() ? result.loss_curve : result.layer_loss_curve) = state_.loss_curve;
  result.rows = features_.n_rows - features_.prompt_rows - split_.learnt_validation;
  result.validation_rows = split_.learnt_validation;
  result.seconds = state_.seconds + clock_.seconds();
  if (state_.training_seconds > 0) {
    result.tokens_x_layers_per_second =
        static_cast<double>(state_.head_rows) / state_.training_seconds;
  }
  result.arithmetic = learner_->arithmetic();
  return result;
}

constexpr const char* kLayersCheckpoint = ".layers";  // behind the name of the others'
constexpr double kShareOfRows = 1.0 / 3;              // of the time, beside layers
constexpr double kNoTime = 1e-9;                      // seconds

// The rows that heads of other kinds than layers see.
FeatureSource without_prompts(FeatureSource features) {
  if (features.prompt_rows == 0) return features;
  features.n_rows -= std::exchange(features.prompt_rows, 0);
  features.load = [load = features.load](int chunk) { return learnt_rows(load(chunk)); };
  return features;
}

}  // namespace

FeatureSource feature_source(const FeatureStore& store) {
  return {store.layers(),
          store.dim(),
          store.n_chunks(),
          store.n_rows(),
          [&store](int chunk) { return store.load(chunk); },
          store.n_prompt_rows()};
}

TrainedHeads train_heads(const FeatureSource& features, std::span<const float> lm_head,
                         std::span<const int32_t> shortlist, const HeadsBase& base,
                         const TrainOptions& options,
                         const std::function<bool(const TrainProgress&)>& progress) {
  TrainOptions of_rows = options, of_texts = options;
  std::erase_if(of_rows.kinds, is_layer);
  std::erase_if(of_texts.kinds, [](HeadKind kind) { return !is_layer(kind); });
  of_texts.device_learner = nullptr;
  if (const int64_t n = features.n_rows - features.prompt_rows; n < 2) {
    throw Error(ErrorCode::kUsage,
                format("expected at least 2 positions to learn from, found %lld: give more text",
                       static_cast<long long>(n)));
  }
  const RowSplit split = split_rows(features);
  if (of_rows.kinds.empty()) {
    return Trainer(features, split, lm_head, shortlist, base, of_texts, progress).run();
  }
  const FeatureSource learnt = without_prompts(features);
  const RowSplit of_learnt = without_prompts(features, split);
  if (of_texts.kinds.empty()) {
    return Trainer(learnt, of_learnt, lm_head, shortlist, base, of_rows, progress).run();
  }
  const double start = seconds_now(options.clock);
  if (!options.checkpoint.empty()) of_texts.checkpoint += kLayersCheckpoint;
  const auto rows = [&] {
    return Trainer(learnt, of_learnt, lm_head, shortlist, base, of_rows, progress);
  };
  const auto texts = [&] {
    return Trainer(features, split, lm_head, shortlist, base, of_texts, progress);
  };
  if (options.seconds > 0) {
    // Where layers have begun to learn, what came before them is over; unless it is of other
    // options, and begins anew.
    std::error_code ignored;
    const bool over =
        std::filesystem::exists(of_texts.checkpoint, ignored) && texts().begun() && rows().begun();
    of_rows.seconds = over ? kNoTime : kShareOfRows * options.seconds;
  }
  TrainedHeads result = rows().run();
  if (result.heads.heads.empty()) return result;
  if (options.seconds > 0) {
    of_texts.seconds = std::max(kNoTime, options.seconds - (seconds_now(options.clock) - start));
  }
  TrainedHeads layers = texts().run();
  if (layers.heads.heads.empty()) return layers;
  std::ranges::move(layers.heads.heads, std::back_inserter(result.heads.heads));
  std::ranges::move(layers.reports, std::back_inserter(result.reports));
  result.layer_loss_curve = std::move(layers.layer_loss_curve);
  result.seconds += layers.seconds;
  return result;
}

}  // namespace specbound
