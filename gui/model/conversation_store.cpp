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
#include <nlohmann/json.hpp>
#include <random>

#include "app/cli.h"
#include "app/file_output.h"
#include "app/regular_file.h"
#include "app/terminal_text.h"
#include "app/text_input.h"
#include "error.h"

namespace specbound::gui {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kMaxFileBytes = size_t{16} << 20;  // more than anybody says in one conversation
constexpr size_t kMaxMessages = 10000;
constexpr int kMaxDepth = 8;  // a conversation has 3
constexpr int kVersion = 1;

const char* role_name(ChatMessage::Role role) {
  return role == ChatMessage::Role::kUser ? "user" : "assistant";
}

[[noreturn]] void wrong(const std::string& name, const std::string& what) {
  throw Error(ErrorCode::kFormat, name + ": no conversation of this program: " + what);
}

json parse_json(std::string_view text, const std::string& name) {
  const auto shallow = [&](int depth, json::parse_event_t, json&) {
    if (depth > kMaxDepth) wrong(name, format("nested deeper than %d levels", kMaxDepth));
    return true;
  };
  try {
    return json::parse(text.begin(), text.end(), shallow);
  } catch (const json::exception& e) {
    // Its message quotes the file.
    wrong(name, "expected JSON, found " + terminal_text(printable(e.what())));
  }
}

const json& field(const json& object, const char* key, const std::string& where,
                  const std::string& name) {
  const auto found = object.find(key);
  if (found == object.end()) wrong(name, format("expected \"%s\" %s", key, where.c_str()));
  return *found;
}

std::string string_field(const json& object, const char* key, const std::string& where,
                         const std::string& name) {
  const json& value = field(object, key, where, name);
  if (!value.is_string()) {
    wrong(name,
          format("expected text as \"%s\" %s, found %s", key, where.c_str(), value.type_name()));
  }
  return value.get<std::string>();
}

std::string optional_string(const json& object, const char* key, const std::string& where,
                            const std::string& name) {
  return object.contains(key) ? string_field(object, key, where, name) : "";
}

// Whole numbers of 0 to `max`; anything else is refused.
int64_t integer_field(const json& object, const char* key, int64_t max, const std::string& where,
                      const std::string& name) {
  const auto found = object.find(key);
  if (found == object.end()) return 0;
  // What JSON can say above int64 is unsigned.
  const bool fits =
      found->is_number_integer() &&
      (!found->is_number_unsigned() || found->get<uint64_t>() <= static_cast<uint64_t>(max)) &&
      found->get<int64_t>() >= 0 && found->get<int64_t>() <= max;
  if (!fits) {
    wrong(name, format("expected a whole number of 0 to %lld as \"%s\" %s",
                       static_cast<long long>(max), key, where.c_str()));
  }
  return found->get<int64_t>();
}

Message parse_message(const json& object, size_t index, const std::string& name) {
  const std::string where = format("in message %zu", index);
  if (!object.is_object()) {
    wrong(name, format("expected an object as message %zu, found %s", index, object.type_name()));
  }
  Message message;
  message.role = index % 2 == 0 ? ChatMessage::Role::kUser : ChatMessage::Role::kAssistant;
  const std::string role = string_field(object, "role", where, name);
  if (role != role_name(message.role)) {
    wrong(name, format("expected \"%s\" as \"role\" %s, found \"%s\"", role_name(message.role),
                       where.c_str(), printable(role).c_str()));
  }
  message.text = string_field(object, "text", where, name);
  message.figures = optional_string(object, "figures", where, name);
  message.number = static_cast<uint32_t>(integer_field(object, "number", UINT32_MAX, where, name));
  return message;
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
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  for (const Message& message : conversation.messages) {
    nlohmann::ordered_json object = {{"role", role_name(message.role)}, {"text", message.text}};
    if (message.role == ChatMessage::Role::kAssistant) {
      object["figures"] = message.figures;
      object["number"] = message.number;
    }
    messages.push_back(std::move(object));
  }
  const nlohmann::ordered_json object = {{"version", kVersion},
                                         {"title", conversation.title},
                                         {"system", conversation.system},
                                         {"changed", conversation.changed},
                                         {"messages", std::move(messages)}};
  return object.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Conversation parse_conversation(std::string_view text, const std::string& name) {
  if (text.size() > kMaxFileBytes) {
    throw Error(ErrorCode::kLimit, format("%s: expected at most %zu MiB, found %zu bytes",
                                          name.c_str(), kMaxFileBytes >> 20, text.size()));
  }
  const json object = parse_json(text, name);
  if (!object.is_object()) {
    wrong(name, format("expected an object, found %s", object.type_name()));
  }
  const std::string where = "at the top";
  const int64_t version = integer_field(object, "version", INT32_MAX, where, name);
  if (version != kVersion) {
    wrong(name,
          format("expected \"version\" %d, found %lld", kVersion, static_cast<long long>(version)));
  }
  Conversation conversation;
  conversation.title = title_from(optional_string(object, "title", where, name));
  conversation.system = optional_string(object, "system", where, name);
  conversation.changed = integer_field(object, "changed", INT64_MAX, where, name);
  const json& messages = field(object, "messages", where, name);
  if (!messages.is_array()) {
    wrong(name, format("expected a list as \"messages\", found %s", messages.type_name()));
  }
  if (messages.size() > kMaxMessages) {
    wrong(name, format("expected at most %zu messages, found %zu", kMaxMessages, messages.size()));
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    conversation.messages.push_back(parse_message(messages[i], i, name));
  }
  return conversation;
}

Conversation read_conversation(const std::string& path) {
  check_regular(path, kMaxFileBytes);
  return parse_conversation(read_bytes(path), path);
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
