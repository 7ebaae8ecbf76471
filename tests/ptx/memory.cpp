// Instructions that read and write memory, and where an address is.
#include <algorithm>
#include <cstring>

#include "ptx/machine.h"
#include "simt/device_buffer.h"

namespace ptx {

namespace {

Space space_of(uint64_t address) {
  switch (address & kWindowMask) {
    case kSharedWindow:
      return Space::kShared;
    case kLocalWindow:
      return Space::kLocal;
    case kParamWindow:
      return Space::kParam;
    default:
      return Space::kGlobal;
  }
}

uint64_t window_of(Space space) {
  return space == Space::kShared  ? kSharedWindow
         : space == Space::kLocal ? kLocalWindow
         : space == Space::kParam ? kParamWindow
                                  : 0;
}

const char* name_of(Space space) {
  static constexpr const char* kNames[] = {"generic", "global", "shared", "local", "param"};
  return kNames[static_cast<int>(space)];
}

// The live buffer that an address is in, or an empty range.
Range buffer_at(uint64_t address) {
  const auto& live = simt::live_buffers();
  auto after = live.upper_bound(address);
  if (after == live.begin()) return {};
  --after;
  return {after->first, after->first + after->second};
}

// Of a lane that touches global memory: may it, when kernels overlap?
void touch(const Warp& w, const Instruction& i, int lane, uint64_t address, size_t bytes,
           Access access) {
  const Block& block = *w.block;
  const bool early = block.unfinished != nullptr && (w.waited >> lane & 1) == 0;
  if (early && access == Access::kWrite) {
    fail(w, i, lane, "writes before it has waited for the kernels before this one");
  }
  for (uint64_t word = address / 4; word <= (address + bytes - 1) / 4; ++word) {
    if (early && block.unfinished->contains(word)) {
      fail(w, i, lane, "reads what a kernel before this one wrote, before it has waited");
    }
    if (block.written != nullptr && access == Access::kWrite) block.written->insert(word);
  }
}

}  // namespace

unsigned char* find(Warp& w, const Instruction& i, int lane, Space space, uint64_t address,
                    size_t bytes, Access access) {
  if (address % bytes != 0) {
    fail(w, i, lane,
         format("%s address %llx is not aligned to %zu bytes", name_of(space),
                static_cast<unsigned long long>(address), bytes));
  }
  if (space == Space::kGeneric) {
    space = space_of(address);
    address &= ~(space == Space::kGlobal ? 0 : kWindowMask);
  }
  Block& block = *w.block;
  unsigned char* memory = nullptr;
  size_t size = 0;
  if (space == Space::kGlobal) {
    Range& last = block.last[static_cast<size_t>(&i - block.kernel.code.data())];
    if (address < last.begin || address >= last.end) last = buffer_at(address);
    if (address >= last.begin && address + bytes <= last.end) {
      touch(w, i, lane, address, bytes, access);
      return reinterpret_cast<unsigned char*>(address);
    }
    if (address < last.end) size = last.end - address;
  } else if (space == Space::kShared) {
    memory = block.shared.data(), size = block.shared.size();
  } else if (space == Space::kParam) {
    memory = block.parameters.data(), size = block.parameters.size();
  } else {
    size = block.kernel.local_bytes;
    memory = w.local.data() + static_cast<size_t>(lane) * size;
  }
  if (memory != nullptr && address <= size && bytes <= size - address) return memory + address;
  fail(w, i, lane,
       format("%s access of %zu bytes at %llx, where %zu are", name_of(space), bytes,
              static_cast<unsigned long long>(address), size));
}

namespace {

uint64_t address_of(const Warp& w, const Instruction& i, size_t row, int lane, size_t which = 0) {
  const uint64_t address = w.row(i.rows[row])[lane] + static_cast<uint64_t>(i.offsets[which]);
  // Addresses of shared memory may be words.
  return i.space == Space::kShared ? static_cast<uint32_t>(address) : address;
}

template <class T>
void load(Warp& w, const Instruction& i, uint32_t lanes) {
  const size_t n = i.n_values;
  each(lanes, [&](int l) {
    const unsigned char* from = find(w, i, l, i.space, address_of(w, i, n, l), n * sizeof(T));
    for (size_t k = 0; k < n; ++k) {
      T value;
      std::memcpy(&value, from + k * sizeof(T), sizeof(T));
      w.out(i.rows[k])[l] = pack(value);
    }
  });
}

template <class T>
void store(Warp& w, const Instruction& i, uint32_t lanes) {
  const size_t n = i.n_values;
  each(lanes, [&](int l) {
    if (i.space == Space::kParam) fail(w, i, l, "writes a parameter");
    unsigned char* to =
        find(w, i, l, i.space, address_of(w, i, 0, l), n * sizeof(T), Access::kWrite);
    for (size_t k = 0; k < n; ++k) {
      const T value = unpack<T>(w.row(i.rows[k + 1])[l]);
      std::memcpy(to + k * sizeof(T), &value, sizeof(T));
    }
  });
}

// ---- read, change, write ----

enum class Change { kAdd, kMin, kMax, kAnd, kOr, kXor, kExchange, kCompare };

template <class T, Change kChange>
T changed(T old, T b, T c) {
  if constexpr (kChange == Change::kAdd) {
    return static_cast<T>(old + b);
  } else if constexpr (kChange == Change::kMin) {
    return std::min(old, b);
  } else if constexpr (kChange == Change::kMax) {
    return std::max(old, b);
  } else if constexpr (kChange == Change::kExchange) {
    return b;
  } else if constexpr (kChange == Change::kCompare) {
    return old == b ? c : old;
  } else if constexpr (std::is_integral_v<T>) {
    return kChange == Change::kAnd ? old & b : kChange == Change::kOr ? old | b : old ^ b;
  } else {
    return old;
  }
}

// d, [a], b, c; of red: [a], b.
template <class T, Change kChange, bool kReturns>
void change(Warp& w, const Instruction& i, uint32_t lanes) {
  constexpr size_t kAddress = kReturns ? 1 : 0;
  each(lanes, [&](int l) {
    unsigned char* at =
        find(w, i, l, i.space, address_of(w, i, kAddress, l), sizeof(T), Access::kWrite);
    const T b = unpack<T>(w.row(i.rows[kAddress + 1])[l]);
    const T c = unpack<T>(w.row(i.rows[kAddress + 2])[l]);
    T old;
    std::memcpy(&old, at, sizeof(T));
    const T now = changed<T, kChange>(old, b, c);
    std::memcpy(at, &now, sizeof(T));
    if (kReturns) w.out(i.rows[0])[l] = pack(old);
  });
}

template <class T, bool kReturns>
Run change_of(std::string_view op) {
  if (op == "add") return change<T, Change::kAdd, kReturns>;
  if (op == "min") return change<T, Change::kMin, kReturns>;
  if (op == "max") return change<T, Change::kMax, kReturns>;
  if (op == "and") return change<T, Change::kAnd, kReturns>;
  if (op == "or") return change<T, Change::kOr, kReturns>;
  if (op == "xor") return change<T, Change::kXor, kReturns>;
  if (op == "exch") return change<T, Change::kExchange, kReturns>;
  if (op == "cas") return change<T, Change::kCompare, kReturns>;
  return nullptr;
}

// ---- copies that a lane waits for ----

// Of each lane all but the last `open` groups; kAll: those that are not closed, too.
void wait_copies(Warp& w, uint32_t lanes, bool all, int open) {
  const auto due = [&](const Copy& copy) {
    return (lanes >> copy.lane & 1) != 0 && (all || copy.group < w.groups[copy.lane] - open);
  };
  for (const Copy& copy : w.copies) {
    if (!due(copy)) continue;
    unsigned char* const to = w.block->shared.data() + copy.to;
    std::memset(to, 0, copy.bytes);
    std::memcpy(to, reinterpret_cast<const void*>(copy.from), copy.copied);
  }
  w.copies.erase(std::remove_if(w.copies.begin(), w.copies.end(), due), w.copies.end());
}

// [to], [from], bytes, bytes to copy (the rest are zeros).
void copy_later(Warp& w, const Instruction& i, uint32_t lanes) {
  each(lanes, [&](int l) {
    const auto bytes = static_cast<uint32_t>(w.row(i.rows[2])[l]);
    const auto copied = i.n_rows > 3 ? static_cast<uint32_t>(w.row(i.rows[3])[l]) : bytes;
    if (bytes != 4 && bytes != 8 && bytes != 16) fail(w, i, l, format("copies %u bytes", bytes));
    if (copied > bytes) fail(w, i, l, format("copies %u of %u bytes", copied, bytes));
    const auto to = static_cast<uint32_t>(address_of(w, i, 0, l));
    const uint64_t from = w.row(i.rows[1])[l] + static_cast<uint64_t>(i.offsets[1]);
    find(w, i, l, Space::kShared, to, bytes);
    if (copied > 0) find(w, i, l, Space::kGlobal, from, bytes);
    w.copies.push_back({l, w.groups[l], to, from, bytes, copied});
  });
  if (simt::options().order == simt::Order::kReverse) wait_copies(w, lanes, true, 0);
}

void close_group(Warp& w, const Instruction&, uint32_t lanes) {
  each(lanes, [&](int l) { ++w.groups[l]; });
}

void wait_group(Warp& w, const Instruction& i, uint32_t lanes) {
  wait_copies(w, lanes, false, static_cast<int>(w.row(i.rows[0])[0]));
}
void wait_all(Warp& w, const Instruction&, uint32_t lanes) {
  wait_copies(w, lanes, true, 0);
}

// [from], bytes: to the L2 cache.
void prefetch(Warp& w, const Instruction& i, uint32_t lanes) {
  each(lanes, [&](int l) {
    const uint64_t from = address_of(w, i, 0, l),
                   bytes = static_cast<uint32_t>(w.row(i.rows[1])[l]);
    const Range buffer = buffer_at(from);
    if (from % 16 == 0 && bytes % 16 == 0 && from < buffer.end && bytes <= buffer.end - from)
      return;
    fail(w, i, l,
         format("prefetches %llu bytes at %llx, where %llu are",
                static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(from),
                static_cast<unsigned long long>(from < buffer.end ? buffer.end - from : 0)));
  });
}

// ---- generic addresses ----

template <bool kToSpace>
void convert_address(Warp& w, const Instruction& i, uint32_t lanes) {
  const uint64_t* const a = w.row(i.rows[1]);
  uint64_t* const d = w.out(i.rows[0]);
  const uint64_t window = window_of(i.space);
  each(lanes, [&](int l) {
    if (kToSpace && (a[l] & kWindowMask) != window) fail(w, i, l, "an address of another space");
    d[l] = kToSpace ? a[l] & ~(window == 0 ? 0 : kWindowMask) : a[l] | window;
  });
}

// ---- kernels that overlap ----

void wait_for_previous(Warp& w, const Instruction&, uint32_t lanes) {
  w.waited |= lanes;
}

void nothing(Warp&, const Instruction&, uint32_t) {}

bool has(const Opcode& opcode, std::string_view part) {
  return std::find(opcode.begin(), opcode.end(), part) != opcode.end();
}

Space named_space(const Opcode& opcode) {
  if (has(opcode, "global")) return Space::kGlobal;
  if (has(opcode, "shared") || has(opcode, "shared::cta")) return Space::kShared;
  if (has(opcode, "local")) return Space::kLocal;
  if (has(opcode, "param")) return Space::kParam;
  return Space::kGeneric;
}

// Of a load or a store: as many values as it says.
bool whole(const Opcode& opcode, const Instruction& i) {
  const int n = has(opcode, "v2") ? 2 : has(opcode, "v4") ? 4 : 1;
  return i.n_values == n && i.n_rows == n + 1;
}

}  // namespace

bool decode_memory(const Opcode& opcode, Instruction& i) {
  const std::string_view op = opcode[0], type = opcode.back();
  i.space = named_space(opcode);
  if (op == "ld" || op == "st") {
    with_any(type, [&](auto t) {
      using T = typename decltype(t)::type;
      i.run = op == "ld" ? load<T> : store<T>;
    });
    return i.run != nullptr && whole(opcode, i);
  }
  if (op == "atom" || op == "red") {
    with_number(type, [&](auto t) {
      using T = typename decltype(t)::type;
      if constexpr (sizeof(T) < 4) return;
      for (size_t k = 1; k + 1 < opcode.size() && i.run == nullptr; ++k) {
        i.run = op == "atom" ? change_of<T, true>(opcode[k]) : change_of<T, false>(opcode[k]);
      }
    });
  } else if (op == "cvta") {
    i.run = has(opcode, "to") ? convert_address<true> : convert_address<false>;
  } else if (op == "cp" && has(opcode, "commit_group")) {
    i.run = close_group;
  } else if (op == "cp" && has(opcode, "wait_group")) {
    i.run = wait_group;
  } else if (op == "cp" && has(opcode, "wait_all")) {
    i.run = wait_all;
  } else if (op == "cp" && has(opcode, "bulk") && has(opcode, "prefetch") && i.n_rows == 2) {
    i.run = prefetch;
  } else if (op == "cp" && has(opcode, "async") && has(opcode, "shared") && i.n_rows >= 3) {
    i.space = Space::kShared;
    i.run = copy_later;
  } else if (op == "griddepcontrol" && has(opcode, "wait")) {
    i.run = wait_for_previous;
  } else if (op == "membar" || op == "fence" || op == "griddepcontrol" || op == "prefetch" ||
             op == "prefetchu" || op == "applypriority" || op == "discard") {
    i.run = nothing;  // one block runs after the other
  }
  return i.run != nullptr;
}

}  // namespace ptx
