// From a row of logits to a token, in one fixed order: grammar, bias with frequency and presence
// penalty, repetition penalty, top-k, top-p, min-p, temperature, then argmax(logit / T + G) with
// noise that depends only on the place (Gumbel-max coupling). docs/architecture.md 5. The same call
// serves plain decoding, drafts and verification.
//
// Defined to the last bit, so that the same row gives the same token on any machine:
//   order    (logit descending, id ascending); NaN counts as -inf; ties go to the lowest id
//   grammar  -inf for tokens that may not follow the reply so far (grammar/token_grammar.h); where
//            no other has a logit above -inf, 0 for the lowest id that may
//   bias     l + (bias - (n * frequency + presence)) in double, then rounded to float: n counts the
//            token in the reply so far, the prompt left out; presence is 0 where n is; tokens with
//            neither a bias nor an n keep their bits
//   penalty  in float, once per distinct token of the last repeat_last_n, prompt and reply alike:
//            l > 0 ? l / p : l * p
//   top-k    the first k of the order
//   top-p    weights exp(l - max) in double, Z their sum by ascending id; shortest prefix of the
//            order, at least one token, whose sum in that order reaches top_p * Z
//   min-p    l - max >= log(min_p)
//   score    double(l) / double(T) + double(G)
// Filters see probabilities at temperature 1. A logit of +inf takes all probability (the lowest id
// of several). A row without any logit above -inf gives token 0.
//
// A row may speak of some tokens only (an exit head's shortlist): `ids` then says whose logit each
// one is, and the rest of the vocabulary is not there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/backend.h"
#include "grammar/token_grammar.h"
#include "numerics/noise.h"
#include "numerics/top_logits.h"

namespace specbound {

struct LogitBias {
  int32_t id;
  float bias;
};

struct SamplingParams {
  float temperature = 0.8f;     // 0: greedy, argmax
  int top_k = 40;               // 0: off
  float top_p = 0.95f;          // 1: off
  float min_p = 0.05f;          // 0: off
  float repeat_penalty = 1.0f;  // 1: off
  int repeat_last_n = 64;       // tokens of history that are penalized; 0: off, -1: all
  uint64_t seed = 0;
  float frequency_penalty = 0;  // taken from a token's logit for each time the reply has it
  float presence_penalty = 0;   // taken once where the reply has it
  std::vector<LogitBias> logit_bias = {};                 // each id once, below vocab_size
  std::shared_ptr<const TokenGrammar> grammar = nullptr;  // what replies are held to; none: nothing
};

// Throws Error(kUsage) naming the flag, the range and what was given.
void validate(const SamplingParams& params);

inline SamplingParams greedy_sampling() {
  SamplingParams params;
  params.temperature = 0;
  return params;
}

// The token of the largest logit by the order above. `ids` as for Sampler::sample.
int32_t greedy_token(std::span<const float> logits, std::span<const int32_t> ids = {});

// The distribution that a token is drawn by, after penalty, filters and temperature.
struct TokenDistribution {
  std::vector<int32_t> ids;           // ascending; all others have no chance
  std::vector<double> probabilities;  // [ids], each above 0; they add up to 1

  double of(int32_t id) const;
};

class Sampler {
 public:
  // `params` must pass validate().
  explicit Sampler(const SamplingParams& params);

  // From now on the reply, whose tokens frequency and presence penalty count and which a grammar
  // speaks of, begins behind so many tokens of each history; before that it is all of it.
  void begin_reply(size_t n_prompt) { n_prompt_ = n_prompt; }

  // The token drawn at `place` from `logits` (vocab_size >= 1; left as they are). `history`: the
  // tokens before this one, oldest first, each below vocab_size. `ids`: the tokens of the logits,
  // each once; empty: 0, 1, 2, ... `margin`: by how much the token won over the second one, in
  // logit / T + G (greedy: logit); infinite without a second one.
  int32_t sample(std::span<const float> logits, std::span<const int32_t> history,
                 const DrawPlace& place, std::span<const int32_t> ids = {},
                 double* margin = nullptr);

  // The distribution that sample() follows over all places, for a temperature above 0. `ids` as
  // there.
  void distribution(std::span<const float> logits, std::span<const int32_t> history,
                    TokenDistribution& out, std::span<const int32_t> ids = {});

