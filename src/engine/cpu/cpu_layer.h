// A layer as the CPU multiplies by it: each matrix where its tiles are.
#pragma once

#include "engine/cpu/experts.h"
#include "engine/cpu/linear.h"
#include "model/weights.h"

namespace specbound {

struct CpuLayer {
  // `weights` must outlive it.
  CpuLayer(const LinearStore& store, const LayerWeights& weights)
      : w(&weights),
        wq(store.linear(weights.wq)),
        wk(store.linear(weights.wk)),
        wv(store.linear(weights.wv)),
        wo(store.linear(weights.wo)) {
    if (weights.router.n_out > 0) {
      experts = ExpertLayer(store, weights);
    } else {
      w_gate = store.linear(weights.w_gate);
      w_up = store.linear(weights.w_up);
      w_down = store.linear(weights.w_down);
    }
  }

  const LayerWeights* w;
  Linear wq, wk, wv, wo, w_gate, w_up, w_down;
  ExpertLayer experts;  // in place of the last three

  // Which inputs are needed quantized.
  bool qkv_int8() const { return wq.int8() || wk.int8() || wv.int8(); }
  bool ffn_int8() const { return w_gate.int8() || w_up.int8(); }
};

}  // namespace specbound
