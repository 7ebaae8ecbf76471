#include "simt/fiber.h"

#include <sys/mman.h>

#include <boost/context/detail/fcontext.hpp>
#include <new>
#ifdef SIMT_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef SIMT_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace simt {
namespace {

using boost::context::detail::transfer_t;

#if defined(SIMT_ASAN) || defined(SIMT_TSAN)
constexpr size_t kStackBytes = 256 << 10;
#else
constexpr size_t kStackBytes = 128 << 10;
#endif
constexpr size_t kGuardBytes = 16 << 10;  // below it: a stack that overflows is a signal

}  // namespace

struct Fiber::Entry {
  SIMT_UNSEEN static void enter(transfer_t t) {
    Fiber* const* pair = static_cast<Fiber**>(t.data);
    Fiber* const self = pair[1];
    self->arrived(pair[0], t.fctx);
    self->run_();
  }
};

Fiber::Fiber() {
#ifdef SIMT_TSAN
  tsan_ = __tsan_get_current_fiber();
#endif
}

Fiber::Fiber(void (*run)()) : run_(run), stack_bytes_(kStackBytes) {
  mapping_ = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) throw std::bad_alloc();
  mprotect(mapping_, kGuardBytes, PROT_NONE);
  stack_ = static_cast<char*>(mapping_) + kGuardBytes;
  context_ = boost::context::detail::make_fcontext(static_cast<char*>(stack_) + kStackBytes,
                                                   kStackBytes, &Entry::enter);
#ifdef SIMT_TSAN
  tsan_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
  if (mapping_ == nullptr) return;
#ifdef SIMT_TSAN
  __tsan_destroy_fiber(tsan_);
#endif
  munmap(mapping_, kGuardBytes + kStackBytes);
}

SIMT_UNSEEN void Fiber::switch_to(Fiber& to) {
#ifdef SIMT_ASAN
  __sanitizer_start_switch_fiber(&asan_frames_, to.stack_, to.stack_bytes_);
#endif
#ifdef SIMT_TSAN
  __tsan_switch_to_fiber(to.tsan_, __tsan_switch_to_fiber_no_sync);
#endif
  Fiber* pair[2] = {this, &to};
  const transfer_t t = boost::context::detail::jump_fcontext(to.context_, pair);
  arrived(static_cast<Fiber**>(t.data)[0], t.fctx);
}

// On the new stack, before anything else: where the one that was left goes on.
SIMT_UNSEEN void Fiber::arrived(void* from, void* context) {
  Fiber& left = *static_cast<Fiber*>(from);
  left.context_ = context;
#ifdef SIMT_ASAN
  const void* stack = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(asan_frames_, &stack, &bytes);
  left.stack_ = const_cast<void*>(stack);
  left.stack_bytes_ = bytes;
#endif
}

}  // namespace simt
