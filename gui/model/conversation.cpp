#include "gui/model/conversation.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <random>
#include <string_view>

#include "descriptor.h"
#include "error.h"
#include "system/file_output.h"
#include "system/number_text.h"
#include "system/user_path.h"

namespace specbound::gui {

namespace {

char small(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

namespace fs = std::filesystem;

// A temporary of write_file, "NAME.json.tmp-PID-N", whose process is no more.
bool is_left_behind(const std::string& file) {
  constexpr std::string_view kMark = ".json.tmp-";
  const size_t at = file.rfind(kMark);
  if (at == std::string::npos) return false;
  const std::string_view numbers = std::string_view(file).substr(at + kMark.size());
  const auto pid = parse_int(numbers.substr(0, numbers.find('-')));
  return pid && *pid > 0 && *pid <= INT32_MAX && kill(static_cast<pid_t>(*pid), 0) != 0 &&
         errno == ESRCH;
}

// Names in a folder, in order; empty where there is no folder yet.
std::vector<std::string> names_in(const std::string& folder, std::vector<std::string>& problems) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    problems.push_back(folder + ": cannot read saved conversations: " + error.message());
  }
  std::sort(names.begin(), names.end());
  return names;
}

constexpr size_t kMaxNameBytes = 60;

// "> " in front of each line.
std::string as_quote(std::string_view text) {
  std::string result = "> ";
  for (const char c : text) {
    result += c;
    if (c == '\n') result += "> ";
  }
  return result;
}

std::string to_markdown(const Conversation& conversation) {
  std::string text = "# " + conversation.title + "\n";
  if (!conversation.system.empty()) {
    text += "\n**System prompt**\n\n" + as_quote(conversation.system) + "\n";
  }
  for (const Message& message : conversation.messages) {
    const bool user = message.role == ChatMessage::Role::kUser;
    text += user ? "\n**You**\n\n" : "\n**Assistant**\n\n";
    text += message.text + "\n";
    if (!message.figures.empty()) text += "\n*" + message.figures + "*\n";
  }
  return text;
}

std::string to_text(const Conversation& conversation) {
  std::string text = conversation.title + "\n";
  if (!conversation.system.empty()) text += "\nSystem prompt:\n" + conversation.system + "\n";
  for (const Message& message : conversation.messages) {
    const bool user = message.role == ChatMessage::Role::kUser;
    text += std::string("\n") + (user ? "You" : "Assistant") + ":\n" + message.text + "\n";
  }
  return text;
}

struct FormatNames {
  const char *name, *extension;
};
const FormatNames& names_of(ExportFormat format) {
  static constexpr FormatNames kNames[] = {
      {"Markdown", ".md"}, {"Text", ".txt"}, {"JSON", ".json"}};
  return kNames[static_cast<int>(format)];
}

}  // namespace

uint64_t fresh_key() {
  static std::atomic<uint64_t> newest = 0;
  return ++newest;
}

int Message::token_at(size_t at) const {
  const auto token = std::upper_bound(token_ends.begin(), token_ends.end(), at);
  return token == token_ends.end() ? -1 : static_cast<int>(token - token_ends.begin());
}

TextRange Message::token_bytes(int i) const {
  if (i < 0 || static_cast<size_t>(i) >= token_ends.size()) return {};
  return {i == 0 ? 0 : token_ends[i - 1], token_ends[i]};
}

bool Conversation::mentions(std::string_view needle) const {
  const auto in = [&](const std::string& text) {
    return std::search(text.begin(), text.end(), needle.begin(), needle.end(),
                       [](char a, char b) { return small(a) == small(b); }) != text.end();
  };
  return needle.empty() || in(title) || std::ranges::any_of(messages, in, &Message::text);
}

