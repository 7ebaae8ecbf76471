// Each instruction of intrinsics.cuh against what it is said to do: the host meanings here, the
// instructions themselves where nvcc compiles this.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "float_formula.cuh"
#include "launch.cuh"
#include "numerics/half.h"
#include "simt/rig.h"

namespace specbound::kernels::intrinsics_test {
namespace {

using simt::DeviceBuffer;
using test::same_floats;

template <class Kernel, class Parameters>
void run(Kernel kernel, const char* name, int threads, const Parameters& parameters) {
  launch(kernel, name, {.blocks = {}, .threads = threads}, simt::stream(), parameters);
}

// ---- floats ----

struct Floats {
  const float *a, *b, *c;
  float *fused, *root, *even;
  uint16_t* half;
  int n;
};

__global__ void floats_kernel(Floats p) {
  for (int i = static_cast<int>(threadIdx.x); i < p.n; i += 64) {
    p.fused[i] = fused(p.a[i], p.b[i], p.c[i]);
    p.root[i] = square_root(p.a[i]);
    p.even[i] = round_even(p.c[i]);
    p.half[i] = half_bits(p.a[i]);
  }
}

TEST_CASE("intrinsics: fma, square root, rounding, FP16") {
  std::vector<float> a{0.0f,   -0.0f, 1e-45f,   65504.0f, 65519.9f, 65520.0f,
                       -1e30f, 5e-8f, 2.98e-8f, INFINITY, NAN,      1.00048828125f};
  std::mt19937 random(3);
  std::uniform_real_distribution<float> exponent(-30, 30), small(-200, 200);
  while (a.size() < 4000)
    a.push_back(std::ldexp(small(random), static_cast<int>(exponent(random))));
  std::vector<float> b(a.rbegin(), a.rend()), c(a.size());
  for (size_t i = 0; i < c.size(); ++i) {
    c[i] = i % 3 == 0 ? 0.5f + std::floor(small(random)) : small(random);
  }
  const size_t n = a.size();
  const DeviceBuffer<float> da(a), db(b), dc(c), product(n), root(n), even(n);
  const DeviceBuffer<uint16_t> half(n);
  run(floats_kernel, "floats", 64,
      Floats{da.data(), db.data(), dc.data(), product.data(), root.data(), even.data(), half.data(),
             static_cast<int>(n)});
  const auto products = product.read(), roots = root.read(), evens = even.read();
  const auto halves = half.read();
  for (size_t i = 0; i < n; ++i) {
    CAPTURE(a[i]);
    CHECK(same_floats(products[i], std::fma(a[i], b[i], c[i])));
    CHECK(same_floats(roots[i], std::sqrt(a[i])));
    CHECK(evens[i] == std::nearbyint(c[i]));
    CHECK(same_floats(half_to_float(halves[i]), half_to_float(float_to_half(a[i]))));
  }
}

struct Halves {
  float* out;  // (65536)
};

__global__ void halves_kernel(Halves p) {
  for (unsigned i = threadIdx.x; i < 65536; i += 256)
    p.out[i] = half_float(static_cast<uint16_t>(i));
}

TEST_CASE("intrinsics: every FP16 value as FP32") {
  const DeviceBuffer<float> out(65536);
  run(halves_kernel, "halves", 256, Halves{out.data()});
  const auto floats = out.read();
  for (size_t i = 0; i < floats.size(); ++i) {
    REQUIRE(same_floats(floats[i], half_to_float(static_cast<uint16_t>(i))));
  }
}

// ---- words ----

struct Words {
  const Word4* in;   // (64)
  Word4* out;        // (64)
  uint32_t* one;     // (64)
  int* zeros;        // (64)
  uint32_t* places;  // (64)
};

__global__ void words_kernel(Words p) {
  const unsigned i = threadIdx.x;
  const Word4 all = load_once(p.in + i);
  Word4 some{0, 0, 1000, 0};
  load_once_if(i % 3 == 0, p.in + i, some);
  p.out[i] = {all.x, all.y, some.z, some.w};
  uint32_t one = 2000;
  load_once_if(i % 5 == 0, &p.in[i].y, one);
  p.one[i] = one;
  p.zeros[i] = leading_zeros(i == 63 ? 0x80000000u : i);
  p.places[i] = last_places_of_byte(0x80ff017fu + i, static_cast<int>(i % 4));
}

TEST_CASE("intrinsics: loads, wanted and not; leading zeros; bytes") {
  std::vector<Word4> in(64);
  for (uint32_t i = 0; i < 64; ++i) in[i] = {i + 1, i + 2, i + 3, i + 4};
  const DeviceBuffer<Word4> from(in), to(64);
  const DeviceBuffer<uint32_t> one(64), places(64);
  const DeviceBuffer<int> zeros(64);
  run(words_kernel, "words", 64,
      Words{from.data(), to.data(), one.data(), zeros.data(), places.data()});
  const auto out = to.read();
  const auto ones = one.read();
  const auto counts = zeros.read();
  const auto bytes = places.read();
  for (uint32_t i = 0; i < 64; ++i) {
    const bool wanted = i % 3 == 0;
    CHECK(out[i].x == i + 1);
    CHECK(out[i].y == i + 2);
    CHECK(out[i].z == (wanted ? i + 3 : 1000));
    CHECK(out[i].w == (wanted ? i + 4 : 0));
    CHECK(ones[i] == (i % 5 == 0 ? i + 2 : 2000));
    CHECK(counts[i] == std::countl_zero(i == 63 ? 0x80000000u : i));
    CHECK(std::bit_cast<float>(bytes[i]) ==
          8388608.0f + ((0x80ff017fu + i) >> (8 * (i % 4)) & 255));
  }
}

// ---- warps ----

struct Lanes {
  uint32_t* out;  // (64, 4)
};

__global__ void lanes_kernel(Lanes p) {
  const uint32_t i = threadIdx.x;
  p.out[4 * i] = shuffle_xor(100 * i, 5);
  p.out[4 * i + 1] = static_cast<uint32_t>(shuffle(1000.5f * static_cast<float>(i), 9));
  p.out[4 * i + 2] =
      static_cast<uint32_t>(shuffle(uint64_t{i} << 33, static_cast<int>(i) + 1) >> 33);
  p.out[4 * i + 3] = ballot(i % 3 == 0);
}

TEST_CASE("intrinsics: shuffles and votes") {
  const auto out = simt::for_each_order([] {
    const DeviceBuffer<uint32_t> lanes(64 * 4);
    run(lanes_kernel, "lanes", 64, Lanes{lanes.data()});
    return lanes.read();
  });
  for (uint32_t i = 0; i < 64; ++i) {
    const uint32_t first = i / 32 * 32;
    uint32_t votes = 0;
    for (uint32_t lane = 0; lane < 32; ++lane) votes |= uint32_t{(first + lane) % 3 == 0} << lane;
    CHECK(out[4 * i] == 100 * (i ^ 5));
    CHECK(out[4 * i + 1] == static_cast<uint32_t>(1000.5f * static_cast<float>(first + 9)));
    CHECK(out[4 * i + 2] == first + (i + 1) % 32);
    CHECK(out[4 * i + 3] == votes);
  }
}

// ---- shared memory ----

struct Matrices {
  const Word4* in;  // (64): four matrices of 8 rows by 8 halves for each warp
  Word4* out;       // (64)
};

__global__ void matrices_kernel(Matrices p) {
  auto* rows = block_shared<Word4>();
  const int i = static_cast<int>(threadIdx.x), place = i ^ 3;
  copy_later(rows + place, p.in + i);
  wait_for_copies();
  __syncthreads();
  p.out[i] = load_transposed(rows + place);
}

TEST_CASE("intrinsics: copies to shared memory; matrices there, transposed") {
  std::vector<uint16_t> halves(64 * 8);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(1000 + i);
  std::vector<Word4> in(64);
  std::memcpy(in.data(), halves.data(), sizeof(Word4) * in.size());
  const auto out = simt::for_each_order([&] {
    const DeviceBuffer<Word4> from(in), to(64);
    launch(matrices_kernel, "matrices",
           {.blocks = {}, .threads = 64, .shared_bytes = 64 * sizeof(Word4)}, simt::stream(),
           Matrices{from.data(), to.data()});
    std::vector<uint32_t> words(64 * 4);
    const std::vector<Word4> found = to.read();
    std::memcpy(words.data(), found.data(), sizeof(Word4) * found.size());
    return words;
  });
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t warp = i / 128, lane = i / 4 % 32, matrix = i % 4, g = lane / 4, t = lane % 4;
    const auto half = [&](size_t row) {
      return uint32_t{halves[(32 * warp + 8 * matrix + row) * 8 + g]};
    };
    CHECK(out[i] == (half(2 * t) | half(2 * t + 1) << 16));
  }
}

// ---- tensor cores ----

struct Multiply {
  const Word4 *a8, *a16;  // (32)
  const Word2 *b8, *b16;  // (32)
  int32_t* sums;          // (32, 4)
  float* products;        // (32, 4)
};

__global__ void multiply_kernel(Multiply p) {
  const unsigned lane = threadIdx.x;
  int32_t sum[4];
  float product[4] = {1.0f, 2.0f, 3.0f, 4.0f};
  mma_16x8x32(sum, p.a8[lane], p.b8[lane], 5);
  mma_16x8x16(product, p.a16[lane], p.b16[lane]);
  for (int i = 0; i < 4; ++i) {
    p.sums[4 * lane + i] = sum[i];
    p.products[4 * lane + i] = product[i];
  }
}

TEST_CASE("intrinsics: matrix products, each operand where its lane has it") {
  std::mt19937 random(5);
  int8_t a8[16][32], b8[32][8];  // as matrices; FP16 takes their first 16 k
  for (auto& row : a8) {
    for (auto& x : row) x = static_cast<int8_t>(static_cast<int>(random() % 256) - 128);
  }
  for (auto& row : b8) {
    for (auto& x : row) x = static_cast<int8_t>(static_cast<int>(random() % 256) - 128);
  }
  // Four int8, or two halves, of row or column `at`.
  const auto word8 = [](const auto& value) {
    uint32_t word = 0;
    for (int i = 0; i < 4; ++i) word |= uint32_t{static_cast<uint8_t>(value(i))} << (8 * i);
    return word;
  };
  const auto word16 = [](const auto& value) {
    const auto half = [&](int i) { return uint32_t{float_to_half(static_cast<float>(value(i)))}; };
    return half(0) | half(1) << 16;
  };
  std::vector<Word4> wa8(32), wa16(32);
  std::vector<Word2> wb8(32), wb16(32);
  for (size_t lane = 0; lane < 32; ++lane) {
    const int g = static_cast<int>(lane) / 4, t = static_cast<int>(lane) % 4;
    const auto of_a = [&](int row, int k) { return [&, row, k](int i) { return a8[row][k + i]; }; };
    const auto of_b = [&](int k) { return [&, k, g](int i) { return b8[k + i][g]; }; };
    wa8[lane] = {word8(of_a(g, 4 * t)), word8(of_a(g + 8, 4 * t)), word8(of_a(g, 16 + 4 * t)),
                 word8(of_a(g + 8, 16 + 4 * t))};
    wb8[lane] = {word8(of_b(4 * t)), word8(of_b(16 + 4 * t))};
    wa16[lane] = {word16(of_a(g, 2 * t)), word16(of_a(g + 8, 2 * t)), word16(of_a(g, 8 + 2 * t)),
                  word16(of_a(g + 8, 8 + 2 * t))};
    wb16[lane] = {word16(of_b(2 * t)), word16(of_b(8 + 2 * t))};
  }
  const DeviceBuffer<Word4> da8(wa8), da16(wa16);
  const DeviceBuffer<Word2> db8(wb8), db16(wb16);
  const DeviceBuffer<int32_t> sums(128);
  const DeviceBuffer<float> products(128);
  run(multiply_kernel, "multiply", 32,
      Multiply{da8.data(), da16.data(), db8.data(), db16.data(), sums.data(), products.data()});
  const auto sum = sums.read();
  const auto product = products.read();
  for (int i = 0; i < 128; ++i) {
    const int lane = i / 4, row = lane / 4 + 8 * (i % 4 / 2), column = 2 * (lane % 4) + i % 2;
    int32_t expected[2] = {5, 1 + i % 4};
    for (int k = 0; k < 32; ++k) expected[0] += a8[row][k] * b8[k][column];
    for (int k = 0; k < 16; ++k) expected[1] += a8[row][k] * b8[k][column];
    CHECK(sum[static_cast<size_t>(i)] == expected[0]);
    CHECK(product[static_cast<size_t>(i)] == static_cast<float>(expected[1]));  // exact in FP32
  }
}

// ---- float_formula.cuh ----

struct Trees {
  const float* in;  // (64)
  float* out;       // (64, 2)
};

__global__ void trees_kernel(Trees p) {
  const unsigned i = threadIdx.x;
  p.out[2 * i] = sum_of_16(p.in[i]);
  p.out[2 * i + 1] = sum_of_32(p.in[i]);
}

float tree_sum(const float* x, int n) {
  return n == 1 ? x[0] : [&] {
    std::vector<float> half(static_cast<size_t>(n) / 2);
    for (int i = 0; i < n / 2; ++i) half[static_cast<size_t>(i)] = x[i] + x[i + n / 2];
    return tree_sum(half.data(), n / 2);
  }();
}

TEST_CASE("intrinsics: sums of lanes in the CPU's tree, the same in every lane") {
  std::mt19937 random(7);
  std::normal_distribution<float> value(0, 100);
  std::vector<float> in(64);
  for (float& x : in) x = value(random);
  const auto out = simt::for_each_order([&] {
    const DeviceBuffer<float> from(in), to(64 * 2);
    run(trees_kernel, "trees", 64, Trees{from.data(), to.data()});
    return to.read();
  });
  for (size_t i = 0; i < 64; ++i) {
    CHECK(out[2 * i] == tree_sum(&in[i / 16 * 16], 16));
    CHECK(out[2 * i + 1] == tree_sum(&in[i / 32 * 32], 32));
  }
}

// ---- kernels that overlap ----

#ifdef __CUDACC__
constexpr int kWriters = 512, kRounds = 1000;
#else
constexpr int kWriters = 2, kRounds = 3;
#endif
constexpr int kWords = 64, kThreads = 128;  // words of a thread

struct Written {
  uint32_t *words, *wrong;
  uint32_t round;
};
SPECBOUND_DEVICE size_t word_of(int i) {
  return (size_t{blockIdx.x} * kWords + static_cast<size_t>(i)) * kThreads + threadIdx.x;
}

__global__ void write_kernel(Written p) {
  let_next_start();  // long before it is done, in code that can
  for (int i = 0; i < kWords; ++i) p.words[word_of(i)] = p.round + static_cast<uint32_t>(i);
}
__global__ void compare_kernel(Written p) {
  wait_for_previous();
  for (int i = 0; i < kWords; ++i) {
    if (p.words[word_of(i)] != p.round + static_cast<uint32_t>(i)) *p.wrong = p.round;
  }
}

// Also where this is code of an older architecture, which cannot wait, on a newer card.
TEST_CASE("intrinsics: a kernel that may overlap sees what the one before it wrote") {
  const DeviceBuffer<uint32_t> words(size_t{kWriters} * kWords * kThreads);
  const DeviceBuffer<uint32_t> wrong(std::vector<uint32_t>{0});
  const LaunchShape alone{.blocks = {kWriters}, .threads = kThreads};
  LaunchShape overlapping = alone;
  overlapping.overlaps = true;
  for (uint32_t round = 1; round <= kRounds; ++round) {
    const Written p{words.data(), wrong.data(), round * 1000};
    launch(write_kernel, "write", alone, simt::stream(), p);
    launch(compare_kernel, "compare", overlapping, simt::stream(), p);
  }
  CHECK(wrong.read()[0] == 0);
}

}  // namespace
}  // namespace specbound::kernels::intrinsics_test
