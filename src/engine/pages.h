// A large array straight from the system: zero until written, pages taken when touched (so a long
// K/V cache costs nothing until it fills), page-aligned, huge pages where they are granted.
#pragma once

#include <cstddef>
#include <utility>

namespace specbound {

// Throws Error(kLimit) naming `what`, the bytes needed and the bytes free.
void* map_pages(size_t bytes, const char* what);
void unmap_pages(void* p, size_t bytes);

template <class T>
class Pages {
 public:
  Pages() = default;
  Pages(size_t n, const char* what)
      : data_(static_cast<T*>(map_pages(n * sizeof(T), what))), size_(n) {}
  ~Pages() {
    if (data_) unmap_pages(data_, size_ * sizeof(T));
  }
  Pages(Pages&& other) noexcept { *this = std::move(other); }
  Pages& operator=(Pages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace specbound
