#include "app/cli_definition.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "app/command_table.h"
#include "error.h"

namespace specbound {

namespace {

char definition_request[] = "definition";

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// "auto" and "Q8_0" are words to be typed, "N" and "cuda:N" stand for something else.
bool is_word(const std::string& part) {
  const auto among = [&](char first, char last) {
    return std::any_of(part.begin(), part.end(), [=](char c) { return c >= first && c <= last; });
  };
  return !part.empty() && (!among('A', 'Z') || among('0', '9'));
}

// A type that lists words gives the choices; too many of them go into the description.
void find_choices(OptionDefinition& option) {
  constexpr size_t kMaxType = 40;
  if (option.type.find('|') == std::string::npos) return;
  for (std::string& part : split(option.type, '|')) {
    if (is_word(part)) option.choices.push_back(std::move(part));
  }
  if (option.type.size() <= kMaxType) return;
  option.type = "NAME";
  std::string list;
  for (const std::string& word : option.choices) list += (list.empty() ? ": " : ", ") + word;
  option.description += list;
}

}  // namespace

OptionDefinition::Takes OptionDefinition::takes() const {
  if (type.empty()) return Takes::kNothing;
  if (type == "DIR") return Takes::kDirectory;
  return type == "FILE" || type.starts_with("FILE.") ? Takes::kFile : Takes::kText;
}

std::string OptionDefinition::extension() const {
  constexpr std::string_view kFile = "FILE.";
  return type.starts_with(kFile) ? type.substr(kFile.size()) : "";
}

std::string OptionDefinition::long_name() const {
  for (const std::string& name : names) {
    if (name.starts_with("--")) return name.substr(2);
  }
  return "";
}

std::vector<std::string> CommandDefinition::groups() const {
  std::vector<std::string> groups;
  for (const OptionDefinition& option : options) {
    if (std::find(groups.begin(), groups.end(), option.group) == groups.end()) {
      groups.push_back(option.group);
    }
  }
  return groups;
}

OptionDefinition define(const CLI::Option& option) {
  OptionDefinition out;
  for (const std::string& name : option.get_snames()) out.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) out.names.push_back("--" + name);
  const auto has = [&](std::string_view name) {
    return std::find(out.names.begin(), out.names.end(), name) != out.names.end();
  };
  for (const ShortSpelling& spelling : short_spellings()) {
    if (!has(spelling.name)) continue;
    const auto first_long = std::find_if(out.names.begin(), out.names.end(),
                                         [](const auto& name) { return name.starts_with("--"); });
    out.names.emplace(first_long, spelling.dashed);
  }
  if (option.get_positional()) out.place = option.get_name(true, false);
  if (option.get_items_expected_max() > 0) out.type = option.get_type_name();
  out.description = option.get_description();
  out.group = option.get_group();
  out.repeats = option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll ||
                option.get_items_expected_max() > 1;
  out.settable = option.get_configurable() && !out.long_name().empty();
  out.required = option.get_required();
  find_choices(out);
  return out;
}

CommandDefinition define(const CLI::App& app, const std::string& name) {
  CommandDefinition out;
  out.name = name;
  out.about = app.get_description();
  out.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) out.options.push_back(define(*option));
  }
  const std::vector<std::string> groups = out.groups();
  const auto place = [&](const OptionDefinition& option) {
    return std::find(groups.begin(), groups.end(), option.group);
  };
  std::stable_sort(out.options.begin(), out.options.end(),
                   [&](const auto& a, const auto& b) { return place(a) < place(b); });
  return out;
}

bool asks_for_definition(int argc, char** argv) {
  return argc == 2 && argv[1] == definition_request;
}

CommandDefinition definition_of(const Command& command) {
  std::string name = command.name;
  char* argv[] = {name.data(), definition_request, nullptr};
  try {
    command.run(2, argv);
  } catch (DefinitionAnswer& answer) {
    return std::move(answer.definition);
  } catch (const Error& e) {
    CommandDefinition out;
    out.name = command.name;
    out.about = e.what();
    return out;
  }
  check_failed(__FILE__, __LINE__, "every command hands its options to parse_cli()");
}

const std::vector<ShortSpelling>& short_spellings() {
  static const std::vector<ShortSpelling> spellings = {
      {"-ngl", "--gpu-layers"}, {"-sys", "--sys"}, {"-md", "--model-draft", false}};
  return spellings;
}

}  // namespace specbound
