// A check writes what it is about into device memory and launches a graph that knows nothing of it
// but the head and, where its states lie by slot or it has parts by place, that.
#include "engine/cuda/device_checks.h"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <map>
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

// What of a medusa or hydra head guesses one place.
struct PlaceHead {
  struct Block {
    DeviceMatrix map;
    const float* bias;           // (dim)
    DeviceMatrix residual;       // of a hydra head's first one
    const float* residual_bias;  // (dim)
  };
  std::vector<Block> blocks;
  DeviceMatrix lm_head;  // n_out 0: the model's own
  const float* lm_bias;  // (vocab_size) or null
};

struct Head {
  HeadKind kind = HeadKind::kFolded;
  DeviceMatrix map, folded, inner, outer;
  DeviceMatrix lm_head = {};             // of an eagle3 layer,
  std::span<const int32_t> tokens = {};  // its list, and
  DeviceMemory<int32_t> ids = {};        // the same on the device
  std::vector<PlaceHead> places = {};    // of a medusa or hydra head, [k - 1]
};

// What a graph of a check is made for.
struct CheckKey {
  int head;
  int slot;                      // 0 where it does not matter; of a medusa or hydra head the depth
  std::optional<DrawKind> draw;  // after it

  auto operator<=>(const CheckKey&) const = default;
};

}  // namespace

// Heads that are set, and what their checks leave.
class DeviceExitChecks::Heads {
 public:
  Heads(const DeviceModel& model, const ExitHeads& file, int shortlist);

  // Launches; position `pos` of a text is where the row is that a draw follows, if the check finds
  // a confidence of at least `least`.
  struct Draw {
    DrawKind kind;
    float least;
    int pos;
  };
  void start(int index, const Row& row, float temperature, const std::optional<Draw>& draw);
  void wait() const { model_.device.wait_for(&decision_.data()->number, number_); }
  ExitPeak peak() const { return {decision_.data()->confidence, decision_.data()->token}; }
  bool exits() const { return decision_.data()->exits != 0; }

  std::span<const float> logits();
  std::span<const int32_t> ids() const {
    if (!looked_) return {};
    return says_all(looked_->kind) ? looked_->tokens : ids_.first(n_logits_);
  }
  void keep_state(int slot) const;
  DeviceSampler& sampler() { return sampler_; }
  std::map<int, DeviceDraftLayer>& draft_layers() { return draft_layers_; }

 private:
  DeviceMatrix upload(const Matrix& source, bool int8);
  DeviceMatrix listed_rows(std::span<const int32_t> ids);
  void fill(std::span<const int32_t> ids);

  PlaceHead place_head(const MedusaHead& source);
  const DeviceMatrix& last(const Head& head, int slot) const;
  const int32_t* last_ids(const Head& head) const;
  void launch(int index, int slot, std::optional<DrawKind> draw) const;
  PreparedRows before_last(int index, int slot) const;
  PreparedRows chained(const Head& head, int slot) const;
  PreparedRows by_place(const Head& head, int depth) const;
  kernels::Stream stream() const { return model_.device.stream(); }
  const kernels::Pass* row() const { return &memory_.state.data()->row; }
  const kernels::Pass* alone() const { return &memory_.state.data()->alone; }

  const DeviceModel& model_;
  const int dim_;
  const HeadLayout layout_;
  std::vector<DeviceMemory<std::byte>> weights_;
  std::vector<Head> heads_;
  DeviceMatrix listed_;  // (shortlist, dim) rows of lm_head, for heads with a state
  std::map<int, DeviceDraftLayer> draft_layers_;  // by the head's index
  CheckMemory memory_;
  DeviceSampler sampler_;
  PinnedMemory<kernels::ExitDecision> decision_;
  PinnedMemory<float> copied_;  // (logits): z
  GraphCache<CheckKey> graphs_;
  uint32_t number_ = 0;           // of the last check
  size_t n_logits_ = 0;           // of the last check
  std::span<const int32_t> ids_;  // of the file's list
  const Head* looked_ = nullptr;  // at the last check
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
    Head& to = heads_.emplace_back();
    to.kind = head.kind;
    to.lm_head = upload(head.lm_head, takes_int8_rows(head.lm_head.type));
    to.tokens = head.tokens;
    if (is_layer(head.kind)) continue;  // DeviceDraftLayer
    for (const MedusaHead& one : head.medusa) to.places.push_back(place_head(one));
    to.map = upload(head.map, takes_int8_rows(head.map.type));
    to.folded = upload(layout_.part(head.folded), true);
    to.inner = upload(head.inner, true);
    to.outer = upload(head.outer, true);
  }
  ids_ = std::span(file.shortlist()).first(shortlist);
  if (layout_.listed()) listed_ = listed_rows(ids_);
  for (const int layer : layout_.layers) {
    draft_layers_.try_emplace(layer, model_, file.heads()[static_cast<size_t>(layer)]);
  }
  *decision_.data() = {};
  fill(ids_);
}

