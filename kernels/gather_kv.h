// Keys and values of one position out of the cache, side by side: for tests and tools.
#pragma once

#include "layouts.h"
#include "stream.h"

namespace specbound::kernels {

struct GatherKv {
  KvLayer kv;
  int n_kv_heads, head_dim;
  int pos;          // below kv.n_ctx
  uint16_t *k, *v;  // (n_kv_heads, head_dim) each
};
void gather_kv(const GatherKv& p, Stream stream);

}  // namespace specbound::kernels
