// What a command's options are, as data. Each command declares them once, on the CLI::App that it
// hands to parse_cli(); help, man page, completion, the settings file and the README are made from
// what is read here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace specbound {

struct Command;

struct OptionDefinition {
  enum class Takes { kNothing, kText, kFile, kDirectory };

  std::vector<std::string>
      names;          // as they are typed, short ones first; empty: it has only a place
  std::string place;  // the name among the arguments without a flag; may be empty
  std::string type;   // what the value is: N, FILE, on|off; empty for a switch
  std::vector<std::string> choices;  // the words among which it is chosen, where they are listed
  std::string description;
  std::string group;
  bool repeats = false;   // counts as often as it is given
  bool settable = false;  // may stand in the settings file and the environment
  bool required = false;

  Takes takes() const;
  // "gguf" for a type of FILE.gguf: files that end so are likelier; else empty.
  std::string extension() const;
  // The first name with two dashes, without them; empty: it has none.
  std::string long_name() const;
};

struct CommandDefinition {
  std::string name;    // run
  std::string about;   // paragraphs; lines that begin with a blank are laid out already
  std::string footer;  // the same
  std::vector<OptionDefinition> options;  // in the order of their groups

  std::vector<std::string> groups() const;
};

OptionDefinition define(const CLI::Option& option);

// What `app` declares.
CommandDefinition define(const CLI::App& app, const std::string& name);

// What the command hands to parse_cli(). Of a command that this build leaves out: its name, and
// why as `about`.
CommandDefinition definition_of(const Command& command);

// How parse_cli() is asked: by an argument that no command line can have, for it is known by its
// address. It answers with an exception, which passes through the command.
struct DefinitionAnswer {
  CommandDefinition definition;
};
bool asks_for_definition(int argc, char** argv);

// Spellings of several letters behind one dash, which CLI11 would read as several flags.
struct ShortSpelling {
  std::string_view dashed;  // -ngl
  std::string_view name;    // --gpu-layers
  bool joins = true;        // -ngl8 is -ngl 8; else that is the one-letter flag with "gl8"
};
const std::vector<ShortSpelling>& short_spellings();

}  // namespace specbound
