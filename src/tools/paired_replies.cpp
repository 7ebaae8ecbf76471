#include "tools/paired_replies.h"

#include <algorithm>

#include "error.h"
#include "json/json_writer.h"
#include "tools/cost_report.h"

namespace specbound {

namespace {

using Json = nlohmann::ordered_json;

template <class Of>
double median_of(const std::vector<TimedReply>& replies, Of of) {
  std::vector<double> values;
  for (const TimedReply& reply : replies) values.push_back(of(reply));
  return median(values);
}

double total_seconds(const TimedReply& reply) {
  return reply.total_seconds;
}

double decode_seconds(const TimedReply& reply) {
  return reply.decode_seconds;
}

SideFigures side_of(const std::vector<TimedReply>& replies, const ModelBytes& bytes) {
  SideFigures side;
  if (replies.empty()) return side;
  const TimedReply& first = replies.front();
  side.tokens = first.timed_tokens();
  side.prefilled = first.stats.prefilled_tokens;
  side.prefill_seconds = median_of(replies, [](const auto& r) { return r.prefill_seconds; });
  side.decode_seconds = median_of(replies, decode_seconds);
  side.total_seconds = median_of(replies, total_seconds);
  side.ttft_seconds = median_of(replies, [](const auto& r) { return r.ttft_seconds; });
  side.tpot_seconds = median_of(replies, [](const auto& r) { return r.tpot_seconds(); });
  // Positions before the rows that gave tokens: the first of these was the prompt's last.
  const double context = first.stats.prompt_tokens - 1 + 0.5 * (side.tokens - 1);
  side.bytes = side.tokens * bytes.token(context);
  for (const TimedReply& reply : replies) {
    side.counters.add(reply.stats.counters);
    side.places.add(reply.stats.places);
  }
  return side;
}

void add(SideFigures& sum, const SideFigures& one) {
  sum.tokens += one.tokens;
  sum.prefilled += one.prefilled;
  sum.prefill_seconds += one.prefill_seconds;
  sum.decode_seconds += one.decode_seconds;
  sum.total_seconds += one.total_seconds;
  sum.ttft_seconds += one.ttft_seconds;
  sum.tpot_seconds += one.tpot_seconds;
  sum.bytes += one.bytes;
  sum.counters.add(one.counters);
  sum.places.add(one.places);
}

template <class Of>
RatioInterval ratio_over(const std::vector<PromptFigures>& prompts, Of of, bool other_first) {
  std::vector<double> plain, speculative;
  for (const PromptFigures& prompt : prompts) {
    plain.push_back(of(prompt.plain));
    speculative.push_back(of(prompt.speculative));
  }
  return other_first ? ratio_of_sums(speculative, plain) : ratio_of_sums(plain, speculative);
}

Json side_json(const SideFigures& side, const ReadBandwidth* bandwidth) {
  const auto share = bandwidth ? bandwidth->share(side.bytes_rate()) : std::nullopt;
  return {{"prefill_tokens_per_second", side.prefill_rate()},
          {"decode_tokens_per_second", side.decode_rate()},
          {"tokens_per_second", side.total_rate()},
          {"ttft_seconds", side.ttft_seconds},
          {"tpot_seconds", side.tpot_seconds},
          {"prefill_seconds", side.prefill_seconds},
          {"decode_seconds", side.decode_seconds},
          {"total_seconds", side.total_seconds},
          {"bytes_per_second", side.bytes_rate()},
          {"share_of_read_bandwidth", or_null(share)},
          {"rounds", side.counters.rounds},
          {"phase_seconds", phases_json(measured_seconds(side.counters))}};
}

Json drafting_json(const SideFigures& side) {
  Json acceptance = Json::array();
  for (size_t i = 0; i < side.places.drafted.size(); ++i) {
    const int right = i < side.places.accepted.size() ? side.places.accepted[i] : 0;
    const int drafted = side.places.drafted[i];
    acceptance.push_back(drafted > 0 ? Json(static_cast<double>(right) / drafted) : Json());
  }
  return {{"compression_rate", side.compression_rate()},
          {"mean_exit_layer", or_null(side.counters.mean_exit_layer())},
          {"drafted_tokens", side.counters.drafted_tokens},
          {"accepted_tokens", side.counters.accepted_tokens},
          {"drafted_by_position", side.places.drafted},
          {"acceptance_by_position", std::move(acceptance)}};
}

Json ratio_json(double ratio, double low, double high) {
  return {{"ratio", ratio}, {"low", low}, {"high", high}};
}

Json ratio_json(const Spread& spread) {
  return ratio_json(spread.median, spread.min, spread.max);
}

Json ratio_json(const RatioInterval& ratio) {
  return ratio_json(ratio.ratio, ratio.low, ratio.high);
}

// What both kinds of record have, behind what each begins with.
void add_sides(Json& record, const SideFigures& plain, const SideFigures& speculative,
               const ReadBandwidth& bandwidth) {
  record["plain"] = side_json(plain, &bandwidth);
  // It reads less for its tokens than the bytes that it is credited with.
  record["speculative"] = side_json(speculative, nullptr);
  record["speculative"].update(drafting_json(speculative));
}

}  // namespace

bool PairedPrompt::identical() const {
  const auto same = [&](const TimedReply& reply) { return reply.same_text(base.front()); };
  return base.empty() || (std::all_of(base.begin(), base.end(), same) &&
                          std::all_of(other.begin(), other.end(), same));
}

std::vector<double> PairedPrompt::ratios(double (*seconds)(const TimedReply&)) const {
  SB_CHECK(base.size() == other.size());
  std::vector<double> found;
  for (size_t i = 0; i < base.size(); ++i) {
    const double divisor = seconds(other[i]);
    found.push_back(divisor > 0 ? seconds(base[i]) / divisor : 0);
  }
  return found;
}

bool base_first(size_t prompt, int repetition) {
  return (prompt + static_cast<size_t>(repetition)) % 2 == 0;
}

std::vector<PairedPrompt> time_pairs(size_t n_prompts, int repetitions, const PairedSides& sides) {
  std::vector<PairedPrompt> pairs(n_prompts);
  if (n_prompts > 0) {
    sides.base(0);
    sides.other(0);
  }
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    for (size_t i = 0; i < n_prompts; ++i) {
      if (base_first(i, repetition)) {
        pairs[i].base.push_back(sides.base(i));
        pairs[i].other.push_back(sides.other(i));
      } else {
        pairs[i].other.push_back(sides.other(i));
        pairs[i].base.push_back(sides.base(i));
      }
    }
  }
  return pairs;
}

