#include "server/serve_model.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "decode/row_logprobs.h"
#include "decode/text_embedding.h"
#include "engine/cuda/device.h"
#include "error.h"
#include "runtime/reply.h"
#include "runtime/reply_options.h"
#include "server/api_error.h"
#include "server/call_grammar.h"
#include "templates/template_encoder.h"
#include "text/utf8.h"

namespace specbound {

namespace {

using server::ApiError;

constexpr size_t kGrammarBytes = size_t{128} << 20;  // that are kept for later requests

// What an error says, with the model's name for its file: where that lies is not for clients.
std::string named(std::string message, const std::string& path, const std::string& id) {
  if (message.starts_with(path)) message.replace(0, path.size(), id);
  return message;
}

}  // namespace

// Where the tokens of a reply stand in it, in characters.
class ReplyCharacters {
 public:
  // Both must outlive it.
  ReplyCharacters(const Tokenizer& tokenizer, const ReplyText::FirstPiece& first_piece)
      : tokenizer_(tokenizer), first_piece_(first_piece) {}

  // How many are before `token`, which is the reply's next one.
  size_t before(int32_t token) {
    std::string piece = tokenizer_.piece(token);
    if (first_piece_ && !begun_ && !piece.empty()) piece = first_piece_(token, piece);
    begun_ = begun_ || !piece.empty();
    // A character that was begun is done with where another one begins.
    const bool pending = !Utf8Stream(text_).finish().empty();
    const size_t before = n_ + (pending && !piece.empty() && begins(piece[0]));
    const std::string whole = text_.push(piece);
    n_ += static_cast<size_t>(std::count_if(whole.begin(), whole.end(), begins));
    return before;
  }

 private:
  static bool begins(char byte) { return (byte & 0xc0) != 0x80; }  // a character

  const Tokenizer& tokenizer_;
  const ReplyText::FirstPiece& first_piece_;
  Utf8Stream text_;
  size_t n_ = 0;
  bool begun_ = false;
};

// A reply under way: its request as the batch has it, and what becomes of its tokens.
class ServeModel::Writing final : public server::ReplyUnderWay {
 public:
  Writing(ServeModel& model, const server::CompletionRequest& request, int number,
          const Prompt& prompt, const std::atomic<bool>& abort, const Listener& listener)
      : model_(model),
        work_(model.learning_),
        request_(request),
        number_(number),
        listener_(listener),
        spelled_(model.spelled_tokens(request)),
        characters_(model.model_.tokenizer(), prompt.first_piece),
        writer_(model.model_, asked(prompt, abort)) {}
  ~Writing() override {
    if (id_ < 0) return;
    model_.batch_.drop(id_);
    model_.under_way_.erase(id_);
  }

  void begin(int64_t id, const Prompt& prompt, SamplingParams sampling) {
    seed_ = sampling.seed;
    model_.batch_.add(
        id, {.prompt = prompt.ids,
             .sampling = std::move(sampling),
             .options = writer_.options(),
             .speculator = [this] { return model_.speculator(request_.settings.speculation); }});
    id_ = id;
  }
  void end(WrittenReply written) { written_ = std::move(written); }

  std::optional<ReplyStats> figures() override {
    if (!written_) return std::nullopt;
    if (written_->error) std::rethrow_exception(written_->error);
    Reply made = writer_.finish(written_->stats, seed_, model_.model_.backend());
    if (model_.learning_ && number_ == 0) model_.said(request_, std::move(made.text));
    return made.stats;
  }

 private:
  ReplyRequest asked(const Prompt& prompt, const std::atomic<bool>& abort);
  void tell_logprobs(const TokenEvent& event, std::span<const float> logits);

  ServeModel& model_;
  const IdleLearning::Work work_;
  const server::CompletionRequest& request_;
  const int number_;
  const Listener& listener_;
  const std::vector<int32_t> spelled_;
  ReplyCharacters characters_;
  ReplyWriter writer_;
  uint64_t seed_ = 0;
  int64_t id_ = -1;                      // the batch's; -1: it is not there
  std::optional<WrittenReply> written_;  // when it is over
};

class ServeModel::Embedding final : public server::EmbeddingUnderWay {
 public:
  Embedding(ServeModel& model, std::span<const int32_t> tokens)
      : work_(model.learning_), embedding_(model.sessions_, model.output_norm(), tokens) {}
  std::optional<std::vector<float>> go_on() override { return embedding_.go_on(); }

