// What belongs to the whole process, for one test at a time: what it prints on stderr and reads
// from stdin, its environment.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include "read_file.h"
#include "temp_dir.h"

namespace specbound::test {

// What `action` writes to stderr.
template <class Action>
std::string stderr_of(const TempDir& folder, Action action) {
  const std::string path = folder / "stderr";
  std::fflush(stderr);
  const int kept = dup(STDERR_FILENO);
  const int file = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
  dup2(file, STDERR_FILENO);
  action();
  std::fflush(stderr);
  dup2(kept, STDERR_FILENO);
  close(file);
  close(kept);
  return read_file(path);
}

// While it is there, `text` is what stdin holds.
class StdinFrom {
 public:
  StdinFrom(const TempDir& folder, const std::string& text) : kept_(dup(STDIN_FILENO)) {
    const std::string path = folder / "stdin";
    std::ofstream(path, std::ios::binary) << text;
    const int file = open(path.c_str(), O_RDONLY);
    dup2(file, STDIN_FILENO);
    close(file);
  }
  ~StdinFrom() {
    dup2(kept_, STDIN_FILENO);
    close(kept_);
  }
  StdinFrom(const StdinFrom&) = delete;
  StdinFrom& operator=(const StdinFrom&) = delete;

 private:
  int kept_;
};

// With `value` in the environment as `name`, nullptr: without it, while it lives.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Environment() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

// The cache goes into a folder of the test's own.
class CacheFolder {
 public:
  explicit CacheFolder(const std::string& path) : variable_("XDG_CACHE_HOME", path.c_str()) {}

 private:
  Environment variable_;
};

}  // namespace specbound::test