PromptFigures prompt_figures(const std::string& name, const PairedPrompt& pairs,
                             const ModelBytes& bytes) {
  PromptFigures out;
  out.name = name;
  out.plain = side_of(pairs.base, bytes);
  out.speculative = side_of(pairs.other, bytes);
  if (!pairs.base.empty()) {
    out.prompt_tokens = pairs.base.front().stats.prompt_tokens;
    out.tokens = pairs.base.front().timed_tokens();
    out.stop = pairs.base.front().stats.stop;
  }
  out.identical = pairs.identical();
  out.speedup = spread_of(pairs.ratios(total_seconds));
  out.decode_speedup = spread_of(pairs.ratios(decode_seconds));
  return out;
}

OverallFigures overall_figures(const std::vector<PromptFigures>& prompts) {
  OverallFigures out;
  out.prompts = static_cast<int>(prompts.size());
  std::vector<double> speedups;
  for (const PromptFigures& prompt : prompts) {
    out.identical = out.identical && prompt.identical;
    out.slower += prompt.speedup.median < 1 ? 1 : 0;
    add(out.plain, prompt.plain);
    add(out.speculative, prompt.speculative);
    speedups.push_back(prompt.speedup.median);
  }
  const auto longer = std::count_if(prompts.begin(), prompts.end(),
                                    [](const PromptFigures& prompt) { return prompt.tokens > 1; });
  for (SideFigures* side : {&out.plain, &out.speculative}) {
    side->ttft_seconds /= std::max(1, out.prompts);
    side->tpot_seconds /= static_cast<double>(std::max<std::ptrdiff_t>(1, longer));
  }
  out.median_speedup = median(speedups);
  out.speedup = ratio_over(
      prompts, [](const SideFigures& s) { return s.total_seconds; }, false);
  out.decode_speedup = ratio_over(
      prompts, [](const SideFigures& s) { return s.decode_seconds; }, false);
  out.spec_bench_speedup = ratio_over(
      prompts, [](const SideFigures& s) { return s.total_rate(); }, true);
  return out;
}

Json prompt_record(const PromptFigures& figures, const ReadBandwidth& bandwidth) {
  Json record = {{"scope", "prompt"},
                 {"prompt", figures.name},
                 {"prompt_tokens", figures.prompt_tokens},
                 {"tokens", figures.tokens},
                 {"stop_reason", stop_reason_name(figures.stop)},
                 {"identical", figures.identical},
                 {"interval", "least and most of the pairs"},
                 {"speedup", ratio_json(figures.speedup)},
                 {"decode_speedup", ratio_json(figures.decode_speedup)}};
  add_sides(record, figures.plain, figures.speculative, bandwidth);
  record["spec_bench_speedup"] = {{"ratio", nullptr}, {"low", nullptr}, {"high", nullptr}};
  for (const char* of_all : {"median_speedup", "prompts", "slower_prompts"}) {
    record[of_all] = nullptr;
  }
  return record;
}

Json overall_record(const OverallFigures& figures, const ReadBandwidth& bandwidth) {
  Json record = {{"scope", "overall"},
                 {"prompt", nullptr},
                 {"prompt_tokens", nullptr},
                 {"tokens", static_cast<int64_t>(figures.plain.tokens)},
                 {"stop_reason", nullptr},
                 {"identical", figures.identical},
                 {"interval", "95 %, bootstrap over prompts"},
                 {"speedup", ratio_json(figures.speedup)},
                 {"decode_speedup", ratio_json(figures.decode_speedup)}};
  add_sides(record, figures.plain, figures.speculative, bandwidth);
  record["spec_bench_speedup"] = ratio_json(figures.spec_bench_speedup);
  record["median_speedup"] = figures.median_speedup;
  record["prompts"] = figures.prompts;
  record["slower_prompts"] = figures.slower;
  return record;
}

}  // namespace specbound
