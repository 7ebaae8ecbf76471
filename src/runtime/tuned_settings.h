// What was measured of a model on this machine, kept in $XDG_CACHE_HOME/specbound (or
// ~/.cache/specbound): what `specbound tune` found, the winner of its search and the costs it was
// found under; and what rows cost, which the first load of a model measures. One JSON file each for
// each model and device; the machine is its CPU's name and the device. docs/architecture.md 6, 9.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "drafters/row_costs.h"
#include "model/exit_heads.h"

namespace specbound {

struct TunedSettings {
  std::string heads_fingerprint;  // of the heads file they were found with
  HeadDefaults settings;          // w_max 1: nothing paid
  double predicted_speedup = 0;
};

// Who is told in one line of a file that is of no use; empty: nobody.
using TunedNote = std::function<void(const std::string& line)>;
// nullopt when there is none for this model, these heads and device; a file that cannot be read or
// makes no sense is told and counts as none. The heads must have what the settings name: a file
// that was edited by hand may name others.
std::optional<TunedSettings> read_tuned(const std::string& model_fingerprint,
                                        const ExitHeads& heads, const std::string& device,
                                        const TunedNote& note = nullptr);
std::optional<TunedSettings> read_tuned(const std::string& model_fingerprint,
                                        const std::string& heads_fingerprint,
                                        const std::string& device, const TunedNote& note = nullptr);
// Throws Error(kFile). Returns where it went.
std::string write_tuned(const std::string& model_fingerprint, const std::string& device,
                        const TunedSettings& settings);

// What drafters/row_costs.h measured in some context, and rounds corrected since.
struct KeptRowCosts {
  RowCosts costs;
  int context = 0;
};
// nullopt as above, for what a shorter context than n_ctx could not tell, and for costs of other
// kernels (kRowKernels).
std::optional<KeptRowCosts> read_row_costs(const std::string& model_fingerprint,
                                           const std::string& device, int n_ctx,
                                           const TunedNote& note = nullptr);
// Throws Error(kFile); without a folder nothing is kept.
void write_row_costs(const std::string& model_fingerprint, const std::string& device,
                     const KeptRowCosts& kept);

}  // namespace specbound
