// A weight matrix as floats, whatever it is stored as.
#pragma once

#include <vector>

#include "model/weights.h"

namespace specbound {

std::vector<float> matrix_floats(const Matrix& matrix);  // (n_out, n_in)

}  // namespace specbound
