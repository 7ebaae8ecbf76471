// What a folder has to offer somebody who looks for a model, a conversation or a trace. No drawing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace specbound::gui {

struct FileEntry {
  std::string name;
  bool folder = false;
  uint64_t bytes = 0;  // of a file

  bool operator==(const FileEntry&) const = default;
};

enum class FileKind {
  // *.gguf but exit heads (*.heads.gguf), which come with their model, and the files of a split
  // model behind its first
  kModel,
  kConversation,  // *.json
  kTrace,         // of --trace: any file
};

// A line of text with each absolute path in it cut down to the name of its file. A path ends at a
// comma, a parenthesis or the end of the line.
std::string without_folders(std::string_view line);

class FileList {
 public:
  static constexpr size_t kMaxEntries = 20000;  // of one folder; more are left out, and it is said

  // Reads a folder: folders and files of that kind, hidden names left out. A folder that cannot be
  // read has no entries and a problem.
  void open(const std::string& folder, FileKind kind = FileKind::kModel);

  const std::string& folder() const { return folder_; }               // absolute, without ..
  const std::vector<FileEntry>& entries() const { return entries_; }  // folders first, by name
  const std::string& problem() const { return problem_; }  // a line about it; empty: none
  FileKind kind() const { return kind_; }
  std::string parent() const;  // of "/": itself
  std::string path(const FileEntry& entry) const;

 private:
  FileKind kind_ = FileKind::kModel;
  std::string folder_;
  std::vector<FileEntry> entries_;
  std::string problem_;
};

// Folders to start from, those that are there: the bundled models, downloads, the home folder, the
// folder the program was started in, the root.
struct Place {
  std::string name, path;
};
std::vector<Place> places();

// "412 KB", "1.2 GB"; thousands, as file managers count.
std::string size_text(uint64_t bytes);

}  // namespace specbound::gui
