// The speculator that the options, the heads file beside the model and what was tuned for this
// machine make together. Precedence: explicit options, then the preset, then the heads file.
// docs/architecture.md 6, 9, 10.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "drafters/draft_model.h"
#include "drafters/draft_verify.h"
#include "drafters/exit_head.h"
#include "drafters/kangaroo.h"
#include "drafters/specbound.h"
#include "drafters/tree_speculator.h"
#include "model/datastore.h"
#include "model/exit_heads.h"
#include "runtime/drafters.h"
#include "runtime/exit_settings.h"
#include "runtime/loaded_model.h"
#include "runtime/speculation_options.h"

namespace specbound {

// What a change of settings names, though the values may be those that they were.
struct ChangeOf {
  bool thresholds = false, width = false;
};

// What drafts for a model, and whether it does.
class Speculation {
 public:
  // Opens the heads file and the draft model. Throws Error(kUsage) for settings that the model or
  // its heads cannot have, for a draft model with another vocabulary, and for --spec on where
  // nothing can draft; Error for a file that cannot be used.
  Speculation(const SpeculationOptions& options, const LoadedModel& model);
  // Of a model that need not be one to run; no second model drafts for it.
  Speculation(const SpeculationOptions& options, const std::string& model_path, const Gguf& gguf,
              const ModelConfig& config)
      : Speculation(options, model_path, gguf, config, nullptr) {}
  // What rounds have taught of row costs is kept for the next start, where such are kept.
  ~Speculation();
  Speculation(const Speculation&) = delete;
  Speculation& operator=(const Speculation&) = delete;

  // A file of heads, wherever they lie. Auto takes those that idle learning made
  // (runtime/learning_folder.h) where they are newer than those beside the model.
  const std::string& heads_path() const { return heads_path_; }
  // The exit heads that it drafts with; nullptr: none, or not now.
  const ExitHeads* heads() const {
    return active_ && heads_ && (other_ || (setting_ && setting_->kind)) ? &*heads_ : nullptr;
  }

  // The backend that it drafts on from now on, until another one's attach(): gives it the heads,
  // and takes the settings that were tuned for it; a draft model is loaded beside it. Throws
  // Error(kLimit) when they do not fit into memory. `backend` must outlive it or the next call, and
  // so must what `watcher` refers to (none: the model's), who is told of tuned settings that are of
  // no use and looks on while the draft model is loaded, whenever they are asked for.
  void attach(Backend& backend, std::optional<LoadWatcher> watcher = {});

  bool active() const { return active_; }
  // Whether what was measured decides what is drafted.
  bool controls() const;
  // Where replies are remembered: those that were kept of earlier conversations with this model
  // (runtime/reply_memory.h) are remembered too; a file of no use is told to the watcher.
  void recall();
  // Once, behind the last reply: those that were written here are kept behind what the file has by
  // then. Throws Error(kFile).
  void keep_replies();

  // For /spec, between rounds. On is refused (false, and nothing changes) where there is nothing to
  // switch on. `inactive`: why it does not draft, for description(), when it is off.
  bool set_active(bool on, const std::string& inactive = "/spec off");
  // nullptr: plainly. Sessions must be given it again after set_active(), change() and choose(),
  // also where they have thrown: the last one leaves the object before dead.
  Speculator* speculator();
  // What leaves the model early, where that drafts, alone or first.
  const SpecBound* specbound() const { return specbound_ ? &*specbound_ : nullptr; }
  // Tokens that its heads can guess.
  int shortlist() const { return setting_ ? setting_->shortlist : 0; }
  // The second model, where that is what drafts, once it is loaded.
  const DraftModel* draft_model() const;
  // Its file, likewise; loaded or not.
  const Gguf* draft_gguf() const { return other_ ? other_->second_model() : nullptr; }
  // That attach() is planned to take of a GPU beside the model and its heads.
  size_t gpu_bytes() const { return active_ && other_ ? other_->gpu_bytes() : 0; }
  // Draft & Verify, where that is what drafts.
  const DraftVerify* draft_verify() const;
  // The model's first layers and an adapter, likewise.
  const Kangaroo* kangaroo() const;
  // "chained heads", "the logit lens", "prompt lookup"; empty without a drafter.
  std::string drafter() const;

  // ---- the settings of a drafter with exit heads, which can change between rounds ----

