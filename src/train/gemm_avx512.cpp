// The inner loop of our own product for AVX-512; see gemm_micro.h.
#include "train/gemm_micro.h"

#if defined(__x86_64__)
namespace specbound {

constinit const MicroKernel kMicroAvx512 = micro_kernel<64>();

}  // namespace specbound
#endif
