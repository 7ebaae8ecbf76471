// The kernels over simd_portable.h; see kernels_impl.h.
#include "engine/cpu/simd_portable.h"
//
#include "engine/cpu/kernels_impl.h"

namespace specbound {

constinit const Kernels kKernelsPortable = make_kernels(Isa::kPortable);

}  // namespace specbound
