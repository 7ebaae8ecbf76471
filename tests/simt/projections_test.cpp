// INT8 projections and what follows them: the CPU backend's bits for every shape, row count and
// slot.
#include "projections.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "int8_rig.h"

namespace projections_test {

using namespace specbound;
using namespace specbound::test;
using kernels::Pass;
using simt::DeviceBuffer;

namespace {

constexpr float kUntouched = -7;

// Row r of the result is row order[r] of x (n, n_in).
std::vector<float> picked(const std::vector<float>& x, const std::vector<int>& order, int n) {
  std::vector<float> out;
  for (int r : order)
    out.insert(out.end(), x.begin() + ptrdiff_t(r) * n, x.begin() + ptrdiff_t(r + 1) * n);
  return out;
}

// Of so many rows those that an engine takes kernels for, where nothing else is asked for.
int most_rows(int n_rows, int asked) {
  if (asked > 0) return asked;
  return n_rows <= kernels::kPanelRows ? kernels::kPanelRows : kernels::kMaxDecodeRows;
}

// (n_rows, ld) with kUntouched after the outputs of each row and in one row more.
std::vector<float> project(const std::vector<const Int8Matrix*>& parts, const std::vector<float>& x,
                           int n_rows, int ld, int max_rows = 0) {
  const int n_in = parts[0]->n_in;
  const DeviceBuffer<Pass> pass = pass_of(n_rows);
  const DeviceRows rows(x, n_rows, n_in);
  const DeviceBuffer<float> y(std::vector<float>(size_t(n_rows + 1) * ld, kUntouched));
  kernels::Project p{};
  p.pass = pass.data();
  p.x = rows.rows();
  for (const Int8Matrix* part : parts) p.parts[p.n_parts++] = part->tiles();
  p.y = y.data();
  p.ld = ld;
  p.max_rows = most_rows(n_rows, max_rows);
  kernels::project(p, simt::stream());
  return y.read();
}

std::vector<float> project_on_cpu(const Kernels& cpu, const std::vector<const Int8Matrix*>& parts,
                                  const std::vector<float>& x, int n_rows, int ld) {
  std::vector<float> y(size_t(n_rows + 1) * ld, kUntouched);
  int first = 0;
  for (const Int8Matrix* part : parts) {
    const std::vector<float> own = part->times(cpu, x, n_rows);
    for (int r = 0; r < n_rows; ++r) {
      std::copy_n(&own[size_t(r) * part->n_out], part->n_out, &y[size_t(r) * ld + first]);
    }
    first += part->n_out;
  }
  return y;
}

void check_project(const std::vector<const Int8Matrix*>& parts, const std::vector<float>& x,
                   int n_rows, int ld) {
  CAPTURE(n_rows);
  const std::vector<float> found =
      simt::for_each_order([&] { return one_nan(project(parts, x, n_rows, ld)); });
  for (Isa isa : two_isas()) {
    CAPTURE(isa_name(isa));
    CHECK(same_floats(found, project_on_cpu(kernels_for(isa), parts, x, n_rows, ld)));
  }
}

std::vector<float> residual(const Int8Matrix& w, const std::vector<float>& x,
                            const std::vector<float>& bias, std::vector<float> h, int n_rows,
                            int max_rows = 0) {
  const DeviceBuffer<Pass> pass = pass_of(n_rows);
  const DeviceRows rows(x, n_rows, w.n_in);
  const DeviceBuffer<float> device_bias(bias), device_h(h);
  device_h.from_kernel();
  kernels::project_residual(
      {pass.data(), rows.rows(), w.tiles(), bias.empty() ? nullptr : device_bias.data(),
       device_h.data(), most_rows(n_rows, max_rows)},
      simt::stream());
  return device_h.read();
}

QuantizedRows gate_up(const Int8Matrix& gate, const Int8Matrix& up, const std::vector<float>& x,
                      int n_rows, int max_rows = 0) {
  const DeviceBuffer<Pass> pass = pass_of(n_rows);
  const int n_in = gate.n_in;
  const DeviceRows rows(x, n_rows, n_in);
  const DeviceRows out(n_rows, gate.n_out);
  kernels::gate_up({pass.data(), rows.rows(), gate.tiles(), up.tiles(), out.rows(),
                    Activation::kSilu, most_rows(n_rows, max_rows)},
                   simt::stream());
  return out.read(n_rows);
}

QuantizedRows gate_up_on_cpu(const Kernels& cpu, const Int8Matrix& gate, const Int8Matrix& up,
                             const std::vector<float>& x, int n_rows) {
  std::vector<float> g = gate.times(cpu, x, n_rows);
  const std::vector<float> u = up.times(cpu, x, n_rows);
  cpu.silu_mul(g.data(), u.data(), static_cast<int>(g.size()));
  return quantized(cpu, g, gate.n_out, n_rows, gate.n_out);
}

// Rows of H, one of which is normed and multiplied.
struct Hidden {
  static constexpr float kEps = 1e-5f;
  int slot;
  std::vector<float> h, weight;

