#include "cli/chat_settings.h"

#include "cli/common_flags.h"
#include "cli/speculation_flags.h"
#include "error.h"

namespace specbound {

namespace {

// The flags as the command line defines them, over values of their own.
struct SettingFlags {
  SamplingOptions sampling;
  SpeculationOptions speculation;
  Flags sampling_flags, speculation_flags;

  SettingFlags() {
    add_sampling_flags(sampling_flags, sampling);
    add_speculation_flags(speculation_flags, speculation);
  }
};

// Has the flag itself read the value.
void read(Flag& flag, const std::string& value) {
  if (!flag.switched()) return flag.give({value});
  if (value != "on" && value != "off") {
    throw Error(ErrorCode::kUsage, format("%s: expected on or off, found \"%s\"",
                                          flag.name().c_str(), printable(value).c_str()));
  }
  flag.give({value == "on" ? "true" : "false"});
}

}  // namespace

std::vector<SettingFlag> chat_setting_flags() {
  SettingFlags known;
  std::vector<SettingFlag> settings;
  for (const bool samples : {true, false}) {
    for (const auto& flag : (samples ? known.sampling_flags : known.speculation_flags).list()) {
      const std::string name = flag->declared().long_name();
      if (name == "help") continue;
      const auto read_value = [name, samples](const std::string& value, SamplingOptions& sampling,
                                              SpeculationOptions& speculation) {
        SettingFlags flags;
        flags.sampling = sampling;
        flags.speculation = speculation;
        read((samples ? flags.sampling_flags : flags.speculation_flags)["--" + name], value);
        sampling = flags.sampling;
        speculation = flags.speculation;
      };
      std::vector<std::string> words = flag->definition().choices;
      if (flag->switched()) words = {"off", "on"};
      settings.push_back({name, std::move(words), samples, read_value});
    }
  }
  return settings;
}

}  // namespace specbound
