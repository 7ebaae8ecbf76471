#include "train/validation.h"

#include <algorithm>

#include "decode/sampler.h"
#include "train/blocks.h"
#include "train/layer_learning.h"
#include "train/place_heads.h"
#include "train/softmax_loss.h"

namespace specbound {

namespace {

constexpr int kDepths = 5;                          // steps of heads with a state
constexpr size_t kLeastRows = 16, kMostRows = 512;  // whose logits are in memory
constexpr double kTauStep = 0.05;

// What was seen of one head.
struct Seen {
  std::vector<float> confidence, annealed;  // of rows
  std::vector<uint8_t> right;
  TemperatureFit fit;  // of heads that learn their temperature
  // Rows, and those deeper ones whose drafts before were right: what the loop would look at.
  std::vector<float> margin;
  std::vector<uint8_t> margin_right;
  int64_t depth_rows[kDepths] = {}, depth_right[kDepths] = {};
  double divergence = 0, overlap = 0;
};

// Of q and share * p, both (width), from q - p and p.
double overlap(const float* difference, const float* p, int width, float share) {
  double sum = 0;
  for (int i = 0; i < width; ++i) sum += std::min(difference[i] + p[i], share * p[i]);
  return sum;
}

class Validator {
 public:
  Validator(const Gemm& gemm, const TrainingStep& rows, const ValidatedHeads& of,
            std::span<const int32_t> shortlist, int n_layers, bool only_right)
      : gemm_(gemm),
        rows_(rows),
        heads_(of.heads),
        x_index_(of.x_index),
        forms_(of.forms),
        shortlist_(shortlist),
        n_layers_(n_layers),
        only_right_(only_right),
        rows_at_once_(static_cast<int>(std::clamp(
            rows.most_logits() / static_cast<size_t>(rows.vocab_size()), kLeastRows, kMostRows))),
        seen_(heads_.size()) {}

  // What the model says of the rows [first, last) of a chunk, before these are looked at. `finals`:
  // what this has found before, or none.
  void take_finals(const FeatureChunk& chunk, int first, int last, Look::Finals& finals) {
    finals_ = &finals;
    if (finals.tokens.empty()) find_finals(chunk, first, last, finals);
  }

  // The rows [first, last) of the chunk, number 0 of `one`.
  void chunk(const Chunks& one, int first, int last, const BatchPlan& plan) {
    const FeatureChunk& chunk = one.at(0);
    TrainingBatch batch;
    for (int begin = first; begin < last; begin += rows_at_once_) {
      const int end = std::min(last, begin + rows_at_once_);
      // A chain may run past the block.
      std::vector<RowAt> at;
      append_rows(chunk.follows, 0, begin, std::min(chunk.rows, end + plan.chains), plan.chains,
                  at);
      at.resize(static_cast<size_t>(end - begin));
      fill_batch(one, plan, at, batch);
      block(at, batch);
    }
  }

  // The texts in these rows, of draft layers.
  void texts(const Chunks& one, int first, int last) {
    std::vector<RowAt> passages;
    append_passages(one.at(0).follows, 0, first, last, kMostPassage, passages);
    for (size_t begin = 0, end = 0; begin < passages.size(); begin = end) {
      for (int n = 0; end < passages.size() && n < kMostPassage; ++end) n += passages[end].run;
      for (size_t h = 0; h < heads_.size(); ++h) {
        fill_passages(one, {forms_[h], rows_.token_rows(), kDepths},
                      std::span(passages).subspan(begin, end - begin), passages_);
        layer(h, passages_);
      }
    }
  }

  Validation result() const;

 private:
  // Of a step: the row that its chain begins with, and the one of the chunk that it guesses behind.
  struct Guess {
    int chain, row;
  };

  // The rows of chains (n) that begin with the rows `at`, `depth` positions on.
  std::span<const Guess> guesses(std::span<const RowAt> at, int depth, int n) {
    guesses_.clear();
    for (int r = 0; r < n; ++r) guesses_.push_back({r, at[static_cast<size_t>(r)].row + depth});
    return guesses_;
  }