  Hidden(int slot, int n, uint64_t seed)
      : slot(slot), h(odd_rows(slot + 2, n, seed)), weight(random_floats(n, seed + 1, 0.3f, 1)) {}

  // norm(H[slot]) * weight
  std::vector<float> normed(const Kernels& cpu) const {
    const int n = static_cast<int>(weight.size());
    std::vector<float> x = some_rows(h, n, slot, 1);
    cpu.rmsnorm(x.data(), weight.data(), kEps, n, x.data());
    return x;
  }
};

// The row as kernels that norm it take it.
struct DeviceHidden {
  int n;
  DeviceBuffer<Pass> pass;
  DeviceBuffer<float> h, weight;

  explicit DeviceHidden(const Hidden& row)
      : n(static_cast<int>(row.weight.size())),
        pass(std::vector<Pass>{{1, 3, row.slot}}),
        h(row.h),
        weight(row.weight) {
    h.from_kernel();
  }
  kernels::NormedRow row() const { return {n, h.data(), weight.data(), Hidden::kEps}; }
};

// (2, ld) as project() leaves it.
std::vector<float> project_normed(const std::vector<const Int8Matrix*>& parts, const Hidden& row,
                                  int ld) {
  const DeviceHidden hidden(row);
  const DeviceBuffer<float> y(std::vector<float>(size_t(2) * ld, kUntouched));
  kernels::ProjectNormed p{};
  p.pass = hidden.pass.data();
  p.x = hidden.row();
  for (const Int8Matrix* part : parts) p.parts[p.n_parts++] = part->tiles();
  p.y = y.data();
  p.ld = ld;
  kernels::project_normed(p, simt::stream());
  return y.read();
}

void check_normed(const std::vector<const Int8Matrix*>& parts, const Hidden& row, int ld) {
  CAPTURE(row.slot);
  const std::vector<float> found =
      simt::for_each_order([&] { return one_nan(project_normed(parts, row, ld)); });
  for (Isa isa : two_isas()) {
    const Kernels& cpu = kernels_for(isa);
    CHECK(same_floats(found, project_on_cpu(cpu, parts, row.normed(cpu), 1, ld)));
  }
}

QuantizedRows gate_up_normed(const Int8Matrix& gate, const Int8Matrix& up, const Hidden& row) {
  const DeviceHidden hidden(row);
  const DeviceRows out(1, gate.n_out);
  kernels::gate_up_normed(
      {hidden.pass.data(), hidden.row(), gate.tiles(), up.tiles(), out.rows(), Activation::kSilu},
      simt::stream());
  return out.read(1);
}

}  // namespace

TEST_CASE("a projection gives the CPU's bits: every number of chunks, outputs of any number") {
  struct Case {
    int n_in, n_out;
  };
  // 1, 1, 1, 2, 2, 4, 8 and 8 chunks; whole blocks of units, tiles and outputs left over.
  for (const Case& c : {Case{32, 1}, Case{32, 301}, Case{64, 40}, Case{1024, 33}, Case{1056, 145},
                        Case{2080, 80}, Case{4096, 32}, Case{4128, 17}}) {
    const int n_in = c.n_in, n_out = c.n_out;
    CAPTURE(n_in);
    CAPTURE(n_out);
    const Int8Matrix w(n_out, n_in, n_in + n_out);
    const std::vector<float> x = odd_rows(16, n_in, 11);
    for (int n_rows : {1, 8, 9, 16}) check_project({&w}, x, n_rows, n_out + 3);
  }
}

TEST_CASE("a projection of packed weights gives the CPU's bits, chunks ending inside 256 k too") {
  struct Case {
    DType type;
    int n_in, n_out;
  };
  // 1, 2, 4 and 8 chunks of each; of Q4_K and Q6_K 20, 18 and 17 blocks a chunk: they begin inside
  // 256 k.
  for (const Case& c :
       {Case{DType::kQ4_0, 32, 1},    Case{DType::kQ4_0, 96, 40},   Case{DType::kQ4_0, 1056, 49},
        Case{DType::kQ4_0, 2080, 33}, Case{DType::kQ4_0, 4128, 17}, Case{DType::kQ4_1, 32, 1},
        Case{DType::kQ4_1, 96, 40},   Case{DType::kQ4_1, 1056, 49}, Case{DType::kQ4_1, 4128, 17},
        Case{DType::kQ4_K, 256, 15},  Case{DType::kQ4_K, 512, 70},  Case{DType::kQ4_K, 1280, 33},
        Case{DType::kQ4_K, 2304, 49}, Case{DType::kQ4_K, 4352, 17}, Case{DType::kQ6_K, 256, 15},
        Case{DType::kQ6_K, 512, 70},  Case{DType::kQ6_K, 1280, 33}, Case{DType::kQ6_K, 2304, 49},
        Case{DType::kQ6_K, 4352, 17}, Case{DType::kQ5_0, 32, 1},    Case{DType::kQ5_0, 1056, 49},
        Case{DType::kQ5_0, 4128, 17}, Case{DType::kQ5_1, 96, 40},   Case{DType::kQ5_1, 4128, 17},
        Case{DType::kQ5_K, 256, 15},  Case{DType::kQ5_K, 1280, 33}, Case{DType::kQ5_K, 4352, 17}}) {
    const int n_in = c.n_in, n_out = c.n_out;
    CAPTURE(dtype_info(c.type)->name);
    CAPTURE(n_in);
    CAPTURE(n_out);
    const Int8Matrix w(n_out, n_in, n_in + n_out, 1e-3f, c.type);
    const std::vector<float> x = odd_rows(16, n_in, 51);
    for (int n_rows : {1, 8, 9}) check_project({&w}, x, n_rows, n_out + 3);
  }
}

TEST_CASE("a projection of packed weights of every number of rows") {
  for (DType type : kPackedForms) {
    CAPTURE(dtype_info(type)->name);
    const Int8Matrix w(50, 1280, 2, 1e-3f, type);
    const std::vector<float> x = odd_rows(16, 1280, 52);
    for (int n_rows = 1; n_rows <= 16; ++n_rows) check_project({&w}, x, n_rows, 50);
  }
}

// Of an output every 16th d or dmin, of 17 in a row: infinities stay what they are, and where they
// are before a chunk that begins inside their 256 k nothing comes of them.
TEST_CASE("a projection of Q4_K with scales that are not finite") {
  constexpr uint16_t kInfinite = 0x7c00, kNot = 0x7e00;
  const int n_in = 4352, n_out = 40;
  std::vector<std::byte> bytes =
      tiny_blocks(DType::kQ4_K, size_t(n_out) * n_in, 0.1f, std::mt19937_64(5));
  auto* blocks = reinterpret_cast<BlockQ4_K*>(bytes.data());
  for (size_t i = 0; i < bytes.size() / sizeof(BlockQ4_K); i += 16) {
    (i % 3 == 0 ? blocks[i].dmin : blocks[i].d) = i % 5 == 0 ? kNot : kInfinite;
  }
  const Int8Matrix w(n_out, n_in, DType::kQ4_K, bytes);
  std::vector<float> x = random_floats(16 * n_in, 54);
  for (float& v : x) v = std::fabs(v);  // an infinity of one sign
  const std::vector<float> y = project({&w}, x, 1, n_out);
  CHECK(std::count_if(y.begin(), y.end(), [](float v) { return std::isinf(v); }) > 0);
  for (int n_rows : {1, 8, 9}) check_project({&w}, x, n_rows, n_out);
}

TEST_CASE("q, k and v of three types side by side") {
  const int n_in = 1280;
  const std::vector<float> x = odd_rows(10, n_in, 53);
  const Int8Matrix q(80, n_in, 1, 1e-3f, DType::kQ4_K), k(40, n_in, 2, 1e-3f, DType::kQ4_0),
      v(40, n_in, 3);
  check_project({&q, &k, &v}, x, 10, 160);
  check_project({&v, &q, &k}, x, 3, 160);
}

TEST_CASE("a projection of every number of rows") {
  const Int8Matrix w(50, 1024, 2);
  const std::vector<float> x = odd_rows(16, 1024, 12);
  for (int n_rows = 1; n_rows <= 16; ++n_rows) check_project({&w}, x, n_rows, 50);
}

TEST_CASE("q, k and v side by side: heads of 80, one of them, fewer outputs than a tile") {
  for (int n_in : {64, 1056, 4096}) {
    CAPTURE(n_in);
    const std::vector<float> x = odd_rows(10, n_in, 13);
    for (const auto& sizes : {std::pair{80, 80}, {240, 80}, {8, 8}}) {
      const int q_dim = sizes.first, kv_dim = sizes.second;
      CAPTURE(q_dim);
      const Int8Matrix q(q_dim, n_in, 1), k(kv_dim, n_in, 2), v(kv_dim, n_in, 3);
      check_project({&q, &k, &v}, x, 10, q_dim + 2 * kv_dim);
      check_project({&k, &v}, x, 3, q_dim + 2 * kv_dim);
    }
  }
}

TEST_CASE("a row's projection does not depend on its slot nor on the rows around it") {
  for (int n_in : {96, 4160}) {
    CAPTURE(n_in);
    constexpr int kOut = 70;
    const Int8Matrix w(kOut, n_in, 21);
    const std::vector<float> x = odd_rows(16, n_in, 22);
    std::vector<std::vector<float>> alone;
    for (int r = 0; r < 16; ++r) {
      alone.push_back(one_nan(project({&w}, picked(x, {r}, n_in), 1, kOut)));
      alone.back().resize(kOut);
    }
    for (int shift = 0; shift < 16; ++shift) {
      for (int n_rows : {3, 16}) {
        std::vector<int> order;
        for (int r = 0; r < n_rows; ++r) order.push_back((r + shift) % 16);
        const std::vector<float> y = one_nan(project({&w}, picked(x, order, n_in), n_rows, kOut));
        for (int r = 0; r < n_rows; ++r) {
          CHECK(std::memcmp(&y[size_t(r) * kOut], alone[order[r]].data(), kOut * 4) == 0);
        }
      }
    }
  }
}

TEST_CASE("the residual is added as the CPU adds it: W x first, then the bias") {
  for (const auto& sizes : {std::pair{32, 96}, {1024, 33}, {2048, 64}, {4128, 20}}) {
    const int n_in = sizes.first, dim = sizes.second;
    CAPTURE(n_in);
    const Int8Matrix w(dim, n_in, 31);
    const std::vector<float> x = odd_rows(16, n_in, 32), bias = random_floats(dim, 33, 30);
    for (int n_rows : {1, 8, 13}) {
      for (bool with_bias : {false, true}) {
        const std::vector<float> h = random_floats(size_t(n_rows + 1) * dim, 34, 10);
        const std::vector<float> found = simt::for_each_order([&] {
          return one_nan(residual(w, x, with_bias ? bias : std::vector<float>{}, h, n_rows));
        });
        for (Isa isa : two_isas()) {
          std::vector<float> expected = h;
          w.add_times(kernels_for(isa), x, n_rows, expected);
          for (int i = 0; with_bias && i < n_rows * dim; ++i) expected[i] += bias[i % dim];
          CHECK(same_floats(found, expected));
        }
      }
    }
  }
}

TEST_CASE("the residual of packed weights is added as the CPU adds it") {
  for (DType type : kPackedForms) {
    CAPTURE(dtype_info(type)->name);
    const int n_in = 1280, dim = 33;
    const Int8Matrix w(dim, n_in, 61, 1e-3f, type);
    const std::vector<float> x = odd_rows(16, n_in, 62), bias = random_floats(dim, 63, 30);
    for (int n_rows : {2, 13}) {
      const std::vector<float> h = random_floats(size_t(n_rows + 1) * dim, 64, 10);
      const std::vector<float> found =
          simt::for_each_order([&] { return one_nan(residual(w, x, bias, h, n_rows)); });
      std::vector<float> expected = h;
      w.add_times(cpu(), x, n_rows, expected);
      for (int i = 0; i < n_rows * dim; ++i) expected[i] += bias[i % dim];
      CHECK(same_floats(found, expected));
    }
  }
}

TEST_CASE("gate and up packed, or of different types, end as the CPU's quantized rows") {
  constexpr DType kQ8_0 = DType::kQ8_0, kQ4_0 = DType::kQ4_0, kQ4_K = DType::kQ4_K;
  for (const auto& types : {std::pair{kQ4_0, kQ4_0},
                            {kQ4_K, kQ4_K},
                            {kQ4_K, kQ8_0},
                            {DType::kQ6_K, DType::kQ4_1},
                            {DType::kQ5_K, DType::kQ5_0}}) {
    CAPTURE(dtype_info(types.second)->name);
    for (const auto& sizes : {std::pair{256, 352}, {1280, 96}, {4352, 32}}) {
      const int n_in = sizes.first, ffn_dim = sizes.second;
      CAPTURE(n_in);
      const Int8Matrix gate(ffn_dim, n_in, 71, 1e-3f, types.first);
      const Int8Matrix up(ffn_dim, n_in, 72, 1e-3f, types.second);
      const std::vector<float> x = odd_rows(16, n_in, 73);
      for (int n_rows : {1, 8, 11}) {
        CAPTURE(n_rows);
        const QuantizedRows found = gate_up(gate, up, x, n_rows);
        CHECK(found == gate_up_on_cpu(cpu(), gate, up, x, n_rows));
        if (n_rows == 11) {
          simt::for_each_order([&] { CHECK(gate_up(gate, up, x, n_rows) == found); });
        }
      }
    }
  }
}

TEST_CASE("gate and up end as the CPU's quantized rows") {
  for (const auto& sizes : {std::pair{32, 352}, {64, 32}, {1024, 96}, {4096, 64}}) {
    const int n_in = sizes.first, ffn_dim = sizes.second;
    CAPTURE(n_in);
    const Int8Matrix gate(ffn_dim, n_in, 41), up(ffn_dim, n_in, 42);
    const std::vector<float> x = odd_rows(16, n_in, 43);
    for (int n_rows : {1, 3, 8, 9, 16}) {
      CAPTURE(n_rows);
      const QuantizedRows found = gate_up(gate, up, x, n_rows);
      for (Isa isa : two_isas()) {
        CHECK(found == gate_up_on_cpu(kernels_for(isa), gate, up, x, n_rows));
      }
      if (n_rows == 3 || n_rows == 9) {
        simt::for_each_order([&] { CHECK(gate_up(gate, up, x, n_rows) == found); });
      }
    }
  }
}

TEST_CASE("few rows have the same bits in the kernels for eight and for sixteen") {
  for (DType type : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_K}) {
    CAPTURE(dtype_info(type)->name);
    const Int8Matrix w(96, 1024, 51, 1e-3f, type), up(96, 1024, 52, 1e-3f, type);
    const std::vector<float> x = odd_rows(8, 1024, 53), h(size_t(8) * 96, 0.5f);
    for (int n_rows : {1, 5, 8}) {
      CAPTURE(n_rows);
      const auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
        return same_floats(one_nan(a), one_nan(b));
      };
      CHECK(same(project({&w}, x, n_rows, 96, 8), project({&w}, x, n_rows, 96, 16)));
      CHECK(same(residual(w, x, {}, h, n_rows, 8), residual(w, x, {}, h, n_rows, 16)));
      CHECK(gate_up(w, up, x, n_rows, 8) == gate_up(w, up, x, n_rows, 16));
    }
  }
}