 private:
  const IdleLearning::Work work_;
  TextEmbedding embedding_;
};

ReplyRequest ServeModel::Writing::asked(const Prompt& prompt, const std::atomic<bool>& abort) {
  const server::ReplySettings& settings = request_.settings;
  ReplyRequest asked;
  asked.reply = static_cast<uint32_t>(number_);
  asked.max_tokens = settings.max_tokens;
  asked.ignore_eos = settings.ignore_eos;
  asked.stop = settings.stop;
  asked.first_piece = prompt.first_piece;
  asked.spelled = spelled_;
  asked.abort = &abort;
  asked.on_text = [this](std::string_view bytes, int exit_layer) {
    listener_.on_text(bytes, exit_layer);
    return true;
  };
  if (request_.logprobs) {
    asked.on_logits = [this](const TokenEvent& event, std::span<const float> logits) {
      tell_logprobs(event, logits);
    };
  }
  return asked;
}

void ServeModel::Writing::tell_logprobs(const TokenEvent& event, std::span<const float> logits) {
  const RowLogprobs row = row_logprobs(logits, event.token, *request_.logprobs);
  const auto named = [&](const TokenLogprob& of) {
    return server::PieceLogprob{model_.piece(of.id), of.logprob};
  };
  server::TokenLogprobs told{named(row.drawn), {}, characters_.before(event.token)};
  for (const TokenLogprob& likely : row.top) told.top.push_back(named(likely));
  listener_.on_logprobs(std::move(told));
}

ServeModel::ServeModel(LoadedModel& model, Speculation& speculation, std::string id, int parallel,
                       uint64_t cache_size)
    : model_(model),
      speculation_(speculation),
      speculates_(speculation.active()),
      sessions_(model.backend(), cache_size),
      batch_(sessions_, parallel),
      grammars_(kGrammarBytes,
                [&model](const Grammar::Shared& of) { return model.constrain(of); }) {
  using namespace std::chrono;
  info_.id = std::move(id);
  info_.created = duration_cast<seconds>(system_clock::now().time_since_epoch()).count();
  info_.architecture = model.config().architecture;
  info_.n_ctx = model.n_ctx();
  info_.n_vocab = model.tokenizer().vocab_size();
  info_.n_layers = model.config().n_layers;
  info_.dim = model.config().dim;
  try {
    chat_template_ = &model.chat_template();  // now: later there are threads
  } catch (const Error& e) {                  // /v1/completions does without
    no_template_ = named(e.what(), model.path(), info_.id);
  }
}

void ServeModel::learn(IdleLearning& learning, std::function<void(const std::string&)> note) {
  learning_ = &learning;
  note_ = std::move(note);
}

Prompt ServeModel::prompt(const server::CompletionRequest& request) const {
  Prompt prompt = request.chat ? chat_prompt(request) : raw_prompt(request);
  if (prompt.ids.empty()) {
    throw ApiError(400, "the prompt has no tokens: expected at least one",
                   request.chat ? "messages" : "prompt");
  }
  if (prompt.ids.size() > static_cast<size_t>(model_.n_ctx())) {
    throw ApiError(400,
                   format("the prompt has %zu tokens, the context holds %d", prompt.ids.size(),
                          model_.n_ctx()),
                   request.chat ? "messages" : "prompt", "context_length_exceeded");
  }
  return prompt;
}

const ChatTemplate& ServeModel::chat_template() const {
  if (!chat_template_) throw ApiError(400, no_template_, "messages", "no_chat_template");
  return *chat_template_;
}

void ServeModel::refuse_chat(const server::Chat& chat, const Error& error) const {
  const bool tools = !chat.tools.tools.empty() && !chat_template().takes_tools();
  throw ApiError(400, error.what(), tools ? "tools" : "messages");
}

Prompt ServeModel::chat_prompt(const server::CompletionRequest& request) const {
  const ChatTemplate& style = chat_template();
  try {
    const ChatInput input = request.conversation.input();
    ChatPrompt prompt = style.prompt(model_.tokenizer(), input);
    Prompt out{std::move(prompt.ids), nullptr, prompt.thinks};
    if (!input.continues) {  // else a space is the reply's own
      out.first_piece = [&style](int32_t, std::string_view piece) {
        return style.reply_text(piece);
      };
    }
    return out;
  } catch (const Error& e) {
    refuse_chat(request.conversation, e);
  }
}

std::string ServeModel::prompt_text(const server::Chat& chat) const {
  try {
    return chat_template().text(chat.input());
  } catch (const Error& e) {
    refuse_chat(chat, e);
  }
}

ReplyFormat ServeModel::reply_format() const {
  return chat_template_ ? chat_template_->reply_format() : ReplyFormat();
}

// The control tokens that a reply's calls and thoughts are written with.
std::vector<int32_t> ServeModel::spelled_tokens(const server::CompletionRequest& request) const {
  std::vector<int32_t> ids;
  for (const std::string_view mark : server::shown_marks(reply_format(), request)) {
    const int32_t id = token_of(model_.tokenizer(), std::string(mark));
    if (id >= 0 && model_.tokenizer().is_control(id)) ids.push_back(id);
  }
  return ids;
}

Prompt ServeModel::raw_prompt(const server::CompletionRequest& request) const {
  if (!request.tokens.empty()) return {request.tokens, nullptr};
  try {
    PromptOptions raw;
    raw.raw = true;
    return make_prompt(model_, raw, "", request.text);
  } catch (const Error& e) {
    const bool too_long = e.code() == ErrorCode::kLimit;
    throw ApiError(400, named(e.what(), model_.path(), info_.id), "prompt",
                   too_long ? "context_length_exceeded" : "");
  }
}

std::vector<int32_t> ServeModel::tokenize(std::string_view text, bool add_special) const {
  try {
    return model_.tokenizer().encode(text, {.add_special = add_special});
  } catch (const Error& e) {
    throw ApiError(400, e.what(), "content", "");
  }
}

// What drafts where a request asks for it or not. Who does without switches nothing off: there may
// be others beside it.
Speculator* ServeModel::speculator(std::optional<bool> asked) {
  if (!asked.value_or(speculates_)) return nullptr;
  if (!speculation_.active()) speculation_.set_active(true);
  return speculation_.speculator();
}

// Not what is no dialogue of a user and the model in turn.
void ServeModel::said(const server::CompletionRequest& request, std::string reply) {
  using Role = ChatMessage::Role;
  SavedConversation conversation;
  for (const ChatMessage& message : request.conversation.messages) {
    if (message.role == Role::kSystem && conversation.messages.empty()) {
      conversation.system += message.content;
      continue;
    }
    const bool users = conversation.messages.size() % 2 == 0;
    if (message.role != (users ? Role::kUser : Role::kAssistant)) return;
    conversation.messages.push_back({message.role, message.content});
  }
  if (conversation.messages.size() % 2 == 0 || reply.empty()) return;
  conversation.title = title_from(conversation.messages[0].text);
  conversation.messages.push_back({Role::kAssistant, std::move(reply)});
  try {
    learning_->said(std::move(conversation));
  } catch (const std::exception& e) {  // the reply is there all the same
    note_(e.what());
  }
}

std::span<const float> ServeModel::output_norm() const {
  return {model_.weights().output_norm, static_cast<size_t>(info_.dim)};
}

std::unique_ptr<server::EmbeddingUnderWay> ServeModel::begin_embedding(
    std::span<const int32_t> tokens) {
  if (Device* gpu = model_.backend().gpu()) gpu->take_over();  // another thread has opened it
  return std::make_unique<Embedding>(*this, tokens);
}

std::unique_ptr<server::ReplyUnderWay> ServeModel::begin(const server::CompletionRequest& request,
                                                         int number, const Prompt& prompt,
                                                         const std::atomic<bool>& abort,
                                                         const Listener& listener) {
  auto writing = std::make_unique<Writing>(*this, request, number, prompt, abort, listener);
  if (Device* gpu = model_.backend().gpu()) gpu->take_over();  // as above
  if (batch_.size() == 0) {
    if (const auto news = learning_ ? learning_->take_heads() : std::nullopt) note_(news->line);
  }
  SamplingOptions sampling;
  sampling.params = request.settings.sampling;
  sampling.seed = request.settings.seed;
  SamplingParams params = sampling.resolve();
  params.grammar = grammars_.of(request.settings.grammar);
  const int64_t id = n_begun_++;
  writing->begin(id, prompt, std::move(params));
  under_way_[id] = writing.get();
  return writing;
}

server::ServedModel::Kept ServeModel::kept() const {
  const Sessions::Idle idle = sessions_.idle();
  return {idle.conversations, idle.bytes};
}

void ServeModel::go_on() {
  for (WrittenReply& written : batch_.step()) {
    const int64_t id = written.id;
    under_way_.at(id)->end(std::move(written));
  }
}

}  // namespace specbound
