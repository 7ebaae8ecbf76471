#include "gui/model/conversation_store.h"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <random>

#include "app/cli.h"
#include "app/file_output.h"
#include "app/saved_conversation.h"
#include "error.h"

namespace specbound::gui {

namespace {

namespace fs = std::filesystem;

Conversation from_saved(SavedConversation saved) {
  Conversation conversation;
  conversation.title = std::move(saved.title);
  conversation.system = std::move(saved.system);
  conversation.changed = saved.changed;
  for (SavedMessage& message : saved.messages) {
    conversation.messages.push_back({.role = message.role,
                                     .text = std::move(message.text),
                                     .figures = std::move(message.figures),
                                     .number = message.number});
  }
  return conversation;
}

// A temporary of write_file, "NAME.json.PID.tmp", whose process is no more.
bool is_left_behind(const std::string& file) {
  constexpr std::string_view kEnd = ".tmp";
  if (!file.ends_with(kEnd)) return false;
  const std::string_view stem = std::string_view(file).substr(0, file.size() - kEnd.size());
  const size_t dot = stem.rfind('.');
  if (dot == std::string_view::npos || !stem.substr(0, dot).ends_with(".json")) return false;
  const auto pid = parse_int(stem.substr(dot + 1));
  return pid && *pid > 0 && *pid <= INT32_MAX && kill(static_cast<pid_t>(*pid), 0) != 0 &&
         errno == ESRCH;
}

// Names in a folder, in order; empty where there is no folder yet.
std::vector<std::string> names_in(const std::string& folder, std::vector<std::string>& problems) {
  std::vector<std::string> names;
  DIR* directory = opendir(folder.c_str());
  if (directory == nullptr) {
    if (errno != ENOENT) {
      problems.push_back(
          format("%s: cannot read saved conversations: %s", folder.c_str(), std::strerror(errno)));
    }
    return names;
  }
  while (const dirent* entry = readdir(directory)) names.emplace_back(entry->d_name);
  closedir(directory);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::string default_conversations_folder() {
  const char* data = std::getenv("XDG_DATA_HOME");
  if (data != nullptr && data[0] == '/') return std::string(data) + "/specbound/conversations";
  const char* home = std::getenv("HOME");
  if (home == nullptr || home[0] != '/') {
    throw Error(ErrorCode::kUsage,
                "no folder to keep conversations in: set HOME or XDG_DATA_HOME to one");
  }
  return std::string(home) + "/.local/share/specbound/conversations";
}

std::string conversation_json(const Conversation& conversation) {
  SavedConversation saved = {conversation.title, conversation.system, conversation.changed, {}};
  for (const Message& message : conversation.messages) {
    saved.messages.push_back({message.role, message.text, message.figures, message.number});
  }
  return saved_conversation_json(saved);
}

Conversation parse_conversation(std::string_view text, const std::string& name) {
  return from_saved(parse_saved_conversation(text, name));
}

Conversation read_conversation(const std::string& path) {
  return from_saved(read_saved_conversation(path));
}

std::string ConversationStore::path_of(const std::string& id) const {
  SB_CHECK(!id.empty() && id.find('/') == std::string::npos);
  return folder_ + "/" + id + ".json";
}

std::vector<Conversation> ConversationStore::load(std::vector<std::string>& problems) const {
  constexpr std::string_view kEnd = ".json";
  std::vector<Conversation> conversations;
  if (folder_.empty()) return conversations;
  for (const std::string& file : names_in(folder_, problems)) {
    const std::string path = folder_ + "/" + file;
    if (is_left_behind(file)) unlink(path.c_str());
    if (!file.ends_with(kEnd) || file.size() == kEnd.size() || file[0] == '.') continue;
    try {
      conversations.push_back(read_conversation(path));
      conversations.back().id = file.substr(0, file.size() - kEnd.size());
    } catch (const Error& e) {
      problems.push_back(e.what());
    }
  }
  std::stable_sort(
      conversations.begin(), conversations.end(),
      [](const Conversation& a, const Conversation& b) { return a.changed > b.changed; });
  return conversations;
}

void ConversationStore::save(const Conversation& conversation) const {
  if (folder_.empty()) return;
  std::error_code error;
  if (fs::create_directories(folder_, error)) {
    fs::permissions(folder_, fs::perms::owner_all, error);  // what is said here is private
  }
  if (error) {
    throw Error(ErrorCode::kFile,
                folder_ + ": cannot make a folder for conversations: " + error.message());
  }
  write_file(path_of(conversation.id), conversation_json(conversation));
}

void ConversationStore::remove(const std::string& id) const {
  if (folder_.empty()) return;
  const std::string path = path_of(id);
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    throw Error(ErrorCode::kFile,
                format("%s: cannot delete: %s", path.c_str(), std::strerror(errno)));
  }
}

std::string ConversationStore::new_id() const {
  std::random_device random;
  for (;;) {
    const std::time_t now = std::time(nullptr);
    std::tm local = {};
    localtime_r(&now, &local);
    char date[32] = {};
    std::strftime(date, sizeof date, "%Y-%m-%d-%H%M%S", &local);
    const std::string id = format("%s-%08x", date, static_cast<unsigned>(random()));
    std::error_code ignored;
    if (folder_.empty() || !fs::exists(path_of(id), ignored)) return id;
  }
}

}  // namespace specbound::gui
