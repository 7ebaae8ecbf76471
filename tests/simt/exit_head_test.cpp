// Exit heads against the CPU's kernels and its exit checks, bit for bit.
#include "exit_head.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "engine/cpu/kernels.h"
#include "projections.h"
#include "rows.h"
#include "simt/int8_rig.h"
#include "unit/engine_rig.h"
#include "unit/temp_dir.h"
#include "unit/tiny_heads.h"

namespace exit_head_test {

using namespace specbound;
using kernels::ExitDecision;
using kernels::ExitRule;
using kernels::Pass;
using kernels::RowsI8;
using kernels::TilesI8;
using simt::DeviceBuffer;
using test::cpu;
using test::DeviceRows;
using test::DeviceTiles;
using test::Int8Matrix;
using test::kPackedForms;
using test::pass_of;
using test::random_floats;
using test::same_floats;
using test::TinyRandom;

namespace {

static_assert(kernels::kPeakChunk == kPeakChunk);
static_assert(sizeof(kernels::PeakChunk) == sizeof(PeakChunk));

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

bool same_chunks(const std::vector<kernels::PeakChunk>& a, const std::vector<PeakChunk>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0;
}

// x as the CPU quantizes it; the other rows of the panel hold anything.
DeviceRows device_row(const std::vector<float>& x) {
  const int n = static_cast<int>(x.size());
  const test::QuantizedRows row = test::quantized(cpu(), x, n, 1, n);
  DeviceRows out(1, n);
  for (int b = 0; b < n / 32; ++b) {
    out.q.write({&row.q[b * 256], &row.q[b * 256] + 32}, b * 256);
    out.d.write({row.d[b * 8]}, b * 8);
  }
  return out;
}

// Logits of deviation 3 for ordinary rows.
Int8Matrix random_matrix(int n_out, int n_in, TinyRandom& random, DType type = DType::kQ8_0) {
  return {n_out, n_in, random.next(), 0.02f / std::sqrt(static_cast<float>(n_in)), type};
}

struct Peaks {
  std::vector<PeakChunk> chunks;
  float confidence = 0;
  int place = 0;
};
Peaks peaks_of(const std::vector<float>& z, float temperature) {
  Peaks peaks;
  const int n = static_cast<int>(z.size());
  peaks.chunks.resize(kernels::peak_chunks_of(n));
  cpu().peak_chunks(z.data(), n, temperature, peaks.chunks.data());
  peaks.confidence = cpu().join_peaks(peaks.chunks.data(), static_cast<int>(peaks.chunks.size()),
                                      temperature, z.data(), n, &peaks.place);
  return peaks;
}

DeviceBuffer<ExitRule> rule_of(float temperature, float threshold = 0.5f, uint32_t number = 1) {
  return DeviceBuffer<ExitRule>(std::vector<ExitRule>{{temperature, threshold, number}});
}

// What a check leaves behind.
struct Check {
  std::vector<float> z;
  std::vector<kernels::PeakChunk> chunks;
  ExitDecision decision;
};

Check check_on_device(const TilesI8& w, const RowsI8& x, const ExitRule* rule,
                      const int32_t* ids = nullptr) {
  const DeviceBuffer<float> z(w.n_out);
  const DeviceBuffer<kernels::PeakChunk> peaks(kernels::peak_chunks_of(w.n_out));
  const DeviceBuffer<ExitDecision> decision(1);
  kernels::exit_logits({rule, w, x, z.data(), peaks.data()}, simt::stream());
  kernels::join_peaks({rule, peaks.data(), z.data(), ids, w.n_out, decision.data()},
                      simt::stream());
  return {z.read(), peaks.read(), decision.read()[0]};
}

}  // namespace

TEST_CASE("exit_logits: the CPU's logits, peaks and decision") {
  TinyRandom random(1);
  for (const int n_in : {32, 64, 96, 1024, 2048, 4096, 4640}) {
    for (const int n_out : {1, 15, 16, 17, 33, 63, 64, 65, 150, 331}) {
      CAPTURE(n_in);
      CAPTURE(n_out);
      const Int8Matrix w = random_matrix(n_out, n_in, random);
      const std::vector<float> x = random_floats(n_in, random.next());
      const float temperature = 0.4f + random.uniform();
      const DeviceRows row = device_row(x);
      const auto rule = rule_of(temperature);
      const Check found = check_on_device(w.tiles(), row.rows(), rule.data());
      const std::vector<float> z = w.times(cpu(), x, 1);
      const Peaks peaks = peaks_of(z, temperature);
      REQUIRE(same_floats(found.z, z));
      REQUIRE(same_chunks(found.chunks, peaks.chunks));
      REQUIRE(same_floats(found.decision.confidence, peaks.confidence));
      REQUIRE(found.decision.token == peaks.place);
    }
  }
}

TEST_CASE("exit_logits of packed weights: the CPU's logits, peaks and decision") {
  TinyRandom random(7);
  for (const DType type : kPackedForms) {
    for (const int n_in : {256, 1280, 2304, 4352}) {
      for (const int n_out : {1, 33, 65}) {
        CAPTURE(dtype_info(type)->name);
        CAPTURE(n_in);
        CAPTURE(n_out);
        const Int8Matrix w = random_matrix(n_out, n_in, random, type);
        const std::vector<float> x = random_floats(n_in, random.next());
        const DeviceRows row = device_row(x);
        const auto rule = rule_of(0.7f);
        const Check found = check_on_device(w.tiles(), row.rows(), rule.data());
        const std::vector<float> z = w.times(cpu(), x, 1);
        const Peaks peaks = peaks_of(z, 0.7f);
        REQUIRE(same_floats(found.z, z));
        REQUIRE(same_chunks(found.chunks, peaks.chunks));
        REQUIRE(same_floats(found.decision.confidence, peaks.confidence));
        REQUIRE(found.decision.token == peaks.place);
      }
    }
  }
}

TEST_CASE("exit_logits: no matter in which order threads run") {
  TinyRandom random(2);
  const Int8Matrix w = random_matrix(150, 4096, random);
  const std::vector<float> x = random_floats(4096, random.next());
  const auto rule = rule_of(0.8f);
  simt::for_each_order([&] {
    const DeviceRows row = device_row(x);  // its other rows hold the poison
    const Check found = check_on_device(w.tiles(), row.rows(), rule.data());
    std::vector<float> all = found.z;
    for (const kernels::PeakChunk& chunk : found.chunks) {
      all.insert(all.end(), chunk.sum, chunk.sum + 16);
      all.push_back(chunk.highest);
    }
    all.push_back(found.decision.confidence);
    return all;
  });
}

TEST_CASE("exit_logits: rows with NaN, infinities and nothing at all") {
  TinyRandom random(3);
  const Int8Matrix w = random_matrix(100, 128, random);
  const auto rule = rule_of(1);
  for (const float bad : {kNan, kInf, -kInf, 0.0f, 1e-35f, 3e38f}) {
    std::vector<float> x = random_floats(128, random.next());
    x[37] = bad;
    if (bad == 0) x.assign(128, 0);
    const DeviceRows row = device_row(x);
    const Check found = check_on_device(w.tiles(), row.rows(), rule.data());
    const std::vector<float> z = w.times(cpu(), x, 1);
    const Peaks peaks = peaks_of(z, 1);
    CAPTURE(bad);
    CHECK(same_floats(found.z, z));
    CHECK(same_chunks(found.chunks, peaks.chunks));
    CHECK(same_floats(found.decision.confidence, peaks.confidence));
    CHECK(found.decision.token == peaks.place);
  }
}

namespace {

// Logits of every kind: plain, equal, few values, holes of all sorts, nothing.
std::vector<float> row_of_kind(int kind, int n, TinyRandom& random) {
  std::vector<float> z = random_floats(n, random.next(), kind == 1 ? 40.0f : 3.0f);
  for (int i = 0; i < n; ++i) {
    const uint64_t r = random.next();
    if (kind == 2) z[i] = 1.25f;
    if (kind == 3) z[i] = std::round(z[i]);
    if (kind == 4) z[i] = r % 2 ? 0.0f : -0.0f;
    if (kind == 5 && r % 3 == 0) z[i] = r % 2 ? kNan : -kInf;
    if (kind == 6) z[i] = r % 2 ? kNan : -kInf;
    if (kind == 7 && r % 50 == 0) z[i] = kInf;
    if (kind == 8) z[i] = r % 2 ? 3e38f : -3e38f;
    if (kind == 9 && i < 128) z[i] = kNan;
  }
  return z;
}
constexpr int kKinds = 10;

}  // namespace

TEST_CASE("peak_chunks and join_peaks: the CPU's, of every kind of row") {
  TinyRandom random(4);
  for (const int n : {1, 2, 16, 17, 63, 64, 65, 130, 515, 16384, 16384 + 130}) {
    for (int kind = 0; kind < kKinds; ++kind) {
      CAPTURE(n);
      CAPTURE(kind);
      const float temperature = kind == 8 ? 1e-3f : 0.2f + 2 * random.uniform();
      const std::vector<float> z = row_of_kind(kind, n, random);
      const Peaks expected = peaks_of(z, temperature);
      std::vector<int32_t> ids(n);
      for (int i = 0; i < n; ++i) ids[i] = 2 * n - i;
      const DeviceBuffer<float> device_z(z);
      const DeviceBuffer<int32_t> device_ids(ids);
      const DeviceBuffer<kernels::PeakChunk> peaks(kernels::peak_chunks_of(n));
      const DeviceBuffer<ExitDecision> decision(1), told(1);
      const DeviceBuffer<int32_t> drawn_rows(1);
      for (const float threshold :
           {expected.confidence, std::nextafter(expected.confidence, 2.f)}) {
        const auto rule = rule_of(temperature, threshold, 77);
        kernels::peak_chunks({rule.data(), device_z.data(), n, peaks.data()}, simt::stream());
        REQUIRE(same_chunks(peaks.read(), expected.chunks));
        kernels::join_peaks({rule.data(), peaks.data(), device_z.data(), device_ids.data(), n,
                             decision.data(), drawn_rows.data()},
                            simt::stream());
        kernels::tell_decision({decision.data(), told.data()}, simt::stream());
        const ExitDecision found = told.read()[0];
        REQUIRE(std::memcmp(&found, decision.read().data(), sizeof found) == 0);
        REQUIRE(drawn_rows.read()[0] == (found.exits ? 1 : 0));
        REQUIRE(same_floats(found.confidence, expected.confidence));
        REQUIRE(found.token == ids[expected.place]);
        REQUIRE(found.exits == (threshold == expected.confidence));
        REQUIRE(found.number == 77);
      }
    }
  }
}

TEST_CASE("join_peaks: no matter in which order threads run") {
  TinyRandom random(5);
  const std::vector<float> z = row_of_kind(3, 20000, random);
  const DeviceBuffer<float> device_z(z);
  const auto rule = rule_of(0.7f);
  simt::for_each_order([&] {
    const DeviceBuffer<kernels::PeakChunk> peaks(kernels::peak_chunks_of(20000));
    const DeviceBuffer<ExitDecision> decision(1);
    kernels::peak_chunks({rule.data(), device_z.data(), 20000, peaks.data()}, simt::stream());
    kernels::join_peaks(
        {rule.data(), peaks.data(), device_z.data(), nullptr, 20000, decision.data()},
        simt::stream());
    return decision.read();
  });
}

TEST_CASE("silu_quantize: the CPU's SiLU, quantized") {
  TinyRandom random(7);
  for (const int n : {32, 96, 160, 1024}) {
    std::vector<float> x = random_floats(n, random.next(), 6);
    if (n == 96) x[40] = kNan;
    if (n == 160) std::fill_n(x.begin() + 64, 32, -200.0f);
    std::vector<float> act = x;
    const std::vector<float> ones(n, 1.0f);
    cpu().silu_mul(act.data(), ones.data(), n);
    const DeviceBuffer<float> device_x(x);
    const DeviceRows out(1, n);
    kernels::silu_quantize({device_x.data(), out.rows()}, simt::stream());
    CAPTURE(n);
    REQUIRE(out.read(1) == test::quantized(cpu(), act, n, 1, n));
  }
}

TEST_CASE("add_silu: the CPU's SiLU of a row and its bias, alone or added to another") {
  for (const int n : {1, 96, 300}) {
    CAPTURE(n);
    std::vector<float> y = random_floats(n, 4, 6);
    const std::vector<float> bias = random_floats(n, 5), x = random_floats(n, 6);
    y[n / 2] = n == 96 ? kNan : -200.0f;
    std::vector<float> act(n);
    for (int i = 0; i < n; ++i) act[i] = y[i] + bias[i];
    const std::vector<float> ones(n, 1.0f);
    cpu().silu_mul(act.data(), ones.data(), n);
    const DeviceBuffer<float> device_bias(bias), device_x(x);
    for (const bool adds : {false, true}) {
      std::vector<float> expected = act;
      for (int i = 0; adds && i < n; ++i) expected[i] += x[i];
      CHECK(same_floats(simt::for_each_order([&] {
                          const DeviceBuffer<float> device_y(y);
                          kernels::add_silu({device_y.data(), device_bias.data(),
                                             adds ? device_x.data() : nullptr, n},
                                            simt::stream());
                          return device_y.read();
                        }),
                        expected));
    }
  }
}

namespace {

constexpr int kDim = 96, kInner = 160, kList = 150, kSlots = 4;

// A tiny model's heads as the device has them, checked as exit_head.h says.
class DeviceHeads {
 public:
  DeviceHeads(const test::TinyModel& model, const ExitHeads& heads)
      : model_(model),
        ids_(heads.shortlist()),
        ones_(std::vector<float>(kDim, 1.0f)),
        norm_(std::vector<float>(model.weights.output_norm, model.weights.output_norm + kDim)),
        pass_(pass_of(1)),
        u_(8 * (kSlots + 1), 2 * kDim),
        y_(kDim + kInner) {
    const Matrix& all = model.weights.lm_head;
    listed_bytes_.resize(all.bytes() / all.n_out * kList);
    for (int i = 0; i < kList; ++i) {
      const size_t row = all.bytes() / all.n_out;
      std::copy_n(all.data + heads.shortlist()[i] * row, row, &listed_bytes_[i * row]);
    }
    listed_.emplace(Matrix{DType::kQ8_0, kList, kDim, listed_bytes_.data()});
    for (const HeadWeights& head : heads.heads()) {
      Head& to = heads_on_device_.emplace_back();
      if (head.kind == HeadKind::kFolded) to.folded.emplace(head.folded);
      if (head.kind != HeadKind::kChained) continue;
      to.map.emplace(head.map);
      if (head.inner.n_out == 0) continue;
      to.inner.emplace(head.inner);
      to.outer.emplace(head.outer);
    }
  }

