// The fish script: one `complete` for each option, for all commands that have the same.
#include <map>

#include "app/completion.h"

namespace specbound {

namespace {

using Takes = OptionDefinition::Takes;

constexpr const char* kHead =
    R"(# fish completion for specbound, made by `specbound completion fish`

function __specbound_needs_command
    test (count (commandline -opc)) -eq 1
end

function __specbound_in
    set -l words (commandline -opc)
    test (count $words) -gt 1; and contains -- $words[2] $argv
end

complete -c specbound -f
complete -c specbound -n __specbound_needs_command -l help -d 'what there is'
complete -c specbound -n __specbound_needs_command -l version -d 'which version this is'
)";

// In fish a backslash in single quotes quotes a quote and a backslash, nothing else.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string value(const OptionDefinition& option) {
  if (option.takes() == Takes::kDirectory) return " -xa '(__fish_complete_directories)'";
  if (option.takes() == Takes::kFile) {
    const std::string extension = option.extension();
    return extension.empty() ? " -rF" : " -kxa '(__fish_complete_suffix ." + extension + ")'";
  }
  const std::vector<std::string>& choices = option.choices;
  return choices.empty() ? " -x" : " -xa " + quoted(joined(choices, " "));
}

std::string names(const OptionDefinition& option) {
  std::string out;
  for (const std::string& name : option.names) {
    const bool is_long = name.starts_with("--");
    out += (is_long ? " -l " : name.size() == 2 ? " -s " : " -o ") + name.substr(is_long ? 2 : 1);
  }
  return out;
}

// What follows the condition.
std::string option_specification(const OptionDefinition& option) {
  std::string out = names(option);
  if (option.takes() != Takes::kNothing) out += value(option);
  return out + " -d " + quoted(option.description);
}

std::string place_specification(const OptionDefinition& option) {
  const bool is_file = option.takes() == Takes::kFile && option.extension().empty();
  if (is_file) return " -F";
  if (option.takes() == Takes::kText && option.choices.empty()) return "";
  std::string out = value(option);
  return out.replace(out.find('x'), 1, "");  // -x is for values of options
}

}  // namespace

std::string fish_completion(const std::vector<CompletedCommand>& commands) {
  std::string out = kHead;
  std::vector<std::string> order;
  std::map<std::string, std::string> having;  // specification -> the commands that have it
  const auto add = [&](const std::string& specification, const std::string& command) {
    std::string& names = having[specification];
    if (names.empty()) order.push_back(specification);
    names += " " + command;
  };
  for (const CompletedCommand& c : commands) {
    out += "complete -c specbound -n __specbound_needs_command -a " + c.definition.name + " -d " +
           quoted(c.summary) + "\n";
    for (const OptionDefinition& option : c.definition.options) {
      if (!option.names.empty()) add(option_specification(option), c.definition.name);
      if (option.place.empty()) continue;
      const std::string place = place_specification(option);
      if (!place.empty()) add(place, c.definition.name);
    }
  }
  for (const std::string& specification : order) {
    out += "complete -c specbound -n '__specbound_in" + having[specification] + "'" +
           specification + "\n";
  }
  return out;
}

}  // namespace specbound
