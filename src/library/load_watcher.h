// Who looks on while a model is downloaded and loaded, and how that is ended before it is done.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>

namespace specbound {

// Whoever asked for something has ended it, and nothing is left behind to show: loading, a table.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Empty: nobody looks on.
struct LoadWatcher {
  // `done` of `total` bytes (at first 0 of 1) of what `label` says: "repacking weights" of these,
  // "downloading" of the model's files. It may throw Interrupted, which ends the loading.
  std::function<void(const std::string& label, size_t done, size_t total)> progress;
  // Something to tell, in one line: text of any origin, such as a path, may be in it.
  std::function<void(const std::string& line)> note;
  const std::atomic<bool>* abort = nullptr;  // ends the loading
  bool quiet = false;                        // tells only what is not as it should be

  void say(const std::string& line) const {
    if (note) note(line);
  }
  // Of what is as it should be.
  void describe(const std::string& line) const {
    if (!quiet) say(line);
  }
};

}  // namespace specbound
