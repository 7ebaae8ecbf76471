// Exit checks on the device against the CPU backend's: bit for bit where all weights are INT8,
// closely elsewhere; draws by the heads' logits; one wait each; what heads take is known before and
// comes back.
#include "engine/cuda/device_checks.h"

#include <doctest/doctest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "decode/sampler.h"
#include "engine/cuda/check_memory.h"
#include "error.h"
#include "simt/hidden_rig.h"
#include "simt/rig.h"
#include "unit/temp_dir.h"
#include "unit/tiny_heads.h"

namespace device_checks_host_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kDim = 96, kInner = 160, kList = 330, kVocab = 403, kPrefix = 144, kSlots = 4;

TinyModel make_model(DType type) {
  TinySpec spec = q8_0_spec(3);
  spec.type = type;
  spec.dim = kDim;
  spec.vocab_size = kVocab;
  return TinyModel(spec);
}
const TinyModel& model(DType type) {
  static const TinyModel int8 = make_model(DType::kQ8_0), half = make_model(DType::kF16),
                         four = make_model(DType::kQ4_0);
  return type == DType::kQ8_0 ? int8 : type == DType::kQ4_0 ? four : half;
}

// Heads of all kinds; the chained one at layer 0 has no inner part. `ids`: 0, 1, 2, ...
ExitHeads heads_for(const TinyModel& model, bool ascending = false) {
  const TempDir folder;
  const std::string path = folder / "heads.gguf";
  const HeadsBase base = heads_base(model.gguf, model.config);
  NewHeads file = random_heads(base, kList, kInner);
  file.heads.push_back(random_layer(base, kInner, 77));
  for (NewHead& head : file.heads) {
    if (head.kind == HeadKind::kChained && head.layer == 0) head.inner = head.outer = {};
  }
  for (int i = 0; ascending && i < kList; ++i) file.shortlist[i] = i;
  write_exit_heads(path, file);
  return ExitHeads::open(path, model.gguf, model.config);
}

std::vector<float> copied(std::span<const float> z) {
  return {z.begin(), z.end()};
}

SamplingParams sampling(float temperature, int top_k = 0, float top_p = 1, float penalty = 1) {
  return {temperature, top_k, top_p, 0, penalty, 64, 21};
}

// Peak and confidence of z, by the CPU.
ExitPeak peak_of(std::span<const float> z, float temperature) {
  std::vector<PeakChunk> chunks((z.size() + kPeakChunk - 1) / kPeakChunk);
  const int n = static_cast<int>(z.size());
  cpu().peak_chunks(z.data(), n, temperature, chunks.data());
  ExitPeak peak;
  peak.confidence = cpu().join_peaks(chunks.data(), static_cast<int>(chunks.size()), temperature,
                                     z.data(), n, &peak.token);
  return peak;
}

}  // namespace

TEST_CASE("checks on the device, INT8: the CPU's, through states and slots, one wait each") {
  for (const auto& [type, shortlist] :
       {std::pair{DType::kQ8_0, kList}, {DType::kQ8_0, kPrefix}, {DType::kQ4_0, kPrefix}}) {
    HiddenRig rig(model(type));
    const ExitHeads heads = heads_for(rig.model);
    rig.cpu->set_exit_heads(&heads, shortlist);
    DeviceExitChecks checks(rig.on_device(shortlist == kList));
    checks.set(&heads, shortlist);
    for (int round = 0; round < 3; ++round) {
      rig.set_rows(round + 1, kSlots);
      rig.waits();
      rig.cpu->keep_state(round);
      checks.keep_state(round);
      CHECK(rig.waits() == 0);
      for (int slot = 0; slot < kSlots; ++slot) {
        for (size_t i = 0; i < heads.heads().size(); ++i) {
          if (heads.heads()[i].kind == HeadKind::kFull) continue;
          CAPTURE(round);
          CAPTURE(slot);
          CAPTURE(i);
          const int head = static_cast<int>(i);
          const float temperature = 0.7f + 0.1f * static_cast<float>(i);
          const ExitPeak expected = rig.cpu->exit_check(head, slot, temperature);
          const ExitPeak found = checks.check(head, rig.row(slot), temperature);
          REQUIRE(rig.waits() == 1);
          REQUIRE(same_floats(found.confidence, expected.confidence));
          REQUIRE(found.token == expected.token);
          if (slot == 1) continue;  // nobody asks
          REQUIRE(same_floats(copied(checks.logits()), copied(rig.cpu->exit_logits())));
          REQUIRE(rig.waits() == 1);
          checks.logits();
          REQUIRE(rig.waits() == 0);
        }
      }
    }
    rig.device.synchronize();
  }
}

