// Large arrays straight from the system: zero until written, page-aligned, pages taken when
// touched, so that a long K/V cache costs nothing until it fills, and given back when it empties.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

namespace specbound {

// Bytes this process may still take: free memory, or what its cgroup leaves if that is less.
size_t memory_free();

// Throws Error(kLimit) when `needed` bytes cannot be had, `what` being what they are for. To be
// asked once for everything a model needs, before any of it is mapped: mapping alone takes no
// memory, and too much of it ends in the kernel's killing the process halfway through a reply.
void require_memory(size_t needed, const std::string& what);

enum class PageSize {
  kSmall,  // touched here and there, or not to the end
  kHuge,   // written whole and streamed: fewer page walks, where the system grants them
};

// Throws Error(kLimit) naming `what`.
void* map_pages(size_t bytes, const char* what, PageSize page_size);
void unmap_pages(void* p, size_t bytes);
// Pages that lie whole in there go back to the system: they are as they were when they were new.
void give_back_pages(void* p, size_t bytes);

template <class T>
class Pages {
 public:
  Pages() = default;
  Pages(size_t n, const char* what, PageSize page_size = PageSize::kSmall)
      : data_(static_cast<T*>(map_pages(n * sizeof(T), what, page_size))), size_(n) {}
  ~Pages() {
    if (data_) unmap_pages(data_, size_ * sizeof(T));
  }
  Pages(Pages&& other) noexcept { *this = std::move(other); }
  Pages& operator=(Pages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  // Elements from..to-1 are not needed any more.
  void give_back(size_t from, size_t to) {
    if (from < to) give_back_pages(data_ + from, (to - from) * sizeof(T));
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
