// Whether sanitizers watch this build. They make all of it ten times as slow, and look for faults
// that a part of the steps of a long test shows as well: such tests take fewer of them there.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <vector>

namespace specbound::test {

#ifdef SPECBOUND_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// Of `all` steps, those that are taken.
constexpr int some_of(int all) {
  return kSanitized ? all / 5 : all;
}
// The first, the third and so on.
template <class T>
std::vector<T> some_of(std::initializer_list<T> all) {
  std::vector<T> some;
  for (size_t i = 0; i < all.size(); i += kSanitized ? 2 : 1) some.push_back(all.begin()[i]);
  return some;
}

}  // namespace specbound::test
