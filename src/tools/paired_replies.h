// Two ways of answering the same prompts, timed in turn in one process, and the figures of it: of
// each prompt, over its repetitions, and over all prompts. Seconds and rates of a prompt are
// medians over its repetitions, those over all prompts come from the sums of these medians; rounds
// and drafts are counted over all repetitions.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/timed_reply.h"
#include "tools/bench_model.h"
#include "trace/counters.h"
#include "trace/statistics.h"

namespace specbound {

struct PairedSides {
  // The reply to prompts[i], plain and as it is to be compared. May throw, which ends everything.
  std::function<TimedReply(size_t prompt)> base, other;
};

struct PairedPrompt {
  std::vector<TimedReply> base, other;  // [repetition]; a pair ran one right after the other

  // Every reply of both sides is the first one of `base`, token for token.
  bool identical() const;
  // Of each pair: base over other of what `seconds` takes from a reply; above 1 is a gain. 0 where
  // the other took no time.
  std::vector<double> ratios(double (*seconds)(const TimedReply&)) const;
};

// Who goes first: of each prompt's repetitions every second one, of each repetition's prompts every
// second one (AB, BA, ...), so that no side has the warmer machine.
bool base_first(size_t prompt, int repetition);

// All prompts, then all again: a drift of the machine meets all of them alike, and what adapts to
// the texts meets varied ones. One pair of the first prompt runs before that and does not count.
std::vector<PairedPrompt> time_pairs(size_t n_prompts, int repetitions, const PairedSides& sides);

// One side of one prompt, or of all.
struct SideFigures {
  double tokens = 0, prefilled = 0;  // of one repetition; an end token counts
  double prefill_seconds = 0, decode_seconds = 0, total_seconds = 0;
  // Of all prompts: the mean; of TPOT over those with a second token.
  double ttft_seconds = 0, tpot_seconds = 0;
  // Bytes that plain decoding of these tokens reads: weights and cache. A speculative side that
  // reads less for its tokens may come above what the memory gives.
  double bytes = 0;
  Counters counters;
  DraftPlaces places;

  // A second; 0 where there was no time.
  double prefill_rate() const { return rate(prefilled, prefill_seconds); }
  double decode_rate() const { return rate(tokens, decode_seconds); }
  double total_rate() const { return rate(tokens, total_seconds); }
  double bytes_rate() const { return rate(bytes, decode_seconds); }
  double compression_rate() const { return rate(counters.decoded_tokens, counters.rounds); }
  double acceptance() const { return rate(counters.accepted_tokens, counters.drafted_tokens); }

 private:
  static double rate(double n, double per) { return per > 0 ? n / per : 0; }
};

struct PromptFigures {
  std::string name;
  int prompt_tokens = 0, tokens = 0;  // an end token counts
  StopReason stop = StopReason::kEnd;
  bool identical = true;  // all replies of both sides
  SideFigures plain, speculative;
  Spread speedup, decode_speedup;  // over the pairs: end to end, and from the end of prefill
};
// `bytes`: of the model that replied.
PromptFigures prompt_figures(const std::string& name, const PairedPrompt& pairs,
                             const ModelBytes& bytes);

struct OverallFigures {
  int prompts = 0, slower = 0;  // slower: with a median speedup below 1
  bool identical = true;
  SideFigures plain, speculative;
  RatioInterval speedup, decode_speedup;  // of the sums of seconds
  RatioInterval spec_bench_speedup;       // of the means of tokens a second, end to end
  double median_speedup = 0;              // of the prompts
};
OverallFigures overall_figures(const std::vector<PromptFigures>& prompts);

// Records of the same keys, for tables of programs.
nlohmann::ordered_json prompt_record(const PromptFigures& figures, const ReadBandwidth& bandwidth);
nlohmann::ordered_json overall_record(const OverallFigures& figures,
                                      const ReadBandwidth& bandwidth);

}  // namespace specbound
