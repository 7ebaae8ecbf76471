// A CUDA stream for headers that know nothing of CUDA: cudaStream_t is this type.
#pragma once

struct CUstream_st;

namespace specbound::kernels {

using Stream = CUstream_st*;

}  // namespace specbound::kernels
