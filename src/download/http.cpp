#include "download/http.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <exception>
#include <memory>

#include "download/curl_library.h"
#include "error.h"

namespace specbound {

namespace {

constexpr int kMostRedirects = 10;
constexpr size_t kMostShown = 2048;               // bytes of a URL in a message
constexpr size_t kMostDropped = size_t{1} << 20;  // bytes of a redirect's own body

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::optional<uint64_t> whole_number(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

struct Handle {
  Handle() : handle(curl::library().easy_init()) { SB_CHECK(handle); }
  ~Handle() {
    curl::library().easy_cleanup(handle);
    curl::library().slist_free_all(headers);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  // `value`: long, int64_t or a pointer, as the option has it.
  template <class Value>
  void set(curl::Option option, Value value) {
    curl::library().easy_setopt(handle, option, value);
  }
  void add_header(const std::string& line) {
    headers = curl::library().slist_append(headers, line.c_str());
  }

  void* handle;
  curl::StringList* headers = nullptr;
};

// What libcurl's callbacks work on. Nothing may be thrown through the library.
struct Transfer {
  const HttpRequest& request;
  const HttpSink& sink;
  HttpReply reply = {};
  bool refused = false;  // by the sink
  std::exception_ptr thrown = nullptr;
  size_t n_dropped = 0;
};

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

size_t on_header(char* bytes, size_t, size_t n, void* data) {
  HttpReply& reply = static_cast<Transfer*>(data)->reply;
  const std::string_view line(bytes, n);
  if (line.starts_with("HTTP/")) {  // of the next answer, behind an interim one
    const size_t blank = line.find(' ');
    reply = {};
    if (blank != line.npos) {
      reply.status = static_cast<int>(whole_number(line.substr(blank + 1, 3)).value_or(0));
    }
    return n;
  }
  const size_t colon = line.find(':');
  if (colon == line.npos) return n;
  const std::string name = lower(std::string(line.substr(0, colon)));
  std::string_view value = line.substr(colon + 1);
  while (!value.empty() && std::isspace(static_cast<unsigned char>(value.front())))
    value.remove_prefix(1);
  while (!value.empty() && std::isspace(static_cast<unsigned char>(value.back())))
    value.remove_suffix(1);
  if (name == "retry-after") reply.retry_after = whole_number(value);
  if (name == "link" && reply.next.empty()) reply.next = read_next_link(value);
  if (name == "content-length") reply.length = whole_number(value);
  if (name == "content-range") read_content_range(value, reply);
  return n;
}

size_t on_body(char* bytes, size_t, size_t n, void* data) {
  Transfer& transfer = *static_cast<Transfer*>(data);
  // Of a redirect the library says where to only when it has come whole. What an error page says is
  // not shown: the status is.
  if (!transfer.reply.is_body()) {
    transfer.n_dropped += n;
    return is_redirect(transfer.reply.status) && transfer.n_dropped <= kMostDropped ? n : 0;
  }
  try {
    transfer.refused = !transfer.sink(transfer.reply, {bytes, n});
  } catch (...) {
    transfer.thrown = std::current_exception();
  }
  return transfer.refused || transfer.thrown ? 0 : n;
}

int on_progress(void* data, int64_t, int64_t, int64_t, int64_t) {
  const auto* abort = static_cast<Transfer*>(data)->request.abort;
  return abort && *abort ? 1 : 0;
}

// nullopt: no URL of http or https.
std::optional<std::string> find_origin(const std::string& url) {
  const curl::Functions& library = curl::library();
  // The parser of who connects: two parsers may see two hosts in one URL.
  const std::unique_ptr<void, void (*)(void*)> parsed(library.url(), library.url_cleanup);
  std::string parts[3];
  if (!parsed || library.url_set(parsed.get(), curl::kWhole, url.c_str(), 0) != curl::kOk) {
    return std::nullopt;
  }
  constexpr curl::UrlPart kParts[] = {curl::kScheme, curl::kHost, curl::kPort};
  for (int i = 0; i < 3; ++i) {
    char* text = nullptr;
    if (library.url_get(parsed.get(), kParts[i], &text, curl::kDefaultPort) != curl::kOk) {
      return std::nullopt;
    }
    parts[i] = lower(text);
    library.free(text);
  }
  if (parts[0] != "https" && parts[0] != "http") return std::nullopt;
  return parts[0] + "://" + parts[1] + ":" + parts[2];
}

// One answer. Where it is a redirect, `next` is where to.
HttpReply get_once(const HttpRequest& request, const std::string& url, bool with_token,
                   const HttpSink& sink, std::string& next) {
  const curl::Functions& library = curl::library();
  Transfer transfer{request, sink};
  std::array<char, curl::kErrorBytes> why{};
  Handle handle;  // goes before what it points to
  handle.set(curl::kUrl, url.c_str());
  handle.set(curl::kProtocols,
             request.plain ? curl::kProtocolHttp | curl::kProtocolHttps : curl::kProtocolHttps);
  handle.set(curl::kUserAgent, "specbound/" SPECBOUND_VERSION);
  handle.set(curl::kNoSignal, 1L);
  handle.set(curl::kSuppressConnectHeaders, 1L);
  handle.set(curl::kConnectTimeout, static_cast<long>(request.patience));
  handle.set(curl::kLowSpeedLimit, 1L);
  handle.set(curl::kLowSpeedTime, static_cast<long>(request.patience));
  handle.set(curl::kErrorBuffer, why.data());
  handle.set(curl::kHeaderFunction, &on_header);
  handle.set(curl::kHeaderData, &transfer);
  handle.set(curl::kWriteFunction, &on_body);
  handle.set(curl::kWriteData, &transfer);
  handle.set(curl::kNoProgress, 0L);
  handle.set(curl::kProgressFunction, &on_progress);
  handle.set(curl::kProgressData, &transfer);
  // As a header of our own: the library's range refuses servers that have none.
  if (request.from > 0) {
    handle.add_header(format("Range: bytes=%llu-", static_cast<unsigned long long>(request.from)));
  }
  if (with_token) handle.add_header("Authorization: Bearer " + request.token);
  handle.set(curl::kHttpHeader, handle.headers);

  const int code = library.easy_perform(handle.handle);
  if (transfer.thrown) std::rethrow_exception(transfer.thrown);
  HttpReply reply = std::move(transfer.reply);
  reply.aborted = code == curl::kAborted;
  if (!reply.aborted && is_redirect(reply.status)) {
    char* to = nullptr;
    library.easy_getinfo(handle.handle, curl::kRedirectUrl, &to);
    next = to ? to : "";
    return reply;
  }
  if (code == curl::kOk) return reply;
  // The body of an error is cut off on purpose.
  if (code == curl::kWriteError && reply.status != 0 && !reply.is_body()) return reply;
  reply.failure = transfer.refused ? "not what was asked for"
                  : why[0] != '\0' ? printable(why.data(), why.size())
                                   : library.easy_strerror(code);
  if (code == curl::kPeerNotVerified || code == curl::kNoCertificates) {
    reply.failure += "; the package ca-certificates brings the certificates";
  }
  constexpr int kInVain[] = {curl::kUnsupportedProtocol,
                             curl::kUrlMalformed,
                             curl::kNoProxy,
                             curl::kNoHost,
                             curl::kNoConnection,
                             curl::kSslConnect,
                             curl::kPeerNotVerified,
                             curl::kNoCertificates};
  reply.unreachable = std::ranges::count(kInVain, code) > 0;
  return reply;
}

}  // namespace

std::string url_origin(const std::string& url) {
  const std::optional<std::string> origin = find_origin(url);
  if (!origin) {
    throw Error(ErrorCode::kUsage, format("expected a URL, https://HOST, found \"%s\"",
                                          printable(url, kMostShown).c_str()));
  }
  return *origin;
}

std::string read_next_link(std::string_view text) {
  for (;;) {
    const size_t begin = text.find('<'), end = text.find('>', begin);
    if (begin == text.npos || end == text.npos) return "";
    const std::string_view url = text.substr(begin + 1, end - begin - 1);
    text.remove_prefix(end + 1);
    const std::string parameters = lower(std::string(text.substr(0, text.find('<'))));
    if (parameters.find("rel=\"next\"") != std::string::npos) return std::string(url);
  }
}

void read_content_range(std::string_view text, HttpReply& reply) {
  constexpr std::string_view kUnit = "bytes ";
  const size_t dash = text.find('-'), slash = text.find('/');
  if (!text.starts_with(kUnit) || dash == text.npos || slash == text.npos || dash > slash) return;
  reply.range_from = whole_number(text.substr(kUnit.size(), dash - kUnit.size()));
  reply.range_all = whole_number(text.substr(slash + 1));
}

HttpReply http_get(const HttpRequest& request, const HttpSink& sink) {
  const std::string home = url_origin(request.url);
  std::string url = request.url;
  HttpReply reply;
  const auto give_up = [&reply](const std::string& why) {
    reply.status = 0;
    reply.failure = why;
    reply.unreachable = true;
    return reply;
  };
  for (int hop = 0; hop <= kMostRedirects; ++hop) {
    const std::optional<std::string> origin = find_origin(url);
    if (!origin || (!request.plain && !origin->starts_with("https://"))) {
      return give_up("expected https://, found " + printable(url, kMostShown));
    }
    std::string next;
    reply = get_once(request, url, !request.token.empty() && *origin == home, sink, next);
    if (reply.aborted || !is_redirect(reply.status)) return reply;
    if (next.empty()) return give_up("redirected to nowhere");
    if (origin->starts_with("https://") &&
        !find_origin(next).value_or("").starts_with("https://")) {
      return give_up("expected https://, found " + printable(next, kMostShown));
    }
    url = next;
  }
  return give_up(format("redirected more than %d times", kMostRedirects));
}

}  // namespace specbound
