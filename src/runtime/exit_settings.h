// How a drafter that leaves the model early does it: with which heads, at which layers, at what
// thresholds. SpecBound's settings come from the options, the preset and the heads file; those of
// LayerSkip and AdaDecode from their papers, with the options over them. docs/architecture.md 6, 9.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "drafters/specbound.h"
#include "model/exit_heads.h"
#include "runtime/speculation_options.h"

namespace specbound {

struct ExitSetting {
  std::optional<HeadKind> kind;  // what the file's heads draft with; none: the logit lens
  SpecBoundParams params;
  int shortlist = 0;                // tokens that they can guess
  std::string origin;               // "as shipped"
  std::string never;                // why it never drafts like that; empty if it does
  bool thresholds_by_hand = false;  // heads draft by these
  bool width_by_hand = false;       // none goes beyond w_max
};

// Why these settings never draft; empty if they do. `tuned`: nobody asked for them.
std::string never_drafts(const SpecBoundParams& params, int n_layers, bool tuned);

// Makes settings for a model of n_layers. Throws Error(kUsage) for what it or its heads cannot
// have.
class ExitSettings {
 public:
  // `heads` (nullptr: none) are those of `heads_path`. All must outlive it.
  ExitSettings(const SpeculationOptions& options, const ExitHeads* heads,
               const std::string& heads_path, int n_layers)
      : options_(options), heads_(heads), heads_path_(heads_path), n_layers_(n_layers) {}

  // Where the options leave it open, `settings`: those of the heads file, or `tuned` ones.
  ExitSetting resolve(HeadDefaults settings, bool tuned) const;
  // As the heads file has them.
  ExitSetting shipped() const {
    return resolve(heads_ ? heads_->defaults() : HeadDefaults(), false);
  }

 private:
  ExitSetting resolve_lens() const;
  ExitSetting resolve_heads(HeadKind kind, HeadDefaults settings, bool tuned) const;
  ExitSetting resolve_fixed() const;
  std::optional<HeadKind> choose_kind(HeadKind preferred) const;
  HeadKind asked_kind() const;
  std::vector<int> choose_layers(HeadKind kind, const HeadDefaults& settings) const;
  int choose_shortlist(const HeadDefaults& settings) const;
  std::vector<int> fixed_layers() const;
  std::optional<HeadKind> fixed_kind(std::vector<int>& layers) const;
  void refuse_trained_only() const;

  const SpeculationOptions& options_;
  const ExitHeads* heads_;
  const std::string& heads_path_;
  int n_layers_;
};

}  // namespace specbound
