// Exit checks on the device: the heads' weights there, the states that chained heads hand from row
// to row, and a check as one graph with one wait. The counterpart of cpu/exit_checks.h, in its bits
// where weights are INT8; the order of kernels is that of kernels/exit_head.h.
#pragma once

#include <memory>
#include <span>

#include "engine/backend.h"
#include "engine/cuda/device_draft_layer.h"
#include "engine/cuda/device_model.h"

namespace specbound {

class DeviceExitChecks {
 public:
  explicit DeviceExitChecks(const DeviceModel& model);
  ~DeviceExitChecks();  // nothing that was launched may still be under way

  // See Backend. Takes device_heads_bytes() (check_memory.h) and waits; set(nullptr, 0) gives all
  // back.
  void set(const ExitHeads* heads, int shortlist);
  // Both wait, once. Heads but the draft layer look at the row's slot alone.
  using Row = DeviceDraftLayer::Row;
  ExitPeak check(int head, const Row& row, float temperature);
  ExitPeak check_and_draw(int head, const Row& row, float temperature, const DrawRule& rule,
                          std::span<const int32_t> text, RowDraw& draw);
  // Of the last check; the first call after it waits.
  std::span<const float> logits() const;
  // The tokens that they are of; empty: the vocabulary. No tokens of the text beside the list.
  std::span<const int32_t> ids() const;
  void keep_state(int slot);
  // Null: none is set. It wants to know of all rows, of paths that are kept, of other texts.
  DeviceDraftLayer* draft_layer() const;

 private:
  class Heads;

  const DeviceModel model_;
  std::unique_ptr<Heads> heads_;
};

}  // namespace specbound
