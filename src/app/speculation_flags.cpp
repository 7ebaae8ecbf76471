#include "app/speculation_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

#include "decode/draft_model.h"
#include "decode/ngram.h"
#include "error.h"

namespace specbound {

namespace {

constexpr const char* kGroup = "Speculation";
constexpr const char* kAllLayers = "all";

// The parts of "2,4-8", ascending and apart from each other. As many as the text has, whatever
// numbers it names: no model has more layers than an int counts. `or_what` ends what was expected.
std::vector<LayerRange> parse_layers(const char* flag, std::string_view text, const char* or_what) {
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

// A setting whose values are words. `assign` knows them, `expected` names them.
template <class Assign>
CLI::Option* add_setting(CLI::App& app, const char* name, const std::string& expected,
                         const std::string& type, Assign assign, const std::string& description) {
  const auto read = [name, expected, assign](const std::string& text) {
    if (!assign(text)) {
      throw CLI::ValidationError(
          name, format("expected %s, found \"%s\"", expected.c_str(), printable(text).c_str()));
    }
  };
  return app.add_option_function<std::string>(name, read, description)
      ->type_name(type)
      ->group(kGroup);
}

// Layers; `all`: the word all may stand for those that there are, and is no range.
void add_layers(CLI::App& app, const char* name, bool all,
                std::optional<std::vector<LayerRange>>& value, const std::string& description) {
  const auto assign = [name, all, &value](const std::string& text) {
    try {
      value = all && text == kAllLayers ? std::vector<LayerRange>()
                                        : parse_layers(name, text, all ? ", or all" : "");
    } catch (const Error& e) {
      throw CLI::ValidationError(std::string(e.what()));
    }
    return true;
  };
  add_setting(app, name, "layers", "LIST", assign, description);
}

// A number. Its range is known to validate() alone: it looks at the settings once `value` has it.
template <class Number>
void add_number(CLI::App& app, const char* name, const char* type, const SpecBoundFlags& flags,
                std::optional<Number>& value, const std::string& description) {
  constexpr bool kWhole = std::is_same_v<Number, int>;
  const auto assign = [&flags, &value](const std::string& text) {
    std::optional<double> number = parse_number(text);
    if (kWhole && !parse_int(text)) number.reset();
    if (!number) return false;
    constexpr double kMax = std::numeric_limits<Number>::max();
    value = static_cast<Number>(std::clamp(*number, -kMax, kMax));
    try {
      validate(flags.without_layers({}), 1);
    } catch (const Error& e) {
      throw CLI::ValidationError(std::string(e.what()));
    }
    return true;
  };
  add_setting(app, name, kWhole ? "a whole number" : "a number", type, assign, description);
}

// A flag that is for one drafter alone.
struct OwnFlag {
  const char* name;     // without dashes
  const char* drafter;  // as --speculator names it
  const char* value;    // the one that needs it; empty: any
  bool (*given)(const SpeculationFlags&);
  void (*drop)(SpeculationFlags&);
};
constexpr OwnFlag kOwnFlags[] = {
    {"exit-layer", "layerskip", "",
     [](const SpeculationFlags& flags) { return flags.exit_layer.has_value(); },
     [](SpeculationFlags& flags) { flags.exit_layer.reset(); }},
    {"skip-layers", "draft-verify", "",
     [](const SpeculationFlags& flags) { return flags.skip_layers.has_value(); },
     [](SpeculationFlags& flags) { flags.skip_layers.reset(); }},
    {"model-draft", "draft", "",
     [](const SpeculationFlags& flags) { return !flags.draft_model.empty(); },
     [](SpeculationFlags& flags) { flags.draft_model.clear(); }},
    {"accept", "draft", " rejection",
     [](const SpeculationFlags& flags) { return flags.acceptance == Acceptance::kRejection; },
     [](SpeculationFlags& flags) { flags.acceptance = Acceptance::kCoupled; }},
};

}  // namespace

SpecBoundParams paper_params() {
  SpecBoundParams params;
  params.w_max = 8;
  params.d_max = 10;
  params.alpha = 0.2f;
  params.tau = 0.55f;
  return params;
}

std::string layer_list(const std::vector<int>& layers) {
  std::string list;
  for (size_t i = 0; i < layers.size();) {
    size_t end = i + 1;
    while (end < layers.size() && layers[end] == layers[end - 1] + 1) ++end;
    if (!list.empty()) list += ',';
    list += std::to_string(layers[i]);
    if (end - i > 1) list += (end - i > 2 ? "-" : ",") + std::to_string(layers[end - 1]);
    i = end;
  }
  return list;
}

std::vector<int> layers_in(const std::vector<LayerRange>& ranges, int n_layers) {
  std::vector<int> layers;
  for (const auto& [first, last] : ranges) {
    for (int64_t l = first; l <= std::min(last, std::max(first, n_layers + 1)); ++l) {
      layers.push_back(static_cast<int>(l));
    }
  }
  return layers;
}

const std::vector<std::string>& speculators() {
  static const std::vector<std::string> names = {"specbound", "ngram",        "hybrid", "layerskip",
                                                 "adadecode", "draft-verify", "draft"};
  return names;
}

std::string bar_list(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : "|") + word;
  return list;
}

std::string or_list(const std::vector<std::string>& words) {
  std::string list;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) list += i + 1 < words.size() ? ", " : " or ";
    list += words[i];
  }
  return list;
}

