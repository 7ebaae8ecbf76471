// Random conversations for the stress test of the decode loop: what befalls their rounds (forced
// exits and rejections, ends, budgets, aborts, failures) and what must hold after each. A shadow
// decodes the same plainly.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "coverage.h"
#include "decode/generate.h"
#include "drafters/forced_head.h"
#include "drafters/specbound.h"
#include "plain_shadow.h"
#include "test_speculators.h"

namespace specbound::test {

inline constexpr int kLayers = 8;
inline constexpr int kContext = 140;  // two attention chunk edges (64) and many K blocks (16)
inline constexpr int kNone = -1;

inline constexpr int kVocabulary = 61;

// Windows, where the architecture has them, end long before the context.
inline const TinyModel& stress_model(const std::string& architecture, KvType kv) {
  static std::map<std::pair<std::string, KvType>, std::unique_ptr<TinyModel>> models;
  std::unique_ptr<TinyModel>& model = models[{architecture, kv}];
  if (!model) {
    TinySpec spec;
    spec.architecture = architecture;
    spec.n_layers = kLayers;
    spec.n_heads = 2;
    spec.n_kv_heads = 1;
    spec.vocab_size = kVocabulary;
    spec.type = DType::kQ8_0;
    if (architecture != "llama") spec.window = 20;
    model = std::make_unique<TinyModel>(spec, kv);
  }
  return *model;
}

struct ConversationSetting {
  const char* name;
  int rounds;
  const char* architecture = "llama";
  KvType kv = KvType::kFp16;
  int threads = 1;
  Isa isa = best_isa();
  float temperature = 0;
  float penalty = 1;
  bool filters = false;
  int last_n = 64;
  bool trees = false;  // all that draft draft random trees
};

inline SamplingParams sampling(const ConversationSetting& s) {
  SamplingParams p;
  p.temperature = s.temperature;
  p.repeat_penalty = s.penalty;
  p.repeat_last_n = s.last_n;
  if (!s.filters) p.top_k = 0, p.top_p = 1, p.min_p = 0;
  p.seed = 5;
  return p;
}

// Where an abort or a failure strikes.
enum class Strike {
  kNever,
  kPrefill,
  kBetweenRounds,
  kCheck,
  kDraftPass,
  kVerifyPass,
  kLogits,
  kEmission,
  kFailingPass,    // the backend throws
  kFailingReader,  // on_token throws
  kFailingRound    // on_round throws
};
inline constexpr std::array kStrikeNames = {"nothing",
                                            "abort in prefill",
                                            "abort between rounds",
                                            "abort in a check",
                                            "abort after drafting pass",
                                            "abort after verify pass",
                                            "abort after logits",
                                            "abort after token in slot",
                                            "failure in pass",
                                            "failure of the reader in slot",
                                            "failure of the round's reader"};
inline const char* strike_name(Strike strike) {
  return kStrikeNames[static_cast<size_t>(strike)];
}

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One conversation: prompts, replies and what befalls them, drawn from a seed.
class RandomConversation {
 public:
  RandomConversation(const ConversationSetting& setting, uint64_t seed, Coverage& coverage)
      : random_(seed),
        trees_(setting.trees),
        coverage_(coverage),
        watched_(stress_model(setting.architecture, setting.kv)
                     .backend(setting.isa, setting.threads, true, kContext)),
        shadow_(
            stress_model(setting.architecture, setting.kv).backend(best_isa(), 1, true, kContext),
            sampling(setting)),
        session_(watched_, Sampler(sampling(setting))),
        head_([this](const Round& round) { return fate(round); }) {
    watched_.after = [this](WatchedBackend::Call call) { called(call); };
  }

  // Until `n` rounds were seen.
  void run(int n) {
    while (rounds_ < n) reply();
  }

 private:
  int below(int n) { return static_cast<int>(random_.next() % n); }
  bool chance(float p) { return random_.uniform() < p; }
  int32_t any_token() { return below(kVocabulary); }
  int pending() const { return static_cast<int>(session_.tokens().size()) - 1; }

  // ---- what a reply is to be ----

