// A driver for tests: as libcuda.so.1 it serves the CUDA version FAKE_DRIVER_CUDA, and no GPU.
#include <cstdlib>
#include <cstring>

namespace {

int no_device(...) {
  return 100;  // CUDA_ERROR_NO_DEVICE
}

}  // namespace

extern "C" int cuDriverGetVersion(int* version) {
  const char* const served = std::getenv("FAKE_DRIVER_CUDA");
  *version = served ? std::atoi(served) : 0;
  return 0;
}

// How the runtime finds all else.
extern "C" int cuGetProcAddress_v2(const char* name, void** function, int, unsigned long long,
                                   int*) {
  *function = !std::strcmp(name, "cuDriverGetVersion") ? reinterpret_cast<void*>(cuDriverGetVersion)
              : !std::strcmp(name, "cuGetProcAddress")
                  ? reinterpret_cast<void*>(cuGetProcAddress_v2)
                  : reinterpret_cast<void*>(no_device);
  return 0;
}
