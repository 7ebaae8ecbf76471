// Which layer runs which rows, together with which others: the paper's Figures 2 and 5 (DESIGN 3.2)
// and the edges of the drafting loop, from the passes that rounds report.
#include "decode/round.h"

#include <doctest/doctest.h>

#include <optional>

#include "decode/forced_head.h"
#include "decode/generate.h"
#include "decode/specbound.h"
#include "engine_rig.h"

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kLayers = 8;
constexpr auto kDraft = Phase::kDraft, kVerify = Phase::kVerify;

const TinyModel& model() {
  static const TinyModel model([] {
    TinySpec spec;
    spec.n_layers = kLayers;
    spec.type = DType::kQ8_0;
    return spec;
  }());
  return model;
}

std::unique_ptr<Backend> backend(int n_ctx = 0) {
  return model().backend(best_isa(), 1, true, n_ctx);
}

Sampler greedy() {
  SamplingParams params;
  params.temperature = 0;
  return Sampler(params);
}

// A round as it was, out of the loop's storage.
struct Seen {
  DraftEnd draft_end;
  std::vector<LayerPass> passes;
  int rows, emitted;
};

// Rounds of a reply of `n` tokens to `prompt`, rows leaving at `exits` in turn (0: nowhere) with
// the right token, or a wrong one where the layer is negative.
std::vector<Seen> rounds(Backend& backend, const SpecBoundParams& params, std::vector<int> exits,
                         int n, const std::vector<int32_t>& prompt = token_ids(9, 97)) {
  GenerateOptions options;
  options.max_tokens = n;
  Session plain(backend, greedy());
  plain.generate(prompt, options);
  const std::vector<int32_t> text(plain.tokens().begin(), plain.tokens().end());

  size_t next = 0;
  ForcedHead head([&](const Round& round) {
    const int exit = next < exits.size() ? exits[next++] : 0;
    const size_t at = round.history(round.newest()).size();
    const int32_t right = at < text.size() ? text[at] : 0;
    return ForcedExit{.layer = std::abs(exit), .token = exit < 0 ? (right + 1) % 97 : right};
  });
  SpecBound speculator(head, params, kLayers);
  Session session(backend, greedy());
  session.set_speculator(&speculator);
  std::vector<Seen> seen;
  options.on_round = [&](const RoundEvent& round) {
    seen.push_back({round.draft_end,
                    {round.passes.begin(), round.passes.end()},
                    static_cast<int>(round.rows.size()),
                    static_cast<int>(round.tokens.size())});
  };
  session.generate(prompt, options);
  CHECK(std::vector<int32_t>(session.tokens().begin(), session.tokens().end()) == text);
  return seen;
}

SpecBoundParams figure_params() {
  SpecBoundParams params;
  params.w_max = 4;
  params.d_max = 6;
  return params;
}

}  // namespace

TEST_CASE("Figure 2: exits at 2 and 4, then a difficult row") {
  SpecBoundParams params = figure_params();
  params.check_layers = {2, 4, 6};
  const auto engine = backend();
  const Seen round = rounds(*engine, params, {2, 4, 0}, 12)[0];
  CHECK(round.draft_end == DraftEnd::kDifficult);
  CHECK(round.rows == 3);
  CHECK(round.emitted == 3);
  CHECK(round.passes ==
        std::vector<LayerPass>{{1, 2, 0, 1, kDraft},           // "I" leaves at 2
                               {1, 2, 1, 1, kDraft},           // "am", alone where "I" has been
                               {3, 4, 0, 2, kDraft},           // "I" catches up, "am" leaves at 4
                               {1, 2, 2, 1, kDraft},           // "a"
                               {3, 4, 2, 1, kDraft},           //
                               {5, 6, 0, 3, kDraft},           // difficult: stopped at d_max
                               {7, kLayers, 0, 3, kVerify}});  // all three, weights read once
}

TEST_CASE("Figure 5: exits at 2, 4 and 6, then the width bound") {
  SpecBoundParams params = figure_params();
  params.check_layers = {2, 4, 6};
  const auto engine = backend();
  const Seen round = rounds(*engine, params, {2, 4, 6, 2}, 12)[0];
  CHECK(round.draft_end == DraftEnd::kWidth);
  CHECK(round.rows == 4);
  CHECK(round.emitted == 4);
  CHECK(round.passes == std::vector<LayerPass>{{1, 2, 0, 1, kDraft},
                                               {1, 2, 1, 1, kDraft},
                                               {3, 4, 0, 2, kDraft},
                                               {1, 2, 2, 1, kDraft},
                                               {3, 4, 2, 1, kDraft},
                                               {5, 6, 0, 3, kDraft},
                                               {1, 6, 3, 1, kVerify},  // row 4, never checked
                                               {7, kLayers, 0, 4, kVerify}});
}