  void choose_prompt() {
    const int kind = below(10);
    follows_ = false;
    if (!prompt_.empty() && kind < 4) {
      ++number_;
      coverage_.met("reply regenerated");
    } else if (!prompt_.empty() && kind < 5) {
      coverage_.met("reply repeated");
    } else {
      const auto committed = session_.tokens();
      std::vector<int32_t> next(committed.begin(), committed.end());
      for (int i = below(4); i > 0; --i) next.push_back(any_token());
      follows_ = !next.empty() && next.size() < kContext && kind < 8;
      if (follows_) {
        coverage_.met("conversation continued");
      } else {
        const int near_edge = 64 * (1 + below(2)) - below(24);
        next =
            token_ids(chance(0.5f) ? near_edge : 1 + below(kContext), kVocabulary, random_.next());
      }
      number_ = follows_ ? number_ + 1 : below(3);
      prompt_ = std::move(next);
      return;
    }
    follows_ = true;
  }

  void choose_end() {
    max_tokens_ = chance(0.5f) && !deep_ ? 1 + below(40) : kNone;
    end_token_ = kNone;
    stop_.clear();
    const int first = static_cast<int>(prompt_.size());
    int after = below(24), kind = below(10);
    if (deep_) {
      kind = 7;             // none
    } else if (kind > 7) {  // where none has ended yet, if rounds are as wide as they can be
      deep_ = true;
      kind = below(2) ? 0 : 4;
      after = coverage_.rarest(kind == 0 ? "end token in slot" : "stop string in slot");
    }
    const int last = std::min(first + after, kContext);
    if (kind < 4) end_token_ = shadow_.token(last);
    if (kind >= 3 && kind < 7) {
      if (last > first) stop_.push_back(shadow_.token(last - 1));
      stop_.push_back(shadow_.token(last));
    }
  }

  void choose_speculator() {
    const bool long_rounds = deep_ || chance(0.2f);
    exit_rate_ = long_rounds ? 1.0f : 0.6f + 0.4f * random_.uniform();
    right_rate_ = long_rounds ? (chance(0.5f) ? 1.0f : 0.93f) : 0.3f + 0.7f * random_.uniform();
    params_ = SpecBoundParams();
    params_.w_max = long_rounds ? kMaxRows : 1 + below(kMaxRows);
    params_.d_max = long_rounds ? kLayers : 1 + below(kLayers + 1);
    params_.depth_bound = !chance(0.1f);
    params_.width_bound = !chance(0.1f);
    if (chance(0.5f)) params_.check_layers = {1, 2, 5, 7};
    validate(params_, kLayers);
    marked_.reset();
    specbound_.reset();
    outside_.reset();
    tree_.reset();
    // Failures of readers behind a path that has moved, too.
    const bool bushy =
        (strike_ == Strike::kFailingRound || (deep_ && strike_ == Strike::kFailingReader)) &&
        chance(0.7f);
    if (bushy) {
      params_.w_max = kMaxRows;
      right_rate_ = 0.85f;
    }
    const int drawn = bushy ? 9 : deep_ ? 0 : below(14);
    const int kind = trees_ && drawn < 13 ? 9 : drawn;
    if (kind < 7) {
      specbound_.emplace(head_, params_, kLayers, "forced");
      marked_.emplace(*specbound_);
    } else if (kind < 9) {
      outside_.emplace(params_.w_max, [this](const Round& round) { return draft_for(round); });
      marked_.emplace(*outside_);
    } else if (kind < 13) {
      tree_.emplace(params_.w_max, [this](const Round& round) { return branch(round); });
      marked_.emplace(*tree_);
      layers_run_ = chance(0.5f) ? kLayers - 1 : 0;
    }
    session_.set_speculator(marked_ ? &*marked_ : nullptr);
    width_ = marked_ ? marked_->width() : 1;
    measure_plain_ = chance(0.3f);
    if (follows_ && marked_ && !was_on_) coverage_.met("speculation switched on");
    if (follows_ && !marked_ && was_on_) coverage_.met("speculation switched off");
    was_on_ = marked_.has_value();
  }

  void choose_strike() {
    strike_ = chance(0.6f) ? static_cast<Strike>(below(kStrikeNames.size())) : Strike::kNever;
    strike_round_ = below(4);
    const bool never = strike_ == Strike::kNever;
    strike_index_ = never ? 0 : coverage_.rarest(strike_name(strike_));
    // Only rounds of many rows come to a late place.
    deep_ = strike_index_ > 2;
    struck_ = false;
    abort_ = false;
  }

