// The test program for a GPU. Where there is none every case is skipped and one line says why.
#define DOCTEST_CONFIG_IMPLEMENT
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <cstdio>

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  int n_devices = 0, driver = 0;
  const cudaError_t status = cudaGetDeviceCount(&n_devices);
  cudaDriverGetVersion(&driver);
  cudaDeviceProp device{};
  if (status != cudaSuccess || n_devices == 0) {
    // Without a driver the runtime calls it an old one.
    const char* why = driver == 0 ? "no NVIDIA driver" : cudaGetErrorString(status);
    std::printf("SKIP no CUDA device: %s (CUDA %d.%d)\n", why, CUDART_VERSION / 1000,
                CUDART_VERSION % 1000 / 10);
    context.setOption("test-case-exclude", "*");
  } else if (cudaGetDeviceProperties(&device, 0) == cudaSuccess) {
    std::printf("on %s, sm_%d%d, driver for CUDA %d.%d\n", device.name, device.major, device.minor,
                driver / 1000, driver % 1000 / 10);
  }
  return context.run();
}
