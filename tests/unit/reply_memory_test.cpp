// The file of remembered replies: what is written is read, for its owner alone; what is no such
// file is refused and leaves the memory alone.
#include "runtime/reply_memory.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>

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

Text tokens_of(const LookupMemory& memory) {
  const std::span<const int32_t> text = memory.index().text();
  return {text.begin(), text.end()};
}

void put(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace

TEST_CASE("reply memory: what was written is read, and belongs to its owner") {
  const TempDir folder;
  const std::string path = folder / "deep/replies-x";
  LookupMemory memory, read;
  read_reply_memory(path, kVocab, read);  // nothing yet
  CHECK(tokens_of(read).empty());
  memory.add(Text{1, 2, 99});
  memory.add(Text{});
  memory.add(Text{0});
  write_reply_memory(path, memory);
  struct stat status = {};
  REQUIRE(stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  read_reply_memory(path, kVocab, read);
  CHECK(tokens_of(read) == tokens_of(memory));
  write_reply_memory("", memory);  // no folder to keep it in
}

TEST_CASE("reply memory: what is no memory of the model is refused") {
  const TempDir folder;
  const std::string path = folder / "replies-x";
  LookupMemory memory;
  memory.add(Text{5, 6, 7});
  write_reply_memory(path, memory);
  const std::string good = read_file(path);
  LookupMemory kept;
  kept.add(Text{42});
  const Text before = tokens_of(kept);
  const auto refused = [&](const std::string& bytes, const std::string& why) {
    put(path, bytes);
    const std::string what =
        expect_error(ErrorCode::kFormat, [&] { read_reply_memory(path, kVocab, kept); });
    CHECK(what.find(why) != std::string::npos);
    CHECK(tokens_of(kept) == before);
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
  expect_error(ErrorCode::kLimit, [&] { read_reply_memory(path, kVocab, kept); });
  CHECK(tokens_of(kept) == before);
  expect_error(ErrorCode::kFile, [&] { read_reply_memory(folder / "", kVocab, kept); });
}

TEST_CASE("reply memory: forgetting deletes the memories of all models and nothing else") {
  const TempDir folder;
  const Environment state("XDG_STATE_HOME", folder.path().c_str());
  CHECK(forget_replies() == 0);
  LookupMemory memory;
  memory.add(Text{1});
  const std::string one = reply_memory_path("a"), other = reply_memory_path("b");
  CHECK(one != other);
  write_reply_memory(one, memory);
  write_reply_memory(other, memory);
  put(folder / "specbound/history", "typed\n");
  CHECK(forget_replies() > 0);
  LookupMemory none;
  read_reply_memory(one, kVocab, none);
  CHECK(tokens_of(none).empty());
  CHECK(read_file(folder / "specbound/history") == "typed\n");
}

}  // namespace reply_memory_test
