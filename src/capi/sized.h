// Structures that grow from version to version, told apart by the size they begin with. A field
// that the caller does not know of is zero here, its default; a caller that is newer than the
// library gets along as long as the fields that are not known here are zero.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "capi/failure.h"
#include "error.h"

namespace specbound::capi {

// Of the first version: where T grows later it gets a specialization with what it had.
template <class T>
inline constexpr size_t kFirstSize = sizeof(T);

// The size of the caller's structure. Throws Error(kUsage) for one that cannot be right: below that
// of the first version, or beyond any.
template <class T>
size_t size_of(const T* argument, const char* name) {
  constexpr size_t kMost = 1024;
  need(argument, name);
  if (argument->size >= kFirstSize<T> && argument->size <= kMost) return argument->size;
  throw Error(ErrorCode::kUsage, format("%s: size: expected its sizeof, %zu here, found %zu", name,
                                        sizeof(T), argument->size));
}

// The caller's structure as this version has it.
template <class T>
T take_in(const T* argument, const char* name) {
  const size_t size = size_of(argument, name);
  T taken = {};
  std::memcpy(&taken, argument, std::min(size, sizeof(T)));
  const auto* bytes = reinterpret_cast<const unsigned char*>(argument);
  if (std::any_of(bytes + sizeof(T), bytes + std::max(size, sizeof(T)),
                  [](unsigned char byte) { return byte != 0; })) {
    throw Error(ErrorCode::kUsage,
                format("%s: a field that this library, %s, does not have", name, sb_version()));
  }
  return taken;
}

// `value` into the caller's structure, as much of it as that has.
template <class T>
void give_out(T value, T* argument, const char* name) {
  value.size = size_of(argument, name);
  std::memset(static_cast<void*>(argument), 0, value.size);
  std::memcpy(static_cast<void*>(argument), &value, std::min(value.size, sizeof(T)));
}

}  // namespace specbound::capi
