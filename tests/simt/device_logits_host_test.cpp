// Draws on the device against the sampler on the CPU backend's logits: the same tokens and margins
// under every sampling, one wait each, and logits only where the head of a row does not decide.
#include "engine/cuda/device_logits.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "decode/sampler.h"
#include "simt/hidden_rig.h"
#include "simt/rig.h"

namespace device_logits_host_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kVocab = 1203;  // more than one part of a row, more than its head, not even

const TinyModel& model(DType type) {
  static const auto make = [](DType type) {
    TinySpec spec = q8_0_spec(1);
    spec.type = type;
    spec.vocab_size = kVocab;
    return TinyModel(spec);
  };
  static const TinyModel int8 = make(DType::kQ8_0), half = make(DType::kF16);
  return type == DType::kQ8_0 ? int8 : half;
}

SamplingParams sampling(float temperature, int top_k = 0, float top_p = 1, float min_p = 0,
                        float penalty = 1, int last_n = 64) {
  return {temperature, top_k, top_p, min_p, penalty, last_n, 21};
}

// A text in which a penalty finds what rows would say: the n-th token is one of the best of row
// `from` + n.
std::vector<int32_t> text_of(int n, const std::vector<std::vector<float>>& logits, int from = 0) {
  std::vector<int32_t> text;
  for (int i = 0; i < n; ++i) {
    const std::vector<float>& z = logits[(from + i) % logits.size()];
    std::vector<std::pair<float, int32_t>> order;
    for (int id = 0; id < kVocab; ++id) {
      if (!std::isnan(z[id])) order.emplace_back(-z[id], id);
    }
    const size_t rank = i / logits.size();
    if (order.size() > rank) std::nth_element(order.begin(), order.begin() + rank, order.end());
    text.push_back(order.size() > rank ? order[rank].second : i);
  }
  return text;
}

// Draws after rows slot.. by the device and by the sampler; how many the head of a row left open.
int check_draws(HiddenRig& rig, DeviceLogits& draws, int slot, int n, const SamplingParams& params,
                uint32_t reply, const std::vector<int32_t>& text,
                const std::vector<std::vector<float>>& logits) {
  Sampler sampler(params);
  RowDraw found[kMaxRows];
  rig.waits();
  draws.draw(slot, n, sampler.rule(reply), text, found);
  CHECK(rig.waits() == 1);
  int open = 0;
  for (int i = 0; i < n; ++i) {
    CAPTURE(slot);
    CAPTURE(i);
    CAPTURE(params.temperature);
    CAPTURE(params.top_p);
    const auto history = std::span(text).first(text.size() - n + 1 + i);
    const DrawPlace place{params.seed, reply, static_cast<uint32_t>(history.size())};
    double margin = 0, expected_margin = 0;
    const int32_t expected = sampler.sample(logits[slot + i], history, place, {}, &expected_margin);
    const auto token = sampler.take(found[i], place, &margin);
    if (token) {
      REQUIRE(*token == expected);
      REQUIRE(margin == expected_margin);
    } else {
      ++open;
    }
  }
  return open;
}

std::vector<std::vector<float>> cpu_logits(const HiddenRig& rig) {
  std::vector<std::vector<float>> all;
  for (int slot = 0; slot < kMaxRows; ++slot) all.push_back(rig.cpu_logits(slot));
  return all;
}

}  // namespace

TEST_CASE("draws on the device: the CPU's logits, of rows in any slots") {
  HiddenRig rig(model(DType::kQ8_0));
  for (const bool graphs : {true, false}) {
    DeviceLogits draws(rig.on_device(graphs));
    for (const int slot : {0, 3, 15}) {
      const int n = slot == 3 ? 9 : kMaxRows - slot;
      rig.set_rows(7 + slot);
      std::vector<float> found(static_cast<size_t>(n) * kVocab);
      rig.waits();
      draws.logits(slot, n, found.data());
      CHECK(rig.waits() == 1);
      for (int i = 0; i < n; ++i) {
        CAPTURE(slot + i);
        const auto row = found.begin() + static_cast<ptrdiff_t>(i) * kVocab;
        REQUIRE(same_floats({row, row + kVocab}, rig.cpu_logits(slot + i)));
      }
    }
  }
}

