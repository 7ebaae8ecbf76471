// Speculation as the command line asks for it, and the speculator that comes of it. Precedence:
// explicit flags, then --preset, then the defaults. DESIGN 9, 10.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/cli.h"
#include "decode/exit_head.h"
#include "decode/specbound.h"

namespace specbound {

struct LayerRange {
  int first, last;
};

// The settings of the SpecBound drafter.
struct SpecBoundFlags {
  std::optional<int> w_max, d_max;
  std::optional<float> alpha, tau;
  std::vector<LayerRange> check_layers;  // ascending; empty: all
  std::string preset;                    // "", "paper"
  bool no_anneal = false, no_depth_bound = false, no_width_bound = false;

  // Checked against a model of n_layers. Throws Error(kUsage).
  SpecBoundParams resolve(int n_layers) const;
};
// Where drafts may leave: --preset --d-max --tau --alpha --check-layers --no-anneal
// --no-depth-bound.
void add_exit_flags(CLI::App& app, SpecBoundFlags& flags);
// Those, --w-max and --no-width-bound.
void add_specbound_flags(CLI::App& app, SpecBoundFlags& flags);

// Why no draft may leave anywhere; empty if it may.
std::string no_exits(const SpecBoundParams& params, int n_layers);

// Those, and --spec on|off, --speculator none|specbound.
struct SpeculationFlags {
  std::optional<bool> on;  // without --spec: on where it is known to pay
  std::string speculator = "specbound";
  SpecBoundFlags specbound;
};
void add_speculation_flags(CLI::App& app, SpeculationFlags& flags);

// What drafts for a model, and whether it does.
class Speculation {
 public:
  // Throws Error(kUsage) for settings that the model has no layers for, and for --spec on where
  // nothing can draft.
  Speculation(const SpeculationFlags& flags, int n_layers);

  bool active() const { return active_; }
  // For /spec. On is refused (false, and nothing changes) where --speculator none left nothing to
  // switch on, or the settings leave no layer to draft from.
  bool set_active(bool on);
  Speculator* speculator() { return active_ ? speculator_.get() : nullptr; }

  // One line: whether speculation is active, with what settings, or why not and what turns it on.
  std::string description() const;

 private:
  std::unique_ptr<ExitHead> head_;
  std::unique_ptr<SpecBound> speculator_;  // none without a drafter
  bool active_ = false;
  int n_layers_;
  std::string cannot_;    // why there is no drafter; empty when there is one
  std::string inactive_;  // why it does not draft, when it does not
};

}  // namespace specbound
