// Which instruction sets this CPU and this build have.
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "engine/cpu/kernels.h"
#include "error.h"

namespace specbound {

const char* isa_name(Isa isa) {
  constexpr const char* kNames[] = {"portable", "AVX2", "AVX-VNNI", "AVX-512 VNNI"};
  static_assert(std::size(kNames) == std::size(kIsas));
  return kNames[static_cast<size_t>(isa)];
}

#if defined(__x86_64__)
namespace {

// Not every compiler that can build for it can ask for it by name. Leaf 7 says first how many
// subleaves there are.
bool has_avx_vnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || a < 1) return false;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 4 & 1) != 0;
}

}  // namespace
#endif

bool isa_supported(Isa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case Isa::kAvx512Vnni:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512vnni");
    case Isa::kAvxVnni:
      return isa_supported(Isa::kAvx2) && has_avx_vnni();
    case Isa::kAvx2:  // every CPU with AVX2 and FMA has F16C
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Isa::kPortable:
      return true;
  }
#endif
  return isa == Isa::kPortable;
}

Isa best_isa() {
  Isa best = Isa::kPortable;
  for (Isa isa : kIsas) {
    if (isa_supported(isa)) best = isa;
  }
  return best;
}

const Kernels& kernels_for(Isa isa) {
  SB_CHECK(isa_supported(isa));
#if defined(__x86_64__)
  if (isa == Isa::kAvx512Vnni) return kKernelsAvx512;
  if (isa == Isa::kAvxVnni) return kKernelsAvxVnni;
  if (isa == Isa::kAvx2) return kKernelsAvx2;
#endif
  return kKernelsPortable;
}

}  // namespace specbound
