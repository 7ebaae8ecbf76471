#include "runtime/exit_settings.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "error.h"

namespace specbound {

std::string never_drafts(const SpecBoundParams& params, int n_layers, bool tuned) {
  if (params.width_bound && params.w_max == 1) {
    return tuned ? "tune found nothing that pays on this machine; preset=shipped "
                   "drafts all the same"
                 : "w_max=1 leaves no row to draft";
  }
  return no_exits(params, n_layers);
}

ExitSetting ExitSettings::resolve(HeadDefaults settings, bool tuned) const {
  if (options_.fixed_exits()) return resolve_fixed();
  const std::optional<HeadKind> kind = choose_kind(settings.kind);
  return kind ? resolve_heads(*kind, std::move(settings), tuned) : resolve_lens();
}

// What --head names, which the file must have.
HeadKind ExitSettings::asked_kind() const {
  const HeadKind kind = *parse_head_kind(options_.head);
  const auto has = [&](HeadKind k) { return !heads_->layers(k).empty(); };
  if (has(kind)) return kind;
  std::string kinds;
  for (const HeadKind k : kHeadKinds) {
    if (has(k)) kinds += (kinds.empty() ? "" : " or ") + std::string(head_kind_name(k));
  }
  throw Error(ErrorCode::kUsage, format("head=%s: expected %s, which %s has", options_.head.c_str(),
                                        kinds.c_str(), heads_path_.c_str()));
}

// nullopt: the logit lens.
std::optional<HeadKind> ExitSettings::choose_kind(HeadKind preferred) const {
  if (!heads_ || options_.head == "lens") return std::nullopt;
  if (!options_.head.empty()) return asked_kind();
  if (options_.specbound.preset != Preset::kPaper) return preferred;
  return heads_->layers(HeadKind::kFull).empty() ? std::nullopt : std::optional(HeadKind::kFull);
}

// Those of the options, else those of the settings that have a head of this kind, else all that do.
std::vector<int> ExitSettings::choose_layers(HeadKind kind, const HeadDefaults& settings) const {
  const std::vector<int> there = heads_->layers(kind);
  const auto& asked = options_.specbound.check_layers;
  if (asked && asked->empty()) return there;
  if (asked) {
    std::vector<int> layers;
    for (const LayerRange& range : *asked) {
      const size_t before = layers.size();
      std::copy_if(there.begin(), there.end(), std::back_inserter(layers),
                   [&](int l) { return l >= range.first && l <= range.last; });
      if (layers.size() > before) continue;
      throw Error(ErrorCode::kUsage,
                  format("check_layers: expected layers that have a %s head (%s), found %d",
                         head_kind_name(kind), layer_list(there).c_str(), range.first));
    }
    return layers;
  }
  std::vector<int> layers;
  if (options_.specbound.preset == Preset::kPaper) {
    std::copy_if(there.begin(), there.end(), std::back_inserter(layers),
                 [](int l) { return l >= 1 && l <= paper_params().d_max; });
  } else {
    std::set_intersection(there.begin(), there.end(), settings.check_layers.begin(),
                          settings.check_layers.end(), std::back_inserter(layers));
  }
  return layers.empty() ? there : layers;
}

int ExitSettings::choose_shortlist(const HeadDefaults& settings) const {
  const int all = static_cast<int>(heads_->shortlist().size());
  if (!options_.shortlist) return settings.shortlist > 0 ? std::min(settings.shortlist, all) : all;
  const int n = *options_.shortlist;
  if (n > all || (n != all && n % 16 != 0)) {
    throw Error(ErrorCode::kUsage,
                format("shortlist: expected a multiple of 16 up to %d, or %d, the tokens of %s, "
                       "found %d",
                       all, all, heads_path_.c_str(), n));
  }
  return n;
}

void ExitSettings::refuse_trained_only() const {
  for (const auto& [name, given] : {std::pair("shortlist", options_.shortlist.has_value()),
                                    std::pair("confidence", options_.rule.has_value())}) {
    if (!given) continue;
    throw Error(ErrorCode::kUsage, format("%s: needs trained heads, found the logit lens", name));
  }
}

ExitSetting ExitSettings::resolve_lens() const {
  refuse_trained_only();
  ExitSetting out;
  out.params = options_.specbound.resolve(n_layers_);
  out.never = never_drafts(out.params, n_layers_, false);
  return out;
}

ExitSetting ExitSettings::resolve_heads(HeadKind kind, HeadDefaults settings, bool tuned) const {
  const bool paper = options_.specbound.preset == Preset::kPaper;
  ExitSetting out;
  out.origin = paper ? "the paper's setting" : tuned ? "tuned here" : "as shipped";
  out.kind = kind;
  if (kind != settings.kind) {  // another kind's depth bound may lie above all of these
    settings.d_max = std::max(settings.d_max, heads_->layers(kind).back());
  }
  out.params = paper ? paper_params() : params_of(settings);
  out.params = options_.specbound.without_layers(out.params);
  out.params.check_layers = choose_layers(kind, settings);
  validate(out.params, n_layers_, std::min(1, heads_->layers(kind).front()));
  out.shortlist = choose_shortlist(settings);
  out.never = never_drafts(out.params, n_layers_, tuned && !options_.specbound.w_max);
  return out;
}

// LayerSkip: every row leaves at one layer, with no look at how sure it is. AdaDecode: three check
// layers and a threshold, but no annealing and no bounds. Flags bring back what they name.
ExitSetting ExitSettings::resolve_fixed() const {
  const bool one_layer = options_.speculator == "layerskip";
  const SpecBoundOptions& options = options_.specbound;
  SpecBoundParams paper;
  paper.w_max = one_layer ? 7 : kMaxRows;  // 6 drafts
  paper.tau = one_layer ? 0.0f : 0.75f;
  ExitSetting out;
  out.params = options.without_layers(paper);
  out.params.anneal = (options.alpha || options.anneal_learned) && !options.no_anneal;
  out.params.depth_bound = options.d_max && !options.no_depth_bound;
  out.params.width_bound = (one_layer || options.w_max) && !options.no_width_bound;
  out.params.check_layers = fixed_layers();
  validate(out.params, n_layers_);
  out.kind = fixed_kind(out.params.check_layers);
  if (out.kind) {
    out.shortlist = choose_shortlist(heads_->defaults());
  } else {
    refuse_trained_only();
  }
  out.never = never_drafts(out.params, n_layers_, false);
  return out;
}

// Those of the options, else the papers'; none in a model of one layer.
std::vector<int> ExitSettings::fixed_layers() const {
  const int last = n_layers_ - 1;
  const auto& asked = options_.specbound.check_layers;
  if (options_.speculator == "layerskip") {
    if (asked) {
      throw Error(ErrorCode::kUsage,
                  "check_layers: layerskip leaves at one layer, which exit_layer names");
    }
    if (options_.exit_layer && (*options_.exit_layer < 1 || *options_.exit_layer > last)) {
      throw Error(ErrorCode::kUsage,
                  format("exit_layer: expected a layer from 1 to %d (the model has %d), found %d",
                         last, n_layers_, *options_.exit_layer));
    }
  }
  if (last == 0) return {};
  const auto part = [&](int quarters) {
    return std::clamp(static_cast<int>(std::lround(n_layers_ * quarters / 4.0)), 1, last);
  };
  if (options_.speculator == "layerskip") return {options_.exit_layer.value_or(part(1))};
  if (asked && !asked->empty()) return layers_in(*asked, n_layers_);
  std::vector<int> layers = {part(1), part(2), part(3)};
  if (asked) {  // all
    layers.clear();
    for (int l = 1; l <= last; ++l) layers.push_back(l);
  }
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  return layers;
}

// nullopt: the logit lens, which AdaDecode takes where no kind of head is at all of its layers, and
// LayerSkip unless --head names another; a layer that was not asked for then becomes the nearest
// that has such a head.
std::optional<HeadKind> ExitSettings::fixed_kind(std::vector<int>& layers) const {
  if (!heads_ || options_.head == "lens") return std::nullopt;
  const auto covers = [&](HeadKind kind) {
    const std::vector<int> there = heads_->layers(kind);
    return std::includes(there.begin(), there.end(), layers.begin(), layers.end());
  };
  if (options_.head.empty()) {
    if (options_.speculator == "layerskip") return std::nullopt;
    for (const HeadKind kind : {HeadKind::kFull, HeadKind::kFolded, HeadKind::kChained}) {
      if (covers(kind)) return kind;
    }
    return std::nullopt;
  }
  const HeadKind kind = asked_kind();
  if (covers(kind)) return kind;
  std::vector<int> there = heads_->layers(kind);
  std::erase(there, 0);
  const bool asked = options_.exit_layer || options_.specbound.check_layers;
  if (there.empty() || asked) {
    throw Error(
        ErrorCode::kUsage,
        format("head=%s: %s needs such heads at %s, found them at %s in %s", options_.head.c_str(),
               options_.speculator.c_str(),
               asked ? ("layer " + layer_list(layers)).c_str() : "layers from 1 on",
               there.empty() ? "layer 0 alone" : layer_list(there).c_str(), heads_path_.c_str()));
  }
  for (int& layer : layers) {
    layer = *std::ranges::min_element(there, {}, [layer](int l) { return std::abs(l - layer); });
  }
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  return kind;
}

}  // namespace specbound
