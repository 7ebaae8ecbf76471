// Keys and values of one position out of the cache, side by side: for tests and tools.
#pragma once

#include "layouts.h"
#include "stream.h"

namespace specbound::kernels {

struct GatherKv {
  KvLayer kv;
  int n_kv_heads, head_dim;
  int pos;  // below kv.n_ctx
  // (n_kv_heads, head_dim) each; of INT8 the number below, and above it a byte of its scale: the
  // lower one of even numbers, the upper one of odd ones.
  uint16_t *k, *v;
};
void gather_kv(const GatherKv& p, Stream stream);

}  // namespace specbound::kernels
