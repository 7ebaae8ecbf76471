#include "app/settings.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "app/cli_definition.h"
#include "app/command_table.h"
#include "app/settings_file.h"
#include "app/speculation_flags.h"
#include "app/suggestion.h"
#include "app/terminal_text.h"
#include "error.h"

namespace specbound {

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
  CLI::Option* option = nullptr;
  OptionDefinition definition;
  Level level = Level::kNobody;
  std::vector<Value> values;  // empty on the command line; of a flag that repeats there are several
};

// A flag silences one that is said by somebody weaker and that it contradicts or stands for: tau in
// a file must not change what `--preset paper` means. Of the same level the commands judge.
constexpr std::array<std::pair<std::string_view, std::string_view>, 20> kSilences = {{
    {"preset", "w-max"},
    {"preset", "d-max"},
    {"preset", "alpha"},
    {"preset", "tau"},
    {"preset", "table-tau"},
    {"preset", "check-layers"},
    {"preset", "shortlist"},
    {"preset", "confidence"},
    {"preset", "head"},
    {"preset", "no-anneal"},
    {"preset", "no-depth-bound"},
    {"preset", "no-width-bound"},
    {"raw", "sys"},
    {"raw", "chat-template"},
    {"sys", "raw"},
    {"chat-template", "raw"},
    {"device", "gpu-layers"},
    {"gpu-layers", "device"},
    {"api-key", "api-key-file"},
    {"api-key-file", "api-key"},
}};

bool has_long_name(const OptionDefinition& option, std::string_view name) {
  return std::any_of(option.names.begin(), option.names.end(), [&](const std::string& n) {
    return n.starts_with("--") && n.substr(2) == name;
  });
}

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

bool is_switch(const CLI::Option& option) {
  return option.get_items_expected_max() == 0;
}

std::optional<Value> from_environment(const CLI::Option& option) {
  for (const std::string& name : option.get_lnames()) {
    const std::string variable = environment_name(name);
    // An empty one is what an unset variable leaves in a script.
    const char* text = std::getenv(variable.c_str());
    if (text && *text) return Value{text, variable};
  }
  return std::nullopt;
}

// CLI11's words without the flag in front: the place stands there.
std::string without_name(std::string complaint) {
  const size_t colon = complaint.find(": ");
  return complaint.starts_with('-') && colon != std::string::npos ? complaint.substr(colon + 2)
                                                                  : complaint;
}

// As if the command line had said so.
void give(const Given& given) {
  if (is_switch(*given.option)) {
    given.option->add_result("true");
  } else {
    for (const Value& value : given.values) given.option->add_result(value.text);
  }
  try {
    given.option->run_callback();
  } catch (const CLI::ParseError& e) {
    throw Error(ErrorCode::kUsage,
                given.values.back().place + ": " + terminal_text(without_name(e.what())));
  }
}

