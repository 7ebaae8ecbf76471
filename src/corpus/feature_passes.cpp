#include "corpus/feature_passes.h"

#include <algorithm>
#include <utility>

#include "decode/common_prefix.h"
#include "error.h"

namespace specbound {

namespace {

// Rows that a text need not run when the pass in whose company it would be goes first: more than
// what a pass that is not full takes longer for its rows.
constexpr int kWorthAPass = 32;

}  // namespace

FeaturePasses::FeaturePasses(FeatureStore& store, Backend& backend,
                             std::span<const float> output_norm, const std::atomic<bool>* abort)
    : store_(store),
      backend_(backend),
      chunk_(backend.chunk_rows()),
      most_rows_(chunk_ ? chunk_->most_rows() : kMaxRows),
      norm_(output_norm),
      abort_(abort),
      there_(store.rows_of_text()) {
  SB_CHECK(backend.config().dim == store.dim() && std::ssize(output_norm) == store.dim());
  const bool several = chunk_ && backend.sequences();
  kept_.resize(several ? backend.sequences()->n_sequences() : 1);
}

FeaturePasses::~FeaturePasses() {
  for (int sequence = 0; sequence < std::ssize(kept_); ++sequence) {
    select(sequence);
    backend_.truncate(0);
    if (Sequences* sequences = backend_.sequences()) sequences->cut(sequence, 0);
  }
  select(0);
}

void FeaturePasses::select(int sequence) {
  if (Sequences* sequences = backend_.sequences()) sequences->select(sequence);
}

bool FeaturePasses::add(const TrainingText& text) {
  if (aborted()) return false;
  const int end = FeatureStore::end_of(text);
  SB_CHECK(end <= backend_.n_ctx());
  const int64_t there = std::exchange(there_, 0);
  int64_t rows = 0, learnt = 0;
  int first = end;  // that is not there
  for (int at = 0; at < end; ++at) {
    if (!store_.takes(text, at) || rows++ < there) continue;
    first = std::min(first, at);
    learnt += text.learn[at];
  }
  if (rows < there) {
    throw Error(
        ErrorCode::kFormat,
        store_.folder() + ": expected features of these texts, found others: fresh=on starts over");
  }
  if (first == end) {
    parts_.push_back({&text});
    return true;
  }
  if (!store_.fits(waiting_ + rows - there)) return false;
  const std::optional<int> sequence = place(text, end, first);
  if (!sequence) return false;
  waiting_ += rows - there;
  waiting_learnt_ += learnt;
  for (int pos = kept_[*sequence].there; pos < end;) {
    // Rows that are there already go as they went, for a GPU's prefill has bits of its own.
    if (const int next = next_row(text, pos); !chunk_ && next - pos >= kMaxRows) {
      if (!run() || !prefill(*sequence, std::span(text.tokens).subspan(pos, next - pos))) {
        return false;
      }
      pos = next;
      continue;
    }
    const int n = std::min(most_rows_ - n_rows_, end - pos);
    parts_.push_back({&text, *sequence, pos, n, first, pos + n == end});
    kept_[*sequence].waits = true;
    n_rows_ += n;
    pos += n;
    if (n_rows_ == most_rows_ && !run()) return false;
  }
  return true;
}

bool FeaturePasses::leave_out() {
  if (!run()) return false;
  there_ = 0;
  store_.end_text();
  return true;
}

int FeaturePasses::next_row(const TrainingText& text, int at) const {
  while (!store_.takes(text, at)) ++at;
  return at;
}

// The longest beginning of `tokens` whose K and V are there, or also those that come with the pass
// that is filled.
FeaturePasses::Beginning FeaturePasses::longest(std::span<const int32_t> tokens,
                                                bool waiting) const {
  Beginning best;
  for (int sequence = 0; sequence < std::ssize(kept_); ++sequence) {
    const Kept& kept = kept_[sequence];
    const auto here = waiting && kept.waits ? kept.tokens : kept.tokens.first(kept.there);
    const int n = static_cast<int>(common_prefix(here, tokens));
    if (n > best.n) best = {sequence, n};
  }
  return best;
}

// The sequence that a text of so many tokens goes to, the one used longest ago, and in it what is
// there of its beginning before the first row that is wanted. None: it was aborted.
std::optional<int> FeaturePasses::place(const TrainingText& text, int end, int first) {
  const std::span<const int32_t> tokens = std::span(text.tokens).first(end);
  Beginning from = longest(tokens.first(first), false);
  const bool worth_it = longest(tokens.first(first), true).n >= from.n + kWorthAPass;
  if (worth_it || std::ranges::all_of(kept_, &Kept::waits)) {
    if (!run()) return std::nullopt;
    from = longest(tokens.first(first), false);
  }
  const auto earlier = [](const Kept& a, const Kept& b) {
    return a.waits != b.waits ? b.waits : a.used < b.used;
  };
  const auto chosen = std::ranges::min_element(kept_, earlier);
  const int to = static_cast<int>(chosen - kept_.begin());
  select(to);
  if (from.n > 0 && from.sequence != to) {
    backend_.sequences()->copy_prefix(from.sequence, from.n);
  } else {
    backend_.truncate(from.n);
  }
  *chosen = {tokens, from.n, false, ++uses_};
  return to;
}

// What no row is wanted of, on a backend that sees few rows between layers.
bool FeaturePasses::prefill(int sequence, std::span<const int32_t> tokens) {
  const auto go_on = [](void* passes, int) {
    return !static_cast<const FeaturePasses*>(passes)->aborted();
  };
  backend_.prefill(tokens, go_on, this);
  Kept& kept = kept_[sequence];
  const int expected = kept.there + static_cast<int>(tokens.size());
  kept.there = backend_.kv_len(1);
  return kept.there == expected;
}

bool FeaturePasses::run() {
  if (aborted()) return false;
  std::vector<ChunkRows::Part> chunk;
  rows_.clear();
  int row = 0;
  for (const Part& part : parts_) {
    if (part.n == 0) continue;
    chunk.push_back({part.sequence, std::span(part.text->tokens).subspan(part.pos, part.n)});
    for (int at = part.pos; at < part.pos + part.n; ++at, ++row) {
      if (at >= part.first && store_.takes(*part.text, at)) rows_.push_back({&part, at, row});
    }
  }
  if (!chunk.empty() && !run_pass(chunk)) return false;
  store_rows();
  parts_.clear();
  n_rows_ = 0;
  return true;
}

bool FeaturePasses::run_pass(std::span<const ChunkRows::Part> parts) {
  const std::vector<int>& layers = store_.layers();
  states_.resize(rows_.size() * row_size());
  rms_.resize(rows_.size() * layers.size());
  done_ = 0;
  if (chunk_) {
    chunk_->embed_chunk(parts);
  } else {
    pos_ = kept_[parts[0].sequence].there;
    for (size_t i = 0; i < parts[0].tokens.size(); ++i) {
      backend_.embed(static_cast<int>(i), parts[0].tokens[i]);
    }
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!run_layers(layers[i])) return false;
    read_states(i, {});
  }
  if (!run_layers(backend_.config().n_layers)) return false;
  read_states(layers.size(), norm_);
  return true;
}

