// Matrices that become INT8 blocks at load: which bits, what is refused, what load says.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "expect_error.h"
#include "model/codec.h"
#include "model/conversion.h"
#include "numerics/half.h"

namespace specbound::conversion_test {
namespace {

constexpr DType kConverted[] = {DType::kQ2_K, DType::kQ3_K, DType::kIQ4_NL};

// Random blocks with finite scales: halves below 2, wherever they lie.
std::vector<std::byte> random_blocks(DType type, size_t n_blocks, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(n_blocks * dtype_info(type)->bytes);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 0xbf);
  return bytes;
}

std::vector<BlockQ8_0> converted(const Matrix& matrix, int row, size_t& lost) {
  std::vector<BlockQ8_0> blocks(matrix.n_in / 32);
  lost = convert_to_int8(matrix, row, blocks.data());
  return blocks;
}

}  // namespace

TEST_CASE("conversion: each row is the Q8_0 of its values") {
  constexpr int kRows = 3, kColumns = 512;
  for (const DType type : kConverted) {
    INFO(dtype_info(type)->name);
    CHECK(runs_as(type) == DType::kQ8_0);
    const auto bytes = random_blocks(type, kRows * kColumns / dtype_info(type)->block, 4);
    const Matrix matrix{type, kRows, kColumns, bytes.data()};
    std::vector<float> values(kRows * kColumns);
    dequantize(bytes.data(), type, values.size(), values.data());
    for (int row = 0; row < kRows; ++row) {
      const std::span<const float> mine(&values[row * kColumns], kColumns);
      const std::vector<std::byte> expected = encode_floats(mine, DType::kQ8_0);
      size_t lost = 1;
      const auto found = converted(matrix, row, lost);
      CHECK(lost == 0);
      CHECK(std::memcmp(found.data(), expected.data(), expected.size()) == 0);
      // Half a step of the scale, and 127 times what FP16 rounds off the scale.
      for (int i = 0; i < kColumns; ++i) {
        const float d = half_to_float(found[i / 32].d);
        const float bound = 0.5f * d + 127 * std::max(d * 0x1p-11f, 0x1p-25f);
        CHECK(std::fabs(d * found[i / 32].q[i % 32] - mine[i]) <= bound * 1.0001f);
      }
    }
  }
}

TEST_CASE("conversion: IQ4_NL blocks with an element of the largest size lose nothing") {
  constexpr int kBlocks = 200;
  auto bytes = random_blocks(DType::kIQ4_NL, kBlocks, 5);
  for (int block = 0; block < kBlocks; ++block) bytes[block * 18 + 2 + block % 16] &= std::byte{15};
  const Matrix matrix{DType::kIQ4_NL, 1, kBlocks * 32, bytes.data()};
  std::vector<float> values(kBlocks * 32);
  dequantize(bytes.data(), matrix.type, values.size(), values.data());
  size_t lost = 1;
  const auto found = converted(matrix, 0, lost);
  std::vector<float> again(values.size());
  dequantize(reinterpret_cast<const std::byte*>(found.data()), DType::kQ8_0, again.size(),
             again.data());
  CHECK(lost == 0);
  CHECK(again == values);
}

TEST_CASE("conversion: scales that are not finite stay so, and weights too large are counted") {
  constexpr int kColumns = 64;
  std::vector<float> values(kColumns, 1.0f);
  values[3] = 1e30f;
  values[4] = -1e30f;
  values[40] = std::numeric_limits<float>::infinity();
  const Matrix matrix{DType::kF32, 1, kColumns, reinterpret_cast<const std::byte*>(values.data())};
  size_t lost = 0;
  const auto blocks = converted(matrix, 0, lost);
  CHECK(lost == 2);
  CHECK(!std::isfinite(half_to_float(blocks[0].d)));
  CHECK(!std::isfinite(half_to_float(blocks[1].d)));

  // Q2_K of the largest scales: 45 d - 15 dmin overflows nothing in FP32, and 127 FP16 hold it.
  std::vector<std::byte> large(2 * 84, std::byte{0xff});
  for (int block = 0; block < 2; ++block) {
    const uint16_t d[2] = {0x7bff, static_cast<uint16_t>(block == 0 ? 0x7bff : 0x7c00)};
    std::memcpy(&large[block * 84 + 80], d, sizeof d);
  }
  const Matrix q2_k{DType::kQ2_K, 1, 512, large.data()};
  const auto of_q2_k = converted(q2_k, 0, lost);
  CHECK(lost == 0);
  CHECK(std::isfinite(half_to_float(of_q2_k[0].d)));
  CHECK(!std::isfinite(half_to_float(of_q2_k[8].d)));  // the file has it infinite

  // Q3_K has 32 * 4 times its scale: FP16 times 127 does not hold that.
  std::vector<std::byte> wide(110, std::byte{0});  // scales of -32, numbers of -4
  const uint16_t most = 0x7bff;
  std::memcpy(&wide[108], &most, sizeof most);
  const Matrix q3_k{DType::kQ3_K, 1, 256, wide.data()};
  converted(q3_k, 0, lost);
  CHECK(lost == 256);

  refuse_lost_weights(DType::kQ3_K, 0);
  test::check_mentions(
      test::expect_error(ErrorCode::kUnsupported, [] { refuse_lost_weights(DType::kQ3_K, 256); }),
      {"Q3_K", "256", "INT8"});
}

TEST_CASE("conversion: load says which types are converted and what it costs") {
  Weights weights;
  weights.layers.resize(2);
  const auto matrix = [](DType type) { return Matrix{type, 1000, 1024, nullptr}; };
  for (LayerWeights& w : weights.layers) {
    for (Matrix* m : {&w.wq, &w.wk, &w.wv, &w.wo, &w.w_gate, &w.w_up, &w.w_down}) {
      *m = matrix(DType::kQ4_K);
    }
  }
  weights.token_embd = matrix(DType::kQ3_K);  // only rows of it are read
  weights.lm_head = matrix(DType::kQ8_0);
  CHECK(conversion_note(weights).empty());
  weights.lm_head = matrix(DType::kQ6_K);
  CHECK(conversion_note(weights).empty());
  weights.lm_head = matrix(DType::kQ3_K);  // 0.44 MB, 1.088 as Q8_0
  CHECK(conversion_note(weights) == "Q3_K runs as INT8: 0.4 MB become 1.1 MB, repacked at load");
  weights.layers[1].wk = matrix(DType::kIQ4_NL);  // 0.576
  CHECK(conversion_note(weights) ==
        "IQ4_NL and Q3_K run as INT8: 1.0 MB become 2.2 MB, repacked at load");
  weights.layers[0].w_down = matrix(DType::kQ2_K);  // 0.336
  CHECK(conversion_note(weights) ==
        "IQ4_NL, Q2_K and Q3_K run as INT8: 1.4 MB become 3.3 MB, repacked at load");
}

}  // namespace specbound::conversion_test
