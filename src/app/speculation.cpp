#include "app/speculation.h"

#include <filesystem>
#include <utility>

#include "app/heads_path.h"
#include "app/tuned_settings.h"
#include "decode/table_head.h"
#include "error.h"

namespace specbound {

namespace {

// `checks`: those of the parameters that the bounds leave.
std::string settings_of(const SpecBoundParams& p, const std::vector<int>& checks, int n_layers) {
  return format("up to %d rows%s, check%s at layer%s %s of %d%s, %s, tau %g",
                p.width_bound ? p.w_max : kMaxRows, p.width_bound ? "" : " (no width bound)",
                checks.size() == 1 ? "" : "s", checks.size() == 1 ? "" : "s",
                layer_list(checks).c_str(), n_layers, p.depth_bound ? "" : " (no depth bound)",
                p.anneal ? format("alpha %g", p.alpha).c_str() : "no annealing", p.tau);
}

// nullptr: another drafter was asked for.
std::unique_ptr<DraftModelFile> open_draft_model(const SpeculationFlags& flags,
                                                 const LoadedModel& model) {
  flags.check();
  if (flags.speculator != "draft") return nullptr;
  return std::make_unique<DraftModelFile>(flags.draft_model, model);
}

bool exists(const std::string& path) {
  std::error_code ec;
  return std::filesystem::exists(path, ec);
}

}  // namespace

Speculation::Speculation(const SpeculationFlags& flags, const LoadedModel& model)
    : Speculation(flags, model.path(), model.gguf(), model.config(),
                  open_draft_model(flags, model)) {}

Speculation::Speculation(const SpeculationFlags& flags, const std::string& model_path,
                         const Gguf& gguf, const ModelConfig& config,
                         std::unique_ptr<DraftModelFile> draft_model)
    : flags_(flags), n_layers_(config.n_layers), draft_file_(std::move(draft_model)) {
  train_command_ = "specbound train-heads -m " + model_path + " --data chat.jsonl";
  heads_path_ = flags.heads.empty() ? sidecar_heads(model_path) : flags.heads;
  flags.check();
  if (flags.exits_early() && flags.head != "lens") open_heads(gguf, config);
  if (cannot_.empty()) make_drafter();
  if (!cannot_.empty()) {
    if (flags.on.value_or(false)) {
      throw Error(ErrorCode::kUsage, "--spec on: nothing can draft: " + cannot_);
    }
    return;
  }
  // Another drafter than SpecBound is there because somebody asked for it.
  const bool pays = heads_ || flags.head == "lens" || flags.speculator != "specbound";
  active_ = flags.on.value_or(pays);
  if (flags.on) {
    inactive_ = "--spec off";
  } else if (!pays) {
    inactive_ = "no exit heads beside the model: " + train_command_ + " makes them";
  }
}

// Leaves cannot_ where nothing can draft.
void Speculation::make_drafter() {
  const int width = given_width();
  if (flags_.exits_early()) return take(settings().shipped());
  if (flags_.speculator == "none") {
    cannot_ = "--speculator none";
  } else if (width == 1) {
    cannot_ = "--w-max 1 leaves no row to draft";
  } else if (flags_.speculator == "ngram") {
    ngram_.emplace(flags_.ngram_max, width);
  } else if (flags_.speculator == "draft-verify") {
    DraftVerifyParams params;
    params.skipped = flags_.skip_layers ? layers_in(*flags_.skip_layers, n_layers_)
                                        : default_skipped_layers(n_layers_);
    params.w_max = width;
    params.tau = flags_.specbound.tau.value_or(params.tau);
    validate(params, n_layers_);
    draft_verify_.emplace(params);
  } else if (flags_.speculator == "draft") {
    SB_CHECK(draft_file_);
    return;  // it drafts once it is loaded
  } else {
    throw Error(ErrorCode::kUsage,
                format("--speculator: expected %s, found \"%s\"", or_list(speculators()).c_str(),
                       printable(flags_.speculator).c_str()));
  }
  if (cannot_.empty() && controls()) switch_.emplace(chosen());
}

// Rows of a round, for drafters that know no presets.
int Speculation::given_width() const {
  const SpecBoundFlags& given = flags_.specbound;
  return given.no_width_bound ? kMaxRows : given.w_max.value_or(SpecBoundParams().w_max);
}

// A text by rejection depends on which tokens were drafted, and must not depend on the clock.
bool Speculation::controls() const {
  return flags_.controller.value_or(flags_.specbound.preset != Preset::kPaper &&
                                    flags_.acceptance != Acceptance::kRejection);
}

// Thresholds that were asked for stay.
bool Speculation::controls_exits() const {
  const SpecBoundFlags& given = flags_.specbound;
  return controls() && !flags_.fixed_exits() && !setting_->thresholds_by_hand && !given.tau &&
         !given.alpha && !given.no_anneal && !flags_.table_tau;
}

void Speculation::open_heads(const Gguf& gguf, const ModelConfig& config) {
  const bool off = flags_.on && !*flags_.on;
  // LayerSkip takes the model's own head unless another one is named.
  if (flags_.speculator == "layerskip" && flags_.head.empty()) return;
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

std::unique_ptr<ExitHead> Speculation::make_head(const ExitSetting& setting) const {
  if (!setting.kind) return std::make_unique<LensHead>();
  return make_exit_head(*heads_, *setting.kind, setting.tau_of_table(),
                        flags_.rule.value_or(ConfidenceRule::kPeak));
}

// Leaves cannot_ where the setting never drafts.
void Speculation::take(ExitSetting setting) {
  switch_.reset();
  hybrid_.reset();
  specbound_.reset();
  setting_ = std::move(setting);
  cannot_ = setting_->never;
  if (!cannot_.empty()) return;
  head_ = make_head(*setting_);
  const char* name = flags_.speculator == "layerskip"   ? "layerskip"
                     : flags_.speculator == "adadecode" ? "adadecode"
                                                        : "specbound";
  specbound_.emplace(*head_, setting_->params, n_layers_, name);
  take_control();
  if (flags_.speculator == "hybrid") hybrid_.emplace(*specbound_, flags_.ngram_max);
  if (controls()) switch_.emplace(chosen());
}

// Within the bounds that were asked for: those of presets and files are where it begins.
void Speculation::take_control() {
  controller_.reset();
  if (!controls_exits()) return;
  SpecBoundParams params = setting_->params;
  ControllerSettings settings;
  settings.n_layers = n_layers_;
  settings.check_layers = specbound_->check_layers();
  settings.first_width = params.width_bound ? params.w_max : kMaxRows;
  const bool asked = flags_.specbound.w_max || setting_->width_by_hand;
  settings.width = asked && params.width_bound ? params.w_max : kMaxRows;
  if (setting_->costs) {
    const bool hybrid = setting_->kind == HeadKind::kHybrid;
    settings.tuned = &*setting_->costs;
    settings.check_seconds = settings.tuned->check(
        head_kind_name(hybrid ? HeadKind::kChained : *setting_->kind), setting_->shortlist);
  }
  controller_.emplace(settings);
  params.w_max = settings.width;
  specbound_->set_params(params);
  specbound_->set_policy(&*controller_);
}

void Speculation::attach(Backend& backend, std::optional<LoadWatcher> watcher) {
  backend_ = &backend;
  watcher_ = std::move(watcher);
  if (active_) begin_drafting();
}

// Beside the backend, when it is first to draft.
void Speculation::load_draft_model() {
  if (!backend_ || draft_file_->loaded()) return;
  draft_file_->load(*backend_, watcher());
  draft_model_.emplace(draft_file_->backend(), given_width(),
                       flags_.specbound.tau.value_or(DraftModel::kTau), flags_.acceptance);
  if (controls()) switch_.emplace(chosen());
}

void Speculation::begin_drafting() {
  if (draft_file_) return load_draft_model();
  if (!heads_ || !backend_) return;
  if (!std::exchange(asked_for_tuned_, true)) {
    if (std::optional<ExitSetting> tuned = tuned_setting()) take(std::move(*tuned));
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

void Speculation::give_heads(const ExitSetting& setting) {
  backend_->set_exit_heads(setting.kind ? &*heads_ : nullptr, setting.shortlist);
}

// What tune found for this machine, where nothing else was asked for.
std::optional<ExitSetting> Speculation::tuned_setting() const {
  if (flags_.fixed_exits()) return {};
  // Layers that were asked for may not be those of the kind of head that won.
  if (flags_.specbound.preset != Preset::kTuned || flags_.specbound.check_layers) return {};
  if (!heads_ || !backend_) return {};
  const auto tuned =
      read_tuned(heads_->base().fingerprint, *heads_, backend_->device(), watcher().note);
  if (!tuned) return {};
  ExitSetting setting = settings().settle(tuned->settings, true);
  setting.costs = tuned->costs;
  return setting;
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

Speculator* Speculation::speculator() {
  if (!active_ || (draft_file_ && !draft_model_)) return nullptr;
  return switch_ ? &*switch_ : &chosen();
}

// The drafter, which is there where cannot_ is empty; a draft model once it is loaded.
Speculator& Speculation::chosen() {
  if (draft_model_) return *draft_model_;
  if (ngram_) return *ngram_;
  if (draft_verify_) return *draft_verify_;
  if (hybrid_) return *hybrid_;
  return *specbound_;
}

std::string Speculation::drafter() const {
  if (!cannot_.empty()) return "";
  if (ngram_) return "prompt lookup";
  if (draft_verify_) return "the model without some layers";
  if (draft_file_) return "the draft model " + draft_file_->path();
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
  if (draft_verify_) {
    const DraftVerifyParams& p = draft_verify_->params();
    return format(
        "speculation on: draft-verify, the model without layer%s %s of %d, up to %d rows, "
        "threshold %g at first",
        p.skipped.size() == 1 ? "" : "s", layer_list(p.skipped).c_str(), n_layers_, p.w_max, p.tau);
  }
  if (draft_file_) {
    return format("speculation on: draft, by %s (%d layers), up to %d rows, tau %g%s",
                  draft_file_->path().c_str(), draft_file_->config().n_layers, given_width(),
                  flags_.specbound.tau.value_or(DraftModel::kTau),
                  flags_.acceptance == Acceptance::kRejection
                      ? ", accepted by rejection: the probabilities of plain decoding, another text"
                      : "");
  }
  return "speculation on: " + exits_description();
}

std::string Speculation::exits_description() const {
  const ExitSetting& setting = *setting_;
  const bool paper = flags_.specbound.preset == Preset::kPaper;
  std::string line = format("%s with %s", flags_.speculator.c_str(), drafter().c_str());
  if (setting.kind) line += " of " + heads_path_;
  if (!setting.kind && flags_.head != "lens") {
    if (flags_.speculator == "adadecode" && heads_) {
      line += " (no kind of head at all of its layers)";
    } else if (paper && !flags_.fixed_exits()) {
      line += " (no full heads for the paper's setting)";
    }
  }
  line += ", " + settings_of(setting.params, specbound_->check_layers(), n_layers_);
  if (setting.kind == HeadKind::kHybrid && setting.table_tau) {
    line += format(", table tau %g", *setting.table_tau);
  }
  if (setting.kind) {
    if (setting.kind != HeadKind::kFull && setting.kind != HeadKind::kTable) {
      line += format(", %d tokens", setting.shortlist);
    }
    if (flags_.rule == ConfidenceRule::kMargin) line += ", confidence by margin";
    if (!setting.origin.empty()) line += ", " + setting.origin;
  }
  if (controller_) line += ", at first (controller)";
  if (hybrid_) {
    line += format(", then prompt lookup of up to %d token%s", hybrid_->n_max(),
                   hybrid_->n_max() == 1 ? "" : "s");
  }
  return line;
}

}  // namespace specbound
