// Final logits of models that cap them (numerics/float_formula.h), for matmuls that do not do it
// themselves: exit_logits does.
#pragma once

#include "layouts.h"
#include "stream.h"

namespace specbound::kernels {

// z = softcap(z, cap).
struct CapLogits {
  const Pass* pass;  // 1 <= n_rows <= max_rows
  float* z;          // (n_rows, ld)
  int ld, n;         // ld >= n >= 1; what lies past n is not touched
  float cap;         // > 0
  int max_rows;      // 1..16
};
void cap_logits(const CapLogits& p, Stream stream);

}  // namespace specbound::kernels
