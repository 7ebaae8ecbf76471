#!/usr/bin/env python3
"""The man page and the completions of bash, zsh and fish, made from `specbound help --json`. The
build runs it (packaging/help_texts.cmake):

    help_texts.py PROGRAM FOLDER

writes FOLDER/share/, which is installed, and FOLDER/help_texts.cpp, by which `specbound man` and
`specbound completion` print them. They hold no date: the same program gives the same bytes. All
that a shell completes stands in its script: it does not start the program to complete a word."""
import json
import os
import re
import subprocess
import sys

# Where what the program prints is installed, in share/.
INSTALLED = {
    "man": "man/man1/specbound.1",
    "completion bash": "bash-completion/completions/specbound",
    "completion zsh": "zsh/site-functions/_specbound",
    "completion fish": "fish/vendor_completions.d/specbound.fish",
}


def escaped(text, special, mark="\\"):
    """`mark` before each of the `special` characters."""
    return "".join(mark + c if c in special else c for c in text)


def shell_quoted(text):
    """In single quotes, as bash and zsh read it."""
    return "'" + escaped(text, "'", "'\\'") + "'"


def takes_value(flag):
    return flag["takes"] != "nothing"


def places(command):
    return [flag for flag in command["options"] if flag["place"]]


def named(command):
    return [flag for flag in command["options"] if flag["names"]]


def action(flag, folders, files, files_first, words, text, quoted=str):
    """How a shell completes a value: folders, files, files_first % the ending that is likelier,
    words % the words among which it is chosen, or text for the user to type."""
    if flag["takes"] == "directory":
        return folders
    if flag["takes"] == "file":
        ending = flag["type"].partition("FILE.")[2]
        return files_first % ending if ending else files
    return words % quoted(" ".join(flag["choices"])) if flag["choices"] else text


# Flags without a command are those of a chat, from the second word on.
WITHOUT_COMMAND = "chat"


# ---- bash: one function that looks at the word before the cursor; it works without the package
# bash-completion ----

BASH_HEAD = r"""# bash completion for specbound, made by `specbound completion bash`

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
"""

BASH_TAIL = r"""  esac
  if [[ $cur == -* || ${#COMPREPLY[@]} -eq 0 && -z $cur && -z $place ]]; then
    _specbound_words "$flags"
  fi
}

complete -F _specbound specbound
"""


def bash_action(flag):
    return action(flag, "_specbound_folders", "_specbound_files", "_specbound_files_first %s",
                  '_specbound_words "%s"', "")


def bash_values(command):
    """Flags with values, those that are completed alike in one branch."""
    branches = {}
    for flag in filter(takes_value, named(command)):
        branches.setdefault(bash_action(flag), []).extend(flag["names"])
    if not branches:
        return ""
    return "      case $prev in\n" + "".join(
        f"        {'|'.join(names)}) {what + '; ' if what else ''}return ;;\n"
        for what, names in branches.items()) + "      esac\n"


def bash_places(command):
    branches = "".join(
        f"        {'*' if flag['repeats'] else at}) {bash_action(flag)} ;;\n"
        for at, flag in enumerate(places(command)) if bash_action(flag))
    if not branches:
        return ""
    return ("      if [[ $cur != -* ]]; then\n"
            '        _specbound_place "$valued"\n'
            "        case $place in\n"
            f"{branches}"
            '        *) place="" ;;\n'
            "        esac\n"
            "      fi\n")


def bash_completion(commands):
    names = " ".join(command["name"] for command in commands)
    out = (f"{BASH_HEAD}  if [[ $COMP_CWORD -eq 1 ]]; then\n"
           f'    _specbound_words "{names} --help --version"\n'
           "    return\n  fi\n  case ${COMP_WORDS[1]} in\n")
    for command in commands:
        flags = " ".join(name for flag in named(command) for name in flag["names"])
        name = command["name"]
        out += f'    {name}{"|-*" if name == WITHOUT_COMMAND else ""})\n      flags="{flags}"\n'
        if bash_places(command):
            valued = "".join(f" {name} " for flag in filter(takes_value, named(command))
                             for name in flag["names"])
            out += f'      valued="{valued}"\n'
        out += bash_values(command) + bash_places(command) + "      ;;\n"
    return out + BASH_TAIL


