// specbound gui: the flags of the desktop app.
#include <CLI/CLI.hpp>
#include <functional>

#include "app/cli.h"
#include "app/commands.h"
#include "app/file_output.h"
#include "error.h"
#include "gui/window/app.h"

namespace specbound {

namespace {

constexpr const char* kExamples =
    "Ctrl+N begins a conversation, Ctrl+O opens a model (or drop a file on the window), F1 "
    "explains "
    "what is to be seen, F12 shows how long frames take, Ctrl+Q leaves.\n"
    "\n"
    "Examples:\n"
    "  specbound gui\n"
    "  specbound gui -m model.gguf --preset paper\n"
    "  specbound gui --replay trace.jsonl";

CLI::Option* add_window_setting(CLI::App& app, const char* name, const char* type,
                                const std::function<bool(const std::string&)>& read,
                                const std::string& expected, const std::string& description) {
  const auto assign = [name, read, expected](const std::string& text) {
    if (read(text)) return;
    throw CLI::ValidationError(
        name, format("expected %s, found \"%s\"", expected.c_str(), printable(text).c_str()));
  };
  return app.add_option_function<std::string>(name, assign, description)
      ->type_name(type)
      ->group("Window");
}

void add_window_flags(CLI::App& app, gui::AppFlags& flags) {
  add_file(app, "--replay", flags.replay, "a file of --trace, to be looked at and played again")
      ->group("Window")
      ->configurable(false);
  const auto theme = [&flags](const std::string& text) {
    flags.dark = text == "dark";
    return text == "dark" || text == "light";
  };
  add_window_setting(app, "--theme", "dark|light", theme, "dark or light",
                     "colours (default: as last time)");
  const auto scale = [&flags](const std::string& text) {
    flags.scale = parse_number(text);
    return flags.scale && *flags.scale >= 0.5 && *flags.scale <= 4;
  };
  add_window_setting(app, "--scale", "X", scale, "a number from 0.5 to 4",
                     "size of everything (default: the screen's)");
  const auto size = [&flags](const std::string& text) {
    constexpr int64_t kLeast = 320, kMost = 16384;
    const size_t x = text.find('x');
    if (x == std::string::npos) return false;
    const auto width = parse_int(std::string_view(text).substr(0, x));
    const auto height = parse_int(std::string_view(text).substr(x + 1));
    if (!width || !height || *width < kLeast || *height < kLeast) return false;
    if (*width > kMost || *height > kMost) return false;
    flags.width = static_cast<int>(*width);
    flags.height = static_cast<int>(*height);
    return true;
  };
  add_window_setting(app, "--size", "WxH", size, "WIDTHxHEIGHT, such as 1280x800",
                     "size of the window (default: as last time)");
  add_output_file(app, "--ui-json", flags.ui_json,
                  "rewrite this file with what is on screen and where: for programs that test it")
      ->group("Window");
}

}  // namespace

int command_gui(int argc, char** argv) {
  gui::AppFlags flags;
  CLI::App app("Talk with a model in a window, and watch each token leave the network.");
  add_file(app, "FILE", flags.file, "a model, a file of --trace, or a saved conversation")
      ->type_name("FILE.gguf");
  add_window_flags(app, flags);
  add_int(app, "-n,--n-predict,--predict", flags.n_predict, -1, 1 << 30,
          "tokens of a reply at most (default -1: until it ends or the context is full)")
      ->group("Reply");
  app.add_option("--sys,--system-prompt", flags.system,
                 "system prompt of the first conversation (default: none)")
      ->type_name("TEXT")
      ->group("Reply");
  add_output_file(app, "--trace", flags.trace, "write what each round and token did as JSON lines")
      ->group("Reply");
  add_sampling_flags(app, flags.sampling);
  add_speculation_flags(app, flags.speculation);
  add_model_flags(app, flags.model);
  app.footer(kExamples);
  if (const std::optional<int> status = parse_cli(app, argc, argv)) return *status;
  (void)flags.sampling.resolve();
  if (!flags.trace.empty()) check_writable(flags.trace);
  check_distinct(flags.trace, flags.ui_json);
  gui::run_app(flags);
  return 0;
}

}  // namespace specbound
