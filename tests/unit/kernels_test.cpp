// Each kernel on each instruction set: against the written formula, against libm where a formula
// has none, and bit for bit against the portable kernels.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "engine/cpu/kernels.h"
#include "engine/cpu/linear.h"
#include "engine_rig.h"
#include "numerics/half.h"

namespace kernels_test {

using namespace specbound;
using namespace specbound::test;

namespace {

std::vector<float> normals(size_t n, uint64_t seed, float scale = 1) {
  TinyRandom random(seed);
  std::vector<float> x(n);
  for (float& v : x) v = scale * random.normal();
  return x;
}

}  // namespace

TEST_CASE("half and bfloat conversions: all 16-bit values, ties, overflow, subnormals") {
  for (uint32_t h = 0; h < 65536; ++h) {
    const float f = half_to_float(static_cast<uint16_t>(h));
    if (std::isnan(f)) {
      REQUIRE((h & 0x7c00) == 0x7c00);
      REQUIRE((float_to_half(f) & 0x7e00) == 0x7e00);
      continue;
    }
    const int exponent = (h >> 10) & 31, mantissa = h & 1023;
    double expected = exponent == 31 ? HUGE_VAL
                      : exponent     ? std::ldexp(1024 + mantissa, exponent - 25)
                                     : std::ldexp(mantissa, -24);
    if (h & 0x8000) expected = -expected;
    REQUIRE(f == expected);
    REQUIRE(float_to_half(f) == h);
    if (exponent == 31 || (h & 0x7fff) == 0x7bff) continue;
    // Between this value and the next away from zero: below half way, half way, above.
    const float next = half_to_float(static_cast<uint16_t>(h + 1));
    const float middle = static_cast<float>((double{f} + next) / 2);
    REQUIRE(float_to_half(std::nextafter(middle, f)) == h);
    REQUIRE(float_to_half(std::nextafter(middle, next)) == h + 1);
    REQUIRE(float_to_half(middle) == h + (h & 1));
  }
  CHECK(float_to_half(65519.996f) == 0x7bff);
  CHECK(float_to_half(65520.0f) == 0x7c00);
  CHECK(float_to_half(-1e30f) == 0xfc00);
  CHECK(bfloat_to_float(0x3f80) == 1.0f);
  CHECK(float_to_bfloat(1.00390625f) == 0x3f80);  // a tie, to even
  CHECK(float_to_bfloat(1.01171875f) == 0x3f82);
}

TEST_CASE("quantization of odd blocks: zeros, tiny, infinite, NaN, one spike") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (Isa isa : supported_isas()) {
    CAPTURE(isa_name(isa));
    const auto quantized = [&](float fill, float spike) {
      std::vector<float> x(32, fill);
      x[17] = spike;
      RowBuffer buffer(1, 32);
      const QuantRows q = buffer.rows(1, 32, x.data(), 32).quantized;
      std::memset(q.q, 55, 32);
      kernels_for(isa).quantize(x.data(), 0, 0, 1, q);
      int sum = 0, sum16 = 0;
      for (int i = 0; i < 32; ++i) sum += q.q[i];
      for (int i = 0; i < 16; ++i) sum16 += q.q[i];
      const RowBlock& block = q.blocks[0];
      CHECK(block.bias == -128 * sum);
      CHECK(block.half_bias[0] == -128 * sum16);
      CHECK(block.half_bias[1] == -128 * (sum - sum16));
      const float less_mins = static_cast<float>(-sum) * block.scale;
      CHECK((block.less_mins == less_mins || std::isnan(block.scale)));
      CHECK(std::isnan(block.less_mins) == std::isnan(block.scale));
      return std::pair(block.scale, std::vector<int8_t>(q.q, q.q + 32));
    };
    CHECK(quantized(0, 0).first == 0.0f);
    CHECK(quantized(0, 1e-31f).first == 0.0f);
    CHECK(quantized(0, 1e-31f).second[17] == 0);
    CHECK(std::isnan(quantized(1, kInf).first));
    CHECK(std::isnan(quantized(1, kNan).first));
    CHECK(std::isnan(quantized(1, -kInf).first));
    CHECK(quantized(1, kNan).second == std::vector<int8_t>(32, 0));
    CHECK(quantized(0, -2).second[17] == -127);
    CHECK(quantized(0, 3e38f).second[17] == 127);
    CHECK(quantized(63.5f, 127).second[0] == 64);  // ties go to even
    CHECK(quantized(62.5f, 127).second[0] == 62);
  }
}

