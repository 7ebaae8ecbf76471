#include "app/speculation.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

#include "error.h"

namespace specbound {

namespace {

constexpr const char* kGroup = "Speculation";
constexpr const char* kAllLayers = "all";
constexpr const char* kPaper = "paper";
constexpr const char* kNone = "none";
constexpr const char* kSpecBound = "specbound";

// Speculators of the design that this build lacks, so that a known name is not called a typo.
constexpr std::array<std::string_view, 6> kAbsentSpeculators = {
    "ngram", "draft", "layerskip", "draft-verify", "adadecode", "hybrid"};

// The paper's setting, spelled out: the defaults may move, this does not.
SpecBoundParams paper_params() {
  SpecBoundParams params;
  params.w_max = 8;
  params.d_max = 10;
  params.alpha = 0.2f;
  params.tau = 0.55f;
  return params;
}

// "all" or the parts of "2,4-8", ascending and apart from each other. As many as the text has,
// whatever numbers it names: no model has more layers than an int counts.
std::vector<LayerRange> parse_layers(std::string_view text) {
  std::vector<LayerRange> ranges;
  if (text == kAllLayers) return ranges;
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kUsage,
                format("--check-layers: expected ascending layers like 2,4,6 or 1-10, or all, "
                       "found \"%s\"%s%s",
                       printable(text).c_str(), why.empty() ? "" : ": ", why.c_str()));
  };
  uint64_t before = 0;
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
    if (*first == 0) refuse("layers count from 1");
    if (*last < *first) refuse(shown + " runs backwards");
    if (*first <= before) {
      refuse(format("%s after %llu", shown.c_str(), static_cast<unsigned long long>(before)));
    }
    constexpr uint64_t kMax = std::numeric_limits<int>::max();
    ranges.push_back(
        {static_cast<int>(std::min(*first, kMax)), static_cast<int>(std::min(*last, kMax))});
    before = *last;
  }
  return ranges;
}

// "2,4-8": the shortest spelling, as --check-layers takes it.
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

// Why these settings never draft; empty if they do.
std::string never_drafts(const SpecBoundParams& params, int n_layers) {
  if (params.width_bound && params.w_max == 1) return "--w-max 1 leaves no row to draft";
  return no_exits(params, n_layers);
}

std::string settings(const SpecBound& speculator, int n_layers) {
  const SpecBoundParams& p = speculator.params();
  const std::vector<int>& checks = speculator.check_layers();
  return format("up to %d rows%s, check%s at layer%s %s of %d%s, %s, tau %g", speculator.width(),
                p.width_bound ? "" : " (no width bound)", checks.size() == 1 ? "" : "s",
                checks.size() == 1 ? "" : "s", layer_list(checks).c_str(), n_layers,
                p.depth_bound ? "" : " (no depth bound)",
                p.anneal ? format("alpha %g", p.alpha).c_str() : "no annealing", p.tau);
}

// A setting whose values are words. `assign` knows them, `expected` names them.
template <class Assign>
CLI::Option* add_setting(CLI::App& app, const char* name, const char* expected, const char* type,
                         Assign assign, const std::string& description) {
  const auto read = [name, expected, assign](const std::string& text) {
    if (!assign(text)) {
      throw CLI::ValidationError(
          name, format("expected %s, found \"%s\"", expected, printable(text).c_str()));
    }
  };
  return app.add_option_function<std::string>(name, read, description)
      ->type_name(type)
      ->group(kGroup);
}

// The settings but for the layers, which only a model can tell.
SpecBoundParams without_layers(const SpecBoundFlags& flags) {
  SpecBoundParams params = flags.preset == kPaper ? paper_params() : SpecBoundParams();
  if (flags.w_max) params.w_max = *flags.w_max;
  if (flags.d_max) params.d_max = *flags.d_max;
  if (flags.alpha) params.alpha = *flags.alpha;
  if (flags.tau) params.tau = *flags.tau;
  params.anneal = !flags.no_anneal;
  params.depth_bound = !flags.no_depth_bound;
  params.width_bound = !flags.no_width_bound;
  return params;
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
      validate(without_layers(flags), 1);
    } catch (const Error& e) {
      throw CLI::ValidationError(std::string(e.what()));
    }
    return true;
  };
  add_setting(app, name, kWhole ? "a whole number" : "a number", type, assign, description);
}

}  // namespace

