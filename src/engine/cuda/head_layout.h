// What exit heads take on a GPU, their weights and what checks work with. Free of kernels: known
// before there is a device.
#pragma once

#include <cstddef>
#include <vector>

#include "model/config.h"
#include "model/exit_heads.h"
#include "model/weights.h"

namespace specbound {

struct HeadLayout {
  // Checks read the first `shortlist` tokens of the file's list.
  HeadLayout(const ExitHeads& heads, int shortlist, const ModelConfig& config);

  // The part of a folded matrix that is read.
  Matrix listed(Matrix folded) const;
  // Bytes of weights. `lm_head_int8`: the form that the model's lm_head has on the device; where it
  // has 4 bits, its rows take less than is counted.
  size_t weight_bytes(const ExitHeads& heads, bool lm_head_int8) const;

  int dim, shortlist;
  bool chained = false;
  int inner = 0;   // of chained heads, the widest
  int logits = 0;  // of a check at most
};

// All that is taken while `heads` are set, for texts of up to n_ctx tokens.
size_t device_heads_bytes(const ExitHeads& heads, int shortlist, const ModelConfig& config,
                          bool lm_head_int8, int n_ctx);

}  // namespace specbound
