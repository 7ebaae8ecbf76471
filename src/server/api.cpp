#include "server/api.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <utility>

#include "error.h"
#include "server/chat_page.h"
#include "server/embedding_job.h"
#include "server/embedding_request.h"
#include "server/json_body.h"
#include "server/random_text.h"
#include "server/reply_job.h"
#include "server/reply_json.h"

namespace specbound::server {

namespace {

struct Route {
  std::string_view path, method;
};

constexpr std::string_view kChat = "/v1/chat/completions", kCompletions = "/v1/completions",
                           kModels = "/v1/models", kModel = "/v1/models/{model}",
                           kEmbeddings = "/v1/embeddings", kResponses = "/v1/responses",
                           kApplyTemplate = "/apply-template", kTokenize = "/tokenize",
                           kDetokenize = "/detokenize", kHealth = "/health", kMetrics = "/metrics",
                           kRoot = "/";
constexpr std::array kRoutes = {
    Route{kChat, "POST"},     Route{kCompletions, "POST"}, Route{kEmbeddings, "POST"},
    Route{kModels, "GET"},    Route{kModel, "GET"},        Route{kApplyTemplate, "POST"},
    Route{kTokenize, "POST"}, Route{kDetokenize, "POST"},  Route{kHealth, "GET"},
    Route{kMetrics, "GET"},   Route{kRoot, "GET"},
};

// What a path behind /v1/models/ names, slashes and all; empty: it is no such path.
std::string_view model_named_by(std::string_view path) {
  const size_t before = kModels.size() + 1;
  const bool inside = path.starts_with(kModels) && path.substr(kModels.size()).starts_with('/');
  return inside ? path.substr(before) : std::string_view();
}

const Route* find_route(std::string_view path) {
  if (!model_named_by(path).empty()) path = kModel;
  const auto at = std::find_if(kRoutes.begin(), kRoutes.end(),
                               [&](const Route& route) { return route.path == path; });
  return at == kRoutes.end() ? nullptr : &*at;
}

// In an answer of /tokenize, which is many times the text that it answers; about what /detokenize
// takes.
constexpr size_t kMaxTokens = 1'000'000;

// "POST /v1/chat/completions, GET /health, ..."
std::string all_routes() {
  std::string list;
  for (const Route& route : kRoutes) {
    list += (list.empty() ? "" : ", ") + std::string(route.method) + ' ' + std::string(route.path);
  }
  return list;
}

// Of the chat page: it talks to this server and nobody else, in no frame.
constexpr const char* kPagePolicy =
    "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// 24 random letters and digits, as ids of OpenAI's have them.
std::string random_id(bool chat) {
  return (chat ? "chatcmpl-" : "cmpl-") + random_text(24);
}

int64_t unix_seconds() {
  using namespace std::chrono;
  return duration_cast<seconds>(system_clock::now().time_since_epoch()).count();
}

// A job in the engine, for as long as somebody holds this: it leaves with its client, and with an
// exception on the way.
template <class AnyJob>
class Ticket {
 public:
  Ticket(EngineThread& engine, const std::string& client, std::shared_ptr<AnyJob> job)
      : engine_(engine), job_(std::move(job)) {
    engine_.submit(client, job_);
  }
  ~Ticket() { engine_.cancel(job_); }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  AnyJob& job() { return *job_; }