void add_exit_flags(CLI::App& app, SpecBoundFlags& flags) {
  const SpecBoundParams defaults;
  const auto preset = [&flags](const std::string& text) {
    if (text != kPaper) return false;
    flags.preset = text;
    return true;
  };
  const auto check_layers = [&flags](const std::string& text) {
    try {
      flags.check_layers = parse_layers(text);
    } catch (const Error& e) {
      throw CLI::ValidationError(std::string(e.what()));
    }
    return true;
  };
  add_setting(app, "--preset", kPaper, kPaper, preset,
              "the SpecBound paper's setting: 8 rows, layers 1-10, alpha 0.2, tau 0.55; flags "
              "beside it win");
  add_number(app, "--d-max", "LAYER", flags, flags.d_max,
             format("deepest layer that a draft may leave at (default %d)", defaults.d_max));
  add_number(app, "--tau", "P", flags, flags.tau,
             format("confidence at which a draft leaves; higher drafts less and better (default "
                    "%g)",
                    defaults.tau));
  add_number(app, "--alpha", "X", flags, flags.alpha,
             format("lowers the confidence of shallow layers, which are too sure: T = 1 + alpha "
                    "(1 - layer/layers) divides their logits (default %g)",
                    defaults.alpha));
  add_setting(app, "--check-layers", "layers", "LIST", check_layers,
              "layers that are checked for a way out: 2,4,6 or 1-10 or 2,4-8 or all (default)");
  app.add_flag("--no-anneal", flags.no_anneal, "ablation: T = 1 at every layer")->group(kGroup);
  app.add_flag("--no-depth-bound", flags.no_depth_bound,
               "ablation: drafts may leave at any check layer")
      ->group(kGroup);
}

void add_specbound_flags(CLI::App& app, SpecBoundFlags& flags) {
  add_exit_flags(app, flags);
  add_number(app, "--w-max", "N", flags, flags.w_max,
             format("rows verified together at most, 1-%d (default %d; 1 never drafts)", kMaxRows,
                    SpecBoundParams().w_max));
  app.add_flag("--no-width-bound", flags.no_width_bound,
               format("ablation: up to %d rows, the most there is", kMaxRows))
      ->group(kGroup);
}

SpecBoundParams SpecBoundFlags::resolve(int n_layers) const {
  SpecBoundParams params = without_layers(*this);
  for (const auto& [first, last] : check_layers) {
    // Up to the first one that the model lacks, for validate() to refuse.
    for (int64_t l = first; l <= std::min(last, std::max(first, n_layers)); ++l) {
      params.check_layers.push_back(static_cast<int>(l));
    }
  }
  validate(params, n_layers);
  return params;
}

std::string no_exits(const SpecBoundParams& params, int n_layers) {
  if (n_layers == 1) return "the model has 1 layer, and drafts leave below the last one";
  if (!bounded_check_layers(params, n_layers).empty()) return "";
  return format("no check layer is left: --check-layers %s is above --d-max %d",
                layer_list(params.check_layers).c_str(), params.d_max);
}

void add_speculation_flags(CLI::App& app, SpeculationFlags& flags) {
  const auto on = [&flags](const std::string& text) {
    if (text != "on" && text != "off") return false;
    flags.on = text == "on";
    return true;
  };
  const auto speculator = [&flags](const std::string& text) {
    if (std::find(kAbsentSpeculators.begin(), kAbsentSpeculators.end(), text) !=
        kAbsentSpeculators.end()) {
      throw CLI::ValidationError("--speculator",
                                 text + ": this build has " + kNone + " and " + kSpecBound);
    }
    if (text == "forced") {
      throw CLI::ValidationError("--speculator", "forced drafts only in specbound verify");
    }
    if (text != kNone && text != kSpecBound) return false;
    flags.speculator = text;
    return true;
  };
  add_setting(app, "--spec", "on or off", "on|off", on,
              "shallow layers draft tokens, all layers verify them together: the same text in "
              "fewer passes (default: off without trained exit heads)");
  add_setting(app, "--speculator", "none or specbound", "none|specbound", speculator,
              "what drafts (default specbound); none decodes plainly");
  add_specbound_flags(app, flags.specbound);
}

Speculation::Speculation(const SpeculationFlags& flags, int n_layers) : n_layers_(n_layers) {
  const SpecBoundParams params = flags.specbound.resolve(n_layers);
  cannot_ = flags.speculator == kNone ? "--speculator none" : never_drafts(params, n_layers);
  if (!cannot_.empty()) {
    if (flags.on.value_or(false)) {
      throw Error(ErrorCode::kUsage, "--spec on: nothing can draft: " + cannot_);
    }
    return;
  }
  head_ = std::make_unique<LensHead>();
  speculator_ = std::make_unique<SpecBound>(*head_, params, n_layers);
  active_ = flags.on.value_or(false);
  inactive_ = flags.on
                  ? "--spec off"
                  : "the model has no trained exit heads; --spec on drafts with the logit lens";
}

bool Speculation::set_active(bool on) {
  if (on && !speculator_) return false;
  active_ = on;
  inactive_ = "/spec off";
  return true;
}

std::string Speculation::description() const {
  if (!active_) return "speculation off: " + (cannot_.empty() ? inactive_ : cannot_);
  return format("speculation on: %s with the logit lens, %s", speculator_->name(),
                settings(*speculator_, n_layers_).c_str());
}

}  // namespace specbound
