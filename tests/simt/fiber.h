// A fiber: a stack of its own, run by whoever switches to it. Boost.Context's fcontext underneath,
// with what ASan and TSan have to be told of a switch. To TSan a switch orders nothing.
#pragma once

#include <cstddef>
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIMT_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define SIMT_TSAN 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define SIMT_ASAN 1
#endif
#ifdef __SANITIZE_THREAD__
#define SIMT_TSAN 1
#endif

#ifdef SIMT_TSAN
// For the executor's own memory, which fibers share without ordering that TSan would see.
#define SIMT_UNSEEN __attribute__((no_sanitize("thread")))
#else
#define SIMT_UNSEEN
#endif

namespace simt {

class Fiber {
 public:
  Fiber();                                            // what runs now
  explicit Fiber(void (*run)() /* never returns */);  // starts when first switched to
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Goes on in `to`; returns when somebody switches back to *this, which must be what runs now.
  void switch_to(Fiber& to);

 private:
  struct Entry;

  void arrived(void* from, void* context);

  void (*run_)() = nullptr;
  void* context_ = nullptr;  // where it goes on
  void* mapping_ = nullptr;
  void* stack_ = nullptr;  // its lowest byte
  size_t stack_bytes_ = 0;
  void* asan_frames_ = nullptr;
  void* tsan_ = nullptr;
};

}  // namespace simt