DeviceMatrix DeviceExitChecks::Heads::upload(const Matrix& source, bool int8) {
  if (source.n_out == 0) return {};
  return upload_matrix(model_.device, source, int8, weights_);
}

PlaceHead DeviceExitChecks::Heads::place_head(const MedusaHead& source) {
  const auto matrix = [&](const Matrix& m) { return upload(m, takes_int8_rows(m.type)); };
  const auto floats = [&](const float* values, int n) {
    return upload_floats(model_.device, values, n, weights_);
  };
  PlaceHead made{{}, matrix(source.lm_head), floats(source.lm_bias, source.lm_head.n_out)};
  for (const MedusaHead::Block& b : source.blocks) {
    made.blocks.push_back(
        {matrix(b.map), floats(b.bias, dim_), matrix(b.residual), floats(b.residual_bias, dim_)});
  }
  return made;
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
  std::fill_n(ones.data(), dim_, 1.0f);
  device.copy_in(memory_.ones.data(), ones.data(), memory_.ones.bytes());
  std::vector<PinnedMemory<int32_t>> staged;  // until all of it is there
  const auto send = [&](std::span<const int32_t> tokens, int32_t* to) {
    if (tokens.empty()) return;
    std::ranges::copy(tokens, staged.emplace_back(device, tokens.size()).data());
    device.copy_in(to, staged.back().data(), tokens.size_bytes());
  };
  send(ids, memory_.ids.data());
  for (Head& head : heads_) {
    if (!head.tokens.empty()) head.ids = DeviceMemory<int32_t>(device, head.tokens.size());
    send(head.tokens, head.ids.data());
  }
  if (layout_.chained) {
    device.clear(memory_.u_q.data(), memory_.u_q.bytes());
    device.clear(memory_.u_d.data(), memory_.u_d.bytes());
  }
  if (layout_.path > 0) device.clear(memory_.path.data(), memory_.path.bytes());
  store_value(device, memory_.state.data(),
              CheckState{{1, 0}, {1, 0}, {1, kAnyConfidence, 0}, {}, {}, {}});
  device.synchronize();
}

void DeviceExitChecks::Heads::start(int index, const Row& row, float temperature,
                                    const std::optional<Draw>& draw) {
  const int slot = row.slot, pos = draw ? draw->pos : 0;
  SB_CHECK(index >= 0 && index < static_cast<int>(heads_.size()) && temperature > 0);
  SB_CHECK(slot >= 0 && slot < kMaxRows && pos >= 0);
  const Head& head = heads_[index];
  const int depth = row.path.depth;
  SB_CHECK(!is_by_place(head.kind) || depth < static_cast<int>(head.places.size()));
  const int key = is_by_place(head.kind) ? depth : sees_all_rows(head.kind) ? slot : 0;
  n_logits_ = static_cast<size_t>(last(head, key).n_out());
  looked_ = &head;
  is_copied_ = false;
  SB_CHECK(n_logits_ > 0);
  if (is_layer(head.kind)) draft_layers_.at(index).look(row);
  const float least = draw ? draw->least : kAnyConfidence;
  CheckState about{{1, pos, slot}, {1, pos}, {temperature, least, ++number_}, {0, pos}, {}, {}};
  if (head.kind == HeadKind::kHydra) {
    about.path = {depth + 1, 0, 1};
    for (int d = 0; d <= depth; ++d) about.tokens[d] = row.tokens[row.path.slots[d]];
  }
  store_value(model_.device, memory_.state.data(), about);
  std::optional<DrawKind> kind;
  if (draw) kind = draw->kind;
  graphs_.run({index, key, kind}, [&] { launch(index, key, kind); });
}

// What a head's logits are the product of.
const DeviceMatrix& DeviceExitChecks::Heads::last(const Head& head, int slot) const {
  if (is_by_place(head.kind) && head.places[slot].lm_head.n_out() > 0) {
    return head.places[slot].lm_head;
  }
  if (head.lm_head.n_out() > 0) return head.lm_head;
  if (says_all(head.kind)) return model_.weights.lm_head();
  return head.kind == HeadKind::kFolded ? head.folded : listed_;
}

