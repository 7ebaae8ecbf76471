// The kernels over simd_avx2.h, tiles multiplied by AVX-VNNI; see kernels_impl.h.
#if defined(__x86_64__)
#include "engine/cpu/simd_avx2.h"

namespace specbound {
namespace {

inline __m256i add_products(__m256i sums, __m256i w, __m256i x) {
  return _mm256_dpbusd_avx_epi32(sums, w, x);
}

}  // namespace
}  // namespace specbound

#include "engine/cpu/tile_dot_vnni.h"
//
#include "engine/cpu/kernels_impl.h"

namespace specbound {

constinit const Kernels kKernelsAvxVnni = make_kernels(Isa::kAvxVnni);

}  // namespace specbound
#endif
