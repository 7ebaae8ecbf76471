#include "app/help.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "app/cli.h"
#include "app/command_table.h"
#include "app/commands.h"
#include "app/settings_file.h"
#include "app/standard_output.h"
#include "app/suggestion.h"
#include "app/terminal_text.h"
#include "error.h"

namespace specbound {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kColumns = 80;
constexpr size_t kDescriptionColumn = 30;

// `text` between the columns `indent` and kColumns; the first line is there already, up to the
// column `at`. Lines that begin with a blank stay as they are.
std::string wrapped(std::string_view text, size_t indent, size_t at) {
  std::string out;
  const auto new_line = [&] {
    out += '\n';
    out.append(indent, ' ');
    at = indent;
  };
  for (bool first = true; !text.empty() || first; first = false) {
    if (!first) new_line();
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with(' ')) {
      out += line;
      continue;
    }
    while (!line.empty()) {
      const size_t length = std::min(line.find(' '), line.size());
      if (at > indent && at + 1 + length > kColumns) new_line();
      if (at > indent) {
        out += ' ';
        ++at;
      }
      out += line.substr(0, length);
      at += length;
      line.remove_prefix(std::min(length + 1, line.size()));
    }
  }
  return out;
}

// "  -m, --model FILE     what it is"
std::string entry(const std::string& head, std::string_view description) {
  std::string out = "  " + head;
  if (out.size() + 2 > kDescriptionColumn) {
    out += '\n';
    out.append(kDescriptionColumn, ' ');
  } else {
    out.append(kDescriptionColumn - out.size(), ' ');
  }
  return out + wrapped(description, kDescriptionColumn, kDescriptionColumn) + "\n";
}

Json option_json(const OptionDefinition& option) {
  using Takes = OptionDefinition::Takes;
  const Takes takes = option.takes();
  return {{"names", option.names},
          {"place", option.place},
          {"type", option.type},
          {"takes", takes == Takes::kNothing ? "nothing"
                    : takes == Takes::kFile  ? "file"
                    : takes == Takes::kText  ? "text"
                                             : "directory"},
          {"choices", option.choices},
          {"description", option.description},
          {"group", option.group},
          {"repeats", option.repeats},
          {"settable", option.settable}};
}

}  // namespace

std::string command_choices() {
  std::string names;
  for (const Command& command : commands()) {
    names += (names.empty() ? "" : "|") + std::string(command.name);
  }
  return names;
}

std::string overview() {
  std::string out = format(
      "specbound %s: Llama-family models on one machine, the same bytes every time\n\n"
      "usage: specbound COMMAND [options]      specbound COMMAND --help\n\n",
      SPECBOUND_VERSION);
  for (const Command& c : commands()) out += format("  %-12s %s\n", c.name, c.summary);
  return out +
         "\nExamples:\n"
         "  specbound chat                       with the bundled demo model\n"
         "  specbound chat -m model.gguf\n"
         "  specbound run -p \"I need a table for two tonight.\" -n 64\n"
         "  specbound info model.gguf\n"
         "  specbound man | man -l -             everything on one page\n";
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
         "one. A line on stderr names what came from where.\n\n"
         "  # ~/.config/specbound/config\n"
         "  model = ~/models/SmolLM3-Q4_K_M.gguf\n"
         "  temp = 0.6\n"
         "  [chat]\n"
         "  sys = \"Answer in one sentence.\"\n"
         "  [serve]\n"
         "  port = 8081";
}

std::string option_head(const OptionDefinition& option) {
  std::string head;
  for (const std::string& name : option.names) head += (head.empty() ? "" : ", ") + name;
  if (!option.type.empty()) head += " " + option.type;
  return head;
}

std::string usage(const CommandDefinition& command) {
  std::string text = "specbound " + command.name + " [options]";
  for (const OptionDefinition& option : command.options) {
    if (option.place.empty()) continue;
    const std::string place = option.place + (option.repeats ? "..." : "");
    text += option.required ? " " + place : " [" + place + "]";
  }
  return text;
}

std::string help_text(const CommandDefinition& command) {
  std::string out = wrapped(command.about, 0, 0) + "\n\nUsage: " + usage(command) + "\n";
  for (bool headed = false; const OptionDefinition& option : command.options) {
    if (option.place.empty()) continue;
    if (!std::exchange(headed, true)) out += "\nArguments:\n";
    out += entry(option.place, option.description);
  }
  for (const std::string& group : command.groups()) {
    std::string entries;
    for (const OptionDefinition& option : command.options) {
      if (option.group != group || option.names.empty()) continue;
      entries += entry(option_head(option), option.description);
    }
    if (!entries.empty()) out += "\n" + group + ":\n" + entries;
  }
  if (!command.footer.empty()) out += "\n" + wrapped(command.footer, 0, 0) + "\n";
  return out;
}

std::string unknown_command(std::string_view name) {
  std::vector<std::string> known;
  for (const Command& command : commands()) known.emplace_back(command.name);
  const std::string meant = nearest(name, known);
  return format("unknown command '%s'", printable(name).c_str()) +
         (meant.empty() ? ";" : format("; did you mean %s?", meant.c_str()));
}

std::string definitions_json() {
  Json list = Json::array();
  for (const Command& command : commands()) {
    const CommandDefinition definition = definition_of(command);
    Json options = Json::array();
    for (const OptionDefinition& option : definition.options)
      options.push_back(option_json(option));
    list.push_back({{"name", command.name},
                    {"summary", command.summary},
                    {"about", definition.about},
                    {"footer", definition.footer},
                    {"options", std::move(options)}});
  }
  return Json({{"version", SPECBOUND_VERSION}, {"commands", std::move(list)}}).dump(1);
}

int command_help(int argc, char** argv) {
  CLI::App app("How a command is used; without a name, which commands there are.");
  std::string name;
  bool settings = false, json = false;
  app.add_option("COMMAND", name, "the command")->type_name(command_choices());
  app.add_flag("--settings", settings, "how the environment and a file give flags their values")
      ->configurable(false);
  app.add_flag("--json", json, "every command with its options, as JSON")->configurable(false);
  app.footer(
      "Examples:\n"
      "  specbound help run\n"
      "  specbound help --settings");
  if (const std::optional<int> status = parse_cli(app, argc, argv)) return *status;
  if (json || settings) {
    const std::string text = json ? definitions_json() : wrapped(settings_help(), 0, 0);
    return write_stdout(text + "\n") ? 0 : 1;
  }
  if (name.empty()) return write_stdout(overview()) ? 0 : 1;
  const Command* command = find_command(name);
  if (!command) {
    throw Error(ErrorCode::kUsage, unknown_command(name) + " specbound --help lists them");
  }
  return write_stdout(help_text(definition_of(*command))) ? 0 : 1;
}

}  // namespace specbound
