// The routes of the server, apart from how HTTP is spoken: from method, path and body to an answer,
// whole or as a stream.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/api_error.h"
#include "server/api_keys.h"
#include "server/call_grammar.h"
#include "server/completion_request.h"
#include "server/engine_thread.h"
#include "server/kept_formats.h"
#include "server/metrics.h"
#include "server/served_model.h"

namespace specbound::server {

// The other end of a request. Both are false when the client went away, or does not read.
class Connection {
 public:
  using Time = std::chrono::milliseconds;
  static constexpr Time kForever{-1};

  virtual ~Connection() = default;
  virtual bool wait(int fd, Time most = kForever) = 0;  // until `fd` is readable
  virtual bool write(std::string_view bytes) = 0;
};

struct ApiOptions {
  ReplySettings defaults;
  ApiKeys keys;
  size_t max_waiting = 64;
  // A stream that has nothing to say for so long says that it is still there: proxies and clients
  // close what is silent, most of them after a minute.
  Connection::Time silence = std::chrono::seconds(15);
};

// The client went away: there is nobody to answer. What web servers put into their logs for that.
inline constexpr int kClientGone = 499;

struct Answer {
  int status = 200;
  std::string body;
  std::string type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  // In place of a body: writes it bit by bit, false when the client did not take all of it.
  std::function<bool(Connection& connection)> stream;
  // Tokens that were generated for it; of a stream once it has ended.
  std::shared_ptr<int> tokens = std::make_shared<int>(0);
};

class Api {
 public:
  explicit Api(ApiOptions options);

  // Until then /health says so and nothing else works. `model` must outlive stop().
  void open(ServedModel& model);
  // Ends the replies under way; what comes after it is refused.
  void stop() {
    if (engine_) engine_->stop();
  }

  // "/v1/models", "/v1/models/{model}", or "other".
  static std::string route_of(std::string_view path);
  static std::vector<std::string> post_paths();
  // "GET, HEAD, OPTIONS", as an Allow header has it; empty for no route.
  static std::string methods_of(std::string_view path);
  // Whether a request may come in, before its body is read. Throws ApiError: 404, 405, 401.
  // `authorization`: the header, empty without one.
  void admit(std::string_view method, std::string_view path, std::string_view authorization) const;

  // The key of "Bearer KEY", the scheme in any case; empty: there is none.
  static std::string_view key_of(std::string_view authorization);
  // Whether who is admitted has shown a key.
  bool has_keys() const { return !options_.keys.empty(); }

  // Of an admitted request without a body. Throws ApiError.
  Answer get(std::string_view path) const;
  // With one; `client` is who takes turns. Returns when the answer is there, or begins to be.
  Answer post(std::string_view path, std::string_view body, const std::string& client,
              Connection& connection);

  Metrics& metrics() { return metrics_; }

  static Answer failure(const ApiError& error);

 private:
  ServedModel& model() const;
  Answer apply_template(std::string_view body) const;
  Answer tokenize(std::string_view body) const;
  Answer detokenize(std::string_view body) const;
  Answer complete(bool chat, std::string_view body, const std::string& client,
                  Connection& connection);
  Answer embed(std::string_view body, const std::string& client, Connection& connection);
  CompletionRequest parse(bool chat, std::string_view body) const;
  template <class Asked>
  Grammar::Shared grammar_of(const Asked& asked, KeptFormats<Asked>& kept);
  void compile(bool thinks, CompletionRequest& request);

  const ApiOptions options_;
  Metrics metrics_;
  std::atomic<ServedModel*> model_{nullptr};
  std::unique_ptr<EngineThread> engine_;  // before model_ is set
  mutable std::mutex parsing_, spelling_;
  std::mutex compiling_;  // grammars
  KeptFormats<ResponseFormat> formats_;
  KeptFormats<HeldCalls> calls_;
};

}  // namespace specbound::server
