#include "terminal/standard_output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "error.h"

namespace specbound {

bool write_stdout(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) {
    return true;
  }
  if (errno == EPIPE) return false;
  throw Error(ErrorCode::kFile,
              format("stdout: cannot write: %s", std::strerror(errno != 0 ? errno : EIO)));
}

}  // namespace specbound
