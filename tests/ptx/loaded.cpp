#include "ptx/loaded.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "numerics/half.h"
#include "ptx/machine.h"
#include "ptx/symbols.h"
#include "simt/device_buffer.h"
#include "simt/executor.h"

namespace ptx {

namespace {

// What the live buffers hold, one behind the other.
std::vector<unsigned char> live_bytes() {
  std::vector<unsigned char> bytes;
  for (const auto& [begin, size] : simt::live_buffers()) {
    const auto* const from = reinterpret_cast<const unsigned char*>(begin);
    bytes.insert(bytes.end(), from, from + size);
  }
  return bytes;
}

void restore(const std::vector<unsigned char>& bytes) {
  const unsigned char* from = bytes.data();
  for (const auto& [begin, size] : simt::live_buffers()) {
    if (size > 0) std::memcpy(reinterpret_cast<void*>(begin), from, size);
    from += size;
  }
}

bool both_nan(uint32_t a, uint32_t b) {
  const auto is_nan = [](uint32_t x) { return std::isnan(unpack<float>(x)); };
  const auto half = [](uint32_t x) { return std::isnan(specbound::half_to_float(uint16_t(x))); };
  if (is_nan(a) && is_nan(b)) return true;
  for (int shift = 0; shift < 32; shift += 16) {
    const uint32_t x = a >> shift & 0xffff, y = b >> shift & 0xffff;
    if (x != y && !(half(x) && half(y))) return false;
  }
  return true;
}

// Bit for bit, but a NaN is any NaN.
void compare(const simt::Launch& launch, const std::vector<unsigned char>& found,
             const std::vector<unsigned char>& expected) {
  const size_t size = found.size();
  if (size == 0 || std::memcmp(found.data(), expected.data(), size) == 0) return;
  size_t at = 0;
  for (const auto& buffer : simt::live_buffers()) {
    for (size_t i = 0; i < buffer.second; i += 4) {
      uint32_t a = 0, b = 0;
      std::memcpy(&a, &found[at + i], std::min<size_t>(4, buffer.second - i));
      std::memcpy(&b, &expected[at + i], std::min<size_t>(4, buffer.second - i));
      if (a == b || both_nan(a, b)) continue;
      throw simt::Fault(
          format("kernel %s: %08x at byte %zu of a buffer of %zu, where the source as "
                 "C++ leaves %08x",
                 launch.kernel, a, i, buffer.second, b));
    }
    at += buffer.second;
  }
}

}  // namespace

Program& loaded() {
  static Program program;
  return program;
}

void run_launches() {
  simt::runner() = [](const simt::Launch& launch, const void* parameters, size_t bytes) {
    const Kernel& kernel = loaded().kernel(function_name(launch.function));
    static Unfinished unfinished;
    static uint64_t waits = 0;
    if (waits != simt::host_waits()) unfinished.clear();
    waits = simt::host_waits();
    Unfinished* const overlapping = loaded().can_overlap() ? &unfinished : nullptr;
    for (const auto& [begin, size] : simt::made_by_kernels()) {
      for (uint64_t at = begin; at < begin + size; at += 4) unfinished.insert(at / 4);
    }
    // The tests' own kernels try instructions that need not agree on the sign of a zero.
    const bool of_test = kernel.name.find("_test::") != std::string::npos;
    if (simt::options().order != simt::Order::kForward || of_test) {
      return run_grid(kernel, launch, parameters, bytes, overlapping);
    }
    const std::vector<unsigned char> before = live_bytes();
    simt::run_grid(launch);
    const std::vector<unsigned char> expected = live_bytes();
    restore(before);
    run_grid(kernel, launch, parameters, bytes, overlapping);
    compare(launch, live_bytes(), expected);
  };
}

}  // namespace ptx
