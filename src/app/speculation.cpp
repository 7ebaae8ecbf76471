#include "app/speculation.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "app/heads_path.h"
#include "app/tuned_settings.h"
#include "decode/table_head.h"
#include "error.h"

namespace specbound {

namespace {

// Why these settings never draft; empty if they do.
std::string never_drafts(const SpecBoundParams& params, int n_layers, bool tuned) {
  if (params.width_bound && params.w_max == 1) {
    return tuned ? "specbound tune found nothing that pays on this machine; --preset shipped "
                   "drafts all the same"
                 : "--w-max 1 leaves no row to draft";
  }
  return no_exits(params, n_layers);
}

std::string settings_of(const SpecBound& speculator, int n_layers) {
  const SpecBoundParams& p = speculator.params();
  const std::vector<int>& checks = speculator.check_layers();
  return format("up to %d rows%s, check%s at layer%s %s of %d%s, %s, tau %g", speculator.width(),
                p.width_bound ? "" : " (no width bound)", checks.size() == 1 ? "" : "s",
                checks.size() == 1 ? "" : "s", layer_list(checks).c_str(), n_layers,
                p.depth_bound ? "" : " (no depth bound)",
                p.anneal ? format("alpha %g", p.alpha).c_str() : "no annealing", p.tau);
}

bool exists(const std::string& path) {
  std::error_code ec;
  return std::filesystem::exists(path, ec);
}

}  // namespace

Speculation::Speculation(const SpeculationFlags& flags, const LoadedModel& model)
    : Speculation(flags, model.path(), model.gguf(), model.config()) {}

Speculation::Speculation(const SpeculationFlags& flags, const std::string& model_path,
                         const Gguf& gguf, const ModelConfig& config)
    : flags_(flags), n_layers_(config.n_layers) {
  train_command_ = "specbound train-heads -m " + model_path + " --data chat.jsonl";
  heads_path_ = flags.heads.empty() ? sidecar_heads(model_path) : flags.heads;
  if (flags.speculator == "none") {
    cannot_ = "--speculator none";
  } else if (flags.speculator == "ngram") {
    SpecBoundParams params = flags.specbound.without_layers({});
    const int width = params.width_bound ? params.w_max : kMaxRows;
    if (width == 1) cannot_ = "--w-max 1 leaves no row to draft";
    ngram_.emplace(flags.ngram_max, width);
  } else {
    if (flags.head != "lens") open_heads(gguf, config);
    if (cannot_.empty()) take(settle(heads_ ? heads_->defaults() : HeadDefaults(), false));
  }
  if (!cannot_.empty()) {
    if (flags.on.value_or(false)) {
      throw Error(ErrorCode::kUsage, "--spec on: nothing can draft: " + cannot_);
    }
    return;
  }
  if (ngram_ && switches()) switch_.emplace(*ngram_);
  const bool pays = heads_ || ngram_ || flags.head == "lens";
  active_ = flags.on.value_or(pays);
  if (flags.on) {
    inactive_ = "--spec off";
  } else if (!pays) {
    inactive_ = "no exit heads beside the model: " + train_command_ + " makes them";
  }
}

bool Speculation::switches() const {
  return !flags_.no_switch && flags_.specbound.preset != Preset::kPaper;
}

void Speculation::open_heads(const Gguf& gguf, const ModelConfig& config) {
  const bool off = flags_.on && !*flags_.on;
  if (flags_.heads.empty() && !exists(heads_path_)) {
    if (flags_.head.empty()) return;
    throw Error(ErrorCode::kUsage,
                format("--head %s: there is no %s: name a file with --heads, or make one: %s",
                       flags_.head.c_str(), heads_path_.c_str(), train_command_.c_str()));
  }
  try {
    heads_ = ExitHeads::open(heads_path_, gguf, config);
  } catch (const Error& e) {
    if (!flags_.heads.empty()) {
      throw Error(e.code(), format("%s; make heads for this model (%s) or leave out --heads",
                                   e.what(), train_command_.c_str()));
    }
    cannot_ = e.what();
    if (off) return;
    // The file was found, not asked for: the way on must be told.
    throw Error(e.code(), format("%s; train again (%s) or go on without: --spec off", e.what(),
                                 train_command_.c_str()));
  }
}

// nullopt: the logit lens.
std::optional<HeadKind> Speculation::choose_kind(HeadKind preferred) const {
  if (!heads_ || flags_.head == "lens") return std::nullopt;
  const auto has = [&](HeadKind kind) { return !heads_->layers(kind).empty(); };
  if (!flags_.head.empty()) {
    const HeadKind kind = *parse_head_kind(flags_.head);
    if (has(kind)) return kind;
    std::string kinds;
    for (const HeadKind k : kHeadKinds) {
      if (has(k)) kinds += (kinds.empty() ? "" : " or ") + std::string(head_kind_name(k));
    }
    throw Error(ErrorCode::kUsage, format("--head %s: expected %s, which %s has",
                                          flags_.head.c_str(), kinds.c_str(), heads_path_.c_str()));
  }
  if (flags_.specbound.preset != Preset::kPaper) return preferred;
  return has(HeadKind::kFull) ? std::optional(HeadKind::kFull) : std::nullopt;
}

// Those of the flags, else those of the settings that have a head of this kind, else all that do.
std::vector<int> Speculation::choose_layers(HeadKind kind, const HeadDefaults& settings) const {
  const std::vector<int> there = heads_->layers(kind);
  const auto& asked = flags_.specbound.check_layers;
  if (asked && asked->empty()) return there;
  if (asked) {
    std::vector<int> layers;
    for (const LayerRange& range : *asked) {
      const size_t before = layers.size();
      std::copy_if(there.begin(), there.end(), std::back_inserter(layers),
                   [&](int l) { return l >= range.first && l <= range.last; });
      if (layers.size() > before) continue;
      throw Error(ErrorCode::kUsage,
                  format("--check-layers: expected layers that have a %s head (%s), found %d",
                         head_kind_name(kind), layer_list(there).c_str(), range.first));
    }
    return layers;
  }
  std::vector<int> layers;
  if (flags_.specbound.preset == Preset::kPaper) {
    std::copy_if(there.begin(), there.end(), std::back_inserter(layers),
                 [](int l) { return l >= 1 && l <= paper_params().d_max; });
  } else {
    std::set_intersection(there.begin(), there.end(), settings.check_layers.begin(),
                          settings.check_layers.end(), std::back_inserter(layers));
  }
  return layers.empty() ? there : layers;
}

int Speculation::choose_shortlist(const HeadDefaults& settings) const {
  const int all = static_cast<int>(heads_->shortlist().size());
  if (!flags_.shortlist) return settings.shortlist > 0 ? std::min(settings.shortlist, all) : all;
  const int n = *flags_.shortlist;
  if (n > all || (n != all && n % 16 != 0)) {
    throw Error(ErrorCode::kUsage,
                format("--shortlist: expected a multiple of 16 up to %d, or %d, the tokens of %s, "
                       "found %d",
                       all, all, heads_path_.c_str(), n));
  }
  return n;
}

Speculation::Setting Speculation::settle(HeadDefaults settings, bool tuned) const {
  const bool paper = flags_.specbound.preset == Preset::kPaper;
  Setting out;
  out.origin = paper ? "the paper's setting" : tuned ? "tuned here" : "as shipped";
  out.kind = choose_kind(settings.kind);
  if (!out.kind) {
    for (const auto& [flag, given] : {std::pair("--shortlist", flags_.shortlist.has_value()),
                                      std::pair("--table-tau", flags_.table_tau.has_value()),
                                      std::pair("--confidence", flags_.rule.has_value())}) {
      if (!given) continue;
      throw Error(ErrorCode::kUsage, format("%s: needs trained heads, found the logit lens", flag));
    }
    out.params = flags_.specbound.resolve(n_layers_);
    out.never = never_drafts(out.params, n_layers_, false);
    return out;
  }
  const HeadKind kind = *out.kind;
  if (kind != settings.kind) {  // another kind's depth bound may lie above all of these
    settings.d_max = std::max(settings.d_max, heads_->layers(kind).back());
  }
  if (paper) {
    out.params = paper_params();
  } else {
    out.params.w_max = settings.w_max;
    out.params.d_max = settings.d_max;
    out.params.alpha = settings.alpha;
    out.params.tau = settings.tau;
  }
  out.params = flags_.specbound.without_layers(out.params);
  out.params.check_layers = choose_layers(kind, settings);
  validate(out.params, n_layers_, std::min(1, heads_->layers(kind).front()));
  out.shortlist = choose_shortlist(settings);
  if (flags_.table_tau && kind != HeadKind::kHybrid) {
    throw Error(ErrorCode::kUsage,
                format("--table-tau: needs --head hybrid, found %s heads", head_kind_name(kind)));
  }
  if (flags_.rule && kind == HeadKind::kTable) {
    throw Error(ErrorCode::kUsage,
                "--confidence: needs trained heads (--head chained), found the draft table");
  }
  out.table_tau = flags_.table_tau;
  // A flag moves both thresholds, unless each has its own.
  if (!out.table_tau && !paper && !flags_.specbound.tau) out.table_tau = settings.table_tau;
  out.never = never_drafts(out.params, n_layers_, tuned && !flags_.specbound.w_max);
  return out;
}

std::unique_ptr<ExitHead> Speculation::make_head(const Setting& setting) const {
  if (!setting.kind) return std::make_unique<LensHead>();
  return make_exit_head(*heads_, *setting.kind, setting.tau_of_table(),
                        flags_.rule.value_or(ConfidenceRule::kPeak));
}

// Leaves cannot_ where the setting never drafts.
void Speculation::take(Setting setting) {
  switch_.reset();
  specbound_.reset();
  setting_ = std::move(setting);
  cannot_ = setting_->never;
  if (!cannot_.empty()) return;
  head_ = make_head(*setting_);
  specbound_.emplace(*head_, setting_->params, n_layers_);
  if (switches()) switch_.emplace(*specbound_);
}

void Speculation::attach(Backend& backend,
                         const std::function<void(const std::string& line)>& note) {
  backend_ = &backend;
  note_ = note;
  if (active_) begin_drafting();
}

void Speculation::begin_drafting() {
  if (!heads_ || !backend_) return;
  if (!std::exchange(asked_for_tuned_, true)) {
    if (std::optional<Setting> tuned = tuned_setting()) take(std::move(*tuned));
    if (!cannot_.empty()) {
      if (flags_.on.value_or(false)) {
        throw Error(ErrorCode::kUsage, "--spec on: nothing can draft: " + cannot_);
      }
      active_ = false;
      return;
    }
  }
  give_heads(*setting_);
}

void Speculation::give_heads(const Setting& setting) {
  backend_->set_exit_heads(setting.kind ? &*heads_ : nullptr, setting.shortlist);
}

// What tune found for this machine, where nothing else was asked for.
std::optional<Speculation::Setting> Speculation::tuned_setting() const {
  // Layers that were asked for may not be those of the kind of head that won.
  if (flags_.specbound.preset != Preset::kTuned || flags_.specbound.check_layers) return {};
  if (!heads_ || !backend_) return {};
  const auto tuned = read_tuned(heads_->base().fingerprint, *heads_, backend_->device(), note_);
  if (!tuned) return {};
  return settle(tuned->settings, true);
}

bool Speculation::set_active(bool on, const std::string& inactive) {
  if (on && !cannot_.empty()) return false;
  const bool before = std::exchange(active_, on);
  inactive_ = inactive;
  try {
    if (on) begin_drafting();
  } catch (...) {  // they do not fit
    active_ = before;
    throw;
  }
  return active_ == on;
}

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

void Speculation::change(const SpecBoundParams& params) {
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
                  format("--check-layers: expected one or more of %s, which can be checked, found "
                         "%s",
                         layer_list(there).c_str(),
                         asked.empty() ? "none" : std::to_string(*stranger).c_str()));
    }
  }
  Setting next = *setting_;
  next.params = params;
  next.origin = "set by hand";
  next.never = never_drafts(params, n_layers_, false);
  if (!next.never.empty()) throw Error(ErrorCode::kUsage, next.never);
  // As with a flag: one tau moves both thresholds, unless each has its own.
  if (!flags_.table_tau && params.tau != setting_->params.tau) next.table_tau.reset();

  asked_for_tuned_ = true;
  if (!specbound_) {
    take(std::move(next));
    return;
  }
  const bool same_head = next.kind != HeadKind::kHybrid ||  // whose threshold is its own
                         next.tau_of_table() == setting_->tau_of_table();
  setting_ = std::move(next);
  if (same_head) {
    specbound_->set_params(setting_->params);
  } else {
    std::unique_ptr<ExitHead> head = make_head(*setting_);
    specbound_.emplace(*head, setting_->params,
                       n_layers_);  // where it was: switch_ stays around it
    head_ = std::move(head);
  }
  if (switch_) switch_->reconsider();
}

