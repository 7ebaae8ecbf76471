// How fast a GPU reads its memory when it does nothing else: the yardstick of decoding.
#pragma once

#include "engine/cuda/device.h"

namespace specbound {

// Bytes a second, the most that any of some grids reached in about `seconds`. Throws Error(kLimit)
// when there is no memory to read.
double read_bandwidth(Device& device, double seconds);

}  // namespace specbound
