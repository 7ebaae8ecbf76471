#include "server/cors.h"

#include <algorithm>

#include "error.h"

namespace specbound::server {

namespace {

// "scheme://host" or "scheme://host:port", as browsers send it: nothing behind that.
bool is_origin(std::string_view text) {
  const size_t end = text.find("://");
  if (end == text.npos || end == 0) return false;
  const std::string_view scheme = text.substr(0, end), host = text.substr(end + 3);
  const auto in_scheme = [](char c) { return (c >= 'a' && c <= 'z') || c == '+' || c == '-'; };
  const auto in_host = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == ':' ||
           c == '[' || c == ']' || c == '_';
  };
  return !host.empty() && std::ranges::all_of(scheme, in_scheme) &&
         std::ranges::all_of(host, in_host);
}

}  // namespace

Cors::Cors(std::string origin, const char* flag) : origin_(std::move(origin)) {
  if (origin_ == "*" || is_origin(origin_)) return;
  throw Error(ErrorCode::kUsage,
              format("%s: expected * or an origin in small letters without a path, such as "
                     "https://example.org or http://localhost:3000, found \"%s\"",
                     flag, printable(origin_).c_str()));
}

bool Cors::allows(std::string_view origin) const {
  return origin_ == "*" || (!origin_.empty() && origin == origin_);
}

Cors::Headers Cors::of_answer(std::string_view origin) const {
  Headers headers;
  if (!origin_.empty() && origin_ != "*") headers.emplace_back("Vary", "Origin");
  if (allows(origin)) headers.emplace_back("Access-Control-Allow-Origin", origin_);
  return headers;
}

Cors::Headers Cors::of_preflight(std::string_view origin, const std::string& methods) const {
  if (!allows(origin)) return {};
  // Authorization is in no *; a browser may remember the answer for ten minutes.
  return {{"Access-Control-Allow-Methods", methods},
          {"Access-Control-Allow-Headers", "Authorization, *"},
          {"Access-Control-Max-Age", "600"}};
}

}  // namespace specbound::server
