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
    make_specbound(heads_ ? heads_->defaults() : HeadDefaults());
  }
  if (!cannot_.empty()) {
    if (flags.on.value_or(false)) {
      throw Error(ErrorCode::kUsage, "--spec on: nothing can draft: " + cannot_);
    }
    return;
  }
  Speculator& inner = ngram_ ? static_cast<Speculator&>(*ngram_) : *specbound_;
  if (!flags.no_switch && flags.specbound.preset != Preset::kPaper) switch_.emplace(inner);
  const bool asked_for = ngram_ || flags.head == "lens";
  active_ = flags.on.value_or(heads_ || asked_for);
  inactive_ =
      flags.on ? "--spec off" : "no exit heads beside the model: " + train_command_ + " makes them";
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

// Leaves cannot_ where these settings never draft.
void Speculation::make_specbound(HeadDefaults settings) {
  if (!cannot_.empty()) return;
  const std::optional<HeadKind> kind = choose_kind(settings.kind);
  if (kind && *kind != settings.kind) {  // another kind's depth bound may lie above all of these
    settings.d_max = std::max(settings.d_max, heads_->layers(*kind).back());
  }
  SpecBoundParams params;
  if (kind) {
    const bool paper = flags_.specbound.preset == Preset::kPaper;
    if (paper) {
      params = paper_params();
    } else {
      params.w_max = settings.w_max;
      params.d_max = settings.d_max;
      params.alpha = settings.alpha;
      params.tau = settings.tau;
    }
    params = flags_.specbound.without_layers(params);
    params.check_layers = choose_layers(*kind, settings);
    validate(params, n_layers_, std::min(1, heads_->layers(*kind).front()));
    shortlist_ = choose_shortlist(settings);
    if (flags_.table_tau && *kind != HeadKind::kHybrid) {
      throw Error(ErrorCode::kUsage, format("--table-tau: needs --head hybrid, found %s heads",
                                            head_kind_name(*kind)));
    }
    if (flags_.rule && *kind == HeadKind::kTable) {
      throw Error(ErrorCode::kUsage,
                  "--confidence: needs trained heads (--head chained), found the draft table");
    }
    table_tau_ = flags_.table_tau;
    // A flag moves both thresholds, unless each has its own.
    if (!table_tau_ && !paper && !flags_.specbound.tau) table_tau_ = settings.table_tau;
  } else {
    for (const auto& [flag, given] : {std::pair("--shortlist", flags_.shortlist.has_value()),
                                      std::pair("--table-tau", flags_.table_tau.has_value()),
                                      std::pair("--confidence", flags_.rule.has_value())}) {
      if (!given) continue;
      throw Error(ErrorCode::kUsage, format("%s: needs trained heads, found the logit lens", flag));
    }
    params = flags_.specbound.resolve(n_layers_);
  }
  cannot_ = never_drafts(params, n_layers_, tuned_ && !flags_.specbound.w_max);
  if (!cannot_.empty()) return;
  if (kind) {
    head_ = make_exit_head(*heads_, *kind, table_tau_.value_or(params.tau),
                           flags_.rule.value_or(ConfidenceRule::kPeak));
  } else {
    head_ = std::make_unique<LensHead>();
  }
  kind_ = kind;
  specbound_.emplace(*head_, params, n_layers_);
}

void Speculation::attach(Backend& backend) {
  backend_ = &backend;
  if (active_) give_heads();
}

void Speculation::give_heads() {
  if (!heads_ || !backend_) return;
  if (!std::exchange(asked_for_tuned_, true)) take_tuned();
  if (active_) backend_->set_exit_heads(&*heads_, shortlist_);
}

// What tune found for this machine, where nothing else was asked for.
void Speculation::take_tuned() {
  // Layers that were asked for may not be those of the kind of head that won.
  if (flags_.specbound.preset != Preset::kTuned || flags_.specbound.check_layers) return;
  const auto tuned = read_tuned(heads_->base().fingerprint, *heads_, backend_->device());
  if (!tuned) return;
  tuned_ = true;
  make_specbound(tuned->settings);
  if (cannot_.empty()) return;
  if (flags_.on.value_or(false)) {
    throw Error(ErrorCode::kUsage, "--spec on: nothing can draft: " + cannot_);
  }
  active_ = false;
}

bool Speculation::set_active(bool on) {
  if (on && !cannot_.empty()) return false;
  const bool before = std::exchange(active_, on);
  inactive_ = "/spec off";
  try {
    if (on) give_heads();
  } catch (...) {  // they do not fit
    active_ = before;
    throw;
  }
  return active_ == on;
}

Speculator* Speculation::speculator() {
  if (!active_) return nullptr;
  if (switch_) return &*switch_;
  return ngram_ ? static_cast<Speculator*>(&*ngram_) : &*specbound_;
}

std::string Speculation::drafter() const {
  if (!cannot_.empty()) return "";
  if (ngram_) return "prompt lookup";
  if (!kind_) return "the logit lens";
  if (kind_ == HeadKind::kTable) return "the draft table";
  return format("%s heads", head_->name());
}

std::string Speculation::description() const {
  if (!active_) return "speculation off: " + (cannot_.empty() ? inactive_ : cannot_);
  if (ngram_) {
    return format("speculation on: ngram, prompt lookup of up to %d token%s, up to %d rows",
                  ngram_->n_max(), ngram_->n_max() == 1 ? "" : "s", ngram_->width());
  }
  const bool paper = flags_.specbound.preset == Preset::kPaper;
  std::string line = format("speculation on: %s with %s", specbound_->name(), drafter().c_str());
  if (kind_) line += " of " + heads_path_;
  if (!kind_ && paper && flags_.head != "lens") line += " (no full heads for the paper's setting)";
  line += ", " + settings_of(*specbound_, n_layers_);
  if (kind_ == HeadKind::kHybrid && table_tau_) line += format(", table tau %g", *table_tau_);
  if (!kind_) return line;
  if (kind_ != HeadKind::kFull && kind_ != HeadKind::kTable)
    line += format(", %d tokens", shortlist_);
  if (flags_.rule == ConfidenceRule::kMargin) line += ", confidence by margin";
  return line + (paper ? ", the paper's setting" : tuned_ ? ", tuned here" : ", as shipped");
}

}  // namespace specbound
