// Files that results go to: whole or not at all, never over a model, and beside what stdout says.
#include "system/file_output.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "expect_error.h"
#include "temp_dir.h"

namespace file_output_test {
std::atomic<int> synced_files = 0, synced_folders = 0;
}

// In place of libc's, so that a test can tell what was waited for.
extern "C" int fsync(int fd) {
  struct stat status = {};
  if (fstat(fd, &status) == 0) {
    ++(S_ISDIR(status.st_mode) ? file_output_test::synced_folders : file_output_test::synced_files);
  }
  return static_cast<int>(syscall(SYS_fsync, fd));
}

namespace file_output_test {

using namespace specbound;
using namespace specbound::test;
namespace fs = std::filesystem;

namespace {

size_t n_files(const TempDir& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder.path()), {}));
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void put(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

TEST_CASE("a replaced file keeps its permissions") {
  const TempDir folder;
  const std::string path = folder / "private.json";
  put(path, "old");
  for (const mode_t mode : {0600, 0640, 0666}) {
    REQUIRE(chmod(path.c_str(), mode) == 0);
    write_file(path, "new");
    struct stat status = {};
    REQUIRE(stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 07777) == mode);
  }
  CHECK(contents(path) == "new");
}

TEST_CASE("a written file is whole, follows links, leaves nothing behind") {
  const TempDir folder;
  const std::string path = folder / "out.json";
  write_file(path, "first");
  write_file(path, "second");
  CHECK(contents(path) == "second");
  fs::create_symlink(path, folder / "link");
  write_file(folder / "link", "third");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(contents(path) == "third");
  CHECK(n_files(folder) == 2);
  CHECK_NOTHROW(check_writable(path));
  CHECK_NOTHROW(check_writable(folder / "new"));
  CHECK_THROWS_AS(check_writable(folder / "no/such/folder"), Error);
  CHECK_THROWS_AS(check_writable(folder / ""), Error);
  CHECK_THROWS_AS(write_file(folder / "no/such/folder", "x"), Error);
  CHECK_THROWS_AS(write_file("/dev/full", "x"), Error);
  CHECK_NOTHROW(write_file("/dev/null", "x"));
  CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("a written file is on the disk, and so is its name, unless it is of a moment") {
  const TempDir folder;
  const int files = synced_files, folders = synced_folders;
  write_file(folder / "a", "x");
  CHECK(synced_files == files + 1);
  CHECK(synced_folders == folders + 1);
  write_file(folder / "a", "y", false);
  CHECK(contents(folder / "a") == "y");
  CHECK(synced_files == files + 1);
  CHECK(synced_folders == folders + 1);
}

TEST_CASE("a written file takes no other's temporary, nor what a killed process left") {
  const TempDir folder;
  const std::string path = folder / "out.json",
                    left = format("%s.tmp-%d-0", path.c_str(), getpid());
  put(left, "half");
  write_file(path, "whole");
  CHECK(contents(path) == "whole");
  CHECK(contents(left) == "half");
  CHECK(n_files(folder) == 2);
  check_mentions(expect_error(ErrorCode::kFile, [&] { write_file(folder / "no/such", "x"); }),
                 {"no/such: cannot write the temporary file beside it: No such file"});
}

TEST_CASE("a file written bit by bit is emptied first; one that cannot be had is one line") {
  const TempDir folder;
  const std::string path = folder / "trace.jsonl";
  put(path, "what was there before");
  const int fd = open_output(path);
  CHECK(fs::file_size(path) == 0);
  close(fd);
  check_mentions(expect_error(ErrorCode::kFile, [&] { open_output(folder / "no/such"); }),
                 {"no/such: cannot write: No such file"});
  check_mentions(expect_error(ErrorCode::kFile, [&] { open_output(folder.path().string()); }),
                 {folder.path().string(), "directory"});
}

TEST_CASE("two outputs never go to one file, by whatever names") {
  const TempDir folder;
  const auto refused = [&](const std::string& a, const std::string& b) {
    check_mentions(expect_error(ErrorCode::kUsage, [&] { check_distinct(a, b); }),
                   {a, "two outputs"});
  };
  refused(folder / "a", folder / "a");  // not there yet
  refused(folder / "a", folder / "./a");
  refused("a.json", "./a.json");
  put(folder / "a", "");
  fs::create_symlink(folder / "a", folder / "soft");
  fs::create_hard_link(folder / "a", folder / "hard");
  refused(folder / "soft", folder / "a");
  refused(folder / "a", folder / "hard");
  CHECK_NOTHROW(check_distinct(folder / "a", folder / "b"));
  CHECK_NOTHROW(check_distinct("", ""));
  CHECK_NOTHROW(check_distinct(folder / "a", ""));
  CHECK_NOTHROW(check_distinct("", folder / "a"));
  CHECK_NOTHROW(check_distinct("/dev/null", "/dev/null"));
  CHECK_NOTHROW(check_distinct("/dev/stderr", "/dev/stderr"));
}

TEST_CASE("a name in a current folder that was deleted is one clear error") {
  const TempDir folder;
  struct Back {
    const fs::path before = fs::current_path();
    ~Back() { fs::current_path(before); }
  } const back;
  fs::create_directory(folder / "gone");
  fs::current_path(folder / "gone");
  fs::remove(folder / "gone");
  check_mentions(expect_error(ErrorCode::kFile, [] { check_distinct("a", "b"); }),
                 {"a: expected a current folder"});
  CHECK_NOTHROW(check_distinct(folder / "a", folder / "b"));
  CHECK(absolute_path("/a") == "/a");
}

TEST_CASE("a model is not written over, whatever it is called") {
  const TempDir folder;
  const std::string path = folder / "model.bin";
  put(path, "GGUF and the rest");
  for (const auto& attempt : {+[](const std::string& p) { check_writable(p); },
                              +[](const std::string& p) { close(open_output(p)); }}) {
    check_mentions(expect_error(ErrorCode::kFile, [&] { attempt(path); }),
                   {"model.bin: this is a GGUF file"});
  }
  CHECK(contents(path) == "GGUF and the rest");
  put(path, "GGU");
  CHECK_NOTHROW(check_writable(path));
}

TEST_CASE("a new file takes the place of none, of an empty one, or of one of its own kind") {
  const TempDir folder;
  const std::string path = folder / "file";
  for (const char* magic : {"", "MADE"}) CHECK_NOTHROW(check_new_file(path, magic));
  put(path, "");
  for (const char* magic : {"", "MADE"}) CHECK_NOTHROW(check_new_file(path, magic));
  put(path, "MADE here");
  CHECK_NOTHROW(check_new_file(path, "MADE"));
  const auto refused = [&](const char* magic) {
    check_mentions(expect_error(ErrorCode::kFile, [&] { check_new_file(path, magic); }),
                   {"file: expected the name of a new file", "not written over"});
  };
  refused("");
  for (const char* other : {"mine", "MAD", "made here"}) {
    put(path, other);
    refused("MADE");
  }
}

}  // namespace file_output_test
