// A whole file as its bytes.
#pragma once

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace specbound::test {

inline std::string read_file(const std::string& path) {
  CAPTURE(path);
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.good());
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace specbound::test
