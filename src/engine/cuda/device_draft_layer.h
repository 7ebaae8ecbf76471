// A draft layer on the device (is_layer() of HeadKind): the counterpart of cpu/draft_layer.h, in
// its bits where its weights are quantized. The block is DeviceForward's layer with weights, K and
// V of its own; states of the text lie on the device by place, and what rounds accepted since it
// was last asked goes through it before the row that it is asked about. docs/architecture.md 6.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <span>

#include "engine/cuda/device.h"
#include "engine/cuda/device_model.h"
#include "engine/cuda/draft_block.h"
#include "engine/cuda/workspace.h"
#include "engine/draft_layer_form.h"
#include "engine/draft_layer_text.h"
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
  // The same rows, n of them, have layer l behind them.
  void passed(int l, const kernels::Pass* pass, int pos, int n, const float* h);
  // See DraftLayerForm.
  int next_state(int from, int to) const { return form_.next_state(from, to); }
  // Another text begins: nothing is known of it.
  void forget() { text_.begin_at(0); }
  // As Backend::keep_path().
  void keep_path(int pos, const RowPath& path);

  // Row `slot` of the round whose root is at `root`.
  struct Row {
    int root, slot;
    const RowPath& path;
    std::span<const int32_t> tokens;  // of the round's rows, by slot
  };
  // Launches. Slots come in order, 0 with each new root first.
  void look(const Row& looked);
  // What the head's logits are of, as look() leaves it (dim), on the device: of a slot, or of the
  // slot that it looked at last.
  const float* said(int slot) const { return form_.eagle3 ? said_.data() : own(slot); }

 private:
  // What a graph of such a pass is made for.
  struct Launches {
    int slot, context;
    bool tree;
    int max_rows;  // 1 or kDraftRows
    auto operator<=>(const Launches&) const = default;
  };

  // Row p of states_ is the state before place p.
  float* state(int row) const { return states_.data() + static_cast<size_t>(row) * state_dim_; }
  float* own(int slot) const { return own_.data() + static_cast<size_t>(slot) * dim_; }
  void begin_at(int pos);
  void run(int at, int slot, std::span<const int32_t> tokens, int before, const RowPath* path);
  void launch(const Launches& made_for) const;
  void make_rows(int slot, const float* e, float* h) const;
  PreparedRows map_inputs(const float* e, const float* states) const;
  PreparedRows attn_inputs(int slot, const float* e, const float* h) const;
  void place(const kernels::Pass* pass, const float* rows, int n, const float* norm, float* to,
             int ld) const;

  const DeviceModel& model_;
  const DraftLayerForm form_;
  const int dim_, state_dim_, n_ctx_;
  struct Block;
  std::unique_ptr<Block> block_;

  DeviceMemory<float> states_;  // (n_ctx + 1, state_dim)
  DeviceMemory<float> own_;     // (kMaxRows, dim): the states after rows that were looked at
  DeviceMemory<float> said_;    // (dim): eagle3: w u / rms(u), of the last of them
  DeviceMemory<DraftState> state_;
  DeviceMemory<float> inputs_;  // of published ones: (kDraftRows, widest), what is multiplied
  DeviceRows rows_;             // before the block, and as matmuls take it
  GraphCache<Launches> graphs_;

  DraftLayerText text_;
};

}  // namespace specbound