// On the backend, where they are now. Leaves those that are there where the others do not fit.
void Speculation::exchange_heads(const Setting& next) {
  if (!active_ || !heads_ || !backend_) return;
  try {
    give_heads(next);
  } catch (...) {
    active_ = false;  // unless those fit that were there
    const std::string before = std::exchange(inactive_, "its heads no longer fit into memory");
    give_heads(*setting_);
    inactive_ = before;
    active_ = true;
    throw;
  }
}

void Speculation::choose(Preset preset) {
  check_settable();
  SpeculationFlags flags = flags_;
  flags.specbound = {};
  flags.specbound.preset = preset;
  flags.table_tau.reset();
  std::swap(flags_, flags);
  try {
    std::optional<Setting> next = tuned_setting();
    if (!next) next = settle(heads_ ? heads_->defaults() : HeadDefaults(), false);
    if (!next->never.empty()) throw Error(ErrorCode::kUsage, next->never);
    exchange_heads(*next);
    take(std::move(*next));
  } catch (...) {
    std::swap(flags_, flags);
    throw;
  }
  if (backend_) asked_for_tuned_ = true;
}

Speculator* Speculation::speculator() {
  if (!active_) return nullptr;
  if (switch_) return &*switch_;
  return ngram_ ? static_cast<Speculator*>(&*ngram_) : &*specbound_;
}