TEST_CASE("checks on the device: full heads, and FP16 lm_heads") {
  for (const DType type : {DType::kQ8_0, DType::kF16}) {
    HiddenRig rig(model(type));
    const ExitHeads heads = heads_for(rig.model);
    rig.cpu->set_exit_heads(&heads, kList);
    DeviceExitChecks checks(rig.on_device());
    checks.set(&heads, kList);
    for (int round = 0; round < 2; ++round) {
      rig.set_rows(round + 1, 2);
      rig.cpu->keep_state(1);
      checks.keep_state(1);
      for (int slot = 0; slot < 2; ++slot) {
        for (size_t i = 0; i < heads.heads().size(); ++i) {
          CAPTURE(std::string(dtype_info(type)->name));
          CAPTURE(slot);
          CAPTURE(i);
          const HeadKind kind = heads.heads()[i].kind;
          const int head = static_cast<int>(i);
          const ExitPeak expected = rig.cpu->exit_check(head, slot, 0.8f);
          const ExitPeak found = checks.check(head, rig.row(slot), 0.8f);
          const std::span<const float> z = checks.logits();
          // One of 127 steps of an activation, where a map's last bit decides how it is rounded.
          const double apart = relative_difference(z, rig.cpu->exit_logits());
          CHECK(apart < (type == DType::kQ8_0 && kind == HeadKind::kFull ? 2e-2 : 1e-5));
          ExitPeak own = peak_of(z, 0.8f);
          if (kind != HeadKind::kFull) own.token = heads.shortlist()[own.token];
          REQUIRE(z.size() == (kind == HeadKind::kFull ? kVocab : kList));
          REQUIRE(same_floats(found.confidence, own.confidence));
          REQUIRE(found.token == own.token);
          CHECK(std::abs(found.confidence - expected.confidence) < 0.02f);
        }
      }
    }
    rig.device.synchronize();
  }
}

TEST_CASE("checks on the device: draws by a head's logits are the sampler's, with the same wait") {
  for (const DType type : {DType::kQ8_0, DType::kF16}) {
    HiddenRig rig(model(type));
    const ExitHeads heads = heads_for(rig.model);
    DeviceExitChecks checks(rig.on_device());
    checks.set(&heads, kList);
    rig.set_rows(5, 3);
    checks.keep_state(0);
    int open = 0;
    for (const SamplingParams& params :
         {sampling(0), sampling(0, 40, 0.9f, 1.5f), sampling(0.8f), sampling(1.2f, 0, 1, 1.3f),
          sampling(1, 40, 0.95f, 0.8f), sampling(1.5f, 0, 0.999f)}) {
      Sampler sampler(params);
      for (const HeadKind kind : kHeadKinds) {
        if (is_published(kind)) continue;
        const int head = heads.find(kind, kind == HeadKind::kLayer ? 0 : 2);
        for (int slot = 0; slot < 3; ++slot) {
          CAPTURE(std::string(head_kind_name(kind)));
          CAPTURE(slot);
          CAPTURE(params.temperature);
          const std::vector<int32_t> text = token_ids(20 + slot, kVocab, slot / 2);
          const DrawPlace place{params.seed, 4, static_cast<uint32_t>(text.size())};
          std::optional<RowDraw> draw = RowDraw{};
          rig.waits();
          const auto ask = [&](float least) {
            return checks.check_and_draw(head, rig.row(slot), 1.1f, least, sampler.rule(4), text,
                                         draw);
          };
          const float confidence = ask(2).confidence;  // that no row has
          REQUIRE(!draw);
          REQUIRE(same_floats(ask(std::nextafter(confidence, 2.0f)).confidence, confidence));
          REQUIRE(!draw);
          REQUIRE(rig.waits() == 2);
          const ExitPeak peak = ask(confidence);
          REQUIRE(rig.waits() == 1);
          REQUIRE(draw);
          const std::span<const float> z = checks.logits();
          std::span<const int32_t> ids;
          if (kind != HeadKind::kFull) ids = heads.shortlist();
          const ExitPeak expected = peak_of(z, 1.1f);
          REQUIRE(same_floats(peak.confidence, expected.confidence));
          REQUIRE(peak.token == (ids.empty() ? expected.token : ids[expected.token]));
          double margin = 0, expected_margin = 0;
          const int32_t drawn = sampler.sample(z, text, place, ids, &expected_margin);
          const auto token = sampler.take(*draw, place, &margin);
          open += !token;
          if (!token) continue;
          REQUIRE(*token == drawn);
          REQUIRE(margin == expected_margin);
        }
      }
    }
    CHECK(open > 0);  // of 0.999
    CHECK(open <= 12);
    rig.device.synchronize();
  }
}

