// The flags of a command. Each is declared once, with the value that it sets; parsing, help, man
// page, completion, the settings file, the environment and docs/commands.md are made from that.
// Numbers are read by our own parsers, so that "0x10", "1e400", "nan" and "8x" are refused with the
// flag's name and the range it takes.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/speculation_options.h"

namespace specbound {

// What is said of a flag, or of an argument that has its place in the line.
struct FlagDefinition {
  enum class Takes { kNothing, kText, kFile, kDirectory };

  std::vector<std::string> names;    // as they are typed, short ones first; empty: a place only
  std::string place;                 // the name among the arguments without a flag; may be empty
  std::string type;                  // of the value: N, FILE, on|off; empty for a switch
  std::vector<std::string> choices;  // the words among which it is chosen, where they are listed
  std::string description;
  std::string group = "Options";
  bool repeats = false;   // counts as often as it is given
  bool settable = false;  // may stand in the settings file and the environment
  bool required = false;

  Takes takes() const;
  // The first name with two dashes, without them; empty: it has none.
  std::string long_name() const;
  bool has_long_name(std::string_view name) const;
};

// A command with all its flags.
struct CommandDefinition {
  std::string name;                   // run
  std::string about;                  // paragraphs; lines that begin with a blank are laid out
  std::string footer;                 // the same
  std::vector<FlagDefinition> flags;  // in the order of their groups

  std::vector<std::string> groups() const;
};

class Flag {
 public:
  enum class Counts {
    kLast,  // the value that was given last: a script's defaults can be overridden behind them
    kOnce,  // the only value: a second one is refused
    kEach,  // every value
    kMany,  // every value, and the words that follow one are more of them
  };
  // Takes the values, or throws Error(kUsage).
  using Read = std::function<void(const std::vector<std::string>& values)>;

  // ---- while it is declared ----

  Flag& type(std::string text) {
    declared_.type = std::move(text);
    return *this;
  }
  Flag& group(std::string title) {
    declared_.group = std::move(title);
    return *this;
  }
  Flag& description(std::string text) {
    declared_.description = std::move(text);
    return *this;
  }
  Flag& required() {
    declared_.required = true;
    return *this;
  }
  // It stands for one run alone: neither the settings file nor the environment may give it.
  Flag& command_line_only() {
    declared_.settable = false;
    return *this;
  }
  // Given twice it is refused: of two texts one would be lost without a word.
  Flag& once() {
    counts_ = Counts::kOnce;
    return *this;
  }
  // Flags, without dashes, that it contradicts or stands for: given by somebody weaker, such as a
  // settings file where this is on the command line, they are left out.
  Flag& overrides(std::vector<std::string> others) {
    overridden_ = std::move(others);
    return *this;
  }

  // ---- afterwards ----

  // Type and description as they are shown: of many words the list goes into the description.
  FlagDefinition definition() const;
  const FlagDefinition& declared() const { return declared_; }
  // What complaints call it: the first long name with its dashes, else the place.
  std::string name() const;
  Counts counts() const { return counts_; }
  const std::vector<std::string>& overridden() const { return overridden_; }
  bool* switched() const { return switched_; }  // nullptr: it takes a value
  // Whether it was given, and the values: of a switch "true" or "false".
  bool given() const { return !values_.empty(); }
  const std::vector<std::string>& values() const { return values_; }
  // Where it was given: SPECBOUND_TEMP, or PATH:3: temp; empty: on the command line.
  const std::string& place() const { return place_; }
  // As if the command line had said so. Throws Error(kUsage).
  void give(const std::vector<std::string>& values, std::string place = "");

 private:
  friend class Flags;
  Flag(const std::string& names, std::string description);

  FlagDefinition declared_;
  Counts counts_ = Counts::kLast;
  bool* switched_ = nullptr;
  Read read_;
  std::string place_;
  std::vector<std::string> values_, overridden_;
};

class Flags {
 public:
  using List = std::vector<std::unique_ptr<Flag>>;

  // -h, --help is there already.
  explicit Flags(std::string about = "", std::string footer = "");

  // While there is one, flags are added to the group of this title.
  class Group {
   public:
    Group(Flags& flags, std::string title)
        : flags_(flags), before_(std::exchange(flags.group_, std::move(title))) {}
    ~Group() { flags_.group_ = std::move(before_); }
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;

   private:
    Flags& flags_;
    std::string before_;
  };

  // `names` as "-n,--n-predict,PLACE". One dash and several letters, as -ngl, is a name too.
  // The values that flags set must outlive them.

