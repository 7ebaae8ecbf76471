// The one file that knows cpp-httplib, of Debian's 0.10 (Ubuntu 22.04) to 0.18 (Debian 13). Of the
// library are taken: listening, the request's line and headers, bodies in chunks or compressed,
// writing answers. Its own way of reading a socket has a limit on the silence between two bytes
// only, none on a request, on the length of a line or on a body in chunks; so it reads and writes
// through a SocketStream, which has them.
#include <httplib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "error.h"
#include "server/http_server.h"
#include "server/loopback.h"
#include "server/socket_stream.h"

namespace specbound::server {

namespace {

constexpr size_t kMaxHeadBytes = size_t{64} << 10;
constexpr size_t kMaxPending = 256;   // connections that wait for a thread
constexpr int kMaxRequests = 1000;    // on one connection
constexpr int kBacklog = 256;         // connections that the kernel keeps for us
constexpr size_t kChunkOverhead = 8;  // bytes that carry one, where each is a chunk

// What httplib reads from and writes to.
class HttpStream final : public httplib::Stream {
 public:
  HttpStream(int fd, ConnectionRules& rules) : socket_(fd, rules) {}

  bool is_readable() const override { return true; }  // read() waits
  bool is_writable() const override { return true; }
  // Lines are read byte by byte, and httplib keeps what it has of one: that before a chunk could be
  // as long as all chunks together.
  ssize_t read(char* to, size_t size) override {
    const ssize_t n = socket_.read(to, size);
    line_bytes_ = size == 1 && n == 1 && *to != '\n' ? line_bytes_ + 1 : 0;
    return line_bytes_ > kMaxHeadBytes ? -1 : n;
  }
  ssize_t write(const char* from, size_t size) override {
    return socket_.write(from, size) ? static_cast<ssize_t>(size) : -1;
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    address(getpeername, ip, port);
  }
  // No `override`, for 0.10 knows nothing of it.
#pragma GCC diagnostic push
#ifdef __clang__
#pragma GCC diagnostic ignored "-Winconsistent-missing-override"
#endif
  void get_local_ip_and_port(std::string& ip, int& port) const {
    address(getsockname, ip, port);
  }
#pragma GCC diagnostic pop
  socket_t socket() const override {
    return socket_.fd();
  }

  SocketStream& bytes() {
    return socket_;
  }

  // ---- of the request under way ----

  bool body_left = false;  // its body was not read: nothing can be read behind it
  bool ends_here = false;  // no request after this one
  std::shared_ptr<int> tokens;
  std::chrono::steady_clock::time_point begun;

 private:
  template <class Name>
  void address(Name name, std::string& ip, int& port) const {
    sockaddr_storage address = {};
    socklen_t size = sizeof address;
    char host[NI_MAXHOST] = "", service[NI_MAXSERV] = "";
    auto* any = reinterpret_cast<sockaddr*>(&address);
    if (name(socket_.fd(), any, &size) != 0 ||
        getnameinfo(any, size, host, sizeof host, service, sizeof service,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
      return;
    }
    ip = host;
    port = std::atoi(service);
  }

  SocketStream socket_;
  size_t line_bytes_ = 0;  // since the last end of a line
};

// Handlers get no hold of the connection that they answer; each runs on its thread.
thread_local HttpStream* current = nullptr;

// On an accepting thread: no thread is left for this connection and too many wait.
thread_local bool refusing = false;

// A thread for each connection, made when it is needed, up to a limit.
class ConnectionThreads final : public httplib::TaskQueue {
 public:
  ConnectionThreads(size_t limit, ConnectionRules& rules) : limit_(limit), rules_(rules) {}

  // void, or whether it was taken, as the version of httplib has it.
  using Taken = decltype(std::declval<httplib::TaskQueue&>().enqueue(nullptr));

  Taken enqueue(std::function<void()> serve) override {
    std::unique_lock lock(mutex_);
    if (waiting_.size() >= kMaxPending) {
      lock.unlock();
      refusing = true;
      serve();
      refusing = false;
      return Taken(true);
    }
    waiting_.push_back(std::move(serve));
    if (waiting_.size() > n_idle_ && !start_thread()) set_crowded(true);
    lock.unlock();
    changed_.notify_one();
    return Taken(true);
  }

