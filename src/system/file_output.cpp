#include "system/file_output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>

#include "descriptor.h"
#include "error.h"
#include "model/new_file.h"

namespace specbound {

namespace {

namespace fs = std::filesystem;

Error write_error(const std::string& path, int error) {
  return Error(ErrorCode::kFile,
               format("%s: cannot write: %s", path.c_str(), std::strerror(error)));
}

// A regular file, or one that is yet to be made: safe to rename over.
bool is_replaceable(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  return !fs::exists(status) || fs::is_regular_file(status);
}

// The stream that the file at `path` already is, or -1.
int standard_stream(const std::string& path) {
  struct stat file = {}, stream = {};
  if (stat(path.c_str(), &file) != 0) return -1;
  for (const int fd : {STDERR_FILENO, STDOUT_FILENO}) {
    if (fstat(fd, &stream) == 0 && stream.st_dev == file.st_dev && stream.st_ino == file.st_ino &&
        (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY) {
      return fd;
    }
  }
  return -1;
}

bool begins_with(const std::string& path, std::string_view magic) {
  std::string begin(magic.size(), '\0');
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool whole = fd >= 0 && read(fd, begin.data(), begin.size()) == std::ssize(begin);
  if (fd >= 0) close(fd);
  return whole && begin == magic;
}

// Slips of the hand such as `--trace model.gguf` must not cost a model.
void refuse_model(const std::string& path) {
  if (!is_replaceable(path)) return;
  if (begins_with(path, "GGUF")) {
    throw Error(ErrorCode::kFile,
                path + ": this is a GGUF file, which is not written over: give another name");
  }
}

// Closes the file. 0 or an errno.
int write_all(int fd, std::string_view text) {
  int error = write_whole(fd, text);
  if (close(fd) != 0 && error == 0) error = errno;
  return error;
}

}  // namespace

void check_writable(const std::string& path) {
  refuse_model(path);
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) throw write_error(path, EISDIR);
  if (fs::exists(path, ignored) && access(path.c_str(), W_OK) != 0) throw write_error(path, errno);
  if (!is_replaceable(path)) return;
  fs::path folder = fs::weakly_canonical(path, ignored).parent_path();
  if (folder.empty()) folder = ".";
  if (access(folder.c_str(), W_OK | X_OK) != 0) throw write_error(path, errno);
}

void check_new_file(const std::string& path) {
  check_writable(path);
  if (standard_stream(path) >= 0 || !is_replaceable(path)) {
    throw Error(ErrorCode::kFile,
                path + ": expected the name of a file to write, found a device or a pipe");
  }
}

void check_new_file(const std::string& path, std::string_view magic) {
  check_new_file(path);
  std::error_code ignored;
  if (!fs::exists(path, ignored) || fs::file_size(path, ignored) == 0) return;
  if (!magic.empty() && begins_with(path, magic)) return;
  throw Error(ErrorCode::kFile,
              path +
                  ": expected the name of a new file, found one that was not made here and is "
                  "not written over: give another name");
}

std::string absolute_path(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::absolute(path, error);
  if (!error) return whole.string();
  throw Error(ErrorCode::kFile,
              format("%s: expected a current folder, which this name begins in, found none (%s): "
                     "go to a folder that is there",
                     path.c_str(), error.message().c_str()));
}

namespace {

bool is_same_file(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty() || standard_stream(a) >= 0 || !is_replaceable(a)) return false;
  std::error_code ignored;
  const std::string whole_a = absolute_path(a), whole_b = absolute_path(b);
  return fs::equivalent(a, b, ignored) ||
         fs::weakly_canonical(whole_a, ignored) == fs::weakly_canonical(whole_b, ignored);
}

}  // namespace

void check_distinct(const std::string& a, const std::string& b) {
  if (!is_same_file(a, b)) return;
  throw Error(ErrorCode::kUsage,
              a + ": two outputs would go to this file, the later over the earlier: give each a "
                  "file of its own");
}

void check_not_read(const std::string& output, const std::string& input) {
  if (!is_same_file(output, input)) return;
  throw Error(ErrorCode::kUsage,
              output + ": would be written over what is read: give the output a file of its own");
}

bool shares_stdout(const std::string& path) {
  std::error_code ignored;
  return standard_stream(path) == STDOUT_FILENO &&
         fs::weakly_canonical(path, ignored) != "/dev/null";
}

int open_output(const std::string& path) {
  refuse_model(path);
  const int stream = standard_stream(path);
  const int fd =
      stream >= 0 ? fcntl(stream, F_DUPFD_CLOEXEC, 3)
                  : open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
  if (fd < 0) throw write_error(path, errno);
  return fd;
}

void append_file(const std::string& path, std::string_view text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666);
  const int error = fd < 0 ? errno : write_all(fd, text);
  if (error != 0) throw write_error(path, error);
}

void make_folder_of(const std::string& path) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::filesystem::create_directories(folder, error);
  if (!error) return;
  throw Error(ErrorCode::kFile,
              format("%s: cannot be made: %s", folder.c_str(), error.message().c_str()));
}

void write_file(const std::string& path, std::string_view text, bool lasting) {
  const int stream = standard_stream(path);
  if (stream >= 0 || !is_replaceable(path)) {
    std::fflush(stdout);  // what was said before comes before
    const int fd =
        stream >= 0 ? fcntl(stream, F_DUPFD_CLOEXEC, 3) : open(path.c_str(), O_WRONLY | O_CLOEXEC);
    const int error = fd < 0 ? errno : write_all(fd, text);
    if (error != 0) throw write_error(path, error);
    return;
  }
  NewFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.rename_over_target(lasting);
}

}  // namespace specbound