// The tokens that they are of, on the device; null: the vocabulary.
const int32_t* DeviceExitChecks::Heads::last_ids(const Head& head) const {
  return says_all(head.kind) ? head.ids.data() : memory_.ids.data();
}

void DeviceExitChecks::Heads::launch(int index, int slot, std::optional<DrawKind> draw) const {
  const Head& head = heads_[index];
  const DeviceMatrix& w = last(head, slot);
  const float* bias = is_by_place(head.kind) ? head.places[slot].lm_bias : nullptr;
  const int n = w.n_out();
  const int32_t* ids = last_ids(head);
  const kernels::ExitRule* rule = &memory_.state.data()->rule;
  float* z = memory_.z.data();
  kernels::PeakChunk* peaks = memory_.peaks.data();
  const float softcap = is_published(head.kind) ? 0 : model_.config.final_softcap;
  if (bias) model_.device.clear(z, n * sizeof(float));
  const PreparedRows x = before_last(index, slot);
  if (w.int8() && !bias) {
    kernels::exit_logits({rule, *w.i8, x.i8, z, peaks, softcap}, stream());
  } else {
    if (bias) {
      project_residual_rows(alone(), x, w, bias, z, stream(), 1);
    } else {
      project_rows(alone(), x, {&w}, z, n, stream(), 1);
    }
    if (softcap > 0) kernels::cap_logits({alone(), z, n, n, softcap, 1}, stream());
    kernels::peak_chunks({rule, z, n, peaks}, stream());
  }
  if (!draw) {
    kernels::join_peaks({rule, peaks, z, ids, n, decision_.data()}, stream());
    return;
  }
  kernels::Pass* drawn = &memory_.state.data()->drawn;
  kernels::ExitDecision* decision = memory_.decision.data();
  kernels::join_peaks({rule, peaks, z, ids, n, decision, &drawn->n_rows}, stream());
  const int ld = static_cast<int>(memory_.z.size());
  sampler_.launch(*draw, {drawn, z, ld, n, ids, 1}, memory_.penalized.data());
  kernels::tell_decision({decision, decision_.data()}, stream());
}

PreparedRows DeviceExitChecks::Heads::before_last(int index, int slot) const {
  const Head& head = heads_[index];
  if (head.kind == HeadKind::kChained) return chained(head, slot);
  if (is_by_place(head.kind)) return by_place(head, slot);
  if (is_layer(head.kind)) {
    return prepare_rows(memory_.row, last(head, slot).int8(), alone(), 1,
                        draft_layers_.at(index).said(slot), dim_, dim_, stream());
  }
  const bool full = head.kind == HeadKind::kFull;
  const PreparedRows x = norm_rows(memory_.row, !full, row(), 1, model_.h, memory_.ones.data(),
                                   dim_, model_.config.norm_eps, stream());
  if (!full) return x;
  float* y = memory_.y.data();
  project_rows(alone(), x, {&head.map}, y, dim_, stream(), 1);
  return prepare_rows(memory_.row, last(head, slot).int8(), alone(), 1, y, dim_, dim_, stream());
}

// x + silu(W x + b) in place of x by each block, a hydra head's first one R x + c + silu(W x + b);
// x at first the state before the root, of a hydra head with the embeddings of the path to the row.
PreparedRows DeviceExitChecks::Heads::by_place(const Head& head, int depth) const {
  const float* x = memory_.path.data();
  const bool hydra = head.kind == HeadKind::kHydra;
  int n = dim_;
  if (hydra) {
    const CheckState* state = memory_.state.data();
    kernels::embed_rows({&state->path, state->tokens, model_.weights.embedding_type(),
                         model_.weights.embedding(), dim_, memory_.path.data(), kMaxRows},
                        stream());
    n = (depth + 2) * dim_;
  }
  const auto rows = [&](bool int8) {
    return prepare_rows(memory_.row, int8, alone(), 1, x, n, n, stream());
  };
  float *y = memory_.y.data(), *other = y + dim_;
  for (const PlaceHead::Block& block : head.places[depth].blocks) {
    const DeviceMatrix& residual = block.residual;
    PreparedRows in = rows(block.map.int8());
    project_rows(alone(), in, {&block.map}, y, dim_, stream(), 1);
    const bool mapped = residual.n_out() > 0;
    kernels::add_silu({y, block.bias, mapped ? nullptr : x, dim_}, stream());
    if (mapped) {
      if (residual.int8() != in.int8) in = rows(residual.int8());
      project_residual_rows(alone(), in, residual, block.residual_bias, y, stream(), 1);
    }
    x = y;
    n = dim_;
    std::swap(y, other);
  }
  return rows(last(head, depth).int8());
}