# ---- zsh: a specification for _arguments for each command ----

ZSH_HEAD = r"""#compdef specbound
# zsh completion for specbound, made by `specbound completion zsh`

_specbound() {
  local -a commands
  commands=(
"""

ZSH_DISPATCH = r"""  )
  if (( CURRENT == 2 )); then
    _describe -t commands command commands
    _arguments '--help[what there is]' '--version[which version this is]'
    return
  fi
  local command=$words[2]
  if [[ $command == -* ]]; then
    command=WITHOUT_COMMAND
  else
    shift words
    (( CURRENT-- ))
  fi
  case $command in
"""

ZSH_TAIL = r"""  esac
}

# Read by the completion system as a function of its own, or by `source`.
if [[ $funcstack[1] == _specbound ]]; then
  _specbound "$@"
else
  compdef _specbound specbound
fi
"""


def zsh_value(flag, message, text=" "):
    """":message:action"; `text`: the action of what is for the user to type."""
    return ":" + escaped(message, ":\\") + ":" + action(
        flag, "_files -/", "_files", '_files -g "*.%s(-.)"', "(%s)", text,
        lambda words: escaped(words, ":()"))


def zsh_flag(flag):
    """'(-m --model)'{-m+,--model=}'[GGUF file]:FILE:_files'"""
    text = "[" + escaped(flag["description"], "[]\\") + "]"
    names = flag["names"]
    if takes_value(flag):
        text += zsh_value(flag, "value" if flag["choices"] else flag["type"])
        names = [name + ("=" if name.startswith("--") else "+") for name in names]
    front = "'*'" if flag["repeats"] else shell_quoted("(" + " ".join(flag["names"]) + ")")
    listed = names[0] if len(names) == 1 else "{" + ",".join(names) + "}"
    return front + listed + shell_quoted(text)


def zsh_place(flag):
    # One colon for a place that may be empty, two where one word more is required.
    front = "*" if flag["repeats"] else "" if flag["required"] else ":"
    # No word of its own: a message beside options would keep the only match from being inserted.
    return shell_quoted(front + zsh_value(flag, flag["place"], "()"))


def zsh_completion(commands):
    out = ZSH_HEAD
    for command in commands:
        line = escaped(command["name"], ":") + ":" + command["summary"]
        out += "    " + shell_quoted(line) + "\n"
    out += ZSH_DISPATCH.replace("WITHOUT_COMMAND", WITHOUT_COMMAND)
    for command in commands:
        arguments = [*map(zsh_flag, named(command)), *map(zsh_place, places(command))]
        out += " \\\n        ".join([f"    {command['name']})\n      _arguments", *arguments])
        out += "\n      ;;\n"
    return out + ZSH_TAIL


# ---- fish: one `complete` for each flag, for all commands that have the same ----

FISH_HEAD = r"""# fish completion for specbound, made by `specbound completion fish`

function __specbound_needs_command
    test (count (commandline -opc)) -eq 1
end

function __specbound_in
    set -l words (commandline -opc)
    test (count $words) -gt 1; or return 1
    string match -q -- '-*' $words[2]; and set words[2] WITHOUT_COMMAND
    contains -- $words[2] $argv
end

complete -c specbound -f
complete -c specbound -n __specbound_needs_command -l help -d 'what there is'
complete -c specbound -n __specbound_needs_command -l version -d 'which version this is'
"""


def fish_quoted(text):
    """In fish a backslash in single quotes quotes a quote and a backslash, nothing else."""
    return "'" + escaped(text, "'\\") + "'"


def fish_value(flag):
    return action(flag, " -xa '(__fish_complete_directories)'", " -rF",
                  " -kxa '(__fish_complete_suffix .%s)'", " -xa %s", " -x", fish_quoted)


