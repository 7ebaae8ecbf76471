// The paper's Figures 3 and 4: one setting at a time moved away from where it is, and each bound
// left out, all with the controller off, which would make up for it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app/spec_bench_plan.h"
#include "app/spec_bench_tables.h"
#include "decode/specbound.h"

namespace specbound {

// A drafter of the sweep, and where it stands.
struct SweepPoint {
  std::string parameter;  // tau, alpha, d_max or w_max (Figure 3); empty: of Figure 4
  double value = 0;       // of the parameter
  std::string label;      // of a bar of Figure 4: "all", "no annealing", ...
  SpecBenchDrafter drafter;
};

// `base`: the flags; `setting` and `head_layers`: what they come to (Speculation::params(),
// head_layers()). d_max walks over all layers that have a head, each checked, and so does the
// variant without a depth bound; for a head before any layer it is 1. Throws Error(kUsage) where
// there is nothing to move.
std::vector<SweepPoint> sweep_points(const SpeculationFlags& base, const SpecBoundParams& setting,
                                     const std::vector<int>& head_layers);

// The figures as SVG files, by name: figure3-tau.svg, ..., figure4.svg. results[i] is of points[i].
std::vector<std::pair<std::string, std::string>> sweep_figures(
    std::span<const SweepPoint> points, std::span<const SpecBenchResult> results);
// As text, and for programs.
std::string sweep_table(std::span<const SweepPoint> points,
                        std::span<const SpecBenchResult> results);
nlohmann::ordered_json sweep_json(std::span<const SweepPoint> points,
                                  std::span<const SpecBenchResult> results);

}  // namespace specbound