bool SpeculationFlags::exits_early() const {
  return speculator == "specbound" || speculator == "hybrid" || fixed_exits();
}

const char* drafter_of(std::string_view flag) {
  for (const OwnFlag& own : kOwnFlags) {
    if (flag == own.name) return own.drafter;
  }
  return nullptr;
}

SpeculationFlags SpeculationFlags::with_speculator(const std::string& name) const {
  SpeculationFlags flags = *this;
  flags.speculator = name;
  if (name != "specbound" && name != "hybrid") flags.specbound = {};
  for (const OwnFlag& own : kOwnFlags) {
    if (name != own.drafter) own.drop(flags);
  }
  return flags;
}

void SpeculationFlags::check() const {
  for (const OwnFlag& own : kOwnFlags) {
    if (!own.given(*this) || speculator == own.drafter) continue;
    throw Error(ErrorCode::kUsage, format("--%s%s: needs --speculator %s, found %s", own.name,
                                          own.value, own.drafter, printable(speculator).c_str()));
  }
  if (speculator == "draft" && draft_model.empty()) {
    throw Error(ErrorCode::kUsage,
                "--speculator draft: needs --model-draft (-md) FILE, a smaller model with the same "
                "vocabulary");
  }
}

std::string no_exits(const SpecBoundParams& params, int n_layers) {
  if (n_layers == 1 && params.check_layers.empty()) {
    return "the model has 1 layer, and drafts leave below the last one";
  }
  if (!bounded_check_layers(params, n_layers).empty()) return "";
  return format("no check layer is left: --check-layers %s is above --d-max %d",
                layer_list(params.check_layers).c_str(), params.d_max);
}

SpecBoundParams SpecBoundFlags::without_layers(SpecBoundParams base) const {
  if (w_max) base.w_max = *w_max;
  if (d_max) base.d_max = *d_max;
  if (alpha) base.alpha = *alpha;
  if (tau) base.tau = *tau;
  base.anneal = !no_anneal;
  base.depth_bound = !no_depth_bound;
  base.width_bound = !no_width_bound;
  return base;
}

SpecBoundParams SpecBoundFlags::resolve(int n_layers) const {
  SpecBoundParams params =
      without_layers(preset == Preset::kPaper ? paper_params() : SpecBoundParams());
  if (check_layers) params.check_layers = layers_in(*check_layers, n_layers);
  validate(params, n_layers);
  return params;
}

