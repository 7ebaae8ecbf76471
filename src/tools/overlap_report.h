// What drafters share with the model (tune/measure_overlap.h), as a table and as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "model/exit_heads.h"
#include "tune/measure_overlap.h"

namespace specbound {

// On stdout; `heads`, or nullptr, for what a file of them has that was not measured.
void print_overlap(const OverlapReport& report, const ExitHeads* heads);
nlohmann::ordered_json overlap_json(const OverlapReport& report, const ExitHeads* heads);

}  // namespace specbound