TEST_CASE("a projection of a row that its blocks norm: the CPU's bits, a row of every kind") {
  struct Case {
    int n_in, n_out;
  };
  // Warps without a unit, and rows that are more floats than are staged at once.
  for (const Case& c : {Case{32, 1}, Case{32, 301}, Case{96, 40}, Case{1056, 145}, Case{4096, 33},
                        Case{4128, 17}, Case{8224, 40}, Case{kernels::kWidestNormed, 17}}) {
    CAPTURE(c.n_in);
    CAPTURE(c.n_out);
    const Int8Matrix w(c.n_out, c.n_in, c.n_in + c.n_out);
    for (int slot : {0, c.n_in < 4096 ? 2 : 7}) {
      check_normed({&w}, Hidden(slot, c.n_in, 11), c.n_out + 3);
    }
  }
  const Int8Matrix w(33, 160, 5);
  for (int slot = 0; slot < kernels::kMaxDecodeRows; ++slot) {
    check_normed({&w}, Hidden(slot, 160, 12), 33);
  }
}

TEST_CASE("blocks norm a row where they are few, and have room for it") {
  CHECK(kernels::better_normed(12288, 4096));  // 384 blocks
  CHECK(kernels::better_normed(16384, 4096));
  CHECK(!kernels::better_normed(16385, 4096));
  CHECK(kernels::better_normed(16385, 2048));  // two units a block
  CHECK(!kernels::better_normed(28672, 8192));
  CHECK(kernels::better_normed(32, kernels::kWidestNormed));
  CHECK(!kernels::better_normed(32, kernels::kWidestNormed + 32));
}

