// Repacking for a GPU: every weight lies where kernels/layouts.h says, and nothing else does.
#include "engine/cuda/weight_layout.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "model/codec.h"
#include "numerics/half.h"
#include "tiny_gguf.h"

namespace fragments_test {

using namespace specbound;
using namespace specbound::test;

namespace {

int tiles_of(int n_out) {
  return (n_out + 15) / 16;
}

// The byte of the fragment block that holds element k (of 32) of output `o` (of 16).
size_t int8_place(int o, int k) {
  const int g = o % 8, t = k / 8, word = k % 8 / 4 * 2 + o / 8;
  return size_t(4 * g + t) * 16 + word * 4 + k % 4;
}

// Element k (of 32) of output `o` in a block of 4 bits: the lane's numbers 0..7 are below in its
// bytes, 8..15 above.
int nibble_at(const int8_t* block, int o, int k) {
  const int lane = 4 * (o % 8) + k / 8, number = k % 8 / 4 * 8 + o / 8 * 4 + k % 4;
  const auto byte = static_cast<uint8_t>(block[8 * lane + number % 8]);
  return number < 8 ? byte & 15 : byte >> 4;
}

// The same of 5 bits: behind the lanes' nibbles lies a word for each two of them, in which word i
// of the even one has its fifth bits at places i of bytes, of the odd one at places i + 4.
int five_bits_at(const int8_t* block, int o, int k) {
  const int lane = 4 * (o % 8) + k / 8, word = k % 8 / 4 * 2 + o / 8;
  const auto byte = static_cast<uint8_t>(block[256 + lane / 2 * 4 + k % 4]);
  return nibble_at(block, o, k) + (byte >> (lane % 2 * 4 + word) & 1) * 16;
}

// The same of 6 bits: the lane's words 0, 1 and 2 hold those of k above and, below, the bits of
// word 3, upper ones first.
int six_bits_at(const int8_t* block, int o, int k) {
  const int lane = 4 * (o % 8) + k / 8, word = k % 8 / 4 * 2 + o / 8;
  const auto byte_of = [&](int w) {
    return static_cast<uint8_t>(block[128 * w + 4 * lane + k % 4]);
  };
  const int bits = word < 3 ? byte_of(word) >> 2
                            : (byte_of(0) & 3) << 4 | (byte_of(1) & 3) << 2 | (byte_of(2) & 3);
  return bits ^ 32;
}

// The same in halves, k of 16.
size_t half_place(int o, int k) {
  const int g = o % 8, t = k / 4, word = k % 4 / 2 * 2 + o / 8;
  return size_t(4 * g + t) * 8 + word * 2 + k % 2;
}

// All of them in pieces of two tiles.
template <class F>
void in_pieces(int n_tiles, F f) {
  for (int begin = 0; begin < n_tiles; begin += 2) f(begin, std::min(begin + 2, n_tiles));
}

}  // namespace

TEST_CASE("INT8 fragments: each element and scale at its place, zeros past the last output") {
  for (const auto& sizes : {std::pair{1, 32}, {16, 64}, {40, 96}, {83, 1056}}) {
    const int n_out = sizes.first, n_in = sizes.second;
    CAPTURE(n_out);
    TinyRandom random(n_out);
    const int n_blocks = n_in / 32;
    std::vector<BlockQ8_0> source(size_t(n_out) * n_blocks);
    for (BlockQ8_0& block : source) {
      block.d = static_cast<uint16_t>(random.next());
      for (int8_t& q : block.q) q = static_cast<int8_t>(random.next());
    }
    const Matrix matrix{DType::kQ8_0, n_out, n_in,
                        reinterpret_cast<const std::byte*>(source.data())};
    const FragmentShape shape = int8_fragments(matrix);
    REQUIRE(shape.n_tiles == tiles_of(n_out));
    REQUIRE(shape.n_blocks == n_blocks);
    std::vector<int8_t> q(shape.bytes_of(shape.n_tiles), 77);
    std::vector<uint16_t> d(shape.scales_of(shape.n_tiles), 77);
    in_pieces(shape.n_tiles, [&](int begin, int end) {
      repack_int8(matrix, begin, end, q.data() + shape.bytes_of(begin),
                  d.data() + shape.scales_of(begin));
    });
    bool right = true;
    for (int o = 0; o < shape.n_tiles * 16; ++o) {
      for (int b = 0; b < n_blocks; ++b) {
        const size_t block = size_t(o / 16) * n_blocks + b;
        const BlockQ8_0 expected = o < n_out ? source[size_t(o) * n_blocks + b] : BlockQ8_0{};
        right = right && d[block * 16 + o % 8 * 2 + o % 16 / 8] == expected.d;
        for (int k = 0; k < 32; ++k) {
          right = right && q[block * 512 + int8_place(o % 16, k)] == expected.q[k];
        }
      }
    }
    CHECK(right);
  }
}

TEST_CASE("4-bit fragments: each number, scale and min at its place, zeros past the last output") {
  for (const DType type : {DType::kQ4_0, DType::kQ4_1, DType::kQ4_K}) {
    const int block_size = static_cast<int>(dtype_info(type)->block);
    for (const auto& sizes : {std::pair{1, 1}, {16, 2}, {40, 3}, {83, 5}}) {
      const int n_out = sizes.first, n_in = sizes.second * block_size;
      CAPTURE(dtype_info(type)->name);
      CAPTURE(n_out);
      TinyRandom random(n_out);
      std::vector<std::byte> bytes(size_t(n_out) * sizes.second * dtype_info(type)->bytes);
      for (std::byte& b : bytes) b = static_cast<std::byte>(random.next());
      const auto* q4_0 = reinterpret_cast<const BlockQ4_0*>(bytes.data());
      const auto* q4_1 = reinterpret_cast<const BlockQ4_1*>(bytes.data());
      const auto* q4_k = reinterpret_cast<const BlockQ4_K*>(bytes.data());
      const Matrix matrix{type, n_out, n_in, bytes.data()};
      const FragmentShape shape = int8_fragments(matrix);
      REQUIRE(shape.n_tiles == tiles_of(n_out));
      REQUIRE(shape.n_blocks == n_in / 32);
      REQUIRE(shape.block_bytes == 256);
      REQUIRE(shape.n_d2 == (type == DType::kQ4_K   ? n_in / 16
                             : type == DType::kQ4_1 ? n_in / 4
                                                    : 0));
      std::vector<int8_t> q(shape.bytes_of(shape.n_tiles), 77);
      std::vector<uint16_t> d(shape.scales_of(shape.n_tiles), 77);
      std::vector<uint32_t> d2(shape.d2_of(shape.n_tiles), 77);
      in_pieces(shape.n_tiles, [&](int begin, int end) {
        repack_int8(matrix, begin, end, q.data() + shape.bytes_of(begin),
                    d.data() + shape.scales_of(begin), d2.data() + shape.d2_of(begin));
      });
      bool right = true;
      for (int o = 0; o < shape.n_tiles * 16; ++o) {
        const bool exists = o < n_out;
        for (int k = 0; k < n_in; ++k) {
          const int b = k / 32, i = k % 32;
          const size_t block = size_t(o / 16) * shape.n_blocks + b;
          const size_t place = size_t(o % 8 * 2 + o % 16 / 8);
          int number = 0;
          uint32_t scale = 0, super = 0;
          if (exists && type == DType::kQ4_0) {
            const BlockQ4_0& from = q4_0[size_t(o) * (n_in / 32) + b];
            number = i < 16 ? from.q[i] % 16 : from.q[i - 16] / 16;
            scale = from.d;
          } else if (exists && type == DType::kQ4_1) {
            const BlockQ4_1& from = q4_1[size_t(o) * (n_in / 32) + b];
            number = i < 16 ? from.q[i] % 16 : from.q[i - 16] / 16;
            scale = from.d;
            super = from.m ^ 0x8000u;
          } else if (exists) {
            const BlockQ4_K& from = q4_k[size_t(o) * (n_in / 256) + b / 8];
            const uint8_t byte = from.q[b % 8 / 2 * 32 + i];
            number = b % 2 == 0 ? byte % 16 : byte / 16;
            const Q4KScale part = q4_k_scale(from, b % 8);
            scale = part.scale + 256u * part.min;
            super = from.d + 65536u * from.dmin;
          }
          right = right && nibble_at(&q[block * 256], o % 16, i) == number;
          right = right && d[block * 16 + place] == scale;
          if (type == DType::kQ4_0) continue;
          if (type == DType::kQ4_1) {
            if (!exists) super = 0x8000;  // -0
            right = right && (d2[block * 8 + o % 8] >> (o % 16 / 8 * 16) & 0xffff) == super;
            continue;
          }
          const size_t of_256 = size_t(o / 16) * (n_in / 256) + b / 8;
          right = right && d2[of_256 * 16 + place] == super;
        }
      }
      CHECK(right);
    }
  }
}

TEST_CASE("5-bit fragments: each number, scale and min at its place, zeros past the last output") {
  for (const DType type : {DType::kQ5_0, DType::kQ5_1, DType::kQ5_K}) {
    const int block_size = static_cast<int>(dtype_info(type)->block);
    for (const auto& sizes : {std::pair{1, 1}, {16, 2}, {40, 3}, {83, 5}}) {
      const int n_out = sizes.first, n_in = sizes.second * block_size;
      CAPTURE(dtype_info(type)->name);
      CAPTURE(n_out);
      TinyRandom random(n_out);
      std::vector<std::byte> bytes(size_t(n_out) * sizes.second * dtype_info(type)->bytes);
      for (std::byte& b : bytes) b = static_cast<std::byte>(random.next());
      const auto* q5_0 = reinterpret_cast<const BlockQ5_0*>(bytes.data());
      const auto* q5_1 = reinterpret_cast<const BlockQ5_1*>(bytes.data());
      const auto* q5_k = reinterpret_cast<const BlockQ5_K*>(bytes.data());
      const Matrix matrix{type, n_out, n_in, bytes.data()};
      const FragmentShape shape = int8_fragments(matrix);
      REQUIRE(shape.block_bytes == 320);
      REQUIRE(shape.n_d2 == (type == DType::kQ5_K   ? n_in / 16
                             : type == DType::kQ5_1 ? n_in / 4
                                                    : 0));
      std::vector<int8_t> q(shape.bytes_of(shape.n_tiles), 77);
      std::vector<uint16_t> d(shape.scales_of(shape.n_tiles), 77);
      std::vector<uint32_t> d2(shape.d2_of(shape.n_tiles), 77);
      in_pieces(shape.n_tiles, [&](int begin, int end) {
        repack_int8(matrix, begin, end, q.data() + shape.bytes_of(begin),
                    d.data() + shape.scales_of(begin), d2.data() + shape.d2_of(begin));
      });
      bool right = true;
      for (int o = 0; o < shape.n_tiles * 16; ++o) {
        for (int k = 0; k < n_in; ++k) {
          const int b = k / 32, i = k % 32;
          const size_t block = size_t(o / 16) * shape.n_blocks + b;
          const size_t place = size_t(o % 8 * 2 + o % 16 / 8);
          int number = 0;
          uint32_t scale = 0, more = type == DType::kQ5_1 ? 0x8000 : 0;  // -0
          if (o < n_out && type == DType::kQ5_K) {
            const BlockQ5_K& from = q5_k[size_t(o) * (n_in / 256) + b / 8];
            const uint8_t byte = from.q[b % 8 / 2 * 32 + i];
            number = (b % 2 == 0 ? byte % 16 : byte / 16) + (from.high[i] >> b % 8 & 1) * 16;
            const Q4KScale part = q4_k_scale(from.scales, b % 8);
            scale = part.scale + 256u * part.min;
            more = from.d + 65536u * from.dmin;
          } else if (o < n_out) {
            const size_t at = size_t(o) * (n_in / 32) + b;
            const bool has_min = type == DType::kQ5_1;
            const uint8_t* four = has_min ? q5_1[at].q : q5_0[at].q;
            const uint8_t* high = has_min ? q5_1[at].high : q5_0[at].high;
            number = (i < 16 ? four[i] % 16 : four[i - 16] / 16) + (high[i / 8] >> i % 8 & 1) * 16;
            scale = has_min ? q5_1[at].d : q5_0[at].d;
            if (has_min) more = q5_1[at].m ^ 0x8000u;
          }
          right = right && five_bits_at(&q[block * 320], o % 16, i) == number;
          right = right && d[block * 16 + place] == scale;
          if (type == DType::kQ5_1) {
            right = right && (d2[block * 8 + o % 8] >> (o % 16 / 8 * 16) & 0xffff) == more;
          } else if (type == DType::kQ5_K) {
            const size_t of_256 = size_t(o / 16) * (n_in / 256) + b / 8;
            right = right && d2[of_256 * 16 + place] == more;
          }
        }
      }
      CHECK(right);
    }
  }
}

TEST_CASE("6-bit fragments: each number and scale at its place, zeros past the last output") {
  for (const auto& sizes : {std::pair{1, 1}, {16, 2}, {40, 3}, {83, 5}}) {
    const int n_out = sizes.first, n_in = sizes.second * 256;
    CAPTURE(n_out);
    TinyRandom random(n_out);
    std::vector<std::byte> bytes(size_t(n_out) * sizes.second * sizeof(BlockQ6_K));
    for (std::byte& b : bytes) b = static_cast<std::byte>(random.next());
    const auto* source = reinterpret_cast<const BlockQ6_K*>(bytes.data());
    const Matrix matrix{DType::kQ6_K, n_out, n_in, bytes.data()};
    const FragmentShape shape = int8_fragments(matrix);
    REQUIRE(shape.n_tiles == tiles_of(n_out));
    REQUIRE(shape.n_blocks == n_in / 32);
    REQUIRE(shape.block_bytes == 384);
    REQUIRE(shape.n_d2 == n_in / 32);
    std::vector<int8_t> q(shape.bytes_of(shape.n_tiles), 77);
    std::vector<uint16_t> d(shape.scales_of(shape.n_tiles), 77);
    std::vector<uint32_t> d2(shape.d2_of(shape.n_tiles), 77);
    in_pieces(shape.n_tiles, [&](int begin, int end) {
      repack_int8(matrix, begin, end, q.data() + shape.bytes_of(begin),
                  d.data() + shape.scales_of(begin), d2.data() + shape.d2_of(begin));
    });
    bool right = true;
    for (int o = 0; o < shape.n_tiles * 16; ++o) {
      for (int k = 0; k < n_in; ++k) {
        const int b = k / 32, i = k % 32, part = b % 8;
        const size_t block = size_t(o / 16) * shape.n_blocks + b;
        int number = 32;
        uint32_t scales = 0, shared = 0;
        if (o < n_out) {
          const BlockQ6_K& from = source[size_t(o) * (n_in / 256) + b / 8];
          const int e = k % 256 % 128;  // of its half
          const int low = from.low[part / 4 * 64 + e % 64] >> (e < 64 ? 0 : 4) & 15;
          number = low | (from.high[part / 4 * 32 + e % 32] >> (e / 32 * 2) & 3) << 4;
          scales = uint8_t(from.scales[2 * part]) + 256u * uint8_t(from.scales[2 * part + 1]);
          shared = from.d;
        }
        right = right && six_bits_at(&q[block * 384], o % 16, i) == number;
        right = right && d[block * 16 + o % 8 * 2 + o % 16 / 8] == scales;
        const uint32_t both = d2[(size_t(o / 16) * (n_in / 256) + b / 8) * 8 + o % 8];
        right = right && (both >> (o % 16 / 8 * 16) & 0xffff) == shared;
      }
    }
    CHECK(right);
  }
}

TEST_CASE("FP16 fragments: every quantization is dequantized, value by value") {
  for (const DType type : {DType::kQ4_0, DType::kQ4_K, DType::kQ6_K, DType::kQ5_1, DType::kQ2_K}) {
    CAPTURE(dtype_info(type)->name);
    const int n_out = 19, n_in = 512;
    TinyRandom random(8);
    const std::vector<std::byte> source =
        tiny_blocks(type, size_t(n_out) * n_in, 1e-2f, [&] { return random.next(); });
    std::vector<float> values(size_t(n_out) * n_in);
    dequantize(source.data(), type, values.size(), values.data());
    std::vector<uint16_t> halves(values.size());
    std::transform(values.begin(), values.end(), halves.begin(), float_to_half);
    const Matrix f16{DType::kF16, n_out, n_in, reinterpret_cast<const std::byte*>(halves.data())};
    std::vector<uint16_t> found(half_fragments(f16).bytes_of(2) / 2), expected(found.size());
    CHECK(repack_half({type, n_out, n_in, source.data()}, 0, 2, found.data()) == 0);
    CHECK(repack_half(f16, 0, 2, expected.data()) == 0);
    CHECK(found == expected);
  }
}

TEST_CASE("FP16 fragments: each element at its place, zeros past the last output and past K") {
  for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const auto& sizes : {std::pair{1, 1}, {16, 32}, {40, 80}, {33, 301}}) {
      const int n_out = sizes.first, n_in = sizes.second;
      CAPTURE(n_out);
      TinyRandom random(n_out);
      const size_t n = size_t(n_out) * n_in;
      std::vector<float> values(n);
      std::vector<std::byte> source(n * (type == DType::kF32 ? 4 : 2));
      std::vector<uint16_t> expected(n);
      for (size_t i = 0; i < n; ++i) {
        values[i] = 1e-3f * random.normal();
        const uint16_t half = float_to_half(values[i]), bfloat = float_to_bfloat(values[i]);
        expected[i] = type == DType::kBF16 ? float_to_half(bfloat_to_float(bfloat)) : half;
        if (type == DType::kF32) std::memcpy(&source[4 * i], &values[i], 4);
        if (type == DType::kF16) std::memcpy(&source[2 * i], &half, 2);
        if (type == DType::kBF16) std::memcpy(&source[2 * i], &bfloat, 2);
      }
      const Matrix matrix{type, n_out, n_in, source.data()};
      const FragmentShape shape = half_fragments(matrix);
      REQUIRE(shape.n_tiles == tiles_of(n_out));
      REQUIRE(shape.n_blocks == (n_in + 31) / 32 * 2);
      std::vector<uint16_t> w(shape.bytes_of(shape.n_tiles) / 2, 77);
      in_pieces(shape.n_tiles, [&](int begin, int end) {
        CHECK(repack_half(matrix, begin, end, w.data() + shape.bytes_of(begin) / 2) == 0);
      });
      bool right = true;
      for (int o = 0; o < shape.n_tiles * 16; ++o) {
        for (int k = 0; k < shape.n_blocks * 16; ++k) {
          const size_t block = size_t(o / 16) * shape.n_blocks + k / 16;
          const bool inside = o < n_out && k < n_in;
          right = right && w[block * 256 + half_place(o % 16, k % 16)] ==
                               (inside ? expected[size_t(o) * n_in + k] : 0);
        }
      }
      CHECK(right);
    }
  }
}