  // The token of sample() from the head of a row whose logits have been penalized already; nothing
  // where the head does not decide it. `weighed`: it holds weights too.
  std::optional<int32_t> sample_top(const TopLogits& top, bool weighed, const DrawPlace& place,
                                    double* margin = nullptr);

  // ---- of a grammar; without one nothing is forbidden and nothing ends a reply ----

  // `token` may follow `history`.
  bool may_follow(std::span<const int32_t> history, int32_t token);
  // The token is one that ends replies.
  bool is_end(int32_t token) const { return params_.grammar && params_.grammar->ends(token); }
  // The reply ends with the last token of `text`: it is such a token, or nothing can follow it.
  bool ends(std::span<const int32_t> text);
  // What hardly anything else can take the place of, behind `history`.
  TokenGrammar::Forced forced(std::span<const int32_t> history);
  // Throws Error(kUnsupported) where `token`, the target behind `history`, may not follow, as the
  // vocabulary has none that does, or where the grammar is too ambiguous to know.
  void check_target(std::span<const int32_t> history, int32_t token);

  // Whether a grammar, a bias or penalties of the reply change logits: DrawRule knows nothing of
  // those, so that no backend can draw.
  bool changes_logits() const {
    return counts_ || !params_.logit_bias.empty() || params_.grammar != nullptr;
  }
  // What a backend that draws needs of this sampler, and the same token from what it finds; nothing
  // where that does not decide.
  DrawRule rule(uint32_t reply) const;
  // The same for rows whose texts the backend does not have; nullopt where a draw would look back,
  // and where the head of a row would seldom decide.
  std::optional<DrawRule> rule_without_text(uint32_t reply) const;
  std::optional<int32_t> take(const RowDraw& draw, const DrawPlace& place,
                              double* margin = nullptr);

  const SamplingParams& params() const { return params_; }
  // Where in the noise the token after `history` is drawn, in reply `reply`.
  DrawPlace place(uint32_t reply, std::span<const int32_t> history) const {
    return {params_.seed, reply, static_cast<uint32_t>(history.size())};
  }

 private:
  struct Candidate {
    float logit;  // never NaN
    int32_t id;
  };
  static bool precedes(const Candidate& a, const Candidate& b);
  static bool by_id(const Candidate& a, const Candidate& b);

  // What is added to a token's logit, where it is `there`.
  struct Change {
    bool there = false;
    float bias = 0;
    int32_t n = 0;  // times that the reply has it
  };
  Change& change(int32_t id);
  std::span<const float> before_filters(std::span<const float> logits,
                                        std::span<const int32_t> history,
                                        std::span<const int32_t> ids);
  std::span<const int32_t> reply(std::span<const int32_t> history) const {
    return history.subspan(std::min(n_prompt_, history.size()));
  }
  std::span<const float> allow(std::span<const float> logits, std::span<const int32_t> history,
                               std::span<const int32_t> ids);
  std::span<const float> apply_changes(std::span<const float> logits,
                                       std::span<const int32_t> history,
                                       std::span<const int32_t> ids);
  std::span<const float> penalize(std::span<const float> logits, std::span<const int32_t> history,
                                  std::span<const int32_t> ids);
  void filter(std::span<const float> logits, std::span<const int32_t> ids);
  void collect_all(std::span<const float> logits, std::span<const int32_t> ids);
  void collect_top_k(std::span<const float> logits, std::span<const int32_t> ids);
  void keep_top_p();
  void keep_min_p();
  size_t top_p_prefix(double enough) const;
  size_t min_p_prefix() const;
  std::optional<size_t> kept_of_more(const TopLogits& top, bool weighed) const;
  int32_t draw(const DrawPlace& place, double* margin) const;

  SamplingParams params_;
  bool counts_;                        // frequency or presence penalty
  size_t n_prompt_ = 0;                // tokens of histories before the reply
  TokenGrammar::Path path_;            // how far the grammar has read the newest history
  std::vector<float> allowed_logits_;  // [logits] scratch
  std::vector<Change> changes_;        // [token], scratch: none there between calls
  std::vector<int32_t> changed_;       // the tokens of those that are there
  std::vector<float> changed_logits_;  // [logits] scratch
  std::vector<float> penalized_;       // [logits] scratch
  std::vector<uint8_t> said_;          // [token], scratch: zeros between calls
  std::vector<Candidate> candidates_;  // survivors, by ascending id between the steps
};

}  // namespace specbound
