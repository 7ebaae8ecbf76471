// Names that were made to collide in libstdc++'s hash, as files and clients can send them: looking
// them up takes no longer than other names.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "json/json_reader.h"
#include "model/gguf.h"
#include "model/gguf_writer.h"
#include "server/ordered_json.h"
#include "temp_dir.h"

namespace specbound::colliding_names_test {

namespace {

constexpr size_t kNames = 20000;
constexpr uint64_t kMultiplier = 0xc6a4a7935bd1e995;  // MurmurHash64A's

constexpr uint64_t inverse(uint64_t odd) {
  uint64_t x = odd;
  for (int i = 0; i < 6; ++i) x *= 2 - odd * x;
  return x;
}

uint64_t shifted(uint64_t v) {  // its own inverse
  return v ^ (v >> 47);
}

// Words of eight letters: the second undoes what the first did to the hash.
std::vector<std::string> colliding() {
  constexpr uint64_t kSeed = 0xc70f6907, kBack = inverse(kMultiplier);
  static_assert(kMultiplier * kBack == 1);
  const auto is_plain = [](const char* word) {
    for (int i = 0; i < 8; ++i) {
      if (word[i] < '#' || word[i] > '~' || word[i] == '\\') return false;
    }
    return true;
  };
  std::vector<std::string> names;
  for (uint64_t n = 0; names.size() < kNames; ++n) {
    char first[8], second[8];
    for (int i = 0; i < 8; ++i) first[i] = static_cast<char>('a' + (n >> 4 * i & 15));
    uint64_t word;
    std::memcpy(&word, first, 8);
    const uint64_t mixed = shifted(word * kMultiplier) * kMultiplier;
    const uint64_t behind_first = ((kSeed ^ 16 * kMultiplier) ^ mixed) * kMultiplier;
    word = shifted((behind_first ^ 1) * kBack) * kBack;
    std::memcpy(second, &word, 8);
    if (is_plain(second)) names.push_back(std::string(first, 8) + std::string(second, 8));
  }
  return names;
}

std::vector<std::string> ordinary() {
  std::vector<std::string> names;
  for (size_t i = 0; i < kNames; ++i) names.push_back("name " + std::to_string(10000000000 + i));
  return names;
}

std::string object_of(const std::vector<std::string>& names) {
  std::string out = "{";
  for (const std::string& name : names) out += (out == "{" ? "\"" : ",\"") + name + "\":0";
  return out + "}";
}

std::string gguf_of(const std::vector<std::string>& names, const std::string& path) {
  GgufWriter writer;
  for (const std::string& name : names) writer.add_bool(name, true);
  writer.write(path);
  return path;
}

// The least of three: others may be at work.
double seconds_of(const std::function<void()>& work) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const auto end = std::chrono::steady_clock::now();
    least = std::min(least, std::chrono::duration<double>(end - begin).count());
  }
  return least;
}

}  // namespace

TEST_CASE("names that were made to collide are looked up as fast as others") {
  const std::vector<std::string> names = colliding(), others = ordinary();
  bool collide = true;
  for (const std::string& name : names) {
    collide &= std::hash<std::string>()(name) == std::hash<std::string>()(names[0]);
  }
#ifdef __GLIBCXX__
  REQUIRE(collide);
#endif
  const auto check = [&](const auto& read) {
    // In one bucket each would be held against all others.
    const double usual = seconds_of([&] { read(others); });
    CHECK(seconds_of([&] { read(names); }) < 10 * usual);
  };
  check([](const auto& some) { CHECK(parse_json(object_of(some), "x").size() == kNames); });
  check([](const auto& some) {
    const ChatValue value = server::ordered_value(object_of(some));
    CHECK(value.dict()->size() == kNames);
  });
  const test::TempDir folder;
  const std::string paths[] = {gguf_of(names, folder / "names"),
                               gguf_of(others, folder / "others")};
  check([&](const auto& some) {
    CHECK(Gguf::open(paths[&some == &others]).metadata().size() == kNames);
  });
}

}  // namespace specbound::colliding_names_test