  void keep_state(std::span<const float> h) {
    const DeviceBuffer<float> row(std::vector<float>(h.begin(), h.end()));
    kernels::norm_quantize(
        {pass_.data(), row.data(), norm_.data(), model_.config.norm_eps, half(0, 1), 1},
        simt::stream());
  }

  Check check(int index, int slot, std::span<const float> h, float temperature) {
    const DeviceBuffer<float> row(std::vector<float>(h.begin(), h.end()));
    const Head& head = heads_on_device_[index];
    const auto rule = rule_of(temperature);
    const float eps = model_.config.norm_eps;
    kernels::norm_quantize({pass_.data(), row.data(), ones_.data(), eps, half(slot, 0), 1},
                           simt::stream());
    if (head.folded) {
      return check_on_device(head.folded->tiles(), half(slot, 0), rule.data(), ids_.data());
    }
    const RowsI8 u{2 * kDim, half(slot, 0).q, half(slot, 0).d};
    kernels::Project project{pass_.data(), u, {head.map->tiles()}, 1, y_.data(), kDim + kInner};
    if (head.inner) {
      project.parts[1] = head.inner->tiles();
      project.n_parts = 2;
    }
    kernels::project(project, simt::stream());
    if (head.inner) {
      const DeviceRows c(1, kInner);
      kernels::silu_quantize({y_.data() + kDim, c.rows()}, simt::stream());
      kernels::project_residual({pass_.data(), c.rows(), head.outer->tiles(), nullptr, y_.data()},
                                simt::stream());
    }
    kernels::quantize_rows({pass_.data(), y_.data(), kDim, half(slot + 1, 1), 1}, simt::stream());
    return check_on_device(listed_->tiles(), half(slot + 1, 1), rule.data(), ids_.data());
  }