  void shutdown() override {
    if (!rules_.stopping) rules_.failed.set();
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  bool start_thread() {
    if (threads_.size() >= limit_) return false;
    try {
      threads_.emplace_back([this] { run(); });
      return true;
    } catch (const std::system_error&) {  // the system has none to give: those there are must do
      return false;
    }
  }

  void set_crowded(bool crowded) {
    rules_.crowded = crowded;
    crowded ? rules_.crowd.set() : rules_.crowd.clear();
  }

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++n_idle_;
      changed_.wait(lock, [this] { return !waiting_.empty() || ending_; });
      --n_idle_;
      if (waiting_.empty()) return;
      const std::function<void()> serve = std::move(waiting_.front());
      waiting_.pop_front();
      if (waiting_.empty()) set_crowded(false);
      lock.unlock();
      serve();
      lock.lock();
    }
  }

  const size_t limit_;
  ConnectionRules& rules_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  size_t n_idle_ = 0;  // threads
  bool ending_ = false;
  std::vector<std::thread> threads_;  // of the accepting thread alone
};

// The client of a request as its Api sees it.
class HttpConnection final : public Connection {
 public:
  explicit HttpConnection(HttpStream& stream, httplib::DataSink* sink = nullptr)
      : stream_(stream), sink_(sink) {}

  bool wait(int fd, Time most) override { return stream_.bytes().wait(fd, most); }
  bool write(std::string_view bytes) override {
    return bytes.empty() || (sink_ && sink_->write(bytes.data(), bytes.size()));
  }

 private:
  HttpStream& stream_;
  httplib::DataSink* sink_;
};

// The length that a request gives for its body; nullopt: it comes in chunks. Throws ApiError for
// what two readers could understand in two ways.
std::optional<size_t> body_length(const httplib::Request& request) {
  const size_t lengths = request.get_header_value_count("Content-Length");
  const size_t codings = request.get_header_value_count("Transfer-Encoding");
  if (codings > 0) {
    std::string coding = request.get_header_value("Transfer-Encoding");
    std::transform(coding.begin(), coding.end(), coding.begin(),
                   [](unsigned char c) { return static_cast<char>(c | 0x20); });
    if (coding == "chunked" && codings == 1 && lengths == 0) return std::nullopt;
    throw ApiError(400, "Transfer-Encoding: expected chunked, and no Content-Length beside it");
  }
  if (lengths == 0) return 0;
  const std::string text = request.get_header_value("Content-Length");
  const bool digits =
      !text.empty() && text.size() <= 18 &&
      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (lengths > 1 || !digits) throw ApiError(400, "Content-Length: expected one number of bytes");
  return std::stoull(text);
}

// httplib does not say which of these it was.
constexpr const char* kExpected =
    "the request: expected HTTP/1.1 by a known method, with header lines of at most 8192 bytes";
static_assert(CPPHTTPLIB_HEADER_MAX_LENGTH == 8192);

const char* meaning(int status) {
  switch (status) {
    case 408:
      return "the request did not come in in time";
    case 413:
      return "the body is too large";
    case 414:
      return "the URL is too long";
    case 416:
      return "ranges cannot be had";
    case 417:
      return "this expectation cannot be met";
    case 431:
      return "the request's head is too large";
    default:
      return status < 500 ? kExpected : "the server failed";
  }
}

void add_headers(httplib::Response& response, const Cors::Headers& headers) {
  for (const auto& [name, value] : headers) response.set_header(name, value);
}

class HttplibServer final : public HttpServer, private httplib::Server {
 public:
  HttplibServer(HttpOptions options, Api& api);
  ~HttplibServer() override;

  int port() const override { return port_; }
  int failed_fd() const override { return rules_.failed.fd(); }
  void stop_accepting() override;

 private:
  bool process_and_close_socket(socket_t sock) override;
  void serve(HttpStream& stream);
  template <class Self>
  static bool answer_one(Self& self, HttpStream& stream, bool last, bool& closed,
                         const std::function<void(httplib::Request&)>& setup);

