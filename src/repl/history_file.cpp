#include "repl/history_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "descriptor.h"
#include "error.h"
#include "system/file_output.h"
#include "system/user_path.h"

namespace specbound {

namespace {

namespace fs = std::filesystem;

std::string escaped(std::string_view entry) {
  std::string line;
  for (const char c : entry) {
    if (c == '\n' || c == '\\') line += '\\';
    line += c == '\n' ? 'n' : c;
  }
  return line;
}

std::string unescaped(std::string_view line) {
  std::string entry;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size() && (line[i + 1] == 'n' || line[i + 1] == '\\')) {
      entry += line[++i] == 'n' ? '\n' : '\\';
    } else {
      entry += line[i];
    }
  }
  return entry;
}

// The entries of a file's text, oldest first.
std::vector<std::string> entries_of(std::string_view text) {
  std::vector<std::string> entries;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) break;  // a line that is still being written
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (!line.empty() && line.size() <= 2 * HistoryFile::kMostEntryBytes &&
        line.find('\0') == std::string_view::npos) {
      entries.push_back(unescaped(line));
    }
  }
  return entries;
}

// The last kMostFileBytes, from the beginning of a line on.
std::string read_end(int fd) {
  struct stat status = {};
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return {};
  constexpr off_t kMost = HistoryFile::kMostFileBytes;
  const off_t from = std::max<off_t>(0, status.st_size - kMost);
  std::string text(static_cast<size_t>(status.st_size - from), '\0');
  size_t n = 0;
  while (n < text.size()) {
    const ssize_t got = pread(fd, text.data() + n, text.size() - n, from + static_cast<off_t>(n));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    n += static_cast<size_t>(got);
  }
  text.resize(n);
  if (from > 0) text.erase(0, std::min(text.size(), text.find('\n') + 1));
  return text;
}

[[noreturn]] void cannot(const std::string& path, int error) {
  throw Error(ErrorCode::kFile,
              format("%s: cannot keep the history: %s", path.c_str(), std::strerror(error)));
}

}  // namespace

std::string history_path() {
  return user_path("XDG_STATE_HOME", ".local/state", "history");
}

std::vector<std::string> HistoryFile::load() const {
  if (path_.empty()) return {};
  const Descriptor file(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return {};
  std::vector<std::string> entries = entries_of(read_end(file.get()));
  if (entries.size() > kMostEntries) entries.erase(entries.begin(), entries.end() - kMostEntries);
  return entries;
}

void HistoryFile::add(std::string_view entry) const {
  if (path_.empty() || entry.empty() || entry.size() > kMostEntryBytes ||
      entry.find('\0') != std::string_view::npos) {
    return;
  }
  std::error_code ignored;
  const fs::path folder = fs::path(path_).parent_path();
  if (fs::create_directories(folder, ignored)) {
    fs::permissions(folder, fs::perms::owner_all, ignored);
  }
  for (;;) {
    const Descriptor file(
        open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600));
    if (!file) cannot(path_, errno);
    // Where there are no locks an append is still whole; only a cut could lose a line.
    while (flock(file.get(), LOCK_EX) != 0 && errno == EINTR) {
    }
    if (!is_at(file, path_)) continue;
    struct stat status = {};
    if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
      throw Error(ErrorCode::kFile, path_ + ": cannot keep the history: not a regular file");
    }
    // A line that a crash cut short must not swallow this one.
    std::string line = escaped(entry) + '\n';
    char last = '\n';
    if (status.st_size > 0 && pread(file.get(), &last, 1, status.st_size - 1) == 1 &&
        last != '\n') {
      line.insert(0, "\n");
    }
    const ssize_t written = write(file.get(), line.data(), line.size());
    if (written != static_cast<ssize_t>(line.size())) cannot(path_, written < 0 ? errno : ENOSPC);

    std::vector<std::string> entries = entries_of(read_end(file.get()));
    const bool grown = entries.size() >= 2 * kMostEntries ||
                       status.st_size >= static_cast<off_t>(2 * kMostFileBytes);
    if (!grown) return;
    std::string text;
    const size_t first = entries.size() - std::min(entries.size(), kMostEntries);
    for (size_t i = first; i < entries.size(); ++i) text += escaped(entries[i]) + '\n';
    write_file(path_, text);
    return;
  }
}

}  // namespace specbound