std::string Speculation::drafter() const {
  if (!cannot_.empty()) return "";
  if (ngram_) return "prompt lookup";
  if (!setting_->kind) return "the logit lens";
  if (setting_->kind == HeadKind::kTable) return "the draft table";
  return format("%s heads", head_->name());
}

std::string Speculation::description() const {
  if (!active_) return "speculation off: " + (cannot_.empty() ? inactive_ : cannot_);
  if (ngram_) {
    return format("speculation on: ngram, prompt lookup of up to %d token%s, up to %d rows",
                  ngram_->n_max(), ngram_->n_max() == 1 ? "" : "s", ngram_->width());
  }
  const auto& [kind, params, shortlist, table_tau, origin, never] = *setting_;
  const bool paper = flags_.specbound.preset == Preset::kPaper;
  std::string line = format("speculation on: %s with %s", specbound_->name(), drafter().c_str());
  if (kind) line += " of " + heads_path_;
  if (!kind && paper && flags_.head != "lens") line += " (no full heads for the paper's setting)";
  line += ", " + settings_of(*specbound_, n_layers_);
  if (kind == HeadKind::kHybrid && table_tau) line += format(", table tau %g", *table_tau);
  if (!kind) return line;
  if (kind != HeadKind::kFull && kind != HeadKind::kTable) line += format(", %d tokens", shortlist);
  if (flags_.rule == ConfidenceRule::kMargin) line += ", confidence by margin";
  return line + ", " + origin;
}

}  // namespace specbound