TEST_CASE("checks on the device: without a file chained heads take the first rows of lm_head") {
  for (const DType type : {DType::kQ8_0, DType::kQ4_0, DType::kF16}) {
    HiddenRig rig(model(type));
    const ExitHeads heads = heads_for(rig.model, true);
    DeviceExitChecks listed(rig.on_device()), first(rig.on_device(true, false));
    listed.set(&heads, kPrefix);
    first.set(&heads, kPrefix);
    rig.set_rows(8, 2);
    for (DeviceExitChecks* checks : {&listed, &first}) checks->keep_state(0);
    for (const int layer : {0, 1}) {
      const int head = heads.find(HeadKind::kChained, layer);
      for (DeviceExitChecks* checks : {&listed, &first}) checks->check(head, rig.row(1), 1);
      REQUIRE(listed.logits().size() == kPrefix);
      REQUIRE(copied(listed.logits()) == copied(first.logits()));
    }
    rig.device.synchronize();
  }
}

TEST_CASE("checks on the device: what heads take is known before, and comes back") {
  for (const DType type : {DType::kQ8_0, DType::kF16}) {
    HiddenRig rig(model(type));
    const ExitHeads heads = heads_for(rig.model);
    const simt::DeviceLog& log = rig.device.log();
    const size_t before = log.device_bytes;
    const int live = log.live;
    DeviceExitChecks checks(rig.on_device());
    CHECK(log.live == live);
    for (const int shortlist : {kPrefix, kList}) {
      checks.set(&heads, shortlist);
      CHECK(log.device_bytes - before == device_heads_bytes(heads, shortlist, rig.model.config,
                                                            type == DType::kQ8_0,
                                                            HiddenRig::kContext, KvType::kFp16));
      checks.keep_state(3);
      for (int i = 0; i < 3; ++i) checks.check(heads.find(HeadKind::kChained, 0), rig.row(i), 1);
      checks.keep_state(3);  // under way when they go
    }
    checks.set(nullptr, 0);
    CHECK(log.live == live);
  }
}

TEST_CASE("checks on the device: memory refused at any point is one error, and nothing is left") {
  const TinyModel& tiny = model(DType::kQ8_0);
  const ExitHeads heads = heads_for(tiny);
  const auto set_heads = [&](int refuse) {
    simt::DeviceLog log;
    int before = 0, allocations = 0;
    bool refused = false;
    {
      simt::SimtDevice device({.refuse_allocation = refuse, .log = &log});
      const DeviceWeights weights(device, tiny.config, tiny.weights, {});
      const DeviceMemory<float> h(device, kMaxRows * kDim);
      DeviceRope rope(device, tiny.config, nullptr, 64);
      before = log.allocations;
      const int live = log.live;
      DeviceExitChecks checks(
          {device, tiny.config, weights, &tiny.weights.lm_head, h.data(), 64, true, &rope});
      try {
        checks.set(&heads, kList);
      } catch (const Error& e) {
        CHECK(e.code() == ErrorCode::kLimit);
        CHECK(log.live == live);
        refused = true;
      }
      allocations = log.allocations;
    }
    CHECK(log.wrong == "");
    CHECK(refused == (refuse > 0));
    return std::pair(before, allocations);
  };
  const auto [before, all] = set_heads(0);
  CHECK(all - before > 20);
  for (int refuse = before + 1; refuse <= all; ++refuse) {
    CAPTURE(refuse);
    set_heads(refuse);
  }
}

}  // namespace device_checks_host_test
