#include "engine/cuda/device_sampler.h"

#include <algorithm>
#include <cstring>

#include "engine/cuda/device.h"
#include "error.h"

namespace specbound {

DrawKind kind_of(const DrawRule& rule) {
  return {rule.repeat_penalty != 1.0f, rule.filtered, rule.filtered && rule.weigh};
}

DeviceSampler::DeviceSampler(Device& device, int n_ctx, int max_rows, int widest)
    : device_(device),
      state_(device, 1),
      text_(device, n_ctx),
      uploaded_(device, n_ctx),
      parts_(device, parts_of(max_rows, widest)),
      drawn_(device, max_rows),
      top_(device, max_rows) {}

void DeviceSampler::prepare(const DrawRule& rule, std::span<const int32_t> text) {
  const kernels::SamplingState state{rule.seed, rule.reply, rule.temperature, rule.repeat_penalty,
                                     rule.repeat_last_n};
  if (!stored_ || std::memcmp(&*stored_, &state, sizeof state) != 0) {
    store_value(device_, state_.data(), state);
    stored_ = state;
  }
  if (!kind_of(rule).penalized) return;
  SB_CHECK(text.size() <= text_.size());
  const size_t common = std::min(text.size(), n_uploaded_);
  int32_t* there = uploaded_.data();
  const size_t same =
      std::mismatch(text.begin(), text.begin() + common, there).first - text.begin();
  n_uploaded_ = same;
  const auto rest = text.subspan(same);
  if (rest.empty()) return;
  std::copy(rest.begin(), rest.end(), there + same);
  device_.copy_in(text_.data() + same, there + same, rest.size_bytes());
  n_uploaded_ = text.size();
}

void DeviceSampler::launch(DrawKind kind, kernels::LogitRows rows, float* penalized) const {
  const kernels::Stream stream = device_.stream();
  if (kind.penalized) {
    kernels::penalize_rows({rows, state_.data(), text_.data(), penalized}, stream);
    rows.logits = penalized;
  }
  if (kind.filtered) {
    kernels::top_logits({rows, top_.data(), kind.weighed}, stream);
  } else {
    kernels::gumbel_argmax({rows, state_.data(), parts_.data(), drawn_.data()}, stream);
  }
}

void DeviceSampler::take(DrawKind kind, int n, RowDraw* draws) const {
  for (int i = 0; i < n; ++i) {
    draws[i] = kind.filtered ? RowDraw{.top = top_.data() + i}
                             : RowDraw{drawn_.data()[i].token, drawn_.data()[i].margin};
  }
}

}  // namespace specbound
