// The kernels' tests, run on what nvcc made of the kernels: PTX, by the machine of machine.h.
//
//   SPECBOUND_PTX=rows.ptx:attention.ptx ptx_tests [doctest's options]
//   SPECBOUND_PTX=... ptx_tests --ahead       the last lane of each warp ahead of the others
//   SPECBOUND_PTX=... ptx_tests --faults      are they able to fail? (faults.h)
//
// Without options every kernel must run.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "ptx/faults.h"
#include "ptx/loaded.h"
#include "simt/executor.h"

namespace {

void load_texts() {
  const char* const names = std::getenv("SPECBOUND_PTX");
  if (names == nullptr) throw ptx::TextError("SPECBOUND_PTX: expected files of PTX, found nothing");
  std::istringstream list(names);
  for (std::string name; std::getline(list, name, ':');) {
    std::ifstream file(name, std::ios::binary);
    if (!file) throw ptx::TextError("cannot read " + name);
    ptx::loaded().add({std::istreambuf_iterator<char>(file), {}});
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    load_texts();
    ptx::run_launches();
    if (argc == 2 && std::strcmp(argv[1], "--faults") == 0) return ptx::run_faults();
    const bool ahead = argc == 2 && std::strcmp(argv[1], "--ahead") == 0;
    if (ahead) simt::options().order = simt::Order::kReverse;
    const int failed = doctest::Context(ahead ? 1 : argc, argv).run();
    return argc == 1 && !ptx::loaded().report() ? 1 : failed;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ptx_tests: %s\n", error.what());
    return 2;
  }
}
