// The one function that libstdc++'s archive takes from glibc 2.36, for programs that have that
// archive in them: with this one they start where glibc is 2.35 (Ubuntu 22.04) too.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

// What std::random_device asks for: like glibc's, it cannot fail.
extern "C" [[gnu::visibility("hidden")]] uint32_t arc4random() {
  uint32_t random = 0;
  if (getentropy(&random, sizeof random) != 0) std::abort();
  return random;
}