TEST_CASE("float matmul, norm and SiLU: near the exact result, the same bits on every path") {
  const Kernels& portable = kernels_for(Isa::kPortable);
  for (int n : {8, 31, 32, 172, 1000}) {
    const int ld = (n + 31) / 32 * 32, n_rows = 11, n_out = 5;
    std::vector<float> x(size_t(n_rows) * ld, 0.0f);
    const std::vector<float> values = normals(size_t(n_rows) * n, 1);
    for (int r = 0; r < n_rows; ++r) std::copy_n(&values[size_t(r) * n], n, &x[size_t(r) * ld]);
    const std::vector<float> w = normals(size_t(n_out) * n, 2);
    for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
      const std::vector<std::byte> bytes = tiny_encode(w, type);
      const Matrix matrix{type, n_out, n, bytes.data()};
      std::vector<float> expected(n_rows * n_out);
      portable.matmul_float(matrix, 0, n_out, x.data(), ld, n_rows, expected.data(), n_out, false);
      std::vector<float> row(n);
      for (int o = 0; o < n_out; ++o) {
        read_row(matrix, o, row.data());
        for (int r = 0; r < n_rows; ++r) {
          double exact = 0, magnitude = 0;
          for (int k = 0; k < n; ++k) {
            exact += double{row[k]} * x[size_t(r) * ld + k];
            magnitude += std::fabs(double{row[k]} * x[size_t(r) * ld + k]);
          }
          CHECK(std::fabs(expected[r * n_out + o] - exact) <= 1e-6 * magnitude);
        }
      }
      for (Isa isa : supported_isas()) {
        std::vector<float> y(expected.size());
        kernels_for(isa).matmul_float(matrix, 0, n_out, x.data(), ld, n_rows, y.data(), n_out,
                                      false);
        CHECK(same_bits(y.data(), expected.data(), y.size()));
      }
    }
    std::vector<float> normed(n), gated(values.begin(), values.begin() + n);
    portable.rmsnorm(values.data(), w.data(), 1e-5f, n, normed.data());
    portable.silu_mul(gated.data(), w.data(), n);
    double squares = 0;
    for (int k = 0; k < n; ++k) squares += double{values[k]} * values[k];
    for (int k = 0; k < n; ++k) {
      const double norm = values[k] / std::sqrt(squares / n + 1e-5) * w[k];
      const double silu = values[k] / (1 + std::exp(-double{values[k]})) * w[k];
      CHECK(normed[k] == doctest::Approx(norm).epsilon(1e-6));
      CHECK(gated[k] == doctest::Approx(silu).epsilon(1e-6));
    }
    for (Isa isa : supported_isas()) {
      std::vector<float> y(n), g(values.begin(), values.begin() + n);
      kernels_for(isa).rmsnorm(values.data(), w.data(), 1e-5f, n, y.data());
      kernels_for(isa).silu_mul(g.data(), w.data(), n);
      CHECK(same_bits(y.data(), normed.data(), n));
      CHECK(same_bits(g.data(), gated.data(), n));
    }
  }
}

TEST_CASE("SiLU over the whole range of floats is finite where it should be, on every path alike") {
  std::vector<float> x;
  for (float v : {0.0f, -0.0f, 1e-40f, 1e-30f, 20.0f, 87.0f, 88.5f, 100.0f, 1e30f}) {
    x.push_back(v);
    x.push_back(-v);
  }
  for (int i = -2000; i <= 2000; ++i) x.push_back(0.05f * static_cast<float>(i));
  const std::vector<float> ones(x.size(), 1.0f);
  std::vector<float> expected = x;
  kernels_for(Isa::kPortable).silu_mul(expected.data(), ones.data(), static_cast<int>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = x[i] / (1 + std::exp(-double{x[i]}));
    CHECK(std::fabs(expected[i] - exact) <= 1e-6 * std::fabs(exact) + 1e-35);
  }
  for (Isa isa : supported_isas()) {
    std::vector<float> y = x;
    kernels_for(isa).silu_mul(y.data(), ones.data(), static_cast<int>(x.size()));
    CHECK(same_bits(y.data(), expected.data(), y.size()));
  }
}

