#include "tune/guess_cases.h"

#include <algorithm>

#include "decode/generate.h"
#include "drafters/specbound.h"
#include "drafters/tree_speculator.h"
#include "error.h"

namespace specbound {

std::optional<GuessCases> guess_cases(Backend& backend, const ExitHeads& heads,
                                      const HeadDefaults& settings,
                                      std::span<const TuningText> texts,
                                      const GuessOptions& options) {
  TrainedHead head(heads, settings.kind);
  SpecBound guesser(head, params_of(settings), backend.config().n_layers);
  LookupMemory memory(false);
  memory.give(heads.text());
  TreeSpeculator tree(&guesser, &memory, kMaxRows, true);
  GuessCases found;
  std::vector<OddsCase>& cases = found.cases;
  int dialogue = 0;
  tree.set_observer([&](const CandidateOdds::Features& features, bool right) {
    if (features.guess < 0 && features.against < 0) return;
    cases.push_back({features, right, dialogue});
  });
  for (size_t i = 0; i < texts.size(); ++i) {
    const TuningText& text = texts[i];
    if (options.progress) options.progress(static_cast<int>(i), static_cast<int>(texts.size()));
    dialogue = text.dialogue;
    const size_t before = cases.size();
    backend.truncate(0);
    Session session(backend, Sampler(text.sampling));
    session.set_speculator(&tree);
    GenerateOptions generate;
    generate.max_tokens = text.budget;
    generate.is_end = options.is_end;
    generate.abort = options.abort;
    const auto prompt = std::span(text.tokens).first(static_cast<size_t>(text.prompt_tokens));
    if (session.generate(prompt, generate).stop == StopReason::kAborted) return std::nullopt;
    if (std::ranges::equal(session.tokens(), text.tokens)) continue;
    // A GPU reads prompts by other kernels than those that wrote the turns before, and may go on
    // otherwise: nothing here is known of that text.
    cases.resize(before);
    ++found.left_out;
  }
  backend.truncate(0);
  return found;
}

}  // namespace specbound
