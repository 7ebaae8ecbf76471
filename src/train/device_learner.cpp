#include "train/device_learner.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "engine/cuda/cublas.h"
#include "error.h"
#include "train/device_equations.h"
#include "train/device_features.h"
#include "train/device_head.h"

namespace specbound {
namespace {

constexpr size_t kMargin = size_t{256} << 20;         // of free memory, left to others
constexpr size_t kWindow = size_t{256} << 20;         // of features that are shuffled together
constexpr size_t kEquationsAtOnce = size_t{1} << 30;  // about what the trainer asks for

// Gradients of logits are multiplied by this, and lm_head's rows by a power of two that brings the
// largest value to 1..2, so that gradients of y are at most 4 times this and small ones are no
// subnormal FP16.
constexpr float kGradientScale = 1024;

using Halves = DeviceMemory<uint16_t>;
using Floats = DeviceMemory<float>;

// The rows of lm_head that heads choose among, (width, dim), times `factor`.
struct Words {
  int width = 0;
  float factor = 1;
  Halves rows;

  Words() = default;
  Words(Device& device, DeviceFloats& floats, std::span<const float> values, int dim)
      : width(static_cast<int>(values.size() / static_cast<size_t>(dim))),
        rows(device, values.size()) {
    float largest = 0;
    for (const float v : values) largest = std::max(largest, std::abs(v));
    if (largest > 0 && std::isfinite(largest)) factor = std::ldexp(1.0f, -std::ilogb(largest));
    floats.upload_halves(values, width, dim, factor, rows.data());
  }
};

// The final distribution on some words, of one step's rows.
struct Targets {
  Floats p, entropy;

  Targets() = default;
  Targets(Device& device, int n, int width)
      : p(device, cells(n, width)), entropy(device, static_cast<size_t>(n)) {}
};

// The intermediate values of a chained head on one step.
struct ChainStep {
  Halves u;       // (n, 2 dim), [x; s]
  Floats hidden;  // (n, n_inner), before silu
  Halves active;  // (n, n_inner), after it
  Floats dy;      // (n, dim)

  ChainStep(Device& device, int n, int dim, int n_inner)
      : u(device, cells(n, 2 * dim)),
        hidden(device, cells(n, n_inner)),
        active(device, cells(n, n_inner)),
        dy(device, cells(n, dim)) {}
};

class DeviceLearner final : public HeadLearner {
 public:
  DeviceLearner(Device& device, const LearningTask& task);
  ~DeviceLearner() override;

  std::string arithmetic() const override { return cublas_.name() + " on " + device_.info().name; }
  void open(std::span<const int> chunks) override { chunks_->open(chunks); }
  std::span<const uint8_t> follows(int chunk) const override { return chunks_->follows(chunk); }

  void begin_equations(std::span<const EquationsOf> wanted) override {
    equations_.reset();
    equations_.emplace(device_, cublas_, *chunks_, dim_, wanted);
  }
  void add_equations(int chunk, int most) override {
    chunks_->open(std::span(&chunk, 1));
    equations_->add(chunk, most);
  }
  std::vector<LeastSquares> take_equations() override {
    std::vector<LeastSquares> equations = equations_->take(floats_);
    equations_.reset();
    return equations;
  }

  void begin() override {
    for (DeviceHead& head : heads_) head.upload(floats_);
  }
  int64_t learn(std::vector<RowAt>& rows, int64_t step, float rate,
                std::span<double> losses) override;
  void fetch() override {
    for (DeviceHead& head : heads_) head.download(floats_);
  }

 private:
  void reserve_rows();
  void send_places(std::span<const RowAt> rows);
  void gather(int n, int plane, int ahead, uint16_t* to, int ld);
  void set_targets(const Words& words, int n, int ahead, const Targets& targets);
  void set_gradient(const Words& words, const Targets& targets, int n, const HalfMatrix& y,
                    double* sum, bool add);
  void linear(DeviceHead& head, int n, double* sum);
  void chained(DeviceHead& head, std::span<const int> steps, int64_t rows, double* sum);
  void forward(DeviceHead& head, int n, ChainStep& step, ChainStep& next);
  void backward(DeviceHead& head, int n, ChainStep& step, float weight, bool last, Floats* before);

  Device& device_;
  LearningTask task_;
  int dim_, most_rows_;
  Cublas cublas_;
  DeviceFloats floats_;
  std::optional<DeviceChunks> chunks_;
  std::optional<DeviceEquations> equations_;
  Words shortlist_, vocabulary_;  // those that heads need
  std::vector<DeviceHead> heads_;
  Floats gradient_;             // of one head's parameters, in their order
  DeviceMemory<double> parts_;  // of their squares