TEST_CASE("draws on the device: the sampler's tokens, whatever is sampled") {
  HiddenRig rig(model(DType::kQ8_0));
  rig.set_rows(3);
  const auto logits = cpu_logits(rig);
  for (const bool graphs : {true, false}) {
    DeviceLogits draws(rig.on_device(graphs));
    int open = 0;
    uint32_t reply = 0;
    for (const SamplingParams& params :
         {sampling(0), sampling(0, 40, 0.9f, 0.1f, 1.3f), sampling(0.8f),
          sampling(1.3f, 0, 1, 0, 1.2f, -1), sampling(0.8f, 40, 0.95f, 0.05f),
          sampling(1, 0, 0.3f, 0, 0.7f, 5), sampling(1.5f, 0, 0.999f), sampling(1, 0, 1, 0.3f)}) {
      ++reply;
      // A prompt, a round after it, then a text that begins like it: graphs from the second on.
      open += check_draws(rig, draws, 1, 1, params, reply, text_of(20, logits), logits);
      open += check_draws(rig, draws, 0, 6, params, reply, text_of(26, logits), logits);
      std::vector<int32_t> other = text_of(26, logits, 5);
      std::copy_n(text_of(17, logits).begin(), 17, other.begin());
      open += check_draws(rig, draws, 9, 3, params, reply, other, logits);
    }
    check_draws(rig, draws, 0, 16, sampling(0.9f, 0, 1, 0, 1.1f), 9,
                text_of(HiddenRig::kContext, logits), logits);
    check_draws(rig, draws, 0, 16, sampling(0.9f, 50), 9, text_of(16, logits), logits);
    CHECK(open >= 4);   // of 0.999
    CHECK(open <= 30);  // no others but in rows of nothing but NaN
  }
}

TEST_CASE(
    "draws on the device: where the head leaves it open the row's logits decide, in FP16 too") {
  HiddenRig rig(model(DType::kF16));
  rig.set_rows(3, 5);
  DeviceLogits draws(rig.on_device());
  std::vector<std::vector<float>> logits;
  for (int slot = 0; slot < 5; ++slot) {
    std::vector<float> one(kVocab);
    draws.logits(slot, 1, one.data());
    CAPTURE(slot);
    if (slot != 2) REQUIRE(relative_difference(one, rig.cpu_logits(slot)) < 1e-4);
    logits.push_back(one);
  }
  for (const SamplingParams& params :
       {sampling(0), sampling(0.8f), sampling(0.8f, 40, 0.95f), sampling(1, 0, 1, 0, 1.5f)}) {
    CHECK(check_draws(rig, draws, 0, 5, params, 0, text_of(20, logits), logits) == 0);
  }
  CHECK(check_draws(rig, draws, 0, 5, sampling(1, 0, 0.999f), 0, text_of(20, logits), logits) > 0);
  std::vector<float> again(kVocab);
  draws.logits(4, 1, again.data());
  REQUIRE(again == logits[4]);
}

TEST_CASE("draws on the device: only what is new of a text goes over, and only for a penalty") {
  HiddenRig rig(model(DType::kQ8_0));
  rig.set_rows(3, 2);
  DeviceLogits draws(rig.on_device());
  const Sampler plain(sampling(0.8f)), penalized(sampling(0.8f, 0, 1, 0, 1.5f));
  const std::vector<int32_t> text = token_ids(30, kVocab);
  const auto copies_of = [&](const Sampler& sampler, int n) {
    const int before = rig.device.log().copies;
    RowDraw draw;
    draws.draw(0, 1, sampler.rule(0), std::span(text).first(n), &draw);
    return rig.device.log().copies - before;
  };
  CHECK(copies_of(plain, 20) == 0);
  CHECK(copies_of(penalized, 20) == 1);
  CHECK(copies_of(penalized, 20) == 0);
  CHECK(copies_of(penalized, 21) == 1);
  CHECK(copies_of(penalized, 12) == 0);
  CHECK(copies_of(plain, 22) == 0);
}

TEST_CASE("draws on the device: what they take is known before") {
  HiddenRig rig(model(DType::kQ8_0));
  const size_t before = rig.device.log().device_bytes;
  const DeviceLogits draws(rig.on_device());
  CHECK(rig.device.log().device_bytes - before ==
        DeviceLogits::bytes_needed(rig.model.config, HiddenRig::kContext));
}

}  // namespace device_logits_host_test