  void layer(size_t h, const PassageBatch& batch) {
    alive_.assign(static_cast<size_t>(batch.n), 1);
    block_steps_.resize(std::max(block_steps_.size(), batch.steps.size()));
    const size_t dim = static_cast<size_t>(rows_.dim());
    const auto take = [&](const std::vector<float>& from, int row, std::vector<float>& to) {
      const auto begin = from.begin() + static_cast<ptrdiff_t>(dim) * row;
      to.insert(to.end(), begin, begin + static_cast<ptrdiff_t>(dim));
    };
    for (size_t k = 0; k < batch.steps.size(); ++k) {
      // What does not go on on its own states says of a row the same in every step.
      const size_t from = forms_[h].chains() ? k : 0;
      if (from == k) {
        block_forward(gemm_, heads_[h], forms_[h], batch, static_cast<int>(k), block_steps_);
      }
      const std::vector<int>& slot = batch.steps[from].slot;
      const std::vector<int>& rows = k == 0 ? batch.learnt : batch.steps[k].rows;
      for (size_t begin = 0; begin < rows.size(); begin += static_cast<size_t>(rows_at_once_)) {
        const size_t end = std::min(rows.size(), begin + static_cast<size_t>(rows_at_once_));
        guesses_.clear();
        forward_.y.clear();
        first_.clear();
        for (Target& target : targets_) target.known = false;
        for (const int row : std::span(rows).subspan(begin, end - begin)) {
          guesses_.push_back({row - static_cast<int>(k), batch.origin[static_cast<size_t>(row)]});
          take(block_steps_[from].y, slot[static_cast<size_t>(row)], forward_.y);
          if (k == 0) take(batch.y, row, first_);
        }
        step(h, guesses_, static_cast<int>(k));
      }
    }
  }

  // The token that the model itself would take after each row that chains from [first, last) reach,
  // of the whole vocabulary, and the shortlist's share of it.
  void find_finals(const FeatureChunk& chunk, int first, int last, Look::Finals& finals) {
    finals.tokens.assign(static_cast<size_t>(chunk.rows), -1);
    finals.shares.assign(static_cast<size_t>(chunk.rows), 0);
    const int reached = std::min(chunk.rows, last + kDepths - 1);
    for (int begin = first; begin < reached; begin += rows_at_once_) {
      const int n = std::min(rows_at_once_, reached - begin);
      bool asked = false;  // no guess is of a prompt
      for (int r = 0; r < n; ++r) asked |= chunk.learns(begin + r);
      if (!asked) continue;
      logits(rows_.lm_head(), n, chunk.y.data() + static_cast<size_t>(begin) * chunk.dim,
             rows_.softcap());
      const int width = rows_.vocab_size();
      for_blocks(gemm_.pool(), n, 8, [&](int64_t from, int64_t to) {
        for (int64_t r = from; r < to; ++r) {
          finals.tokens[static_cast<size_t>(begin + r)] =
              greedy_token({z_.data() + r * width, static_cast<size_t>(width)});
        }
      });
      if (shortlist_.empty() || only_right_) continue;
      softmax_rows(gemm_.pool(), n, width, z_.data(), nullptr);
      for (int r = 0; r < n; ++r) {
        const float* p = z_.data() + static_cast<int64_t>(r) * width;
        float& share = finals.shares[static_cast<size_t>(begin + r)];
        for (const int32_t token : shortlist_) share += p[token];
      }
    }
  }

  void logits(std::span<const float> words, int n, const float* y, float softcap) {
    const int dim = rows_.dim(), width = width_of(words, dim);
    if (z_.size() < static_cast<size_t>(n) * width) z_.resize(static_cast<size_t>(n) * width);
    gemm_.multiply(Op::kPlain, Op::kTransposed, n, width, dim, 1.0f, y, dim, words.data(), dim,
                   0.0f, z_.data(), width);
    cap_rows(gemm_.pool(), n, width, softcap, 1, z_.data());
  }

  // The final distribution on the head's tokens behind the rows that chains begin with, once for
  // heads of the same width.
  struct Target {
    std::vector<float> p, entropy;
    bool known = false;
  };
  const Target& target(const LearningHead& head) {
    Target& target = targets_[learns_shortlist(head.kind)];
    if (target.known) return target;
    const int n = static_cast<int>(first_.size()) / rows_.dim();
    const std::span<const float> words = rows_.words_of(head.kind);
    logits(words, n, first_.data(), rows_.softcap());
    const size_t width = words.size() / static_cast<size_t>(rows_.dim());
    target.p.assign(z_.begin(), z_.begin() + static_cast<ptrdiff_t>(width * n));
    target.entropy.resize(static_cast<size_t>(n));
    softmax_rows(gemm_.pool(), n, static_cast<int>(width), target.p.data(), target.entropy.data());
    target.known = true;
    return target;
  }

