// What is asked of a file that a window opens, before it is opened: a pipe would wait for its
// writer, and a device may never end.
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "error.h"

namespace specbound {

// Throws Error(kFile) for what is not there or no regular file, Error(kLimit) above `most_bytes`.
inline void check_regular(const std::string& path, uint64_t most_bytes) {
  const std::string name = printable(path);
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) {
    throw Error(ErrorCode::kFile,
                format("%s: cannot open: %s", name.c_str(), std::strerror(errno)));
  }
  if (!S_ISREG(status.st_mode)) throw Error(ErrorCode::kFile, name + ": not a regular file");
  if (static_cast<uint64_t>(status.st_size) > most_bytes) {
    throw Error(ErrorCode::kLimit,
                format("%s: expected at most %llu MiB, found %lld bytes", name.c_str(),
                       static_cast<unsigned long long>(most_bytes >> 20),
                       static_cast<long long>(status.st_size)));
  }
}

}  // namespace specbound
