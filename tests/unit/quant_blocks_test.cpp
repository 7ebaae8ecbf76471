// Blocks of every element type against the `gguf` package: tests/golden/make_quant_golden.py made
// the stored bytes and the values, and says which edges are among them.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "model/codec.h"
#include "numerics/dtype.h"

namespace specbound::quant_blocks_test {
namespace {

struct Golden {
  std::vector<char> bytes;
  nlohmann::json index;
};

Golden read_golden() {
  const std::string directory = std::string(SPECBOUND_GOLDEN) + "/quant/";
  std::ifstream blob(directory + "blocks.bin", std::ios::binary), index(directory + "blocks.json");
  REQUIRE(blob);
  REQUIRE(index);
  return {{std::istreambuf_iterator<char>(blob), {}}, nlohmann::json::parse(index)};
}

template <typename T>
std::vector<T> part(const Golden& golden, size_t at, size_t count) {
  REQUIRE(at + count * sizeof(T) <= golden.bytes.size());
  std::vector<T> values(count);
  std::memcpy(values.data(), golden.bytes.data() + at, count * sizeof(T));
  return values;
}

DType type_of(const nlohmann::json& entry) {
  const auto type = static_cast<DType>(entry.at("number").get<uint32_t>());
  REQUIRE(dtype_info(type));
  CHECK(dtype_info(type)->name == entry.at("type").get<std::string>());
  return type;
}

// How many values differ in a bit; all NaN are the same.
size_t differing(const std::vector<float>& found, const std::vector<float>& expected) {
  size_t n = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const bool nans = std::isnan(found[i]) && std::isnan(expected[i]);
    n += !nans && std::memcmp(&found[i], &expected[i], sizeof(float)) != 0;
  }
  return n;
}

}  // namespace

TEST_CASE("quant blocks: every type that runs dequantizes to the bits of the gguf package") {
  const Golden golden = read_golden();
  std::set<DType> types;
  for (const nlohmann::json& entry : golden.index.at("dequantize")) {
    const DType type = type_of(entry);
    INFO(dtype_info(type)->name);
    types.insert(type);
    const size_t n = entry.at("n_values");
    const auto stored = part<std::byte>(golden, entry.at("stored"), entry.at("stored_bytes"));
    const auto expected = part<float>(golden, entry.at("values"), n);
    REQUIRE(stored.size() == n / dtype_info(type)->block * dtype_info(type)->bytes);
    std::vector<float> found(n);
    dequantize(stored.data(), type, n, found.data());
    CHECK(differing(found, expected) == 0);

    // At any address, and no value is touched behind the last.
    std::vector<std::byte> moved(stored.size() + 1);
    std::memcpy(moved.data() + 1, stored.data(), stored.size());
    std::vector<float> again(n + 1, 7.0f);
    dequantize(moved.data() + 1, type, n, again.data());
    CHECK(again.back() == 7.0f);
    again.pop_back();
    CHECK(differing(again, expected) == 0);
    dequantize(moved.data(), type, 0, again.data());
    CHECK(differing(again, expected) == 0);
  }
  for (uint32_t number = 0; number < 64; ++number) {
    const auto type = static_cast<DType>(number);
    CHECK(types.count(type) == (dtype_info(type) && runs_as(type) ? 1 : 0));
  }
}

TEST_CASE("quant blocks: floats are encoded to the bytes of the gguf package") {
  const Golden golden = read_golden();
  std::set<DType> types;
  for (const nlohmann::json& entry : golden.index.at("quantize")) {
    const DType type = type_of(entry);
    INFO(dtype_info(type)->name);
    types.insert(type);
    const auto values = part<float>(golden, entry.at("values"), entry.at("n_values"));
    const auto expected = part<std::byte>(golden, entry.at("stored"), entry.at("stored_bytes"));
    CHECK(encode_floats(values, type) == expected);
  }
  CHECK(types == std::set<DType>{DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0});
}

}  // namespace specbound::quant_blocks_test
