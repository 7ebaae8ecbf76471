#include "tune/measure_speedup.h"

#include <algorithm>

#include "decode/generate.h"
#include "drafters/specbound.h"
#include "error.h"
#include "trace/statistics.h"

namespace specbound {

namespace {

double price(const RoundEvent& round, const CostModel& costs, const HeadDefaults& settings,
             bool greedy) {
  const int tokens = settings.kind == HeadKind::kFull ? costs.vocab_size : settings.shortlist;
  const int rows = static_cast<int>(round.rows.size());
  double seconds = costs.round + costs.logits[rows] + rows * costs.row +
                   static_cast<double>(round.tokens.size()) * costs.target(greedy);
  for (const LayerPass& pass : round.passes) {
    seconds += costs.run(pass.from, pass.to, pass.rows);
  }
  size_t checks = 0;
  for (const RowEvent& row : round.rows) checks += row.checks.size();
  seconds += static_cast<double>(checks) * costs.check(head_kind_name(settings.kind), tokens);
  if (!greedy) seconds += round.drafted() * costs.check(CostModel::kDraw, tokens);
  return seconds;
}

}  // namespace

MeasuredSpeedup measure_speedup(Backend& backend, const ExitHeads& heads,
                                const HeadDefaults& settings, const CostModel& costs,
                                std::span<const TuningText> texts,
                                const MeasureSpeedupOptions& options) {
  TrainedHead head(heads, settings.kind);
  SpecBound speculator(head, params_of(settings), backend.config().n_layers);

  MeasuredSpeedup out;
  std::vector<double> ratios;
  const int total = static_cast<int>(texts.size()) * options.repeats;
  for (const TuningText& text : texts) {
    const auto prompt = std::span<const int32_t>(text.tokens).first(text.prompt_tokens);
    const bool greedy = text.sampling.temperature == 0;
    std::vector<double> plain, speculative, ratio;
    Session session(backend, Sampler(text.sampling));
    backend.truncate(0);
    for (int i = 0; i < options.repeats; ++i) {
      if (options.progress) {
        options.progress(out.replies * options.repeats + i, total);
      }
      GenerateOptions generate;
      generate.max_tokens = text.budget;
      generate.is_end = options.is_end;
      generate.abort = options.abort;
      session.set_speculator(nullptr);
      const GenerateStats p = session.generate(prompt, generate);
      const std::vector<int32_t> expected(session.tokens().begin(), session.tokens().end());
      const bool first = i == 0;
      if (first) {
        generate.on_round = [&](const RoundEvent& round) {
          out.priced_seconds += price(round, costs, settings, greedy);
          out.rows += static_cast<int64_t>(round.rows.size());
          const TokenEvent& last = round.tokens.back();
          if (last.draft >= 0 && !last.accepted()) ++out.rejecting_rounds;
        };
      }
      session.set_speculator(&speculator);
      const GenerateStats s = session.generate(prompt, generate);
      if (p.stop == StopReason::kAborted || s.stop == StopReason::kAborted) {
        out.complete = false;
        return out;
      }
      SB_CHECK(std::equal(expected.begin(), expected.end(), session.tokens().begin(),
                          session.tokens().end()));
      if (first) out.counters.add(s.counters);
      plain.push_back(p.decode_seconds);
      speculative.push_back(s.decode_seconds);
      if (s.decode_seconds > 0) ratio.push_back(p.decode_seconds / s.decode_seconds);
    }
    out.plain_seconds += median(plain);
    out.speculative_seconds += median(speculative);
    ratios.push_back(median(ratio));
    ++out.replies;
  }
  out.speedup = median(ratios);
  return out;
}

}  // namespace specbound
