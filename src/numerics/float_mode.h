// One setting for subnormal numbers and rounding on every thread that computes
// (docs/architecture.md 4). A library built with fast-math sets flush-to-zero in the thread that
// loads it; without this, that thread's share of a row would differ from its neighbour's.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace specbound {

class FloatMode {
 public:
#if defined(__x86_64__)
  FloatMode() : saved_(_mm_getcsr()) {
    _mm_setcsr(kIeee);
  }
  ~FloatMode() {
    _mm_setcsr(saved_);
  }
#else
  FloatMode() {}
#endif
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr unsigned kIeee = 0x1f80;  // nearest even, subnormals kept, exceptions masked
  unsigned saved_;
#endif
};

}  // namespace specbound
