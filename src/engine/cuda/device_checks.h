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
  // back. Throws Error(kLimit), and Error(kUnsupported) where FP16 cannot hold a weight; then there
  // are none.
  void set(const ExitHeads* heads, int shortlist);
  // Both wait, once. Heads but draft layers look at the row's slot alone.
  using Row = DeviceDraftLayer::Row;
  ExitPeak check(int head, const Row& row, float temperature);
  ExitPeak check_and_draw(int head, const Row& row, float temperature, float least,
                          const DrawRule& rule, std::span<const int32_t> text,
                          std::optional<RowDraw>& draw);
  // Of the last check; the first call after it waits.
  std::span<const float> logits() const;
  // The tokens that they are of; empty: the vocabulary. No tokens of the text beside the list.
  std::span<const int32_t> ids() const;
  void keep_state(int slot);
  // Draft layers want to know of all rows, of paths that are kept, of other texts: see there.
  bool wants_states() const;
  void ran(const kernels::Pass* pass, int pos, std::span<const int32_t> tokens, const float* h);
  void passed(int l, const kernels::Pass* pass, int pos, int n, const float* h);
  // The first of the layers from..to that passed() does something after; else `to`.
  int next_state(int from, int to) const;
  void keep_path(int pos, const RowPath& path);
  void change_text();

 private:
  class Heads;
  template <class Call>
  void for_each_layer(const Call& call) const;

  const DeviceModel model_;
  std::unique_ptr<Heads> heads_;
};

}  // namespace specbound
