#include "gui/model/file_list.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <string_view>

#include "app/model_path.h"
#include "error.h"
#include "model/gguf_split.h"

namespace specbound::gui {

namespace {

namespace fs = std::filesystem;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

bool is_wanted(const std::string& name, FileKind kind) {
  const std::string low = lower(name);
  switch (kind) {
    case FileKind::kModel:
      return low.ends_with(".gguf") && !low.ends_with(".heads.gguf") && !is_later_part(low);
    case FileKind::kConversation:
      return low.ends_with(".json");
    case FileKind::kTrace:
      break;
  }
  return true;
}

// What is offered of a directory's entry; false for what is not.
bool take(const dirent& entry, const std::string& folder, FileKind kind, FileEntry& taken) {
  taken.name = entry.d_name;
  if (taken.name.starts_with('.')) return false;
  if (entry.d_type == DT_DIR) {
    taken.folder = true;
    return true;
  }
  const bool wanted = is_wanted(taken.name, kind);
  if (entry.d_type == DT_REG && !wanted) return false;
  // Links and file systems that do not tell; and sizes.
  struct stat status = {};
  if (stat((folder + "/" + taken.name).c_str(), &status) != 0) return false;
  taken.folder = S_ISDIR(status.st_mode);
  taken.bytes = taken.folder ? 0 : static_cast<uint64_t>(status.st_size);
  return taken.folder || (wanted && S_ISREG(status.st_mode));
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
  DIR* directory = opendir(folder_.c_str());
  if (directory == nullptr) {
    problem_ = format("cannot read this folder: %s", std::strerror(errno));
    return;
  }
  while (const dirent* entry = readdir(directory)) {
    FileEntry taken;
    if (!take(*entry, folder_, kind, taken)) continue;
    if (entries_.size() == kMaxEntries) {
      problem_ = format("only %zu of the entries are shown", kMaxEntries);
      break;
    }
    entries_.push_back(std::move(taken));
  }
  closedir(directory);
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
  if (const char* home = std::getenv("HOME"); home != nullptr && home[0] == '/') {
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

}  // namespace specbound::gui