TEST_CASE("attention agrees with softmax(q K) V in double, whatever its queries share") {
  for (int head_dim : {8, 64, 80, 128}) {
    const int v_stride = (head_dim + 15) / 16 * 16, positions = 192;
    std::vector<uint16_t> k(size_t(positions) * head_dim), v(size_t(positions) * v_stride);
    KvHead head{k.data(), v.data(), v_stride};
    const std::vector<float> keys = normals(size_t(positions) * head_dim, 3);
    const std::vector<float> values = normals(size_t(positions) * head_dim, 4);
    const std::vector<float> q = normals(8 * size_t(head_dim), 5);
    const float scale = 1 / std::sqrt(static_cast<float>(head_dim));
    std::vector<float> portable_out;
    for (Isa isa : supported_isas()) {
      CAPTURE(isa_name(isa));
      const Kernels& kernels = kernels_for(isa);
      // NaN everywhere first: what is masked must not be read into a result.
      std::fill(k.begin(), k.end(), uint16_t{0x7e00});
      std::fill(v.begin(), v.end(), uint16_t{0x7e00});
      const int written = 150;
      for (int p = 0; p < written; ++p) {
        kernels.store_kv(&keys[size_t(p) * head_dim], &values[size_t(p) * head_dim], head_dim, p,
                         head);
      }
      std::vector<float> out(q.size()), scratch(8 * (v_stride + 2));
      const int pos[8] = {0, 1, 62, 63, 64, 65, 130, 149};
      std::vector<Query> queries;
      for (int i = 0; i < 8; ++i) {
        queries.push_back({&q[size_t(i) * head_dim], &out[size_t(i) * head_dim], pos[i]});
      }
      kernels.attention(head, queries.data(), 8, head_dim, scale, 0, scratch.data());
      for (int i = 0; i < 8; ++i) {
        std::vector<double> weight(pos[i] + 1), exact(head_dim);
        double largest = -1e300, total = 0;
        for (int p = 0; p <= pos[i]; ++p) {
          for (int d = 0; d < head_dim; ++d) {
            const float key = half_to_float(float_to_half(keys[size_t(p) * head_dim + d]));
            weight[p] += double{q[size_t(i) * head_dim + d]} * key * scale;
          }
          largest = std::max(largest, weight[p]);
        }
        for (double& w : weight) total += w = std::exp(w - largest);
        for (int p = 0; p <= pos[i]; ++p) {
          for (int d = 0; d < head_dim; ++d) {
            exact[d] +=
                weight[p] / total * half_to_float(float_to_half(values[size_t(p) * head_dim + d]));
          }
        }
        for (int d = 0; d < head_dim; ++d) {
          CHECK(std::fabs(out[size_t(i) * head_dim + d] - exact[d]) <= 2e-6);
        }
        // Alone, the query gives the same bits.
        std::vector<float> alone(head_dim);
        const Query one{&q[size_t(i) * head_dim], alone.data(), pos[i]};
        kernels.attention(head, &one, 1, head_dim, scale, 0, scratch.data());
        CHECK(same_bits(alone.data(), &out[size_t(i) * head_dim], head_dim));
      }
      // In any company, too.
      for (int count = 2; count < 8; ++count) {
        std::vector<float> again(out.size());
        std::vector<Query> few(queries.end() - count, queries.end());
        for (Query& query : few) query.out = &again[query.out - out.data()];
        kernels.attention(head, few.data(), count, head_dim, scale, 0, scratch.data());
        const size_t first = size_t(8 - count) * head_dim;
        CHECK(same_bits(&again[first], &out[first], size_t(count) * head_dim));
      }
      if (portable_out.empty()) portable_out = out;
      CHECK(same_bits(out.data(), portable_out.data(), out.size()));
    }
  }
}

