// What K and V are kept as: FP16, or INT8 with an FP16 scale for each 32 numbers, which takes about
// half of that. docs/architecture.md 4.
#pragma once

#include <utility>

namespace specbound {

enum class KvType { kFp16, kInt8 };

// By the names that users give.
inline constexpr std::pair<const char*, KvType> kKvTypes[] = {{"fp16", KvType::kFp16},
                                                              {"int8", KvType::kInt8}};

inline const char* kv_type_name(KvType type) {
  return kKvTypes[static_cast<int>(type)].first;
}

// What a device's name ends with where it is not the default: timings hold for it alone.
inline const char* kv_note(KvType type) {
  return type == KvType::kInt8 ? ", K/V int8" : "";
}

}  // namespace specbound