  Flag& add_switch(const std::string& names, bool& value, const std::string& description);
  // `value`: a string, or an optional one.
  template <class Text>
  Flag& add_text(const std::string& names, Text& value, const std::string& description) {
    const auto read = [&value](const std::vector<std::string>& values) { value = values.back(); };
    return add_values(names, Flag::Counts::kLast, read, description);
  }
  // Every text that is given.
  Flag& add_texts(const std::string& names, std::vector<std::string>& values,
                  const std::string& description, Flag::Counts counts = Flag::Counts::kEach);
  // A number from `low` to `high` and nothing else.
  Flag& add_int(const std::string& names, int& value, int low, int high,
                const std::string& description);
  // Bytes, as "500M" or "8G": from a million to 1000T, or 0 where that means something.
  enum class Zero { kRefused, kTaken };
  Flag& add_size(const std::string& names, uint64_t& value, Zero zero,
                 const std::string& description);
  template <class Number>
  Flag& add_real(const std::string& names, Number& value, double low, double high,
                 const std::string& description) {
    const auto assign = [&value](double number) { value = static_cast<Number>(number); };
    return add_assigned(names, low, high, assign, description);
  }
  // The name of a file. An empty one is refused: it is what an unset shell variable leaves, and
  // must not count as a flag that was not given.
  Flag& add_file(const std::string& names, std::string& value, const std::string& description);
  // The same, each time that it is given.
  Flag& add_files(const std::string& names, std::vector<std::string>& values,
                  const std::string& description, Flag::Counts counts = Flag::Counts::kEach);
  // The same for a file to write. "-" is refused too: it would be a file of that name; and what
  // another flag reads.
  Flag& add_output_file(const std::string& names, std::string& value,
                        const std::string& description);
  // One of several words, each with what it means.
  template <class Value>
  Flag& add_choice(const std::string& names, Value& value,
                   const std::vector<std::pair<const char*, std::type_identity_t<Value>>>& choices,
                   const std::string& description) {
    std::vector<std::string> words;
    for (const auto& choice : choices) words.emplace_back(choice.first);
    const auto read = [&value, choices](const std::string& text) {
      for (const auto& [word, meaning] : choices) {
        if (text != word) continue;
        value = meaning;
        return true;
      }
      return false;
    };
    return add_read(names, or_list(words), read, description).type(bar_list(words));
  }
  // One of several words, as it is.
  Flag& add_word(const std::string& names, std::string& value,
                 const std::vector<std::string>& words, const std::string& description);
  // A text that `read` takes; false: "NAME: expected EXPECTED, found ..". It may throw
  // Error(kUsage) with words of its own.
  Flag& add_read(const std::string& names, const std::string& expected,
                 const std::function<bool(const std::string&)>& read,
                 const std::string& description);
  // All values that were given.
  Flag& add_values(const std::string& names, Flag::Counts counts, Flag::Read read,
                   const std::string& description);
  // A measurement is what its command line says: of all flags so far only these may come from
  // elsewhere.
  void all_command_line_only_but(const std::vector<std::string_view>& names);
  // Called when all flags have their values, to refuse what contradicts itself: Error(kUsage).
  void add_check(std::function<void()> check) { checks_.push_back(std::move(check)); }

  // nullptr: there is none of that name, which has its dashes.
  Flag* find(std::string_view name) const;
  // One that is there.
  Flag& operator[](std::string_view name) const;
  void remove(std::string_view name);
  const List& list() const { return list_; }
  // argv as parse_cli() got it.
  const std::vector<std::string>& arguments() const { return arguments_; }
  CommandDefinition definition(const std::string& command) const;
  void check() const {
    for (const std::function<void()>& check : checks_) check();
  }

  // What --config and --no-config say.
  struct SettingsChoice {
    std::string path;  // empty: nothing
    bool none = false;
  } settings;

 private:
  Flag& add(const std::string& names, const std::string& description);
  Flag& add_file_name(const std::string& names, std::string& value, const std::string& description);
  Flag& add_assigned(const std::string& names, double low, double high,
                     const std::function<void(double)>& assign, const std::string& description);

  friend std::optional<int> parse_cli(Flags& flags, int argc, char** argv, FILE* out, FILE* err);

  std::string about_, footer_;
  std::string group_ = FlagDefinition().group;
  std::vector<std::string> arguments_;
  List list_;
  std::vector<std::function<void()>> checks_;
  std::vector<std::function<std::vector<std::string>()>> files_read_;  // as flags have set them
};

// --config and --no-config, where there is a flag that may come from the file.
void add_settings_flags(Flags& flags);

// Parses argv (argv[0] is the subcommand's name), then takes what it leaves out from environment
// and settings file (cli/settings_file.h), then has the flags check each other. nullopt: go on.
// 0: help went to `out`. 2: one line about what is wrong went to `err`. Throws what
// apply_settings() and checks do.
std::optional<int> parse_cli(Flags& flags, int argc, char** argv, FILE* out = stdout,
                             FILE* err = stderr);
// Parses words that are no command line of their own: no help, no settings. Throws Error(kUsage).
void parse_words(Flags& flags, const std::vector<std::string>& words);

// The parts of "a,b,c"; of an empty text one that is empty.
std::vector<std::string_view> split(std::string_view text, char separator);

// A name of several letters behind one dash: -ngl.
bool is_long_short_name(std::string_view name);

}  // namespace specbound
