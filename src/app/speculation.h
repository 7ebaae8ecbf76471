// The speculator that the command line, the heads file beside the model and what was tuned for this
// machine make together. Precedence: explicit flags, then --preset, then the heads file. DESIGN 6,
// 9, 10.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "app/loaded_model.h"
#include "app/speculation_flags.h"
#include "decode/exit_head.h"
#include "decode/measured_switch.h"
#include "decode/ngram.h"
#include "decode/specbound.h"
#include "model/exit_heads.h"

namespace specbound {

// What drafts for a model, and whether it does.
class Speculation {
 public:
  // Opens the heads file. Throws Error(kUsage) for settings that the model or its heads cannot
  // have, and for --spec on where nothing can draft; Error for a heads file that does not fit.
  Speculation(const SpeculationFlags& flags, const LoadedModel& model);
  Speculation(const SpeculationFlags& flags, const std::string& model_path, const Gguf& gguf,
              const ModelConfig& config);
  Speculation(const Speculation&) = delete;
  Speculation& operator=(const Speculation&) = delete;

  // The exit heads that it drafts with; nullptr: none, or not now.
  const ExitHeads* heads() const { return active_ && kind_ ? &*heads_ : nullptr; }

  // The backend that it drafts on from now on, until another one's attach(): gives it the heads,
  // and takes the settings that were tuned for it. Throws Error(kLimit) when they do not fit into
  // memory. `backend` must outlive it or the next call.
  void attach(Backend& backend);

  bool active() const { return active_; }
  // For /spec. On is refused (false, and nothing changes) where there is nothing to switch on.
  bool set_active(bool on);
  // Stays the same object.
  Speculator* speculator();
  // The SpecBound drafter, where that is what drafts.
  const SpecBound* specbound() const { return specbound_ ? &*specbound_ : nullptr; }
  int shortlist() const { return shortlist_; }  // tokens that its heads can guess
  // "chained heads", "the logit lens", "prompt lookup"; empty without a drafter.
  std::string drafter() const;

  // One line: whether speculation is active, with what settings, or why not and what turns it on.
  std::string description() const;

 private:
  void open_heads(const Gguf& gguf, const ModelConfig& config);
  std::optional<HeadKind> choose_kind(HeadKind preferred) const;
  void make_specbound(HeadDefaults settings);
  std::vector<int> choose_layers(HeadKind kind, const HeadDefaults& settings) const;
  int choose_shortlist(const HeadDefaults& settings) const;
  void give_heads();
  void take_tuned();

  SpeculationFlags flags_;
  int n_layers_;
  std::string train_command_;
  std::string heads_path_;  // where they are or would be
  std::optional<ExitHeads> heads_;
  int shortlist_ = 0;
  std::optional<float> table_tau_;  // of a hybrid; none: tau

  std::optional<HeadKind> kind_;  // what the file's heads draft with; none: the logit lens
  std::unique_ptr<ExitHead> head_;
  std::optional<SpecBound> specbound_;
  std::optional<NgramSpeculator> ngram_;
  std::optional<MeasuredSwitch> switch_;

  Backend* backend_ = nullptr;
  bool tuned_ = false;  // the settings are the machine's own
  bool asked_for_tuned_ = false;
  bool active_ = false;
  std::string cannot_;    // why there is no drafter; empty when there is one
  std::string inactive_;  // why it does not draft, when it does not
};

}  // namespace specbound
