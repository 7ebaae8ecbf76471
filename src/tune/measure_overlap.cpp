#include "tune/measure_overlap.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <utility>

#include "decode/rejection.h"
#include "decode/sampler.h"
#include "drafters/draft_verify.h"
#include "drafters/lookup.h"
#include "engine/layer_stretches.h"
#include "error.h"
#include "numerics/float_mode.h"
#include "tune/shortened_check.h"

namespace specbound {

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int kSteps = 5;  // of a round, as many as train-heads validates
static_assert(kSteps + 1 <= kMaxRows);

struct Sums {
  int64_t tokens = 0, greedy = 0, drawn = 0;
  double overlap = 0, unfiltered = 0;
};

// What guesses behind the rows of a text.
struct Source {
  std::string name;
  std::optional<int> layer = {};
  int head = -1;                // index into ExitHeads::heads()
  int steps = 0;                // 0: it says the same of a row in every step
  std::vector<Sums> sums = {};  // [step][temperature]

  int looks() const { return std::max(steps, 1); }
};

SamplingParams unfiltered() {
  SamplingParams params;
  params.temperature = 1;
  params.top_k = 0;
  params.top_p = 1;
  params.min_p = 0;
  return params;
}

Clock::duration duration_of(Seconds seconds) {
  return std::chrono::duration_cast<Clock::duration>(seconds);
}

double reply_length(const TuningText& text) {
  return static_cast<double>(text.tokens.size() - static_cast<size_t>(text.prompt_tokens));
}

// K and V of the first `n` tokens of the text, of which the backend may hold some already: those
// that came through all layers.
void read_up_to(Backend& backend, std::span<const int32_t> text, int n) {
  const int have = std::min(n, backend.kv_len(backend.config().n_layers));
  backend.truncate(have);
  if (have < n) backend.prefill(text.subspan(have, n - have));
}

class OverlapMeasurement {
 public:
  OverlapMeasurement(Backend& backend, const OverlapOptions& options,
                     std::vector<float> temperatures);

  // Looks at places of the text until `end`, at one at least where there is one. False as soon as
  // `goes_on` says so.
  bool measure(const TuningText& text, Clock::time_point end, const std::function<bool()>& goes_on);
  int64_t places() const { return places_; }
  std::vector<DrafterOverlap> result() const;

 private:
  // What follows a row by the model.
  struct Target {
    bool known = false;
    int32_t greedy = 0;
    TokenDistribution drawn, unfiltered;
  };

  void look(int root);
  void ask_heads();
  void ask_without_layers();
  void ask_draft_model();
  void embed_rows(Backend& backend, int n);
  bool judge(Source& source, int step, std::span<const float> z, std::span<const int32_t> ids);
  const Target& target(int step);
  std::span<const float> row(const std::vector<float>& z, int i) const {
    return std::span(z).subspan(i * vocab_size_, vocab_size_);
  }

  Backend& backend_;
  const OverlapOptions& options_;
  const std::vector<float> temperatures_;
  const size_t vocab_size_;
  const std::vector<int> skipped_;
  std::vector<Source> layered_;  // heads and lenses, by layer
  std::optional<Source> without_layers_, draft_model_;
  int steps_ = 1;  // the most that any has

