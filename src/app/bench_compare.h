// `specbound bench --compare spec`: prompts decoded plainly and speculatively in turn, in one
// process, on one backend: what speculation gives here, losses like gains, and that it changes no
// token.
#pragma once

#include "app/bench_flags.h"
#include "app/bench_output.h"

namespace specbound {

// False where a reply differs, which is told on stderr. Prints what it finds, model by model, and
// writes it. Throws Error for what keeps it from being measured, Interrupted on Ctrl-C.
bool bench_compare(const BenchFlags& flags, const BenchOutput& output);

}  // namespace specbound
