#include "templates/chat_template.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "error.h"
#include "jinja/text.h"
#include "templates/jinja_template.h"

namespace specbound {

namespace {

const BuiltinTemplate* builtin_named(std::string_view name) {
  const std::vector<BuiltinTemplate>& all = builtin_templates();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const BuiltinTemplate& t) { return t.name == name; });
  return found == all.end() ? nullptr : &*found;
}

// What a file says of its tokens.
struct TokenTexts {
  explicit TokenTexts(const Gguf& gguf)
      : gguf(gguf), all(gguf.get_strings("tokenizer.ggml.tokens").value_or(decltype(all)())) {}

  std::string bos() const { return special("tokenizer.ggml.bos_token_id", "<s>"); }
  std::string eos() const { return special("tokenizer.ggml.eos_token_id", "</s>"); }

  // The text of a special token as the file has it.
  std::string special(const char* key, const char* fallback) const {
    const auto id = gguf.get_uint(key);
    return id && *id < all.size() ? std::string(all[*id]) : fallback;
  }
  bool has(std::string_view text) const {
    return std::find(all.begin(), all.end(), text) != all.end();
  }

  const Gguf& gguf;
  std::vector<std::string_view> all;
};

// Tells of control tokens that `style` writes and the vocabulary lacks: those of the built-in
// template that it is, or of the family that a file's own is of.
void note_missing_tokens(JinjaTemplate& style, const TokenTexts& tokens,
                         const BuiltinTemplate* builtin) {
  const auto writes = [&](const std::string& control) {
    return control[0] == '<' && style.marks().contains(control);
  };
  std::vector<std::string> missing;
  for (const BuiltinTemplate& family : builtin_templates()) {
    const bool fits = builtin
                          ? &family == builtin
                          : !family.controls.empty() &&
                                std::all_of(family.controls.begin(), family.controls.end(), writes);
    for (const std::string& control : family.controls) {
      const bool named = std::find(missing.begin(), missing.end(), control) != missing.end();
      if (fits && !named && !tokens.has(control)) missing.push_back(control);
    }
  }
  if (missing.empty()) return;
  style.note(format("chat template %s: %s %s in this vocabulary: written as plain text",
                    style.name(), joined(missing).c_str(),
                    missing.size() == 1 ? "is no token" : "are no tokens"));
}

// A file with a template of its own for conversations with tools, as transformers chooses between
// the two of a list.
class TwoTemplates final : public ChatTemplate {
 public:
  TwoTemplates(std::unique_ptr<ChatTemplate> usual, std::unique_ptr<ChatTemplate> with_tools)
      : usual_(std::move(usual)), with_tools_(std::move(with_tools)) {
    format_ = with_tools_->reply_format();
    if (format_.think_open.empty()) {
      format_.think_open = usual_->reply_format().think_open;
      format_.think_close = usual_->reply_format().think_close;
    }
    takes_tools_ = true;
    notes_ = usual_->notes();
    notes_.insert(notes_.end(), with_tools_->notes().begin(), with_tools_->notes().end());
  }

  const char* name() const override { return usual_->name(); }
  ChatPrompt prompt(const Tokenizer& tokenizer, const ChatInput& input) const override {
    return of(input).prompt(tokenizer, input);
  }
  std::string text(const ChatInput& input) const override { return of(input).text(input); }
  std::string reply_text(std::string_view generated) const override {
    return usual_->reply_text(generated);
  }

 private:
  const ChatTemplate& of(const ChatInput& input) const {
    const bool called = std::ranges::any_of(input.messages, [](const ChatMessage& message) {
      return !message.calls.empty() || message.role == ChatMessage::Role::kTool;
    });
    return called || !input.tools.empty() ? *with_tools_ : *usual_;
  }

  const std::unique_ptr<ChatTemplate> usual_, with_tools_;
};

}  // namespace