  // Layers that can be checked, ascending (0: before any); empty where there are none, or something
  // else drafts: then there is nothing to change.
  std::vector<int> head_layers() const;
  Preset preset() const { return options_.specbound.preset; }
  // check_layers: all that were asked for, never empty where head_layers() is not.
  SpecBoundParams params() const;
  // Takes these in place of what options, preset and heads file have made. As with options, bounds
  // that are others now bound the tree, and heads draft by thresholds that are. Throws
  // Error(kUsage), and nothing has changed, for what the model or its heads cannot have and what
  // never drafts.
  void change(const SpecBoundParams& params, ChangeOf what = {});
  // Takes a preset's, without the options. Which heads draft may change too: those that --preset at
  // the start would have chosen. Throws as change() does, also for a drafter that knows no presets,
  // and Error(kLimit) where they do not fit; should those before not fit either any more, it is no
  // longer active.
  void choose(Preset preset);

  // Whether auto drafts, whose heads can be others: not while a draft model or a paper's settings
  // do.
  bool takes_heads() const { return options_.looks_up() && !other_; }
  // Between replies, where takes_heads(): these in place of its own, by the settings they came with
  // or what was tuned for them; what is remembered stays. Throws Error(kUsage), and nothing has
  // changed, for heads that cannot have the options. Where they do not fit into memory, lookups
  // draft alone, and Error(kLimit) says so. The speculator is another one then too.
  void take_heads(ExitHeads heads);

  // One line: whether speculation is active, with what settings, or why not and what turns it on.
  std::string description() const;

 private:
  Speculation(const SpeculationOptions& options, const std::string& model_path, const Gguf& gguf,
              const ModelConfig& config, const LoadedModel* model);
  void open_heads(const Gguf& gguf, const ModelConfig& config);
  void open_named_heads(const Gguf& gguf, const ModelConfig& config);
  bool open_learnt(const Gguf& gguf, const ModelConfig& config);
  void open_datastore(const Gguf& gguf);
  void make_drafter(const LoadedModel* model);
  void check_has(const DrafterKind& drafter) const;
  void tell_unused(const DrafterKind& drafter) const;
  ExitSettings settings() const {
    return {options_, heads_ ? &*heads_ : nullptr, heads_path_, n_layers_};
  }
  void take(ExitSetting setting);
  void check_settable() const;
  bool thresholds_given() const;
  bool by_draft_model() const { return options_.looks_up() && !options_.draft_model.empty(); }
  int tree_width() const;
  void take_tree();
  void drop_tree();
  void take_row_costs();
  void keep_row_costs() noexcept;
  void take_odds();
  std::unique_ptr<ExitHead> make_head(const ExitSetting& setting) const;
  void begin_drafting();
  const LoadWatcher& watcher() const { return attached_ ? *attached_ : watcher_; }
  int given_width() const;
  void give_heads(bool some, int shortlist);
  void exchange_heads(const ExitSetting& next);
  void drop_heads();
  std::optional<ExitSetting> tuned_setting() const;
  std::string exits_description() const;

  SpeculationOptions options_;
  int n_layers_, vocab_size_;
  std::string train_command_;
  std::string fingerprint_;  // of the model; empty but for auto, which keeps files by it
  std::string heads_path_;   // where they are or would be
  std::optional<ExitHeads> heads_;
  std::optional<Datastore> store_;

  std::optional<ExitSetting> setting_;  // where rows leave early
  std::unique_ptr<ExitHead> head_;
  std::optional<SpecBound> specbound_;
  std::optional<std::vector<int32_t>> text_;  // of the heads, until somebody looks up in it
  LookupMemory memory_;                       // of replies, where they are remembered
  std::optional<TreeSpeculator> tree_;        // of lookups and what it asks: specbound_ or other_
  std::unique_ptr<OtherDrafter> other_;       // without exits

  std::optional<RowCosts> row_costs_;  // of the backend
  struct KeptFor {
    std::string device;
    int context;
  };
  std::optional<KeptFor> costs_kept_for_;       // what a file has them of
  std::optional<CandidateOdds::Weights> odds_;  // that were tuned
  bool asked_for_odds_ = false;
  Backend* backend_ = nullptr;
  // Whether it has the heads, and how much of their list; empty: not known.
  std::optional<std::pair<bool, int>> given_heads_;
  LoadWatcher watcher_;                  // the model's
  std::optional<LoadWatcher> attached_;  // over it
  bool asked_for_tuned_ = false;
  bool active_ = false;
  std::string cannot_;                        // why there is no drafter; empty when there is one
  std::string inactive_ = "not switched on";  // why it does not draft, when it does not
};

}  // namespace specbound
