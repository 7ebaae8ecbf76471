// Parameters of the library as the command line calls them: "d_max: expected ..." becomes
// "--d-max: expected ...". What is below the command line knows no flags.
#pragma once

#include <string>
#include <string_view>

namespace specbound {

// `message` with flags in place of the parameters that it names: as "device=cpu" (--device cpu), by
// a name of several words (check_layers), or in front of a colon that it begins with ("tau: ").
std::string with_flags(std::string_view message);

// "d-max" -> "d_max": what messages call the long name of a flag.
std::string parameter_of(std::string_view flag);

// One line on stderr, with flags and with nothing in it that steers a terminal.
void say(std::string_view message);

}  // namespace specbound
