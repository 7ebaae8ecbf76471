// AVX-VNNI's kernels for CPUs without it.
#pragma once

#include "engine/cpu/kernels.h"

namespace specbound::test {

// nullptr where AVX2 is missing too.
const Kernels* emulated_vnni();

}  // namespace specbound::test
