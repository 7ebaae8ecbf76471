// The page at / of the server: a chat in a browser, one file, which CMake makes a text of.
#pragma once

#include <string>

namespace specbound::server {

std::string chat_page();  // HTML

}  // namespace specbound::server
