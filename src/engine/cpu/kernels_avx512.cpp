// The kernels over simd_avx512.h; see kernels_impl.h.
#if defined(__x86_64__)
#include "engine/cpu/simd_avx512.h"
//
#include "engine/cpu/kernels_impl.h"

namespace specbound {

constinit const Kernels kKernelsAvx512 = make_kernels(Isa::kAvx512Vnni);

}  // namespace specbound
#endif
