// A driver for tests, without a GPU: as libcuda.so.1 it serves the CUDA version FAKE_DRIVER_CUDA,
// as libnvidia-ml.so.1 it says that it is FAKE_DRIVER_VERSION.
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

int no_device(...) {
  return 100;  // CUDA_ERROR_NO_DEVICE
}

}  // namespace

extern "C" int cuDriverGetVersion(int* version) {
  *version = std::atoi(variable("FAKE_DRIVER_CUDA").c_str());
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

extern "C" int nvmlInit_v2() {
  return 0;
}

extern "C" int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  const std::string version = variable("FAKE_DRIVER_VERSION");
  if (version.size() >= size) return 7;  // NVML_ERROR_INSUFFICIENT_SIZE
  std::memcpy(text, version.c_str(), version.size() + 1);
  return 0;
}

extern "C" int nvmlShutdown() {
  return 0;
}