// The layers behind those that were run, up to `to`: a chunk's one by one, as one of a large model
// takes a while.
bool FeaturePasses::run_layers(int to) {
  while (done_ < to) {
    if (aborted()) return false;
    if (chunk_) {
      chunk_->run_chunk(++done_);
    } else {
      backend_.run_layers(0, n_rows_, pos_, done_ + 1, to);
      done_ = to;
    }
  }
  return true;
}

// Of the rows that the store wants, as state `index` of each.
void FeaturePasses::read_states(size_t index, std::span<const float> weight) {
  const size_t dim = norm_.size(), layers = store_.layers().size();
  for (size_t i = 0; i < rows_.size(); ++i) {
    const std::span<const float> h =
        chunk_ ? chunk_->chunk_row(rows_[i].row) : backend_.inspect().hidden(rows_[i].row);
    const auto state = std::span(states_).subspan(i * row_size() + index * dim, dim);
    const float rms = write_state(h, backend_.config().norm_eps, weight, state);
    if (index < layers) rms_[i * layers + index] = rms;
  }
}

// In the order of texts: so a run after a kill goes on behind any of them.
void FeaturePasses::store_rows() {
  const size_t layers = store_.layers().size();
  size_t i = 0;
  for (const Part& part : parts_) {
    for (; i < rows_.size() && rows_[i].part == &part; ++i) {
      store_.add(*part.text, rows_[i].at, std::span(states_).subspan(i * row_size(), row_size()),
                 std::span(rms_).subspan(i * layers, layers));
      --waiting_;
      waiting_learnt_ -= part.text->learn[rows_[i].at];
    }
    if (part.ends) store_.end_text();
    if (part.n == 0) continue;
    kept_[part.sequence].there = part.pos + part.n;
    kept_[part.sequence].waits = false;
  }
}

}  // namespace specbound
