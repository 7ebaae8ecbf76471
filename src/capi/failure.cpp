#include "capi/failure.h"

#include <cstdio>
#include <cstring>
#include <new>
#include <stdexcept>

#include "error.h"
#include "library/load_watcher.h"

namespace specbound::capi {

namespace {

sb_status status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
      return SB_ERROR_USAGE;
    case ErrorCode::kFile:
      return SB_ERROR_FILE;
    case ErrorCode::kFormat:
      return SB_ERROR_FORMAT;
    case ErrorCode::kUnsupported:
      return SB_ERROR_UNSUPPORTED;
    case ErrorCode::kLimit:
      return SB_ERROR_LIMIT;
    case ErrorCode::kDevice:
      return SB_ERROR_DEVICE;
  }
  return SB_ERROR_INTERNAL;
}

sb_status keep(Failure& failure, sb_status status, const char* message) noexcept {
  failure.set(message);
  return status;
}

}  // namespace

void Failure::set(const char* message) noexcept {
  const std::lock_guard lock(mutex_);
  std::snprintf(message_, sizeof message_, "%s", message);
}

size_t Failure::copy(char* buffer, size_t size) const noexcept {
  const std::lock_guard lock(mutex_);
  if (buffer && size > 0) std::snprintf(buffer, size, "%s", message_);
  return std::strlen(message_);
}

sb_status keep_failure(Failure& failure) noexcept {
  try {
    throw;
  } catch (const Error& e) {
    return keep(failure, status_of(e.code()), e.what());
  } catch (const BufferTooSmall& e) {
    return keep(failure, SB_ERROR_BUFFER, e.what());
  } catch (const Interrupted& e) {
    return keep(failure, SB_CANCELLED, e.what());
  } catch (const std::bad_alloc&) {
    return keep(failure, SB_ERROR_LIMIT,
                "out of memory: a smaller context or a smaller model needs less");
  } catch (const std::length_error&) {
    return keep(failure, SB_ERROR_LIMIT, "out of memory: more was asked for than there can be");
  } catch (const std::exception& e) {
    return keep(failure, SB_ERROR_INTERNAL, e.what());
  } catch (...) {
    return keep(failure, SB_ERROR_INTERNAL, "something was thrown: a callback must not");
  }
}

void need(const void* argument, const char* name) {
  if (argument) return;
  throw Error(ErrorCode::kUsage, format("%s is NULL", name));
}

}  // namespace specbound::capi
