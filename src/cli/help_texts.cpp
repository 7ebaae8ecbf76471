// specbound man and specbound completion: they print texts that packaging/help_texts.py made when
// the program was built.
#include <string>

#include "cli/command.h"
#include "cli/help.h"
#include "error.h"
#include "terminal/standard_output.h"

namespace specbound {

// Weak: of the program that the texts are made from, and of tests, which are without them. Where
// they are linked, the linker takes what was written for this.
[[gnu::weak]] std::string_view made_text(std::string_view arguments) {
  throw Error(ErrorCode::kUnsupported,
              format("this program was made without the text of specbound %s",
                     std::string(arguments).c_str()));
}

namespace help_texts_command {

namespace {

int print(const std::string& arguments) {
  const std::string_view text = made_text(arguments);
  SB_CHECK(!text.empty());
  return write_stdout(text) ? 0 : 1;
}

struct ManOptions {
  std::string name;
};

void add_man_flags(Flags& flags, ManOptions& options) {
  flags.add_text("COMMAND", options.name, "the command (default: all of them)")
      .type(command_choices());
}

int run_man(ManOptions& options) {
  const Command* command = named_command(options.name);
  return print(command ? std::string("man ") + command->about().name : "man");
}

const CommandOf<ManOptions> kMan(
    {.rank = 200,
     .name = "man",
     .summary = "the manual page, for man(1)",
     .text = "Print the manual page, of all commands or of one, as man(1) reads it.",
     .footer = "Examples:\n"
               "  specbound man | man -l -\n"
               "  specbound man run | man -l -\n"
               "  specbound man > ~/.local/share/man/man1/specbound.1"},
    add_man_flags, run_man);

struct CompletionOptions {
  std::string shell;
};

void add_completion_flags(Flags& flags, CompletionOptions& options) {
  flags.add_word("SHELL", options.shell, {"bash", "zsh", "fish"}, "the shell: bash, zsh or fish")
      .required();
}

int run_completion(CompletionOptions& options) {
  return print("completion " + options.shell);
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
    add_completion_flags, run_completion);

}  // namespace

}  // namespace help_texts_command

}  // namespace specbound
