// The kernels over simd_avx2.h; see kernels_impl.h.
#if defined(__x86_64__)
#include "engine/cpu/tile_dot_avx2.h"
//
#include "engine/cpu/kernels_impl.h"

namespace specbound {

constinit const Kernels kKernelsAvx2 = make_kernels(Isa::kAvx2);

}  // namespace specbound
#endif