  bool stops(std::span<const int32_t> reply) const {
    return !stop_.empty() && reply.size() >= stop_.size() &&
           std::equal(stop_.begin(), stop_.end(), reply.end() - static_cast<long>(stop_.size()));
  }

  struct Outcome {
    int tokens;  // committed
    StopReason stop;
  };
  Outcome plain_outcome() {
    int n = static_cast<int>(prompt_.size());
    for (int generated = 0;;) {
      if (generated == max_tokens_) return {n, StopReason::kLength};
      if (n > kContext) return {n, StopReason::kContext};
      const int32_t token = shadow_.token(n++);
      if (token == end_token_) return {n, StopReason::kEnd};
      ++generated;
      if (stops(shadow_.text(n).subspan(prompt_.size()))) return {n, StopReason::kStopString};
    }
  }

  // ---- what befalls its rows ----

  int32_t draft_for(const Round& round) { return draft_for(round, round.newest()); }
  int32_t draft_for(const Round& round, int slot) {
    drafted_ = any_token();
    const int wrong = below(3);
    if (chance(right_rate_)) {
      drafted_ = shadow_.token(static_cast<int>(round.history(slot).size()));
    } else if (wrong == 0 && end_token_ != kNone) {
      drafted_ = end_token_;
    } else if (wrong == 1 && !stop_.empty()) {
      drafted_ = stop_.back();
    }
    return drafted_;
  }

  // Long paths and bushes; the layers run never fall, so that rows lag behind.
  TreeDrafts::Draft branch(const Round& round) {
    const int parent = chance(0.6f) ? round.newest() : below(round.rows());
    const int layers = chance(0.3f) ? 1 + below(std::max(layers_run_, 1)) : 0;
    return {parent, draft_for(round, parent), layers_run_ > 0 ? layers : 0};
  }

  ForcedExit fate(const Round& round) {
    strike(Strike::kCheck, 0);
    ForcedExit exit;
    const float below_tau[] = {0, std::nextafter(params_.tau, 0.0f),
                               std::numeric_limits<float>::quiet_NaN()};
    exit.elsewhere = below_tau[below(3)];
    if (!chance(exit_rate_)) return exit;
    const std::vector<int>& layers = specbound_->check_layers();
    exit.layer = layers[below(static_cast<int>(layers.size()))];
    exit.confidence = chance(0.5f) ? params_.tau : 1.0f;
    exit.token = draft_for(round);
    return exit;
  }

  // True when this is the place that was chosen.
  bool strike(Strike where, int index) {
    if (struck_ || where != strike_ || index != strike_index_ || round_ < strike_round_) {
      return false;
    }
    struck_ = true;
    abort_ = true;
    return true;
  }

  void called(WatchedBackend::Call call) {
    const bool drafting = marked_ && marked_->drafting;
    if (call == WatchedBackend::Call::kEmbed) {
      if (!drafting) passes_ = verify_passes_ = 0;  // a round begins with its root
    } else if (call == WatchedBackend::Call::kLayers) {
      ++passes_;
      if (drafting) strike(Strike::kDraftPass, passes_);
      if (!drafting) strike(Strike::kVerifyPass, ++verify_passes_);
      if (strike(Strike::kFailingPass, passes_)) throw Failure("a pass failed");
    } else {
      strike(Strike::kLogits, 0);
    }
  }

  // ---- a reply, and what must hold ----

  void check_kv_len(int expected) {
    for (int l = 1; l <= kLayers; ++l) {
      CAPTURE(l);
      REQUIRE(watched_.kv_len(l) == expected);
    }
  }