void add_exit_flags(CLI::App& app, SpecBoundFlags& flags) {
  const SpecBoundParams defaults;
  const auto preset = [&flags](const std::string& text) {
    if (text == "tuned") {
      flags.preset = Preset::kTuned;
    } else if (text == "shipped") {
      flags.preset = Preset::kShipped;
    } else if (text == "paper") {
      flags.preset = Preset::kPaper;
    } else {
      return false;
    }
    return true;
  };
  add_setting(app, "--preset", "tuned, shipped or paper", "tuned|shipped|paper", preset,
              "settings that no flag gives: what specbound tune found for this machine (default, "
              "where it ran), the heads file's, or the SpecBound paper's: 8 rows, layers 1-10, "
              "alpha 0.2, tau 0.55");
  add_number(
      app, "--d-max", "LAYER", flags, flags.d_max,
      format("deepest layer that a draft may leave at (default: the preset's; the paper's: %d)",
             defaults.d_max));
  add_number(
      app, "--tau", "P", flags, flags.tau,
      format("confidence at which a draft leaves; higher drafts less and better (default: the "
             "preset's; the paper's: %g)",
             defaults.tau));
  add_number(
      app, "--alpha", "X", flags, flags.alpha,
      format("lowers the confidence of shallow layers, which are too sure: T = 1 + alpha "
             "(1 - layer/layers) divides their logits (default: the preset's; the paper's: %g)",
             defaults.alpha));
  add_layers(app, "--check-layers", true, flags.check_layers,
             "layers that are checked for a way out: 2,4,6 or 1-10 or 2,4-8 or all (default: the "
             "preset's; with adadecode those at 1/4, 1/2 and 3/4 of the depth)");
  app.add_flag("--no-anneal", flags.no_anneal, "ablation: T = 1 at every layer")->group(kGroup);
  app.add_flag("--no-depth-bound", flags.no_depth_bound,
               "ablation: drafts may leave at any check layer")
      ->group(kGroup);
}

