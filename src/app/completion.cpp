#include "app/completion.h"

#include <CLI/CLI.hpp>
#include <optional>

#include "app/cli.h"
#include "app/command_table.h"
#include "app/commands.h"
#include "app/standard_output.h"
#include "error.h"

namespace specbound {

std::string joined(const std::vector<std::string>& parts, const std::string& between) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : between) + part;
  return out;
}

std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

int command_completion(int argc, char** argv) {
  CLI::App app(
      "Print a script by which a shell completes commands, options and their values. It needs "
      "nothing but the shell.");
  std::string shell;
  app.add_option("SHELL", shell, "the shell: bash, zsh or fish")
      ->type_name("bash|zsh|fish")
      ->required();
  app.footer(
      "Examples:\n"
      "  specbound completion bash > ~/.local/share/bash-completion/completions/specbound\n"
      "  source <(specbound completion bash)                 in ~/.bashrc\n"
      "  specbound completion zsh > ~/.zfunc/_specbound      a folder of $fpath\n"
      "  specbound completion fish > ~/.config/fish/completions/specbound.fish");
  if (const std::optional<int> status = parse_cli(app, argc, argv)) return *status;
  std::vector<CompletedCommand> list;
  for (const Command& command : commands())
    list.push_back({command.summary, definition_of(command)});
  if (shell == "bash") return write_stdout(bash_completion(list)) ? 0 : 1;
  if (shell == "zsh") return write_stdout(zsh_completion(list)) ? 0 : 1;
  if (shell == "fish") return write_stdout(fish_completion(list)) ? 0 : 1;
  throw Error(ErrorCode::kUsage,
              format("expected bash, zsh or fish, found \"%s\"", printable(shell).c_str()));
}

}  // namespace specbound
