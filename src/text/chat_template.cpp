#include "text/chat_template.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "error.h"
#include "text/template_layout.h"
#include "text/template_recognition.h"

namespace specbound {

namespace {

// The id of the token whose text this is; -1 if there is none.
int32_t token_of(const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<int32_t> ids =
      tokenizer.encode(text, {.add_special = false, .parse_special = true});
  return ids.size() == 1 && tokenizer.piece(ids[0], true) == text ? ids[0] : -1;
}

// Parts of a conversation into ids. Text between two control tokens of the template, its own and
// the messages', is encoded as a whole: so the training text was. From this follows that the ids
// of a conversation with a finished turn begin those of every longer one, where the template
// renders old turns as it did when they were new. The ids the model generated need not be those
// of the reply's text: a caller that wants to go on from them keeps them.
class PartEncoder {
 public:
  PartEncoder(const Tokenizer& tokenizer, const TemplateLayout& layout) : tokenizer_(tokenizer) {
    for (const std::string& control : layout.controls) {
      const int32_t id = token_of(tokenizer, control);
      if (id >= 0 && !tokenizer.is_control(id)) loose_.push_back(control);
    }
  }

  std::vector<int32_t> run(const std::vector<TemplatePart>& parts) {
    // Some templates leave BOS to the vocabulary's add_bos_token (llama.cpp reads them so too).
    if (tokenizer_.add_bos() && (parts.empty() || !begins_with_bos(parts[0])))
      put(tokenizer_.bos());
    for (const TemplatePart& part : parts) part.content ? content(part.text) : own(part.text);
    flush();
    return std::move(ids_);
  }

 private:
  static bool begins_with_bos(const TemplatePart& part) {
    return !part.content && part.text.starts_with("{bos}");
  }

  void put(int32_t id) {
    flush();
    if (id >= 0) ids_.push_back(id);
  }

  // The template's text: control tokens are spelled <...> or [...] in all of them.
  void own(std::string_view text) {
    constexpr size_t kLongest = 40;
    while (!text.empty()) {
      if (text.starts_with("{bos}") || text.starts_with("{eos}")) {
        put(text[1] == 'b' ? tokenizer_.bos() : tokenizer_.eos());
        text.remove_prefix(5);
        continue;
      }
      size_t size = 1;
      if (text[0] == '<' || text[0] == '[') {
        const size_t close = text.substr(0, kLongest).find(text[0] == '<' ? '>' : ']');
        if (close != text.npos) {
          const int32_t id = control(std::string(text.substr(0, close + 1)));
          if (id >= 0) {
            put(id);
            text.remove_prefix(close + 1);
            continue;
          }
        }
      } else {
        size = std::min(text.find_first_of("<[{", 1), text.size());
      }
      stretch_ += text.substr(0, size);
      text.remove_prefix(size);
    }
  }

  int32_t control(const std::string& text) {
    const auto [found, is_new] = controls_.try_emplace(text, -1);
    if (is_new) {
      const int32_t id = token_of(tokenizer_, text);
      if (id >= 0 && tokenizer_.is_control(id)) found->second = id;
    }
    return found->second;
  }

  // A message's text. Tokenizers leave control tokens in it alone, but not user-defined tokens, and
  // some files have a template's tokens among those: they are cut apart behind their first byte.
  void content(std::string_view text) {
    while (!text.empty()) {
      size_t cut = text.size();
      for (const std::string& token : loose_) cut = std::min(cut, text.find(token));
      stretch_ += text.substr(0, cut);
      text.remove_prefix(cut);
      if (text.empty()) return;
      stretch_ += text[0];
      text.remove_prefix(1);
      flush();
    }
  }

  void flush() {
    if (stretch_.empty()) return;
    const std::vector<int32_t> ids =
        tokenizer_.encode(stretch_, {.add_special = false, .parse_special = false});
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    stretch_.clear();
  }

  const Tokenizer& tokenizer_;
  std::vector<std::string> loose_;  // of the layout's control tokens, those text could give
  std::unordered_map<std::string, int32_t> controls_;
  std::string stretch_;
  std::vector<int32_t> ids_;
};

class LayoutTemplate final : public ChatTemplate {
 public:
  LayoutTemplate(TemplateLayout layout, std::string bos, std::string eos,
                 std::vector<std::string> notes)
      : layout_(std::move(layout)), bos_(std::move(bos)), eos_(std::move(eos)) {
    notes_ = std::move(notes);
  }

