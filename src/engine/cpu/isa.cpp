// Which instruction sets this CPU and this build have.

#include "engine/cpu/kernels.h"
#include "error.h"

namespace specbound {

const char* isa_name(Isa isa) {
  constexpr const char* kNames[] = {"portable", "AVX2", "AVX-512 VNNI"};
  static_assert(std::size(kNames) == static_cast<size_t>(Isa::kAvx512Vnni) + 1);
  return kNames[static_cast<size_t>(isa)];
}

bool isa_supported(Isa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case Isa::kAvx512Vnni:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512vnni");
    case Isa::kAvx2:  // every CPU with AVX2 and FMA has F16C
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Isa::kPortable:
      return true;
  }
#endif
  return isa == Isa::kPortable;
}

Isa best_isa() {
  for (Isa isa : {Isa::kAvx512Vnni, Isa::kAvx2}) {
    if (isa_supported(isa)) return isa;
  }
  return Isa::kPortable;
}

const Kernels& kernels_for(Isa isa) {
  SB_CHECK(isa_supported(isa));
#if defined(__x86_64__)
  if (isa == Isa::kAvx512Vnni) return kKernelsAvx512;
  if (isa == Isa::kAvx2) return kKernelsAvx2;
#endif
  return kKernelsPortable;
}

}  // namespace specbound
