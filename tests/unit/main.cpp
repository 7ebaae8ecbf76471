#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>

int main(int argc, char** argv) {
  // What the user of this machine has set plays no part: no settings file can lie there.
  setenv("XDG_CONFIG_HOME", "/dev/null", 1);
  for (const char* variable : {"SPECBOUND_CONFIG", "SPECBOUND_NO_CONFIG", "SPECBOUND_MODEL",
                               "SPECBOUND_THREADS", "SPECBOUND_TEMP", "SPECBOUND_SEED"}) {
    unsetenv(variable);
  }
  return doctest::Context(argc, argv).run();
}
