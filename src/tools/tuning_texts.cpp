#include "tools/tuning_texts.h"

#include <algorithm>
#include <optional>

#include "corpus/corpus.h"
#include "error.h"
#include "runtime/conversation.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "tools/data_files.h"
#include "tools/tuning_prompts.h"

namespace specbound {

namespace {

constexpr const char* kEndedWriting = "interrupted while texts were written";

// Texts as they are written, up to the share of one temperature.
class Writer {
 public:
  Writer(LoadedModel& model, const TuningTextOptions& options, float temperature, Progress& bar,
         int before)
      : model_(model),
        options_(options),
        bar_(bar),
        before_(before),
        share_(std::max(1, options.tokens / static_cast<int>(options.temperatures.size()))),
        session_(model.backend(), Sampler(sampling(temperature))) {}

  bool full() const { return tokens_ >= share_; }
  int tokens() const { return tokens_; }
  std::vector<TuningText>& texts() { return texts_; }

  // What is written from here on has prompts of its own.
  void begin_dialogue() { ++dialogue_; }
  // The reply to `prompt`; nullopt without room for one.
  std::optional<std::span<const int32_t>> write(std::span<const int32_t> prompt) {
    check_interrupt(kEndedWriting);
    std::optional<TuningText> text = write_text(
        session_, prompt, std::min(options_.reply_tokens, share_ - tokens_),
        [&](int32_t id) { return model_.ends_reply(id); }, &interrupt_flag());
    check_interrupt(kEndedWriting);
    if (!text) return std::nullopt;
    text->dialogue = dialogue_;
    texts_.push_back(std::move(*text));
    const TuningText& t = texts_.back();
    const auto reply = std::span<const int32_t>(t.tokens).subspan(t.prompt_tokens);
    tokens_ += static_cast<int>(reply.size());
    bar_.update(static_cast<size_t>(before_ + tokens_), static_cast<size_t>(options_.tokens));
    return reply;
  }

 private:
  SamplingParams sampling(float temperature) const {
    SamplingParams params;
    params.temperature = temperature;
    params.seed = options_.seed;
    return params;
  }

  LoadedModel& model_;
  const TuningTextOptions& options_;
  Progress& bar_;
  int before_, share_, tokens_ = 0, dialogue_ = -1;
  Session session_;
  std::vector<TuningText> texts_;
};

void write_builtin(Writer& writer, const LoadedModel& model, const ChatTemplate* chat) {
  const Tokenizer& tokenizer = model.tokenizer();
  for (const char* opener : tuning_openers()) {
    if (writer.full()) return;
    writer.begin_dialogue();
    if (!chat) {
      writer.write(tokenizer.encode(opener));
      continue;
    }
    Conversation conversation(tokenizer, *chat, "");
    conversation.add_user(opener);
    for (size_t turn = 0; !writer.full(); ++turn) {
      std::vector<int32_t> prompt;
      try {
        prompt = conversation.prompt(model.n_ctx(), 2 * kMaxRows).ids;
      } catch (const Error& e) {
        if (e.code() != ErrorCode::kLimit) throw;
        break;  // a context too small for this opener
      }
      const auto reply = writer.write(prompt);
      if (!reply || turn == tuning_answers().size()) break;
      std::vector<int32_t> ids(reply->begin(), reply->end());
      if (!ids.empty() && model.ends_reply(ids.back())) ids.pop_back();
      std::string text;
      for (const int32_t id : ids) text += tokenizer.piece(id);
      conversation.add_reply(chat->reply_text(text));
      conversation.add_user(tuning_answers()[turn]);
    }
  }
}

// Histories as the corpus has them, replies by the model.
void write_corpus(Writer& writer, const LoadedModel& model, const ChatTemplate* chat,
                  const Corpus& corpus, std::span<const size_t> order) {
  constexpr size_t kPlainPrompt = 64;
  for (const size_t i : order) {
    writer.begin_dialogue();
    const CorpusText& text = corpus.texts[i];
    if (text.messages.empty() || !chat) {
      std::string plain = text.text;
      for (const ChatMessage& message : text.messages) plain += message.content + "\n";
      std::vector<int32_t> prompt = model.tokenizer().encode(plain);
      prompt.resize(std::min(prompt.size(), kPlainPrompt));
      if (!prompt.empty()) writer.write(prompt);
    }
    for (size_t m = 1; chat && m < text.messages.size() && !writer.full(); ++m) {
      if (text.messages[m].role != ChatMessage::Role::kAssistant) continue;
      if (!writer.write(chat->encode(model.tokenizer(), std::span(text.messages).first(m)))) break;
    }
    if (writer.full()) return;
  }
}

}  // namespace

std::vector<TuningText> tuning_texts(LoadedModel& model, const TuningTextOptions& options) {
  const ChatTemplate* chat = model.find_chat_template();
  Corpus corpus;
  std::vector<size_t> order;
  if (!options.data.empty()) {
    corpus = read_data_files(options.data, kEndedWriting);
    order = shuffled_order(corpus.texts.size(), options.seed);
  }
  std::vector<std::vector<TuningText>> by_temperature;
  {
    Progress bar("writing replies", Progress::Unit::kItems);
    int tokens = 0;
    for (const float temperature : options.temperatures) {
      Writer writer(model, options, temperature, bar, tokens);
      model.backend().truncate(0);
      if (options.data.empty()) {
        write_builtin(writer, model, chat);
      } else {
        write_corpus(writer, model, chat, corpus, order);
      }
      tokens += writer.tokens();
      by_temperature.push_back(std::move(writer.texts()));
    }
  }
  model.backend().truncate(0);
  std::vector<TuningText> texts;
  for (size_t i = 0;; ++i) {
    const size_t before = texts.size();
    for (std::vector<TuningText>& own : by_temperature) {
      if (i < own.size()) texts.push_back(std::move(own[i]));
    }
    if (texts.size() == before) break;
  }
  if (texts.empty()) {
    throw Error(ErrorCode::kLimit,
                format("the context of %d tokens leaves no room for replies to tune on: raise -c",
                       model.n_ctx()));
  }
  return texts;
}

}  // namespace specbound