  void check_host(const httplib::Request& request) const;
  void check_origin(const httplib::Request& request) const;
  bool route(const httplib::Request& request, httplib::Response& response);
  void post(const httplib::Request& request, httplib::Response& response,
            const httplib::ContentReader& reader);
  std::string read_body(const httplib::Request& request, const httplib::ContentReader& reader);
  void respond(const httplib::Request& request, httplib::Response& response, Answer answer);
  void respond_stream(const httplib::Request& request, httplib::Response& response,
                      const Answer& answer);
  template <class Work>
  void guarded(const httplib::Request& request, httplib::Response& response, Work work);
  void count_unread(HttpStream& stream, int status);
  void log(const httplib::Request& request, const httplib::Response& response);

  const HttpOptions options_;
  Api& api_;
  ConnectionRules rules_;
  int port_ = 0;
  std::thread accepting_;
};

HttplibServer::HttplibServer(HttpOptions options, Api& api)
    : options_(std::move(options)), api_(api) {
  rules_.timeout = std::chrono::seconds(options_.timeout_seconds);
  new_task_queue = [this] { return new ConnectionThreads(options_.max_connections, rules_); };
  // Not httplib's SO_REUSEPORT, by which two servers would share a port and not know.
  set_socket_options([](socket_t sock) {
    const int yes = 1;
    setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  set_tcp_nodelay(true);
  set_keep_alive_max_count(kMaxRequests);  // for the header that tells of it
  set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
    return route(request, response) ? HandlerResponse::Handled : HandlerResponse::Unhandled;
  });
  for (const std::string& path : Api::post_paths()) {
    Post(path, [this](const httplib::Request& request, httplib::Response& response,
                      const httplib::ContentReader& reader) { post(request, response, reader); });
  }
  set_expect_100_continue_handler(
      [this](const httplib::Request& request, httplib::Response& response) {
        int status = 100;
        current->body_left = true;
        guarded(request, response, [&] {
          if (body_length(request).value_or(0) > options_.max_body) {
            throw ApiError(413, meaning(413));
          }
        });
        if (response.status >= 400) status = response.status;
        return status;
      });
  // Of what never came to a handler.
  set_error_handler([this](const httplib::Request& request, httplib::Response& response) {
    if (!response.body.empty() || response.status == kClientGone) return;
    if (current->bytes().timed_out()) response.status = 408;
    current->body_left = true;
    respond(request, response, Api::failure(ApiError(response.status, meaning(response.status))));
  });
  set_post_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
    api_.metrics().count_request(Api::route_of(request.path), response.status);
    add_headers(response, options_.cors.of_answer(request.get_header_value("Origin")));
  });
  set_logger([this](const httplib::Request& request, const httplib::Response& response) {
    log(request, response);
  });

  port_ = options_.port;
  const bool bound = options_.port == 0 ? (port_ = bind_to_any_port(options_.host.c_str())) > 0
                                        : bind_to_port(options_.host.c_str(), options_.port);
  if (!bound) {
    throw Error(ErrorCode::kFile,
                format("cannot listen on %s port %d: the port is taken or not permitted, or this "
                       "machine has no such address",
                       printable(options_.host).c_str(), options_.port));
  }
  ::listen(svr_sock_, kBacklog);  // httplib asks for 5
  accepting_ = std::thread([this] { listen_after_bind(); });
  while (!is_running()) std::this_thread::yield();  // before that stop() would do nothing
}

HttplibServer::~HttplibServer() {
  stop_accepting();
  accepting_.join();
}

void HttplibServer::stop_accepting() {
  if (rules_.stopping.exchange(true)) return;
  rules_.stop.set();
  stop();
}

bool HttplibServer::process_and_close_socket(socket_t sock) {
  if (!refusing) {
    try {
      HttpStream stream(sock, rules_);
      serve(stream);
    } catch (const std::exception&) {  // no memory for more than its end
    }
    current = nullptr;
  }
  close(sock);
  return true;
}

