// parse_cli(): from the words of a command line to the values of a command's flags. The one file
// that knows CLI11, which finds out which words are names and which are values.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/settings_file.h"
#include "error.h"
#include "terminal/terminal_text.h"

namespace specbound {

namespace {

// "-ngl8" and "-ngl=8" as "--gpu-layers=8", where there is such a flag. Files are not joined to
// their flag: "-mdraft.gguf" is "-m draft.gguf".
std::string with_long_name(const Flags& flags, const std::string& argument) {
  for (const auto& flag : flags.list()) {
    for (const std::string& name : flag->declared().names) {
      if (!is_long_short_name(name) || !argument.starts_with(name)) continue;
      const std::string value = argument.substr(name.size());
      const bool joins = flag->declared().takes() != FlagDefinition::Takes::kFile;
      if (!joins && !value.empty() && value[0] != '=') continue;
      return flag->name() + (value.empty() || value[0] == '=' ? value : "=" + value);
    }
  }
  return argument;
}

// One line that can be shown whatever bytes it quotes.
std::string one_line(const std::string& text) {
  constexpr size_t kMax = 500;
  return terminal_text(text.substr(0, kMax)) + (text.size() > kMax ? "..." : "");
}

// Where a flag is that this command lacks: the first command that has it; empty: none.
std::string command_with(const std::string& name) {
  for (const Command* command : commands()) {
    const CommandDefinition definition = command->definition();
    if (std::ranges::any_of(definition.flags, [&](const FlagDefinition& flag) {
          return std::ranges::count(flag.names, name) > 0;
        })) {
      return definition.name;
    }
  }
  return "";
}

std::string unknown_option(const Flags& flags, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  std::vector<std::string> known;
  for (const auto& flag : flags.list()) {
    for (const std::string& one : flag->declared().names) {
      if (one.starts_with("--")) known.push_back(one.substr(2));
    }
  }
  const size_t dashes = std::min(name.find_first_not_of('-'), name.size());
  const std::string meant = nearest(std::string_view(name).substr(dashes), known);
  const std::string elsewhere = meant.empty() ? command_with(name) : "";
  return "unknown option " + one_line(name) +
         (!meant.empty()       ? format("; did you mean --%s?", meant.c_str())
          : !elsewhere.empty() ? format("; specbound %s has it", elsewhere.c_str())
                               : "");
}

// What to say of words that are no flags and have no place. `words`: those that were left over.
std::string unexpected(const Flags& flags, const std::vector<std::string>& words) {
  const auto option = std::find_if(words.begin(), words.end(), [](const std::string& word) {
    return word.starts_with('-') && word.size() > 1;
  });
  if (option != words.end()) return unknown_option(flags, *option);
  return "unexpected argument " + one_line(words.empty() ? "" : words.front());
}

// "-t4", "-n-1" and "-mdraft.gguf": a flag of one letter with its value.
bool joins_value(const Flags& flags, const std::string& word) {
  const Flag* const flag = flags.find(word.substr(0, 2));
  if (!flag || flag->declared().takes() == FlagDefinition::Takes::kNothing) return false;
  const std::string value = word.substr(2);
  const size_t digit = value[0] == '-' ? 1 : 0;
  if (value[0] == '=' ||
      (digit < value.size() && std::isdigit(static_cast<unsigned char>(value[digit])))) {
    return true;
  }
  std::error_code ignored;
  return flag->declared().takes() == FlagDefinition::Takes::kFile &&
         (value.find_first_of("./") != std::string::npos ||
          std::filesystem::exists(value, ignored));
}

// The arguments after argv[0], with -ngl and "--name=" spelled as CLI11 understands them. The value
// of a flag is passed through whatever it looks like. Throws Error(kUsage) for a word of one dash
// that is no flag: CLI11 would take it apart, and find -h in "-hello".
std::vector<std::string> normalized_arguments(const Flags& flags,
                                              const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string arg = words[i];
    if (arg == "--") {
      out.insert(out.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
      break;
    }
    arg = with_long_name(flags, arg);
    if (is_long_short_name(arg) && !joins_value(flags, arg)) {
      throw Error(ErrorCode::kUsage, unknown_option(flags, arg));
    }
    if (arg.starts_with("--") && arg.size() > 3 && arg.find('=') == arg.size() - 1) {
      arg.pop_back();
      out.push_back(arg);
      out.emplace_back();
      continue;
    }
    out.push_back(arg);
    const Flag* flag = flags.find(arg);
    if (flag && !flag->declared().type.empty() && i + 1 < words.size()) out.push_back(words[++i]);
  }
  return out;
}

// What CLI11 complains about.
std::string complaint(const CLI::ParseError& e) {
  const std::string text = e.what();
  const size_t missing = text.find(": 1 required ");
  if (missing != std::string::npos && text.ends_with(" missing")) {
    return one_line(text.substr(0, missing) + ": a value is missing");
  }
  // "Could not convert: --raw = maybe": switches are all that CLI11 converts itself.
  constexpr std::string_view kSwitch = "Could not convert: ", kIs = " = ";
  const size_t is = text.find(kIs);
  if (text.starts_with(kSwitch) && is != std::string::npos) {
    return one_line(text.substr(kSwitch.size(), is - kSwitch.size())) +
           ": expected on or off, found \"" + printable(text.substr(is + kIs.size())) + "\"";
  }
  return one_line(text);
}

// What `flag` is to CLI11, whose own -h, --help stands for ours.
CLI::Option* declare(CLI::App& app, Flag& flag) {
  std::string names = flag.declared().place;
  for (const std::string& name : flag.declared().names) {
    if (!is_long_short_name(name)) names += (names.empty() ? "" : ",") + name;
  }
  if (flag.switched()) return app.add_flag(names, *flag.switched());
  CLI::Option* const option = app.add_option(names, [&flag](const CLI::results_t& values) {
    flag.give(values);
    return true;
  });
  option->required(flag.declared().required);
  if (flag.counts() == Flag::Counts::kMany) option->expected(CLI::detail::expected_max_vector_size);
  return option->multi_option_policy(flag.counts() == Flag::Counts::kLast
                                         ? CLI::MultiOptionPolicy::TakeLast
                                         : CLI::MultiOptionPolicy::TakeAll);
}

// Declares `flags` on `app`, and has it parse words. Throws what CLI11 and reading a value throw.
void parse(CLI::App& app, Flags& flags, std::vector<std::string> words) {
  std::vector<std::pair<Flag*, CLI::Option*>> switches;
  for (const auto& flag : flags.list()) {
    if (flag->name() == "--help") continue;
    CLI::Option* const option = declare(app, *flag);
    if (flag->switched()) switches.emplace_back(flag.get(), option);
  }
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  app.parse(words);
  for (const auto& [flag, option] : switches) {
    if (option->count() > 0) flag->give({*flag->switched() ? "true" : "false"});
  }
}

}  // namespace

void parse_words(Flags& flags, const std::vector<std::string>& words) {
  CLI::App app;
  app.set_help_flag();
  try {
    parse(app, flags, normalized_arguments(flags, words));
  } catch (const CLI::ParseError& e) {
    throw Error(ErrorCode::kUsage, e.what());
  }
}

std::optional<int> parse_cli(Flags& flags, int argc, char** argv, FILE* out, FILE* err) {
  SB_CHECK(argc >= 1);
  const std::string command = argv[0];
  flags.arguments_.assign(argv, argv + argc);
  add_settings_flags(flags);
  CLI::App app;
  std::string wrong;
  try {
    parse(app, flags, normalized_arguments(flags, {argv + 1, argv + argc}));
  } catch (const CLI::CallForHelp&) {
    std::fputs(help_text(flags.definition(command)).c_str(), out);
    return 0;
  } catch (const CLI::ExtrasError&) {
    wrong = unexpected(flags, app.remaining());
  } catch (const CLI::ParseError& e) {
    wrong = complaint(e);
  } catch (const Error& e) {  // a flag's
    wrong = one_line(e.what());
  }
  if (!wrong.empty()) {
    std::fprintf(err, "specbound %s: %s%s specbound %s --help lists the options\n", argv[0],
                 wrong.c_str(), wrong.ends_with('?') ? "" : ";", argv[0]);
    return 2;
  }
  apply_settings(flags, command, err);
  flags.check();
  return std::nullopt;
}

}  // namespace specbound
