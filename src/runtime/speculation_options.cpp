#include "runtime/speculation_options.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "error.h"
#include "runtime/drafters.h"

namespace specbound {

namespace {

// Whether a drafter has such an option: several may.
bool is_of(const OwnOption& option, std::string_view drafter) {
  return std::ranges::any_of(drafter_kinds(), [&](const DrafterKind& kind) {
    return std::ranges::any_of(kind.options, [&](const OwnOption& its) {
      return its.same(option) && kind.has(its, drafter);
    });
  });
}

std::vector<std::string> drafters_with(const OwnOption& option) {
  std::vector<std::string> names;
  for (const std::string& name : speculators()) {
    if (is_of(option, name)) names.push_back(name);
  }
  return names;
}

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
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const DrafterKind& kind : drafter_kinds()) all.emplace_back(kind.name);
    return all;
  }();
  return names;
}

std::string bar_list(const std::vector<std::string>& words) {
  return joined(words, "|");
}

std::string or_list(const std::vector<std::string>& words) {
  std::string list;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) list += i + 1 < words.size() ? ", " : " or ";
    list += words[i];
  }
  return list;
}

bool SpeculationOptions::exits_early() const {
  const DrafterKind* kind = find_drafter(speculator);
  return kind && kind->exits_early;
}

bool SpeculationOptions::fixed_exits() const {
  const DrafterKind* kind = find_drafter(speculator);
  return kind && kind->own_settings;
}

bool SpeculationOptions::by_masks() const {
  const DrafterKind* kind = find_drafter(speculator);
  return kind && kind->by_masks;
}

bool SpeculationOptions::about_exits() const {
  const SpecBoundOptions& s = specbound;
  return s.d_max || s.alpha || s.tau || s.check_layers || s.no_anneal || s.anneal_learned ||
         s.no_depth_bound || shortlist || rule;
}

bool is_for_drafter(std::string_view parameter, const std::string& value,
                    std::string_view drafter) {
  bool own = false, own_value = false, fits = false, fits_value = false;
  for (const DrafterKind& kind : drafter_kinds()) {
    for (const OwnOption& option : kind.options) {
      if (parameter != option.name) continue;
      const bool its = kind.has(option, drafter);
      own = true, fits |= its;
      if (*option.value && "=" + value != option.value) continue;
      own_value = true, fits_value |= its;
    }
  }
  return own_value ? fits_value : fits || !own;
}

SpeculationOptions SpeculationOptions::with_speculator(const std::string& name) const {
  SpeculationOptions options = *this;
  options.speculator = name;
  if (name != "specbound" && name != "auto") options.specbound = {};
  for (const DrafterKind& kind : drafter_kinds()) {
    for (const OwnOption& option : kind.options) {
      if (option.given(options) && !is_of(option, name)) option.drop(options);
    }
  }
  return options;
}

void SpeculationOptions::check() const {
  specbound.check();
  for (const auto& [name, file] :
       {std::pair("draft_model", &draft_model), {"datastore", &datastore}}) {
    if (file->empty() || speculator != "auto" || looks_up()) continue;
    throw Error(ErrorCode::kUsage,
                format("%s=%s: preset=paper is exit heads alone; leave one of them out", name,
                       file->c_str()));
  }
  if (no_siblings && speculator == "auto" && !looks_up()) {
    throw Error(ErrorCode::kUsage, "no_siblings: preset=paper drafts none; leave one of them out");
  }
  if (siblings > 1 && acceptance != Acceptance::kRejection) {
    throw Error(
        ErrorCode::kUsage,
        format("siblings=%d: needs accept=rejection, which judges one after the other", siblings));
  }
  for (const DrafterKind& kind : drafter_kinds()) {
    for (const OwnOption& option : kind.options) {
      const bool given = option.given(*this);
      if (given && !is_of(option, speculator)) {
        throw Error(ErrorCode::kUsage,
                    format("%s%s: needs speculator=%s, found %s", option.name, option.value,
                           or_list(drafters_with(option)).c_str(), printable(speculator).c_str()));
      }
      if (speculator == kind.name && !given && option.required) {
        throw Error(ErrorCode::kUsage,
                    format("speculator=%s: needs %s", kind.name, option.required));
      }
    }
  }
}

std::string no_exits(const SpecBoundParams& params, int n_layers) {
  if (n_layers == 1 && params.check_layers.empty()) {
    return "the model has 1 layer, and drafts leave below the last one";
  }
  if (!bounded_check_layers(params, n_layers).empty()) return "";
  return format("no check layer is left: check_layers=%s is above d_max=%d",
                layer_list(params.check_layers).c_str(), params.d_max);
}

void SpecBoundOptions::check() const {
  if (!anneal_learned || !(no_anneal || alpha)) return;
  throw Error(ErrorCode::kUsage,
              format("anneal_learned: not together with %s; leave one of them out",
                     no_anneal ? "no_anneal" : format("alpha=%g", *alpha).c_str()));
}

SpecBoundParams SpecBoundOptions::without_layers(SpecBoundParams base) const {
  if (w_max) base.w_max = *w_max;
  if (d_max) base.d_max = *d_max;
  if (alpha) base.alpha = *alpha;
  if (tau) base.tau = *tau;
  base.anneal = !no_anneal;
  base.learned = anneal_learned;
  base.depth_bound = !no_depth_bound;
  base.width_bound = !no_width_bound;
  return base;
}

SpecBoundParams SpecBoundOptions::resolve(int n_layers) const {
  check();
  SpecBoundParams params =
      without_layers(preset == Preset::kPaper ? paper_params() : SpecBoundParams());
  if (check_layers) params.check_layers = layers_in(*check_layers, n_layers);
  validate(params, n_layers);
  return params;
}

}  // namespace specbound