void HttplibServer::serve(HttpStream& stream) {
  current = &stream;
  // Answers are not compressed, nor cut into ranges, and a body is JSON whatever it is called.
  const auto setup = [](httplib::Request& request) {
    request.headers.erase("Accept-Encoding");
    request.headers.erase("Content-Type");
    request.ranges.clear();
  };
  SocketStream& bytes = stream.bytes();
  for (int n = 1; n <= kMaxRequests && bytes.wait_for_request(); ++n) {
    bytes.begin_request(kMaxHeadBytes);
    stream.begun = std::chrono::steady_clock::now();
    stream.body_left = stream.ends_here = false;
    stream.tokens.reset();
    bool closed = false;
    // Where others wait for its thread a connection has one more request, however many it has here.
    const bool last = n == kMaxRequests || rules_.stopping || rules_.crowded;
    const bool answered = answer_one(*this, stream, last, closed, setup);
    if (!answered && !bytes.wrote() && (bytes.over_limit() || bytes.timed_out())) {
      const int status = bytes.over_limit() ? 431 : 408;
      const std::string body = Api::failure(ApiError(status, meaning(status))).body;
      const std::string answer =
          format(
              "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
              "Connection: close\r\n\r\n",
              status, status == 431 ? "Request Header Fields Too Large" : "Request Timeout",
              body.size()) +
          body;
      count_unread(stream, status);
      bytes.write(answer.data(), answer.size());
      stream.body_left = true;
    }
    if (!answered || closed || last || stream.body_left || stream.ends_here) break;
  }
  if (stream.body_left) bytes.drain();
}

// Up to 0.15 httplib asks the stream who is at its ends; after that it wants to be told.
template <class Self>
bool HttplibServer::answer_one(Self& self, HttpStream& stream, bool last, bool& closed,
                               const std::function<void(httplib::Request&)>& setup) {
  if constexpr (requires { self.process_request(stream, last, closed, setup); }) {
    return self.process_request(stream, last, closed, setup);
  } else {
    std::string remote, local;
    int remote_port = 0, local_port = 0;
    stream.get_remote_ip_and_port(remote, remote_port);
    stream.get_local_ip_and_port(local, local_port);
    return self.process_request(stream, remote, remote_port, local, local_port, last, closed,
                                setup);
  }
}

// Whatever happens becomes an answer.
template <class Work>
void HttplibServer::guarded(const httplib::Request& request, httplib::Response& response,
                            Work work) {
  std::optional<ApiError> failed;
  try {
    work();
  } catch (const ApiError& e) {
    failed = e;
  } catch (const std::bad_alloc&) {
    failed = ApiError(500, "out of memory");
  } catch (const std::exception& e) {
    failed = ApiError(500, std::string("the server failed: ") + e.what());
  }
  if (failed) respond(request, response, Api::failure(*failed));
}

// Without keys it is the machine that is trusted, so requests must name it. HTTP/1.0 names nothing.
void HttplibServer::check_host(const httplib::Request& request) const {
  if (api_.has_keys() || !is_loopback(options_.host) || !request.has_header("Host")) return;
  const std::string host = request.get_header_value("Host");
  if (is_loopback(host)) return;
  throw ApiError(403,
                 "expected a Host header that names this machine, as localhost does, found \"" +
                     printable(host) + "\"; a server with an API key takes any",
                 "", "host_not_allowed");
}

// A page of another origin cannot read the answer, but its request would be worked at all the same.
void HttplibServer::check_origin(const httplib::Request& request) const {
  if (api_.has_keys() || request.method != "POST" || !request.has_header("Origin")) return;
  const std::string origin = request.get_header_value("Origin");
  const std::string host = request.get_header_value("Host");
  if (origin == "http://" + host || origin == "https://" + host) return;  // the server's own page
  if (options_.cors.allows(origin)) return;
  throw ApiError(403,
                 "expected a request by no web page of another origin, found one by \"" +
                     printable(origin) + "\"; --cors names an origin whose pages may ask",
                 "", "origin_not_allowed");
}

// All but the bodies of POST. True when it is answered.
bool HttplibServer::route(const httplib::Request& request, httplib::Response& response) {
  bool answered = true;
  guarded(request, response, [&] {
    current->body_left = true;  // until it is read, or turns out not to be there
    current->body_left = body_length(request).value_or(1) != 0;
    if (request.method == "OPTIONS" && !Api::methods_of(request.path).empty()) {
      response.status = 204;
      add_headers(response, options_.cors.of_preflight(request.get_header_value("Origin"),
                                                       Api::methods_of(request.path)));
      return;
    }
    check_host(request);
    check_origin(request);
    api_.admit(request.method, request.path, request.get_header_value("Authorization"));
    answered = request.method != "POST";
    if (answered) respond(request, response, api_.get(request.path));
  });
  if (response.status == 204 || response.status == 405) {
    response.set_header("Allow", Api::methods_of(request.path));
  }
  return answered;
}