 private:
  EngineThread& engine_;
  std::shared_ptr<AnyJob> job_;
};

// The tokens of an input of /v1/embeddings.
std::vector<int32_t> input_tokens(const ServedModel& model, EmbeddingRequest::Input& input) {
  std::vector<int32_t> ids = std::move(input.tokens);
  try {
    if (ids.empty()) ids = model.tokenize(input.text, true);
  } catch (const ApiError& e) {
    throw ApiError(e.status(), input.name + ": " + e.what(), input.name, e.code());
  }
  const int most = model.info().n_ctx;
  if (ids.empty())
    throw ApiError(400, input.name + ": expected a text that has tokens", input.name);
  if (ids.size() > static_cast<size_t>(most)) {
    throw ApiError(400,
                   format("%s: expected at most %d tokens, which the context holds, found %zu",
                          input.name.c_str(), most, ids.size()),
                   input.name, "context_length_exceeded");
  }
  return ids;
}

// The job's replies as a whole, once they are over.
Answer whole_answer(const ReplyHead& head, ReplyJob& job, Connection& connection) {
  Answer answer;
  std::vector<ReplyPart> replies;
  for (;;) {
    if (!connection.wait(job.news_fd())) {
      answer.status = kClientGone;
      return answer;
    }
    ReplyJob::News news = job.take();
    for (ReplyPart& part : news.parts) {
      if (replies.empty() || replies.back().index != part.index) {
        replies.push_back(std::move(part));
        continue;
      }
      ReplyPart& reply = replies.back();
      reply.text += part.text;
      reply.thoughts += part.thoughts;
      reply.called = part.called;
      for (ReplyCall& call : part.calls) {
        if (call.goes_on) {
          reply.calls.back().arguments += call.arguments;
        } else {
          reply.calls.push_back(std::move(call));
        }
      }
      std::ranges::move(part.logprobs, std::back_inserter(reply.logprobs));
      reply.figures = part.figures;
    }
    if (news.error) throw *news.error;
    if (!news.over) continue;
    for (const ReplyPart& reply : replies) {
      *answer.tokens += reply.figures->generated.generated_tokens;
    }
    answer.body = reply_json(head, replies);
    return answer;
  }
}

// The events of one part, the first of its reply or not.
std::string events_of(const ReplyHead& head, const ReplyPart& part, bool first) {
  std::string events;
  if (first) events += first_event(head, part.index);
  if (!part.text.empty() || !part.thoughts.empty() || !part.logprobs.empty()) {
    events += text_event(head, part);
  }
  events += call_events(head, part);
  if (part.figures) events += last_event(head, part);
  return events;
}

// The events of the rest of a job's replies, of which `news` came already.
bool write_events(const ReplyHead& head, ReplyJob& job, ReplyJob::News news, Connection& connection,
                  Connection::Time silence, int& tokens) {
  Usage usage;
  int newest = -1;  // reply of which there were events
  for (;;) {
    for (const ReplyPart& part : news.parts) {
      const bool first = part.index != std::exchange(newest, part.index);
      if (!connection.write(events_of(head, part, first))) return false;
      if (part.figures) usage.add(part.figures->generated);
    }
    tokens = usage.completion_tokens;
    if (news.error) return connection.write(error_event(*news.error));
    if (news.over) break;
    if (news.parts.empty() && !connection.write(kStillHere)) return false;
    if (!connection.wait(job.news_fd(), silence)) return false;
    news = job.take();
  }
  std::string end;
  if (job.request().include_usage) end += usage_event(head, usage);
  return connection.write(end.append(kDoneEvent));
}

}  // namespace

Api::Api(ApiOptions options) : options_(std::move(options)) {}

void Api::open(ServedModel& model) {
  engine_ = std::make_unique<EngineThread>(model, metrics_, options_.max_waiting);
  model_ = &model;
}

std::string Api::route_of(std::string_view path) {
  const Route* route = find_route(path);
  return std::string(route ? route->path : "other");
}

std::vector<std::string> Api::post_paths() {
  std::vector<std::string> paths;
  for (const Route& route : kRoutes) {
    if (route.method == "POST") paths.emplace_back(route.path);
  }
  return paths;
}

std::string Api::methods_of(std::string_view path) {
  const Route* route = find_route(path);
  if (!route) return "";
  return std::string(route->method) + (route->method == "GET" ? ", HEAD, OPTIONS" : ", OPTIONS");
}

std::string_view Api::key_of(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  const auto as_lower = [](char c, char lower) {
    return c == lower || (c >= 'A' && c <= 'Z' && c + ('a' - 'A') == lower);
  };
  const std::string_view scheme = authorization.substr(0, kScheme.size());
  if (!std::ranges::equal(scheme, kScheme, as_lower)) return {};
  return authorization.substr(kScheme.size());
}

void Api::admit(std::string_view method, std::string_view path,
                std::string_view authorization) const {
  const Route* route = find_route(path);
  const std::string_view key = key_of(authorization);
  // Who has no key need not know which paths there are.
  if (path != kHealth && path != kRoot && !options_.keys.accept(key)) {
    throw ApiError(401,
                   key.empty() ? "expected an API key: "
                                 "Authorization: Bearer KEY"
                               : "this API key is not accepted",
                   "", "invalid_api_key");
  }
  if (path == kResponses || path.starts_with(std::string(kResponses) + "/")) {
    throw ApiError(404, "no responses can be had here; POST /v1/chat/completions answers messages",
                   "", "not_found");
  }
  if (!route) throw ApiError(404, "no such path; there are " + all_routes(), "", "not_found");
  const bool as_get = route->method == "GET" && method == "HEAD";
  if (method != route->method && !as_get) {
    throw ApiError(405, format("expected %s for this path", route->method.data()), "",
                   "method_not_allowed");
  }
}

ServedModel& Api::model() const {
  ServedModel* model = model_;
  if (!model) throw ApiError(503, "loading model", "", "loading_model");
  return *model;
}

Answer Api::get(std::string_view path) const {
  Answer answer;
  if (path == kHealth) {
    const bool ready = model_ != nullptr;
    answer.status = ready ? 200 : 503;
    answer.body = ready ? R"({"status":"ok"})" : R"({"status":"loading model"})";
  } else if (path == kModels) {
    answer.body = models_json(model().info());
  } else if (const std::string_view name = model_named_by(path); !name.empty()) {
    const ModelInfo& info = model().info();
    if (name != info.id) {
      throw ApiError(404,
                     format("the path: expected the model %s, found %s",
                            json_text(Json(info.id)).c_str(), json_text(Json(name)).c_str()),
                     "model", "model_not_found");
    }
    answer.body = model_json(info);
  } else if (path == kMetrics) {
    answer.body = metrics_.text(model_ != nullptr ? engine_->waiting() : 0);
    answer.type = "text/plain; version=0.0.4; charset=utf-8";
  } else {
    answer.body = chat_page();
    answer.type = "text/html; charset=utf-8";
    answer.headers.emplace_back("Content-Security-Policy", kPagePolicy);
  }
  return answer;
}

Answer Api::post(std::string_view path, std::string_view body, const std::string& client,
                 Connection& connection) {
  if (path == kApplyTemplate) return apply_template(body);
  if (path == kTokenize) return tokenize(body);
  if (path == kDetokenize) return detokenize(body);
  if (path == kEmbeddings) return embed(body, client, connection);
  return complete(path == kChat, body, client, connection);
}

Answer Api::apply_template(std::string_view body) const {
  const ServedModel& model = this->model();
  const Chat chat = [&] {
    const std::lock_guard lock(parsing_);
    return parse_apply_template(body);
  }();
  Answer answer;
  answer.body = prompt_json(model.prompt_text(chat));
  return answer;
}

Answer Api::tokenize(std::string_view body) const {
  const ServedModel& model = this->model();
  const TokenizeRequest request = [&] {
    const std::lock_guard lock(parsing_);
    return parse_tokenize(body);
  }();
  const std::vector<int32_t> ids = model.tokenize(request.content, request.add_special);
  if (ids.size() > kMaxTokens) {
    throw ApiError(
        400, format("content: expected at most %zu tokens, found %zu", kMaxTokens, ids.size()),
        "content");
  }
  PieceOf piece;
  if (request.with_pieces) piece = [&model](int32_t id) { return model.piece(id); };
  Answer answer;
  std::unique_lock lock(spelling_, std::defer_lock);
  if (piece) lock.lock();  // many times the text, too
  answer.body = tokens_json(ids, piece);
  return answer;
}

Answer Api::detokenize(std::string_view body) const {
  const ServedModel& model = this->model();
  const std::vector<int32_t> ids = [&] {
    const std::lock_guard lock(parsing_);
    return parse_detokenize(body, model.info().n_vocab);
  }();
  Answer answer;
  answer.body = content_json(model.detokenize(ids));
  return answer;
}

// One body at a time: JSON takes far more memory than its text, and hostile clients could come
// together. So do pieces and grammars, and some take long: they hold up each other alone.
CompletionRequest Api::parse(bool chat, std::string_view body) const {
  const int n_vocab = model().info().n_vocab;
  const std::lock_guard lock(parsing_);
  return chat ? parse_chat(body, options_.defaults, n_vocab)
              : parse_completion(body, options_.defaults, n_vocab);
}

// One that is known waits for nobody who compiles.
template <class Asked>
Grammar::Shared Api::grammar_of(const Asked& asked, KeptFormats<Asked>& kept) {
  if (Grammar::Shared known = kept.find(asked)) return known;
  const std::lock_guard lock(compiling_);
  if (Grammar::Shared known = kept.find(asked)) return known;  // meanwhile
  Grammar::Shared grammar = compiled(asked);
  kept.keep(asked, grammar);
  return grammar;
}

// What the reply is held to. `thinks`: as held_calls() has it.
void Api::compile(bool thinks, CompletionRequest& request) {
  if (!request.format.field.empty()) {
    request.settings.grammar = grammar_of(request.format, formats_);
  }
  if (!request.chat) return;
  if (const auto calls = held_calls(model().reply_format(), thinks, request)) {
    request.settings.grammar = grammar_of(*calls, calls_);
  }
}

Answer Api::complete(bool chat, std::string_view body, const std::string& client,
                     Connection& connection) {
  CompletionRequest request = parse(chat, body);
  Prompt prompt = model().prompt(request);
  compile(prompt.thinks, request);
  ReplyHead head;
  head.chat = chat;
  head.id = random_id(chat);
  head.created = unix_seconds();
  head.model = request.model.empty() ? model().info().id : request.model;
  head.logprobs = request.logprobs.has_value();
  head.exits = request.exits;

  const auto ticket = std::make_shared<Ticket<ReplyJob>>(
      *engine_, client, std::make_shared<ReplyJob>(std::move(request), std::move(prompt)));
  if (!ticket->job().request().stream) {
    Answer answer = whole_answer(head, ticket->job(), connection);
    if (answer.status == kClientGone) metrics_.count_disconnect();
    return answer;
  }
  // What goes wrong before the first text, and soon, still gets a status of its own.
  Answer answer;
  if (!connection.wait(ticket->job().news_fd(), options_.silence)) {
    metrics_.count_disconnect();
    answer.status = kClientGone;
    return answer;
  }
  ReplyJob::News first = ticket->job().take();
  if (first.error && first.parts.empty()) throw *first.error;
  answer.type = "text/event-stream";
  answer.headers.emplace_back("Cache-Control", "no-cache");
  answer.headers.emplace_back("X-Accel-Buffering", "no");  // nginx would send events in heaps
  answer.stream = [this, head, ticket, first = std::move(first),
                   tokens = answer.tokens](Connection& reader) {
    const bool read = write_events(head, ticket->job(), first, reader, options_.silence, *tokens);
    if (!read) metrics_.count_disconnect();
    return read;
  };
  return answer;
}

Answer Api::embed(std::string_view body, const std::string& client, Connection& connection) {
  const ServedModel& model = this->model();
  const ModelInfo& info = model.info();
  EmbeddingRequest request = [&] {
    const std::lock_guard lock(parsing_);
    return parse_embeddings(body, info.n_vocab, info.dim);
  }();
  std::vector<std::vector<int32_t>> inputs;
  size_t n_tokens = 0;
  for (EmbeddingRequest::Input& input : request.inputs) {
    inputs.push_back(input_tokens(model, input));
    n_tokens += inputs.back().size();
    if (n_tokens > kMaxInputTokens) {
      throw ApiError(400, format("input: expected at most %zu tokens together", kMaxInputTokens),
                     "input");
    }
  }
  Ticket<EmbeddingJob> ticket(*engine_, client, std::make_shared<EmbeddingJob>(std::move(inputs)));
  Answer answer;
  for (;;) {
    if (!connection.wait(ticket.job().news_fd())) {
      metrics_.count_disconnect();
      answer.status = kClientGone;
      return answer;
    }
    if (const auto embeddings = ticket.job().take()) {
      answer.body = embeddings_json(request.model.empty() ? info.id : request.model, *embeddings,
                                    request.base64, n_tokens);
      return answer;
    }
  }
}

Answer Api::failure(const ApiError& error) {
  Answer answer;
  answer.status = error.status();
  answer.body = error_json(error);
  if (error.status() == 429) answer.headers.emplace_back("Retry-After", "1");
  if (error.status() == 401) answer.headers.emplace_back("WWW-Authenticate", "Bearer");
  return answer;
}

}  // namespace specbound::server
