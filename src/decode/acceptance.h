// The rules by which a drafted token stays in the text.
#pragma once

namespace specbound {

enum class Acceptance {
  kCoupled,  // both drawn with the same noise: the text of plain decoding (docs/architecture.md 5)
  kRejection,  // decode/rejection.h: its distribution, another text
  kTypical,    // decode/typical_acceptance.h: another distribution
};

// "coupled", "rejection", "typical"
constexpr const char* acceptance_name(Acceptance acceptance) {
  constexpr const char* kNames[] = {"coupled", "rejection", "typical"};
  return kNames[static_cast<int>(acceptance)];
}

}  // namespace specbound