  std::vector<Targets> targets_;  // [step], shortlist
  Targets whole_;                 // step 0, whole vocabulary
  std::vector<ChainStep> steps_;  // and one that takes the state after the last
  Halves x_, y_, dy_;             // (n, dim)
  Floats y_sum_;                  // (n, dim), of a chained head
  Floats z_;                      // (n, width)
  Halves dz_;
  Floats d_active_;  // (n, n_inner)
  Halves d_hidden_;
  Floats loss_;  // (n)
  DeviceMemory<kernels::RowPlace> places_;
  PinnedMemory<kernels::RowPlace> sent_places_;
  DeviceMemory<double> sums_;  // [head] of losses
  PinnedMemory<double> read_sums_;
};

DeviceLearner::DeviceLearner(Device& device, const LearningTask& task)
    : device_(device),
      task_(task),
      dim_(task.features.dim),
      most_rows_(task.most_rows),
      cublas_(device),
      floats_(device) {
  bool whole = false, some = false;
  size_t most_parameters = 0, most_parts = 0;
  for (LearningHead& head : task.heads) {
    (head.kind == HeadKind::kFull ? whole : some) = true;
    heads_.emplace_back(device, head);
    most_parameters = std::max(most_parameters, heads_.back().n_values());
    most_parts = std::max(most_parts, heads_.back().n_parts());
  }
  gradient_ = Floats(device, most_parameters);
  parts_ = DeviceMemory<double>(device, most_parts);
  if (some) shortlist_ = Words(device, floats_, task.step.shortlist_rows(), dim_);
  if (whole) vocabulary_ = Words(device, floats_, task.step.lm_head(), dim_);
  reserve_rows();

  std::vector<EquationsOf> wanted;
  size_t one = 0;
  for (const LearningHead& head : task.heads) {
    wanted.push_back({0, head.chained()});
    one = std::max(one, DeviceEquations::bytes_needed(dim_, std::span(wanted).last(1)));
  }
  const size_t others =
      kMargin + std::min(kEquationsAtOnce + one, DeviceEquations::bytes_needed(dim_, wanted));
  const size_t all = DeviceChunks::bytes_of(task.features, task.plan);
  const size_t least = std::min(all, kWindow), free = device.free_bytes();
  const size_t room = std::min(free > others ? free - others : 0, all);
  if (room < least) {
    throw Error(ErrorCode::kLimit,
                format("training on the GPU: expected %zu MB of free memory beside the model and "
                       "the heads, found %zu MB: give a smaller n_ctx, or fewer train_layers",
                       (others + least) >> 20, free >> 20));
  }
  chunks_.emplace(device, floats_, task.features, task.plan, room);
}

DeviceLearner::~DeviceLearner() {
  try {
    device_.synchronize();  // nothing may still use what is released now
  } catch (const std::exception&) {
    // The device is lost.
  }
}

// Memory for the rows of a batch.
void DeviceLearner::reserve_rows() {
  const int n = most_rows_;
  int n_inner = 0, width = std::max(shortlist_.width, vocabulary_.width);
  for (const LearningHead& head : task_.heads) n_inner = std::max(n_inner, head.n_inner);
  for (int k = 0; shortlist_.width > 0 && k < std::max(1, task_.plan.chains); ++k) {
    targets_.emplace_back(device_, n, shortlist_.width);
  }
  if (vocabulary_.width > 0) whole_ = Targets(device_, n, vocabulary_.width);
  if (task_.plan.chains > 0) {
    for (int k = 0; k <= task_.plan.chains; ++k) steps_.emplace_back(device_, n, dim_, n_inner);
    y_sum_ = Floats(device_, cells(n, dim_));
    d_active_ = Floats(device_, cells(n, n_inner));
    d_hidden_ = Halves(device_, cells(n, n_inner));
  }
  for (Halves* rows : {&x_, &y_, &dy_}) *rows = Halves(device_, cells(n, dim_));
  z_ = Floats(device_, cells(n, width));
  dz_ = Halves(device_, cells(n, width));
  loss_ = Floats(device_, static_cast<size_t>(n));
  places_ = DeviceMemory<kernels::RowPlace>(device_, static_cast<size_t>(n));
  sent_places_ = PinnedMemory<kernels::RowPlace>(device_, static_cast<size_t>(n));
  sums_ = DeviceMemory<double>(device_, task_.heads.size());
  read_sums_ = PinnedMemory<double>(device_, task_.heads.size());
}

void DeviceLearner::send_places(std::span<const RowAt> rows) {
  SB_CHECK(rows.size() <= static_cast<size_t>(most_rows_));
  for (size_t r = 0; r < rows.size(); ++r) {
    sent_places_.data()[r] = chunks_->place(rows[r].chunk, rows[r].row);
  }
  device_.copy_in(places_.data(), sent_places_.data(), rows.size() * sizeof(kernels::RowPlace));
}

void DeviceLearner::gather(int n, int plane, int ahead, uint16_t* to, int ld) {
  kernels::gather_rows({places_.data(), n, plane, ahead, dim_, to, ld}, device_.stream());
}

void DeviceLearner::set_targets(const Words& words, int n, int ahead, const Targets& targets) {
  gather(n, chunks_->y_plane(), ahead, y_.data(), dim_);
  cublas_.multiply(n, words.width, dim_, 1 / words.factor, {y_.data(), dim_},
                   HalfMatrix{words.rows.data(), dim_}.transposed(), 0, targets.p.data(),
                   words.width);
  kernels::target_rows({targets.p.data(), n, words.width, task_.step.softcap(),
                        task_.step.sharpen(), targets.entropy.data()},
                       device_.stream());
}

// dz_ (n, width) becomes the gradient of the rows' divergences by their logits; sum gets these.
void DeviceLearner::set_gradient(const Words& words, const Targets& targets, int n,
                                 const HalfMatrix& y, double* sum, bool add) {
  const kernels::Stream stream = device_.stream();
  cublas_.multiply(n, words.width, dim_, 1 / words.factor, y,
                   HalfMatrix{words.rows.data(), dim_}.transposed(), 0, z_.data(), words.width);
  kernels::divergence_rows({z_.data(), targets.p.data(), targets.entropy.data(), n, words.width,
                            task_.step.softcap(), dz_.data(), loss_.data()},
                           stream);
  kernels::sum_losses({loss_.data(), n, add, sum}, stream);
}

void DeviceLearner::linear(DeviceHead& head, int n, double* sum) {
  const bool whole = head.learning().kind == HeadKind::kFull;
  const Words& words = whole ? vocabulary_ : shortlist_;
  const HalfMatrix x{x_.data(), dim_}, y{y_.data(), dim_}, dy{dy_.data(), dim_};
  gather(n, head.plane, 0, x_.data(), dim_);
  cublas_.multiply(n, dim_, dim_, 1, x, head.map.matrix().transposed(), y_.data(), dim_);
  set_gradient(words, whole ? whole_ : targets_[0], n, y, sum, false);
  cublas_.multiply(n, dim_, words.width, kGradientScale, {dz_.data(), words.width},
                   {words.rows.data(), dim_}, dy_.data(), dim_);
  const float weight = 1.0f / static_cast<float>(n) / (kGradientScale * words.factor);
  cublas_.multiply(dim_, dim_, n, weight, dy.transposed(), x, 0, gradient_.data(), dim_);
}

// The state after `step` into `next`, as y of its row too.
void DeviceLearner::forward(DeviceHead& head, int n, ChainStep& step, ChainStep& next) {
  const kernels::Stream stream = device_.stream();
  const int n_inner = head.learning().n_inner;
  const HalfMatrix u{step.u.data(), 2 * dim_};
  cublas_.multiply(n, dim_, 2 * dim_, 1, u, head.map.matrix().transposed(), 0, y_sum_.data(), dim_);
  if (n_inner > 0) {
    cublas_.multiply(n, n_inner, 2 * dim_, 1, u, head.inner.matrix().transposed(), 0,
                     step.hidden.data(), n_inner);
    kernels::silu_halves({step.hidden.data(), cells(n, n_inner), step.active.data()}, stream);
    cublas_.multiply(n, dim_, n_inner, 1, {step.active.data(), n_inner},
                     head.outer.matrix().transposed(), 1, y_sum_.data(), dim_);
  }
  kernels::halve_rows({y_sum_.data(), n, dim_, dim_, 1, next.u.data() + dim_, 2 * dim_}, stream);
}

// Gradients of the weights from step.dy, added to those of later steps; where wanted, `before`
// (n, dim), the gradient of the step before, gets that of the state.
void DeviceLearner::backward(DeviceHead& head, int n, ChainStep& step, float weight, bool last,
                             Floats* before) {
  const kernels::Stream stream = device_.stream();
  const int n_inner = head.learning().n_inner;
  const float old = last ? 0 : 1;
  const HalfMatrix u{step.u.data(), 2 * dim_}, dy{dy_.data(), dim_};
  kernels::halve_rows({step.dy.data(), n, dim_, dim_, 1, dy_.data(), dim_}, stream);
  float* gradient = gradient_.data();
  cublas_.multiply(dim_, 2 * dim_, n, weight, dy.transposed(), u, old, gradient, 2 * dim_);
  const auto through_state = [&](const HalfMatrix& d, int width, const DeviceParameter& w) {
    if (!before) return;
    cublas_.multiply(n, dim_, width, 1, d, {w.half.data() + dim_, 2 * dim_}, 1, before->data(),
                     dim_);
  };
  through_state(dy, dim_, head.map);
  if (n_inner == 0) return;
  gradient += head.map.value.size();
  float* const of_outer = gradient + head.inner.value.size();
  cublas_.multiply(dim_, n_inner, n, weight, dy.transposed(), {step.active.data(), n_inner}, old,
                   of_outer, n_inner);
  cublas_.multiply(n, n_inner, dim_, 1, dy, head.outer.matrix(), 0, d_active_.data(), n_inner);
  kernels::silu_backward(
      {step.hidden.data(), d_active_.data(), cells(n, n_inner), d_hidden_.data()}, stream);
  const HalfMatrix d_hidden{d_hidden_.data(), n_inner};
  cublas_.multiply(n_inner, 2 * dim_, n, weight, d_hidden.transposed(), u, old, gradient, 2 * dim_);
  through_state(d_hidden, n_inner, head.inner);
}

void DeviceLearner::chained(DeviceHead& head, std::span<const int> steps, int64_t rows,
                            double* sum) {
  if (rows == 0) {
    device_.clear(gradient_.data(), head.n_values() * sizeof(float));
    device_.clear(sum, sizeof(double));
    return;
  }
  gather(steps[0], chunks_->y_plane(), -1, steps_[0].u.data() + dim_, 2 * dim_);
  for (size_t k = 0; k < steps.size(); ++k) {
    ChainStep &step = steps_[k], &next = steps_[k + 1];
    const int n = steps[k];
    gather(n, head.plane, static_cast<int>(k), step.u.data(), 2 * dim_);
    forward(head, n, step, next);
    set_gradient(shortlist_, targets_[k], n, {next.u.data() + dim_, 2 * dim_}, sum, k > 0);
    cublas_.multiply(n, dim_, shortlist_.width, kGradientScale, {dz_.data(), shortlist_.width},
                     {shortlist_.rows.data(), dim_}, 0, step.dy.data(), dim_);
  }
  const float weight = 1.0f / static_cast<float>(rows) / (kGradientScale * shortlist_.factor);
  for (size_t k = steps.size(); k-- > 0;) {
    backward(head, steps[k], steps_[k], weight, k + 1 == steps.size(),
             k > 0 ? &steps_[k - 1].dy : nullptr);
  }
}

int64_t DeviceLearner::learn(std::vector<RowAt>& rows, int64_t step, float rate,
                             std::span<double> losses) {
  const std::vector<int> chains = order_batch(rows, task_.plan.chains);
  const int n = static_cast<int>(rows.size());
  send_places(rows);
  bool folded = false, chained_heads = false;
  for (const LearningHead& head : task_.heads) {
    folded |= head.kind == HeadKind::kFolded;
    chained_heads |= head.chained();
  }
  if (vocabulary_.width > 0) set_targets(vocabulary_, n, 0, whole_);
  if (folded || (chained_heads && !chains.empty())) {
    set_targets(shortlist_, folded ? n : chains[0], 0, targets_[0]);
  }
  for (size_t k = 1; k < chains.size(); ++k) {
    set_targets(shortlist_, chains[k], static_cast<int>(k), targets_[k]);
  }
  int64_t head_rows = 0;
  for (size_t h = 0; h < heads_.size(); ++h) {
    DeviceHead& head = heads_[h];
    head.plane = chunks_->plane_of(task_.x_index[h]);
    const int64_t of_head = rows_of(head.learning(), n, chains);
    if (head.learning().chained()) {
      chained(head, chains, of_head, sums_.data() + h);
    } else {
      linear(head, n, sums_.data() + h);
    }
    head.step(device_, gradient_.data(), parts_.data(), task_.adam, step, rate);
    losses[h] = static_cast<double>(std::max<int64_t>(1, of_head));
    head_rows += of_head;
  }
  device_.copy_out(read_sums_.data(), sums_.data(), sums_.bytes());
  device_.synchronize();
  for (size_t h = 0; h < heads_.size(); ++h) losses[h] = read_sums_.data()[h] / losses[h];
  return head_rows;
}

}  // namespace

std::unique_ptr<HeadLearner> make_device_learner(Device& device, const LearningTask& task) {
  for (const LearningHead& head : task.heads) {
    if (!head.by_place()) continue;
    throw Error(
        ErrorCode::kUnsupported,
        format("training on the GPU: expected chained, folded and full heads, found %s ones",
               head_kind_name(head.kind)));
  }
  if (task.features.dim % 8 != 0) {
    throw Error(ErrorCode::kUnsupported,
                format("training on the GPU: expected hidden rows of a multiple of 8, found %d",
                       task.features.dim));
  }
  return std::make_unique<DeviceLearner>(device, task);
}

}  // namespace specbound
