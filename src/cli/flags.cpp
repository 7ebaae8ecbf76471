#include "cli/flags.h"

#include <algorithm>
#include <cmath>

#include "error.h"
#include "system/file_output.h"
#include "system/number_text.h"
#include "terminal/flag_names.h"

namespace specbound {

namespace {

// "auto" and "Q8_0" are words to be typed, "N" and "cuda:N" stand for something else.
bool is_word(std::string_view part) {
  const auto among = [&](char first, char last) {
    return std::any_of(part.begin(), part.end(), [=](char c) { return c >= first && c <= last; });
  };
  return !part.empty() && (!among('A', 'Z') || among('0', '9'));
}

// A type that lists words gives the choices; too many of them go into the description.
void find_choices(FlagDefinition& flag) {
  constexpr size_t kMaxType = 40;
  if (flag.type.find('|') == std::string::npos) return;
  for (const std::string_view part : split(flag.type, '|')) {
    if (is_word(part)) flag.choices.emplace_back(part);
  }
  if (flag.type.size() <= kMaxType) return;
  flag.type = "NAME";
  std::string list;
  for (const std::string& word : flag.choices) list += (list.empty() ? ": " : ", ") + word;
  flag.description += list;
}

[[noreturn]] void refuse(const std::string& name, const std::string& expected,
                         const std::string& found) {
  throw Error(ErrorCode::kUsage,
              name + ": expected " + expected + ", found \"" + printable(found) + "\"");
}

std::optional<uint64_t> parse_size(std::string_view text) {
  double unit = 1;
  constexpr std::string_view kUnits = "KMGT";
  if (!text.empty()) {
    const size_t at = kUnits.find(text.back());
    if (at != std::string_view::npos) {
      unit = std::pow(1000.0, static_cast<double>(at + 1));
      text.remove_suffix(1);
    }
  }
  const auto number = parse_number(text);
  if (!number || *number < 0 || *number * unit >= 0x1p63) return std::nullopt;
  return static_cast<uint64_t>(*number * unit);
}

void refuse_empty_file(const std::string& name, const std::string& path) {
  if (!path.empty()) return;
  throw Error(ErrorCode::kUsage, name + ": expected the name of a file, found an empty one");
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool is_long_short_name(std::string_view name) {
  return name.size() > 2 && name[0] == '-' && name[1] != '-';
}

FlagDefinition::Takes FlagDefinition::takes() const {
  if (type.empty()) return Takes::kNothing;
  if (type == "DIR") return Takes::kDirectory;
  return type == "FILE" || type.starts_with("FILE.") ? Takes::kFile : Takes::kText;
}

std::string FlagDefinition::long_name() const {
  const auto found = std::ranges::find_if(names, [](const auto& n) { return n.starts_with("--"); });
  return found != names.end() ? found->substr(2) : "";
}

bool FlagDefinition::has_long_name(std::string_view name) const {
  return std::ranges::any_of(
      names, [&](const std::string& n) { return n.starts_with("--") && n.substr(2) == name; });
}

std::vector<std::string> CommandDefinition::groups() const {
  std::vector<std::string> groups;
  for (const FlagDefinition& flag : flags) {
    if (std::ranges::count(groups, flag.group) == 0) groups.push_back(flag.group);
  }
  return groups;
}

// ---- one flag ----

Flag::Flag(const std::string& names, std::string description) {
  for (const std::string_view name : split(names, ',')) {
    if (name.starts_with('-')) {
      declared_.names.emplace_back(name);
    } else {
      declared_.place = name;
    }
  }
  declared_.description = std::move(description);
  declared_.settable = !declared_.long_name().empty();
}

FlagDefinition Flag::definition() const {
  FlagDefinition shown = declared_;
  find_choices(shown);
  return shown;
}

std::string Flag::name() const {
  const std::string name = declared_.long_name();
  if (!name.empty()) return "--" + name;
  return declared_.names.empty() ? declared_.place : declared_.names.front();
}

void Flag::give(const std::vector<std::string>& values, std::string place) {
  if (counts_ == Counts::kOnce && values.size() > 1) {
    throw Error(ErrorCode::kUsage,
                format("%s: expected once, found %zu times", name().c_str(), values.size()));
  }
  values_ = values;
  place_ = std::move(place);
  if (switched_) *switched_ = values.back() == "true";
  if (!read_) return;
  try {
    read_(values);
  } catch (const Error& e) {  // of the library, which knows parameters
    throw Error(ErrorCode::kUsage, with_flags(e.what()));
  }
}

// ---- all of them ----

Flags::Flags(std::string about, std::string footer)
    : about_(std::move(about)), footer_(std::move(footer)) {
  add("-h,--help", "Print this help message and exit").command_line_only();
}

Flag& Flags::add(const std::string& names, const std::string& description) {
  list_.push_back(std::unique_ptr<Flag>(new Flag(names, description)));
  return list_.back()->group(group_);
}

Flag& Flags::add_switch(const std::string& names, bool& value, const std::string& description) {
  Flag& flag = add(names, description);
  flag.switched_ = &value;
  return flag;
}

Flag& Flags::add_values(const std::string& names, Flag::Counts counts, Flag::Read read,
                        const std::string& description) {
  Flag& flag = add(names, description);
  flag.counts_ = counts;
  flag.declared_.repeats = counts != Flag::Counts::kLast;
  flag.read_ = std::move(read);
  return flag.type("TEXT");
}

Flag& Flags::add_read(const std::string& names, const std::string& expected,
                      const std::function<bool(const std::string&)>& read,
                      const std::string& description) {
  Flag& flag = add_values(names, Flag::Counts::kLast, {}, description);
  flag.read_ = [name = flag.name(), expected, read](const std::vector<std::string>& values) {
    if (!read(values.back())) refuse(name, expected, values.back());
  };
  return flag;
}

Flag& Flags::add_word(const std::string& names, std::string& value,
                      const std::vector<std::string>& words, const std::string& description) {
  const auto read = [&value, words](const std::string& text) {
    value = text;
    return std::ranges::count(words, text) > 0;
  };
  return add_read(names, or_list(words), read, description).type(bar_list(words));
}

Flag& Flags::add_texts(const std::string& names, std::vector<std::string>& values,
                       const std::string& description, Flag::Counts counts) {
  return add_values(
      names, counts, [&values](const auto& given) { values = given; }, description);
}

Flag& Flags::add_int(const std::string& names, int& value, int low, int high,
                     const std::string& description) {
  const auto read = [&value, low, high](const std::string& text) {
    const std::optional<int64_t> number = parse_int(text);
    if (!number || *number < low || *number > high) return false;
    value = static_cast<int>(*number);
    return true;
  };
  return add_read(names, format("a whole number from %d to %d", low, high), read, description)
      .type("N");
}

Flag& Flags::add_size(const std::string& names, uint64_t& value, Zero zero,
                      const std::string& description) {
  const bool takes_zero = zero == Zero::kTaken;
  const auto read = [&value, takes_zero](const std::string& text) {
    const std::optional<uint64_t> size = parse_size(text);
    const bool none = takes_zero && size == 0u;
    if (!size || (!none && (*size < 1'000'000 || *size > 1'000'000'000'000'000))) return false;
    value = *size;
    return true;
  };
  const std::string range = "a size from 1M to 1000T, as 500M or 8G";
  return add_read(names, takes_zero ? "0 or " + range : range, read, description).type("SIZE");
}

Flag& Flags::add_assigned(const std::string& names, double low, double high,
                          const std::function<void(double)>& assign,
                          const std::string& description) {
  const auto read = [low, high, assign](const std::string& text) {
    const std::optional<double> number = parse_number(text);
    if (!number || *number < low || *number > high) return false;
    assign(*number);
    return true;
  };
  return add_read(names, format("a number from %g to %g", low, high), read, description).type("X");
}

Flag& Flags::add_file(const std::string& names, std::string& value,
                      const std::string& description) {
  files_read_.push_back([&value] { return std::vector{value}; });
  return add_file_name(names, value, description);
}

Flag& Flags::add_file_name(const std::string& names, std::string& value,
                           const std::string& description) {
  Flag& flag = add_text(names, value, description).type("FILE");
  flag.read_ = [&value, name = flag.name()](const std::vector<std::string>& values) {
    refuse_empty_file(name, values.back());
    value = values.back();
  };
  return flag;
}

Flag& Flags::add_files(const std::string& names, std::vector<std::string>& values,
                       const std::string& description, Flag::Counts counts) {
  Flag& flag = add_values(names, counts, {}, description).type("FILE");
  flag.read_ = [&values, name = flag.name()](const std::vector<std::string>& given) {
    for (const std::string& path : given) refuse_empty_file(name, path);
    values = given;
  };
  files_read_.push_back([&values] { return values; });
  return flag;
}

Flag& Flags::add_output_file(const std::string& names, std::string& value,
                             const std::string& description) {
  Flag& flag = add_file_name(names, value, description);
  flag.read_ = [name = flag.name(), read = flag.read_](const std::vector<std::string>& values) {
    if (values.back() == "-") {
      throw Error(ErrorCode::kUsage, name +
                                         ": expected a file, found -: stdout carries the text; "
                                         "/dev/stderr works");
    }
    read(values);
  };
  checks_.push_back([this, &value] {
    for (const auto& files : files_read_) {
      for (const std::string& file : files()) check_not_read(value, file);
    }
  });
  return flag.command_line_only();
}

void Flags::all_command_line_only_but(const std::vector<std::string_view>& names) {
  for (const auto& flag : list_) {
    if (std::ranges::count(names, flag->name()) == 0) flag->command_line_only();
  }
}

Flag* Flags::find(std::string_view name) const {
  const auto found = std::ranges::find_if(list_, [&](const std::unique_ptr<Flag>& flag) {
    return std::ranges::count(flag->declared_.names, name) > 0;
  });
  return found != list_.end() ? found->get() : nullptr;
}

Flag& Flags::operator[](std::string_view name) const {
  Flag* const flag = find(name);
  SB_CHECK(flag != nullptr);
  return *flag;
}

void Flags::remove(std::string_view name) {
  std::erase_if(list_, [flag = &(*this)[name]](const auto& one) { return one.get() == flag; });
}

CommandDefinition Flags::definition(const std::string& command) const {
  CommandDefinition out{.name = command, .about = about_, .footer = footer_, .flags = {}};
  for (const std::unique_ptr<Flag>& flag : list_) out.flags.push_back(flag->definition());
  const std::vector<std::string> groups = out.groups();
  std::ranges::stable_sort(out.flags, {}, [&](const FlagDefinition& flag) {
    return std::ranges::find(groups, flag.group) - groups.begin();
  });
  return out;
}

}  // namespace specbound
