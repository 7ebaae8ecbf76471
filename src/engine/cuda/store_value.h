// A small value of the host into device memory, in the order of the stream (kernels/store.h).
#pragma once

#include <cstring>
#include <type_traits>

#include "engine/cuda/device.h"
#include "kernels/store.h"

namespace specbound {

template <class T>
void store_value(Device& device, T* to, const T& value) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(uint32_t) == 0);
  static_assert(sizeof(T) <= kernels::kStoredWords * sizeof(uint32_t));
  kernels::StoreWords store{reinterpret_cast<uint32_t*>(to), sizeof(T) / sizeof(uint32_t), {}};
  std::memcpy(store.words, &value, sizeof value);
  kernels::store_words(store, device.stream());
}

}  // namespace specbound
