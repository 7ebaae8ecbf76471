#include "cli/chat_settings.h"

#include "cli/common_flags.h"
#include "cli/speculation_flags.h"
#include "error.h"

namespace specbound {

namespace {

using About = SettingFlag::About;

// The flags as the command line defines them, over values of their own.
struct SettingFlags {
  SetOptions options;
  Flags flags;

  explicit SettingFlags(About about) {
    if (about == About::kReply) add_reply_flags(flags, options.reply);
    if (about == About::kSampling) add_sampling_flags(flags, options.sampling);
    if (about == About::kSpeculation) add_speculation_flags(flags, options.speculation);
  }
};

// Of the flags about replies, those that the next one may have otherwise; the rest has a command of
// its own, or holds for the whole chat.
bool can_be_set(About about, std::string_view name) {
  if (about == About::kReply) {
    return name == "n-predict" || name == "stop" || name == "grammar" || name == "json-schema";
  }
  return name != "help";
}

// Has the flag itself read the value.
void read(Flag& flag, const std::string& value) {
  if (!flag.switched()) return flag.give({value});
  if (value != "on" && value != "off") {
    throw Error(ErrorCode::kUsage, format("%s: expected on or off, found \"%s\"",
                                          flag.name().c_str(), printable(value).c_str()));
  }
  flag.give({value == "on" ? "true" : "false"});
}

SettingFlag setting(const Flag& flag, About about) {
  SettingFlag setting;
  setting.name = flag.declared().long_name();
  for (const std::string& spelled : flag.declared().names) {
    const std::string name = spelled.substr(spelled.find_first_not_of('-'));
    if (name != setting.name) setting.also.push_back(name);
  }
  setting.words =
      flag.switched() ? std::vector<std::string>{"off", "on"} : flag.definition().choices;
  setting.takes_file = flag.definition().takes() == FlagDefinition::Takes::kFile;
  setting.about = about;
  setting.read = [name = setting.name, about](const std::string& value, SetOptions& options) {
    SettingFlags known(about);
    known.options = options;
    read(known.flags["--" + name], value);
    options = known.options;
  };
  return setting;
}

}  // namespace

std::vector<SettingFlag> chat_setting_flags() {
  std::vector<SettingFlag> settings;
  for (const About about : {About::kReply, About::kSampling, About::kSpeculation}) {
    const SettingFlags known(about);
    for (const auto& flag : known.flags.list()) {
      if (can_be_set(about, flag->declared().long_name())) {
        settings.push_back(setting(*flag, about));
      }
    }
  }
  return settings;
}

}  // namespace specbound
