// Floats for JSON, which knows doubles only: 0.2 would come out as 0.20000000298023224.
#pragma once

namespace specbound {

// The double nearest to the shortest decimal that reads back as `value`: it is printed as that.
double shortest_decimal(float value);

}  // namespace specbound