std::string HttplibServer::read_body(const httplib::Request& request,
                                     const httplib::ContentReader& reader) {
  const std::optional<size_t> length = body_length(request);
  if (length.value_or(0) > options_.max_body) throw ApiError(413, meaning(413));
  std::string body;
  if (length == 0) return body;  // httplib would wait for what never comes
  current->bytes().allow_more(kMaxHeadBytes + kChunkOverhead * options_.max_body);
  bool too_large = false;
  const bool whole = reader([&](const char* data, size_t size) {
    too_large = body.size() + size > options_.max_body;
    if (!too_large) body.append(data, size);
    return !too_large;
  });
  if (too_large || current->bytes().over_limit()) throw ApiError(413, meaning(413));
  if (current->bytes().timed_out()) throw ApiError(408, meaning(408));
  if (!whole) throw ApiError(400, "the body ended early, or is not what its headers say");
  current->body_left = false;
  return body;
}

void HttplibServer::post(const httplib::Request& request, httplib::Response& response,
                         const httplib::ContentReader& reader) {
  guarded(request, response, [&] {
    const std::string body = read_body(request, reader);
    // A key that nobody checked would make a client of its own of each request.
    const std::string client =
        api_.has_keys() ? std::string(Api::key_of(request.get_header_value("Authorization")))
                        : request.remote_addr;
    HttpConnection connection(*current);
    respond(request, response, api_.post(request.path, body, client, connection));
  });
}

void HttplibServer::respond(const httplib::Request& request, httplib::Response& response,
                            Answer answer) {
  response.status = answer.status;
  for (const auto& [name, value] : answer.headers) response.set_header(name.c_str(), value);
  current->tokens = answer.tokens;
  if (answer.status == kClientGone) current->bytes().give_up();
  if (current->body_left) response.set_header("Connection", "close");
  if (answer.stream) {
    respond_stream(request, response, answer);
  } else if (!answer.body.empty()) {
    response.set_content(answer.body, answer.type.c_str());
  }
}

void HttplibServer::respond_stream(const httplib::Request& request, httplib::Response& response,
                                   const Answer& answer) {
  HttpStream& stream = *current;
  // The whole of it at once: between two calls httplib would end it where the server stops.
  const auto provide = [&stream, write = answer.stream](size_t, httplib::DataSink& sink) {
    HttpConnection connection(stream, &sink);
    const bool read = write(connection);
    if (read) sink.done();
    return read;
  };
  if (request.version != "HTTP/1.0") {
    response.set_chunked_content_provider(answer.type.c_str(), provide);
    return;
  }
  stream.ends_here = true;  // which is how such a client sees where the stream ends
  response.set_header("Connection", "close");
  response.set_content_provider(answer.type.c_str(), provide);
}

// A request of which not even the first line came in whole.
void HttplibServer::count_unread(HttpStream& stream, int status) {
  httplib::Request request;
  int port = 0;
  stream.get_remote_ip_and_port(request.remote_addr, port);
  request.method = request.path = "-";
  httplib::Response response;
  response.status = status;
  api_.metrics().count_request(Api::route_of(request.path), status);
  log(request, response);
}

void HttplibServer::log(const httplib::Request& request, const httplib::Response& response) {
  if (!options_.log) return;
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - current->begun).count();
  options_.log(format("%s %s %s %d, %d tokens, %.3f s", request.remote_addr.c_str(),
                      printable(request.method).c_str(), printable(request.path).c_str(),
                      response.status, current->tokens ? *current->tokens : 0, seconds));
}

}  // namespace

std::unique_ptr<HttpServer> start_http(HttpOptions options, Api& api) {
  return std::make_unique<HttplibServer>(std::move(options), api);
}

}  // namespace specbound::server
