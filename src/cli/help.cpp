#include "cli/help.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/settings_file.h"
#include "error.h"
#include "terminal/standard_output.h"

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

// "-m, --model FILE.gguf"
std::string flag_head(const FlagDefinition& flag) {
  std::string head = joined(flag.names);
  if (!flag.type.empty()) head += " " + flag.type;
  return head;
}

// "specbound quantize [options] IN OUT TYPE"
std::string usage(const CommandDefinition& command) {
  std::string text = "specbound " + command.name + " [options]";
  for (const FlagDefinition& flag : command.flags) {
    if (flag.place.empty()) continue;
    const std::string place = flag.place + (flag.repeats ? "..." : "");
    text += flag.required ? " " + place : " [" + place + "]";
  }
  return text;
}

Json flag_json(const FlagDefinition& flag) {
  using Takes = FlagDefinition::Takes;
  const Takes takes = flag.takes();
  return {{"names", flag.names},
          {"place", flag.place},
          {"type", flag.type},
          {"takes", takes == Takes::kNothing ? "nothing"
                    : takes == Takes::kFile  ? "file"
                    : takes == Takes::kText  ? "text"
                                             : "directory"},
          {"choices", flag.choices},
          {"description", flag.description},
          {"group", flag.group},
          {"repeats", flag.repeats},
          {"required", flag.required},
          {"settable", flag.settable}};
}

// Everything that is said of the program, for packaging/help_texts.py and others: {"version",
// "settings", "commands": [{"name", "summary", "about", "usage", "footer", "options":
// [flag_json()]}]}.
std::string definitions_json() {
  Json list = Json::array();
  for (const Command* command : commands()) {
    const CommandDefinition definition = command->definition();
    Json flags = Json::array();
    for (const FlagDefinition& flag : definition.flags) flags.push_back(flag_json(flag));
    list.push_back({{"name", definition.name},
                    {"summary", command->about().summary},
                    {"about", definition.about},
                    {"usage", usage(definition)},
                    {"footer", definition.footer},
                    {"options", std::move(flags)}});
  }
  return Json({{"version", SPECBOUND_VERSION},
               {"settings", settings_help()},
               {"commands", std::move(list)}})
      .dump(1);
}

}  // namespace

std::string command_choices() {
  return joined(commands(), "|", [](const Command* command) { return command->about().name; });
}

std::string overview() {
  std::string out = format(
      "specbound %s: Llama-family models on one machine, the same bytes every time\n\n"
      "usage: specbound COMMAND [options]      specbound COMMAND --help\n"
      "       specbound -m FILE.gguf [options] is specbound chat\n\n",
      SPECBOUND_VERSION);
  for (const Command* command : commands()) {
    out += format("  %-12s %s\n", command->about().name, command->about().summary);
  }
  return out +
         "\nExamples:\n"
         "  specbound chat                       with the bundled demo model\n"
         "  specbound chat model.gguf\n"
         "  specbound run -p \"I need a table for two tonight.\" -n 64\n"
         "  specbound info model.gguf\n"
         "  specbound man | man -l -             everything on one page\n";
}

std::string help_text(const CommandDefinition& command) {
  std::string out = wrapped(command.about, 0, 0) + "\n\nUsage: " + usage(command) + "\n";
  for (bool headed = false; const FlagDefinition& flag : command.flags) {
    if (flag.place.empty()) continue;
    if (!std::exchange(headed, true)) out += "\nArguments:\n";
    out += entry(flag.place, flag.description);
  }
  for (const std::string& group : command.groups()) {
    std::string entries;
    for (const FlagDefinition& flag : command.flags) {
      if (flag.group != group || flag.names.empty()) continue;
      entries += entry(flag_head(flag), flag.description);
    }
    if (!entries.empty()) out += "\n" + group + ":\n" + entries;
  }
  if (!command.footer.empty()) out += "\n" + wrapped(command.footer, 0, 0) + "\n";
  return out;
}

std::string unknown_command(std::string_view name) {
  std::vector<std::string> known;
  for (const Command* command : commands()) known.emplace_back(command->about().name);
  const std::string meant = nearest(name, known);
  return format("unknown command '%s'", printable(name).c_str()) +
         (meant.empty() ? ";" : format("; did you mean %s?", meant.c_str()));
}

const Command* named_command(std::string_view name) {
  if (name.empty()) return nullptr;
  if (const Command* command = find_command(name)) return command;
  throw Error(ErrorCode::kUsage, unknown_command(name) + " specbound --help lists them");
}

size_t letters_apart(std::string_view a, std::string_view b) {
  // Row i: from the first i letters of a to the first j of b. Damerau's distance, each place
  // changed once.
  std::vector<std::vector<size_t>> rows(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        rows[i][j] = i + j;
        continue;
      }
      rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1,
                             rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
      }
    }
  }
  return rows[a.size()][b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  constexpr size_t kMaxWord = 64;  // no name here is that long
  if (word.empty() || word.size() > kMaxWord) return "";
  std::string best;
  // With more than a third of its letters wrong it was another word.
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& name : known) {
    const size_t distance = letters_apart(word, name);
    if (distance < least && distance < name.size()) {
      least = distance;
      best = name;
    }
  }
  if (!best.empty() || word.size() < 3) return best;
  // Begun, and not ended.
  for (const std::string& name : known) {
    if (name.starts_with(word)) return name;
  }
  return "";
}

// ---- the command ----

namespace {

struct HelpOptions {
  std::string name;
  bool settings = false, json = false;
};

void add_help_flags(Flags& flags, HelpOptions& options) {
  flags.add_text("COMMAND", options.name, "the command").type(command_choices());
  flags
      .add_switch("--settings", options.settings,
                  "how the environment and a file give flags their values")
      .command_line_only();
  flags.add_switch("--json", options.json, "every command with its options, as JSON")
      .command_line_only();
}

int run_help(HelpOptions& options) {
  std::string text;
  if (options.json) {
    text = definitions_json() + "\n";
  } else if (options.settings) {
    text = wrapped(settings_help(), 0, 0) + "\n";
  } else if (const Command* command = named_command(options.name)) {
    text = help_text(command->definition());
  } else {
    text = overview();
  }
  return write_stdout(text) ? 0 : 1;
}

const CommandOf<HelpOptions> kHelp(
    {.rank = 190,
     .name = "help",
     .summary = "how a command is used: its options, their defaults, examples",
     .text = "How a command is used; without a name, which commands there are.",
     .footer = "Examples:\n"
               "  specbound help run\n"
               "  specbound help --settings"},
    add_help_flags, run_help);

}  // namespace

}  // namespace specbound
