#include "cli/heads_output.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "error.h"
#include "model/exit_heads.h"
#include "model/gguf.h"
#include "system/file_output.h"

namespace specbound {

namespace fs = std::filesystem;

void check_heads_output(const std::string& path) {
  std::error_code ignored;
  bool heads = false;
  try {
    heads = fs::is_regular_file(path, ignored) &&
            Gguf::open(path).get_string("general.architecture") == kHeadsArchitecture;
  } catch (const Error&) {
    // No GGUF file, or half of one: check_new_file() knows what to do with it.
  }
  if (!heads) return check_new_file(path, "");
  if (access(path.c_str(), W_OK) != 0) {
    throw Error(ErrorCode::kFile, path + ": cannot write: the file is read-only");
  }
}

TemporaryFile::TemporaryFile(const std::string& target)
    : path_(target + format(".%d.tmp", static_cast<int>(getpid()))) {}

TemporaryFile::~TemporaryFile() {
  unlink(path_.c_str());
}

}  // namespace specbound
