// specbound serve: the model over HTTP, as OpenAI's interface has it. Replies go to the clients,
// everything else to stderr.
#include <poll.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/cli.h"
#include "app/commands.h"
#include "app/interrupt.h"
#include "app/loaded_model.h"
#include "app/serve_model.h"
#include "app/speculation.h"
#include "app/terminal_text.h"
#include "app/text_input.h"
#include "error.h"
#include "server/api.h"
#include "server/http_server.h"

namespace specbound {

namespace {

constexpr const char* kExamples =
    "Routes: POST /v1/chat/completions, POST /v1/completions, GET /v1/models, POST /tokenize, POST "
    "/detokenize, GET /health, GET /metrics.\n"
    "\n"
    "Examples:\n"
    "  specbound serve\n"
    "  specbound serve -m model.gguf --port 8000 --api-key-file keys.txt\n"
    "  curl http://127.0.0.1:8080/v1/chat/completions -d "
    "'{\"messages\":[{\"role\":\"user\",\"content\":\"I need a table for two.\"}]}'";

// Connections beyond those whose requests wait: streams, and clients between two requests.
constexpr int kMoreConnections = 64;

struct ServeFlags {
  server::HttpOptions http;
  int max_body = 8 << 20;
  int max_queue = 64;
  std::vector<std::string> keys;
  std::string key_file;
  std::optional<std::string> alias;
  bool quiet = false;
  int n_predict = -1;
  ModelFlags model;
  SamplingFlags sampling;
  SpeculationFlags speculation;
};

void add_server_flags(CLI::App& app, ServeFlags& flags) {
  const std::string group = "Server";
  server::HttpOptions& http = flags.http;
  app.add_option("--host", http.host,
                 "address to listen on (default 127.0.0.1: this machine alone; 0.0.0.0: any)")
      ->type_name("ADDRESS")
      ->group(group);
  add_int(app, "--port", http.port, 0, 65535, "port to listen on (default 8080; 0: a free one)")
      ->group(group);
  app.add_option("--api-key", flags.keys,
                 "clients must send this key (may be given several times; others can see the "
                 "command line of a process, not a file's content)")
      ->type_name("KEY")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1)
      ->group(group);
  add_file(app, "--api-key-file", flags.key_file, "the same, one key a line (default: none)")
      ->group(group);
  app.add_option("--alias", flags.alias, "what clients call the model (default: the file's name)")
      ->type_name("NAME")
      ->group(group);
  add_int(app, "--max-queue", flags.max_queue, 1, 4096,
          "requests that may wait for the engine (default 64)")
      ->group(group);
  add_int(app, "--max-body", flags.max_body, 1 << 10, 1 << 30,
          "bytes that a request's body may have (default 8388608)")
      ->group(group);
  add_int(app, "--timeout", http.timeout_seconds, 1, 3600,
          "seconds that a request may take to come in, and an answer to be read (default 30)")
      ->group(group);
  add_int(app, "-n,--n-predict,--predict", flags.n_predict, -1, 1 << 30,
          "tokens of a reply at most, where a request does not say (default -1: until it ends or "
          "the context is full)")
      ->group(group);
  app.add_flag("--quiet", flags.quiet, "no line for each request")->group(group);
}

server::ApiKeys read_keys(const ServeFlags& flags) {
  std::vector<std::string> keys = flags.keys;
  for (const std::string& key : keys) server::check_key(key, "--api-key");
  if (!flags.key_file.empty()) {
    const std::string& path = flags.key_file;
    for (std::string& key : server::parse_key_file(read_bytes(path), path)) {
      keys.push_back(std::move(key));
    }
  }
  return server::ApiKeys(std::move(keys));
}

server::ApiOptions api_options(const ServeFlags& flags) {
  server::ApiOptions options;
  validate(flags.sampling.params);
  if (flags.http.host.empty()) throw Error(ErrorCode::kUsage, "--host: expected an address");
  if (flags.alias && flags.alias->empty())
    throw Error(ErrorCode::kUsage, "--alias: expected a name");
  options.defaults.sampling = flags.sampling.params;
  options.defaults.seed = flags.sampling.seed;
  options.defaults.max_tokens = flags.n_predict;
  options.keys = read_keys(flags);
  options.max_waiting = static_cast<size_t>(flags.max_queue);
  return options;
}

std::string url(const std::string& host, int port) {
  const bool ipv6 = host.find(':') != std::string::npos;
  return format("http://%s%s%s:%d", ipv6 ? "[" : "", terminal_text(host).c_str(), ipv6 ? "]" : "",
                port);
}

// False: the server failed before.
bool wait_for_interrupt(const server::HttpServer& http) {
  pollfd fds[] = {{interrupt_fd(), POLLIN, 0}, {http.failed_fd(), POLLIN, 0}};
  while (poll(fds, 2, -1) < 0 && errno == EINTR) {
  }
  return fds[1].revents == 0;
}

}  // namespace

int command_serve(int argc, char** argv) {
  ServeFlags flags;
  CLI::App app(
      "Serve a model over HTTP, as OpenAI's API has it. The flags below are what requests "
      "get that do not say otherwise.");
  add_server_flags(app, flags);
  add_sampling_flags(app, flags.sampling);
  add_speculation_flags(app, flags.speculation);
  add_model_flags(app, flags.model);
  app.footer(kExamples);
  if (const std::optional<int> status = parse_cli(app, argc, argv)) return *status;
  server::Api api(api_options(flags));
  server::HttpOptions http_options = flags.http;
  http_options.max_body = static_cast<size_t>(flags.max_body);
  http_options.max_connections = static_cast<size_t>(flags.max_queue + kMoreConnections);
  if (!flags.quiet) {
    http_options.log = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  }

  catch_termination();
  LoadedModel model(flags.model);
  Speculation speculation(flags.speculation, model);
  std::unique_ptr<ServeModel> served;
  const auto http = server::start_http(http_options, api);  // ends before what it serves
  model.load(speculation.heads());
  speculation.attach(model.backend());
  std::fprintf(stderr, "%s\n", speculation.description().c_str());
  const std::string file_name = std::filesystem::path(model.path()).filename().string();
  served = std::make_unique<ServeModel>(model, speculation, flags.alias.value_or(file_name));
  api.open(*served);
  std::fprintf(stderr, "listening on %s\n", url(http_options.host, http->port()).c_str());

  const bool served_until_now = wait_for_interrupt(*http);
  http->stop_accepting();
  api.stop();
  if (!served_until_now) {
    throw Error(ErrorCode::kLimit,
                "connections cannot be accepted any more: the system has no files or no memory "
                "left for them");
  }
  return 0;
}

}  // namespace specbound