  std::span<const int32_t> text_;
  size_t temperature_ = 0;  // index
  int root_ = 0, n_ = 0;    // rows root_..root_+n_-1 of the text have a token behind them
  std::optional<Sampler> sampler_;
  Sampler unfiltered_;
  ShortenedCheck shortened_;
  std::vector<float> model_z_, z_;  // (kSteps, vocab_size)
  std::array<Target, kSteps> targets_;
  TokenDistribution said_;  // scratch
  int64_t places_ = 0;
  double seconds_ = 0;  // that these took
};

// Of a head in a round.
int steps_of(const HeadWeights& head) {
  if (is_by_place(head.kind)) return std::min(kSteps, static_cast<int>(head.medusa.size()));
  return has_state(head.kind) ? kSteps : 0;
}

OverlapMeasurement::OverlapMeasurement(Backend& backend, const OverlapOptions& options,
                                       std::vector<float> temperatures)
    : backend_(backend),
      options_(options),
      temperatures_(std::move(temperatures)),
      vocab_size_(static_cast<size_t>(backend.config().vocab_size)),
      skipped_(default_skipped_layers(backend.config().n_layers)),
      unfiltered_(unfiltered()),
      model_z_(kSteps * vocab_size_),
      z_(kSteps * vocab_size_) {
  const int n_layers = backend.config().n_layers;
  const auto made = [&](Source source) {
    source.sums.resize(static_cast<size_t>(source.looks()) * temperatures_.size());
    steps_ = std::max(steps_, source.looks());
    return source;
  };
  if (options.heads) {
    for (size_t i = 0; i < options.heads->heads().size(); ++i) {
      const HeadWeights& head = options.heads->heads()[i];
      layered_.push_back(made({.name = head_kind_name(head.kind),
                               .layer = head.layer,
                               .head = static_cast<int>(i),
                               .steps = steps_of(head)}));
    }
    std::ranges::stable_sort(layered_, {}, [](const Source& source) { return *source.layer; });
  } else {
    for (const int layer : lens_layers(n_layers)) {
      layered_.push_back(made({.name = "lens", .layer = layer}));
    }
    // It takes the time of many heads, and drafts where there are none.
    without_layers_ = made({.name = "draft-verify", .steps = kSteps});
  }
  if (options.draft_model) draft_model_ = made({.name = "draft"});
}

bool OverlapMeasurement::measure(const TuningText& text, Clock::time_point end,
                                 const std::function<bool()>& goes_on) {
  text_ = text.tokens;
  sampler_.emplace(text.sampling);
  sampler_->begin_reply(static_cast<size_t>(text.prompt_tokens));
  temperature_ = static_cast<size_t>(std::ranges::find(temperatures_, text.sampling.temperature) -
                                     temperatures_.begin());
  shortened_.begin(text_, static_cast<int>(vocab_size_));
  backend_.truncate(0);
  // No part of what a place takes.
  read_up_to(backend_, text_, text.prompt_tokens - 1);
  if (Backend* const draft = options_.draft_model) {
    draft->truncate(0);
    read_up_to(*draft, text_, std::min(text.prompt_tokens - 1, draft->n_ctx()));
  }
  // The first token of a reply has no final state before it, as in a round.
  const int last = static_cast<int>(text_.size()) - 2;
  for (int root = text.prompt_tokens; root <= last;) {
    if (!goes_on()) return false;
    const auto begin = Clock::now();
    look(root);
    const auto now = Clock::now();
    ++places_;
    seconds_ += Seconds(now - begin).count();
    // As many more as there is time for, evenly over the rest.
    const double more = Seconds(end - now).count() * static_cast<double>(places_) / seconds_;
    if (more < 1) break;
    root += std::max(1, static_cast<int>(std::ceil((last - root) / more)));
  }
  return true;
}

void OverlapMeasurement::embed_rows(Backend& backend, int n) {
  for (int i = 0; i < n; ++i) backend.embed(i, text_[root_ + i]);
}

// A round that begins at `root`: what the model says of its rows, then what drafters do.
void OverlapMeasurement::look(int root) {
  root_ = root;
  n_ = std::min(steps_, static_cast<int>(text_.size()) - 1 - root);
  read_up_to(backend_, text_, root - 1);
  for (int i = 0; i <= n_; ++i) backend_.embed(i, text_[root - 1 + i]);
  backend_.run_layers(0, n_ + 1, root - 1, 1, backend_.config().n_layers);
  backend_.logits(1, n_, model_z_.data());
  if (options_.heads) backend_.keep_state(0);
  for (Target& target : targets_) target.known = false;
  ask_heads();
  ask_without_layers();
  ask_draft_model();
}

void OverlapMeasurement::ask_heads() {
  backend_.truncate(root_);
  embed_rows(backend_, n_);
  int done = 0;
  for (Source& source : layered_) {
    if (*source.layer > done) backend_.run_layers(0, n_, root_, done + 1, *source.layer);
    done = std::max(done, *source.layer);
    if (source.head < 0) {
      backend_.logits(0, 1, z_.data());
      judge(source, 0, row(z_, 0), {});
      continue;
    }
    const HeadKind kind = options_.heads->heads()[source.head].kind;
    const bool of_text = says_text(kind) && backend_.says_tokens_of_text();
    for (int step = 0, right = 1; right && step < std::min(source.looks(), n_); ++step) {
      backend_.exit_check(source.head, step, 1);
      if (of_text) shortened_.take(backend_, options_.shortlist, root_ + step, true);
      right = judge(source, step, of_text ? shortened_.logits() : backend_.exit_logits(),
                    of_text ? shortened_.ids() : backend_.exit_ids());
    }
  }
}

// Draft & Verify, with the layers that it leaves out unasked.
void OverlapMeasurement::ask_without_layers() {
  if (!without_layers_) return;
  backend_.truncate(root_);
  embed_rows(backend_, n_);
  each_stretch(backend_.config().n_layers, skipped_, [&](int from, int to, bool left_out) {
    if (left_out) {
      backend_.skip_layers(0, n_, root_, from, to);
    } else {
      backend_.run_layers(0, n_, root_, from, to);
    }
    return true;
  });
  backend_.logits(0, n_, z_.data());
  backend_.truncate(root_);
  for (int step = 0; step < n_; ++step) {
    if (!judge(*without_layers_, step, row(z_, step), {})) break;
  }
}

void OverlapMeasurement::ask_draft_model() {
  if (!draft_model_) return;
  Backend& backend = *options_.draft_model;
  if (root_ >= backend.n_ctx()) return;  // behind it there are no drafts
  read_up_to(backend, text_, root_);
  embed_rows(backend, 1);
  backend.run_layers(0, 1, root_, 1, backend.config().n_layers);
  backend.logits(0, 1, z_.data());
  judge(*draft_model_, 0, row(z_, 0), {});
}

const OverlapMeasurement::Target& OverlapMeasurement::target(int step) {
  Target& target = targets_[static_cast<size_t>(step)];
  if (target.known) return target;
  const std::span<const float> z = row(model_z_, step);
  const auto history = text_.first(static_cast<size_t>(root_ + step + 1));
  target.greedy = greedy_token(z);
  if (temperatures_[temperature_] > 0) sampler_->distribution(z, history, target.drawn);
  unfiltered_.distribution(z, history, target.unfiltered);
  target.known = true;
  return target;
}

// A guess from the logits z of the tokens `ids` (empty: the vocabulary), of the token behind row
// `step`. Whether the draft is right.
bool OverlapMeasurement::judge(Source& source, int step, std::span<const float> z,
                               std::span<const int32_t> ids) {
  const Target& model = target(step);
  const auto history = text_.first(static_cast<size_t>(root_ + step + 1));
  Sums& sums = source.sums[static_cast<size_t>(step) * temperatures_.size() + temperature_];
  const int32_t draft = sampler_->sample(z, history, sampler_->place(0, history), ids);
  const bool right = draft == text_[history.size()];
  ++sums.tokens;
  sums.greedy += greedy_token(z, ids) == model.greedy;
  sums.drawn += right;
  if (temperatures_[temperature_] > 0) {
    sampler_->distribution(z, history, said_, ids);
    sums.overlap += overlap(model.drawn, said_);
  } else {
    sums.overlap += right;  // each is sure of one token
  }
  unfiltered_.distribution(z, history, said_, ids);
  sums.unfiltered += overlap(model.unfiltered, said_);
  return right;
}

std::vector<DrafterOverlap> OverlapMeasurement::result() const {
  std::vector<DrafterOverlap> result;
  std::vector<Source> sources = layered_;  // as the file has them
  std::ranges::stable_sort(sources, {}, &Source::head);
  if (draft_model_) sources.push_back(*draft_model_);
  if (without_layers_) sources.push_back(*without_layers_);
  for (const Source& source : sources) {
    for (size_t i = 0; i < source.sums.size(); ++i) {
      const Sums& sums = source.sums[i];
      if (sums.tokens == 0) continue;
      const auto n = static_cast<double>(sums.tokens);
      DrafterOverlap one{.drafter = source.name, .layer = source.layer};
      if (source.steps > 0) one.step = static_cast<int>(i / temperatures_.size()) + 1;
      one.temperature = temperatures_[i % temperatures_.size()];
      one.tokens = sums.tokens;
      one.greedy = static_cast<double>(sums.greedy) / n;
      one.drawn = static_cast<double>(sums.drawn) / n;
      one.overlap = sums.overlap / n;
      one.unfiltered = sums.unfiltered / n;
      result.push_back(std::move(one));
    }
  }
  return result;
}

// In the text itself and in what is given, text of the heads file; by the odds that ship.
std::vector<LookupsRight> measure_lookups(std::span<const TuningText> texts,
                                          std::span<const int32_t> given,
                                          std::span<const float> temperatures) {
  LookupMemory memory(false);
  memory.give(given);
  const CandidateOdds odds;
  const auto chance = [&](const Lookup::Found& found) { return odds.chance(found.features); };
  std::vector<LookupsRight> result;
  for (const float temperature : temperatures) result.push_back({.temperature = temperature});
  std::vector<Lookup::Found> found;
  for (const TuningText& one : texts) {
    const std::span<const int32_t> text = one.tokens;
    const float temperature = one.sampling.temperature;
    LookupsRight& sums =
        result[std::ranges::find(temperatures, temperature) - temperatures.begin()];
    Lookup lookup(&memory);
    lookup.begin(text.first(static_cast<size_t>(one.prompt_tokens)));
    for (auto at = static_cast<size_t>(one.prompt_tokens); at < text.size(); ++at) {
      const DrawPlace place{.seed = one.sampling.seed, .pos = static_cast<uint32_t>(at)};
      lookup.find(text.first(at), temperature, place, found);
      ++sums.tokens;
      if (!found.empty()) {
        ++sums.found;
        sums.right += std::ranges::max_element(found, {}, chance)->token == text[at];
      }
      lookup.push(text[at]);
    }
  }
  return result;
}

}  // namespace