def fish_flag(flag):
    """What follows the condition."""
    out = ""
    for name in flag["names"]:
        kind = "-l" if name.startswith("--") else "-s" if len(name) == 2 else "-o"
        out += f" {kind} {name.lstrip('-')}"
    return out + (fish_value(flag) if takes_value(flag) else "") + " -d " + fish_quoted(
        flag["description"])


def fish_place(flag):
    if flag["takes"] == "file" and flag["type"] == "FILE":
        return " -F"
    if flag["takes"] == "text" and not flag["choices"]:
        return ""
    return fish_value(flag).replace("x", "", 1)  # -x is for values of flags


def fish_completion(commands):
    out = FISH_HEAD.replace("WITHOUT_COMMAND", WITHOUT_COMMAND)
    having = {}  # specification -> the commands that have it
    for command in commands:
        out += (f"complete -c specbound -n __specbound_needs_command -a {command['name']}"
                f" -d {fish_quoted(command['summary'])}\n")
        for flag in command["options"]:
            for specification in (fish_flag(flag) if flag["names"] else "",
                                  fish_place(flag) if flag["place"] else ""):
                if specification:
                    having.setdefault(specification, []).append(command["name"])
    return out + "".join(
        f"complete -c specbound -n '__specbound_in {' '.join(names)}'{specification}\n"
        for specification, names in having.items())


# ---- the man page, in roff with the macros of man(7) ----

SYNOPSIS = r"""\fBspecbound\fR \fICOMMAND\fR [\fIoptions\fR]
.br
\fBspecbound\fR \fB\-m\fR \fIFILE.gguf\fR [\fIoptions\fR]
.br
\fBspecbound\fR \fICOMMAND\fR \fB\-\-help\fR
.br
\fBspecbound\fR \fB\-\-version\fR
"""

DESCRIPTION = (
    "Runs Llama-family language models from GGUF files, so that the bits of every token depend on "
    "the model, the prompt, the sampling settings and the seed, and on nothing else. Tokens are "
    "drafted by lookups in the text and in earlier replies, and for models that have them by "
    "trained heads; all layers verify the drafts together: the text is the same and mostly arrives "
    "sooner.\n\n"
    "stdout carries the text, stderr the rest. Without a COMMAND, options are those of specbound "
    "chat.")

ENVIRONMENT = {
    "SPECBOUND_NAME":
        "the value of the flag --name where the command line has none; empty counts as not set",
    "XDG_CONFIG_HOME, XDG_CACHE_HOME, XDG_DATA_HOME, XDG_STATE_HOME":
        "where settings, what was measured and tuned, conversations and what was learnt while "
        "idle, and the lines typed into a chat with its replies lie; ~/.config, ~/.cache, "
        "~/.local/share and ~/.local/state where they are not set",
    "HF_TOKEN, HF_ENDPOINT, HF_HUB_DOWNLOAD_TIMEOUT":
        "an access token for Hugging Face, another server that answers as huggingface.co does, and "
        "the seconds to wait for an answer, as the hub's own tools have them",
    "NO_COLOR": "no colours, whatever its value",
    "CUDA_VISIBLE_DEVICES": "which GPUs there are, as CUDA reads it",
}

FILES = {
    "~/.config/specbound/config": "settings, see above",
    "~/.cache/specbound/models": "models that were pulled by name",
    "NAME.heads.gguf": "trained heads, beside the model NAME.gguf",
}

EXIT_STATUS = {
    "0": "fine",
    "1": "a failure at run time; of specbound verify, a difference",
    "2": "flags, arguments or settings that cannot be used",
}