TEST_CASE("softmax peak: near the exact one, hostile rows sane, the same bits on every path") {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int n : {1, 2, 15, 16, 17, 31, 97, 4096, 32003}) {
    CAPTURE(n);
    const std::vector<float> z = normals(n, 40 + n, 4);
    for (float temperature : {0.5f, 1.0f, 1.1375f, 3.0f}) {
      const float largest = *std::max_element(z.begin(), z.end());
      double total = 0;
      for (float x : z) total += std::exp((double{x} - largest) / temperature);
      const float portable = kernels_for(Isa::kPortable).softmax_peak(z.data(), n, temperature);
      CHECK(std::fabs(portable * total - 1) < 1e-5);  // 2,000 float sums a lane at most
      for (Isa isa : supported_isas()) {
        const float peak = kernels_for(isa).softmax_peak(z.data(), n, temperature);
        CHECK(same_bits(&peak, &portable, 1));
      }
    }
  }
  std::vector<float> row(40, -1e30f);
  for (Isa isa : supported_isas()) {
    const auto peak = [&](const std::vector<float>& z) {
      return kernels_for(isa).softmax_peak(z.data(), static_cast<int>(z.size()), 1.2f);
    };
    CHECK(peak(std::vector<float>(40, nan)) == 0);
    CHECK(peak(std::vector<float>(40, -inf)) == 0);
    for (size_t at : {0, 15, 16, 33, 39}) {
      row[at] = 3e38f;  // the distance to the others overflows
      CHECK(peak(row) == 1);
      row[at] = inf;
      CHECK(peak(row) == 1);
      row[at] = 5;
      std::vector<float> holes = row;
      for (size_t i = 0; i < holes.size(); ++i) {
        if (i != at) holes[i] = i % 2 ? nan : -inf;
      }
      CHECK(peak(holes) == 1);
      row[at] = -1e30f;
    }
  }
}

TEST_CASE("peaks by chunks: near the exact softmax, the lowest of equals, sane on hostile rows") {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  struct Peak {
    float confidence;
    int place;
  };
  const auto peak_of = [](Isa isa, const std::vector<float>& z, float temperature) {
    const int n = static_cast<int>(z.size()), n_chunks = (n + kPeakChunk - 1) / kPeakChunk;
    std::vector<PeakChunk> chunks(n_chunks);
    const Kernels& kernels = kernels_for(isa);
    kernels.peak_chunks(z.data(), n, temperature, chunks.data());
    Peak peak{};
    peak.confidence =
        kernels.join_peaks(chunks.data(), n_chunks, temperature, z.data(), n, &peak.place);
    return peak;
  };
  for (int n : {1, 2, 15, 16, 17, 63, 64, 65, 150, 1024, 32003}) {
    CAPTURE(n);
    const std::vector<float> z = normals(n, 60 + n, 4);
    for (float temperature : {0.5f, 1.0f, 1.1375f, 3.0f}) {
      const auto top = std::max_element(z.begin(), z.end());
      double total = 0;
      for (float x : z) total += std::exp((double{x} - *top) / temperature);
      const Peak portable = peak_of(Isa::kPortable, z, temperature);
      CHECK(std::fabs(portable.confidence * total - 1) < 1e-5);
      for (Isa isa : supported_isas()) {
        const Peak peak = peak_of(isa, z, temperature);
        CHECK(same_bits(&peak.confidence, &portable.confidence, 1));
        CHECK(peak.place == top - z.begin());
      }
    }
  }
  for (Isa isa : supported_isas()) {
    for (float nothing : {nan, -inf}) {
      const Peak peak = peak_of(isa, std::vector<float>(140, nothing), 1.2f);
      CHECK(peak.confidence == 0);
      CHECK(peak.place == 0);
    }
    for (int at : {0, 15, 63, 64, 100, 127, 128, 139}) {
      for (float nothing : {nan, -inf, -1e30f, -3e38f}) {
        for (float something : {5.0f, 3e38f, inf}) {
          std::vector<float> z(140, nothing);
          z[at] = something;
          const Peak peak = peak_of(isa, z, 1.2f);
          CHECK(peak.confidence == 1);
          CHECK(peak.place == at);
          for (int i = at + 1; i < 140; i += 3) z[i] = something;
          CHECK(peak_of(isa, z, 1.2f).place == at);
        }
      }
    }
  }
}

}  // namespace kernels_test
