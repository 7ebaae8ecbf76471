// What is asked of speculation: what drafts, with what settings. Which of them a model can have is
// Speculation's matter. docs/architecture.md 9, 10.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "decode/acceptance.h"
#include "drafters/exit_head.h"
#include "drafters/lookahead.h"
#include "drafters/specbound.h"

namespace specbound {

struct LayerRange {
  int first, last;
};

// Where settings come from that no option gives.
enum class Preset {
  kTuned,    // what `tune` found for this machine, else as kShipped
  kShipped,  // the heads file's
  kPaper,    // the SpecBound paper's
};

// The settings of the SpecBound drafter.
struct SpecBoundOptions {
  std::optional<int> w_max, d_max;
  std::optional<float> alpha, tau;
  std::optional<std::vector<LayerRange>> check_layers;  // ascending; empty: all
  Preset preset = Preset::kTuned;
  bool no_anneal = false, no_depth_bound = false, no_width_bound = false;
  bool anneal_learned = false;

  // Rows of a round, for drafters that know no presets; `usual`: where nothing is given.
  int rows(int usual) const { return no_width_bound ? kMaxRows : w_max.value_or(usual); }
  // Throws Error(kUsage) for options that exclude each other.
  void check() const;
  // `base` with the options over it, but for the layers.
  SpecBoundParams without_layers(SpecBoundParams base) const;
  // For heads that any layer below the last can have: the logit lens, forced drafts. Checked
  // against a model of n_layers. Throws Error(kUsage).
  SpecBoundParams resolve(int n_layers) const;
};
// The paper's setting, spelled out: the defaults may move, this does not.
SpecBoundParams paper_params();

constexpr int kUsualNgram = 3;

struct SpeculationOptions {
  std::optional<bool> on;           // without --spec: on where it is known to pay
  std::string speculator = "auto";  // none, or one of speculators()
  SpecBoundOptions specbound;
  std::string heads;             // a file; empty: the one beside the model
  std::string head;              // a kind of HeadKind, or lens; empty: the preset's
  std::optional<int> shortlist;  // tokens
  std::optional<ConfidenceRule> rule;
  int ngram_max = kUsualNgram;    // of ngram
  std::optional<bool> remember;   // auto: looks up in replies to other texts too; else not
  std::optional<int> exit_layer;  // of layerskip
  std::optional<std::vector<LayerRange>> skip_layers;  // of draft-verify
  std::optional<LookaheadParams> lookahead;            // of lookahead
  std::string draft_model;                             // of draft and auto: a file
  std::string datastore;                               // of rest and auto: a file
  Acceptance acceptance = Acceptance::kCoupled;        // of draft, medusa and hydra
  int siblings = 1;                                    // of draft, by rejection: drafts a place
  bool no_siblings = false;                            // of auto: one draft behind each row
  bool fixed_tree = false;                             // of medusa and hydra: as published
  std::optional<bool> controller;  // of auto: what was measured decides; else it does

  // Rows leave the model early by exit heads, whoever says where.
  bool exits_early() const;
  // ... where another paper says, without presets.
  bool fixed_exits() const;
  // Mask tokens of the heads file draft, and no heads.
  bool by_masks() const;
  // Something is said of how exit heads draft.
  bool about_exits() const;
  // All sources in one tree; the paper's preset is exits alone.
  bool looks_up() const { return speculator == "auto" && specbound.preset != Preset::kPaper; }
  // These for another drafter: what is said of SpecBound's settings or of a third one goes.
  SpeculationOptions with_speculator(const std::string& name) const;
  // Throws Error(kUsage) for a flag of another drafter than the one that was asked for.
  void check() const;
};
// What drafts, as --speculator names it.
const std::vector<std::string>& speculators();
// Whether a parameter, as it is set, says something to that drafter: most do to all.
bool is_for_drafter(std::string_view parameter, const std::string& value, std::string_view drafter);
// "a|b|c"; "a, b or c".
std::string bar_list(const std::vector<std::string>& words);
std::string or_list(const std::vector<std::string>& words);

// Every layer that they name, up to the first one that a model of n_layers lacks.
std::vector<int> layers_in(const std::vector<LayerRange>& ranges, int n_layers);

// "2,4-8": the shortest spelling, as --check-layers takes it.
std::string layer_list(const std::vector<int>& layers);

// Why no draft may leave anywhere; empty if it may.
std::string no_exits(const SpecBoundParams& params, int n_layers);

}  // namespace specbound
