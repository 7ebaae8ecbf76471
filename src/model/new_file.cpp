#include "model/new_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "descriptor.h"
#include "error.h"

namespace fs = std::filesystem;

namespace specbound {

namespace {

// What a symbolic link leads to, be it there or not: that is written, and the link stays.
std::string followed(const std::string& path) {
  constexpr int kMostLinks = 40;  // as the system has it
  std::error_code error;
  fs::path at = path;
  for (int i = 0; i < kMostLinks && fs::is_symlink(at, error); ++i) {
    const fs::path to = fs::read_symlink(at, error);
    if (error) break;
    at = at.parent_path() / to;  // `to` alone where it is absolute
  }
  return at.string();
}

}  // namespace

NewFile::NewFile(const std::string& target) : target_(followed(target)) {
  struct stat old = {};
  const bool replaces = ::stat(target_.c_str(), &old) == 0;
  // Named by process so that two writers of one target never share it; a few numbers, because a
  // killed process of the same id may have left its own.
  for (int attempt = 0; attempt < 100 && fd_ < 0; ++attempt) {
    path_ = format("%s.tmp-%d-%d", target_.c_str(), static_cast<int>(::getpid()), attempt);
    // What stood there may be private: never readable by more people than it was.
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, replaces ? 0600 : 0666);
    if (fd_ < 0 && errno != EEXIST) break;
  }
  if (fd_ < 0) fail("cannot write the temporary file beside it");
  if (replaces) (void)::fchmod(fd_, old.st_mode & 07777);
}

NewFile::~NewFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!renamed_) ::unlink(path_.c_str());
}

void NewFile::write(std::span<const std::byte> bytes) {
  errno = write_whole(fd_, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (errno != 0) fail("cannot write the file");
}

void NewFile::rename_over_target(bool lasting) {
  // Some file systems cannot sync a file; that is no want of room and no broken disk.
  if (lasting && ::fsync(fd_) != 0 && errno != EINVAL && errno != ENOTSUP && errno != EROFS) {
    fail("cannot write the file to the disk");
  }
  const int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0) fail("cannot close the file");
  if (::rename(path_.c_str(), target_.c_str()) != 0) fail("cannot rename the written file");
  renamed_ = true;
  if (!lasting) return;
  // The rename itself reaches the disk with the directory; some file systems cannot sync one, and
  // the file is whole either way.
  const size_t slash = target_.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : target_.substr(0, slash + 1);
  const int directory_fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory_fd < 0) return;
  ::fsync(directory_fd);
  ::close(directory_fd);
}

void NewFile::fail(const char* what) const {
  const int error = errno;
  // The destructor does not run for an exception from the constructor; nothing exists then.
  throw Error(ErrorCode::kFile, format("%s: %s: %s", target_.c_str(), what, std::strerror(error)));
}

}  // namespace specbound
