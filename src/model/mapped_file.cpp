#include "model/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "descriptor.h"
#include "error.h"

namespace specbound {
namespace {

// What stands at a path that is not a regular file, for the error message.
const char* kind_name(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO (named pipe)";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "no regular file";
}

// Without the device: some file systems have another number at each mount.
std::string identity_of(const struct stat& info) {
  std::string text = format("%llu %llu", static_cast<unsigned long long>(info.st_ino),
                            static_cast<unsigned long long>(info.st_size));
  for (const timespec& time : {info.st_mtim, info.st_ctim}) {
    text += format(" %lld.%09ld", static_cast<long long>(time.tv_sec), time.tv_nsec);
  }
  return text;
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  // O_NONBLOCK: opening a FIFO without a writer would otherwise wait for ever.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!file) {
    throw Error(ErrorCode::kFile,
                format("%s: cannot open the file: %s", path.c_str(), std::strerror(errno)));
  }
  struct stat info;
  if (::fstat(file.get(), &info) != 0) {
    throw Error(ErrorCode::kFile,
                format("%s: cannot inspect the file: %s", path.c_str(), std::strerror(errno)));
  }
  if (!S_ISREG(info.st_mode)) {
    throw Error(ErrorCode::kFile, format("%s: expected a regular file, found %s", path.c_str(),
                                         kind_name(info.st_mode)));
  }
  if (info.st_size <= 0) {
    throw Error(
        ErrorCode::kFile,
        format("%s: expected a file with content, found an empty one (0 bytes)", path.c_str()));
  }
  identity_ = identity_of(info);
  const size_t size = static_cast<size_t>(info.st_size);
  // No madvise: reading everything ahead would make `info` on a large file read all of its weights.
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) {
    throw Error(ErrorCode::kFile, format("%s: cannot map %zu bytes into memory: %s", path.c_str(),
                                         size, std::strerror(errno)));
  }
  data_ = static_cast<const std::byte*>(data);
  size_ = size;
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace specbound
