// A check writes what it is about into device memory and launches a graph that knows nothing of it
// but the head and, for chained heads, the slot.
#include "engine/cuda/device_checks.h"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/cuda/check_memory.h"
#include "engine/cuda/device.h"
#include "engine/cuda/device_linear.h"
#include "engine/cuda/device_sampler.h"
#include "engine/pages.h"
#include "error.h"
#include "kernels/rows.h"
#include "kernels/softcap.h"

namespace specbound {
namespace {

constexpr float kNever = 2;  // no confidence is: the host compares

struct Head {
  HeadKind kind = HeadKind::kFolded;
  DeviceMatrix map, folded, inner, outer;
};

// What a graph of a check is made for.
struct CheckKey {
  int head, slot;                // slot: 0 where it does not matter
  std::optional<DrawKind> draw;  // after it

  auto operator<=>(const CheckKey&) const = default;
};

}  // namespace

// Heads that are set, and what their checks leave.
class DeviceExitChecks::Heads {
 public:
  Heads(const DeviceModel& model, const ExitHeads& file, int shortlist);

  // Launches; position `pos` of a text is where the row is that a draw follows.
  void start(int index, const Row& row, float temperature, std::optional<DrawKind> draw, int pos);
  void wait() const { model_.device.wait_for(&decision_.data()->number, number_); }
  ExitPeak peak() const { return {decision_.data()->confidence, decision_.data()->token}; }

  std::span<const float> logits();
  std::span<const int32_t> ids() const { return ids_.first(looked_listed_ ? n_logits_ : 0); }
  void keep_state(int slot) const;
  DeviceSampler& sampler() { return sampler_; }
  DeviceDraftLayer* draft_layer() const { return draft_layer_.get(); }

 private:
  DeviceMatrix upload(const Matrix& source, bool int8);
  DeviceMatrix listed_rows(std::span<const int32_t> ids);
  void fill(std::span<const int32_t> ids);

  const DeviceMatrix& last(const Head& head) const;
  void launch(const Head& head, int slot, std::optional<DrawKind> draw) const;
  PreparedRows before_last(const Head& head, int slot) const;
  PreparedRows chained(const Head& head, int slot) const;
  kernels::Stream stream() const { return model_.device.stream(); }
  const kernels::Pass* row() const { return &memory_.state.data()->row; }
  const kernels::Pass* alone() const { return &memory_.state.data()->alone; }

