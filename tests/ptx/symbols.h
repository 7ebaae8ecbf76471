// Names of this program's own functions.
#pragma once

#include <string>

namespace ptx {

// The demangled name of a function, static ones too. Throws std::runtime_error when the program has
// no symbols, or none at this address.
std::string function_name(const void* function);

}  // namespace ptx
