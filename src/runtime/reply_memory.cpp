#include "runtime/reply_memory.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "descriptor.h"
#include "drafters/lookup.h"
#include "error.h"
#include "system/file_output.h"
#include "system/regular_file.h"
#include "system/user_path.h"

namespace specbound {

namespace {

namespace fs = std::filesystem;

// The file: this, then tokens as 32-bit numbers, the lowest byte first.
constexpr std::string_view kMagic = "specbound replies 1\n";
constexpr std::string_view kPrefix = "replies-";
constexpr size_t kMostBytes = kMagic.size() + LookupMemory::kMostTokens * sizeof(int32_t);

std::string folder_of(const std::string& path) {
  return fs::path(path).parent_path().string();
}

std::vector<int32_t> read_in_turn(const std::string& path, int vocab_size) {
  std::error_code error;
  if (path.empty() || !fs::exists(path, error)) return {};
  check_regular(path, kMostBytes);
  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  const auto refuse = [&](const std::string& expected, const std::string& found) {
    throw Error(ErrorCode::kFormat, format("%s: expected %s, found %s", printable(path).c_str(),
                                           expected.c_str(), found.c_str()));
  };
  if (!file) refuse("a memory of replies", "a file that cannot be read");
  if (!bytes.starts_with(kMagic)) refuse("a memory of replies", "something else");
  bytes.erase(0, kMagic.size());
  if (bytes.size() % sizeof(int32_t) != 0 ||
      bytes.size() / sizeof(int32_t) > LookupMemory::kMostTokens) {
    refuse("whole tokens", format("%zu bytes of them", bytes.size()));
  }
  std::vector<int32_t> tokens(bytes.size() / sizeof(int32_t));
  std::memcpy(tokens.data(), bytes.data(), bytes.size());
  for (const int32_t token : tokens) {
    if (token == LookupMemory::kBetween || (token >= 0 && token < vocab_size)) continue;
    refuse(format("tokens below %d", vocab_size), std::to_string(token));
  }
  return tokens;
}

}  // namespace

std::string reply_memory_path(const std::string& model_fingerprint) {
  return user_path("XDG_STATE_HOME", ".local/state",
                   std::string(kPrefix) + name_digits(model_fingerprint));
}

std::vector<int32_t> read_replies(const std::string& path, int vocab_size) {
  const Descriptor turn = in_turn(folder_of(path));  // a file that is begun is not read
  return read_in_turn(path, vocab_size);
}

void add_replies(const std::string& path, int vocab_size, std::span<const int32_t> added) {
  if (path.empty() || added.empty()) return;
  std::error_code error;
  fs::create_directories(folder_of(path), error);
  const Descriptor turn = in_turn(folder_of(path));
  if (fs::exists(path, error) && !fs::is_regular_file(path, error)) {
    throw Error(ErrorCode::kFile, printable(path) + ": not a regular file");
  }
  std::vector<int32_t> tokens;
  try {
    tokens = read_in_turn(path, vocab_size);
  } catch (const Error&) {
    // It was told when the chat began, and nobody can use it.
  }
  tokens.insert(tokens.end(), added.begin(), added.end());
  const std::span<const int32_t> newest =
      std::span(tokens).last(std::min(tokens.size(), LookupMemory::kMostTokens));
  // Its owner's alone from the first byte on: write_file() keeps the permissions.
  const Descriptor made(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  std::string bytes(kMagic);
  bytes.append(reinterpret_cast<const char*>(newest.data()), newest.size_bytes());
  try {
    write_file(path, bytes);
  } catch (...) {
    if (made) fs::remove(path, error);  // an empty one would be no memory
    throw;
  }
}

uint64_t forget_replies() {
  const std::string folder = folder_of(reply_memory_path(""));
  const Descriptor turn = in_turn(folder);
  std::error_code error;
  uint64_t bytes = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (!entry.path().filename().string().starts_with(kPrefix)) continue;
    if (!entry.is_symlink(error) && !entry.is_regular_file(error)) continue;  // not ours
    const uintmax_t size = entry.is_symlink(error) ? 0 : entry.file_size(error);
    std::error_code failed;
    fs::remove(entry.path(), failed);
    if (failed) {
      throw Error(ErrorCode::kFile, format("%s: cannot be deleted: %s", entry.path().c_str(),
                                           failed.message().c_str()));
    }
    bytes += error ? 0 : size;
  }
  return bytes;
}

}  // namespace specbound
