#include "tune/tuning_trace.h"

#include <algorithm>
#include <cmath>

#include "drafters/specbound.h"
#include "error.h"
#include "numerics/float_mode.h"
#include "tune/shortened_check.h"

namespace specbound {

TuningTrace::TuningTrace(int n_layers, std::vector<float> alphas, std::vector<int> shortlists,
                         std::vector<TraceHead> heads, std::vector<TracedReply> replies)
    : n_layers_(n_layers),
      alphas_(std::move(alphas)),
      shortlists_(std::move(shortlists)),
      heads_(std::move(heads)),
      replies_(std::move(replies)) {
  SB_CHECK(!alphas_.empty() && std::is_sorted(alphas_.begin(), alphas_.end()));
  for (TracedReply& reply : replies_) {
    reply.first = n_rows_;
    n_rows_ += reply.tokens;
  }
  size_t cells = 0;
  for (const TraceHead& head : heads_) {
    first_.push_back(cells);
    cells += static_cast<size_t>(head.shortlists) * head.depths * n_rows_;
  }
  confidence_.assign(alphas_.size() + 1, std::vector<float>(cells));
  outcome_.resize(cells);
}

int TuningTrace::find(HeadKind kind, int layer) const {
  for (size_t i = 0; i < heads_.size(); ++i) {
    if (heads_[i].kind == kind && heads_[i].layer == layer) return static_cast<int>(i);
  }
  return -1;
}

size_t TuningTrace::plane(int head, int shortlist) const {
  const TraceHead& h = heads_[head];
  SB_CHECK(shortlist >= 0 && shortlist < h.shortlists);
  return first_[head] + static_cast<size_t>(shortlist) * h.depths * n_rows_;
}

std::span<float> TuningTrace::confidence(int head, int shortlist, int column) {
  return std::span(confidence_[column])
      .subspan(plane(head, shortlist), static_cast<size_t>(heads_[head].depths) * n_rows_);
}
std::span<const float> TuningTrace::confidence(int head, int shortlist, int column) const {
  return std::span(confidence_[column])
      .subspan(plane(head, shortlist), static_cast<size_t>(heads_[head].depths) * n_rows_);
}
std::span<Outcome> TuningTrace::outcome(int head, int shortlist) {
  return std::span(outcome_).subspan(plane(head, shortlist),
                                     static_cast<size_t>(heads_[head].depths) * n_rows_);
}
std::span<const Outcome> TuningTrace::outcome(int head, int shortlist) const {
  return std::span(outcome_).subspan(plane(head, shortlist),
                                     static_cast<size_t>(heads_[head].depths) * n_rows_);
}

std::vector<int> shortlist_prefixes(int shortlist) {
  std::vector<int> sizes;
  if (shortlist <= 0) return {0};
  for (int n = shortlist; n >= 256 || n == shortlist; n = (n / 2 + 15) / 16 * 16) {
    sizes.push_back(n);
    if (n <= 16) break;
  }
  std::reverse(sizes.begin(), sizes.end());
  return sizes;
}

namespace {

// One text on its way through the heads.
class Recording {
 public:
  Recording(Backend& backend, const ExitHeads& heads, const TracePlan& plan, TuningTrace& trace)
      : backend_(backend), heads_(heads), plan_(plan), trace_(trace) {
    for (size_t i = 0; i < heads.heads().size(); ++i) {
      if (!is_replayed(heads.heads()[i].kind)) continue;
      (heads.heads()[i].kind == HeadKind::kChained ? chained_ : stateless_)
          .push_back(static_cast<int>(i));
    }
    const auto by_layer = [&](int a, int b) {
      return heads.heads()[a].layer < heads.heads()[b].layer;
    };
    std::stable_sort(chained_.begin(), chained_.end(), by_layer);
    std::stable_sort(stateless_.begin(), stateless_.end(), by_layer);
  }

