#include "repl/tab_completion.h"

#include <algorithm>
#include <filesystem>

#include "repl/commands.h"
#include "system/user_path.h"

namespace specbound {

namespace {

constexpr size_t kMostWords = 1000;

Completion of_words(size_t from, std::string_view begun, const std::vector<std::string>& words) {
  Completion completion{from, {}};
  for (const std::string& word : words) {
    if (word.starts_with(begun)) completion.words.push_back(word);
  }
  std::sort(completion.words.begin(), completion.words.end());
  return completion;
}

bool steers(std::string_view name) {
  return std::any_of(name.begin(), name.end(),
                     [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

// Names in the folder of `begun`, folders with a slash; hidden ones only when asked for.
Completion of_paths(size_t from, std::string_view begun) {
  const size_t slash = begun.rfind('/');
  const std::string_view folder =
      slash == std::string_view::npos ? std::string_view() : begun.substr(0, slash + 1);
  const std::string_view name = begun.substr(folder.size());
  Completion completion{from, {}};
  const std::string where = folder.empty() ? "." : home_expanded(folder);
  std::error_code error, ignored;
  for (std::filesystem::directory_iterator entry(where, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string found = entry->path().filename().string();
    if (!found.starts_with(name) || steers(found)) continue;
    if (found.starts_with('.') && name.empty()) continue;
    completion.words.push_back(std::string(folder) + found +
                               (entry->is_directory(ignored) ? "/" : ""));
    if (completion.words.size() == kMostWords) break;
  }
  std::sort(completion.words.begin(), completion.words.end());
  return completion;
}

size_t skip_blanks(std::string_view text, size_t at) {
  return std::min(text.find_first_not_of(" \t", at), text.size());
}

}  // namespace

std::string Completion::insertion() const {
  if (words.empty()) return {};
  if (words.size() == 1) return words[0].ends_with('/') ? words[0] : words[0] + ' ';
  std::string common = words[0];
  for (const std::string& word : words) {
    const auto parted = std::mismatch(common.begin(), common.end(), word.begin(), word.end()).first;
    common.erase(parted, common.end());
  }
  while (!common.empty() && (words[0].size() > common.size()) &&
         (words[0][common.size()] & 0xc0) == 0x80) {
    common.pop_back();  // not inside of a character
  }
  return common;
}

Completion complete(std::string_view head, const CompletionSource& source) {
  const size_t begin = skip_blanks(head, 0);
  if (begin == head.size() || head[begin] != '/') return {};
  const size_t end = head.find_first_of(" \t", begin);
  if (end == std::string_view::npos) {
    std::vector<std::string> names;
    for (const ChatCommand& command : chat_commands()) {
      for (const std::string& name : command.names()) names.push_back(name);
    }
    return of_words(begin, head.substr(begin), names);
  }
  const std::string_view command = head.substr(begin, end - begin);
  const size_t at = skip_blanks(head, end);
  const std::string_view rest = head.substr(at);
  if (command == "/load" || command == "/save") return of_paths(at, rest);
  if (command == "/spec") return of_words(at, rest, {"on", "off"});
  if (command != "/set") return {};
  const size_t name_end = rest.find_first_of(" \t");
  if (name_end == std::string_view::npos) return of_words(at, rest, source.settings);
  const size_t value = skip_blanks(rest, name_end);
  const std::string setting(rest.substr(0, name_end));
  const std::string_view begun = rest.substr(value);
  return source.takes_file(setting) ? of_paths(at + value, begun)
                                    : of_words(at + value, begun, source.values(setting));
}

}  // namespace specbound