def roff(text):
    """Hyphens that can be copied, nothing that is a request or an escape."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.MULTILINE)


def bold(text):
    return f"\\fB{roff(text)}\\fR"


def italic(text):
    return f"\\fI{roff(text)}\\fR"


def entry(head, text):
    return f".TP\n{head}\n{roff(text)}\n"


def entries(texts):
    return "".join(entry(bold(name), text) for name, text in texts.items())


def paragraphs(text, begins=False):
    """Lines that begin with a blank stay as they are laid out. The macro that begins a paragraph
    stands in front of the first one only where `begins`: a heading has begun one."""
    out, laid_out = "", False
    for line in text.split("\n"):
        if laid_out and not line.startswith(" "):
            out += ".fi\n.RE\n"
            laid_out = False
        if not line:
            begins = True
        elif line.startswith(" "):
            if not laid_out:
                out += (".PP\n" if begins else "") + ".RS 4\n.nf\n"
            laid_out = True
            out += roff(line[2:] if line.startswith("  ") else line[1:]) + "\n"
        else:
            out += (".PP\n" if begins else "") + roff(line) + "\n"
            begins = False
    return out + (".fi\n.RE\n" if laid_out else "")


def man_flag(flag):
    """The option in bold with its value in italics, and what it does."""
    head = ", ".join(map(bold, flag["names"]))
    return entry(head + (" " + italic(flag["type"]) if flag["type"] else ""), flag["description"])


def man_command(command):
    """What a command does, its options, its examples."""
    out = paragraphs(command["about"]) + f".PP\n{bold(command['usage'])}\n"
    out += "".join(entry(italic(flag["place"]), flag["description"]) for flag in places(command))
    groups = {}
    for flag in named(command):
        groups.setdefault(flag["group"], []).append(flag)
    for group, flags in groups.items():
        out += f".PP\n{italic(group)}\n" + "".join(map(man_flag, flags))
    return out + paragraphs(command["footer"], True)


def man_page(name, version, summary, middle, settings):
    """`middle`: what is the page's own; the rest all pages have."""
    return (f'.\\" Made by `specbound man`.\n.TH "{roff(name.upper())}" 1 "" '
            f'"{roff("specbound " + version)}" "User Commands"\n'
            f".SH NAME\n{roff(name)} \\- {roff(summary)}\n{middle}"
            f".SH SETTINGS\n{paragraphs(settings)}.SH ENVIRONMENT\n{entries(ENVIRONMENT)}"
            f".SH FILES\n{entries(FILES)}.SH EXIT STATUS\n{entries(EXIT_STATUS)}")


def man_pages(said):
    """{arguments of the program: the page that it prints}, of all commands and of each."""
    version, commands, settings = said["version"], said["commands"], said["settings"]
    middle = f".SH SYNOPSIS\n{SYNOPSIS}.SH DESCRIPTION\n{paragraphs(DESCRIPTION)}"
    middle += entries({f"specbound {c['name']}": c["summary"] for c in commands})
    middle += ".SH COMMANDS\n" + "".join(
        f".SS specbound {roff(c['name'])}\n{man_command(c)}" for c in commands)
    pages = {"man": man_page(
        "specbound", version,
        "run Llama-family language models with exact self-speculation", middle, settings)}
    for command in commands:
        pages[f"man {command['name']}"] = man_page(
            f"specbound-{command['name']}", version, command["summary"],
            f".SH DESCRIPTION\n{man_command(command)}", settings)
    return pages


# ---- all together ----


def source(texts):
    """The function of cli/help.h that finds them."""
    lines = ["// Written by packaging/help_texts.py.", '#include "cli/help.h"', "",
             "namespace specbound {", "",
             "std::string_view made_text(std::string_view arguments) {"]
    for arguments, text in texts.items():
        assert ')made"' not in text, arguments
        lines.append(f'  if (arguments == "{arguments}") return R"made({text})made";')
    return "\n".join([*lines, "  return {};", "}", "", "}  // namespace specbound", ""])


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)


def main(program, folder):
    said = json.loads(subprocess.run([program, "help", "--json"], check=True,
                                     stdout=subprocess.PIPE).stdout)
    commands = said["commands"]
    texts = {"completion bash": bash_completion(commands),
             "completion zsh": zsh_completion(commands),
             "completion fish": fish_completion(commands), **man_pages(said)}
    for arguments, path in INSTALLED.items():
        write(os.path.join(folder, "share", path), texts[arguments])
    write(os.path.join(folder, "help_texts.cpp"), source(texts))


if __name__ == "__main__":
    main(*sys.argv[1:])
