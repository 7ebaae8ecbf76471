// How the server speaks HTTP: connections, their threads and their limits, in front of an Api. The
// file beside this one is the only one that knows cpp-httplib.
//
// Every connection has a thread, of at most max_connections. It may take `timeout_seconds` for a
// request to come in as a whole, and wait as long for each 64 KiB to go out. When all threads are
// taken, connections between two requests end at once, others behind their next request, and those
// that take long to say what they want or to read what they get soon, so that slow clients cannot
// keep others out. What is written for a client that does not read waits in its job: it holds no
// place of the engine.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "server/api.h"
#include "server/cors.h"

namespace specbound::server {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8080;  // 0: any that is free
  int timeout_seconds = 30;
  size_t max_body = size_t{8} << 20;
  size_t max_connections = 128;
  Cors cors;
  std::function<void(const std::string& line)> log;  // each answered request; from any thread
};

class HttpServer {
 public:
  virtual ~HttpServer() = default;  // stop_accepting(), and returns when all connections are over
  virtual int port() const = 0;
  // Readable once it accepts no connection any more though nobody stopped it.
  virtual int failed_fd() const = 0;
  // Connections that wait for nothing end; the others may go on until their answer is out.
  virtual void stop_accepting() = 0;
};

// Listens and answers from here on, on threads of its own. `api` must outlive it. Throws
// Error(kFile) where it cannot listen, Error(kUnsupported) in a build without cpp-httplib.
std::unique_ptr<HttpServer> start_http(HttpOptions options, Api& api);

}  // namespace specbound::server
