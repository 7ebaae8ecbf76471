#include "app/settings_file.h"

#include <algorithm>
#include <cstdlib>

#include "app/regular_file.h"
#include "app/terminal_text.h"
#include "app/text_input.h"
#include "error.h"
#include "text/utf8_check.h"

namespace specbound {

namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 20;
constexpr std::string_view kBlanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// One line of the file.
class Line {
 public:
  Line(std::string_view text, std::string place) : text_(trimmed(text)), place_(std::move(place)) {}

  bool is_empty() const { return text_.empty() || text_[0] == '#'; }
  bool is_section() const { return text_.starts_with('['); }

  std::string section() const {
    const size_t end = text_.find(']');
    if (end == std::string_view::npos) refuse("expected [COMMAND]");
    check_rest(text_.substr(end + 1), "]");
    const std::string_view name = trimmed(text_.substr(1, end - 1));
    if (name.empty()) refuse("expected [COMMAND]");
    return std::string(name);
  }

  void read_setting(FileSetting& into) const {
    const size_t equals = text_.find('=');
    if (equals == std::string_view::npos) refuse("expected NAME = VALUE");
    into.name = trimmed(text_.substr(0, equals));
    if (into.name.empty()) refuse("expected NAME = VALUE");
    const std::string_view value = trimmed(text_.substr(equals + 1));
    into.value = value.starts_with('"') ? quoted(value) : bare(value);
  }

 private:
  [[noreturn]] void refuse(const std::string& expected) const {
    throw Error(ErrorCode::kUsage,
                place_ + ": " + expected + ", found \"" + printable(text_) + "\"");
  }

  void check_rest(std::string_view rest, const char* after) const {
    rest = trimmed(rest);
    if (!rest.empty() && rest[0] != '#') refuse(format("expected nothing after %s", after));
  }

  // Up to a comment, which a blank parts from the value: colours such as #fff need no quotes.
  static std::string bare(std::string_view value) {
    if (value.starts_with('#')) return "";
    size_t end = value.size();
    for (size_t at = 1; at < value.size(); ++at) {
      if (value[at] == '#' && kBlanks.find(value[at - 1]) != std::string_view::npos) {
        end = at;
        break;
      }
    }
    return std::string(trimmed(value.substr(0, end)));
  }

  std::string quoted(std::string_view value) const {
    std::string out;
    for (size_t at = 1; at < value.size(); ++at) {
      char c = value[at];
      if (c == '"') {
        check_rest(value.substr(at + 1), "the closing quote");
        return out;
      }
      if (c == '\\' && at + 1 < value.size()) {
        c = value[++at];
        if (c == 'n') {
          c = '\n';
        } else if (c == 't') {
          c = '\t';
        } else if (c != '"' && c != '\\') {
          refuse("expected \\n, \\t, \\\" or \\\\ in quotes");
        }
      }
      out += c;
    }
    refuse("expected a closing quote");
  }

  std::string_view text_;
  std::string place_;
};

void check_text(std::string_view line, const std::string& place) {
  if (line.find('\0') != std::string_view::npos) {
    throw Error(ErrorCode::kUsage, place + ": expected text, found a NUL byte");
  }
  if (!is_utf8(line)) {
    throw Error(ErrorCode::kUsage,
                place + ": expected UTF-8, found \"" + printable(trimmed(line)) + "\"");
  }
}

std::string home() {
  const char* home = std::getenv("HOME");
  return home && home[0] == '/' ? home : "";
}

}  // namespace

std::string SettingsFile::place(int line) const {
  return shown_path(path) + ":" + std::to_string(line);
}

std::string default_settings_path() {
  constexpr const char* kFile = "/specbound/config";
  // The specification of XDG_CONFIG_HOME: a relative one counts as not set.
  const char* config = std::getenv("XDG_CONFIG_HOME");
  if (config && config[0] == '/') return std::string(config) + kFile;
  return home().empty() ? "" : home() + "/.config" + kFile;
}

std::string shown_path(const std::string& path) {
  const std::string folder = home();
  const bool inside = folder.size() > 1 && path.starts_with(folder + "/");
  return terminal_text(inside ? "~" + path.substr(folder.size()) : path);
}

std::string expand_home(const std::string& path) {
  return path.starts_with("~/") && !home().empty() ? home() + path.substr(1) : path;
}

SettingsFile read_settings_file(const std::string& path) {
  check_regular(path, kMaxBytes);
  return parse_settings(read_bytes(path), path);
}

SettingsFile parse_settings(std::string_view text, const std::string& path) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  SettingsFile file;
  file.path = path;
  std::string section;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string place = file.place(number);
    check_text(text.substr(0, end), place);
    const Line line(text.substr(0, end), place);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.is_empty()) continue;
    if (line.is_section()) {
      section = line.section();
      continue;
    }
    FileSetting setting{.section = section, .name = "", .value = "", .line = number};
    line.read_setting(setting);
    file.settings.push_back(std::move(setting));
  }
  return file;
}

}  // namespace specbound