  void reply() {
    choose_prompt();
    shadow_.begin(prompt_, number_);
    choose_strike();
    choose_end();
    choose_speculator();
    round_ = generated_ = 0;
    emitted_.clear();

    GenerateOptions options;
    options.max_tokens = max_tokens_;
    options.reply = number_;
    options.is_end = [this](int32_t token) { return token == end_token_; };
    options.is_stop = [this](std::span<const int32_t> reply) { return stops(reply); };
    options.measure_plain = measure_plain_;
    options.abort = &abort_;
    options.on_prefill = [this](int, int) { strike(Strike::kPrefill, 0); };
    options.on_token = [this](const TokenEvent& event) {
      emitted_.push_back(event.token);
      strike(Strike::kEmission, event.slot);
      if (strike(Strike::kFailingReader, event.slot)) throw Failure("a reader failed");
    };
    options.on_round = [this](const RoundEvent& event) {
      check_round(event);
      if (!strike(Strike::kFailingRound, 0)) return;
      // Where a row moved to a place that another came from: moved again it would be another's.
      const int n = static_cast<int>(event.tokens.size());
      for (int i = 1; i < n; ++i) {
        const int slot = event.tokens[i].slot;
        if (i < slot && slot < n) coverage_.met("tree: failure when the path has moved");
      }
      throw Failure("a reader of rounds failed");
    };

    INFO("prompt of " << prompt_.size() << ", reply " << number_ << ", speculator "
                      << (marked_ ? marked_->name() : "off") << ", " << strike_name(strike_) << " "
                      << strike_index_);
    std::optional<StopReason> stop;  // none: something threw
    try {
      stop = session_.generate(prompt_, options).stop;
    } catch (const Failure&) {
    }
    check_reply(stop);
  }

  void check_round(const RoundEvent& event) {
    ++rounds_;
    const int p = event.pos, n = static_cast<int>(event.tokens.size());
    const int rows = static_cast<int>(event.rows.size());
    CAPTURE(rounds_);
    CAPTURE(p);
    CAPTURE(rows);
    for (int i = 0, slot = 0; i < n; ++i) {
      const TokenEvent& token = event.tokens[i];
      REQUIRE(token.pos == p + i + 1);
      REQUIRE(token.slot == slot);
      REQUIRE(token.token == shadow_.token(p + i + 1));
      watched_.commit(slot, p + i);
      const auto next = std::ranges::find_if(event.rows, [&](const RowEvent& row) {
        return row.parent == slot && row.token == token.token;
      });
      REQUIRE(token.accepted() == (next != event.rows.end()));
      if (i + 1 < n) slot = static_cast<int>(next - event.rows.begin());
    }
    REQUIRE(pending() == p + n);
    REQUIRE(session_.tokens().back() == event.tokens.back().token);
    check_kv_len(p + n);
    REQUIRE(Record::difference(watched_.record(p, p + n), shadow_.through(p + n - 1), p, p + n) ==
            "");
    const int budget = max_tokens_ == kNone ? kContext : max_tokens_ - generated_;
    REQUIRE(rows <= std::min({width_, budget, kContext - p}));
    cover(event, budget);
    generated_ += n;
    ++round_;
    strike(Strike::kBetweenRounds, 0);
  }

  void check_reply(std::optional<StopReason> stop) {
    const int n = pending() + 1;
    check_kv_len(n - 1);
    const auto committed = session_.tokens(), plain = shadow_.text(n);
    REQUIRE(std::equal(committed.begin(), committed.end(), plain.begin(), plain.end()));
    // All of it, not only what the last rounds brought: no round may touch what was there.
    if (n > 1) REQUIRE(kv_difference(n - 1) == "");
    const int ended = stop == StopReason::kEnd, first = static_cast<int>(prompt_.size());
    const std::span reply = plain.subspan(first, n - first - ended);
    if (stop) {
      REQUIRE(std::equal(reply.begin(), reply.end(), emitted_.begin(), emitted_.end()));
    }
    const Outcome outcome = plain_outcome();
    if (stop && stop != StopReason::kAborted) {
      REQUIRE(*stop == outcome.stop);
      REQUIRE(n == outcome.tokens);
      if (*stop == StopReason::kStopString) coverage_.met("stop string in slot", last_slot_);
    } else {
      REQUIRE(struck_);
      REQUIRE(n <= outcome.tokens);
      coverage_.met(strike_name(strike_), strike_index_);
    }
  }

  // The first of positions 0..n-1 whose K or V are not the shadow's.
  std::string kv_difference(int n) {
    const Record &run = watched_.record(0, n), &plain = shadow_.through(n - 1);
    const size_t size = size_t(kLayers) * run.kv_dim;
    for (int pos = 0; pos < n; ++pos) {
      const size_t at = pos * size;
      if (same_bits(&run.k[at], &plain.k[at], size) && same_bits(&run.v[at], &plain.v[at], size)) {
        continue;
      }
      return format("position %d", pos);
    }
    return "";
  }

