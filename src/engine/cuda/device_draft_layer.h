// The draft layer on the device (HeadKind::kLayer): the counterpart of cpu/draft_layer.h, in its
// bits. The block is DeviceForward's layer with weights, K and V of its own; final states of the
// text lie on the device by place, and what rounds accepted since it was last asked goes through it
// before the row that it is asked about. docs/architecture.md 6.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/cuda/device.h"
#include "engine/cuda/device_model.h"
#include "engine/cuda/draft_block.h"
#include "engine/row_paths.h"
#include "model/exit_heads.h"

namespace specbound {

class DeviceDraftLayer {
 public:
  // Waits. `model` has a rope; everything must outlive it. Throws as DeviceWeights does. Takes
  // draft_layer_bytes().
  DeviceDraftLayer(const DeviceModel& model, const HeadWeights& head);
  ~DeviceDraftLayer();  // nothing that was launched may still be under way

  // Rows H[pass->slot..] of `tokens`, in `h`, went through all layers; their places are
  // pos..pos+n-1. `pass` is in device memory.
  void ran(const kernels::Pass* pass, int pos, std::span<const int32_t> tokens, const float* h);
  // Another text begins: nothing is known of it.
  void forget() { first_ = end_ = valid_ = 0; }
  // As Backend::keep_path().
  void keep_path(int pos, const RowPath& path);

  // Row `slot` of `token` in the round whose root is at `root`.
  struct Row {
    int root, slot;
    const RowPath& path;
    int32_t token;
  };
  // Launches. Slots come in order, 0 with each new root first.
  void look(const Row& looked);
  // What look() leaves of a slot: y (dim), on the device.
  const float* own(int slot) const { return state(n_ctx_ + 1 + slot); }

 private:
  // What a graph of such a pass is made for.
  struct Launches {
    int slot, context;
    bool tree;
    auto operator<=>(const Launches&) const = default;
  };

  // Rows of states_: number p is the state before place p, those from n_ctx + 1 on are own().
  float* state(int row) const { return states_.data() + static_cast<size_t>(row) * dim_; }
  void begin_at(int pos);
  void run(int at, int slot, std::span<const int32_t> tokens, int before, const RowPath* path);
  void launch(const Launches& made_for) const;

  const DeviceModel& model_;
  const int dim_, n_ctx_;
  struct Block;
  std::unique_ptr<Block> block_;

  DeviceMemory<float> states_;  // (n_ctx + 1 + kMaxRows, dim)
  DeviceMemory<DraftState> state_;
  DeviceMemory<int8_t> u_q_;  // a panel of [e / rms(e); s / rms(s)] (2 dim)
  DeviceMemory<float> u_d_;
  GraphCache<Launches> graphs_;

  std::vector<int32_t> tokens_;  // [place]
  // Places [first_, end_) have a state; what came before it was attached has none.
  int first_ = 0, end_ = 0;
  int valid_ = 0;  // places of the block that hold K and V of true states
};

}  // namespace specbound
