// Which web pages may ask and read answers: the headers of CORS, for the one origin that --cors
// names. A browser keeps answers without them from pages of other origins, whose POSTs a server
// without keys refuses; other clients do not look.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace specbound::server {

class Cors {
 public:
  Cors() = default;  // none
  // "*": any. Throws Error(kUsage) naming `flag` for what is no origin: https://example.org,
  // http://localhost:3000.
  Cors(std::string origin, const char* flag);

  using Headers = std::vector<std::pair<const char*, std::string>>;
  // Of an answer to a request with this Origin header; empty: without one.
  Headers of_answer(std::string_view origin) const;
  // And of one to OPTIONS, by which browsers ask before they send the request itself. `methods`: an
  // Allow header.
  Headers of_preflight(std::string_view origin, const std::string& methods) const;
  // Whether pages of that origin may ask and read answers.
  bool allows(std::string_view origin) const;

 private:
  std::string origin_;
};

}  // namespace specbound::server
