// The inner loop of our own product for AVX2 with FMA; see gemm_micro.h.
#include "train/gemm_micro.h"

#if defined(__x86_64__)
namespace specbound {

constinit const MicroKernel kMicroAvx2 = micro_kernel<32>();

}  // namespace specbound
#endif
