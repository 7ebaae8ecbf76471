// specbound gui: the flags of the desktop app.
#include <functional>

#include "cli/command.h"
#include "cli/common_flags.h"
#include "cli/learning_flags.h"
#include "cli/speculation_flags.h"
#include "gui/window/app.h"
#include "system/file_output.h"
#include "system/number_text.h"

namespace specbound::gui_command {

namespace {

constexpr const char* kExamples =
    "Ctrl+N begins a conversation, Ctrl+M opens a model by its name, Ctrl+O a file (or drop "
    "it on the window), F1 explains what is to be seen, F12 shows how long frames take, Ctrl+Q "
    "leaves.\n"
    "\n"
    "Examples:\n"
    "  specbound gui\n"
    "  specbound gui -m model.gguf --preset paper\n"
    "  specbound gui --replay trace.jsonl";

Flag& add_window_setting(Flags& flags, const char* name, const char* type,
                         const std::function<bool(const std::string&)>& read,
                         const std::string& expected, const std::string& description) {
  return flags.add_read(name, expected, read, description).type(type);
}

void add_window_flags(Flags& flags, gui::AppFlags& given) {
  const Flags::Group group(flags, "Window");
  flags.add_file("--replay", given.replay, "a file of --trace, to be looked at and played again")
      .command_line_only();
  const auto theme = [&given](const std::string& text) {
    given.dark = text == "dark";
    return text == "dark" || text == "light";
  };
  add_window_setting(flags, "--theme", "dark|light", theme, "dark or light",
                     "colours (default: as last time)");
  const auto scale = [&given](const std::string& text) {
    given.scale = parse_number(text);
    return given.scale && *given.scale >= 0.5 && *given.scale <= 4;
  };
  add_window_setting(flags, "--scale", "X", scale, "a number from 0.5 to 4",
                     "size of everything (default: the screen's)");
  const auto size = [&given](const std::string& text) {
    constexpr int64_t kLeast = 320, kMost = 16384;
    const size_t x = text.find('x');
    if (x == std::string::npos) return false;
    const auto width = parse_int(std::string_view(text).substr(0, x));
    const auto height = parse_int(std::string_view(text).substr(x + 1));
    if (!width || !height || *width < kLeast || *height < kLeast) return false;
    if (*width > kMost || *height > kMost) return false;
    given.width = static_cast<int>(*width);
    given.height = static_cast<int>(*height);
    return true;
  };
  add_window_setting(flags, "--size", "WxH", size, "WIDTHxHEIGHT, such as 1280x800",
                     "size of the window (default: as last time)");
  flags.add_output_file(
      "--ui-json", given.ui_json,
      "rewrite this file with what is on screen and where: for programs that test it");
}

void declare(Flags& flags, gui::AppFlags& given) {
  flags
      .add_file("FILE", given.file,
                "a model or its name, a file of --trace, or a saved conversation")
      .type("FILE.gguf");
  add_window_flags(flags, given);
  const Flags::Group group(flags, "Reply");
  flags.add_int("-n,--n-predict,--predict", given.n_predict, -1, 1 << 30,
                "tokens of a reply at most (default -1: until it ends or the context is full)");
  add_system_flag(flags, given.system, "system prompt of the first conversation (default: none)");
  flags.add_output_file("--trace", given.trace,
                        "write what each round and token did as JSON lines");
  add_sampling_flags(flags, given.sampling);
  given.speculation.remember = true;  // unless a flag says otherwise
  add_speculation_flags(flags, given.speculation);
  add_learning_flags(flags, given.learning);
  add_model_flags(flags, given.model);
}

int run(gui::AppFlags& given) {
  (void)given.sampling.resolve();
  if (!given.trace.empty()) check_writable(given.trace);
  check_distinct(given.trace, given.ui_json);
  gui::run_app(given);
  return 0;
}

const CommandOf<gui::AppFlags> kGui(
    {.rank = 30,
     .name = "gui",
     .summary = "the same in a window, and watch each token leave the network",
     .text = "Talk with a model in a window, and watch each token leave the network.",
     .footer = kExamples},
    declare, run);

}  // namespace

}  // namespace specbound::gui_command
