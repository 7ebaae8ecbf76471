#include "tune/replay.h"

#include <algorithm>

#include "engine/backend.h"
#include "error.h"

namespace specbound {

namespace {

constexpr int kMostChecks = 64;

double& phase(ReplayResult& result, Phase phase) {
  return result.seconds[static_cast<int>(phase)];
}

}  // namespace

void ReplayResult::add(const ReplayResult& other) {
  tokens += other.tokens;
  rounds += other.rounds;
  rows += other.rows;
  checks += other.checks;
  passes += other.passes;
  drafted += other.drafted;
  accepted += other.accepted;
  exit_layers += other.exit_layers;
  for (int i = 0; i < kPhases; ++i) seconds[i] += other.seconds[i];
  total_seconds += other.total_seconds;
  plain_seconds += other.plain_seconds;
  complete = complete && other.complete;
}

// A setting against the trace: what each check layer finds, and the layers up to it.
struct Replay::Plan {
  struct Check {
    int layer, layers;           // layers: since the check before
    const float *below, *above;  // confidence at the recorded alphas around the asked one
    const Outcome* outcome;
    int depths;
  };
  std::vector<Check> checks;
  float weight = 0;  // of `above`
  float tau = 0;
  int w_max = 1;
  bool state = false;        // the head needs a row before it that went through all layers
  double check_seconds = 0;  // each
  double draw_seconds = 0;   // of a draft at a temperature
  bool margin = false;       // which is drawn at each check
};

Replay::Replay(const TuningTrace& trace, const CostModel& costs) : trace_(trace), costs_(costs) {}

Replay::Plan Replay::plan(const ReplaySettings& settings) const {
  const HeadDefaults& h = settings.heads;
  Plan plan;
  plan.tau = h.tau;
  plan.w_max = std::clamp(h.w_max, 1, kMaxRows);
  plan.margin = settings.margin;
  plan.state = h.kind == HeadKind::kChained;
  const bool full = h.kind == HeadKind::kFull;

  const std::vector<int>& sizes = trace_.shortlists();
  int size = 0;
  if (!full) {
    const auto found = std::find(sizes.begin(), sizes.end(), h.shortlist);
    if (found == sizes.end()) {
      throw Error(ErrorCode::kUsage,
                  format("a shortlist of %d tokens was not recorded", h.shortlist));
    }
    size = static_cast<int>(found - sizes.begin());
  }
  const int tokens = full ? costs_.vocab_size : h.shortlist;
  plan.check_seconds = costs_.check(head_kind_name(h.kind), tokens);
  plan.draw_seconds = costs_.check(CostModel::kDraw, tokens);

  const std::vector<float>& alphas = trace_.alphas();
  const auto upper = std::lower_bound(alphas.begin(), alphas.end(), h.alpha);
  int above = static_cast<int>(upper - alphas.begin());
  if (upper == alphas.end()) --above;
  int below = above;
  if (above > 0 && upper != alphas.end() && alphas[above] > h.alpha) {
    below = above - 1;
    plan.weight = (h.alpha - alphas[below]) / (alphas[above] - alphas[below]);
  }
  if (settings.margin) below = above = trace_.margin_column();

  int done = 0;
  for (const int layer : h.check_layers) {
    if (layer > h.d_max) break;
    const int head = trace_.find(h.kind, layer);
    if (head < 0) {
      throw Error(ErrorCode::kUsage,
                  format("no %s head at layer %d was recorded", head_kind_name(h.kind), layer));
    }
    SB_CHECK(plan.checks.size() < kMostChecks && layer >= done);
    plan.checks.push_back({layer, layer - done, trace_.confidence(head, size, below).data(),
                           trace_.confidence(head, size, above).data(),
                           trace_.outcome(head, size).data(), trace_.heads()[head].depths});
    done = layer;
  }
  if (plan.checks.empty()) plan.w_max = 1;
  return plan;
}

void Replay::replay(const Plan& plan, const TracedReply& reply, ReplayResult& result) const {
  const int n_checks = static_cast<int>(plan.checks.size());
  const bool greedy = reply.temperature == 0;
  const double draw = greedy ? 0 : plan.draw_seconds;
  const double target = costs_.target(greedy);
  const size_t n_rows = trace_.n_rows();
  std::array<int, kMostChecks + 1> done;  // rows through the layers before each check, and behind
  std::array<int, kMaxRows> exits;
  double draft_seconds = 0, verify_seconds = 0, logits_seconds = 0, sample_seconds = 0;
  double draws = 0;
  int64_t checks = 0;

  for (int at = 0; at < reply.tokens;) {
    int width = std::min(plan.w_max, reply.budget - at);
    if (plan.state && at == 0) width = 1;
    int rows = 1, right = 0;
    bool all_right = true;
    std::fill_n(done.begin(), n_checks + 1, 0);
    while (rows < width) {
      const size_t row = reply.first + std::min(at + rows - 1, reply.tokens - 1);
      int exit = -1;
      size_t cell = 0;
      for (int c = 0; c < n_checks; ++c) {
        const Plan::Check& check = plan.checks[c];
        if (check.layers > 0) {
          draft_seconds += costs_.run(check.layer - check.layers + 1, check.layer, rows - done[c]);
          ++result.passes;
        }
        done[c] = rows;
        ++checks;
        cell = std::min(rows, check.depths) - 1;
        cell = cell * n_rows + row;
        const float p = check.below[cell] + plan.weight * (check.above[cell] - check.below[cell]);
        if (p >= plan.tau) {
          exit = c;
          break;
        }
      }
      if (exit < 0) break;
      draws += 1;
      const Outcome outcome = plan.checks[exit].outcome[cell];
      if (outcome == Outcome::kEnd) break;
      all_right = all_right && outcome == Outcome::kRight;
      if (all_right) exits[right++] = plan.checks[exit].layer;
      ++rows;
    }

    for (int c = 0, from = 1; c <= n_checks; ++c) {
      if (c < n_checks && done[c + 1] == done[c]) continue;  // they lack the same rows: one pass
      const int to = c < n_checks ? plan.checks[c].layer : trace_.n_layers();
      const int lacking = rows - done[c];
      if (from <= to && lacking > 0) {
        verify_seconds += costs_.run(from, to, lacking);
        ++result.passes;
      }
      from = to + 1;
    }
    logits_seconds += costs_.logits[rows];
    const int tokens = std::min(1 + right, reply.tokens - at);
    sample_seconds += costs_.round + rows * costs_.row + tokens * target;
    ++result.rounds;
    result.rows += rows;
    result.drafted += rows - 1;
    result.accepted += std::min(right, tokens);
    for (int i = 0; i < std::min(right, tokens); ++i) result.exit_layers += exits[i];
    at += tokens;
  }
  if (plan.margin) draws = static_cast<double>(checks);
  const double check_seconds = static_cast<double>(checks) * plan.check_seconds + draws * draw;
  result.checks += checks;
  result.tokens += reply.tokens;
  phase(result, Phase::kDraft) += draft_seconds;
  phase(result, Phase::kCheck) += check_seconds;
  phase(result, Phase::kVerify) += verify_seconds;
  phase(result, Phase::kLogits) += logits_seconds;
  phase(result, Phase::kSample) += sample_seconds;
  result.total_seconds +=
      draft_seconds + check_seconds + verify_seconds + logits_seconds + sample_seconds;
  result.plain_seconds += reply.tokens * costs_.plain(greedy);
}

ReplayResult Replay::run(const ReplaySettings& settings, double most_seconds) const {
  const Plan plan = this->plan(settings);
  ReplayResult result;
  for (const TracedReply& reply : trace_.replies()) {
    if (result.total_seconds > most_seconds) {
      result.complete = false;
      break;
    }
    replay(plan, reply, result);
  }
  return result;
}

ReplayResult Replay::run_reply(const ReplaySettings& settings, int reply) const {
  ReplayResult result;
  replay(plan(settings), trace_.replies()[reply], result);
  return result;
}

double Replay::plain_seconds() const {
  double sum = 0;
  for (const TracedReply& reply : trace_.replies()) {
    sum += reply.tokens * costs_.plain(reply.temperature == 0);
  }
  return sum;
}

}  // namespace specbound
