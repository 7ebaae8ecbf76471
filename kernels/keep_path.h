// Keys and values of a path through a tree of rows to their positions, at all layers, and what else
// lies by place: what stays of a round.
#pragma once

#include "layouts.h"
#include "stream.h"

namespace specbound::kernels {

struct KeepPath {
  KvLayer kv;         // of the first layer
  size_t next_layer;  // bytes from a layer's K to the next one's, from V to V; even
  int n_layers, n_kv_heads, head_dim;
  int root;       // a place; root + depth < kv.n_ctx
  int depth;      // 1..15, of the path's last row
  uint64_t path;  // as one of RowTree: what is at place root + its number d goes to root + d
};
void keep_path(const KeepPath& p, Stream stream);

// The same of rows of floats: what is in row number d of the path goes to row d.
struct KeepRows {
  float* rows;  // (16, dim): the root's and those behind it
  int dim;
  int depth;  // 1..15
  uint64_t path;
};
void keep_rows(const KeepRows& p, Stream stream);

}  // namespace specbound::kernels