TEST_CASE("FP16 fragments: Q8_0 is dequantized, value by value") {
  const int n_out = 19, n_in = 96;
  TinyRandom random(5);
  std::vector<BlockQ8_0> source(size_t(n_out) * n_in / 32);
  std::vector<uint16_t> values(size_t(n_out) * n_in);
  for (size_t b = 0; b < source.size(); ++b) {
    source[b].d = float_to_half(1e-3f * random.uniform());
    for (int k = 0; k < 32; ++k) {
      source[b].q[k] = static_cast<int8_t>(random.next());
      values[32 * b + k] = float_to_half(half_to_float(source[b].d) * float(source[b].q[k]));
    }
  }
  const Matrix q8_0{DType::kQ8_0, n_out, n_in, reinterpret_cast<const std::byte*>(source.data())};
  const Matrix f16{DType::kF16, n_out, n_in, reinterpret_cast<const std::byte*>(values.data())};
  const size_t n = half_fragments(q8_0).bytes_of(2) / 2;
  std::vector<uint16_t> found(n), expected(n);
  CHECK(repack_half(q8_0, 0, 2, found.data()) == 0);
  CHECK(repack_half(f16, 0, 2, expected.data()) == 0);
  CHECK(found == expected);

  source[1].d = float_to_half(60000.0f);
  for (int k = 0; k < 32; ++k) source[1].q[k] = k % 2;
  source[1].q[7] = -2;
  CHECK(repack_half(q8_0, 0, 2, found.data()) == 1);
}

TEST_CASE("FP16 fragments: weights too large for FP16 are counted, infinite ones are not") {
  std::vector<float> values(32, 1.0f);
  values[3] = 65520.0f;
  values[4] = -1e30f;
  values[5] = std::numeric_limits<float>::infinity();
  values[6] = std::numeric_limits<float>::quiet_NaN();
  values[7] = 65519.0f;
  std::vector<uint16_t> w(512);
  CHECK(repack_half({DType::kF32, 1, 32, reinterpret_cast<const std::byte*>(values.data())}, 0, 1,
                    w.data()) == 2);
}

}  // namespace fragments_test
