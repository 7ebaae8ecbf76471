// The first layers of a model where a GPU runs them and the CPU engine the rest: that one hands its
// rows over and takes them back, and keeps all that a Backend knows of a text but the K and V of
// these layers. docs/architecture.md 8.
//
// The first layers and not the last: drafts run shallow layers, one row at a time and again and
// again, while a round comes to the deep ones once, with all its rows, which costs the CPU little
// more than one row. And what reads a row behind all layers (logits, sampler, heads with a state,
// draft layer) is where that row is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "engine/row_paths.h"

namespace specbound {

class Device;

class FirstLayers {
 public:
  virtual ~FirstLayers() = default;

  virtual int n_layers() const = 0;  // it has layers 1..n
  // What timings hold for: "CUDA (NVIDIA H200, sm_90, weights int8, 20 of 32 layers)".
  virtual std::string device() const = 0;
  virtual size_t kv_bytes() const = 0;
  virtual Device& gpu() = 0;

  // The n rows h (n, dim), those of slots slot.., through layers from..to, in place: they are back
  // when it returns. `paths` (n) says what they follow; null: each the one before it, and there may
  // be as many as a chunk of a prefill has. Otherwise as Backend::run_layers().
  virtual void run(float* h, int n, const RowPath* paths, int slot, int pos, int from, int to) = 0;
  // Of the round whose root is at `pos` the path to a row stays: as Backend::keep_path().
  virtual void keep_path(int pos, const RowPath& path) = 0;
  // As BackendInspection::read_kv().
  virtual void read_kv(int layer, int pos, std::span<uint16_t> k, std::span<uint16_t> v) const = 0;
};

}  // namespace specbound
