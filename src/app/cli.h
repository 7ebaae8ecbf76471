// The command line as every subcommand reads it: one way to parse, to complain and to print help,
// and the groups of flags that commands share. Numbers are read by our own parsers, so that "0x10",
// "1e400", "nan" and "8x" are refused with the flag's name and the range it takes.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "app/device_choice.h"
#include "decode/sampler.h"
#include "engine/cpu/cpu_backend.h"
#include "text/stop_strings.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace specbound {

// Parses argv (argv[0] is the subcommand's name), then takes what it leaves out from environment
// and settings file (app/settings.h). nullopt: go on. 0: help went to `out`. 2: one line about what
// is wrong went to `err`. Throws what apply_settings() does. Single-dash names of several letters
// (-ngl) are understood; of a repeated flag the last one counts. An option that stands for one run
// alone is marked ->configurable(false): it comes from the command line only.
std::optional<int> parse_cli(CLI::App& app, int argc, char** argv, FILE* out = stdout,
                             FILE* err = stderr);

// A number option that takes `low`..`high` and nothing else.
CLI::Option* add_int(CLI::App& app, const std::string& names, int& value, int low, int high,
                     const std::string& description);

// The name of a file. An empty one is refused: it is what an unset shell variable leaves, and must
// not count as a flag that was not given.
CLI::Option* add_file(CLI::App& app, const std::string& names, std::string& value,
                      const std::string& description);

// The same for a file to write. "-" is refused too: it would be a file of that name.
CLI::Option* add_output_file(CLI::App& app, const std::string& names, std::string& value,
                             const std::string& description);

// -m, --model; `value` stays empty without it: the bundled demo model.
CLI::Option* add_model_file(CLI::App& app, std::string& value);

// Whole-text number parsers; nullopt for anything else (sign where none belongs, overflow, NaN,
// inf, white space, trailing characters).
std::optional<int64_t> parse_int(std::string_view text);
std::optional<uint64_t> parse_uint(std::string_view text);
std::optional<double> parse_number(std::string_view text);

// Which model, and how it is run.
struct ModelFlags {
  std::string model;          // empty: the bundled demo model
  int n_ctx = 0;              // 0: as trained
  int n_threads = 0;          // 0: one per physical core
  std::string chat_template;  // a built-in one; empty: as the file says
  DeviceFlags device;
  std::string isa = "auto";
  bool no_repack = false;

  // Throws Error(kUsage) for what this CPU lacks.
  CpuOptions cpu_options() const;
};
void add_model_flags(CLI::App& app, ModelFlags& flags);

// The text that a command works on: -p, -f, or stdin without either.
struct TextFlags {
  std::optional<std::string> text;
  std::string file;  // "-": stdin; empty: not given

  // Byte for byte. Throws Error(kUsage) for both flags, or for neither at a terminal, and what
  // reading throws.
  std::string bytes() const;
  // The same for a prompt: from a file or a pipe without one line end at its end, and refused with
  // Error(kUsage) when nothing is left. Only `-p ""` asks for an empty prompt.
  std::string prompt() const;

 private:
  std::string path() const;  // where a text that is not in `text` lies
};
void add_text_flags(CLI::App& app, TextFlags& flags, const char* text, const char* file);

// How tokens are drawn. Without --seed each run draws its own and shows it.
struct SamplingFlags {
  SamplingParams params;
  std::optional<uint64_t> seed;

  // The parameters with a seed, checked. Throws Error(kUsage).
  SamplingParams resolve() const;
};
void add_sampling_flags(CLI::App& app, SamplingFlags& flags);

// What is asked of one reply.
struct ReplyFlags {
  int n_predict = -1;  // -1: until the end token or the context is full
  bool ignore_eos = false;
  std::string system;
  std::string stats_json;  // empty: none
  std::string trace;       // empty: none
  StopStrings stop;
  bool show_exits = false;
};
void add_reply_flags(CLI::App& app, ReplyFlags& flags);

}  // namespace specbound
