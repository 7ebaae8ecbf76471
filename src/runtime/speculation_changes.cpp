// Settings of a drafter with exit heads that change between rounds.
#include <algorithm>
#include <utility>

#include "error.h"
#include "runtime/speculation.h"

namespace specbound {

std::vector<int> Speculation::head_layers() const {
  if (!setting_) return {};
  if (setting_->kind) return heads_->layers(*setting_->kind);
  std::vector<int> layers;
  for (int l = 1; l < n_layers_; ++l) layers.push_back(l);
  return layers;
}

SpecBoundParams Speculation::params() const {
  if (!setting_) return {};
  SpecBoundParams params = setting_->params;
  if (params.check_layers.empty()) params.check_layers = head_layers();
  return params;
}

void Speculation::check_settable() const {
  if (setting_) return;
  throw Error(ErrorCode::kUsage,
              format("expected exit heads whose settings can change, found %s",
                     cannot_.empty() ? drafter().c_str() : ("none: " + cannot_).c_str()));
}

void Speculation::change(const SpecBoundParams& params, ChangeOf what) {
  check_settable();
  const std::vector<int> there = head_layers();
  const std::vector<int>& asked = params.check_layers;
  if (!there.empty()) {
    validate(params, n_layers_, std::min(1, there.front()));
    const auto stranger = std::find_if(asked.begin(), asked.end(), [&](int layer) {
      return !std::binary_search(there.begin(), there.end(), layer);
    });
    if (asked.empty() || stranger != asked.end()) {
      throw Error(ErrorCode::kUsage,
                  format("check_layers: expected one or more of %s, which can be checked, found "
                         "%s",
                         layer_list(there).c_str(),
                         asked.empty() ? "none" : std::to_string(*stranger).c_str()));
    }
  }
  ExitSetting next = *setting_;
  next.params = params;
  next.origin = "set by hand";
  const SpecBoundParams& before = setting_->params;
  if (what.thresholds || params.tau != before.tau || params.alpha != before.alpha ||
      params.anneal != before.anneal || params.learned != before.learned) {
    next.thresholds_by_hand = true;
  }
  if (what.width || params.w_max != before.w_max || params.width_bound != before.width_bound) {
    next.width_by_hand = true;
  }
  next.never = never_drafts(params, n_layers_, false);
  if (!next.never.empty()) throw Error(ErrorCode::kUsage, next.never);
  asked_for_tuned_ = true;
  if (!specbound_) {
    take(std::move(next));
    return;
  }
  setting_ = std::move(next);
  specbound_->set_params(setting_->params);
  if (!tree_) return;
  tree_->set_guesser(&*specbound_, thresholds_given());
  tree_->set_width(tree_width());
}

// On the backend, where they are now. Leaves those that are there where the others do not fit.
void Speculation::exchange_heads(const ExitSetting& next) {
  if (!active_ || !heads_ || !backend_) return;
  try {
    give_heads(next.kind.has_value(), next.shortlist);
  } catch (...) {
    active_ = false;  // unless those fit that were there
    const std::string before = std::exchange(inactive_, "its heads no longer fit into memory");
    give_heads(setting_->kind.has_value(), setting_->shortlist);
    inactive_ = before;
    active_ = true;
    throw;
  }
}

void Speculation::choose(Preset preset) {
  check_settable();
  if (options_.fixed_exits()) {
    throw Error(ErrorCode::kUsage, format("preset: %s has none: its settings are its paper's",
                                          options_.speculator.c_str()));
  }
  SpeculationOptions options = options_;
  options.specbound = {};
  options.specbound.preset = preset;
  std::swap(options_, options);
  try {
    std::optional<ExitSetting> next = tuned_setting();
    if (!next) next = settings().shipped();
    if (!next->never.empty()) throw Error(ErrorCode::kUsage, next->never);
    exchange_heads(*next);
    take(std::move(*next));
    if (backend_) {
      take_row_costs();
      take_odds();
    }
  } catch (...) {
    std::swap(options_, options);
    throw;
  }
  if (backend_) asked_for_tuned_ = true;
}

// Whoever refers to them goes before them.
void Speculation::drop_heads() {
  drop_tree();
  specbound_.reset();
  head_.reset();
  setting_.reset();
  if (backend_) backend_->set_exit_heads(nullptr, 0);
  given_heads_.reset();
  heads_.reset();
}

void Speculation::take_heads(ExitHeads heads) {
  SB_CHECK(takes_heads() && heads.can_guess());
  ExitSetting next = ExitSettings(options_, &heads, heads.path(), n_layers_).shipped();
  if (!next.never.empty()) throw Error(ErrorCode::kUsage, next.never);
  drop_heads();
  heads_ = std::move(heads);
  heads_path_ = heads_->path();
  text_ = heads_->text();

  cannot_.clear();
  odds_.reset();
  asked_for_odds_ = asked_for_tuned_ = false;
  take(std::move(next));
  if (!active_) return;
  try {
    begin_drafting();
  } catch (...) {
    drop_heads();
    take_tree();
    throw;
  }
}

}  // namespace specbound
