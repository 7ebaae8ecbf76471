#include "drafters/lookahead.h"

#include <algorithm>
#include <utility>

#include "decode/sampler.h"
#include "error.h"

namespace specbound {
namespace {

constexpr int kTries = 3;  // of fillers, where a token cannot stand somewhere

}  // namespace

void validate(const LookaheadParams& params) {
  const auto check = [](const char* what, int value, int low, int high) {
    if (value >= low && value <= high) return;
    throw Error(ErrorCode::kUsage,
                format("lookahead: expected %s from %d to %d, found %d", what, low, high, value));
  };
  check("W", params.window, 1, kMaxRows);
  check("N", params.ngram, 2, kMaxRows);
  check("G", params.guesses, 1, kMaxRows);
  if (params.rows() <= kMaxRows) return;
  throw Error(ErrorCode::kUsage,
              format("lookahead: expected (W + G) (N - 1) rows up to %d, found %d of W %d, N %d, "
                     "G %d",
                     kMaxRows, params.rows(), params.window, params.ngram, params.guesses));
}

std::string lookahead_text(const LookaheadParams& params) {
  return format("%d,%d,%d", params.window, params.ngram, params.guesses);
}

Lookahead::Lookahead(const LookaheadParams& params) : params_(params) {
  validate(params);
  window_.assign(levels(), std::vector<int32_t>(params_.window));
  slots_.assign(levels(), std::vector<int>(params_.window, -1));
}

// Some token of the prompt.
int32_t Lookahead::filler() {
  const uint64_t any = (++drawn_ * 0x9e3779b97f4a7c15u) >> 32;
  return text_[any % text_.size()];
}

// The window begins with tokens of the prompt, as in the authors' code; what they are matters for a
// few rounds.
void Lookahead::begin(std::span<const int32_t> text) {
  text_.assign(text.begin(), text.end());
  drawn_ = 0;
  for (std::vector<int32_t>& level : window_) {
    for (int32_t& token : level) token = filler();
  }
}

// A row behind `parent` that holds `token`, a new one or one that is there already, or another
// token of the prompt where it cannot stand there. -1: there is none.
int Lookahead::place(Round& round, int parent, int32_t& token) {
  for (int tries = 0; tries < kTries; ++tries) {
    if (const int known = round.child(parent, token); known >= 0) return known;
    if (round.full()) return -1;
    if (!round.would_end(parent, token)) {
      round.append_to(parent, token, 0);
      return round.newest();
    }
    token = filler();
  }
  return -1;
}

// N-grams that begin with the root; what two of them begin with is the same rows.
void Lookahead::draft_ngrams(Round& round) {
  const auto known = pool_.find(round.token(0));
  if (known == pool_.end()) return;
  for (const Ngram& ngram : known->second) {
    int row = 0;
    for (const int32_t token : ngram) {
      if (const int child = round.child(row, token); child >= 0) {
        row = child;
        continue;
      }
      if (round.full() || round.would_end(row, token)) break;
      round.append_to(row, token, 0);
      row = round.newest();
    }
  }
}

void Lookahead::draft_window(Round& round) {
  for (int level = 0; level < levels(); ++level) {
    for (int column = 0; column < params_.window; ++column) {
      int& slot = slots_[level][column];
      slot = 0;
      if (level == 0 && column == 0) continue;
      const int parent = level > 0 ? slots_[level - 1][column] : slots_[0][column - 1];
      slot = parent < 0 ? -1 : place(round, parent, window_[level][column]);
    }
  }
}

DraftEnd Lookahead::draft(Round& round) {
  window_[0][0] = round.token(0);
  draft_ngrams(round);
  draft_window(round);
  return round.aborted() ? DraftEnd::kAborted : DraftEnd::kWidth;
}

// What the model says behind the rows of the last level. Rows that lie side by side are looked at
// together: all of them, but where one of them is a draft too. False: a row is missing.
bool Lookahead::look(Backend& backend, std::span<int32_t> said) {
  const auto vocab_size = static_cast<size_t>(backend.config().vocab_size);
  z_.resize(said.size() * vocab_size);
  const int columns = params_.window;
  for (int first = 0; first < columns;) {
    if (last_level(first) < 0) return false;
    int n = 1;
    while (first + n < columns && last_level(first + n) == last_level(first) + n) ++n;
    backend.logits(last_level(first), n, z_.data());
    for (int i = 0; i < n; ++i) {
      const std::span<const float> z = std::span(z_).subspan(i * vocab_size, vocab_size);
      said[first + i] = greedy_token(z);
    }
    first += n;
  }
  return true;
}

// The n-gram that a column went through.
void Lookahead::keep(int column, int32_t said) {
  Ngram ngram;
  for (int level = 1; level < levels(); ++level) ngram.push_back(window_[level][column]);
  ngram.push_back(said);
  std::deque<Ngram>& kept = pool_[window_[0][column]];
  std::erase(kept, ngram);
  kept.push_front(std::move(ngram));
  if (static_cast<int>(kept.size()) > params_.guesses) kept.pop_back();
}

void Lookahead::accept(Backend& backend, const RoundEvent& round) {
  if (round.rows.size() == 1) return;
  std::vector<int32_t> said(static_cast<size_t>(params_.window));
  if (!look(backend, said)) return;
  for (int column = 0; column < params_.window; ++column) keep(column, said[column]);
  std::rotate(window_.begin(), window_.begin() + 1, window_.end());
  window_.back() = said;
}

}  // namespace specbound
