// Errors on their way out of the library: exceptions become a status, and a message that stays at
// the handle. Nothing is thrown across the boundary.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <mutex>
#include <span>

#include "capi/specbound.h"

namespace specbound::capi {

// The newest message of a handle. Memory may be what has run out: there is no more of it to take.
class Failure {
 public:
  void set(const char* message) noexcept;
  // As sb_model_error() has it.
  size_t copy(char* buffer, size_t size) const noexcept;

 private:
  mutable std::mutex mutex_;
  char message_[1024] = "";
};

// The caller's array is too small.
class BufferTooSmall : public std::exception {
 public:
  const char* what() const noexcept override {
    return "the array is too small: the size that is needed was set";
  }
};

// In an exception's handler: its status, and its message into `failure`.
sb_status keep_failure(Failure& failure) noexcept;

// The status of call(), which may throw anything. Handles have a `failure`.
template <class Handle, class Call>
sb_status guarded(Handle* handle, const Call& call) noexcept {
  if (!handle) return SB_ERROR_USAGE;
  try {
    call();
    return SB_OK;
  } catch (...) {
    return keep_failure(handle->failure);
  }
}

// Throws Error(kUsage) that names the argument if it is NULL.
void need(const void* argument, const char* name);

// What a caller's array has; NULL only where there is nothing in it.
template <class T>
std::span<const T> given(const T* array, size_t n, const char* name) {
  if (n > 0) need(array, name);
  return {array, n};
}

// `from` into a caller's array. Throws BufferTooSmall, with *n set.
template <class T>
void hand_out(std::span<const T> from, T* to, size_t capacity, size_t* n) {
  *n = from.size();
  if (from.size() > capacity) throw BufferTooSmall();
  std::copy(from.begin(), from.end(), to);
}

}  // namespace specbound::capi
