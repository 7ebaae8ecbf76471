// parse_cli(): from the words of a command line to the values of a command's flags.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "app/cli.h"
#include "app/cli_definition.h"
#include "app/help.h"
#include "app/settings.h"
#include "app/suggestion.h"
#include "app/terminal_text.h"
#include "error.h"

namespace specbound {

namespace {

// "-ngl8" and "-ngl=8" as "--gpu-layers=8", where `app` has that flag.
std::string with_long_name(const CLI::App& app, const std::string& argument) {
  for (const ShortSpelling& spelling : short_spellings()) {
    if (!argument.starts_with(spelling.dashed)) continue;
    const std::string name(spelling.name);
    if (!app.get_option_no_throw(name)) continue;
    const std::string value = argument.substr(spelling.dashed.size());
    if (!spelling.joins && !value.empty() && value[0] != '=') continue;
    return name + (value.empty() || value[0] == '=' ? value : "=" + value);
  }
  return argument;
}

// The arguments after argv[0], with -ngl and "--name=" spelled as CLI11 understands them. The value
// of an option is passed through whatever it looks like.
std::vector<std::string> normalized_arguments(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> out;
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    if (arg == "--") {
      out.insert(out.end(), argv + i, argv + argc);
      break;
    }
    arg = with_long_name(app, arg);
    if (arg.starts_with("--") && arg.size() > 3 && arg.find('=') == arg.size() - 1) {
      arg.pop_back();
      out.push_back(arg);
      out.emplace_back();
      continue;
    }
    out.push_back(arg);
    const CLI::Option* option =
        arg.starts_with("-") && arg.size() > 1 ? app.get_option_no_throw(arg) : nullptr;
    if (option && option->get_items_expected_min() > 0 && i + 1 < argc) out.push_back(argv[++i]);
  }
  return out;
}

// One line that can be shown whatever bytes it quotes.
std::string one_line(const std::string& text) {
  constexpr size_t kMax = 500;
  return terminal_text(text.substr(0, kMax)) + (text.size() > kMax ? "..." : "");
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

// What to say of words that are no options of `app` and have no place in it.
std::string unexpected(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining();
  const auto option = std::find_if(words.begin(), words.end(), [](const std::string& word) {
    return word.starts_with('-') && word.size() > 1;
  });
  if (option == words.end()) {
    return "unexpected argument " + one_line(words.empty() ? "" : words.front());
  }
  const std::string name = option->substr(0, option->find('='));
  std::vector<std::string> known;
  for (const CLI::Option* o : app.get_options()) {
    known.insert(known.end(), o->get_lnames().begin(), o->get_lnames().end());
  }
  const size_t dashes = std::min(name.find_first_not_of('-'), name.size());
  const std::string meant = nearest(std::string_view(name).substr(dashes), known);
  return "unknown option " + one_line(name) +
         (meant.empty() ? "" : format("; did you mean --%s?", meant.c_str()));
}

// The last one counts, so that a script's defaults can be overridden behind them.
void let_the_last_count(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() == 1 &&
        option->get_multi_option_policy() != CLI::MultiOptionPolicy::TakeAll) {
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
  }
}

}  // namespace

std::optional<int> parse_cli(CLI::App& app, int argc, char** argv, FILE* out, FILE* err) {
  SB_CHECK(argc >= 1);
  const std::string command = argv[0];
  add_settings_flags(app);
  let_the_last_count(app);
  if (asks_for_definition(argc, argv)) throw DefinitionAnswer{define(app, command)};
  std::vector<std::string> arguments = normalized_arguments(app, argc, argv);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  std::string wrong;
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    std::fputs(help_text(define(app, command)).c_str(), out);
    return 0;
  } catch (const CLI::ExtrasError&) {
    wrong = unexpected(app);
  } catch (const CLI::ParseError& e) {
    wrong = complaint(e);
  }
  if (!wrong.empty()) {
    std::fprintf(err, "specbound %s: %s%s specbound %s --help lists the options\n", argv[0],
                 wrong.c_str(), wrong.ends_with('?') ? "" : ";", argv[0]);
    return 2;
  }
  apply_settings(app, command, err);
  return std::nullopt;
}

}  // namespace specbound
