// Passes of 1..16 rows on a GPU: what one is about goes into device memory, and the stretch of
// layers that it takes is a graph that serves every pass through it.
#pragma once

#include <compare>
#include <cstdint>
#include <span>

#include "engine/cuda/device.h"
#include "engine/cuda/device_forward.h"
#include "engine/row_paths.h"

namespace specbound {

// Rows slot.. of H, their K and V going to places pos.. of a sequence.
struct DecodeRows {
  int slot = 0, n = 0, pos = 0;
  int sequence = 0;
  const RowPath* paths = nullptr;   // (n); null: each row follows the one before it
  const int32_t* tokens = nullptr;  // (n); null: H has them
};

// One of the rows side by side: of a sequence whose next row, its root, is at that position.
struct SideBySideRow {
  int32_t token;
  int root, sequence;
  RowPath path;  // slots counted from the root's

  int pos() const { return root + path.depth; }
};

class DecodePasses {
 public:
  // `h` (16, dim) is H. Everything must outlive it.
  DecodePasses(Device& device, const DeviceForward& forward, float* h, int n_ctx, bool graphs)
      : device_(device),
        forward_(forward),
        h_(h),
        n_ctx_(n_ctx),
        graphs_(device, graphs),
        side_by_side_graphs_(device, graphs),
        state_(device, 1),
        side_by_side_(device, 1),
        side_by_side_tree_(device, 1) {}

  // Through layers from..to; those with tokens are embedded first.
  void run(const DecodeRows& rows, int from, int to);
  void embed(const DecodeRows& rows) const;
  // Rows 0.. of H become embeddings and go through layers 1..n_layers.
  void run_side_by_side(std::span<const SideBySideRow> rows, int n_layers);

  // In device memory: what run() or embed() was about last.
  const kernels::Pass* pass() const { return &state_.data()->pass; }

 private:
  // What a graph of layers is made for.
  struct Stretch {
    int from, to;
    int context;  // positions that attention's grid has room for
    bool tree;    // chains have kernels that know of none
    bool embed;
    int sequence;
    int max_rows;  // 1, 8 or 16: fewer rows have kernels of their own
    auto operator<=>(const Stretch&) const = default;
  };
  // And one of rows side by side, through all layers.
  struct Company {
    int context;
    int max_rows;  // a power of two
    bool drafts;   // a text has more than one row
    auto operator<=>(const Company&) const = default;
  };

  void store(const DecodeRows& rows) const;

  Device& device_;
  const DeviceForward& forward_;
  float* h_;
  const int n_ctx_;
  GraphCache<Stretch> graphs_;
  GraphCache<Company> side_by_side_graphs_;
  DeviceMemory<PassState> state_;
  DeviceMemory<SideBySideState> side_by_side_;
  DeviceMemory<kernels::RowTree> side_by_side_tree_;  // where a text has more than one row
};

}  // namespace specbound
