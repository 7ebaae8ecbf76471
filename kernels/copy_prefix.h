// Keys and values of the first positions of one text into another one's cache, at all layers.
#pragma once

#include "layouts.h"
#include "stream.h"

namespace specbound::kernels {

struct CopyPrefix {
  KvLayer from, to;   // of the first layer, 16-byte aligned; as large
  size_t next_layer;  // bytes from a layer's K to the next one's, from V to V; a multiple of 16
  int n_layers, n_kv_heads;
  int head_dim;  // a multiple of 8
  int n;         // positions, 1..from.n_ctx; whole blocks of 16 are copied
};
void copy_prefix(const CopyPrefix& p, Stream stream);

}  // namespace specbound::kernels
