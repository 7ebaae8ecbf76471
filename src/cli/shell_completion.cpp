// specbound completion: scripts by which shells complete commands, flags and their values. All is
// written into the script: the shell does not start the program to complete a word.
#include <algorithm>
#include <map>

#include "cli/command.h"
#include "error.h"
#include "terminal/standard_output.h"

namespace specbound::shell_completion_command {

namespace {

using Takes = FlagDefinition::Takes;

// A command with its one line for lists.
struct Listed {
  std::string summary;
  CommandDefinition definition;
};
using Commands = std::vector<Listed>;

// `mark` before each of the `special` characters.
std::string escaped(const std::string& text, std::string_view special, const char* mark = "\\") {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) out += mark;
    out += c;
  }
  return out;
}

// In single quotes, as bash and zsh read it.
std::string shell_quoted(const std::string& text) {
  return "'" + escaped(text, "'", "'\\'") + "'";
}

// How a shell completes a value.
struct ValueActions {
  const char* folders;
  const char* files;
  const char* files_first;  // %s: the extension that is likelier
  const char* words;        // %s: the words
  const char* text;         // for the user to type
};

std::string action(const FlagDefinition& flag, const ValueActions& actions,
                   const std::string& words) {
  const std::string extension = flag.extension();
  const auto filled = [](std::string pattern, const std::string& with) {
    return pattern.replace(pattern.find("%s"), 2, with);
  };
  if (flag.takes() == Takes::kDirectory) return actions.folders;
  if (flag.takes() == Takes::kFile) {
    return extension.empty() ? actions.files : filled(actions.files_first, extension);
  }
  return flag.choices.empty() ? actions.text : filled(actions.words, words);
}

// ---- bash: one function that looks at the word before the cursor; it works without the package
// bash-completion ----

constexpr const char* kBashHead =
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

constexpr const char* kBashTail =
    R"(  if [[ $cur == -* || ${#COMPREPLY[@]} -eq 0 && -z $cur && -z $place ]]; then
    _specbound_words "$flags"
  fi
}

complete -F _specbound specbound
)";

std::string bash_action(const FlagDefinition& flag) {
  static constexpr ValueActions kActions = {"_specbound_folders", "_specbound_files",
                                            "_specbound_files_first %s", "_specbound_words \"%s\"",
                                            ""};
  return action(flag, kActions, joined(flag.choices, " "));
}

// Flags with values, those that are completed alike in one branch.
std::string value_branches(const CommandDefinition& command) {
  std::vector<std::pair<std::string, std::string>> branches;  // the action, the flags
  for (const FlagDefinition& flag : command.flags) {
    if (flag.takes() == Takes::kNothing || flag.names.empty()) continue;
    const std::string what = bash_action(flag);
    auto branch = std::ranges::find(branches, what, [](const auto& b) { return b.first; });
    if (branch == branches.end()) branch = branches.insert(branch, {what, ""});
    branch->second += (branch->second.empty() ? "" : "|") + joined(flag.names, "|");
  }
  std::string out;
  for (const auto& [what, flags] : branches) {
    out += "        " + flags + ") " + (what.empty() ? "" : what + "; ") + "return ;;\n";
  }
  return out.empty() ? "" : "      case $prev in\n" + out + "      esac\n";
}

std::string place_branches(const CommandDefinition& command) {
  std::string out;
  int place = 0;
  for (const FlagDefinition& flag : command.flags) {
    if (flag.place.empty()) continue;
    const std::string what = bash_action(flag);
    const std::string at = flag.repeats ? "*" : std::to_string(place);
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

std::string bash_completion(const Commands& commands) {
  std::string out = kBashHead, names;
  for (const Listed& c : commands) names += c.definition.name + " ";
  out += "  if [[ $COMP_CWORD -eq 1 ]]; then\n    _specbound_words \"" + names +
         "--help --version\"\n    return\n  fi\n  case ${COMP_WORDS[1]} in\n";
  for (const auto& [summary, command] : commands) {
    std::string flags, valued;
    for (const FlagDefinition& flag : command.flags) {
      for (const std::string& name : flag.names) {
        flags += (flags.empty() ? "" : " ") + name;
        if (flag.takes() != Takes::kNothing) valued += " " + name + " ";
      }
    }
    out += "    " + command.name + ")\n      flags=\"" + flags + "\"\n";
    const std::string places = place_branches(command);
    if (!places.empty()) out += "      valued=\"" + valued + "\"\n";
    out += value_branches(command) + places + "      ;;\n";
  }
  return out + "  esac\n" + kBashTail;
}

// ---- zsh: a specification for _arguments for each command ----

constexpr const char* kZshHead = R"(#compdef specbound
# zsh completion for specbound, made by `specbound completion zsh`

_specbound() {
  local -a commands
  commands=(
)";

constexpr const char* kZshDispatch = R"(  )
  if (( CURRENT == 2 )); then
    _describe -t commands command commands
    _arguments '--help[what there is]' '--version[which version this is]'
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
)";

constexpr const char* kZshTail = R"(  esac
}

# Read by the completion system as a function of its own, or by `source`.
if [[ $funcstack[1] == _specbound ]]; then
  _specbound "$@"
else
  compdef _specbound specbound
fi
)";

// ":message:action"
std::string zsh_value(const FlagDefinition& flag, const std::string& message) {
  static constexpr ValueActions kActions = {"_files -/", "_files", "_files -g \"*.%s(-.)\"", "(%s)",
                                            " "};
  return ":" + escaped(message, ":\\") + ":" +
         action(flag, kActions, escaped(joined(flag.choices, " "), ":()"));
}

