// How fast a GPU reads its memory when it does nothing else: the yardstick of decoding.
#pragma once

#include <optional>

#include "engine/cuda/device.h"

namespace specbound {

// Bytes a second, the most that any of some grids reached in about `seconds`; nullopt where less
// memory is free than tells its rate from the caches'. Throws Error(kDevice).
std::optional<double> read_bandwidth(Device& device, double seconds);

}  // namespace specbound
