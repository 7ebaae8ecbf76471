// Matrices in tiles: every type against int8_formula.h, bit for bit on each instruction set, in any
// company of rows, on any number of threads.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "emulated_vnni.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/linear.h"
#include "engine/cpu/thread_pool.h"
#include "engine_rig.h"
#include "int8_reference.h"
#include "model/codec.h"
#include "model/conversion.h"
#include "numerics/half.h"
#include "system/user_path.h"
#include "tiny_blocks.h"

namespace tiles_test {

using namespace specbound;
using namespace specbound::test;

namespace {

std::string name_of(DType type) {
  return dtype_info(type)->name;
}

// A matrix and its bytes.
struct Stored {
  std::vector<std::byte> bytes;
  Matrix matrix;

  Stored(DType type, int n_out, int n_in, std::vector<std::byte> blocks)
      : bytes(std::move(blocks)), matrix{type, n_out, n_in, bytes.data()} {}
  Stored(const Stored&) = delete;
};

Stored random_matrix(DType type, int n_out, int n_in) {
  TinyRandom random(n_in + 7 * n_out);
  return {type, n_out, n_in,
          tiny_blocks(type, size_t(n_out) * n_in, 1 / std::sqrt(static_cast<float>(n_in)),
                      [&] { return random.next(); })};
}

std::vector<float> random_rows(int n_rows, int n_in) {
  TinyRandom random(5);
  std::vector<float> x(size_t(n_rows) * n_in);
  for (float& v : x) v = random.normal();
  return x;
}

// What LinearStore makes of a matrix, and its products with rows.
class Product {
 public:
  Product(const Stored& stored, int threads, int unit = kTileOutputs, bool repack = true)
      : pool_(threads),
        store_(std::vector<PartitionedMatrix>{{stored.matrix, unit}}, repack, pool_, nullptr),
        linear_(store_.linear(stored.matrix)) {}

  // y (n_rows, n_out) = W x of the rows at x.
  std::vector<float> operator()(const Kernels& kernels, const float* x, int n_rows,
                                float add_to = 0) {
    const int n_in = linear_.in_place.n_in, n_out = linear_.n_out();
    RowBuffer buffer(n_rows, n_in);
    const Rows rows = buffer.rows(n_rows, n_in, x, n_in);
    for (int r = 0; r < n_rows; ++r) {
      kernels.quantize(x + size_t(r) * n_in, r, 0, n_in / 32, rows.quantized);
    }
    std::vector<float> y(size_t(n_rows) * n_out + 1, add_to != 0 ? add_to : -7.0f);
    pool_.run([&](int thread) {
      multiply(kernels, linear_, rows, {y.data(), n_out}, add_to != 0, thread, pool_.size());
    });
    CHECK(y.back() == (add_to != 0 ? add_to : -7.0f));  // nothing past the last output
    y.pop_back();
    return y;
  }
  std::string description() const { return store_.description(); }