std::vector<ChatMessage> Conversation::prompt(size_t n) const {
  std::vector<ChatMessage> prompt;
  if (!system.empty()) prompt.push_back({ChatMessage::Role::kSystem, system});
  for (size_t i = 0; i < std::min(n, messages.size()); ++i) {
    prompt.push_back({messages[i].role, messages[i].text});
  }
  return prompt;
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

std::string default_conversations_folder() {
  const std::string folder = user_path("XDG_DATA_HOME", ".local/share", "conversations");
  if (!folder.empty()) return folder;
  throw Error(ErrorCode::kUsage,
              "no folder to keep conversations in: set HOME or XDG_DATA_HOME to one");
}

std::string conversation_json(const Conversation& conversation) {
  const std::vector<Message>& messages = conversation.messages;
  return saved_conversation_json({conversation.title,
                                  conversation.system,
                                  conversation.changed,
                                  {messages.begin(), messages.end()}});
}

Conversation read_conversation(const std::string& path) {
  SavedConversation saved = read_saved_conversation(path);
  Conversation conversation;
  conversation.title = std::move(saved.title);
  conversation.system = std::move(saved.system);
  conversation.changed = saved.changed;
  for (SavedMessage& message : saved.messages) {
    conversation.messages.push_back({std::move(message)});
  }
  return conversation;
}

std::string ConversationStore::path_of(const std::string& name) const {
  SB_CHECK(!name.empty() && name.find('/') == std::string::npos);
  return folder_ + "/" + name + ".json";
}

std::vector<Conversation> ConversationStore::load(std::vector<std::string>& problems) {
  constexpr std::string_view kEnd = ".json";
  std::vector<Conversation> conversations;
  if (folder_.empty()) return conversations;
  for (const std::string& file : names_in(folder_, problems)) {
    const std::string path = folder_ + "/" + file;
    if (is_left_behind(file)) {
      const Descriptor turn = in_turn(folder_);  // its writer may have its number elsewhere
      unlink(path.c_str());
    }
    if (!file.ends_with(kEnd) || file.size() == kEnd.size() || file[0] == '.') continue;
    const std::string id = file.substr(0, file.size() - kEnd.size());
    const auto version = version_of(id);
    try {
      conversations.push_back(read_conversation(path));
      conversations.back().id = id;
      kept_[id] = {id, version};
    } catch (const Error& e) {
      problems.push_back(e.what());
    }
  }
  std::stable_sort(
      conversations.begin(), conversations.end(),
      [](const Conversation& a, const Conversation& b) { return a.changed > b.changed; });
  return conversations;
}

std::optional<ConversationStore::Version> ConversationStore::version_of(
    const std::string& name) const {
  struct stat status = {};
  if (stat(path_of(name).c_str(), &status) != 0) return std::nullopt;
  return Version{status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

bool ConversationStore::save(const Conversation& conversation) {
  if (folder_.empty()) return false;
  std::error_code error;
  if (fs::create_directories(folder_, error)) {
    fs::permissions(folder_, fs::perms::owner_all, error);  // what is said here is private
  }
  if (error) {
    throw Error(ErrorCode::kFile,
                folder_ + ": cannot make a folder for conversations: " + error.message());
  }
  const std::string json = conversation_json(conversation);
  const Descriptor turn = in_turn(folder_);
  Kept& kept = kept_.try_emplace(conversation.id, Kept{conversation.id}).first->second;
  const auto there = version_of(kept.name);
  const bool anothers = there && there != kept.version;
  if (anothers) kept = {new_id()};
  write_file(path_of(kept.name), json);
  kept.version = version_of(kept.name);
  return anothers;
}

bool ConversationStore::remove(const std::string& id) {
  if (folder_.empty()) return true;
  const Descriptor turn = in_turn(folder_);
  const auto found = kept_.find(id);
  const Kept kept = found == kept_.end() ? Kept{id, version_of(id)} : found->second;
  if (found != kept_.end()) kept_.erase(found);
  const std::string path = path_of(kept.name);
  const auto there = version_of(kept.name);
  if (there && there != kept.version) return false;
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    throw Error(ErrorCode::kFile,
                format("%s: cannot delete: %s", path.c_str(), std::strerror(errno)));
  }
  return true;
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

const char* format_name(ExportFormat format) {
  return names_of(format).name;
}

std::string export_text(const Conversation& conversation, ExportFormat format) {
  if (format == ExportFormat::kJson) return conversation_json(conversation);
  const bool markdown = format == ExportFormat::kMarkdown;
  return clipboard_text(markdown ? to_markdown(conversation) : to_text(conversation));
}

std::string export_name(const Conversation& conversation, ExportFormat format) {
  std::string name;
  for (const char c : conversation.title) {
    if (name.size() >= kMaxNameBytes) break;
    const bool upper = c >= 'A' && c <= 'Z';
    const bool plain = upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (plain) name += static_cast<char>(upper ? c - 'A' + 'a' : c);
    if (!plain && !name.empty() && name.back() != '-') name += '-';
  }
  while (name.ends_with('-')) name.pop_back();
  return (name.empty() ? "conversation" : name) + names_of(format).extension;
}

std::string export_folder() {
  std::error_code error;
  if (const std::string home = home_folder(); !home.empty()) {
    const fs::path documents = fs::path(home) / "Documents";
    if (fs::is_directory(documents, error)) return documents.string();
    if (fs::is_directory(home, error)) return home;
  }
  return fs::current_path(error).string();
}

}  // namespace specbound::gui