TEST_CASE("q, k and v of a row that their blocks norm, of every form and of three") {
  for (DType type : kPackedForms) {
    CAPTURE(dtype_info(type)->name);
    const Int8Matrix w(50, 1280, 2, 1e-3f, type);
    check_normed({&w}, Hidden(3, 1280, 52), 50);
  }
  const Int8Matrix q(80, 1280, 1, 1e-3f, DType::kQ4_K), k(40, 1280, 2, 1e-3f, DType::kQ4_0),
      v(40, 1280, 3);
  check_normed({&q, &k, &v}, Hidden(5, 1280, 53), 160);
  check_normed({&v, &v, &k}, Hidden(0, 1280, 53), 130);
}

TEST_CASE("gate and up of a row that their blocks norm end as the CPU's quantized rows") {
  struct Case {
    DType gate, up;
    int n_in, ffn_dim;
  };
  constexpr DType kQ8_0 = DType::kQ8_0, kQ4_K = DType::kQ4_K;
  for (const Case& c :
       {Case{kQ8_0, kQ8_0, 32, 352}, Case{kQ8_0, kQ8_0, 1056, 96}, Case{kQ8_0, kQ8_0, 4096, 64},
        Case{kQ8_0, kQ8_0, 8224, 64}, Case{kQ8_0, kQ8_0, kernels::kWidestNormed, 32},
        Case{DType::kQ4_0, DType::kQ4_0, 64, 352}, Case{kQ4_K, kQ8_0, 1280, 96},
        Case{DType::kQ6_K, DType::kQ5_0, 4352, 32}, Case{DType::kQ5_1, DType::kQ4_1, 8224, 32}}) {
    CAPTURE(c.n_in);
    CAPTURE(dtype_info(c.gate)->name);
    const Int8Matrix gate(c.ffn_dim, c.n_in, 71, 1e-3f, c.gate);
    const Int8Matrix up(c.ffn_dim, c.n_in, 72, 1e-3f, c.up);
    for (int slot : {0, 5, 7}) {
      const Hidden row(slot, c.n_in, 73);
      const QuantizedRows expected = gate_up_on_cpu(cpu(), gate, up, row.normed(cpu()), 1);
      simt::for_each_order([&] { CHECK(gate_up_normed(gate, up, row) == expected); });
    }
  }
}

}  // namespace projections_test