bool is_begun(const ChatMessage& message) {
  return !jinja::strip(message.content).empty();
}

std::vector<std::string> ChatTemplate::names() {
  std::vector<std::string> names;
  for (const BuiltinTemplate& builtin : builtin_templates()) names.push_back(builtin.name);
  return names;
}

std::unique_ptr<ChatTemplate> ChatTemplate::from_text(const Gguf& gguf, std::string_view jinja,
                                                      const std::string& path) {
  const TokenTexts tokens(gguf);
  try {
    // Where it lies is not for a server's clients, whom errors name it to.
    const std::string name = std::filesystem::path(path).filename().string();
    return JinjaTemplate::make(name, jinja, tokens.bos(), tokens.eos());
  } catch (const Unusable& unusable) {
    throw Error(ErrorCode::kUnsupported,
                format("%s: the chat template %s", path.c_str(), unusable.why.c_str()));
  }
}

std::unique_ptr<ChatTemplate> ChatTemplate::from_gguf(const Gguf& gguf, std::string_view name) {
  const TokenTexts tokens(gguf);
  const std::string bos = tokens.bos(), eos = tokens.eos();
  const BuiltinTemplate& chatml = *builtin_named("chatml");
  const BuiltinTemplate* builtin = nullptr;
  std::unique_ptr<JinjaTemplate> out;
  std::string note;
  if (!name.empty()) {
    builtin = builtin_named(name);
    if (!builtin) {
      throw Error(ErrorCode::kUsage, format("chat template \"%s\": expected one of %s",
                                            printable(name).c_str(), joined(names()).c_str()));
    }
  } else if (const auto source = gguf.get_string("tokenizer.chat_template")) {
    try {
      out = JinjaTemplate::make("tokenizer.chat_template", *source, bos, eos);
    } catch (const Unusable& unusable) {
      builtin = &chatml;
      note = format(
          "chat template: tokenizer.chat_template %s (it begins \"%s\"): ChatML is used "
          "instead, which the model may not have learnt; chat_template=NAME chooses "
          "another, run with raw=on uses none",
          unusable.why.c_str(), printable(*source).c_str());
    }
  } else if (tokens.has(chatml.controls[0])) {
    builtin = &chatml;
    note = format(
        "chat template: the file has no tokenizer.chat_template: ChatML is used, whose "
        "%s is in its vocabulary; chat_template=NAME chooses another, run with raw=on uses none",
        chatml.controls[0].c_str());
  } else {
    throw Error(
        ErrorCode::kUnsupported,
        format("%s: no tokenizer.chat_template: the model is not made for chat, or its "
               "file does not say how; chat_template=NAME says it, run with raw=on completes "
               "text without one",
               gguf.path().c_str()));
  }
  if (builtin) {
    try {
      out = JinjaTemplate::make(builtin->name, builtin->jinja, bos, eos);
    } catch (const Unusable& unusable) {  // for the texts of BOS and EOS, which are the file's
      throw Error(ErrorCode::kUnsupported, format("%s: chat template %s %s", gguf.path().c_str(),
                                                  builtin->name.c_str(), unusable.why.c_str()));
    }
  }
  if (!note.empty()) out->note(std::move(note));

  note_missing_tokens(*out, tokens, builtin);
  const auto for_tools = gguf.get_string(kToolTemplateKey);
  if (builtin || out->takes_tools() || !for_tools) return out;
  try {
    auto with_tools = JinjaTemplate::make(kToolTemplateKey, *for_tools, bos, eos);
    if (with_tools->takes_tools()) {
      note_missing_tokens(*with_tools, tokens, nullptr);
      return std::make_unique<TwoTemplates>(std::move(out), std::move(with_tools));
    }
  } catch (const Unusable& unusable) {
    out->note(format("chat template: %s %s: tools are not offered to the model", kToolTemplateKey,
                     unusable.why.c_str()));
  }
  return out;
}

}  // namespace specbound