std::vector<int> lens_layers(int n_layers) {
  std::vector<int> layers;
  const int step = std::max(1, (n_layers + 11) / 12);
  for (int l = step; l < n_layers; l += step) layers.push_back(l);
  return layers;
}

OverlapReport measure_overlap(Backend& backend, std::span<const TuningText> texts,
                              const OverlapOptions& options) {
  const FloatMode mode;
  std::vector<float> temperatures;
  for (const TuningText& text : texts) {
    SB_CHECK(text.prompt_tokens >= 1);
    temperatures.push_back(text.sampling.temperature);
  }
  std::ranges::sort(temperatures);
  temperatures.erase(std::unique(temperatures.begin(), temperatures.end()), temperatures.end());

  OverlapReport report;
  const auto begin = Clock::now();
  const auto end = begin + duration_of(Seconds(options.seconds));
  OverlapMeasurement measurement(backend, options, temperatures);
  const int n = static_cast<int>(texts.size());
  double left = 0;  // tokens of replies
  for (const TuningText& text : texts) left += reply_length(text);
  for (int i = 0; i < n && report.complete; ++i) {
    const auto now = Clock::now();
    const double share = reply_length(texts[i]) / std::max(left, 1.0);
    left -= reply_length(texts[i]);
    report.complete =
        measurement.measure(texts[i], now + duration_of(share * Seconds(end - now)),
                            [&] { return !options.progress || options.progress(i, n); });
  }
  backend.truncate(0);
  if (!report.complete) return report;
  report.drafters = measurement.result();
  std::span<const int32_t> given;
  if (options.heads) given = options.heads->text();
  report.lookups = measure_lookups(texts, given, temperatures);
  report.replies = n;
  report.places = measurement.places();
  report.seconds = Seconds(Clock::now() - begin).count();
  return report;
}

}  // namespace specbound
