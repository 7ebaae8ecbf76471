// The fake cuBLAS (fake_cublas.cpp) for tests: once it is loaded, who opens libcublas.so.13 gets
// it.
#pragma once

#include <dlfcn.h>

#include <stdexcept>

namespace specbound::test {

class FakeCublas {
 public:
  FakeCublas() : library_(dlopen(SPECBOUND_FAKE_CUBLAS, RTLD_NOW | RTLD_LOCAL)) {
    if (!library_) throw std::runtime_error(dlerror());
  }
  ~FakeCublas() {
    fail_after(-1);
    dlclose(library_);
  }
  FakeCublas(const FakeCublas&) = delete;
  FakeCublas& operator=(const FakeCublas&) = delete;

  // The product after so many fails; -1: none.
  void fail_after(int products) const {
    reinterpret_cast<void (*)(int)>(dlsym(library_, "fake_cublas_fail_after"))(products);
  }

 private:
  void* library_;
};

}  // namespace specbound::test