 private:
  ThreadPool pool_;
  LinearStore store_;
  Linear linear_;
};

// Of every instruction set that this CPU has, and those of AVX-VNNI with it written out.
std::vector<const Kernels*> tested_kernels() {
  std::vector<const Kernels*> all;
  for (Isa isa : supported_isas()) all.push_back(&kernels_for(isa));
  if (const Kernels* emulated = emulated_vnni()) all.push_back(emulated);
  return all;
}

std::string name_of(const Kernels& kernels) {
  return std::string(isa_name(kernels.isa)) + (&kernels == emulated_vnni() ? ", emulated" : "");
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && same_bits(a.data(), b.data(), a.size());
}

// A Q8_0 matrix of the integers and scales of a Q4_0 or Q5_0 one.
Stored as_q8_0(const Matrix& m) {
  std::vector<std::byte> bytes;
  for (int row = 0; row < m.n_out; ++row) {
    for (int b = 0; b < m.n_in / 32; ++b) {
      const WeightBlock w = weight_block(m, row, b);
      BlockQ8_0 block{float_to_half(w.dw), {}};
      for (int i = 0; i < 32; ++i) block.q[i] = static_cast<int8_t>(w.w[i]);
      const auto* from = reinterpret_cast<const std::byte*>(&block);
      bytes.insert(bytes.end(), from, from + sizeof block);
    }
  }
  return {DType::kQ8_0, m.n_out, m.n_in, std::move(bytes)};
}

constexpr DType kForms[] = {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ4_K,
                            DType::kQ5_0, DType::kQ5_1, DType::kQ5_K, DType::kQ6_K};
constexpr DType kFormsAndConverted[] = {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1,
                                        DType::kQ4_K, DType::kQ5_0, DType::kQ5_1,
                                        DType::kQ5_K, DType::kQ6_K, DType::kQ3_K};

// Widths of 1, 2, 4 and 8 chunks. Those of types of 256 cut super-blocks: chunks of 20, 18 and 17
// blocks.
std::vector<int> widths(DType type) {
  if (dtype_info(type)->block == 256) return {256, 1280, 2304, 4352};
  return {32, 992, 1024, 2080, 4128};
}

}  // namespace

// Kept tiles are bytes of an earlier build: where these are others, kTileRevision is to go up and
// the digits here are those of the new ones.
TEST_CASE("the bytes of tiles are those of their revision") {
  const std::map<DType, std::string> digits = {
      {DType::kQ8_0, "b4f095513da304da"}, {DType::kQ4_0, "10a91f93ccc96b6d"},
      {DType::kQ4_1, "713239e0331a6131"}, {DType::kQ4_K, "76d491a790e53e84"},
      {DType::kQ5_0, "6c4bba9794213bd7"}, {DType::kQ5_1, "464895f8d52db8b4"},
      {DType::kQ5_K, "04b4bc5ff0a55671"}, {DType::kQ6_K, "8a5cda70689da0f0"},
      {DType::kQ3_K, "c7bcab405eac622f"}};
  CHECK(kTileRevision == 1);
  for (const DType type : kFormsAndConverted) {
    const Stored stored = random_matrix(type, 37, 512);
    const TileMatrix tiles{*runs_as(type), 35, 512, nullptr, nullptr};
    std::string bytes(tiles.q_bytes() + tiles.d_count() * sizeof(uint16_t), '\0');
    std::vector<uint16_t> d(tiles.d_count());
    repack_tiles(stored.matrix, 2, tiles, reinterpret_cast<uint8_t*>(bytes.data()), d.data());
    std::memcpy(bytes.data() + tiles.q_bytes(), d.data(), d.size() * sizeof(uint16_t));
    INFO(name_of(type));
    CHECK(name_digits(bytes) == digits.at(type));
  }
}

TEST_CASE("products with tiles equal the written formula") {
  const int n_rows = 19;
  for (DType type : kForms) {
    CAPTURE(name_of(type));
    for (int n_in : widths(type)) {
      CAPTURE(n_in);
      for (int n_out : {16, 33}) {
        const Stored stored = random_matrix(type, n_out, n_in);
        const std::vector<float> x = random_rows(n_rows, n_in);
        const std::vector<float> expected = formula(stored.matrix, x, n_rows);
        std::vector<float> onto = expected;
        for (float& y : onto) y = 0.5f + y;
        for (const Kernels* kernels : tested_kernels()) {
          CAPTURE(name_of(*kernels));
          Product product(stored, 1);
          CHECK(same(product(*kernels, x.data(), n_rows), expected));
          CHECK(same(product(*kernels, x.data(), n_rows, 0.5f), onto));
          if (type == DType::kQ8_0) {
            Product in_place(stored, 1, kTileOutputs, false);
            CHECK(same(in_place(*kernels, x.data(), n_rows), expected));
          }
        }
      }
    }
  }
}

TEST_CASE("a row's product does not know of its neighbours, threads or units") {
  const int n_in = 1280, n_out = 75;
  for (DType type : kFormsAndConverted) {
    CAPTURE(name_of(type));
    const Stored stored = random_matrix(type, n_out, n_in);
    const std::vector<float> x = random_rows(kMaxRows, n_in);
    const std::vector<float> expected =
        Product(stored, 1)(kernels_for(Isa::kPortable), x.data(), kMaxRows);
    for (int threads : {1, 2, 5}) {
      Product product(stored, threads, threads == 2 ? 32 : kTileOutputs);
      for (const Kernels* kernels : tested_kernels()) {
        CAPTURE(name_of(*kernels));
        for (int n_rows = 1; n_rows <= kMaxRows; ++n_rows) {
          const int first = (3 * n_rows) % (kMaxRows - n_rows + 1);
          CAPTURE(n_rows);
          const std::vector<float> y = product(*kernels, &x[size_t(first) * n_in], n_rows);
          REQUIRE(same_bits(y.data(), &expected[size_t(first) * n_out], y.size()));
        }
      }
    }
  }
}

TEST_CASE("Q4_0 and Q5_0 tiles give the bits of Q8_0 tiles with the same integers and scales") {
  for (DType type : {DType::kQ4_0, DType::kQ5_0}) {
    for (int n_in : widths(type)) {
      CAPTURE(n_in);
      const Stored packed = random_matrix(type, 37, n_in);
      const Stored eight = as_q8_0(packed.matrix);
      const std::vector<float> x = random_rows(9, n_in);
      for (const Kernels* kernels : tested_kernels()) {
        CAPTURE(name_of(*kernels));
        Product product(packed, 1), other(eight, 1);
        CHECK(same(product(*kernels, x.data(), 9), other(*kernels, x.data(), 9)));
      }
    }
  }
}

TEST_CASE("the largest sums are exact") {
  for (DType type : kForms) {
    CAPTURE(name_of(type));
    const int n_in = 256, n_rows = 5;
    Stored stored = random_matrix(type, 16, n_in);
    const size_t block = dtype_info(type)->bytes;
    for (size_t at = 0; at < stored.bytes.size(); at += block) {  // FP16 scales stay
      const bool parts = form_has_parts(type), mins = form_has_mins(type);
      const size_t first = type == DType::kQ6_K ? 0 : parts ? 16 : mins ? 4 : 2;
      const size_t n = type == DType::kQ6_K ? 192 : block - first;
      const int numbers =
          type == DType::kQ8_0 ? (at / block % 2 ? 0x80 : 0x7f) : (at / block % 2 ? 0xff : 0);
      std::memset(&stored.bytes[at + first], numbers, n);
      if (type != DType::kQ6_K) continue;
      for (size_t i = 0; i < 16; ++i) {  // all of one sign, or of both
        stored.bytes[at + n + i] = at / block % 4 < 2 || i % 2 ? std::byte{0x80} : std::byte{0x7f};
      }
    }
    for (float sign : {1.0f, -1.0f}) {
      const std::vector<float> x(size_t(n_rows) * n_in, sign);
      const std::vector<float> expected = formula(stored.matrix, x, n_rows);
      for (const Kernels* kernels : tested_kernels()) {
        CHECK(same(Product(stored, 1)(*kernels, x.data(), n_rows), expected));
      }
    }
  }
}

TEST_CASE("hostile scales and rows: infinite, NaN, subnormal, the largest") {
  const int n_in = 512, n_out = 33, n_rows = 5;
  constexpr uint16_t kHostile[] = {0x7c00, 0xfc00, 0x7e00, 0x0001, 0x83ff, 0x7bff, 0x0000, 0x8000};
  for (DType type : kForms) {
    CAPTURE(name_of(type));
    Stored stored = random_matrix(type, n_out, n_in);
    const size_t block = dtype_info(type)->bytes;
    const TinyScales& scales = tiny_scales(type);
    const size_t row_blocks = stored.bytes.size() / n_out / block;
    for (size_t o = 0; o < n_out; o += 2) {
      std::byte* at = &stored.bytes[(o * row_blocks + o / 2 % row_blocks) * block];
      std::memcpy(at + scales.d, &kHostile[o / 2 % 8], 2);
      if (scales.min >= 0) std::memcpy(at + scales.min, &kHostile[(o / 2 + o / 16) % 8], 2);
    }
    std::vector<float> x = random_rows(n_rows, n_in);
    for (int k = 0; k < 64; ++k) x[k] = 3e38f;             // row 0: products overflow
    for (int k = 0; k < n_in; ++k) x[n_in + k] *= 1e-37f;  // row 1: subnormal scales
    std::fill_n(&x[size_t(2) * n_in], n_in, 0.0f);         // row 2: nothing
    const std::vector<float> expected = formula(stored.matrix, x, n_rows);
    size_t nans = 0, finite = 0;
    for (const Kernels* kernels : tested_kernels()) {
      CAPTURE(name_of(*kernels));
      const std::vector<float> y = Product(stored, 1)(*kernels, x.data(), n_rows);
      for (size_t i = 0; i < y.size(); ++i) {
        const bool both_nan = std::isnan(y[i]) && std::isnan(expected[i]);
        REQUIRE((both_nan || same_bits(&y[i], &expected[i], 1)));
        nans += both_nan;
        finite += std::isfinite(y[i]);
      }
    }
    CHECK(nans > 0);
    CHECK(finite > 0);
  }
}

TEST_CASE("converted types run as the Q8_0 matrix that conversion.h makes of them") {
  for (DType type : {DType::kQ2_K, DType::kQ3_K, DType::kIQ4_NL}) {
    CAPTURE(name_of(type));
    const int n_out = 37, n_in = 512, n_rows = 3;
    const Stored stored = random_matrix(type, n_out, n_in);
    std::vector<std::byte> blocks(size_t(n_out) * n_in / 32 * sizeof(BlockQ8_0));
    for (int row = 0; row < n_out; ++row) {
      CHECK(convert_to_int8(stored.matrix, row,
                            reinterpret_cast<BlockQ8_0*>(blocks.data()) + row * n_in / 32) == 0);
    }
    const Stored converted(DType::kQ8_0, n_out, n_in, std::move(blocks));
    const std::vector<float> x = random_rows(n_rows, n_in);
    for (bool repack : {true, false}) {  // Q8_0 alone can stay in place
      Product product(stored, 2, kTileOutputs, repack), other(converted, 1, kTileOutputs, repack);
      CHECK(product.description() == name_of(type) + " as INT8 tiles");
      const Kernels& best = kernels_for(best_isa());
      CHECK(same(product(best, x.data(), n_rows), other(best, x.data(), n_rows)));
    }
    std::vector<float> row(n_in), expected(n_in);
    read_row(stored.matrix, 5, row.data());
    dequantize(stored.bytes.data() + 5 * (stored.bytes.size() / n_out), type, n_in,
               expected.data());
    CHECK(same(row, expected));
  }
}

TEST_CASE("outputs repacked one by one, in any order, are those repacked at once") {
  for (DType type : kFormsAndConverted) {
    CAPTURE(name_of(type));
    const int n_in = 512, n_out = 37;
    const Stored stored = random_matrix(type, 2 * n_out, n_in);
    std::vector<int32_t> rows(n_out);
    for (int o = 0; o < n_out; ++o) rows[o] = (o * 31 + 5) % (2 * n_out);
    std::vector<std::byte> bytes(stored.bytes.size());
    const Matrix gathered = gathered_rows(stored.matrix, rows, bytes.data());
    const TileMatrix tiles{*runs_as(type), n_out, n_in, nullptr, nullptr};
    std::vector<uint8_t> q(tiles.q_bytes()), expected_q(q.size());
    std::vector<uint16_t> d(tiles.d_count()), expected_d(d.size());
    repack_tiles(gathered, 0, tiles, expected_q.data(), expected_d.data());
    repack_tiles(gathered, 0, tiles, q.data(), d.data());  // what lies past the last output
    for (int o = 0; o < n_out; ++o) repack_output(stored.matrix, 3, tiles, o, q.data(), d.data());
    CHECK(q != expected_q);
    for (int i = 0; i < n_out; ++i) {
      const int o = (i * 17 + 4) % n_out;
      repack_output(stored.matrix, rows[o], tiles, o, q.data(), d.data());
    }
    CHECK(q == expected_q);
    CHECK(d == expected_d);
  }
}

TEST_CASE("what a store of several types says, takes and tells of its progress") {
  const Stored q8(DType::kQ8_0, 40, 256,
                  tiny_blocks(DType::kQ8_0, 40 * 256, 1, [] { return uint64_t{1} << 62; }));
  const Stored four = random_matrix(DType::kQ4_0, 17, 32),
               super = random_matrix(DType::kQ4_K, 33, 512);
  const Stored six = random_matrix(DType::kQ6_K, 16, 256),
               three = random_matrix(DType::kQ3_K, 16, 256);
  const std::vector<std::byte> halves(2 * 8 * 24);
  const Matrix f16{DType::kF16, 8, 24, halves.data()};
  const std::vector<PartitionedMatrix> all = {{q8.matrix},  {four.matrix},  {super.matrix},
                                              {six.matrix}, {three.matrix}, {f16}};

  const size_t of_q8 = 3 * 8 * (512 + 32), of_four = 2 * (256 + 32),
               of_super = 3 * (16 * 256 + 2 * 320), of_six = 16 * 210, of_three = 8 * (512 + 32);
  CHECK(LinearStore::bytes_needed(all, true) == of_q8 + of_four + of_super + of_six + of_three);
  CHECK(LinearStore::bytes_needed(all, false) == of_four + of_super + of_six + of_three);

  for (bool repack : {true, false}) {
    ThreadPool pool(2);
    std::vector<size_t> done;
    size_t total = 0;
    const LinearStore store(all, repack, pool, [&](size_t at, size_t of) {
      done.push_back(at);
      total = of;
    });
    const std::string where = repack ? "tiles" : "place";
    CHECK(store.description() ==
          "F16 in place, Q3_K as INT8 tiles, Q4_0 in 4-bit tiles, Q4_K in 4-bit tiles, "
          "Q6_K in 6-bit tiles, Q8_0 in " +
              where);
    const size_t rest =
        four.bytes.size() + super.bytes.size() + six.bytes.size() + three.bytes.size();
    CHECK(total == rest + (repack ? q8.bytes.size() : 0));
    CHECK(done.size() == (repack ? 5u : 4u));
    CHECK(done.back() == total);
    CHECK((store.linear(q8.matrix).tiles != nullptr) == repack);
    CHECK(store.linear(f16).tiles == nullptr);
    for (const Stored* stored : {&four, &super, &six, &three}) {
      CHECK(store.linear(stored->matrix).tiles != nullptr);
      CHECK(store.linear(stored->matrix).int8());
    }
    CHECK(!store.linear(f16).int8());
  }
}

TEST_CASE("a conversion that would lose weights is refused by name") {
  Stored stored = random_matrix(DType::kQ3_K, 20, 256);
  const uint16_t largest = 0x7bff;
  std::byte* block = stored.bytes.data() + 19 * 110;
  std::memset(block, 0, 108);  // every number is -4, every scale -32
  std::memcpy(block + 108, &largest, 2);
  for (int threads : {1, 2}) {
    ThreadPool pool(threads);
    try {
      const LinearStore store(std::vector<PartitionedMatrix>{{stored.matrix}}, true, pool, nullptr);
      FAIL("expected an Error");
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::kUnsupported);
      CHECK(std::string(e.what()).find("Q3_K") != std::string::npos);
      CHECK(std::string(e.what()).find("256") != std::string::npos);
    }
  }
}

}  // namespace tiles_test
