#include "gui/model/file_list.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "error.h"
#include "library/model_path.h"
#include "model/gguf_split.h"
#include "system/user_path.h"

namespace specbound::gui {

namespace {

namespace fs = std::filesystem;

std::string lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

bool is_wanted(const std::string& name, FileKind kind) {
  const std::string low = lower(name);
  if (kind == FileKind::kConversation) return low.ends_with(".json");
  return kind == FileKind::kTrace ||
         (low.ends_with(".gguf") && !low.ends_with(".heads.gguf") && !is_later_part(low));
}

// What is offered of a directory's entry; false for what is not.
bool take(const fs::directory_entry& entry, FileKind kind, FileEntry& taken) {
  std::error_code error;
  taken.name = entry.path().filename().string();
  if (taken.name.starts_with('.')) return false;
  taken.folder = entry.is_directory(error);
  if (taken.folder) return true;
  if (!is_wanted(taken.name, kind) || !entry.is_regular_file(error)) return false;
  taken.bytes = entry.file_size(error);
  return !error;
}

}  // namespace

void FileList::open(const std::string& folder, FileKind kind) {
  kind_ = kind;
  std::error_code ignored;
  fs::path path = fs::absolute(folder.empty() ? "." : folder, ignored).lexically_normal();
  if (!path.has_filename() && path.has_relative_path()) path = path.parent_path();
  folder_ = path.string();
  entries_.clear();
  problem_.clear();
  std::error_code error;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end;
       entry.increment(error)) {
    FileEntry taken;
    if (!take(*entry, kind, taken)) continue;
    if (entries_.size() == kMaxEntries) {
      problem_ = format("only %zu of the entries are shown", kMaxEntries);
      break;
    }
    entries_.push_back(std::move(taken));
  }
  if (error) problem_ = "cannot read this folder: " + error.message();
  std::sort(entries_.begin(), entries_.end(), [](const FileEntry& a, const FileEntry& b) {
    if (a.folder != b.folder) return a.folder;
    const std::string x = lower(a.name), y = lower(b.name);
    return x != y ? x < y : a.name < b.name;
  });
}

std::string FileList::parent() const {
  return fs::path(folder_).parent_path().string();
}

std::string FileList::path(const FileEntry& entry) const {
  return (fs::path(folder_) / entry.name).string();
}

std::vector<Place> places() {
  std::vector<Place> found;
  std::set<std::string> paths;
  const auto add = [&](const char* name, const fs::path& path) {
    std::error_code ignored;
    const std::string normal = path.lexically_normal().string();
    if (path.empty() || !fs::is_directory(path, ignored) || !paths.insert(normal).second) return;
    found.push_back({name, normal});
  };
  for (const std::string& model : bundled_model_candidates()) {
    std::error_code ignored;
    if (!fs::exists(model, ignored)) continue;
    add("Bundled models", fs::path(model).parent_path());
    break;
  }
  if (const std::string home = home_folder(); !home.empty()) {
    add("Downloads", fs::path(home) / "Downloads");
    add("Home", home);
  }
  std::error_code ignored;
  add("Started in", fs::current_path(ignored));
  add("Computer", "/");
  return found;
}

std::string size_text(uint64_t bytes) {
  constexpr const char* kUnits[] = {"KB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) return format("%d B", static_cast<int>(bytes));
  double size = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  while (size >= 999.5 && unit + 1 < std::size(kUnits)) {
    size /= 1000;
    ++unit;
  }
  return format("%.*f %s", size < 9.95 ? 1 : 0, size, kUnits[unit]);
}

std::string without_folders(std::string_view line) {
  std::string result;
  for (size_t at = 0; at < line.size();) {
    const bool path = line[at] == '/' && (at == 0 || line[at - 1] == ' ' || line[at - 1] == '(') &&
                      at + 1 < line.size() && line[at + 1] != ' ';
    if (path) {
      const size_t end = std::min(
          {line.find_first_of(",()", at), line.find(": ", at), line.find("; ", at), line.size()});
      const size_t name = line.substr(0, end).rfind('/') + 1;
      if (name < end) at = name;
    }
    result += line[at++];
  }
  return result;
}

}  // namespace specbound::gui
