#include "cli/settings_file.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "cli/command.h"
#include "cli/help.h"
#include "error.h"
#include "system/regular_file.h"
#include "system/text_input.h"
#include "system/user_path.h"
#include "terminal/flag_names.h"
#include "terminal/terminal_text.h"
#include "text/utf8.h"

namespace specbound {

// ---- the file ----

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

}  // namespace

std::string SettingsFile::place(int line) const {
  return shown_path(path) + ":" + std::to_string(line);
}

std::string default_settings_path() {
  return user_path("XDG_CONFIG_HOME", ".config", "config");
}

std::string shown_path(const std::string& path) {
  const std::string folder = home_folder();
  const bool inside = folder.size() > 1 && path.starts_with(folder + "/");
  return terminal_text(inside ? "~" + path.substr(folder.size()) : path);
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

// ---- who gives what ----

namespace {

constexpr const char* kConfig = "--config";
constexpr const char* kNoConfig = "--no-config";

// Who says something, the strongest last.
enum class Level { kNobody, kFileTop, kFileSection, kEnvironment, kCommandLine };

struct Value {
  std::string text;
  std::string place;  // for complaints: SPECBOUND_TEMP, or PATH:3: temp
};

// What is known of one flag.
struct Given {
  Flag* flag = nullptr;
  Level level = Level::kNobody;
  std::vector<Value> values;  // empty on the command line; of a flag that repeats there are several
};

// What a switch is set to. Throws Error(kUsage).
bool is_on(const Value& value) {
  for (const char* on : {"on", "true", "yes", "1"}) {
    if (value.text == on) return true;
  }
  for (const char* off : {"off", "false", "no", "0"}) {
    if (value.text == off) return false;
  }
  throw Error(ErrorCode::kUsage,
              value.place + ": expected on or off, found \"" + printable(value.text) + "\"");
}

std::optional<Value> from_environment(const Flag& flag) {
  for (const std::string& name : flag.declared().names) {
    if (!name.starts_with("--")) continue;
    const std::string variable = environment_name(name.substr(2));
    // An empty one is what an unset variable leaves in a script.
    const char* text = std::getenv(variable.c_str());
    if (text && *text) return Value{text, variable};
  }
  return std::nullopt;
}

// A complaint without the flag in front: the place stands there.
std::string without_name(std::string complaint) {
  const size_t colon = complaint.find(": ");
  return complaint.starts_with('-') && colon != std::string::npos ? complaint.substr(colon + 2)
                                                                  : complaint;
}

// As if the command line had said so.
void give(const Given& given) {
  std::vector<std::string> values;
  for (const Value& value : given.values) values.push_back(value.text);
  if (given.flag->switched()) values = {"true"};
  try {
    given.flag->give(values, given.values.back().place);
  } catch (const Error& e) {
    throw Error(ErrorCode::kUsage,
                given.values.back().place + ": " + terminal_text(without_name(e.what())));
  }
}

// --config and --no-config themselves, which the environment may give, too.
void complete_from_environment(Flags& flags) {
  if (flags[kConfig].given() || flags[kNoConfig].given()) return;
  for (const char* name : {kConfig, kNoConfig}) {
    Flag& flag = flags[name];
    const std::optional<Value> value = from_environment(flag);
    if (!value || (flag.switched() && !is_on(*value))) continue;
    give({.flag = &flag, .level = Level::kEnvironment, .values = {*value}});
  }
}

// A line of the file whose name no flag has. Throws Error(kUsage).
class FileCheck {
 public:
  FileCheck(const SettingsFile& file, const CommandDefinition& mine) : file_(file), mine_(mine) {}

  void check(const FileSetting& setting) const {
    if (setting.section.empty() || setting.section == mine_.name) {
      if (settable(mine_, setting.name)) return;
    }
    std::vector<CommandDefinition> searched;
    for (const Command* command : commands()) {
      if (!setting.section.empty() && setting.section != command->about().name) continue;
      searched.push_back(command->definition());
      // Of a command that this build leaves out nothing is known.
      const bool absent = searched.back().flags.empty() && !setting.section.empty();
      if (absent || settable(searched.back(), setting.name)) return;
    }
    refuse(setting, searched);
  }

 private:
  static bool settable(const CommandDefinition& command, std::string_view name) {
    return std::ranges::any_of(command.flags, [&](const FlagDefinition& flag) {
      return flag.settable && flag.has_long_name(name);
    });
  }

  [[noreturn]] void refuse(const FileSetting& setting,
                           const std::vector<CommandDefinition>& searched) const {
    std::string what;
    std::vector<std::string> known;
    if (searched.empty()) {
      for (const Command* command : commands()) known.emplace_back(command->about().name);
      what = format("[%s]: there is no such command", printable(setting.section).c_str());
    } else {
      bool elsewhere = false;
      for (const CommandDefinition& command : searched) {
        for (const FlagDefinition& flag : command.flags) {
          elsewhere |= flag.has_long_name(setting.name);
          if (flag.settable) known.push_back(flag.long_name());
        }
      }
      what =
          printable(setting.name) +
          (elsewhere                 ? ": is read from the command line only"
           : setting.section.empty() ? ": no command has such a setting"
                                     : format(": %s has no such setting", setting.section.c_str()));
      if (elsewhere) known.clear();
    }
    const std::string name = searched.empty() ? setting.section : setting.name;
    const std::string meant = nearest(name, known);
    throw Error(ErrorCode::kUsage,
                file_.place(setting.line) + ": " + what +
                    (meant.empty() ? "" : format("; did you mean %s?", meant.c_str())));
  }

  const SettingsFile& file_;
  const CommandDefinition& mine_;
};

SettingsFile read_file(Flags& flags, const CommandDefinition& mine) {
  const std::string path = settings_path(flags);
  if (path.empty()) return {};
  SettingsFile file = read_settings_file(path);
  const FileCheck check(file, mine);
  std::set<std::pair<std::string_view, std::string_view>> checked;  // a look at every command each
  for (const FileSetting& setting : file.settings) {
    if (checked.emplace(setting.section, setting.name).second) check.check(setting);
  }
  return file;
}

// Where the flag's value comes from, and which it is.
Given find(Flag& flag, const std::string& command, const SettingsFile& file) {
  Given given{.flag = &flag, .level = Level::kNobody, .values = {}};
  const FlagDefinition& declared = flag.declared();
  if (flag.given()) {
    given.level = Level::kCommandLine;
    return given;
  }
  if (const std::optional<Value> value = from_environment(flag)) {
    given.level = Level::kEnvironment;
    given.values = {*value};
  } else {
    for (const FileSetting& setting : file.settings) {
      const bool mine = setting.section == command;
      if ((!mine && !setting.section.empty()) || !declared.has_long_name(setting.name)) continue;
      const Level level = mine ? Level::kFileSection : Level::kFileTop;
      if (level < given.level) continue;
      if (level > given.level || !declared.repeats) given.values.clear();
      given.level = level;
      const bool is_path = declared.takes() == FlagDefinition::Takes::kFile ||
                           declared.takes() == FlagDefinition::Takes::kDirectory;
      given.values.push_back({is_path ? home_expanded(setting.value) : setting.value,
                              file.place(setting.line) + ": " + setting.name});
    }
  }
  if (!given.values.empty() && flag.switched() && !is_on(given.values.back())) {
    given.level = Level::kNobody;  // as it is without the flag
  }
  return given;
}

// Somebody stronger gives a flag that overrides it: tau in a file must not change what `--preset
// paper` means. Of the same level the commands judge.
bool is_overridden(const Given& given, const std::vector<Given>& all) {
  return std::ranges::any_of(all, [&](const Given& other) {
    if (other.level <= given.level) return false;
    const bool* const on = other.flag->switched();
    if (other.level == Level::kCommandLine && on && !*on) return false;  // --raw=off
    return std::ranges::any_of(other.flag->overridden(), [&](const std::string& name) {
      return given.flag->declared().has_long_name(name);
    });
  });
}

// The same for a flag of another drafter than the one that was asked for, or that a command has
// whose --speculator is its own.
bool is_of_another_drafter(const Given& given, const std::vector<Given>& all, const Flags& flags) {
  const std::string parameter = parameter_of(given.flag->declared().long_name());
  const std::string value = given.values.empty() ? "" : given.values.back().text;
  const auto is_for = [&](std::string_view drafter) {
    return is_for_drafter(parameter, value, drafter);
  };
  const Flag* const speculator = flags.find("--speculator");
  if (!speculator) return false;
  if (speculator->given()) return !is_for(speculator->values().back());
  if (!speculator->declared().settable) return !is_for("");
  const auto asked = std::ranges::find(all, speculator, &Given::flag);
  return asked != all.end() && asked->level > given.level && !is_for(asked->values.back().text);
}

// "settings from ~/.config/specbound/config: temp, threads"
void tell(FILE* err, const std::string& source, const std::string& names) {
  if (!names.empty()) {
    std::fprintf(err, "settings from %s: %s\n", source.c_str(), names.c_str());
  }
}

}  // namespace

void add_settings_flags(Flags& flags) {
  const bool any =
      std::ranges::any_of(flags.list(), [](const auto& f) { return f->declared().settable; });
  if (!any || flags.find(kConfig)) return;
  const Flags::Group group(flags, "Settings");
  flags
      .add_file(kConfig, flags.settings.path,
                "read flags that are not given from this file (default: "
                "~/.config/specbound/config, where there is one); specbound help --settings says "
                "more")
      .command_line_only();
  flags.add_switch(kNoConfig, flags.settings.none, "read no such file").command_line_only();
}

std::string settings_path(Flags& flags) {
  if (!flags.find(kConfig)) return "";
  complete_from_environment(flags);
  const auto& [path, none] = flags.settings;
  if (!path.empty() && none) {
    throw Error(ErrorCode::kUsage, "--config and --no-config: give one of them");
  }
  if (!path.empty() || none) return path;
  const std::string usual = default_settings_path();
  std::error_code error;
  const auto type = std::filesystem::status(usual, error).type();
  return type == std::filesystem::file_type::not_found ? "" : usual;
}

void apply_settings(Flags& flags, const std::string& command, FILE* err) {
  if (!flags.find(kConfig)) return;
  const SettingsFile file = read_file(flags, flags.definition(command));
  std::vector<Given> all;
  for (const auto& flag : flags.list()) {
    if (!flag->declared().settable && !flag->given()) continue;
    Given given = find(*flag, command, file);
    if (given.level != Level::kNobody) all.push_back(std::move(given));
  }
  std::string from_file, from_environment;
  for (const Given& given : all) {
    if (given.level == Level::kCommandLine || is_overridden(given, all) ||
        is_of_another_drafter(given, all, flags)) {
      continue;
    }
    give(given);
    std::string& names = given.level == Level::kEnvironment ? from_environment : from_file;
    names += (names.empty() ? "" : ", ") + given.flag->declared().long_name();
  }
  const Flag* const quiet = flags.find("--quiet");
  if (quiet && quiet->given() && *quiet->switched()) return;
  tell(err, shown_path(file.path), from_file);
  tell(err, "the environment", from_environment);
}

std::string environment_name(const std::string& long_name) {
  std::string name = "SPECBOUND_";
  for (const char c : long_name) {
    name += c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return name;
}

std::string settings_help() {
  return "A flag that is not on the command line is looked for in the environment, as "
         "SPECBOUND_NAME (--top-k: SPECBOUND_TOP_K), then in the settings file under the "
         "command's [section], then at the file's top; else it has its default. Flags that stand "
         "for one run alone, such as prompts and files to write, are read from the command line "
         "only.\n\n"
         "The file is $XDG_CONFIG_HOME/specbound/config or ~/.config/specbound/config; --config "
         "FILE names another, --no-config none. A line is a name, = and a value; # begins a "
         "comment; double quotes keep blanks around a value, and in them \\n, \\t, \\\" and \\\\ "
         "are what they are in C. Switches are on or off; on the command line --name=off undoes "
         "one. A line on stderr names what came from where; with --quiet none does.\n\n"
         "  # ~/.config/specbound/config\n"
         "  model = ~/models/SmolLM3-Q4_K_M.gguf\n"
         "  temp = 0.6\n"
         "  [chat]\n"
         "  sys = \"Answer in one sentence.\"\n"
         "  [serve]\n"
         "  port = 8081";
}

}  // namespace specbound
