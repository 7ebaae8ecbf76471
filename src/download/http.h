// One GET over HTTP, by libcurl. Redirects are followed here and not by the library, so that a
// token never goes to another origin than the one it was given for, and https never becomes http.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace specbound {

struct HttpRequest {
  std::string url;
  std::string token;   // goes as a bearer to the scheme, host and port of `url` alone
  bool plain = false;  // http:// is taken too, not https:// alone
  uint64_t from = 0;   // the first byte that is asked for
  int patience = 30;   // seconds without a byte, and to connect
  const std::atomic<bool>* abort = nullptr;
};

struct HttpReply {
  int status = 0;       // of the last answer; 0: none came
  std::string failure;  // why there is none or it broke off; empty: it came whole
  bool aborted = false;
  // Nobody answers there, or not as this client may talk: another try is in vain.
  bool unreachable = false;
  std::string next;  // URL of what goes on behind this page, as the header Link has it
  std::optional<uint64_t> retry_after;  // seconds, as the server has it
  std::optional<uint64_t> length;       // of the body, as the server has it
  std::optional<uint64_t> range_from;   // of a status 206: the first byte
  std::optional<uint64_t> range_all;    // of it: how many bytes there are in all

  bool whole() const { return failure.empty() && is_body(); }
  bool is_body() const { return status == 200 || status == 206; }
};

// What the bytes of a body go to, whose status is 200 or 206; false ends the request. It may throw.
using HttpSink = std::function<bool(const HttpReply& head, std::string_view bytes)>;

// Throws Error(kUnsupported) without libcurl, and what the sink throws. `request.token` has
// printing characters alone.
HttpReply http_get(const HttpRequest& request, const HttpSink& sink);

// "https://host:443", in lower case: what a token is given for. Throws Error(kUsage) for what is no
// URL of http or https.
std::string url_origin(const std::string& url);

// The URL of `<https://host/x>; rel="next"` among the links of a header; empty: none.
std::string read_next_link(std::string_view text);

// "bytes 5-9/10" into `range_from` and `range_all`; left empty for anything else.
void read_content_range(std::string_view text, HttpReply& reply);

}  // namespace specbound