void add_drafter_flags(CLI::App& app, SpeculationFlags& flags) {
  const auto head = [&flags](const std::string& text) {
    if (text != "lens" && !parse_head_kind(text)) return false;
    flags.head = text;
    return true;
  };
  const auto rule = [&flags](const std::string& text) {
    if (text != "p" && text != "margin") return false;
    flags.rule = text == "p" ? ConfidenceRule::kPeak : ConfidenceRule::kMargin;
    return true;
  };
  add_exit_flags(app, flags.specbound);
  add_number(
      app, "--w-max", "N", flags.specbound, flags.specbound.w_max,
      format(
          "rows verified together at most, 1-%d (default: the preset's; the paper's: %d; 1 never "
          "drafts)",
          kMaxRows, SpecBoundParams().w_max));
  app.add_flag("--no-width-bound", flags.specbound.no_width_bound,
               format("ablation: up to %d rows, the most there is", kMaxRows))
      ->group(kGroup);
  add_file(app, "--heads", flags.heads,
           "trained exit heads (default: NAME.heads.gguf beside the model NAME.gguf)")
      ->type_name("FILE.gguf")
      ->group(kGroup);
  add_setting(app, "--head", "full, folded, chained, table, hybrid or lens",
              "full|folded|chained|table|hybrid|lens", head,
              "what guesses: full, folded or chained heads of the file, its table of what followed "
              "the same tokens, or hybrid, the table and chained heads where it is unsure "
              "(default: the file's choice); or the logit lens, which needs no training");
  const auto shortlist = [&flags](const std::string& text) {
    const std::optional<int64_t> number = parse_int(text);
    if (!number || *number < 1) return false;
    flags.shortlist = static_cast<int>(std::min<int64_t>(*number, std::numeric_limits<int>::max()));
    return true;
  };
  const auto table_tau = [&flags](const std::string& text) {
    const std::optional<double> number = parse_number(text);
    if (!number || !(*number >= 0 && *number <= 1)) return false;
    flags.table_tau = static_cast<float>(*number);
    return true;
  };
  add_setting(app, "--table-tau", "a number from 0 to 1", "P", table_tau,
              "with hybrid: confidence at which the table drafts and the chained heads are not "
              "asked (default: --tau's)");
  add_setting(app, "--shortlist", "a number of tokens", "N", shortlist,
              "likely tokens that a head guesses among, a multiple of 16 (default: the preset's)");
  add_setting(app, "--confidence", "p or margin", "p|margin", rule,
              "what tau is compared with: the likeliest token's share (default), or the chance to "
              "be right by its margin over the second one under the sampler's noise");
  add_int(app, "--ngram-max", flags.ngram_max, 1, NgramSpeculator::kMaxNgram,
          format("with ngram and hybrid: tokens looked up at most (default %d)", flags.ngram_max))
      ->group(kGroup);
  const auto exit_layer = [&flags](const std::string& text) {
    const std::optional<int64_t> number = parse_int(text);
    if (!number || *number < 1) return false;
    flags.exit_layer =
        static_cast<int>(std::min<int64_t>(*number, std::numeric_limits<int>::max()));
    return true;
  };
  add_setting(app, "--exit-layer", "a layer from 1 on", "LAYER", exit_layer,
              "with layerskip: where every draft leaves (default: at 1/4 of the depth)");
  add_layers(app, "--skip-layers", false, flags.skip_layers,
             "with draft-verify: layers left out while drafting (default: every second one from 3 "
             "on, but for the last two)");
  add_file(app, "--model-draft", flags.draft_model,
           "with draft: the model that drafts, smaller and with the same vocabulary; --tau is then "
           "about its likeliest token" +
               format(" (default %g)", DraftModel::kTau))
      ->type_name("FILE.gguf")
      ->group(kGroup);
  const auto accept = [&flags](const std::string& text) {
    if (text != "coupled" && text != "rejection") return false;
    flags.acceptance = text == "coupled" ? Acceptance::kCoupled : Acceptance::kRejection;
    return true;
  };
  add_setting(app, "--accept", "coupled or rejection", "coupled|rejection", accept,
              "with draft: coupled (default) draws draft and target with the same noise and gives "
              "plain decoding's text; rejection is the classic min(1, p/q) rule: the same "
              "probabilities, another text");
}

void add_speculation_flags(CLI::App& app, SpeculationFlags& flags) {
  const auto on = [&flags](const std::string& text) {
    if (text != "on" && text != "off") return false;
    flags.on = text == "on";
    return true;
  };
  const auto speculator = [&flags](const std::string& text) {
    if (text == "forced") {
      throw CLI::ValidationError("--speculator", "forced drafts only in specbound verify");
    }
    if (text != "none" && std::ranges::count(speculators(), text) == 0) return false;
    flags.speculator = text;
    return true;
  };
  std::vector<std::string> words = speculators();
  words.insert(words.begin(), "none");
  add_setting(app, "--spec", "on or off", "on|off", on,
              "shallow layers draft tokens, all layers verify them together: the same text in "
              "fewer passes (default: on with trained exit heads)");
  add_setting(
      app, "--speculator", or_list(words), bar_list(words), speculator,
      "what drafts (default specbound): none decodes plainly; ngram repeats what came after "
      "the same tokens before; hybrid is specbound, then ngram where that stops early "
      "(--head hybrid is something else); layerskip drafts at one layer, adadecode at any "
      "of three without bounds, draft-verify with layers left out; draft is a second model");
  add_drafter_flags(app, flags);
  const auto controller = [&flags](const std::string& text) {
    if (text != "on" && text != "off") return false;
    flags.controller = text == "on";
    return true;
  };
  add_setting(
      app, "--controller", "on or off", "on|off", controller,
      "on (default, but with --preset paper, and with --accept rejection, whose text would "
      "then depend on the clock): draft on while the expected gain exceeds the measured "
      "cost, pause where drafting loses; --w-max, --d-max and --check-layers bound it, with "
      "--tau or --alpha it only pauses; off: settings stay, and nothing pauses");
}

}  // namespace specbound