// --config and --no-config themselves, which the environment may give, too.
void complete_from_environment(CLI::App& app) {
  if (app.count(kConfig) + app.count(kNoConfig) > 0) return;
  for (const char* name : {kConfig, kNoConfig}) {
    CLI::Option* option = app.get_option(name);
    const std::optional<Value> value = from_environment(*option);
    if (!value || (is_switch(*option) && !is_on(*value))) continue;
    give({.option = option, .definition = {}, .level = Level::kEnvironment, .values = {*value}});
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
    for (const Command& command : commands()) {
      if (!setting.section.empty() && setting.section != command.name) continue;
      searched.push_back(definition_of(command));
      // Of a command that this build leaves out nothing is known.
      const bool absent = searched.back().options.empty() && !setting.section.empty();
      if (absent || settable(searched.back(), setting.name)) return;
    }
    refuse(setting, searched);
  }

 private:
  static bool settable(const CommandDefinition& command, std::string_view name) {
    return std::any_of(
        command.options.begin(), command.options.end(),
        [&](const OptionDefinition& o) { return o.settable && has_long_name(o, name); });
  }

  [[noreturn]] void refuse(const FileSetting& setting,
                           const std::vector<CommandDefinition>& searched) const {
    std::string what;
    std::vector<std::string> known;
    if (searched.empty()) {
      for (const Command& command : commands()) known.emplace_back(command.name);
      what = format("[%s]: there is no such command", printable(setting.section).c_str());
    } else {
      bool elsewhere = false;
      for (const CommandDefinition& command : searched) {
        for (const OptionDefinition& option : command.options) {
          elsewhere |= has_long_name(option, setting.name);
          if (option.settable) known.push_back(option.long_name());
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

SettingsFile read_file(CLI::App& app, const CommandDefinition& mine) {
  const std::string path = settings_path(app);
  if (path.empty()) return {};
  SettingsFile file = read_settings_file(path);
  const FileCheck check(file, mine);
  std::set<std::pair<std::string_view, std::string_view>> checked;  // a look at every command each
  for (const FileSetting& setting : file.settings) {
    if (checked.emplace(setting.section, setting.name).second) check.check(setting);
  }
  return file;
}

// Where the option's value comes from, and which it is.
Given find(CLI::Option& option, const OptionDefinition& definition, const std::string& command,
           const SettingsFile& file) {
  Given given{.option = &option, .definition = definition, .level = Level::kNobody, .values = {}};
  if (option.count() > 0) {
    given.level = Level::kCommandLine;
    return given;
  }
  if (const std::optional<Value> value = from_environment(option)) {
    given.level = Level::kEnvironment;
    given.values = {*value};
  } else {
    for (const FileSetting& setting : file.settings) {
      const bool mine = setting.section == command;
      if ((!mine && !setting.section.empty()) || !has_long_name(definition, setting.name)) continue;
      const Level level = mine ? Level::kFileSection : Level::kFileTop;
      if (level < given.level) continue;
      if (level > given.level || !definition.repeats) given.values.clear();
      given.level = level;
      const bool is_path = definition.takes() == OptionDefinition::Takes::kFile ||
                           definition.takes() == OptionDefinition::Takes::kDirectory;
      given.values.push_back({is_path ? expand_home(setting.value) : setting.value,
                              file.place(setting.line) + ": " + setting.name});
    }
  }
  if (!given.values.empty() && is_switch(option) && !is_on(given.values.back())) {
    given.level = Level::kNobody;  // as it is without the flag
  }
  return given;
}

bool silenced(const Given& given, const std::vector<Given>& all) {
  return std::any_of(all.begin(), all.end(), [&](const Given& other) {
    if (other.level <= given.level) return false;
    if (other.level == Level::kCommandLine && is_switch(*other.option) &&
        !other.option->as<bool>()) {
      return false;  // --raw=off
    }
    return std::any_of(kSilences.begin(), kSilences.end(), [&](const auto& silence) {
      return has_long_name(other.definition, silence.first) &&
             has_long_name(given.definition, silence.second);
    });
  });
}

// The same for a flag of another drafter than the one that was asked for, or that a command has
// whose --speculator is its own.
bool of_another_drafter(const Given& given, const std::vector<Given>& all, const CLI::App& app) {
  const char* drafter = drafter_of(given.definition.long_name());
  const CLI::Option* speculator = app.get_option_no_throw("--speculator");
  if (!drafter || !speculator) return false;
  if (speculator->count() > 0) return speculator->results().back() != drafter;
  if (!speculator->get_configurable()) return true;
  const auto asked = std::ranges::find(all, speculator, &Given::option);
  return asked != all.end() && asked->level > given.level && asked->values.back().text != drafter;
}

// "settings from ~/.config/specbound/config: temp, threads"
void tell(FILE* err, const std::string& source, const std::string& names) {
  if (!names.empty()) {
    std::fprintf(err, "settings from %s: %s\n", source.c_str(), names.c_str());
  }
}

}  // namespace

void add_settings_flags(CLI::App& app) {
  const std::vector<const CLI::Option*> settable =
      std::as_const(app).get_options([](const CLI::Option* option) {
        return option->get_configurable() && !option->get_lnames().empty();
      });
  if (settable.empty()) return;
  const std::string group = "Settings";
  app.add_option_function<std::string>(
         kConfig,
         [](const std::string& path) {
           if (path.empty()) {
             throw CLI::ValidationError(kConfig, "expected the name of a file, found an empty one");
           }
         },
         "read flags that are not given from this file (default: ~/.config/specbound/config, where "
         "there is one); specbound help --settings says more")
      ->type_name("FILE")
      ->configurable(false)
      ->group(group);
  const auto nothing = [] {};  // with a callback CLI11 looks at the value of --no-config=VALUE
  app.add_flag_callback(kNoConfig, nothing, "read no such file")->configurable(false)->group(group);
}

std::string settings_path(CLI::App& app) {
  if (!app.get_option_no_throw(kConfig)) return "";
  complete_from_environment(app);
  const bool none = app.count(kNoConfig) > 0 && app.get_option(kNoConfig)->as<bool>();
  if (app.count(kConfig) > 0) {
    if (none) throw Error(ErrorCode::kUsage, "--config and --no-config: give one of them");
    return app.get_option(kConfig)->as<std::string>();
  }
  if (none) return "";
  const std::string path = default_settings_path();
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  return type == std::filesystem::file_type::not_found ? "" : path;
}

void apply_settings(CLI::App& app, const std::string& command, FILE* err) {
  if (!app.get_option_no_throw(kConfig)) return;
  const SettingsFile file = read_file(app, define(app, command));
  std::vector<Given> all;
  for (CLI::Option* option : app.get_options()) {
    if (!option->get_configurable() || option->get_lnames().empty()) continue;
    Given given = find(*option, define(*option), command, file);
    if (given.level != Level::kNobody) all.push_back(std::move(given));
  }
  std::string from_file, from_environment;
  for (const Given& given : all) {
    if (given.level == Level::kCommandLine || silenced(given, all) ||
        of_another_drafter(given, all, app)) {
      continue;
    }
    give(given);
    std::string& names = given.level == Level::kEnvironment ? from_environment : from_file;
    names += (names.empty() ? "" : ", ") + given.definition.long_name();
  }
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

}  // namespace specbound
