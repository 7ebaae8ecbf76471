// Instructions of several lanes together: shuffles, votes, matrix products, barriers.
#include <bit>

#include "numerics/half.h"
#include "ptx/machine.h"

namespace ptx {

namespace {

constexpr uint8_t kNoMask = 0xff;

// ---- shuffles and votes ----

enum class Shuffle { kXor, kIndex, kUp, kDown };

// d, p, a, b, c, mask: a of lane b (by the mode), inside the segments that c says.
template <Shuffle kMode>
void shuffle(Warp& w, const Instruction& i, uint32_t lanes) {
  uint64_t from[kLanes];
  std::copy_n(w.row(i.rows[2]), kLanes, from);
  const uint64_t *const b = w.row(i.rows[3]), *const c = w.row(i.rows[4]);
  uint64_t* const d = w.out(i.rows[0]);
  uint32_t found = 0;
  each(lanes, [&](int l) {
    const int segment = static_cast<int>(c[l] >> 8 & 31), clamp = static_cast<int>(c[l] & 31);
    const int step = static_cast<int>(b[l] & 31);
    const int least = l & segment, most = least | (clamp & ~segment);
    const int source = kMode == Shuffle::kXor     ? l ^ step
                       : kMode == Shuffle::kIndex ? least | (step & ~segment)
                       : kMode == Shuffle::kUp    ? l - step
                                                  : l + step;
    const bool inside = kMode == Shuffle::kUp ? source >= most : source <= most;
    const int of = inside ? source : l;
    if ((lanes >> of & 1) == 0) fail(w, i, l, format("asks lane %d, which is not there", of));
    d[l] = static_cast<uint32_t>(from[of]);
    found |= static_cast<uint32_t>(inside) << l;
  });
  set_predicate(w, i.rows[1], lanes, found);
}

// d, p, mask
enum class Vote { kBallot, kAny, kAll, kUniform };

template <Vote kMode>
void vote(Warp& w, const Instruction& i, uint32_t lanes) {
  const uint32_t yes = w.predicates[static_cast<size_t>(i.rows[1])] & lanes;
  if constexpr (kMode == Vote::kBallot) {
    each(lanes, [&](int l) { w.out(i.rows[0])[l] = yes; });
  } else {
    const bool result = kMode == Vote::kAny   ? yes != 0
                        : kMode == Vote::kAll ? yes == lanes
                                              : yes == 0 || yes == lanes;
    set_predicate(w, i.rows[0], lanes, result ? kAllLanes : 0);
  }
}

// ---- matrix products ----
//
// Lane 4 g + t holds, of the M x K matrix a, registers r with rows g + 8 (r % (M / 8)), and of the
// K x 8 matrix b column g; an operand of n numbers a register has k n t.. of n 4 a step of r.

template <class T>
T part_of(uint32_t word, int e) {
  if constexpr (std::is_same_v<T, float>) {
    return specbound::half_to_float(static_cast<uint16_t>(word >> (16 * e)));
  } else {
    return static_cast<T>(static_cast<int8_t>(word >> (8 * e)));
  }
}

// d, a, b, c. T: float for halves with sums of floats, int32_t for int8. The order of a sum of
// floats is ascending k; products of halves are exact.
template <int M, int K, class T>
void multiply(Warp& w, const Instruction& i, uint32_t lanes) {
  constexpr int kEach = std::is_same_v<T, float> ? 2 : 4, kTiles = M / 8, kSteps = K / (4 * kEach);
  constexpr int kSums = 2 * kTiles, kA = kTiles * kSteps;
  if (lanes != kAllLanes) fail(w, i, std::countr_zero(~lanes), "a product without this lane");
  T a[M][K], b[K][8], c[M][8];
  const auto word = [&](int operand, int lane) {
    return w.row(i.rows[static_cast<size_t>(operand)])[lane];
  };
  for (int l = 0; l < kLanes; ++l) {
    const int g = l / 4, t = l % 4;
    for (int r = 0; r < kA; ++r) {
      for (int e = 0; e < kEach; ++e) {
        a[g + 8 * (r % kTiles)][r / kTiles * 4 * kEach + kEach * t + e] =
            part_of<T>(static_cast<uint32_t>(word(kSums + r, l)), e);
      }
    }
    for (int r = 0; r < kSteps; ++r) {
      for (int e = 0; e < kEach; ++e) {
        b[r * 4 * kEach + kEach * t + e][g] =
            part_of<T>(static_cast<uint32_t>(word(kSums + kA + r, l)), e);
      }
    }
    for (int r = 0; r < kSums; ++r) {
      c[g + 8 * (r / 2)][2 * t + r % 2] = unpack<T>(word(kSums + kA + kSteps + r, l));
    }
  }
  for (int row = 0; row < M; ++row) {
    for (int k = 0; k < K; ++k) {
      for (int column = 0; column < 8; ++column) c[row][column] += a[row][k] * b[k][column];
    }
  }
  for (int l = 0; l < kLanes; ++l) {
    for (int r = 0; r < kSums; ++r) {
      w.out(i.rows[static_cast<size_t>(r)])[l] = pack(c[l / 4 + 8 * (r / 2)][2 * (l % 4) + r % 2]);
    }
  }
}

Run product(std::string_view shape, std::string_view types) {
  if (types == "s32.s8.s8.s32") {
    if (shape == "m8n8k16") return multiply<8, 16, int32_t>;
    if (shape == "m16n8k16") return multiply<16, 16, int32_t>;
    if (shape == "m16n8k32") return multiply<16, 32, int32_t>;
  }
  if (types == "f32.f16.f16.f32") {
    if (shape == "m16n8k8") return multiply<16, 8, float>;
    if (shape == "m16n8k16") return multiply<16, 16, float>;
  }
  return nullptr;
}

// d (4), [row]: four matrices of 8 by 8 halves, transposed; lane i names row i % 8 of matrix i / 8.
void load_matrices(Warp& w, const Instruction& i, uint32_t lanes) {
  if (lanes != kAllLanes) fail(w, i, std::countr_zero(~lanes), "matrices without this lane");
  uint16_t halves[4][8][8];
  for (int l = 0; l < kLanes; ++l) {
    const uint64_t address = w.row(i.rows[4])[l] + static_cast<uint64_t>(i.offsets[0]);
    std::memcpy(halves[l / 8][l % 8], find(w, i, l, Space::kShared, address, sizeof halves[0][0]),
                sizeof halves[0][0]);
  }
  for (int l = 0; l < kLanes; ++l) {
    const int g = l / 4, t = l % 4;
    for (size_t m = 0; m < 4; ++m) {
      w.out(i.rows[m])[l] = halves[m][2 * t][g] | static_cast<uint32_t>(halves[m][2 * t + 1][g])
                                                      << 16;
    }
  }
}

void nothing(Warp&, const Instruction&, uint32_t) {}

// Orders memory, as shuffles do not.
void sync_warp(Warp& w, const Instruction&, uint32_t lanes) {
  if ((w.waited & lanes) != 0) w.waited |= lanes;
}

}  // namespace

uint32_t lanes_to_meet(const Warp& warp, const Instruction& i, int lane) {
  if (i.n_values == kNoMask) return kAllLanes;
  return static_cast<uint32_t>(warp.row(i.rows[static_cast<size_t>(i.n_rows) - 1])[lane]);
}

bool decode_meetings(const Opcode& opcode, Instruction& i) {
  const std::string_view op = opcode[0];
  const size_t n = opcode.size();
  const auto part = [&](size_t k) { return k < n ? opcode[k] : std::string_view(); };
  i.kind = Kind::kWarp;
  if ((op == "bar" || op == "barrier") && part(1) == "warp" && part(2) == "sync") {
    i.run = sync_warp;
  } else if ((op == "bar" || op == "barrier") && (part(1) == "sync" || part(2) == "sync")) {
    i.kind = Kind::kBarrier;
    // The barrier of all threads: number 0, no count.
    if (i.n_rows == 1 && i.rows[0] < 0) i.run = nothing;
  } else if (op == "shfl" && part(1) == "sync" && part(3) == "b32" && i.n_rows == 6) {
    const std::string_view mode = opcode[2];
    if (mode == "bfly") i.run = shuffle<Shuffle::kXor>;
    if (mode == "idx") i.run = shuffle<Shuffle::kIndex>;
    if (mode == "up") i.run = shuffle<Shuffle::kUp>;
    if (mode == "down") i.run = shuffle<Shuffle::kDown>;
  } else if (op == "vote" && part(1) == "sync" && i.n_rows == 3) {
    const std::string_view mode = opcode[2];
    if (mode == "ballot") i.run = vote<Vote::kBallot>;
    if (mode == "any") i.run = vote<Vote::kAny>;
    if (mode == "all") i.run = vote<Vote::kAll>;
    if (mode == "uni") i.run = vote<Vote::kUniform>;
  } else if (op == "mma" && n == 10 && part(2) == "aligned" && part(4) == "row" &&
             part(5) == "col") {
    const std::string types = std::string(part(6)) + "." + std::string(part(7)) + "." +
                              std::string(part(8)) + "." + std::string(part(9));
    i.run = product(part(3), types);
    i.n_values = kNoMask;
  } else if (op == "ldmatrix" && part(2) == "aligned" && part(3) == "m8n8" && part(4) == "x4" &&
             part(5) == "trans" && opcode.back() == "b16" && i.n_rows == 5) {
    i.run = load_matrices;
    i.n_values = kNoMask;
  }
  return i.run != nullptr;
}

void decode(const Opcode& opcode, Instruction& i) {
  if (opcode.size() == 1 && (opcode[0] == "ret" || opcode[0] == "exit")) {
    i.kind = Kind::kExit;
    return;
  }
  const Instruction plain = i;
  if (decode_arithmetic(opcode, i)) return;
  i = plain;
  if (decode_values(opcode, i)) return;
  i = plain;
  if (decode_memory(opcode, i)) return;
  i = plain;
  if (decode_meetings(opcode, i)) return;
  throw TextError("no such instruction");
}

}  // namespace ptx
