#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

int main(int argc, char** argv) {
  // What the user of this machine has set, measured and learnt plays no part: of settings no file
  // can be there, the rest is kept in a folder that goes with the tests.
  std::string home = (std::filesystem::temp_directory_path() / "specbound-home-XXXXXX").string();
  if (!mkdtemp(home.data())) return 1;
  for (const char* kind : {"CACHE", "DATA", "STATE"}) {
    setenv(("XDG_" + std::string(kind) + "_HOME").c_str(), (home + '/' + kind).c_str(), 1);
  }
  setenv("XDG_CONFIG_HOME", "/dev/null", 1);
  for (const char* variable : {"SPECBOUND_CONFIG", "SPECBOUND_NO_CONFIG", "SPECBOUND_MODEL",
                               "SPECBOUND_THREADS", "SPECBOUND_TEMP", "SPECBOUND_SEED"}) {
    unsetenv(variable);
  }
  const int status = doctest::Context(argc, argv).run();
  std::error_code ignored;
  std::filesystem::remove_all(home, ignored);
  return status;
}