  // False when stopped.
  bool record(const TuningText& text, const TracedReply& reply);

 private:
  int32_t token(int row) const { return text_->tokens[text_->prompt_tokens - 1 + row]; }
  int pos(int row) const { return text_->prompt_tokens - 1 + row; }
  bool go_on(int rows_done);
  void record_stateless();
  void record_chained();
  void look(int head, int slot, int row, int depth);

  Backend& backend_;
  const ExitHeads& heads_;
  const TracePlan& plan_;
  TuningTrace& trace_;
  std::vector<int> chained_, stateless_;  // indices into heads, by layer
  const TuningText* text_ = nullptr;
  const TracedReply* reply_ = nullptr;
  Sampler* sampler_ = nullptr;
  ShortenedCheck shortened_;
  bool stopped_ = false;
};

bool Recording::go_on(int rows_done) {
  if (plan_.progress && !plan_.progress(reply_->first + rows_done, trace_.n_rows())) {
    stopped_ = true;
  }
  return !stopped_;
}

bool Recording::record(const TuningText& text, const TracedReply& reply) {
  Sampler sampler(text.sampling);
  sampler.begin_reply(text.prompt_tokens);
  text_ = &text;
  reply_ = &reply;
  sampler_ = &sampler;
  shortened_.begin(text.tokens, backend_.config().vocab_size);
  backend_.truncate(0);
  if (text.prompt_tokens > 1) {
    backend_.prefill(std::span(text.tokens).first(text.prompt_tokens - 1));
  }
  record_stateless();
  backend_.truncate(text.prompt_tokens - 1);
  record_chained();
  return !stopped_;
}

// Rows do not depend on where a round began: many at once.
void Recording::record_stateless() {
  if (stateless_.empty()) return;
  for (int row = 0; row < reply_->tokens && go_on(chained_.empty() ? row : 0); row += kMaxRows) {
    const int n = std::min(kMaxRows, reply_->tokens - row);
    for (int i = 0; i < n; ++i) backend_.embed(i, token(row + i));
    int done = 0;
    for (const int head : stateless_) {
      const int layer = heads_.heads()[head].layer;
      if (layer > done) backend_.run_layers(0, n, pos(row), done + 1, layer);
      done = std::max(done, layer);
      for (int i = 0; i < n; ++i) look(head, i, row + i, 0);
    }
  }
}

// Behind every row that went through all layers, the rounds that begin there.
void Recording::record_chained() {
  if (chained_.empty()) return;
  constexpr int kRootSlot = kMaxRows - 1;
  static_assert(TuningTrace::kDepths < kMaxRows);
  const int n_layers = backend_.config().n_layers;
  for (int row = 0; row + 1 < reply_->tokens && go_on(row); ++row) {
    backend_.embed(kRootSlot, token(row));
    backend_.run_layers(kRootSlot, 1, pos(row), 1, n_layers);
    backend_.keep_state(kRootSlot);
    const int root = row + 1;
    const int n = std::min(TuningTrace::kDepths, reply_->tokens - root);
    for (int i = 0; i < n; ++i) backend_.embed(i, token(root + i));
    int done = 0;
    for (const int head : chained_) {
      const int layer = heads_.heads()[head].layer;
      if (layer > done) backend_.run_layers(0, n, pos(root), done + 1, layer);
      done = std::max(done, layer);
      for (int i = 0; i < n; ++i) look(head, i, root + i, i);
    }
    backend_.truncate(pos(root));
  }
}

// The head's opinion of the row in `slot`, at every temperature and shortlist of the plan.
void Recording::look(int head, int slot, int row, int depth) {
  const HeadWeights& weights = heads_.heads()[head];
  backend_.exit_check(head, slot, 1.0f);
  const bool full = weights.kind == HeadKind::kFull;
  const bool with_text = says_text(weights.kind) && backend_.says_tokens_of_text();
  const auto history = std::span(text_->tokens).first(static_cast<size_t>(pos(row)) + 1);
  const DrawPlace place = {text_->sampling.seed, 0, static_cast<uint32_t>(pos(row) + 1)};
  const int32_t target = token(row + 1);
  const size_t cell = static_cast<size_t>(depth) * trace_.n_rows() + reply_->first + row;
  SpecBoundParams params;
  for (int s = 0; s < trace_.heads()[head].shortlists; ++s) {
    if (!full) shortened_.take(backend_, trace_.shortlists()[s], pos(row), with_text);
    const std::span<const float> seen = full ? backend_.exit_logits() : shortened_.logits();
    const std::span<const int32_t> ids = full ? std::span<const int32_t>() : shortened_.ids();
    for (size_t a = 0; a < trace_.alphas().size(); ++a) {
      params.alpha = trace_.alphas()[a];
      trace_.confidence(head, s, static_cast<int>(a))[cell] =
          backend_.confidence(seen, annealed_temperature(params, weights.layer, trace_.n_layers()));
    }
    double margin = 0;
    const int32_t draft = sampler_->sample(seen, history, place, ids, &margin);
    trace_.confidence(head, s, trace_.margin_column())[cell] = static_cast<float>(
        1 / (1 + std::exp(-(weights.margin_scale * margin + weights.margin_offset))));
    Outcome& outcome = trace_.outcome(head, s)[cell];
    outcome = draft == target ? Outcome::kRight : Outcome::kWrong;
    if (plan_.is_end && plan_.is_end(draft)) outcome = Outcome::kEnd;
  }
}

}  // namespace

std::optional<TuningText> write_text(Session& session, std::span<const int32_t> prompt, int budget,
                                     const std::function<bool(int32_t)>& is_end,
                                     const std::atomic<bool>* abort) {
  const int room = session.backend().n_ctx() - static_cast<int>(prompt.size()) - kMaxRows;
  if (prompt.empty() || room < 1) return std::nullopt;
  TuningText text;
  text.prompt_tokens = static_cast<int>(prompt.size());
  text.budget = std::min(budget, room);
  text.sampling = session.sampler().params();
  GenerateOptions options;
  options.max_tokens = text.budget;
  options.is_end = is_end;
  options.abort = abort;
  if (session.generate(prompt, options).stop == StopReason::kAborted) return std::nullopt;
  text.tokens.assign(session.tokens().begin(), session.tokens().end());
  return text;
}

TuningTrace record_trace(Backend& backend, const ExitHeads& heads,
                         std::span<const TuningText> texts, const TracePlan& plan, bool& complete) {
  const FloatMode mode;
  const int n_shortlist = static_cast<int>(heads.shortlist().size());
  const std::vector<int> shortlists =
      plan.shortlists.empty() ? shortlist_prefixes(n_shortlist) : plan.shortlists;
  std::vector<TraceHead> traced;
  for (const HeadWeights& head : heads.heads()) {
    traced.push_back({head.kind, head.layer,
                      head.kind == HeadKind::kChained ? TuningTrace::kDepths : 1,
                      head.kind == HeadKind::kFull ? 1 : static_cast<int>(shortlists.size())});
  }
  std::vector<TracedReply> replies;
  for (const TuningText& text : texts) {
    SB_CHECK(text.prompt_tokens >= 1);
    const int tokens = static_cast<int>(text.tokens.size()) - text.prompt_tokens;
    replies.push_back({0, tokens, std::max(tokens, text.budget), text.sampling.temperature});
  }
  TuningTrace trace(backend.config().n_layers, plan.alphas, shortlists, std::move(traced),
                    std::move(replies));
  Recording recording(backend, heads, plan, trace);
  complete = true;
  for (size_t i = 0; i < texts.size() && complete; ++i) {
    complete = recording.record(texts[i], trace.replies()[i]);
  }
  backend.truncate(0);
  return trace;
}

}  // namespace specbound
