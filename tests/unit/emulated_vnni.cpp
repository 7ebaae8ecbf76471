// The kernels of kernels_avxvnni.cpp with their one instruction written out: all else of them runs
// wherever AVX2 does.
#include "emulated_vnni.h"

#if defined(__x86_64__)
#include "engine/cpu/simd_avx2.h"

namespace specbound {
namespace {

inline __m256i add_products(__m256i sums, __m256i w, __m256i x) {
  uint8_t a[32];
  int8_t b[32];
  int32_t s[8];
  __builtin_memcpy(a, &w, sizeof a);
  __builtin_memcpy(b, &x, sizeof b);
  __builtin_memcpy(s, &sums, sizeof s);
  for (int i = 0; i < 32; ++i) s[i / 4] += a[i] * b[i];
  __builtin_memcpy(&sums, s, sizeof s);
  return sums;
}

}  // namespace
}  // namespace specbound

#include "engine/cpu/tile_dot_vnni.h"
//
#include "engine/cpu/kernels_impl.h"

namespace specbound::test {

const Kernels* emulated_vnni() {
  static constexpr Kernels kKernels = make_kernels(Isa::kAvxVnni);
  return isa_supported(Isa::kAvx2) ? &kKernels : nullptr;
}

}  // namespace specbound::test
#else
namespace specbound::test {

const Kernels* emulated_vnni() {
  return nullptr;
}

}  // namespace specbound::test
#endif