// y = A u + D silu(C u), u = [normed row; state before the slot]; y is the state after it.
PreparedRows DeviceExitChecks::Heads::chained(const Head& head, int slot) const {
  kernels::norm_quantize(
      {row(), model_.h, memory_.ones.data(), model_.config.norm_eps, memory_.half(slot, 0), 1},
      stream());
  const PreparedRows u{true, memory_.both(slot)};
  float* y = memory_.y.data();
  if (const int inner = head.inner.n_out()) {
    project_rows(alone(), u, {&head.map, &head.inner}, y, dim_ + inner, stream(), 1);
    const PreparedRows c = memory_.row.rows(inner, true);
    kernels::silu_quantize({y + dim_, c.i8}, stream());
    project_residual_rows(alone(), c, head.outer, nullptr, y, stream(), 1);
  } else {
    project_rows(alone(), u, {&head.map}, y, dim_, stream(), 1);
  }
  const PreparedRows state{true, memory_.half(slot + 1, 1)};
  kernels::quantize_rows({alone(), y, dim_, state.i8, 1}, stream());
  if (listed_.int8()) return state;
  return prepare_rows(memory_.row, false, alone(), 1, y, dim_, dim_, stream());
}

void DeviceExitChecks::Heads::keep_state(int slot) const {
  SB_CHECK(slot >= 0 && slot < kMaxRows);
  const float *h = model_.h + static_cast<size_t>(slot) * dim_,
              *norm = model_.weights.output_norm();
  const float eps = model_.config.norm_eps;
  if (layout_.chained) {
    kernels::norm_quantize({alone(), h, norm, eps, memory_.half(0, 1), 1}, stream());
  }
  if (layout_.path > 0) {
    kernels::norm_floats({alone(), h, norm, dim_, eps, memory_.path.data(), 1}, stream());
  }
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
  if (!heads) return;
  try {
    heads_ = std::make_unique<Heads>(model_, *heads, shortlist);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kUnsupported) throw;
    throw Error(e.code(), heads->path() + ": " + e.what());
  }
}

ExitPeak DeviceExitChecks::check(int head, const Row& row, float temperature) {
  SB_CHECK(heads_);
  heads_->start(head, row, temperature, std::nullopt);
  heads_->wait();
  return heads_->peak();
}

ExitPeak DeviceExitChecks::check_and_draw(int head, const Row& row, float temperature, float least,
                                          const DrawRule& rule, std::span<const int32_t> text,
                                          std::optional<RowDraw>& draw) {
  SB_CHECK(heads_ && !text.empty());
  const DrawKind kind = kind_of(rule);
  heads_->sampler().prepare(rule, text);
  const int pos = static_cast<int>(text.size()) - 1;
  heads_->start(head, row, temperature, Heads::Draw{kind, least, pos});
  heads_->wait();
  draw.reset();
  if (heads_->exits()) heads_->sampler().take(kind, 1, &draw.emplace());
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

template <class Call>
void DeviceExitChecks::for_each_layer(const Call& call) const {
  if (!heads_) return;
  for (auto& [head, layer] : heads_->draft_layers()) call(layer);
}

bool DeviceExitChecks::wants_states() const {
  return heads_ && !heads_->draft_layers().empty();
}

void DeviceExitChecks::ran(const kernels::Pass* pass, int pos, std::span<const int32_t> tokens,
                           const float* h) {
  for_each_layer([&](DeviceDraftLayer& layer) { layer.ran(pass, pos, tokens, h); });
}

void DeviceExitChecks::passed(int l, const kernels::Pass* pass, int pos, int n, const float* h) {
  for_each_layer([&](DeviceDraftLayer& layer) { layer.passed(l, pass, pos, n, h); });
}

int DeviceExitChecks::next_state(int from, int to) const {
  for_each_layer([&](DeviceDraftLayer& layer) { to = layer.next_state(from, to); });
  return to;
}

void DeviceExitChecks::keep_path(int pos, const RowPath& path) {
  for_each_layer([&](DeviceDraftLayer& layer) { layer.keep_path(pos, path); });
}

void DeviceExitChecks::change_text() {
  for_each_layer([](DeviceDraftLayer& layer) { layer.forget(); });
}

void DeviceExitChecks::keep_state(int slot) {
  SB_CHECK(heads_);
  heads_->keep_state(slot);
}

}  // namespace specbound
