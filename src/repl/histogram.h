// /stats: where drafts left, and at which place in the round they were right.
#pragma once

#include <string>

#include "trace/counters.h"

namespace specbound {

// Lines for people; empty without drafts.
std::string acceptance_histogram(const Counters& counters, const DraftPlaces& places);

}  // namespace specbound
