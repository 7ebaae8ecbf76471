// The Vicuna-style template:
//
//   <s>{system} USER: {user} ASSISTANT: {assistant}</s>USER: {user} ASSISTANT:
//
// It is recognized in tokenizer.chat_template by what the Jinja text does, not by its spelling: the
// text is read into the pieces that are put out before the messages, for each role, and behind
// them.
#include "text/chat_template.h"

#include <utility>

#include "error.h"
#include "text/template_shape.h"

namespace specbound {

namespace {

TemplateAtom literal(const char* text) {
  return {TemplateAtom::kLiteral, text};
}

bool is_vicuna(const TemplateShape& shape) {
  const TemplateAtom content = {TemplateAtom::kContent}, bos = {TemplateAtom::kBos},
                     eos = {TemplateAtom::kEos};
  if (!shape.before.empty() && shape.before != TemplateAtoms{bos}) return false;
  if (!shape.system.empty() && shape.system != TemplateAtoms{content, literal(" ")}) return false;
  const bool closed_by_user =
      shape.user == TemplateAtoms{literal("USER: "), content, literal(" ASSISTANT:")} &&
      shape.assistant == TemplateAtoms{literal(" "), content, eos} && shape.generation.empty();
  const bool opened_by_assistant =
      shape.user == TemplateAtoms{literal("USER: "), content, literal(" ")} &&
      shape.assistant == TemplateAtoms{literal("ASSISTANT: "), content, eos} &&
      shape.generation == TemplateAtoms{literal("ASSISTANT:")};
  return closed_by_user || opened_by_assistant;
}

class VicunaTemplate final : public ChatTemplate {
 public:
  VicunaTemplate(std::string bos, std::string eos) : bos_(std::move(bos)), eos_(std::move(eos)) {}

  const char* name() const override { return "vicuna"; }

  // Each stretch of text up to a </s> is encoded as a whole, with the space SentencePiece puts in
  // front of a text: so the training text was. From this follows for the ids of a conversation:
  // with a finished turn they begin those of every longer one; ending in an open "ASSISTANT:" they
  // begin those with the reply filled in unless the vocabulary has tokens with a space inside. The
  // ids the model generated need not be those of the reply's text: a caller that wants to go on
  // from them keeps them.
  std::vector<int32_t> encode(const Tokenizer& tokenizer,
                              std::span<const ChatMessage> messages) const override {
    std::vector<int32_t> ids;
    if (tokenizer.bos() >= 0) ids.push_back(tokenizer.bos());
    const EncodeOptions plain = {.add_special = false, .parse_special = false};
    for (const Stretch& stretch : stretches(messages)) {
      const std::vector<int32_t> text = tokenizer.encode(stretch.text, plain);
      ids.insert(ids.end(), text.begin(), text.end());
      if (stretch.ended && tokenizer.eos() >= 0) ids.push_back(tokenizer.eos());
    }
    return ids;
  }

  std::string render(std::span<const ChatMessage> messages) const override {
    std::string out = bos_;
    for (const Stretch& stretch : stretches(messages)) {
      out += stretch.text;
      if (stretch.ended) out += eos_;
    }
    return out;
  }

  std::string reply_text(std::string_view generated) const override {
    if (generated.starts_with(' ')) generated.remove_prefix(1);
    return std::string(generated);
  }

 private:
  struct Stretch {
    std::string text;
    bool ended = false;  // by the end token
  };

  // A system message stands in front of the next USER, as Vicuna has it. The demo model's own Jinja
  // text leaves it out, but whoever gives one wants it to be read, not dropped in silence.
  static std::vector<Stretch> stretches(std::span<const ChatMessage> messages) {
    std::vector<Stretch> out(1);
    for (const ChatMessage& message : messages) {
      std::string& text = out.back().text;
      switch (message.role) {
        case ChatMessage::Role::kSystem:
          text += message.content + " ";
          break;
        case ChatMessage::Role::kUser:
          text += "USER: " + message.content + " ASSISTANT:";
          break;
        case ChatMessage::Role::kAssistant:
          text += " " + message.content;
          out.back().ended = true;
          out.emplace_back();
          break;
      }
    }
    return out;
  }

  std::string bos_, eos_;
};

// The family a template that cannot be used belongs to, by a mark of its own.
constexpr std::pair<std::string_view, const char*> kFamilies[] = {
    {"<|im_start|>", "ChatML"},       {"<|start_header_id|>", "Llama 3"},
    {"[INST]", "Llama 2 or Mistral"}, {"<start_of_turn>", "Gemma"},
    {"<|start_of_role|>", "Granite"}, {"<|END_OF_TURN_TOKEN|>", "Command R"},
    {"<|channel|>", "Harmony"},       {"<|user|>", "Phi-3 or Zephyr"},
    {"### Instruction", "Alpaca"},    {"USER: ", "Vicuna, but of another form"},
};

// The text of a special token as the file has it.
std::string token_text(const Gguf& gguf, const char* key, const char* fallback) {
  const auto id = gguf.get_uint(key);
  const auto texts = gguf.get_strings("tokenizer.ggml.tokens");
  return id && texts && *id < texts->size() ? std::string((*texts)[*id]) : fallback;
}

}  // namespace

std::unique_ptr<ChatTemplate> ChatTemplate::from_gguf(const Gguf& gguf) {
  const auto source = gguf.get_string("tokenizer.chat_template");
  if (!source) {
    throw Error(
        ErrorCode::kUnsupported,
        format("%s: no tokenizer.chat_template: the model is not made for chat, or its file "
               "does not say how; --raw completes text without a template",
               gguf.path().c_str()));
  }
  const auto shape = read_template_shape(*source);
  if (shape && is_vicuna(*shape)) {
    return std::make_unique<VicunaTemplate>(
        token_text(gguf, "tokenizer.ggml.bos_token_id", "<s>"),
        token_text(gguf, "tokenizer.ggml.eos_token_id", "</s>"));
  }
  std::string found = format("it begins \"%s\"", printable(*source).c_str());
  for (const auto& [mark, family] : kFamilies) {
    if (source->find(mark) == source->npos) continue;
    found = format("found %s (\"%s\")", family, std::string(mark).c_str());
    break;
  }
  throw Error(
      ErrorCode::kUnsupported,
      format("%s: tokenizer.chat_template is none this version knows: expected the Vicuna "
             "form (\"USER: ... ASSISTANT: ...\"), %s; --raw completes text without a template",
             gguf.path().c_str(), found.c_str()));
}

}  // namespace specbound
