// The file of remembered replies: what is written is read, for its owner alone; what is no such
// file is refused and leaves the memory alone.
#include "runtime/reply_memory.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "descriptor.h"
#include "drafters/lookup.h"
#include "expect_error.h"
#include "process_state.h"
#include "read_file.h"
#include "temp_dir.h"

namespace reply_memory_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kVocab = 100;
using Text = std::vector<int32_t>;

void put(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace

TEST_CASE("reply memory: what was written is read, and belongs to its owner") {
  const TempDir folder;
  const std::string path = folder / "deep/replies-x";
  CHECK(read_replies(path, kVocab).empty());  // nothing yet
  add_replies(path, kVocab, {});
  CHECK(!std::filesystem::exists(path));
  add_replies(path, kVocab, Text{1, 2, 99, -1, 0, -1});
  struct stat status = {};
  REQUIRE(stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  CHECK(read_replies(path, kVocab) == Text{1, 2, 99, -1, 0, -1});
  add_replies("", kVocab, Text{1});  // no folder to keep it in
  CHECK(read_replies("", kVocab).empty());
}

TEST_CASE("reply memory: what others have added or deleted meanwhile stays so") {
  const TempDir folder;
  const std::string path = folder / "replies-x";
  add_replies(path, kVocab, Text{1, -1});
  add_replies(path, kVocab, Text{2, -1});  // of a chat that began beside the first
  CHECK(read_replies(path, kVocab) == Text{1, -1, 2, -1});
  std::filesystem::remove(path);
  add_replies(path, kVocab, Text{3, -1});
  CHECK(read_replies(path, kVocab) == Text{3, -1});
  put(path, "damaged");
  add_replies(path, kVocab, Text{4, -1});
  CHECK(read_replies(path, kVocab) == Text{4, -1});
  // The newest stay.
  const size_t most = LookupMemory::kMostTokens;
  add_replies(path, kVocab, Text(most - 3, 5));
  add_replies(path, kVocab, Text{6, -1});
  const Text kept = read_replies(path, kVocab);
  REQUIRE(kept.size() == most);
  CHECK(kept[0] == -1);
  CHECK(kept[1] == 5);
  CHECK(kept[most - 2] == 6);
}

TEST_CASE("reply memory: programs take turns, and none waits for long") {
  const TempDir folder;
  const std::string path = folder / "replies-x";
  constexpr int kWriters = 4, kEach = 10;
  std::vector<std::thread> writers;
  for (int w = 0; w < kWriters; ++w) {
    writers.emplace_back([&, w] {
      for (int i = 0; i < kEach; ++i) add_replies(path, kVocab, Text{w, i, -1});
    });
  }
  for (std::thread& writer : writers) writer.join();
  CHECK(read_replies(path, kVocab).size() == kWriters * kEach * 3);
  const Descriptor stopped = in_turn(folder / "");
  const auto begin = std::chrono::steady_clock::now();
  add_replies(path, kVocab, Text{1});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  CHECK(took.count() >= 0.9);
}

TEST_CASE("reply memory: what is no memory of the model is refused") {
  const TempDir folder;
  const std::string path = folder / "replies-x";
  add_replies(path, kVocab, Text{5, 6, 7, -1});
  const std::string good = read_file(path);
  const auto refused = [&](const std::string& bytes, const std::string& why) {
    put(path, bytes);
    const std::string what = expect_error(ErrorCode::kFormat, [&] { read_replies(path, kVocab); });
    CHECK(what.find(why) != std::string::npos);
  };
  const auto with = [&](int32_t token) {
    std::string bytes = good;
    std::memcpy(bytes.data() + bytes.size() - sizeof(token), &token, sizeof(token));
    return bytes;
  };
  refused("", "found something else");
  refused("specbound replies 2\n", "found something else");
  refused(good.substr(0, good.size() - 1), "expected whole tokens");
  refused(with(100), "expected tokens below 100, found 100");
  refused(with(-2), "found -2");
  refused(with(INT32_MIN), "expected tokens below 100");
  put(path, good + std::string(LookupMemory::kMostTokens * 4, '\0'));
  expect_error(ErrorCode::kLimit, [&] { read_replies(path, kVocab); });
  expect_error(ErrorCode::kFile, [&] { read_replies(folder / "", kVocab); });
  expect_error(ErrorCode::kFile, [&] { add_replies(folder / "", kVocab, Text{1}); });
}

TEST_CASE("reply memory: forgetting deletes the memories of all models and nothing else") {
  const TempDir folder;
  const Environment state("XDG_STATE_HOME", folder.path().c_str());
  CHECK(forget_replies() == 0);
  const std::string one = reply_memory_path("a"), other = reply_memory_path("b");
  CHECK(one != other);
  add_replies(one, kVocab, Text{1});
  add_replies(other, kVocab, Text{1});
  put(folder / "specbound/history", "typed\n");
  CHECK(forget_replies() > 0);
  CHECK(read_replies(one, kVocab).empty());
  CHECK(read_file(folder / "specbound/history") == "typed\n");
}

}  // namespace reply_memory_test
