// The kernels of this program, and launches that run them.
#pragma once

#include "ptx/program.h"

namespace ptx {

Program& loaded();

// From now on a launch of a kernel runs the kernel of that name in loaded(). In forward order the
// executor has run it first, from the same memory: every byte of every buffer must be left the
// same, so that also those have a bit to equal whose tests know but a tolerance (FP16).
void run_launches();

}  // namespace ptx
