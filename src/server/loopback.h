// Which names mean this machine and no other. A web page can point a name of its own at 127.0.0.1
// (DNS rebinding) and then read what a server without keys answers; its requests carry that name.
#pragma once

#include <algorithm>
#include <string_view>

namespace specbound::server {

// `host`: an address or name, with a port or without, as a Host header has it.
inline bool is_loopback(std::string_view host) {
  if (host == "::1" || host.starts_with("[::1]")) return true;
  host = host.substr(0, host.find(':'));
  const auto in_address = [](char c) { return c == '.' || (c >= '0' && c <= '9'); };
  if (host.starts_with("127.")) return std::all_of(host.begin(), host.end(), in_address);
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  constexpr std::string_view kName = "localhost";
  return std::equal(host.begin(), host.end(), kName.begin(), kName.end(),
                    [&](char a, char b) { return lower(a) == b; });
}

}  // namespace specbound::server
