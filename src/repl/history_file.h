// The lines that were sent, over all runs, in $XDG_STATE_HOME/specbound/history (without that
// variable, or with a relative path in it, ~/.local/state). For its owner alone, one entry a line;
// line ends and backslashes inside of one are spelled \n and \\ there. Any number of processes
// append to it at once; what is no entry in it does not matter.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace specbound {

// Empty where neither XDG_STATE_HOME nor HOME says where.
std::string history_path();

class HistoryFile {
 public:
  static constexpr size_t kMostEntries = 1000;         // kept; up to twice as many lie in the file
  static constexpr size_t kMostEntryBytes = 64 << 10;  // a longer one is not kept
  static constexpr size_t kMostFileBytes = size_t{4} << 20;  // of the file's end, that are read

  // An empty path keeps nothing.
  explicit HistoryFile(std::string path) : path_(std::move(path)) {}

  // The newest entries, oldest first; none where there is no file or it cannot be read.
  std::vector<std::string> load() const;

  // Appends an entry, and cuts the file where it has grown to twice its size. Throws Error(kFile).
  void add(std::string_view entry) const;

 private:
  std::string path_;
};

}  // namespace specbound
