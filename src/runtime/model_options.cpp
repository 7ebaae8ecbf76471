#include "runtime/model_options.h"

#include "error.h"

namespace specbound {

CpuOptions ModelOptions::cpu_options() const {
  CpuOptions options;
  options.n_ctx = n_ctx;
  options.n_threads = n_threads;
  options.repack = !no_repack;
  if (isa == "portable") {
    options.isa = Isa::kPortable;
  } else if (isa == "avx2") {
    options.isa = Isa::kAvx2;
  } else if (isa == "avx512") {
    options.isa = Isa::kAvx512Vnni;
  } else if (isa != "auto") {
    throw Error(ErrorCode::kUsage,
                format("isa=%s: expected auto, portable, avx2 or avx512", printable(isa).c_str()));
  }
  if (!isa_supported(options.isa)) {
    throw Error(
        ErrorCode::kUsage,
        format("isa=%s: this CPU lacks it; specbound doctor lists what it has", isa.c_str()));
  }
  return options;
}

}  // namespace specbound
