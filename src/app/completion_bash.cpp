// The bash script: one function that looks at the word before the cursor. It works without the
// package bash-completion.
#include <algorithm>

#include "app/completion.h"

namespace specbound {

namespace {

using Takes = OptionDefinition::Takes;

constexpr const char* kHead =
    R"(# bash completion for specbound, made by `specbound completion bash`

_specbound_words() {
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
}

# Readline's own file names, which know of quotes and ~.
_specbound_files() {
  compopt -o default 2>/dev/null
}

# Files that end in .$1 and folders; every file where there are none.
_specbound_files_first() {
  [[ $cur == *[\'\"\\]* ]] ||
    mapfile -t COMPREPLY < <(compgen -f -X "!*.$1" -- "$cur"; compgen -d -- "$cur")
  compopt -o filenames 2>/dev/null
  [[ ${#COMPREPLY[@]} -gt 0 ]] || _specbound_files
}

_specbound_folders() {
  compopt -o dirnames 2>/dev/null
}

# How many words without a flag stand between the command and the cursor. $1: the options that take
# a value, each with blanks around it.
_specbound_place() {
  local i word
  place=0
  for ((i = 2; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ ${COMP_WORDS[i + 1]} == "=" ]]; then
      ((i += 2))
    elif [[ $1 == *" $word "* ]]; then
      ((i += 1))
    elif [[ $word != -* ]]; then
      ((place += 1))
    fi
  done
}

_specbound() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} place
  local flags="" valued=""
  COMPREPLY=()
  # --name=value comes as three words.
  if [[ $cur == "=" ]]; then
    cur=""
  elif [[ $prev == "=" && $COMP_CWORD -gt 2 ]]; then
    prev=${COMP_WORDS[COMP_CWORD - 2]}
  fi
)";

constexpr const char* kTail =
    R"(  if [[ $cur == -* || ${#COMPREPLY[@]} -eq 0 && -z $cur && -z $place ]]; then
    _specbound_words "$flags"
  fi
}

complete -F _specbound specbound
)";

// What is done where this option's value is completed; empty: it is for the user to type.
std::string action(const OptionDefinition& option) {
  if (option.takes() == Takes::kDirectory) return "_specbound_folders";
  if (option.takes() == Takes::kFile) {
    return option.extension().empty() ? "_specbound_files"
                                      : "_specbound_files_first " + option.extension();
  }
  const std::vector<std::string>& choices = option.choices;
  return choices.empty() ? "" : "_specbound_words \"" + joined(choices, " ") + "\"";
}

// Options with values, those that are completed alike in one branch.
std::string value_branches(const CommandDefinition& command) {
  std::vector<std::pair<std::string, std::string>> branches;  // the action, the options
  for (const OptionDefinition& option : command.options) {
    if (option.takes() == Takes::kNothing || option.names.empty()) continue;
    const std::string what = action(option);
    auto branch = std::find_if(branches.begin(), branches.end(),
                               [&](const auto& b) { return b.first == what; });
    if (branch == branches.end()) branch = branches.insert(branch, {what, ""});
    branch->second += (branch->second.empty() ? "" : "|") + joined(option.names, "|");
  }
  std::string out;
  for (const auto& [what, options] : branches) {
    out += "        " + options + ") " + (what.empty() ? "" : what + "; ") + "return ;;\n";
  }
  return out.empty() ? "" : "      case $prev in\n" + out + "      esac\n";
}

std::string place_branches(const CommandDefinition& command) {
  std::string out;
  int place = 0;
  for (const OptionDefinition& option : command.options) {
    if (option.place.empty()) continue;
    const std::string what = action(option);
    const std::string at = option.repeats ? "*" : std::to_string(place);
    ++place;
    if (!what.empty()) out += "        " + at + ") " + what + " ;;\n";
  }
  if (out.empty()) return "";
  return "      if [[ $cur != -* ]]; then\n"
         "        _specbound_place \"$valued\"\n"
         "        case $place in\n" +
         out +
         "        *) place=\"\" ;;\n"
         "        esac\n"
         "      fi\n";
}

}  // namespace

std::string bash_completion(const std::vector<CompletedCommand>& commands) {
  std::string out = kHead, names;
  for (const CompletedCommand& c : commands) names += c.definition.name + " ";
  out += "  if [[ $COMP_CWORD -eq 1 ]]; then\n    _specbound_words \"" + names +
         "--help --version\"\n    return\n  fi\n  case ${COMP_WORDS[1]} in\n";
  for (const CompletedCommand& c : commands) {
    std::string flags, valued;
    for (const OptionDefinition& option : c.definition.options) {
      for (const std::string& name : option.names) {
        flags += (flags.empty() ? "" : " ") + name;
        if (option.takes() != Takes::kNothing) valued += " " + name + " ";
      }
    }
    out += "    " + c.definition.name + ")\n      flags=\"" + flags + "\"\n";
    const std::string places = place_branches(c.definition);
    if (!places.empty()) out += "      valued=\"" + valued + "\"\n";
    out += value_branches(c.definition) + places + "      ;;\n";
  }
  return out + "  esac\n" + kTail;
}

}  // namespace specbound
