// The subcommands. Each lives in one file, where an object of static storage lists it; help, man
// page and completion know it from there. Nothing else names that file.
//
//   void declare(Flags& flags, LensOptions& options);
//   int run(LensOptions& options);
//   const CommandOf<LensOptions> kLens({.rank = 120, .name = "lens", ...}, declare, run);
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "cli/flags.h"

namespace specbound {

class Command {
 public:
  struct About {
    int rank;             // commands are listed by it
    const char* name;     // train-heads
    const char* summary;  // one line, without a period
    const char* text = "";
    const char* footer = "";  // examples
  };

  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  const About& about() const { return about_; }
  // Of a command that this build leaves out: its name, and why as `about`.
  virtual CommandDefinition definition() const = 0;
  // argv[0] is the name. The exit status: 0 fine, 1 run-time failure, 2 usage. Throws Error, which
  // main prints as one line.
  virtual int run(int argc, char** argv) const = 0;

 protected:
  explicit Command(const About& about);
  ~Command() = default;

 private:
  About about_;
};

// A command whose flags set an Options.
template <class Options>
class CommandOf final : public Command {
 public:
  CommandOf(const About& about, void (*declare)(Flags&, Options&), int (*run)(Options&))
      : Command(about), declare_(declare), run_(run) {}

  CommandDefinition definition() const override {
    Options options;
    Flags flags(about().text, about().footer);
    declare_(flags, options);
    add_settings_flags(flags);
    return flags.definition(about().name);
  }

  int run(int argc, char** argv) const override {
    Options options;
    Flags flags(about().text, about().footer);
    declare_(flags, options);
    if (const std::optional<int> status = parse_cli(flags, argc, argv)) return *status;
    return run_(options);
  }

 private:
  void (*declare_)(Flags&, Options&);
  int (*run_)(Options&);
};

// Stands in for a command where the program does not bring the real one.
class AbsentCommand final : public Command {
 public:
  // `why` says how to get it.
  AbsentCommand(const About& about, const char* why) : Command(about), why_(why) {}

  CommandDefinition definition() const override;
  int run(int argc, char** argv) const override;  // throws Error(kUnsupported)

 private:
  const char* why_;
};

// By rank.
const std::vector<const Command*>& commands();

// nullptr: there is none of that name.
const Command* find_command(std::string_view name);

}  // namespace specbound
