// The machine that runs kernels of PTX: one block after the other, of a block one warp after the
// other, of a warp the lanes with the lowest address of an instruction together. Where all lanes of
// a mask must meet (shuffles, votes, mma) and at barriers, lanes wait for each other.
//
// Throws simt::Fault, naming kernel, block, thread and the text's line, when
//   - an access is not aligned, or not within one live buffer (simt/device_buffer.h), the block's
//     shared memory, the thread's local memory or the parameters;
//   - lanes wait that nobody will let go, or a lane is asked that does not take part;
//   - threads of a block meet different barriers, or some have exited;
//   - a kernel that overlaps those before it (kernels/launch.cuh) writes, or reads what they wrote,
//     before it has waited for them, or never waits;
//   - the shape is none that the kernel may have.
//
// The order is that of simt::options(). kForward: all lanes in lockstep. kReverse: warps and blocks
// from the last on, and in each warp the last lane as far ahead of the others as it comes, which
// shows what only lockstep made right. kRandom: a lane of any number, drawn anew at every meeting.
// cp.async copies as late as it may, when the lane waits for it; in kReverse at once.
#pragma once

#include <bit>
#include <cstring>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ptx/program.h"
#include "simt/executor.h"

namespace ptx {

// What the kernels wrote that may still run when the next one starts: words of four bytes.
using Unfinished = std::unordered_set<uint64_t>;

// `unfinished`: of the launches before this one, and then with it; nullptr: none overlaps.
void run_grid(const Kernel& kernel, const simt::Launch& launch, const void* parameters,
              size_t parameter_bytes, Unfinished* unfinished = nullptr);

// ---- what instructions see ----

// Generic addresses of what is not global; no host has memory there.
inline constexpr uint64_t kSharedWindow = uint64_t{1} << 56, kLocalWindow = uint64_t{2} << 56,
                          kParamWindow = uint64_t{3} << 56, kWindowMask = uint64_t{0xff} << 56;

struct Range {
  uint64_t begin = 0, end = 0;
};

// A copy on its way to shared memory.
struct Copy {
  int lane, group;
  uint64_t to, from;
  uint32_t bytes, copied;  // the rest are zeros
};

struct Block {
  const Kernel& kernel;
  const simt::Launch& launch;
  std::vector<unsigned char> shared, parameters;
  std::vector<Range> last;  // that an instruction found its global address in
  simt::Index index;
  // Of kernels that this one overlaps, nullptr: none; of its own, nullptr: nobody asks.
  const Unfinished* unfinished = nullptr;
  Unfinished* written = nullptr;
};

struct Warp {
  Block* block = nullptr;
  unsigned index = 0;
  std::vector<uint64_t> registers;  // (n_rows, 32)
  std::vector<uint32_t> predicates;
  std::vector<unsigned char> local;  // (32, local_bytes)
  int at[kLanes] = {};               // instruction
  uint32_t ready = 0, exited = 0, meeting = 0, at_barrier = 0;
  std::vector<Copy> copies;
  int groups[kLanes] = {};  // of copies, closed by each lane
  // Lanes that have waited for the kernels before this one, or met one that has.
  uint32_t waited = kAllLanes;

  const uint64_t* row(int r) const {
    return r < 0 ? block->kernel.constants[static_cast<size_t>(~r)].data()
                 : &registers[static_cast<size_t>(r) * kLanes];
  }
  uint64_t* out(int r) { return &registers[static_cast<size_t>(r) * kLanes]; }
};

enum class Access : uint8_t { kRead, kWrite };

// Where `bytes` at an address are; faults when they are not all there, not aligned, or in global
// memory that a kernel which overlaps others must not touch yet.
unsigned char* find(Warp& warp, const Instruction& i, int lane, Space space, uint64_t address,
                    size_t bytes, Access access = Access::kRead);

[[noreturn]] void fail(const Warp& warp, const Instruction& i, int lane, const std::string& what);

template <class T>
T unpack(uint64_t value) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<float>(static_cast<uint32_t>(value));
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<double>(value);
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
uint64_t pack(T value) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<uint32_t>(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<uint64_t>(value);
  } else {
    return static_cast<uint64_t>(static_cast<int64_t>(value));
  }
}

template <class Fn>
void each(uint32_t lanes, const Fn& fn) {
  if (lanes == kAllLanes) {
    for (int lane = 0; lane < kLanes; ++lane) fn(lane);
    return;
  }
  for (uint32_t left = lanes; left != 0; left &= left - 1) fn(std::countr_zero(left));
}

inline void set_predicate(Warp& warp, int number, uint32_t lanes, uint32_t value) {
  uint32_t& word = warp.predicates[static_cast<size_t>(number)];
  word = (word & ~lanes) | (value & lanes);
}

template <class Op, class D, class... S, size_t... k>
void apply_to(Warp& w, const Instruction& i, uint32_t lanes, std::index_sequence<k...>) {
  uint64_t* const d = w.out(i.rows[0]);
  const uint64_t* const in[] = {w.row(i.rows[k + 1])...};
  each(lanes, [&](int l) { d[l] = pack<D>(Op()(unpack<S>(in[k][l])...)); });
}

// D Op(S...)
template <class Op, class D, class... S>
void apply(Warp& w, const Instruction& i, uint32_t lanes) {
  apply_to<Op, D, S...>(w, i, lanes, std::index_sequence_for<S...>());
}

// ---- tables of instructions; each returns false where it knows of none ----

bool decode_arithmetic(const Opcode& opcode, Instruction& i);
bool decode_values(const Opcode& opcode, Instruction& i);
bool decode_memory(const Opcode& opcode, Instruction& i);
bool decode_meetings(const Opcode& opcode, Instruction& i);

// The lanes that must meet for this instruction, as `lane` says.
uint32_t lanes_to_meet(const Warp& warp, const Instruction& i, int lane);

template <class T>
struct Type {
  using type = T;
};

// Calls fn(Type<T>) for the type named; false: none of these.
template <class Fn>
bool with_integer(std::string_view name, const Fn& fn) {
  if (name == "u16" || name == "b16") return fn(Type<uint16_t>()), true;
  if (name == "s16") return fn(Type<int16_t>()), true;
  if (name == "u32" || name == "b32") return fn(Type<uint32_t>()), true;
  if (name == "s32") return fn(Type<int32_t>()), true;
  if (name == "u64" || name == "b64") return fn(Type<uint64_t>()), true;
  if (name == "s64") return fn(Type<int64_t>()), true;
  return false;
}
template <class Fn>
bool with_float(std::string_view name, const Fn& fn) {
  if (name == "f32") return fn(Type<float>()), true;
  if (name == "f64") return fn(Type<double>()), true;
  return false;
}
template <class Fn>
bool with_number(std::string_view name, const Fn& fn) {
  return with_integer(name, fn) || with_float(name, fn);
}
// Those that only memory and conversions have, too.
template <class Fn>
bool with_any(std::string_view name, const Fn& fn) {
  if (name == "u8" || name == "b8") return fn(Type<uint8_t>()), true;
  if (name == "s8") return fn(Type<int8_t>()), true;
  return with_number(name, fn);
}

}  // namespace ptx
