// The server of a build without cpp-httplib. Programs that have it bring their own start_http(),
// which the linker takes before it looks into the library.
#include "error.h"
#include "server/http_server.h"

namespace specbound::server {

std::unique_ptr<HttpServer> start_http(HttpOptions, Api&) {
  throw Error(ErrorCode::kUnsupported,
              "this build has no server: install libcpp-httplib-dev and pkg-config (Debian names), "
              "configure with -DSPECBOUND_SERVER=ON and build again");
}

}  // namespace specbound::server
