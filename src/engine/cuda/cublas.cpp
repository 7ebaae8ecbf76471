#include "engine/cuda/cublas.h"

#include <dlfcn.h>

#include <optional>

#include "error.h"

namespace specbound {
namespace {

// Stays open for the life of the process: closing it would pull its code from under the driver.
struct Library {
  cublas::Functions functions{};
  const char* file = nullptr;
  std::string version;  // "13.0"
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

std::optional<Library> open_library(std::span<const char* const> files) {
  for (const char* file : files) {
    void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library) continue;
    Library found;
    found.file = file;
    cublas::Functions& f = found.functions;
    int major = 0, minor = 0;
    if (find(library, "cublasGetProperty", f.get_property) &&
        find(library, "cublasGetStatusName", f.status_name) &&
        find(library, "cublasCreate_v2", f.create) &&
        find(library, "cublasDestroy_v2", f.destroy) &&
        find(library, "cublasSetStream_v2", f.set_stream) &&
        find(library, "cublasSetWorkspace_v2", f.set_workspace) &&
        find(library, "cublasSetMathMode", f.set_math_mode) &&
        find(library, "cublasGemmEx", f.gemm) &&
        f.get_property(cublas::kMajor, &major) == cublas::kSuccess &&
        f.get_property(cublas::kMinor, &minor) == cublas::kSuccess) {
      found.version = format("%d.%d", major, minor);
      return found;
    }
    dlclose(library);
  }
  return std::nullopt;
}

}  // namespace

std::string cublas_found() {
  const auto library = open_library(Cublas::kFiles);
  return library ? format("cuBLAS %s (%s)", library->version.c_str(), library->file) : "";
}

Cublas::Cublas(Device& device, std::span<const char* const> files) {
  const auto library = open_library(files);
  if (!library) {
    throw Error(ErrorCode::kUnsupported,
                "expected cuBLAS, found neither libcublas.so.13 nor .12: install it (CUDA toolkit "
                "13, or pip install nvidia-cublas), and name its folder in LD_LIBRARY_PATH");
  }
  functions_ = library->functions;
  name_ = "cuBLAS " + library->version;
  workspace_ = DeviceMemory<std::byte>(device, kWorkspaceBytes);
  require(functions_.create(&handle_), "cublasCreate");
  try {
    // The stream first: it takes the workspace away.
    require(functions_.set_stream(handle_, device.stream()), "cublasSetStream");
    require(functions_.set_workspace(handle_, workspace_.data(), kWorkspaceBytes),
            "cublasSetWorkspace");
    require(functions_.set_math_mode(handle_, cublas::kNoReducedReduction), "cublasSetMathMode");
  } catch (...) {
    functions_.destroy(handle_);
    throw;
  }
}

Cublas::~Cublas() {
  functions_.destroy(handle_);
}

void Cublas::require(cublas::Status status, const char* what) const {
  if (status == cublas::kSuccess) return;
  throw Error(ErrorCode::kDevice,
              format("%s, %s: %s", name_.c_str(), what, functions_.status_name(status)));
}

// cuBLAS is column-major: what it sees of a row-major matrix is its transpose, and the transpose of
// a b is b' a'.
void Cublas::gemm(int m, int n, int k, float alpha, const HalfMatrix& a, const HalfMatrix& b,
                  float beta, void* c, int c_type, int ldc) {
  if (m == 0 || n == 0) return;
  const auto op = [](const HalfMatrix& x) {
    return x.is_transposed ? cublas::kTransposed : cublas::kPlain;
  };
  require(functions_.gemm(handle_, op(b), op(a), n, m, k, &alpha, b.values, cublas::kHalf, b.ld,
                          a.values, cublas::kHalf, a.ld, &beta, c, c_type, ldc,
                          cublas::kComputeFloat, cublas::kAnyAlgorithm),
          "cublasGemmEx");
}

void Cublas::multiply(int m, int n, int k, float alpha, const HalfMatrix& a, const HalfMatrix& b,
                      float beta, float* c, int ldc) {
  gemm(m, n, k, alpha, a, b, beta, c, cublas::kFloat, ldc);
}

void Cublas::multiply(int m, int n, int k, float alpha, const HalfMatrix& a, const HalfMatrix& b,
                      uint16_t* c, int ldc) {
  gemm(m, n, k, alpha, a, b, 0, c, cublas::kHalf, ldc);
}

}  // namespace specbound
