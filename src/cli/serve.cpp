// specbound serve: the model over HTTP, as OpenAI's interface has it. Replies go to the clients,
// everything else to stderr.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/common_flags.h"
#include "cli/learning_flags.h"
#include "cli/speculation_flags.h"
#include "error.h"
#include "runtime/loaded_model.h"
#include "runtime/speculative_model.h"
#include "server/api.h"
#include "server/http_server.h"
#include "server/serve_model.h"
#include "system/text_input.h"
#include "terminal/flag_names.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "terminal/terminal_text.h"

namespace specbound::serve_command {

namespace {

constexpr const char* kExamples =
    "Routes: POST /v1/chat/completions, POST /v1/completions, POST /v1/embeddings, GET /v1/models, "
    "GET /v1/models/{model}, POST /apply-template, POST /tokenize, POST /detokenize, GET /health, "
    "GET /metrics; GET / is a page to chat with.\n"
    "\n"
    "Examples:\n"
    "  specbound serve\n"
    "  specbound serve model.gguf --port 8000 --api-key-file keys.txt\n"
    "  curl http://127.0.0.1:8080/v1/chat/completions -d "
    "'{\"messages\":[{\"role\":\"user\",\"content\":\"I need a table for two.\"}]}'";

// Connections beyond those whose requests wait: streams, and clients between two requests.
constexpr int kMoreConnections = 64;
constexpr int kConversations = 8;
constexpr int kParallel = 8;
constexpr uint64_t kCacheSize = 8'000'000'000;

struct ServeFlags {
  server::HttpOptions http;
  int max_body = 8 << 20;
  int max_queue = 64;
  int conversations = kConversations;
  uint64_t cache_size = kCacheSize;
  int parallel = kParallel;
  std::vector<std::string> keys;
  std::string key_file;
  std::optional<std::string> alias;
  std::optional<std::string> cors;
  bool quiet = false;
  int n_predict = -1;
  bool split_thoughts = true;
  ModelOptions model;
  PlaceFlags places;
  SamplingOptions sampling;
  SpeculationOptions speculation;
  IdleLearningOptions learning = {.mode = LearningMode::kOffer};
};

void add_server_flags(Flags& flags, ServeFlags& given) {
  const Flags::Group group(flags, "Server");
  server::HttpOptions& http = given.http;
  flags
      .add_text("--host", http.host,
                "address to listen on (default 127.0.0.1: this machine alone; 0.0.0.0: any)")
      .type("ADDRESS");
  flags.add_int("--port", http.port, 0, 65535, "port to listen on (default 8080; 0: a free one)");
  flags
      .add_texts("--api-key", given.keys,
                 "clients must send this key (may be given several times; others can see the "
                 "command line of a process, not a file's content)")
      .type("KEY")
      .overrides({"api-key-file"});
  flags.add_file("--api-key-file", given.key_file, "the same, one key a line (default: none)")
      .overrides({"api-key"});
  flags.add_text("--alias", given.alias, "what clients call the model (default: the file's name)")
      .type("NAME");
  flags
      .add_text("--cors", given.cors,
                "web pages of this origin may ask and read answers, as https://example.org; *: all "
                "pages (default: none but the server's own)")
      .type("ORIGIN");
  flags.add_int("--conversations", given.conversations, 1, 1024,
                format("conversations at most that go on where they were, whichever came in "
                       "between: each keeps its K/V (default %d; fewer where memory is short)",
                       kConversations));
  flags.add_size("--cache-size", given.cache_size, Flags::Zero::kTaken,
                 format("bytes that the K/V of conversations may take while they wait for their "
                        "next request, as 500M or 8G; whichever was served longest ago is dropped "
                        "first (default %dG; 0: none is kept)",
                        static_cast<int>(kCacheSize / 1'000'000'000)));
  flags.add_int("--parallel", given.parallel, 1, kMaxRows,
                format("requests at most whose replies are written side by side, their tokens in "
                       "shared passes, with lookups as drafts where that pays; a request alone has "
                       "all drafts (default %d; fewer where memory is short; 1: one after the "
                       "other)",
                       kParallel));
  flags.add_int("--max-queue", given.max_queue, 1, 4096,
                "requests that may wait for the engine (default 64)");
  flags.add_int("--max-body", given.max_body, 1 << 10, 1 << 30,
                "bytes that a request's body may have (default 8388608)");
  flags.add_int(
      "--timeout", http.timeout_seconds, 1, 3600,
      "seconds that a request may take to come in, and an answer to be read (default 30)");
  flags.add_int(
      "-n,--n-predict,--predict", given.n_predict, -1, 1 << 30,
      "tokens of a reply at most, where a request does not say (default -1: until it ends or "
      "the context is full)");
  flags.add_choice("--reasoning-format", given.split_thoughts, {{"auto", true}, {"none", false}},
                   "thoughts of a chat's reply (default auto: as reasoning_content where the chat "
                   "template knows them; none: as the text that they are)");
  flags.add_switch("--quiet", given.quiet, "no line for each request");
}

server::ApiKeys read_keys(const ServeFlags& given) {
  std::vector<std::string> keys = given.keys;
  for (const std::string& key : keys) server::check_key(key, "--api-key");
  if (!given.key_file.empty()) {
    const std::string& path = given.key_file;
    for (std::string& key : server::parse_key_file(read_bytes(path), path)) {
      keys.push_back(std::move(key));
    }
  }
  return server::ApiKeys(std::move(keys));
}

server::ApiOptions api_options(const ServeFlags& given) {
  server::ApiOptions options;
  validate(given.sampling.params);
  if (given.http.host.empty()) throw Error(ErrorCode::kUsage, "--host: expected an address");
  if (given.alias && given.alias->empty())
    throw Error(ErrorCode::kUsage, "--alias: expected a name");
  options.defaults.sampling = given.sampling.params;
  options.defaults.seed = given.sampling.seed;
  options.defaults.max_tokens = given.n_predict;
  options.defaults.split_thoughts = given.split_thoughts;
  options.keys = read_keys(given);
  options.max_waiting = static_cast<size_t>(given.max_queue);
  return options;
}

// A reply alone would have the drafts that such rules judge, one in company none: its text would be
// another one.
void check_acceptance(const ServeFlags& given) {
  given.speculation.check();
  const Acceptance acceptance = given.speculation.acceptance;
  if (acceptance == Acceptance::kCoupled || given.parallel == 1) return;
  throw Error(ErrorCode::kUsage,
              format("--accept %s: expected --parallel 1, found %d: of several replies side by "
                     "side none is drafted, so that a text would depend on who else asks",
                     acceptance_name(acceptance), given.parallel));
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

void declare(Flags& flags, ServeFlags& given) {
  add_place_flags(flags, given.places, given.model);
  add_server_flags(flags, given);
  add_sampling_flags(flags, given.sampling);
  given.speculation.remember = true;  // unless a flag says otherwise
  add_speculation_flags(flags, given.speculation);
  add_learning_flags(flags, given.learning);
  add_model_flags(flags, given.model);
  add_chat_template_file(flags, given.model);
}

int run(ServeFlags& given) {
  check_acceptance(given);
  server::Api api(api_options(given));
  server::HttpOptions http_options = given.http;
  http_options.max_body = static_cast<size_t>(given.max_body);
  if (given.cors) http_options.cors = server::Cors(*given.cors, "--cors");
  http_options.max_connections = static_cast<size_t>(given.max_queue + kMoreConnections);
  if (!given.quiet) {
    http_options.log = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  }

  catch_termination();
  given.model.n_sequences = std::max(given.conversations, given.parallel);
  SpeculativeModel opened(given.model, given.speculation, terminal_watcher());
  LoadedModel& model = opened.model();
  Speculation& speculation = opened.speculation();
  if (!given.model.chat_template_file.empty()) (void)model.chat_template();  // or an error now
  std::optional<IdleLearning> learning;
  std::unique_ptr<ServeModel> served;
  const auto http = server::start_http(http_options, api);  // ends before what it serves
  opened.load();
  say(speculation.description());
  const Sequences* sequences = model.backend().sequences();
  const int kept = sequences ? sequences->n_sequences() : 1;
  const char* why = sequences ? "memory has no room for more" : "a model on both keeps one text";
  if (kept < given.conversations) {
    say(format("conversations: %d of %d go on where they were: %s", kept, given.conversations,
               why));
  }
  if (kept < given.parallel) {
    say(format("parallel: %d of %d replies side by side: %s", kept, given.parallel, why));
  }
  const std::string file_name = std::filesystem::path(model.path()).filename().string();
  served = std::make_unique<ServeModel>(model, speculation, given.alias.value_or(file_name),
                                        given.parallel, given.cache_size);
  learning.emplace(given.learning, given.model, given.speculation, model, speculation);
  begin_learning(*learning, false);
  if (isatty(STDERR_FILENO)) {
    const auto line = learning->offer("", "--idle-learning on starts it; this is said once.");
    if (line) say(*line);
  }
  served->learn(*learning, [](const std::string& line) { say(line); });
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

const CommandOf<ServeFlags> kServe(
    {.rank = 40,
     .name = "serve",
     .summary = "the same for other programs, over HTTP as OpenAI's API has it",
     .text = "Serve a model over HTTP, as OpenAI's API has it. The flags below are what requests "
             "get that do not say otherwise.",
     .footer = kExamples},
    declare, run);

}  // namespace

}  // namespace specbound::serve_command