  const char* name() const override { return layout_.name.c_str(); }

  std::vector<int32_t> encode(const Tokenizer& tokenizer,
                              std::span<const ChatMessage> messages) const override {
    return PartEncoder(tokenizer, layout_).run(lay_out(layout_, messages));
  }

  std::string render(std::span<const ChatMessage> messages) const override {
    return render_text(layout_, messages, bos_, eos_);
  }

  std::string reply_text(std::string_view generated) const override {
    const std::string lead = reply_lead(layout_);
    if (generated.starts_with(lead)) generated.remove_prefix(lead.size());
    return std::string(generated);
  }

 private:
  TemplateLayout layout_;
  std::string bos_, eos_;
};

const TemplateLayout* layout_named(std::string_view name) {
  const std::vector<TemplateLayout>& layouts = template_layouts();
  const auto found = std::find_if(layouts.begin(), layouts.end(),
                                  [&](const TemplateLayout& l) { return l.name == name; });
  return found == layouts.end() ? nullptr : &*found;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

// What a file says of its tokens.
struct TokenTexts {
  explicit TokenTexts(const Gguf& gguf)
      : gguf(gguf), all(gguf.get_strings("tokenizer.ggml.tokens").value_or(decltype(all)())) {}

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

}  // namespace

std::vector<std::string> ChatTemplate::names() {
  std::vector<std::string> names;
  for (const TemplateLayout& layout : template_layouts()) {
    if (std::find(names.begin(), names.end(), layout.name) == names.end()) {
      names.push_back(layout.name);
    }
  }
  return names;
}

std::unique_ptr<ChatTemplate> ChatTemplate::from_gguf(const Gguf& gguf, std::string_view name) {
  const TokenTexts tokens(gguf);
  const std::string bos = tokens.special("tokenizer.ggml.bos_token_id", "<s>");
  const std::string eos = tokens.special("tokenizer.ggml.eos_token_id", "</s>");
  const TemplateLayout& chatml = *layout_named("chatml");
  std::optional<TemplateLayout> layout;
  std::vector<std::string> notes;
  if (!name.empty()) {
    const TemplateLayout* named = layout_named(name);
    if (!named) {
      throw Error(ErrorCode::kUsage, format("chat template \"%s\": expected one of %s",
                                            printable(name).c_str(), joined(names()).c_str()));
    }
    layout = *named;
  } else if (const auto source = gguf.get_string("tokenizer.chat_template")) {
    layout = recognize_template(*source, bos, eos);
    if (!layout) {
      layout = chatml;
      notes.push_back(
          format("chat template: tokenizer.chat_template is none this version knows (it begins "
                 "\"%s\"): ChatML is used instead, which the model may not have learnt; "
                 "--chat-template NAME chooses another, --raw uses none",
                 printable(*source).c_str()));
    }
  } else if (tokens.has(chatml.controls[0])) {
    layout = chatml;
    notes.push_back(
        format("chat template: the file has no tokenizer.chat_template: ChatML is used, whose %s "
               "is in its vocabulary; --chat-template NAME chooses another, --raw uses none",
               chatml.controls[0].c_str()));
  } else {
    throw Error(ErrorCode::kUnsupported,
                format("%s: no tokenizer.chat_template: the model is not made for chat, or its "
                       "file does not say how; --chat-template NAME says it, --raw completes text "
                       "without a template",
                       gguf.path().c_str()));
  }
  std::vector<std::string> missing;
  for (const std::string& control : layout->controls) {
    if (!tokens.has(control)) missing.push_back(control);
  }
  if (!missing.empty()) {
    notes.push_back(format("chat template %s: %s %s in this vocabulary: written as plain text",
                           layout->name.c_str(), joined(missing).c_str(),
                           missing.size() == 1 ? "is no token" : "are no tokens"));
  }
  return std::make_unique<LayoutTemplate>(*std::move(layout), bos, eos, std::move(notes));
}

}  // namespace specbound
