// Costs, settings and measured speedups in words and as JSON, for `tune`, `theory` and `bench`.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "model/exit_heads.h"
#include "trace/cost_model.h"
#include "trace/counters.h"
#include "trace/event.h"
#include "tune/measure_speedup.h"
#include "tune/replay.h"

namespace specbound {

// A few lines on stdout.
void print_costs(const CostModel& costs);
nlohmann::ordered_json costs_json(const CostModel& costs);

// Checks, of the time that drafting takes (layers and checks) and of all.
double check_share(const std::array<double, kPhases>& seconds);
double check_share_of_all(const std::array<double, kPhases>& seconds);

// By name of the phase.
nlohmann::ordered_json phases_json(const std::array<double, kPhases>& seconds);
std::array<double, kPhases> measured_seconds(const Counters& counters);

double total_speedup(const MeasuredSpeedup& measured);
// What the cost model makes of the very rounds that were measured.
double counted_speedup(const MeasuredSpeedup& measured, const ReplayResult& replayed);

// "folded heads at layers 2,4, shortlist 1024, alpha 0.2, tau 0.5, up to 8 rows".
std::string describe_settings(const HeadDefaults& settings);
nlohmann::ordered_json settings_json(const HeadDefaults& settings);

}  // namespace specbound
