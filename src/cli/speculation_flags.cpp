#include "cli/speculation_flags.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string_view>

#include "cli/common_flags.h"
#include "drafters/draft_model.h"
#include "drafters/lookahead.h"
#include "drafters/ngram.h"
#include "error.h"
#include "model/exit_heads.h"

namespace specbound {

namespace {

constexpr const char* kSpeculation = "Speculation";
constexpr const char* kAllLayers = "all";

// The parts of "2,4-8", ascending and apart from each other. As many as the text has, whatever
// numbers it names: no model has more layers than an int counts. `or_what` ends what was expected.
std::vector<LayerRange> layer_ranges(const char* flag, std::string_view text, const char* or_what) {
  std::vector<LayerRange> ranges;
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kUsage,
                format("%s: expected ascending layers like 2,4,6 or 1-10%s, found \"%s\"%s%s", flag,
                       or_what, printable(text).c_str(), why.empty() ? "" : ": ", why.c_str()));
  };
  std::optional<uint64_t> before;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view part = text.substr(at, comma - at);
    at = comma + 1;
    if (part.empty()) refuse(text.empty() ? "" : "a part is empty");
    const size_t dash = part.find('-');
    const std::optional<uint64_t> first = parse_uint(part.substr(0, dash));
    const std::optional<uint64_t> last =
        dash == std::string_view::npos ? first : parse_uint(part.substr(dash + 1));
    const std::string shown = printable(part);
    if (!first || !last) refuse("\"" + shown + "\" is no layer");
    if (*last < *first) refuse(shown + " runs backwards");
    if (before && *first <= *before) {
      refuse(format("%s after %llu", shown.c_str(), static_cast<unsigned long long>(*before)));
    }
    constexpr uint64_t kMax = std::numeric_limits<int>::max();
    ranges.push_back(
        {static_cast<int>(std::min(*first, kMax)), static_cast<int>(std::min(*last, kMax))});
    before = *last;
  }
  return ranges;
}

// Layers; `all`: the word all may stand for those that there are, and is no range.
Flag& add_layers(Flags& flags, const char* name, bool all,
                 std::optional<std::vector<LayerRange>>& value, const std::string& description) {
  const auto read = [name, all, &value](const std::string& text) {
    value = all && text == kAllLayers ? std::vector<LayerRange>()
                                      : layer_ranges(name, text, all ? ", or all" : "");
    return true;
  };
  return flags.add_read(name, "layers", read, description).type("LIST");
}

template <class Number>
Flag& add_number(Flags& flags, const char* name, const char* type, const SpecBoundOptions& options,
                 std::optional<Number>& value, const std::string& description) {
  const char* expected = std::is_same_v<Number, int> ? "a whole number" : "a number";
  const auto check = [&options] { validate(options.without_layers({}), 1); };
  return add_checked<Number>(flags, name, value, expected, check, description).type(type);
}

// A whole number from 1 on, whatever is too large for an int as the largest.
Flag& add_count(Flags& flags, const char* name, const char* expected, std::optional<int>& value,
                const std::string& description) {
  const auto read = [&value](const std::string& text) {
    const std::optional<int64_t> number = parse_int(text);
    if (!number || *number < 1) return false;
    value = static_cast<int>(std::min<int64_t>(*number, std::numeric_limits<int>::max()));
    return true;
  };
  return flags.add_read(name, expected, read, description);
}

void add_on_off(Flags& flags, const char* name, std::optional<bool>& value,
                const std::string& description) {
  flags.add_choice(name, value, {{"on", true}, {"off", false}}, description);
}

}  // namespace