 private:
  struct Head {
    std::optional<DeviceTiles> folded, map, inner, outer;
  };

  // The first or second half of u[slot].
  RowsI8 half(int slot, int second) const {
    const size_t block = static_cast<size_t>(2 * slot + second) * kDim / 32;
    return {kDim, u_.q.data() + block * 256, u_.d.data() + block * 8};
  }

  const test::TinyModel& model_;
  DeviceBuffer<int32_t> ids_;
  DeviceBuffer<float> ones_, norm_;
  DeviceBuffer<Pass> pass_;
  DeviceRows u_;
  DeviceBuffer<float> y_;
  std::vector<std::byte> listed_bytes_;
  std::optional<DeviceTiles> listed_;
  std::vector<Head> heads_on_device_;
};

}  // namespace

TEST_CASE("folded and chained checks: the CPU backend's, through states and slots") {
  test::TinySpec spec;
  spec.dim = kDim;
  spec.n_layers = 3;
  spec.vocab_size = 300;
  spec.type = DType::kQ8_0;
  const test::TinyModel model(spec);
  const test::TempDir folder;
  const std::string path = folder / "heads.gguf";
  NewHeads file = test::random_heads(heads_base(model.gguf, model.config), kList, kInner);
  for (NewHead& head : file.heads) {
    if (head.kind == HeadKind::kChained && head.layer == 0) head.inner = head.outer = {};
  }
  write_exit_heads(path, file);
  const ExitHeads heads = ExitHeads::open(path, model.gguf, model.config);
  const auto backend = model.backend(Isa::kPortable, 1);
  backend->set_exit_heads(&heads, kList);
  DeviceHeads device(model, heads);

  TinyRandom random(9);
  for (int round = 0; round < 3; ++round) {
    for (int slot = 0; slot < kSlots; ++slot) {
      auto* h = const_cast<float*>(backend->inspect().hidden(slot).data());
      const std::vector<float> values =
          random_floats(kDim, random.next(), 0.1f + static_cast<float>(slot));
      std::copy(values.begin(), values.end(), h);
    }
    backend->keep_state(kSlots - 1);
    device.keep_state(backend->inspect().hidden(kSlots - 1));
    for (int slot = 0; slot < kSlots; ++slot) {
      for (size_t i = 0; i < heads.heads().size(); ++i) {
        if (heads.heads()[i].kind == HeadKind::kFull) continue;
        CAPTURE(slot);
        CAPTURE(i);
        const int index = static_cast<int>(i);
        const ExitPeak peak = backend->exit_check(index, slot, 0.7f);
        const Check found = device.check(index, slot, backend->inspect().hidden(slot), 0.7f);
        const std::span<const float> z = backend->exit_logits();
        REQUIRE(same_floats(found.z, {z.begin(), z.end()}));
        REQUIRE(same_floats(found.decision.confidence, peak.confidence));
        REQUIRE(found.decision.token == peak.token);
      }
    }
  }
}

}  // namespace exit_head_test
