#include "app/speculation.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

#include "error.h"

namespace specbound {

namespace {

constexpr const char* kGroup = "Speculation";
constexpr const char* kAllLayers = "all";
constexpr const char* kPaper = "paper";
constexpr const char* kNone = "none";
constexpr const char* kSpecBound = "specbound";

// Speculators of the design that this build lacks, so that a known name is not called a typo.
constexpr std::array<std::string_view, 7> kAbsentSpeculators = {
    "ngram", "draft", "layerskip", "draft-verify", "adadecode", "hybrid", "forced"};

// The paper's setting, spelled out: the defaults may move, this does not.
SpecBoundParams paper_params() {
  SpecBoundParams params;
  params.w_max = 8;
  params.d_max = 10;
  params.alpha = 0.2f;
  params.tau = 0.55f;
  return params;
}

struct LayerRange {
  uint64_t first, last;
};

// The parts of "2,4-8", ascending and apart from each other. As many as the text has, whatever
// numbers it names.
std::vector<LayerRange> parse_layers(std::string_view text) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kUsage,
                format("--check-layers: expected ascending layers like 2,4,6 or 1-10, or all, "
                       "found \"%s\"%s%s",
                       printable(text).c_str(), why.empty() ? "" : ": ", why.c_str()));
  };
  std::vector<LayerRange> ranges;
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
    ranges.push_back({*first, *last});
    before = *last;
  }
  return ranges;
}

// The layers themselves; those that the model lacks are refused before any are listed.
std::vector<int> layers_of_model(const std::string& text, int n_layers) {
  std::vector<int> layers;
  if (text == kAllLayers) return layers;  // SpecBoundParams' word for all
  for (const LayerRange& range : parse_layers(text)) {
    if (range.last >= static_cast<uint64_t>(n_layers)) {
      throw Error(ErrorCode::kUsage,
                  n_layers == 1
                      ? format("--check-layers %s: the model has 1 layer, drafts leave below it",
                               printable(text).c_str())
                      : format("--check-layers: expected layers from 1 to %d (the model has %d), "
                               "found %llu in \"%s\"",
                               n_layers - 1, n_layers, static_cast<unsigned long long>(range.last),
                               printable(text).c_str()));
    }
    for (uint64_t l = range.first; l <= range.last; ++l) layers.push_back(static_cast<int>(l));
  }
  return layers;
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
  if (n_layers == 1) return "the model has 1 layer, and drafts leave below the last one";
  if (params.width_bound && params.w_max == 1) return "--w-max 1 leaves no row to draft";
  if (!bounded_check_layers(params, n_layers).empty()) return "";
  return format("no check layer is left: --check-layers %s is above --d-max %d",
                layer_list(params.check_layers).c_str(), params.d_max);
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

}  // namespace

void add_specbound_flags(CLI::App& app, SpecBoundFlags& flags) {
  const SpecBoundParams defaults;
  const auto real = [](std::optional<float>& value, double high) {
    return [&value, high](const std::string& text) {
      const std::optional<double> number = parse_number(text);
      if (!number || *number < 0 || *number > high) return false;
      value = static_cast<float>(*number);
      return true;
    };
  };
  const auto preset = [&flags](const std::string& text) {
    if (text != kPaper) return false;
    flags.preset = text;
    return true;
  };
  const auto w_max = [&flags](const std::string& text) {
    const std::optional<int64_t> number = parse_int(text);
    if (!number || *number < 1 || *number > kMaxRows) return false;
    flags.w_max = static_cast<int>(*number);
    return true;
  };
  const auto d_max = [&flags](const std::string& text) {
    const std::optional<int64_t> number = parse_int(text);
    if (!number || *number < 1) return false;
    constexpr int64_t kDeepest = std::numeric_limits<int>::max();
    flags.d_max = static_cast<int>(std::min(*number, kDeepest));
    return true;
  };
  const auto check_layers = [&flags](const std::string& text) {
    if (text != kAllLayers) {
      try {
        parse_layers(text);
      } catch (const Error& e) {
        throw CLI::ValidationError(std::string(e.what()));
      }
    }
    flags.check_layers = text;
    return true;
  };
  add_setting(app, "--preset", kPaper, kPaper, preset,
              "the SpecBound paper's setting: 8 rows, layers 1-10, alpha 0.2, tau 0.55; flags "
              "beside it win");
  add_setting(app, "--w-max", "a whole number from 1 to 16", "N", w_max,
              format("rows verified together at most, 1-%d (default %d; 1 never drafts)", kMaxRows,
                     defaults.w_max));
  add_setting(app, "--d-max", "a layer, a whole number from 1 on", "LAYER", d_max,
              format("deepest layer that a draft may leave at (default %d)", defaults.d_max));
  add_setting(app, "--tau", "a number from 0 to 1", "P", real(flags.tau, 1),
              format("confidence at which a draft leaves; higher drafts less and better (default "
                     "%g)",
                     defaults.tau));
  add_setting(app, "--alpha", "a number from 0 to 100", "X", real(flags.alpha, 100),
              format("lowers the confidence of shallow layers, which are too sure: T = 1 + alpha "
                     "(1 - layer/layers) divides their logits (default %g)",
                     defaults.alpha));
  add_setting(app, "--check-layers", "layers", "LIST", check_layers,
              "layers that are checked for a way out: 2,4,6 or 1-10 or 2,4-8 or all (default)");
  app.add_flag("--no-anneal", flags.no_anneal, "ablation: T = 1 at every layer")->group(kGroup);
  app.add_flag("--no-depth-bound", flags.no_depth_bound,
               "ablation: drafts may leave at any check layer")
      ->group(kGroup);
  app.add_flag("--no-width-bound", flags.no_width_bound,
               format("ablation: up to %d rows, the most there is", kMaxRows))
      ->group(kGroup);
}

SpecBoundParams SpecBoundFlags::resolve(int n_layers) const {
  SpecBoundParams params = preset == kPaper ? paper_params() : SpecBoundParams();
  if (w_max) params.w_max = *w_max;
  if (d_max) params.d_max = *d_max;
  if (alpha) params.alpha = *alpha;
  if (tau) params.tau = *tau;
  if (check_layers) params.check_layers = layers_of_model(*check_layers, n_layers);
  params.anneal = !no_anneal;
  params.depth_bound = !no_depth_bound;
  params.width_bound = !no_width_bound;
  validate(params, n_layers);
  return params;
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
  if (flags.speculator == kNone) {
    if (flags.on.value_or(false)) {
      throw Error(ErrorCode::kUsage,
                  "--spec on needs something that drafts, and --speculator none has nothing: "
                  "leave one of them out");
    }
    cannot_ = "--speculator none";
    return;
  }
  cannot_ = never_drafts(params, n_layers);
  if (!cannot_.empty()) return;
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
