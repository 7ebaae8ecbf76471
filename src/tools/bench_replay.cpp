#include "tools/bench_replay.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>

#include "decode/generate.h"
#include "drafters/forced_head.h"
#include "drafters/specbound.h"
#include "error.h"
#include "model/random_model.h"

namespace specbound {

namespace {

using Clock = std::chrono::steady_clock;

// Tokens that a sequence writes behind a first round that does not count, and room for it and for
// one round more.
int tokens_needed(const RecordedRounds& sequence) {
  int tokens = 2 * kMaxRows + 1;
  for (const RecordedRound& round : sequence.rounds) tokens += round.accepted + 1;
  return tokens;
}

int most_tokens(const std::vector<RecordedRounds>& sequences) {
  int most = 0;
  for (const RecordedRounds& sequence : sequences) most = std::max(most, tokens_needed(sequence));
  return most;
}

// Where a run was after each round.
struct RunLog {
  std::vector<double> seconds;  // from the first round's end on
  std::vector<size_t> tokens;   // written until then
  Counters counters;            // of the rounds behind the first
};

class ReplayRunner {
 public:
  ReplayRunner(Backend& backend, const std::vector<RecordedRounds>& sequences,
               const ReplayOptions& options);
  ReplayedGroup run();

 private:
  RunLog decode(Speculator* speculator, size_t rounds);
  void add(ReplayedCell& cell, size_t index, const RunLog& plain);

  Backend& backend_;
  const ReplayOptions& options_;
  const int vocab_size_;
  std::unique_ptr<RandomHeads> heads_;
  Session session_;
  std::vector<int32_t> prompt_, text_;
  ReplayedGroup group_;
  std::vector<std::vector<double>> speedups_, rounds_;  // [cell]
  std::vector<double> plain_, break_even_;
};

ReplayRunner::ReplayRunner(Backend& backend, const std::vector<RecordedRounds>& sequences,
                           const ReplayOptions& options)
    : backend_(backend),
      options_(options),
      vocab_size_(backend.config().vocab_size),
      session_(backend, Sampler(greedy_sampling())),
      prompt_(any_tokens(options.prompt, vocab_size_)) {
  SB_CHECK(!sequences.empty() && options.prompt >= 1);
  const int n_layers = backend.config().n_layers;
  for (const RecordedRounds& sequence : sequences) {
    SB_CHECK(!sequence.rounds.empty());
    group_.cells.push_back({sequence.scaled(n_layers), {}, {}, {}});
    SB_CHECK(group_.cells.back().rounds.check_layers == group_.cells[0].rounds.check_layers);
  }
  if (const int needed = replay_context(sequences, options.prompt); needed > backend.n_ctx()) {
    throw Error(ErrorCode::kLimit, format("the replay needs a context of %d tokens, there are %d",
                                          needed, backend.n_ctx()));
  }
  std::vector<RandomHeads::Head> wanted;
  for (const int layer : group_.cells[0].rounds.check_layers) {
    wanted.push_back({options.kind, layer});
  }
  heads_ = std::make_unique<RandomHeads>(backend.config(), wanted,
                                         std::min(options.shortlist, vocab_size_));
  backend_.set_exit_heads(&heads_->heads(), heads_->shortlist());
  speedups_.resize(group_.cells.size());
  rounds_.resize(group_.cells.size());
}

// One round that does not count, then `rounds` of them.
RunLog ReplayRunner::decode(Speculator* speculator, size_t rounds) {
  RunLog log;
  std::atomic<bool> enough = false;
  Clock::time_point start;
  GenerateOptions generate;
  generate.abort = &enough;
  generate.on_round = [&](const RoundEvent& event) {
    const Clock::time_point now = Clock::now();
    if (event.round == 0) {
      start = now;
    } else {
      log.counters.add(event);
    }
    log.seconds.push_back(std::chrono::duration<double>(now - start).count());
    const size_t before = log.tokens.empty() ? 0 : log.tokens.back();
    log.tokens.push_back(before + event.tokens.size());
    enough = log.seconds.size() > rounds;
  };
  session_.set_speculator(speculator);
  session_.generate(prompt_, generate);
  session_.set_speculator(nullptr);
  const std::span<const int32_t> written = session_.tokens();
  const size_t same = std::min(written.size(), text_.size());
  if (!std::equal(text_.begin(), text_.begin() + static_cast<long>(same), written.begin())) {
    throw Error(ErrorCode::kLimit, "the replay wrote other tokens than plain decoding");
  }
  return log;
}

// A run of the cell's rounds, against plain decoding of the same tokens.
void ReplayRunner::add(ReplayedCell& cell, size_t index, const RunLog& plain) {
  const size_t n = cell.rounds.rounds.size();
  ReplayedHead head(heads_->heads(), options_.kind,
                    recorded_script(cell.rounds.rounds, text_, vocab_size_));
  SpecBoundParams params;
  params.check_layers = cell.rounds.check_layers;
  params.d_max = backend_.config().n_layers;
  params.w_max = cell.rounds.w_max;
  SpecBound speculator(head, params, backend_.config().n_layers);
  const RunLog log = decode(&speculator, n);
  // Plain rounds write one token each: that of round i is token i + 1.
  const size_t first = log.tokens.front(), last = log.tokens.back();
  const double same_tokens = plain.seconds[last - 1] - plain.seconds[first - 1];
  const double round = log.seconds.back() / static_cast<double>(n);
  speedups_[index].push_back(same_tokens / log.seconds.back());
  rounds_[index].push_back(round);
  break_even_.push_back(round / (same_tokens / static_cast<double>(last - first)));
  cell.counters.add(log.counters);
}

ReplayedGroup ReplayRunner::run() {
  std::vector<RecordedRounds> sequences;
  for (const ReplayedCell& cell : group_.cells) sequences.push_back(cell.rounds);
  const auto tokens = static_cast<size_t>(most_tokens(sequences));
  if (options_.step) options_.step("the text of the replay");
  decode(nullptr, tokens);
  text_.assign(session_.tokens().begin(), session_.tokens().end());
  for (int repeat = 0; repeat <= options_.repeats; ++repeat) {
    if (options_.step) options_.step("replaying");
    const RunLog plain = decode(nullptr, tokens - 1);
    plain_.push_back(plain.seconds.back() / static_cast<double>(tokens - 1));
    for (size_t i = 0; i < group_.cells.size(); ++i) {
      if (options_.step) options_.step("replaying");
      add(group_.cells[i], i, plain);
    }
    if (repeat > 0) continue;
    // Warmed up.
    plain_.clear();
    break_even_.clear();
    for (size_t i = 0; i < group_.cells.size(); ++i) {
      speedups_[i].clear();
      rounds_[i].clear();
      group_.cells[i].counters = {};
    }
  }
  for (size_t i = 0; i < group_.cells.size(); ++i) {
    group_.cells[i].speedup = spread_of(speedups_[i]);
    group_.cells[i].round = spread_of(rounds_[i]);
  }
  group_.plain_token = spread_of(plain_);
  group_.break_even = spread_of(break_even_);
  backend_.set_exit_heads(nullptr, 0);
  backend_.truncate(0);
  return std::move(group_);
}

}  // namespace

int replay_context(const std::vector<RecordedRounds>& sequences, int prompt) {
  return prompt + most_tokens(sequences) + 1;
}

ReplayedGroup replay_rounds(Backend& backend, const std::vector<RecordedRounds>& sequences,
                            const ReplayOptions& options) {
  return ReplayRunner(backend, sequences, options).run();
}

}  // namespace specbound
