// The flags that /set of a chat knows.
#pragma once

#include <vector>

#include "repl/set_command.h"

namespace specbound {

// About replies, sampling and speculation, in the order of --help.
std::vector<SettingFlag> chat_setting_flags();

}  // namespace specbound