void add_exit_flags(Flags& flags, SpecBoundOptions& options) {
  const Flags::Group group(flags, kSpeculation);
  const SpecBoundParams defaults;
  flags
      .add_choice(
          "--preset", options.preset,
          {{"tuned", Preset::kTuned}, {"shipped", Preset::kShipped}, {"paper", Preset::kPaper}},
          "settings that no flag gives: what specbound tune found for this model and machine "
          "(default, where it ran), the heads file's, or the SpecBound paper's: 8 rows, "
          "layers 1-10, alpha 0.2, tau 0.55")
      .overrides({"w-max", "d-max", "alpha", "tau", "check-layers", "shortlist", "confidence",
                  "head", "no-anneal", "anneal-learned", "no-depth-bound", "no-width-bound",
                  "no-siblings"});
  add_number(
      flags, "--d-max", "LAYER", options, options.d_max,
      format("deepest layer that a draft may leave at (default: the preset's; the paper's: %d)",
             defaults.d_max));
  add_number(
      flags, "--tau", "P", options, options.tau,
      format("confidence at which a draft leaves; higher drafts less and better (default: the "
             "preset's; the paper's: %g)",
             defaults.tau));
  add_number(
      flags, "--alpha", "X", options, options.alpha,
      format("lowers the confidence of shallow layers, which are too sure: T = 1 + alpha "
             "(1 - layer/layers) divides their logits (default: the preset's; the paper's: %g)",
             defaults.alpha))
      .overrides({"anneal-learned"});
  add_layers(flags, "--check-layers", true, options.check_layers,
             "layers that are checked for a way out: 2,4,6 or 1-10 or 2,4-8 or all (default: the "
             "preset's; with adadecode those at 1/4, 1/2 and 3/4 of the depth)");
  flags.add_switch("--no-anneal", options.no_anneal, "ablation: T = 1 at every layer")
      .overrides({"anneal-learned"});
  flags.add_switch("--no-depth-bound", options.no_depth_bound,
                   "ablation: drafts may leave at any check layer");
}

void add_drafter_flags(Flags& flags, SpeculationOptions& options) {
  const Flags::Group group(flags, kSpeculation);
  add_exit_flags(flags, options.specbound);
  flags
      .add_switch("--anneal-learned", options.specbound.anneal_learned,
                  "ablation: T as each head's own validation has it; 1 of the logit lens")
      .overrides({"alpha", "no-anneal"});
  add_number(
      flags, "--w-max", "N", options.specbound, options.specbound.w_max,
      format(
          "rows verified together at most, 1-%d (default: the preset's; the paper's: %d; 1 never "
          "drafts)",
          kMaxRows, SpecBoundParams().w_max));
  flags.add_switch("--no-width-bound", options.specbound.no_width_bound,
                   format("ablation: up to %d rows, the most there is", kMaxRows));
  flags
      .add_file("--heads", options.heads,
                "trained exit heads (default: NAME.heads.gguf beside the model NAME.gguf, or those "
                "that come with the program for a pulled one)")
      .type("FILE.gguf");
  std::vector<std::string> kinds;
  for (const HeadKind kind : kHeadKinds) kinds.emplace_back(head_kind_name(kind));
  kinds.emplace_back("lens");
  flags.add_word(
      "--head", options.head, kinds,
      "what guesses: full, folded or chained heads of the file, its draft layer, its "
      "Medusa or Hydra heads, its EAGLE or EAGLE-3 layer or the model's own of multi-token "
      "prediction, mtp, or its Kangaroo adapter (default: the file's choice); or the logit lens, "
      "which needs no training");
  add_count(flags, "--shortlist", "a number of tokens", options.shortlist,
            "likely tokens that a head guesses among, a multiple of 16 (default: the preset's)")
      .type("N");
  flags.add_choice(
      "--confidence", options.rule,
      {{"p", ConfidenceRule::kPeak}, {"margin", ConfidenceRule::kMargin}},
      "what tau is compared with: the likeliest token's share (default), or the chance "
      "to be right by its margin over the second one under the sampler's noise");
  flags.add_int("--ngram-max", options.ngram_max, 1, NgramSpeculator::kMaxNgram,
                format("with ngram: tokens looked up at most (default %d)", options.ngram_max));
  add_count(flags, "--exit-layer", "a layer from 1 on", options.exit_layer,
            "with layerskip: where every draft leaves (default: at 1/4 of the depth)")
      .type("LAYER");
  add_layers(flags, "--skip-layers", false, options.skip_layers,
             "with draft-verify: layers left out while drafting (default: every second one from 3 "
             "on, but for the last two)");
  const auto read_lookahead = [&options](const std::string& text) {
    LookaheadParams params;
    std::istringstream parts(text + ",");
    for (int* number : {&params.window, &params.ngram, &params.guesses}) {
      std::string part;
      std::getline(parts, part, ',');
      const std::optional<int64_t> found = parse_int(part);
      if (!found || *found < 0 || *found > kMaxRows) return false;
      *number = static_cast<int>(*found);
    }
    if (parts.peek() != std::istringstream::traits_type::eof()) return false;
    validate(params);
    options.lookahead = params;
    return true;
  };
  flags
      .add_read("--lookahead", format("W,N,G, numbers up to %d", kMaxRows), read_lookahead,
                format("with lookahead: columns of the window, tokens of an n-gram, n-grams tried, "
                       "of which (W + G) (N - 1) rows come, up to %d (default %s)",
                       kMaxRows, lookahead_text(LookaheadParams()).c_str()))
      .type("W,N,G");
  flags
      .add_file("-md,--model-draft", options.draft_model,
                "a smaller model with the same vocabulary: auto asks it where lookups are unsure, "
                "in place of exit heads; with draft it drafts alone, --tau is then about its "
                "likeliest token" +
                    format(" (default %g)", DraftModel::kTau))
      .type("FILE.gguf");
  flags
      .add_file("--datastore", options.datastore,
                "texts to look up in, as specbound datastore build makes them: auto looks up there "
                "too; rest drafts from it alone (default: none)")
      .type("FILE.datastore");
  flags.add_choice("--accept", options.acceptance,
                   {{"coupled", Acceptance::kCoupled},
                    {"rejection", Acceptance::kRejection},
                    {"typical", Acceptance::kTypical}},
                   "coupled (default) draws draft and target with the same noise and gives plain "
                   "decoding's text; with draft, rejection is the classic min(1, p/q) rule: the "
                   "same probabilities, another text; with medusa or hydra, typical keeps what "
                   "the model holds for likely enough: another text, of other probabilities, "
                   "above --temp 0");
  flags.add_switch("--fixed-tree", options.fixed_tree,
                   "with medusa or hydra: drafts at the first places of Medusa's fixed tree in "
                   "place of the likeliest");
  flags.add_int("--siblings", options.siblings, 1, kMaxProposals,
                "with --accept rejection: drafts of each place, judged one after the other "
                "(default 1)");
}

