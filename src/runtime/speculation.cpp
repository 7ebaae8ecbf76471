#include "runtime/speculation.h"

#include <chrono>
#include <filesystem>
#include <utility>

#include "drafters/row_costs.h"
#include "error.h"
#include "library/heads_path.h"
#include "library/model_path.h"
#include "runtime/learning_folder.h"
#include "runtime/reply_memory.h"
#include "runtime/tuned_odds.h"
#include "runtime/tuned_settings.h"

namespace specbound {

namespace {

constexpr double kWorthKeeping = 0.01;  // seconds that measuring took

// `checks`: those of the parameters that the bounds leave.
std::string checks_of(const SpecBoundParams& p, const std::vector<int>& checks, int n_layers) {
  const char* s = checks.size() == 1 ? "" : "s";
  return format("check%s at layer%s %s of %d%s", s, s, layer_list(checks).c_str(), n_layers,
                p.depth_bound ? "" : " (no depth bound)");
}

std::string settings_of(const SpecBoundParams& p, const std::vector<int>& checks, int n_layers) {
  return format("up to %d rows%s, %s, %s, tau %g", p.width_bound ? p.w_max : kMaxRows,
                p.width_bound ? "" : " (no width bound)", checks_of(p, checks, n_layers).c_str(),
                annealing_text(p).c_str(), p.tau);
}

bool exists(const std::string& path) {
  std::error_code ec;
  return std::filesystem::exists(path, ec);
}

}  // namespace

Speculation::Speculation(const SpeculationOptions& options, const LoadedModel& model)
    : Speculation(options, model.path(), model.gguf(), model.config(), &model) {}

Speculation::Speculation(const SpeculationOptions& options, const std::string& model_path,
                         const Gguf& gguf, const ModelConfig& config, const LoadedModel* model)
    : options_(options),
      n_layers_(config.n_layers),
      vocab_size_(config.vocab_size),
      fingerprint_(options.speculator == "auto" ? model_fingerprint(gguf) : ""),
      memory_(options.remember.value_or(false)) {
  if (model) watcher_ = model->watcher();
  train_command_ = train_command(model_path);
  heads_path_ = options.heads.empty() ? specbound::heads_path(model_path, gguf) : options.heads;
  options.check();
  const DrafterKind* const kind = find_drafter(options.speculator);
  if ((options.exits_early() && options.head != "lens") || (kind && kind->by_file())) {
    open_heads(gguf, config);
  }
  if (by_draft_model() && heads_) {
    watcher_.say("draft_model=" + options.draft_model + " drafts in place of " + heads_path_);
    heads_.reset();
  }
  open_datastore(gguf);
  if (cannot_.empty()) make_drafter(model);
  if (!cannot_.empty()) {
    if (options.on.value_or(false)) {
      throw Error(ErrorCode::kUsage, "speculation=on: nothing can draft: " + cannot_);
    }
    return;
  }
  // Lookup needs no heads; other drafters are there because somebody asked for them.
  const bool exits_alone = options.exits_early() && !options.fixed_exits() && !options.looks_up();
  const bool pays = heads_ || options.head == "lens" || !exits_alone;
  active_ = options.on.value_or(pays);
  if (options.on) {
    inactive_ = "speculation=off";
  } else if (!pays) {
    inactive_ = "no exit heads beside the model: " + train_command_ + " makes them";
  }
  if (active_) begin_drafting();
}

void Speculation::open_datastore(const Gguf& gguf) {
  if (options_.datastore.empty()) return;
  store_ = Datastore::open(options_.datastore, {vocab_size_, vocabulary_fingerprint(gguf)});
}

// Leaves cannot_ where nothing can draft.
void Speculation::make_drafter(const LoadedModel* model) {
  if (by_draft_model() && model) {
    if (options_.about_exits() || !options_.head.empty()) {
      watcher_.say(
          "a draft model drafts in place of exit heads: what was said of their drafts has "
          "no effect");
    }
    other_ =
        find_drafter("draft")->make({options_, n_layers_, given_width(), model, nullptr, nullptr});
    return take_tree();
  }
  if (options_.looks_up() && !heads_ && options_.head != "lens") {
    if (options_.about_exits()) {
      watcher_.say("no exit heads beside the model: what was said of their drafts has no effect");
    }
    return take_tree();
  }
  if (options_.exits_early()) return take(settings().shipped());
  if (options_.speculator == "none") {
    cannot_ = "speculator=none";
    return;
  }
  const DrafterKind* kind = find_drafter(options_.speculator);
  if (!kind) {
    throw Error(ErrorCode::kUsage,
                format("speculator: expected %s, found \"%s\"", or_list(speculators()).c_str(),
                       printable(options_.speculator).c_str()));
  }
  if (kind->by_file()) check_has(*kind);
  tell_unused(*kind);
  other_ = kind->make({options_, n_layers_, given_width(), model, heads_ ? &*heads_ : nullptr,
                       store_ ? &*store_ : nullptr});
  if (given_width() == 1) cannot_ = "w_max=1 leaves no row to draft";
}

// What was said of exit heads, to a drafter that has no use for it.
void Speculation::tell_unused(const DrafterKind& drafter) const {
  SpeculationOptions said = options_;
  if (drafter.by_tau) said.specbound.tau.reset();
  if (drafter.by_file()) said.heads.clear();
  if (!said.about_exits() && said.heads.empty() && said.head.empty()) return;
  watcher_.say(format("speculator=%s: what was said of exit heads and their drafts has no effect",
                      drafter.name));
}

// That the heads file has what the drafter is made of.
void Speculation::check_has(const DrafterKind& drafter) const {
  if (drafter.by_masks) {
    if (heads_ && heads_->masks().count > 0) return;
    throw Error(ErrorCode::kUsage, format("speculator=%s: expected mask tokens in %s, found none: "
                                          "make_space_masks.py learns them",
                                          drafter.name, heads_path_.c_str()));
  }
  const HeadKind kind = *drafter.head;
  if (heads_ && !heads_->layers(kind).empty()) return;
  throw Error(ErrorCode::kUsage,
              format("speculator=%s: expected %s heads in %s, found %s: specbound convert --heads "
                     "makes such a file of published ones",
                     options_.speculator.c_str(), head_kind_name(kind), heads_path_.c_str(),
                     heads_ ? "other ones" : "no heads"));
}

// Rows that were asked for bound the tree, else costs do.
int Speculation::tree_width() const {
  const bool by_hand = setting_ && setting_->width_by_hand;
  if (specbound_ && (by_hand || !controls())) return specbound_->width();
  const SpecBoundOptions& given = options_.specbound;
  return given.w_max || given.no_width_bound || !controls() ? given_width() : kMaxRows;
}

// The tree of all sources; exit heads are one where there are any.
void Speculation::take_tree() {
  const int width = tree_width();
  if (width == 1) cannot_ = "w_max=1 leaves no row to draft";
  tree_.emplace(nullptr, &memory_, width, controls(), store_ ? &*store_ : nullptr);
  tree_->draft_siblings(!options_.no_siblings);
  if (specbound_) tree_->set_guesser(&*specbound_, thresholds_given());
  if (row_costs_) tree_->set_costs(*row_costs_);
  if (odds_ && options_.specbound.preset == Preset::kTuned) tree_->set_odds(*odds_);
}

// What it learnt of rows and saw of replies stays.
void Speculation::drop_tree() {
  if (!tree_) return;
  keep_row_costs();
  tree_->forget();
  tree_.reset();
}

int Speculation::given_width() const {
  return options_.specbound.rows(SpecBoundParams().w_max);
}

bool Speculation::controls() const {
  return options_.looks_up() && options_.controller.value_or(true);
}

// Heads then draft by these.
bool Speculation::thresholds_given() const {
  const SpecBoundOptions& given = options_.specbound;
  return setting_->thresholds_by_hand || given.tau || given.alpha || given.no_anneal ||
         given.anneal_learned;
}

// Of heads that idle learning made: nobody asked for them, so what is wrong with them, or that they
// cannot have what flags say of others, is told and those beside the model are taken.
bool Speculation::open_learnt(const Gguf& gguf, const ModelConfig& config) {
  if (!options_.looks_up() || !options_.heads.empty() || !options_.head.empty()) return false;
  const std::string path = learnt_heads(fingerprint_);
  if (path.empty() || !exists(path)) return false;
  std::error_code error;
  const auto made = std::filesystem::last_write_time(path, error);
  const auto beside = std::filesystem::last_write_time(heads_path_, error);
  if (!error && beside > made) return false;
  try {
    ExitHeads learnt = ExitHeads::open(path, gguf, config);
    if (learnt.can_guess()) ExitSettings(options_, &learnt, path, n_layers_).shipped();
    heads_ = std::move(learnt);
  } catch (const Error& e) {
    watcher_.say(e.code() == ErrorCode::kUsage
                     ? format("%s: not used with these flags: %s", path.c_str(), e.what())
                     : std::string(e.what()) + ": not used; specbound forget deletes it");
    return false;
  }
  heads_path_ = path;
  return true;
}

void Speculation::open_heads(const Gguf& gguf, const ModelConfig& config) {
  if (!open_learnt(gguf, config)) open_named_heads(gguf, config);
  if (!heads_) return;
  if (options_.looks_up()) text_ = heads_->text();
  if (heads_->can_guess() || options_.by_masks()) return;
  if (!options_.head.empty()) {
    throw Error(ErrorCode::kUsage,
                format("head=%s: %s holds no heads", options_.head.c_str(), heads_path_.c_str()));
  }
  heads_.reset();
}

// Those that the options name, or that lie beside the model.
void Speculation::open_named_heads(const Gguf& gguf, const ModelConfig& config) {
  const bool off = options_.on && !*options_.on;
  // LayerSkip takes the model's own head unless another one is named.
  if (options_.speculator == "layerskip" && options_.head.empty()) return;
  if (options_.heads.empty() && !exists(heads_path_)) {
    if (options_.head.empty()) return;
    throw Error(ErrorCode::kUsage,
                format("head=%s: there is no %s: name a file with heads=FILE, or make one: %s",
                       options_.head.c_str(), heads_path_.c_str(), train_command_.c_str()));
  }
  try {
    heads_ = ExitHeads::open(heads_path_, gguf, config);
  } catch (const Error& e) {
    if (!options_.heads.empty()) {
      throw Error(e.code(), format("%s; make heads for this model (%s) or leave out heads=FILE",
                                   e.what(), train_command_.c_str()));
    }
    cannot_ = e.what();
    if (off) return;
    // The file was found, not asked for: the way on must be told.
    throw Error(e.code(), format("%s; train again (%s) or go on without: speculation=off", e.what(),
                                 train_command_.c_str()));
  }
}

std::unique_ptr<ExitHead> Speculation::make_head(const ExitSetting& setting) const {
  if (!setting.kind) return std::make_unique<LensHead>();
  return std::make_unique<TrainedHead>(*heads_, *setting.kind,
                                       options_.rule.value_or(ConfidenceRule::kPeak));
}

// Leaves cannot_ where the setting never drafts.
void Speculation::take(ExitSetting setting) {
  drop_tree();
  specbound_.reset();
  setting_ = std::move(setting);
  cannot_ = setting_->never;
  // Where nobody asked for what never drafts, lookup does without heads.
  if (!cannot_.empty() && options_.looks_up() && !options_.specbound.w_max &&
      !options_.about_exits()) {
    watcher().say("exit heads do not draft: " + cannot_ + "; lookups do");
    setting_.reset();
    cannot_.clear();
    return take_tree();
  }
  if (!cannot_.empty()) return;
  head_ = make_head(*setting_);
  const char* name = find_drafter(options_.fixed_exits() ? options_.speculator : "specbound")->name;
  specbound_.emplace(*head_, setting_->params, n_layers_, name);
  if (options_.looks_up()) take_tree();
}

void Speculation::attach(Backend& backend, std::optional<LoadWatcher> watcher) {
  if (costs_kept_for_ && costs_kept_for_->device != backend.device()) costs_kept_for_.reset();
  backend_ = &backend;
  given_heads_.reset();
  attached_ = std::move(watcher);
  if (active_) begin_drafting();
}

void Speculation::begin_drafting() {
  if (text_) memory_.give(*std::exchange(text_, {}));  // it is indexed while the model is loaded
  if (!backend_) return;
  if (other_) other_->begin(*backend_, watcher());
  take_row_costs();
  take_odds();
  if (tree_ && other_) tree_->set_guesser(dynamic_cast<Guesser*>(other_->speculator()), false);
  if (!heads_ || options_.by_masks()) return;
  if (other_) {
    if (!given_heads_) give_heads(true, static_cast<int>(heads_->shortlist().size()));
    return;
  }
  if (!std::exchange(asked_for_tuned_, true)) {
    if (std::optional<ExitSetting> tuned = tuned_setting()) take(std::move(*tuned));
  }
  if (!cannot_.empty()) {
    if (options_.on.value_or(false)) {
      throw Error(ErrorCode::kUsage, "speculation=on: nothing can draft: " + cannot_);
    }
    active_ = false;
    return;
  }
  // What is there stays: a draft layer would forget the text.
  if (setting_ && given_heads_ != std::pair(setting_->kind.has_value(), setting_->shortlist)) {
    give_heads(setting_->kind.has_value(), setting_->shortlist);
  }
}

// For the tree: as measured before, or now.
void Speculation::take_row_costs() {
  if (!tree_ || !controls() || row_costs_) return;
  const int n_ctx = backend_->n_ctx();
  if (const auto kept = read_row_costs(fingerprint_, backend_->device(), n_ctx, watcher().note)) {
    row_costs_ = kept->costs;
    costs_kept_for_ = {backend_->device(), kept->context};
  }
  if (!row_costs_ && backend_->kv_len(1) == 0) {
    const auto begin = std::chrono::steady_clock::now();
    row_costs_ = measure_row_costs(*backend_);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    try {
      if (took.count() > kWorthKeeping) {
        write_row_costs(fingerprint_, backend_->device(), {*row_costs_, n_ctx});
        costs_kept_for_ = {backend_->device(), n_ctx};
      }
    } catch (const Error& e) {
      watcher().say(std::string(e.what()) + ": what rows cost is measured at each start");
    }
  }
  if (row_costs_) tree_->set_costs(*row_costs_);
}

Speculation::~Speculation() {
  keep_row_costs();
}

// For the tree after this one and the next start. Else a busy moment's figures would be every
// start's.
void Speculation::keep_row_costs() noexcept {
  if (!tree_ || !tree_->costs().settled()) return;
  const RowCosts& learnt = tree_->costs().now();
  if (row_costs_) row_costs_ = learnt;
  if (!costs_kept_for_) return;
  try {
    write_row_costs(fingerprint_, costs_kept_for_->device, {learnt, costs_kept_for_->context});
  } catch (...) {
    // The next start takes what there is.
  }
}

// For the tree, where what was measured decides and no other preset was asked for.
void Speculation::take_odds() {
  if (!tree_ || !controls() || options_.specbound.preset != Preset::kTuned) return;
  if (std::exchange(asked_for_odds_, true)) return;
  const std::optional<TunedOdds> tuned = read_tuned_odds(fingerprint_, watcher().note);
  if (!tuned) return;
  odds_ = tuned->weights;
  if (tuned->heads != (heads_ ? heads_->fingerprint() : "")) odds_->forget_guesses();
  tree_->set_odds(*odds_);
}

void Speculation::recall() {
  if (!options_.remember.value_or(false)) return;
  try {
    memory_.assign(read_replies(reply_memory_path(fingerprint_), vocab_size_));
  } catch (const Error& e) {
    watcher().say(std::string(e.what()) + ": no replies are recalled");
  }
}

void Speculation::keep_replies() {
  if (!options_.remember.value_or(false)) return;
  if (tree_) tree_->forget();
  add_replies(reply_memory_path(fingerprint_), vocab_size_, memory_.added());
}

// Those of the file, or none.
void Speculation::give_heads(bool some, int shortlist) {
  given_heads_.reset();
  backend_->set_exit_heads(some ? &*heads_ : nullptr, shortlist);
  given_heads_ = std::pair(some, shortlist);
}

// What tune found for this machine, where nothing else was asked for.
std::optional<ExitSetting> Speculation::tuned_setting() const {
  if (options_.fixed_exits()) return {};
  // Layers that were asked for may not be those of the kind of head that won.
  if (options_.specbound.preset != Preset::kTuned || options_.specbound.check_layers) return {};
  if (!heads_ || !backend_) return {};
  const auto tuned =
      read_tuned(heads_->base().fingerprint, *heads_, backend_->device(), watcher().note);
  if (!tuned) return {};
  return settings().resolve(tuned->settings, true);
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
  if (!active_) return nullptr;
  if (tree_) return &*tree_;
  if (other_) return other_->speculator();
  return specbound_ ? &*specbound_ : nullptr;
}

const DraftModel* Speculation::draft_model() const {
  return other_ ? dynamic_cast<const DraftModel*>(other_->speculator()) : nullptr;
}

const DraftVerify* Speculation::draft_verify() const {
  return other_ ? dynamic_cast<const DraftVerify*>(other_->speculator()) : nullptr;
}

const Kangaroo* Speculation::kangaroo() const {
  return other_ ? dynamic_cast<const Kangaroo*>(other_->speculator()) : nullptr;
}

std::string Speculation::drafter() const {
  if (!cannot_.empty()) return "";
  if (other_) return other_->name();
  if (!setting_) return "lookup";
  if (!setting_->kind) return "the logit lens";
  return format("%s heads", head_->name());
}

std::string Speculation::description() const {
  if (!active_) return "speculation off: " + (cannot_.empty() ? inactive_ : cannot_);
  if (tree_ && !setting_) {
    std::string more;
    if (memory_.given() > 0) {
      more = format(" with %zu tokens of %s", memory_.given(), heads_path_.c_str());
    }
    if (store_) more += " with " + store_->path();
    if (other_) more += " and " + other_->name();
    return format("speculation on: auto, a %s of lookups%s, up to %d rows%s",
                  options_.no_siblings ? "chain" : "tree", more.c_str(), tree_->width(),
                  controls() ? " (controller)" : "");
  }
  if (other_) return "speculation on: " + other_->description();
  return "speculation on: " + exits_description();
}

std::string Speculation::exits_description() const {
  const ExitSetting& setting = *setting_;
  const bool paper = options_.specbound.preset == Preset::kPaper;
  std::string line = format("%s with %s", tree_ ? "auto" : specbound_->name(), drafter().c_str());
  if (setting.kind) line += " of " + heads_path_;
  if (!setting.kind && options_.head != "lens") {
    if (options_.speculator == "adadecode" && heads_) {
      line += " (no kind of head at all of its layers)";
    } else if (paper && !options_.fixed_exits()) {
      line += " (no full heads for the paper's setting)";
    }
  }
  const std::vector<int>& checks = specbound_->check_layers();
  const bool by_cost = tree_ && controls() && !thresholds_given();
  line += ", " + (by_cost ? format("up to %d rows, ", tree_->width()) +
                                checks_of(setting.params, checks, n_layers_)
                          : settings_of(setting.params, checks, n_layers_));
  if (setting.kind) {
    if (!says_all(*setting.kind)) line += format(", %d tokens", setting.shortlist);
    if (options_.rule == ConfidenceRule::kMargin) line += ", confidence by margin";
    if (!setting.origin.empty()) line += ", " + setting.origin;
  }
  if (options_.no_siblings) line += ", no siblings";
  if (store_) line += ", with " + store_->path();
  if (tree_) line += by_cost ? ", lookups (controller)" : ", lookups beside and behind";
  return line;
}

}  // namespace specbound
