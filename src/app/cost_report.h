// Costs and measured speedups in words and as JSON: what `tune` and `theory` have in common.
#pragma once

#include <array>
#include <nlohmann/json.hpp>

#include "app/tuning_texts.h"
#include "trace/cost_model.h"
#include "trace/counters.h"
#include "trace/event.h"
#include "train/measure_speedup.h"
#include "train/replay.h"

namespace CLI {
class App;
}  // namespace CLI

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

// --data, which may be given again, and --temps.
void add_tuning_texts(CLI::App& app, TuningTextFlags& flags);

}  // namespace specbound