  void block(std::span<const RowAt> at, const TrainingBatch& batch) {
    for (Target& target : targets_) target.known = false;
    first_ = batch.y[0];
    for (size_t h = 0; h < heads_.size(); ++h) {
      const LearningHead& head = heads_[h];
      alive_.assign(at.size(), 1);
      if (head.by_place()) {
        const std::span<const int> steps = steps_of(head, batch.chained);
        for (size_t k = 0; k < std::min<size_t>(kDepths, steps.size()); ++k) {
          place_forward(gemm_, head, k + 1, steps[k], batch, *rows_.token_rows(), forward_);
          step(h, guesses(at, static_cast<int>(k), steps[k]), static_cast<int>(k));
        }
        continue;
      }
      const std::vector<std::vector<float>>& x = batch.x[x_index_[h]];
      if (!head.chained()) {
        head_forward(gemm_, head, batch.n, x[0].data(), nullptr, forward_);
        step(h, guesses(at, 0, batch.n), 0);
        continue;
      }
      const float* state = batch.state.data();
      for (size_t k = 0; k < batch.chained.size(); ++k) {
        head_forward(gemm_, head, batch.chained[k], x[k].data(), state, forward_);
        step(h, guesses(at, static_cast<int>(k), batch.chained[k]), static_cast<int>(k));
        state_.assign(forward_.y.begin(),
                      forward_.y.begin() + static_cast<ptrdiff_t>(rows_.dim()) * batch.chained[k]);
        state = state_.data();
      }
    }
  }

  // What the head says in forward_ of some rows, `depth` positions on.
  void step(size_t h, std::span<const Guess> guesses, int depth) {
    const LearningHead& head = heads_[h];
    const int n = static_cast<int>(guesses.size());
    Seen& seen = seen_[h];
    const bool listed = learns_shortlist(head.kind);
    const std::span<const float> words = rows_.words_of(head.kind);
    const int width = width_of(words, rows_.dim());
    const float temperature =
        1 + kReportAlpha * (1 - static_cast<float>(head.layer) / static_cast<float>(n_layers_));
    const bool fits = depth == 0 && is_replayed(head.kind) && !only_right_;
    const Target* goal = depth == 0 && !only_right_ ? &target(head) : nullptr;
    logits(words, n, forward_.y.data(), is_published(head.kind) ? 0 : rows_.softcap());
    tops_.resize(static_cast<size_t>(n));
    curves_.resize(static_cast<size_t>(n));
    for_blocks(gemm_.pool(), n, 8, [&](int64_t from, int64_t to) {
      for (int64_t r = from; r < to; ++r) {
        const float* row = z_.data() + r * width;
        TopOfRow& top = tops_[static_cast<size_t>(r)];
        top = top_of_row(row, width, temperature);
        if (fits) curves_[static_cast<size_t>(r)] = confidence_curve(row, width, top.first);
      }
    });
    for (size_t r = 0; r < static_cast<size_t>(n); ++r) {
      const TopOfRow& top = tops_[r];
      const int32_t draft = listed ? shortlist_[static_cast<size_t>(top.index)] : top.index;
      const bool right = draft == finals_->tokens[static_cast<size_t>(guesses[r].row)];
      if (depth == 0) {
        seen.confidence.push_back(top.probability);
        seen.annealed.push_back(top.annealed);
        seen.right.push_back(right);
      }
      if (fits) seen.fit.add(curves_[r], right);
      if (has_state(head.kind) || is_layer(head.kind)) {
        uint8_t& alive = alive_[static_cast<size_t>(guesses[r].chain)];
        if (!alive) continue;
        ++seen.depth_rows[depth];
        seen.depth_right[depth] += right;
        alive = right;
      }
      seen.margin.push_back(top.first - top.second);
      seen.margin_right.push_back(right);
    }
    if (!goal) return;
    loss_.resize(static_cast<size_t>(n));
    // They are capped already.
    kl_rows(gemm_.pool(), n, width, 0, z_.data(), goal->p.data(), goal->entropy.data(), 1,
            loss_.data());
    for (const float loss : loss_) seen.divergence += loss;
    for (size_t r = 0; r < static_cast<size_t>(n); ++r) {
      const float share = listed ? finals_->shares[static_cast<size_t>(guesses[r].row)] : 1;
      seen.overlap += overlap(z_.data() + r * width, goal->p.data() + r * width, width, share);
    }
  }