void add_speculation_flags(Flags& flags, SpeculationOptions& options) {
  const Flags::Group group(flags, kSpeculation);
  add_on_off(flags, "--spec", options.on,
             "tokens are drafted, and all layers verify several together: the same text in fewer "
             "passes (default: on)");
  std::vector<std::string> names = speculators();
  names.insert(names.begin(), "none");
  const auto read_speculator = [&options, names](const std::string& text) {
    if (text == "forced") {
      throw Error(ErrorCode::kUsage, "--speculator: forced drafts only in specbound verify");
    }
    if (text == "off") {
      throw Error(ErrorCode::kUsage, "--speculator: expected none for plain decoding, found off");
    }
    options.speculator = text;
    return std::ranges::count(names, text) > 0;
  };
  flags
      .add_read(
          "--speculator", or_list(names), read_speculator,
          "what drafts (default auto): none decodes plainly; auto is all there is in one tree, "
          "best first: what came after the same tokens before, and exit heads or a draft model "
          "where asking them pays; specbound is exit heads alone; ngram one lookup, the longest; "
          "layerskip drafts at one layer, adadecode at any of three without bounds, draft-verify "
          "with layers left out; lookahead iterates on a window of guesses; rest looks up in a "
          "datastore alone; draft is a second "
          "model; medusa, hydra, eagle, eagle3 and mtp are trees by heads of the published forms "
          "(specbound convert --heads; all but mtp train-heads --kinds too), kangaroo the first "
          "layers and such an adapter behind them, until it is unsure (--tau, default 0.6); space "
          "guesses behind mask tokens in the verifying pass")
      .type(bar_list(names));
  add_drafter_flags(flags, options);
  add_on_off(flags, "--remember", options.remember,
             "with auto: look up in replies to other prompts too (default: on in chat, gui and "
             "serve, off elsewhere)");
  flags.add_switch("--no-siblings", options.no_siblings,
                   "ablation, with auto: one draft behind each row, a chain in place of a tree");
  add_on_off(flags, "--controller", options.controller,
             "with auto: on (default), draft while the expected gain exceeds the measured cost, "
             "within --w-max, --d-max and --check-layers; with --tau, --alpha, "
             "--no-anneal or --anneal-learned heads draft by these first; off: nothing is "
             "measured, rounds are filled, heads draft by --tau");
}

}  // namespace specbound
