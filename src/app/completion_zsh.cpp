// The zsh script: a specification for _arguments for each command.
#include "app/completion.h"

namespace specbound {

namespace {

using Takes = OptionDefinition::Takes;

constexpr const char* kHead = R"(#compdef specbound
# zsh completion for specbound, made by `specbound completion zsh`

_specbound() {
  local -a commands
  commands=(
)";

constexpr const char* kDispatch = R"(  )
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

constexpr const char* kTail = R"(  esac
}

# Read by the completion system as a function of its own, or by `source`.
if [[ $funcstack[1] == _specbound ]]; then
  _specbound "$@"
else
  compdef _specbound specbound
fi
)";

std::string escaped(const std::string& text, const char* special) {
  std::string out;
  for (const char c : text) {
    if (std::string(special).find(c) != std::string::npos) out += '\\';
    out += c;
  }
  return out;
}

// ":message:action"
std::string value(const OptionDefinition& option, const std::string& message) {
  std::string action = " ";
  if (option.takes() == Takes::kDirectory) {
    action = "_files -/";
  } else if (option.takes() == Takes::kFile) {
    const std::string extension = option.extension();
    action = extension.empty() ? "_files" : "_files -g \"*." + extension + "(-.)\"";
  } else if (!option.choices.empty()) {
    action = "(" + escaped(joined(option.choices, " "), ":()") + ")";
  }
  return ":" + escaped(message, ":\\") + ":" + action;
}

// '(-m --model)'{-m+,--model=}'[GGUF file]:FILE:_files'
std::string option_specification(const OptionDefinition& option) {
  const bool takes_value = option.takes() != Takes::kNothing;
  std::vector<std::string> names;
  for (const std::string& name : option.names) {
    names.push_back(name + (!takes_value ? "" : name.starts_with("--") ? "=" : "+"));
  }
  std::string text = "[" + escaped(option.description, "[]\\") + "]";
  if (takes_value) text += value(option, option.choices.empty() ? option.type : "value");
  const std::string front =
      option.repeats ? "'*'" : shell_quoted("(" + joined(option.names, " ") + ")");
  if (names.size() == 1) return front + names.front() + shell_quoted(text);
  return front + "{" + joined(names, ",") + "}" + shell_quoted(text);
}

}  // namespace

std::string zsh_completion(const std::vector<CompletedCommand>& commands) {
  std::string out = kHead;
  for (const CompletedCommand& c : commands) {
    out += "    " + shell_quoted(escaped(c.definition.name, ":") + ":" + c.summary) + "\n";
  }
  out += kDispatch;
  for (const CompletedCommand& c : commands) {
    out += "    " + c.definition.name + ")\n      _arguments";
    for (const OptionDefinition& option : c.definition.options) {
      if (!option.names.empty()) out += " \\\n        " + option_specification(option);
    }
    for (const OptionDefinition& option : c.definition.options) {
      if (option.place.empty()) continue;
      // One colon for a place that may be empty, two where one word more is required.
      const std::string place = option.repeats ? "*" : option.required ? "" : ":";
      out += " \\\n        " + shell_quoted(place + value(option, option.place));
    }
    out += "\n      ;;\n";
  }
  return out + kTail;
}

}  // namespace specbound