  const Gemm& gemm_;
  const TrainingStep& rows_;
  std::span<const LearningHead> heads_;
  std::span<const int> x_index_;
  std::span<const BlockForm> forms_;
  std::span<const int32_t> shortlist_;
  int n_layers_;
  bool only_right_;
  int rows_at_once_;
  std::vector<Seen> seen_;
  const Look::Finals* finals_ = nullptr;  // of the chunk
  Target targets_[2];                     // whole vocabulary, shortlist
  HeadStep forward_;
  PassageBatch passages_;
  std::vector<BlockStep> block_steps_;
  std::vector<Guess> guesses_;
  std::vector<float> first_;  // y of the rows that chains begin with
  std::vector<float> z_, state_, loss_;
  std::vector<TopOfRow> tops_;
  std::vector<ConfidenceCurve> curves_;
  std::vector<uint8_t> alive_;  // [chain]
};

Validation Validator::result() const {
  Validation result;
  for (size_t h = 0; h < heads_.size(); ++h) {
    const Seen& seen = seen_[h];
    HeadReport report;
    report.kind = heads_[h].kind;
    report.layer = heads_[h].layer;
    report.rows = std::ssize(seen.right);
    const double n = static_cast<double>(report.rows);
    const double right = static_cast<double>(std::count(seen.right.begin(), seen.right.end(), 1));
    if (n > 0) {
      report.agreement = right / n;
      report.kl_end = seen.divergence / n;
      report.overlap = seen.overlap / n;
    }
    for (int k = 0; k < kDepths && seen.depth_rows[k] > 0; ++k) {
      report.depth_agreement.push_back(static_cast<double>(seen.depth_right[k]) /
                                       static_cast<double>(seen.depth_rows[k]));
    }
    if (only_right_) {
      result.reports.push_back(std::move(report));
      continue;
    }
    report.bins = reliability(seen.confidence, seen.right);
    report.bins_annealed = reliability(seen.annealed, seen.right);
    report.ece = calibration_error(report.bins);
    report.ece_annealed = calibration_error(report.bins_annealed);
    report.temperature = seen.fit.temperature();
    report.ece_learned = is_replayed(report.kind) ? seen.fit.error() : report.ece;
    for (int t = 1; t * kTauStep < 1 - kTauStep / 2; ++t) {
      const double tau = t * kTauStep;
      double leaving = 0, accepted = 0;
      for (size_t r = 0; r < seen.right.size(); ++r) {
        if (seen.annealed[r] < tau) continue;
        leaving += 1;
        accepted += seen.right[r];
      }
      report.tau.push_back(tau);
      report.leaving.push_back(n > 0 ? leaving / n : 0);
      report.accepted.push_back(leaving > 0 ? accepted / leaving : 0);
    }
    result.reports.push_back(std::move(report));
    result.margins.push_back(fit_logistic(seen.margin, seen.margin_right));
  }
  return result;
}

}  // namespace

Validation validate(const Gemm& gemm, const TrainingStep& rows, const ValidatedHeads& of,
                    const FeatureSource& features, const RowSplit& split,
                    std::span<const int32_t> shortlist, int n_layers, Look& look,
                    const std::function<bool(double)>& progress) {
  const bool layers = !of.forms.empty();
  const BatchPlan plan =
      layers ? BatchPlan{} : plan_of(of.heads, of.x_index, features.layers.size(), kDepths);
  Validator validator(gemm, rows, of, shortlist, n_layers, look.only_right);
  const int n_chunks = features.n_chunks - split.first_chunk;
  int64_t left = look.rows;
  for (int i = 0; i < n_chunks && left > 0; ++i) {
    if (!progress(static_cast<double>(i) / n_chunks)) return {};
    Chunks one;
    one.emplace(0, features.load(split.first_chunk + i));
    const FeatureChunk& chunk = one.at(0);
    const int first = i == 0 ? split.first_row : 0;
    int last = first;
    for (; last < chunk.rows && left > 0; ++last) left -= chunk.learns(last);
    validator.take_finals(chunk, first, last, look.finals[i]);
    layers ? validator.texts(one, first, last) : validator.chunk(one, first, last, plan);
  }
  if (!progress(1)) return {};
  return validator.result();
}

}  // namespace specbound
