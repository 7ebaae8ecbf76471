// What the command line says of speculation: what drafts, with what settings. Which of them a model
// can have is Speculation's matter. DESIGN 9, 10.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli.h"
#include "decode/exit_head.h"
#include "decode/rejection.h"
#include "decode/specbound.h"

namespace specbound {

struct LayerRange {
  int first, last;
};

// Where settings come from that no flag gives.
enum class Preset {
  kTuned,    // what `tune` found for this machine, else as kShipped
  kShipped,  // the heads file's
  kPaper,    // the SpecBound paper's
};

// The settings of the SpecBound drafter.
struct SpecBoundFlags {
  std::optional<int> w_max, d_max;
  std::optional<float> alpha, tau;
  std::optional<std::vector<LayerRange>> check_layers;  // ascending; empty: all
  Preset preset = Preset::kTuned;
  bool no_anneal = false, no_depth_bound = false, no_width_bound = false;

  // `base` with the flags over it, but for the layers.
  SpecBoundParams without_layers(SpecBoundParams base) const;
  // For heads that any layer below the last can have: the logit lens, forced drafts. Checked
  // against a model of n_layers. Throws Error(kUsage).
  SpecBoundParams resolve(int n_layers) const;
};
// The paper's setting, spelled out: the defaults may move, this does not.
SpecBoundParams paper_params();

// Where drafts may leave: --preset --d-max --tau --alpha --check-layers --no-anneal
// --no-depth-bound.
void add_exit_flags(CLI::App& app, SpecBoundFlags& flags);

struct SpeculationFlags {
  std::optional<bool> on;                // without --spec: on where it is known to pay
  std::string speculator = "specbound";  // none, or one of speculators()
  SpecBoundFlags specbound;
  std::string heads;             // a file; empty: the one beside the model
  std::string head;              // full, folded, chained, lens; empty: the preset's
  std::optional<int> shortlist;  // tokens
  std::optional<float> table_tau;
  std::optional<ConfidenceRule> rule;
  int ngram_max = 3;
  std::optional<int> exit_layer;                       // of layerskip
  std::optional<std::vector<LayerRange>> skip_layers;  // of draft-verify
  std::string draft_model;                             // of draft: a file
  Acceptance acceptance = Acceptance::kCoupled;        // likewise
  std::optional<bool> controller;  // without --controller: but with kPaper and kRejection

  // Rows leave the model early, whoever says where.
  bool exits_early() const;
  // ... where another paper says, without presets.
  bool fixed_exits() const { return speculator == "layerskip" || speculator == "adadecode"; }
  // These for another drafter: what is said of SpecBound's settings or of a third one goes.
  SpeculationFlags with_speculator(const std::string& name) const;
  // Throws Error(kUsage) for a flag of another drafter than the one that was asked for.
  void check() const;
};
// What drafts, as --speculator names it.
const std::vector<std::string>& speculators();
// The one drafter that a flag is for, by its long name without dashes; nullptr: it is for several.
const char* drafter_of(std::string_view flag);
// "a|b|c"; "a, b or c".
std::string bar_list(const std::vector<std::string>& words);
std::string or_list(const std::vector<std::string>& words);

// The settings of every drafter: those of add_exit_flags, --w-max --no-width-bound --heads --head
// --table-tau --shortlist --confidence --ngram-max --exit-layer --skip-layers
// --model-draft --accept.
void add_drafter_flags(CLI::App& app, SpeculationFlags& flags);
// Those, --spec, --speculator and --controller.
void add_speculation_flags(CLI::App& app, SpeculationFlags& flags);

// Every layer that they name, up to the first one that a model of n_layers lacks.
std::vector<int> layers_in(const std::vector<LayerRange>& ranges, int n_layers);

// "2,4-8": the shortest spelling, as --check-layers takes it.
std::string layer_list(const std::vector<int>& layers);

// Why no draft may leave anywhere; empty if it may.
std::string no_exits(const SpecBoundParams& params, int n_layers);

}  // namespace specbound