// '(-m --model)'{-m+,--model=}'[GGUF file]:FILE:_files'
std::string zsh_specification(const FlagDefinition& flag) {
  const bool takes_value = flag.takes() != Takes::kNothing;
  std::vector<std::string> names;
  for (const std::string& name : flag.names) {
    names.push_back(name + (!takes_value ? "" : name.starts_with("--") ? "=" : "+"));
  }
  std::string text = "[" + escaped(flag.description, "[]\\") + "]";
  if (takes_value) text += zsh_value(flag, flag.choices.empty() ? flag.type : "value");
  const std::string front =
      flag.repeats ? "'*'" : shell_quoted("(" + joined(flag.names, " ") + ")");
  if (names.size() == 1) return front + names.front() + shell_quoted(text);
  return front + "{" + joined(names, ",") + "}" + shell_quoted(text);
}

std::string zsh_completion(const Commands& commands) {
  std::string out = kZshHead;
  for (const Listed& c : commands) {
    out += "    " + shell_quoted(escaped(c.definition.name, ":") + ":" + c.summary) + "\n";
  }
  out += kZshDispatch;
  for (const Listed& c : commands) {
    out += "    " + c.definition.name + ")\n      _arguments";
    for (const FlagDefinition& flag : c.definition.flags) {
      if (!flag.names.empty()) out += " \\\n        " + zsh_specification(flag);
    }
    for (const FlagDefinition& flag : c.definition.flags) {
      if (flag.place.empty()) continue;
      // One colon for a place that may be empty, two where one word more is required.
      const std::string place = flag.repeats ? "*" : flag.required ? "" : ":";
      out += " \\\n        " + shell_quoted(place + zsh_value(flag, flag.place));
    }
    out += "\n      ;;\n";
  }
  return out + kZshTail;
}

// ---- fish: one `complete` for each flag, for all commands that have the same ----

constexpr const char* kFishHead =
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
std::string fish_quoted(const std::string& text) {
  return "'" + escaped(text, "'\\") + "'";
}

std::string fish_value(const FlagDefinition& flag) {
  static constexpr ValueActions kActions = {" -xa '(__fish_complete_directories)'", " -rF",
                                            " -kxa '(__fish_complete_suffix .%s)'", " -xa %s",
                                            " -x"};
  return action(flag, kActions, fish_quoted(joined(flag.choices, " ")));
}

// What follows the condition.
std::string fish_specification(const FlagDefinition& flag) {
  std::string out;
  for (const std::string& name : flag.names) {
    const bool is_long = name.starts_with("--");
    out += (is_long ? " -l " : name.size() == 2 ? " -s " : " -o ") + name.substr(is_long ? 2 : 1);
  }
  if (flag.takes() != Takes::kNothing) out += fish_value(flag);
  return out + " -d " + fish_quoted(flag.description);
}

std::string fish_place(const FlagDefinition& flag) {
  if (flag.takes() == Takes::kFile && flag.extension().empty()) return " -F";
  if (flag.takes() == Takes::kText && flag.choices.empty()) return "";
  std::string out = fish_value(flag);
  return out.replace(out.find('x'), 1, "");  // -x is for values of flags
}

std::string fish_completion(const Commands& commands) {
  std::string out = kFishHead;
  std::vector<std::string> order;
  std::map<std::string, std::string> having;  // specification -> the commands that have it
  const auto add = [&](const std::string& specification, const std::string& command) {
    if (specification.empty()) return;
    std::string& names = having[specification];
    if (names.empty()) order.push_back(specification);
    names += " " + command;
  };
  for (const auto& [summary, command] : commands) {
    out += "complete -c specbound -n __specbound_needs_command -a " + command.name + " -d " +
           fish_quoted(summary) + "\n";
    for (const FlagDefinition& flag : command.flags) {
      if (!flag.names.empty()) add(fish_specification(flag), command.name);
      if (!flag.place.empty()) add(fish_place(flag), command.name);
    }
  }
  for (const std::string& specification : order) {
    out += "complete -c specbound -n '__specbound_in" + having[specification] + "'" +
           specification + "\n";
  }
  return out;
}

// ---- the command ----

struct CompletionOptions {
  std::string shell;
};

void add_flags(Flags& flags, CompletionOptions& options) {
  flags.add_text("SHELL", options.shell, "the shell: bash, zsh or fish")
      .type("bash|zsh|fish")
      .required();
}

int run_completion(CompletionOptions& options) {
  const auto write = options.shell == "bash"   ? bash_completion
                     : options.shell == "zsh"  ? zsh_completion
                     : options.shell == "fish" ? fish_completion
                                               : nullptr;
  if (!write) {
    throw Error(ErrorCode::kUsage, format("expected bash, zsh or fish, found \"%s\"",
                                          printable(options.shell).c_str()));
  }
  Commands list;
  for (const Command* command : commands()) {
    list.push_back({command->about().summary, command->definition()});
  }
  return write_stdout(write(list)) ? 0 : 1;
}

const CommandOf<CompletionOptions> kCompletion(
    {.rank = 210,
     .name = "completion",
     .summary = "a script that completes commands and options in bash, zsh or fish",
     .text = "Print a script by which a shell completes commands, options and their values. It "
             "needs nothing but the shell.",
     .footer =
         "Examples:\n"
         "  specbound completion bash > ~/.local/share/bash-completion/completions/specbound\n"
         "  source <(specbound completion bash)                 in ~/.bashrc\n"
         "  specbound completion zsh > ~/.zfunc/_specbound      a folder of $fpath\n"
         "  specbound completion fish > ~/.config/fish/completions/specbound.fish"},
    add_flags, run_completion);

}  // namespace

}  // namespace specbound::shell_completion_command
