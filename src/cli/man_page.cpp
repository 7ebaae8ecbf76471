// specbound man: the manual page in roff with the macros of man(7), made from the definition of the
// commands. It holds no date: the same program gives the same page.
#include <algorithm>
#include <string>

#include "cli/command.h"
#include "cli/help.h"
#include "cli/settings_file.h"
#include "error.h"
#include "terminal/standard_output.h"

namespace specbound::man_page_command {

namespace {

// Text as roff prints it: hyphens that can be copied, nothing that is a request or an escape.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) {
      out += std::string("\\&") + c;
    } else {
      out += c;
    }
  }
  return out;
}

std::string macro_argument(std::string_view text) {
  std::string out;
  for (const char c : roff(text)) out += c == '"' ? std::string("\\(dq") : std::string(1, c);
  return "\"" + out + "\"";
}

// Paragraphs; lines that begin with a blank stay as they are laid out. The macro that begins a
// paragraph stands in front of the first one only where `begins`: a heading has begun one.
std::string paragraphs(std::string_view text, bool begins = false) {
  std::string out;
  bool laid_out = false;
  const auto end_layout = [&] {
    if (laid_out) out += ".fi\n.RE\n";
    laid_out = false;
  };
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) {
      end_layout();
      begins = true;
    } else if (line.starts_with(' ')) {
      if (!laid_out) out += (begins ? ".PP\n" : "") + std::string(".RS 4\n.nf\n");
      laid_out = true;
      out += roff(line.substr(line.starts_with("  ") ? 2 : 1)) + "\n";
    } else {
      end_layout();
      if (begins) out += ".PP\n";
      begins = false;
      out += roff(line) + "\n";
    }
  }
  end_layout();
  return out;
}

// ".TP", the option in bold with its value in italics, and what it does.
std::string flag_entry(const FlagDefinition& flag) {
  const auto bold = [](const std::string& name) { return "\\fB" + roff(name) + "\\fR"; };
  std::string out = ".TP\n" + joined(flag.names, ", ", bold);
  out += (flag.type.empty() ? "" : " \\fI" + roff(flag.type) + "\\fR") + "\n";
  return out + roff(flag.description) + "\n";
}

std::string place_entry(const FlagDefinition& flag) {
  return ".TP\n\\fI" + roff(flag.place) + "\\fR\n" + roff(flag.description) + "\n";
}

// What a command does, its options, its examples.
std::string description_of(const CommandDefinition& command) {
  std::string out = paragraphs(command.about) + ".PP\n\\fB" + roff(usage(command)) + "\\fR\n";
  for (const FlagDefinition& flag : command.flags) {
    if (!flag.place.empty()) out += place_entry(flag);
  }
  for (const std::string& group : command.groups()) {
    std::string entries;
    for (const FlagDefinition& flag : command.flags) {
      if (flag.group == group && !flag.names.empty()) entries += flag_entry(flag);
    }
    if (!entries.empty()) out += ".PP\n\\fI" + roff(group) + "\\fR\n" + entries;
  }
  return out + paragraphs(command.footer, true);
}

std::string header(const std::string& name) {
  std::string title;
  for (const char c : name) title += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return ".\\\" Made by `specbound man`.\n.TH " + macro_argument(title) + " 1 \"\" " +
         macro_argument(std::string("specbound ") + SPECBOUND_VERSION) + " \"User Commands\"\n";
}

std::string entry(const char* name, const char* text) {
  return std::string(".TP\n\\fB") + roff(name) + "\\fR\n" + roff(text) + "\n";
}

std::string common_sections() {
  return ".SH SETTINGS\n" + paragraphs(settings_help()) + ".SH ENVIRONMENT\n" +
         entry("SPECBOUND_NAME",
               "the value of the flag --name where the command line has none; empty counts as not "
               "set") +
         entry(
             "XDG_CONFIG_HOME, XDG_CACHE_HOME, XDG_DATA_HOME, XDG_STATE_HOME",
             "where settings, what was measured and tuned, conversations, and the lines typed into "
             "a chat with its replies lie; ~/.config, ~/.cache, ~/.local/share and ~/.local/state "
             "where they are not set") +
         entry("NO_COLOR", "no colours, whatever its value") +
         entry("CUDA_VISIBLE_DEVICES", "which GPUs there are, as CUDA reads it") + ".SH FILES\n" +
         entry("~/.config/specbound/config", "settings, see above") +
         entry("NAME.heads.gguf", "trained exit heads, beside the model NAME.gguf") +
         ".SH EXIT STATUS\n" + entry("0", "fine") +
         entry("1", "a failure at run time; of specbound verify, a difference") +
         entry("2", "flags, arguments or settings that cannot be used");
}

std::string command_page(const Command& command) {
  const std::string name = std::string("specbound-") + command.about().name;
  return header(name) + ".SH NAME\n" + roff(name) + " \\- " + roff(command.about().summary) +
         "\n.SH DESCRIPTION\n" + description_of(command.definition()) + common_sections();
}

std::string whole_page() {
  std::string out = header("specbound") +
                    ".SH NAME\nspecbound \\- run Llama\\-family language models with exact "
                    "self\\-speculation\n"
                    ".SH SYNOPSIS\n\\fBspecbound\\fR \\fICOMMAND\\fR [\\fIoptions\\fR]\n.br\n"
                    "\\fBspecbound\\fR \\fICOMMAND\\fR \\fB\\-\\-help\\fR\n.br\n"
                    "\\fBspecbound\\fR \\fB\\-\\-version\\fR\n"
                    ".SH DESCRIPTION\n";
  out += paragraphs(
      "Runs Llama-family language models from GGUF files, so that the bits of every token depend "
      "on the model, the prompt, the sampling settings and the seed, and on nothing else. Where a "
      "model has trained exit heads, shallow layers draft tokens and all layers verify them: the "
      "text is the same and arrives sooner.\n\n"
      "stdout carries the text, stderr the rest.");
  for (const Command* command : commands()) {
    out += entry((std::string("specbound ") + command->about().name).c_str(),
                 command->about().summary);
  }
  out += ".SH COMMANDS\n";
  for (const Command* command : commands()) {
    out += ".SS specbound " + roff(command->about().name) + "\n" +
           description_of(command->definition());
  }
  return out + common_sections();
}

struct ManOptions {
  std::string name;
};

void add_flags(Flags& flags, ManOptions& options) {
  flags.add_text("COMMAND", options.name, "the command (default: all of them)")
      .type(command_choices());
}

int run_man(ManOptions& options) {
  const Command* command = named_command(options.name);
  return write_stdout(command ? command_page(*command) : whole_page()) ? 0 : 1;
}

const CommandOf<ManOptions> kMan(
    {.rank = 200,
     .name = "man",
     .summary = "the manual page, for man(1)",
     .text = "Print the manual page, of all commands or of one, as man(1) reads it.",
     .footer = "Examples:\n"
               "  specbound man | man -l -\n"
               "  specbound man run | man -l -\n"
               "  specbound man > ~/.local/share/man/man1/specbound.1"},
    add_flags, run_man);

}  // namespace

}  // namespace specbound::man_page_command
