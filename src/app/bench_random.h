// `specbound bench --shape`: how fast a model of some size decodes and drafts here, with random
// weights and no file; and what speculation would give it, by replaying rounds through it.
#pragma once

#include "app/bench_flags.h"
#include "app/bench_output.h"

namespace specbound {

// Prints what it finds, and writes it. Throws Error for what keeps it from being measured,
// Interrupted on Ctrl-C.
void bench_shape(const BenchFlags& flags, const BenchOutput& output);

}  // namespace specbound