  // ---- what was met ----

  void cover(const RoundEvent& event, int budget) {
    const int p = event.pos, rows = static_cast<int>(event.rows.size());
    const int kept = static_cast<int>(event.tokens.size());
    const TokenEvent& last = event.tokens.back();
    last_slot_ = last.slot;
    coverage_.met("rows", rows);
    if (!is_chain(event.rows)) return cover_tree(event);
    if (last.draft != kNone && !last.accepted()) coverage_.met("rejection in slot", last.slot);
    for (int i = 1; i < rows; ++i) {
      if ((p + i) % 16 == 0) coverage_.met("K block edge before slot", i);
      if ((p + i) % 64 != 0) continue;
      coverage_.met("chunk edge before slot", i);
      coverage_.met(i < kept ? "chunk edge crossed and kept" : "chunk edge crossed and rejected");
    }
    if (last.ends_reply) {
      coverage_.met("end token in slot", last.slot);
      if (last.accepted()) coverage_.met("end token from an accepted draft");
    }
    if (event.draft_end == DraftEnd::kReplyEnd) {
      coverage_.met(
          drafted_ == end_token_ ? "end token drafted in slot" : "stop string drafted in slot",
          rows - 1);
    }
    if (event.draft_end == DraftEnd::kDifficult) {
      const bool bound = params_.depth_bound && params_.d_max < kLayers - 1;
      coverage_.met(bound ? "depth bound" : "difficult without a depth bound");
    }
    const bool full = event.draft_end == DraftEnd::kWidth || event.draft_end == DraftEnd::kPlain;
    const int context = kContext - p;
    if (full && rows == width_) coverage_.met("width bound", rows);
    if (full && rows < width_) {
      if (rows == budget) coverage_.met("budget cuts the width to", rows);
      if (rows == context) coverage_.met("context end cuts the width to", rows);
      if (rows < std::min(budget, context)) {
        REQUIRE(measure_plain_);
        REQUIRE(rows == 1);
        coverage_.met("plain round measured");
      }
    }
  }

  void cover_tree(const RoundEvent& event) {
    const int p = event.pos, kept = static_cast<int>(event.tokens.size());
    const int last = event.tokens.back().slot;
    coverage_.met("tree of rows", static_cast<int>(event.rows.size()));
    coverage_.met("tree: tokens", kept);
    if (last >= kept) coverage_.met("tree: path moved");
    if (p / 64 < (p + last) / 64) {
      coverage_.met(p / 64 < (p + kept - 1) / 64 ? "tree: chunk edge within the path"
                                                 : "tree: chunk edge between place and position");
    }
    if (event.passes.front().phase == Phase::kDraft) coverage_.met("tree: rows lag behind");
  }

  TinyRandom random_;
  const bool trees_;
  Coverage& coverage_;
  WatchedBackend watched_;
  PlainShadow shadow_;
  Session session_;
  ForcedHead head_;
  std::optional<SpecBound> specbound_;
  std::optional<OutsideDrafts> outside_;
  std::optional<TreeDrafts> tree_;
  int layers_run_ = 0;  // by it, at most
  std::optional<MarkedSpeculator> marked_;

  std::vector<int32_t> prompt_;
  uint32_t number_ = 0;
  bool follows_ = false, was_on_ = false, measure_plain_ = false;
  int max_tokens_ = kNone;
  int32_t end_token_ = kNone;
  std::vector<int32_t> stop_;
  SpecBoundParams params_;
  int width_ = 1;
  float exit_rate_ = 0, right_rate_ = 0;

  Strike strike_ = Strike::kNever;
  int strike_round_ = 0, strike_index_ = 0;
  bool struck_ = false, deep_ = false;
  std::atomic<bool> abort_{false};

  int rounds_ = 0;  // of the conversation
  int round_ = 0, generated_ = 0, passes_ = 0, verify_passes_ = 0, last_slot_ = 0;  // of the reply
  int32_t drafted_ = kNone;
  std::vector<int32_t> emitted_;
};

}  // namespace specbound::test