  const DeviceModel& model_;
  const int dim_;
  const HeadLayout layout_;
  std::vector<DeviceMemory<std::byte>> weights_;
  std::vector<Head> heads_;
  DeviceMatrix listed_;  // (shortlist, dim) rows of lm_head, for heads with a state
  std::unique_ptr<DeviceDraftLayer> draft_layer_;
  CheckMemory memory_;
  DeviceSampler sampler_;
  PinnedMemory<kernels::ExitDecision> decision_;
  PinnedMemory<float> copied_;  // (logits): z
  GraphCache<CheckKey> graphs_;
  uint32_t number_ = 0;           // of the last check
  size_t n_logits_ = 0;           // of the last check
  std::span<const int32_t> ids_;  // of the file's list
  bool looked_listed_ = false;    // the last check, at tokens of it
  bool is_copied_ = false;
};

DeviceExitChecks::Heads::Heads(const DeviceModel& model, const ExitHeads& file, int shortlist)
    : model_(model),
      dim_(model.config.dim),
      layout_(file, shortlist, model.config),
      memory_(model.device, layout_),
      sampler_(model.device, model.n_ctx, 1, layout_.logits),
      decision_(model.device, 1),
      copied_(model.device, layout_.logits),
      graphs_(model.device, model.graphs) {
  for (const HeadWeights& head : file.heads()) {
    if (head.kind == HeadKind::kLayer) {  // DeviceDraftLayer
      heads_.push_back({head.kind, {}, {}, {}, {}});
      continue;
    }
    heads_.push_back({head.kind, upload(head.map, head.map.type == DType::kQ8_0),
                      upload(layout_.part(head.folded), true), upload(head.inner, true),
                      upload(head.outer, true)});
  }
  ids_ = std::span(file.shortlist()).first(shortlist);
  if (layout_.listed()) listed_ = listed_rows(ids_);
  if (layout_.layer >= 0) {
    draft_layer_ = std::make_unique<DeviceDraftLayer>(model_, file.heads()[layout_.layer]);
  }
  *decision_.data() = {};
  fill(ids_);
}

DeviceMatrix DeviceExitChecks::Heads::upload(const Matrix& source, bool int8) {
  if (source.n_out == 0) return {};
  return upload_matrix(model_.device, source, int8, weights_);
}

DeviceMatrix DeviceExitChecks::Heads::listed_rows(std::span<const int32_t> ids) {
  DeviceMatrix listed = model_.weights.lm_head();
  if (!model_.host_lm_head) {  // random weights: any rows will do, and tiles hold rows in order
    if (listed.i8) listed.i8->n_out = layout_.shortlist;
    if (listed.f16) listed.f16->n_out = layout_.shortlist;
    return listed;
  }
  const Matrix& all = *model_.host_lm_head;
  Pages<std::byte> rows(all.bytes() / all.n_out * ids.size(), "shortlist");
  return upload(gathered_rows(all, ids, rows.data()), listed.int8());
}

// What checks find in their memory. Waits.
void DeviceExitChecks::Heads::fill(std::span<const int32_t> ids) {
  Device& device = model_.device;
  const PinnedMemory<float> ones(device, dim_);
  const PinnedMemory<int32_t> staged(device, std::max<size_t>(ids.size(), 1));
  std::fill_n(ones.data(), dim_, 1.0f);
  std::copy(ids.begin(), ids.end(), staged.data());
  device.copy_in(memory_.ones.data(), ones.data(), memory_.ones.bytes());
  if (!ids.empty()) device.copy_in(memory_.ids.data(), staged.data(), ids.size_bytes());
  if (layout_.chained) {
    device.clear(memory_.u_q.data(), memory_.u_q.bytes());
    device.clear(memory_.u_d.data(), memory_.u_d.bytes());
  }
  store_value(device, memory_.state.data(), CheckState{{1, 0}, {1, 0}, {1, kNever, 0}});
  device.synchronize();
}

void DeviceExitChecks::Heads::start(int index, const Row& row, float temperature,
                                    std::optional<DrawKind> draw, int pos) {
  const int slot = row.slot;
  SB_CHECK(index >= 0 && index < static_cast<int>(heads_.size()) && temperature > 0);
  SB_CHECK(slot >= 0 && slot < kMaxRows && pos >= 0);
  const Head& head = heads_[index];
  n_logits_ = static_cast<size_t>(last(head).n_out());
  looked_listed_ = head.kind != HeadKind::kFull;
  is_copied_ = false;
  SB_CHECK(n_logits_ > 0);
  if (head.kind == HeadKind::kLayer) draft_layer_->look(row);
  store_value(model_.device, memory_.state.data(),
              CheckState{{1, pos, slot}, {1, pos}, {temperature, kNever, ++number_}});
  const bool by_slot = has_state(head.kind);
  graphs_.run({index, by_slot ? slot : 0, draw}, [&] { launch(head, slot, draw); });
}

// What a head's logits are the product of.
const DeviceMatrix& DeviceExitChecks::Heads::last(const Head& head) const {
  switch (head.kind) {
    case HeadKind::kFull:
      return model_.weights.lm_head();
    case HeadKind::kFolded:
      return head.folded;
    default:
      return listed_;
  }
}

void DeviceExitChecks::Heads::launch(const Head& head, int slot,
                                     std::optional<DrawKind> draw) const {
  const DeviceMatrix& w = last(head);
  const int n = w.n_out();
  const int32_t* ids = head.kind == HeadKind::kFull ? nullptr : memory_.ids.data();
  const kernels::ExitRule* rule = &memory_.state.data()->rule;
  float* z = memory_.z.data();
  kernels::PeakChunk* peaks = memory_.peaks.data();
  const float softcap = model_.config.final_softcap;
  const PreparedRows x = before_last(head, slot);
  if (w.int8()) {
    kernels::exit_logits({rule, *w.i8, x.i8, z, peaks, softcap}, stream());
  } else {
    project_rows(alone(), x, {&w}, z, n, stream());
    if (softcap > 0) kernels::cap_logits({alone(), z, n, n, softcap, 1}, stream());
    kernels::peak_chunks({rule, z, n, peaks}, stream());
  }
  kernels::join_peaks({rule, peaks, z, ids, n, decision_.data()}, stream());
  if (!draw) return;
  const int ld = static_cast<int>(memory_.z.size());
  sampler_.launch(*draw, {alone(), z, ld, n, ids, 1}, memory_.penalized.data());
}

PreparedRows DeviceExitChecks::Heads::before_last(const Head& head, int slot) const {
  if (head.kind == HeadKind::kChained) return chained(head, slot);
  if (head.kind == HeadKind::kLayer) {
    return prepare_rows(memory_.row, listed_.int8(), alone(), 1, draft_layer_->own(slot), dim_,
                        dim_, stream());
  }
  const bool full = head.kind == HeadKind::kFull;
  const PreparedRows x = norm_rows(memory_.row, !full, row(), 1, model_.h, memory_.ones.data(),
                                   dim_, model_.config.norm_eps, stream());
  if (!full) return x;
  float* y = memory_.y.data();
  project_rows(alone(), x, {&head.map}, y, dim_, stream());
  return prepare_rows(memory_.row, last(head).int8(), alone(), 1, y, dim_, dim_, stream());
}

// y = A u + D silu(C u), u = [normed row; state before the slot]; y is the state after it.
PreparedRows DeviceExitChecks::Heads::chained(const Head& head, int slot) const {
  kernels::norm_quantize(
      {row(), model_.h, memory_.ones.data(), model_.config.norm_eps, memory_.half(slot, 0), 1},
      stream());
  const PreparedRows u{true, memory_.both(slot)};
  float* y = memory_.y.data();
  if (const int inner = head.inner.n_out()) {
    project_rows(alone(), u, {&head.map, &head.inner}, y, dim_ + inner, stream());
    const PreparedRows c = memory_.row.rows(inner, true);
    kernels::silu_quantize({y + dim_, c.i8}, stream());
    project_residual_rows(alone(), c, head.outer, nullptr, y, stream());
  } else {
    project_rows(alone(), u, {&head.map}, y, dim_, stream());
  }
  const PreparedRows state{true, memory_.half(slot + 1, 1)};
  kernels::quantize_rows({alone(), y, dim_, state.i8, 1}, stream());
  if (listed_.int8()) return state;
  return prepare_rows(memory_.row, false, alone(), 1, y, dim_, dim_, stream());
}

void DeviceExitChecks::Heads::keep_state(int slot) const {
  SB_CHECK(slot >= 0 && slot < kMaxRows);
  if (!layout_.chained) return;
  kernels::norm_quantize(
      {alone(), model_.h + static_cast<size_t>(slot) * dim_, model_.weights.output_norm(),
       model_.config.norm_eps, memory_.half(0, 1), 1},
      stream());
}

std::span<const float> DeviceExitChecks::Heads::logits() {
  if (!std::exchange(is_copied_, true)) {
    model_.device.copy_out(copied_.data(), memory_.z.data(), n_logits_ * sizeof(float));
    model_.device.synchronize();
  }
  return {copied_.data(), n_logits_};
}

DeviceExitChecks::DeviceExitChecks(const DeviceModel& model) : model_(model) {}
DeviceExitChecks::~DeviceExitChecks() = default;

void DeviceExitChecks::set(const ExitHeads* heads, int shortlist) {
  if (heads_) {
    model_.device.synchronize();
    heads_.reset();
  }
  if (heads) heads_ = std::make_unique<Heads>(model_, *heads, shortlist);
}

ExitPeak DeviceExitChecks::check(int head, const Row& row, float temperature) {
  SB_CHECK(heads_);
  heads_->start(head, row, temperature, std::nullopt, 0);
  heads_->wait();
  return heads_->peak();
}

ExitPeak DeviceExitChecks::check_and_draw(int head, const Row& row, float temperature,
                                          const DrawRule& rule, std::span<const int32_t> text,
                                          RowDraw& draw) {
  SB_CHECK(heads_ && !text.empty());
  const DrawKind kind = kind_of(rule);
  heads_->sampler().prepare(rule, text);
  heads_->start(head, row, temperature, kind, static_cast<int>(text.size()) - 1);
  model_.device.synchronize();
  heads_->sampler().take(kind, 1, &draw);
  return heads_->peak();
}

std::span<const float> DeviceExitChecks::logits() const {
  SB_CHECK(heads_);
  return heads_->logits();
}

std::span<const int32_t> DeviceExitChecks::ids() const {
  SB_CHECK(heads_);
  return heads_->ids();
}

DeviceDraftLayer* DeviceExitChecks::draft_layer() const {
  return heads_ ? heads_->draft_layer() : nullptr;
}

void DeviceExitChecks::keep_state(int slot) {
  SB_CHECK(heads_);
  heads_->keep_state(slot);
}

}  // namespace specbound
