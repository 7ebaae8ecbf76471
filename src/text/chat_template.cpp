#include "text/chat_template.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "error.h"
#include "text/jinja.h"

namespace specbound {

namespace {

using jinja::Text;
using Role = ChatMessage::Role;
using Messages = std::vector<ChatMessage>;

// Bytes of the bracketed stretch that `text` begins with: <...>, [...] or ]...[ is how templates
// spell control tokens. 0 if there is none.
size_t bracketed(std::string_view text) {
  constexpr size_t kLongest = 40;
  if (text.empty() || std::string_view("<[]").find(text[0]) == text.npos) return 0;
  const size_t close = text.substr(0, kLongest).find_first_of(text[0] == '<' ? ">" : "[]", 1);
  return close == text.npos ? 0 : close + 1;
}

// The id of the token whose text this is; -1 if there is none.
int32_t token_of(const Tokenizer& tokenizer, const std::string& text) {
  try {
    const std::vector<int32_t> ids =
        tokenizer.encode(text, {.add_special = false, .parse_special = true});
    return ids.size() == 1 && tokenizer.piece(ids[0], true) == text ? ids[0] : -1;
  } catch (const Error&) {  // not even its bytes are tokens
    return -1;
  }
}

// A rendered conversation into ids. Text between two control tokens of the template, its own and
// the messages', is encoded as a whole: so the training text was. From this follows that the ids
// of a conversation with a finished turn begin those of every longer one, where the template
// renders old turns as it did when they were new. The ids the model generated need not be those
// of the reply's text: a caller that wants to go on from them keeps them.
class TextEncoder {
 public:
  // `marks`: the template's bracketed stretches.
  TextEncoder(const Tokenizer& tokenizer, const std::set<std::string>& marks)
      : tokenizer_(tokenizer) {
    for (const int32_t id : {tokenizer.bos(), tokenizer.eos()}) {
      if (id < 0) continue;
      const std::string piece = tokenizer.piece(id, true);
      specials_.emplace(piece, id);
      if (tokenizer.is_control(id) && !piece.empty() && bracketed(piece) != piece.size()) {
        bare_.emplace_back(piece, id);
      }
    }
    for (const std::string& mark : marks) {
      const int32_t id = token_of(tokenizer, mark);
      if (id >= 0 && !tokenizer.is_control(id)) loose_.push_back(mark);
    }
  }

  std::vector<int32_t> run(const Text& text) {
    for (const Text::Part& part : text.parts()) part.input ? input(part.bytes) : own(part.bytes);
    flush();
    // Some templates leave BOS to the vocabulary's add_bos_token (llama.cpp reads them so too).
    const int32_t bos = tokenizer_.bos();
    if (tokenizer_.add_bos() && (ids_.empty() || ids_[0] != bos)) ids_.insert(ids_.begin(), bos);
    return std::move(ids_);
  }

 private:
  void own(std::string_view text) {
    while (!text.empty()) {
      if (const size_t size = bracketed(text)) {
        const int32_t id = control(std::string(text.substr(0, size)));
        if (id >= 0) {
          flush();
          ids_.push_back(id);
          text.remove_prefix(size);
          continue;
        }
      }
      size_t size = std::min(text.find_first_of("<[]", 1), text.size());
      const auto here = std::find_if(bare_.begin(), bare_.end(), [&](const auto& special) {
        return text.starts_with(special.first);
      });
      if (here != bare_.end()) {
        flush();
        ids_.push_back(here->second);
        text.remove_prefix(here->first.size());
        continue;
      }
      for (const auto& special : bare_) size = std::min(size, text.find(special.first, 1));
      stretch_ += text.substr(0, size);
      text.remove_prefix(size);
    }
  }

  int32_t control(const std::string& text) {
    const auto [found, is_new] = specials_.try_emplace(text, -1);
    if (is_new) {
      const int32_t id = token_of(tokenizer_, text);
      if (id >= 0 && tokenizer_.is_control(id)) found->second = id;
    }
    return found->second;
  }

  // A message's text. Tokenizers leave control tokens in it alone, but not user-defined tokens, and
  // some files have a template's tokens among those: they are cut apart behind their first byte.
  void input(std::string_view text) {
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
  std::vector<std::pair<std::string, int32_t>> bare_;  // BOS and EOS, spelled without brackets
  std::vector<std::string> loose_;  // of the template's marks, those that text could give
  std::unordered_map<std::string, int32_t> specials_;
  std::string stretch_;
  std::vector<int32_t> ids_;
};

std::optional<size_t> input_begin(const Text& text) {
  size_t at = 0;
  for (const Text::Part& part : text.parts()) {
    if (part.input) return at;
    at += part.bytes.size();
  }
  return std::nullopt;
}

// How system prompts are written where a template has no place for them: inside of the next user's
// turn, in front of its content, or in front of what the turn begins with.
struct SystemFold {
  std::string_view turn, end;  // a user's turn begins with `turn`, its content is followed by `end`
  std::string_view before, after;
};
constexpr SystemFold kFolds[] = {
    {"USER: ", "", "", " "},
    {"<|user|>\n", "<|end|>\n", "<|system|>\n", "<|end|>\n"},
    {"", "", "", "\n\n"},
};

// Why a template cannot be used.
struct Unusable {
  std::string why;
};
constexpr int kMostFolds = 64;
constexpr const char* kFails = "fails on a plain conversation, or asks for what is not built in";

class JinjaTemplate final : public ChatTemplate {
 public:
  // Throws Unusable where not even plain conversations come out.
  JinjaTemplate(std::string name, std::string_view source, std::string bos, std::string eos)
      : name_(std::move(name)),
        template_(parse(source)),
        bos_(std::move(bos)),
        eos_(std::move(eos)) {
    learn();
  }

  const char* name() const override { return name_.c_str(); }

  std::vector<int32_t> encode(const Tokenizer& tokenizer,
                              std::span<const ChatMessage> messages) const override {
    const auto special = [&](int32_t id) { return id < 0 ? "" : tokenizer.piece(id, true); };
    const Text text = written(messages, special(tokenizer.bos()), special(tokenizer.eos()));
    return TextEncoder(tokenizer, marks_).run(text);
  }

  std::string render(std::span<const ChatMessage> messages) const override {
    return written(messages, bos_, eos_).bytes();
  }

  std::string reply_text(std::string_view generated) const override {
    if (generated.starts_with(lead_)) generated.remove_prefix(lead_.size());
    return std::string(generated);
  }

  // The bracketed stretches of the template's own text around a few messages.
  const std::set<std::string>& marks() const { return marks_; }
  void note(std::string line) { notes_.push_back(std::move(line)); }

 private:
  static jinja::Template parse(std::string_view source) {
    try {
      return jinja::Template(source);
    } catch (const jinja::NotUnderstood&) {
      throw Unusable{"is no Jinja that is understood here"};
    }
  }

  static jinja::Inputs inputs(std::span<const ChatMessage> messages, std::string bos,
                              std::string eos) {
    constexpr const char* kRoles[] = {"system", "user", "assistant"};
    jinja::Inputs out;
    for (const ChatMessage& message : messages) {
      out.messages.emplace_back(kRoles[static_cast<int>(message.role)], message.content);
    }
    out.bos_token = std::move(bos);
    out.eos_token = std::move(eos);
    out.add_generation_prompt = !messages.empty() && messages.back().role == Role::kUser;
    return out;
  }

  // Nothing where the template refuses the conversation.
  std::optional<Text> run(const jinja::Inputs& inputs) const {
    try {
      return template_.render(inputs);
    } catch (const jinja::Refused&) {
      return std::nullopt;
    } catch (const jinja::NotUnderstood&) {
      if (inputs.messages.empty()) return Text();
      throw Error(ErrorCode::kUnsupported,
                  format("chat template %s: it cannot render this conversation: it fails on it, or "
                         "asks for what is not built in; chat_template=NAME chooses another",
                         name_.c_str()));
    }
  }

  // Templates refuse roles that do not alternate, and the like: that is rendered without the check.
  Text run_unchecked(jinja::Inputs inputs) const {
    inputs.heeds_refusals = false;
    return run(inputs).value_or(Text());
  }

  Text written(std::span<const ChatMessage> messages, const std::string& bos,
               const std::string& eos) const {
    if (takes_system_) {
      if (auto text = run(inputs(messages, bos, eos))) return *std::move(text);
    }
    // System prompts that have no place in the template go into the user's messages behind them.
    const bool leads = takes_system_ && messages.size() > 1 && messages[1].role == Role::kUser;
    Messages rest;
    std::vector<std::pair<std::string_view, size_t>> folded;  // what, and behind how many messages
    for (const ChatMessage& message : messages) {
      if (message.role != Role::kSystem || (leads && &message == messages.data())) {
        rest.push_back(message);
      } else {
        folded.emplace_back(message.content, rest.size());
      }
    }
    const jinja::Inputs in = inputs(rest, bos, eos);
    const auto checked = run(in);
    Text text = checked ? *checked : run_unchecked(in);
    // The last first: what is in front keeps its place. Each place costs a rendering.
    int places = 0;
    for (size_t end = folded.size(); end > 0;) {
      size_t begin = end - 1;
      while (begin > 0 && folded[begin - 1].second == folded[begin].second) --begin;
      if (++places > kMostFolds) {
        throw Error(ErrorCode::kUnsupported,
                    format("chat template %s: expected system prompts at %d places at most, found "
                           "more",
                           name_.c_str(), kMostFolds));
      }
      if (const auto at = fold_place(in, folded[begin].second)) {
        const std::string_view all = text.bytes();
        Text longer = text.part(all.substr(0, *at));
        for (size_t i = begin; i < end; ++i) {
          longer += fold_->before;
          longer += Text(std::string(folded[i].first), true);
          longer += fold_->after;
        }
        longer += text.part(all.substr(std::min(*at, all.size())));
        text = std::move(longer);
      }
      end = begin;
    }
    return text;
  }

  // Where a system prompt goes that stood behind `n` messages; the end if no user's follows.
  std::optional<size_t> fold_place(jinja::Inputs inputs, size_t n) const {
    while (n < inputs.messages.size() && inputs.messages[n].first != "user") ++n;
    if (n == inputs.messages.size()) {
      return fold_->turn.empty() ? std::nullopt : std::optional(std::string::npos);
    }
    inputs.messages[n].second = "x";  // the message itself may be empty
    inputs.marked = n;
    const Text text = run_unchecked(std::move(inputs));
    const auto at = input_begin(text);
    if (!at) return std::nullopt;
    const std::string_view before = std::string_view(text.bytes()).substr(0, *at);
    return before.ends_with(fold_->turn) ? *at - fold_->turn.size() : *at;
  }

  // ---- what the template does, learnt from a few conversations ----

  Text probe(const Messages& messages, jinja::Budget& budget, std::optional<size_t> marked = {},
             const char* first_role = nullptr) const {
    jinja::Inputs in = inputs(messages, bos_, eos_);
    in.marked = marked;
    if (first_role) in.messages[0].first = first_role;
    try {
      return template_.render(in, budget);
    } catch (const jinja::Refused& refused) {
      throw Unusable{
          format("refuses a plain conversation (\"%s\")", printable(refused.reason).c_str())};
    } catch (const jinja::NotUnderstood&) {
      throw Unusable{kFails};
    }
  }

  void learn() {
    jinja::Budget budget;
    const Messages first = {{Role::kUser, "USER"}};
    const Messages second = {
        {Role::kUser, "USER"}, {Role::kAssistant, "REPLY"}, {Role::kUser, "ON"}};
    const Text asked = probe(first, budget);
    const auto user = input_begin(asked);
    const Text again = probe(second, budget, 1);
    const auto reply = input_begin(again);
    if (!user || !reply) throw Unusable{"leaves messages out"};
    find_lead(asked.bytes(), again.bytes(), *reply);
    const std::string_view before = std::string_view(asked.bytes()).substr(0, *user);
    const std::string_view behind =
        std::string_view(asked.bytes()).substr(std::min(*user + 4, asked.size()));
    takes_system_ = takes_system(asked, budget);
    fold_ = std::find_if(std::begin(kFolds), std::end(kFolds), [&](const SystemFold& fold) {
      return before.ends_with(fold.turn) && behind.starts_with(fold.end);
    });
    Messages all = second;
    all.insert(all.begin(), {Role::kSystem, "SYSTEM"});
    try {
      find_marks(written(all, bos_, eos_));
    } catch (const Error&) {
      throw Unusable{kFails};
    }
  }

  void find_marks(const Text& text) {
    for (const Text::Part& part : text.parts()) {
      for (size_t at = 0; !part.input && at < part.bytes.size(); ++at) {
        if (part.bytes[at] == ']') continue;
        if (const size_t size = bracketed(part.bytes.substr(at))) {
          marks_.emplace(part.bytes.substr(at, size));
        }
      }
    }
    for (const char* of_replies : {"<think>", "</think>"}) marks_.erase(of_replies);
  }

  // What stands between the prompt for a reply and the reply: the model writes it.
  void find_lead(std::string_view asked, std::string_view again, size_t reply) {
    if (!again.starts_with(asked) || asked.size() > reply) return;
    lead_ = again.substr(asked.size(), reply - asked.size());
    if (lead_.find_first_not_of(" \t\n") != lead_.npos) lead_.clear();
    // As first published, Mistral's template leaves out the space that the models write.
    if (lead_.empty() && asked.ends_with(" [/INST]")) lead_ = " ";
  }

  // False where a system prompt is refused, left out, or taken for a message of another role.
  bool takes_system(const Text& without, jinja::Budget& budget) const {
    const Messages with = {{Role::kSystem, "SYSTEM"}, {Role::kUser, "USER"}};
    const auto render = [&](const char* role) -> std::optional<Text> {
      try {
        return probe(with, budget, 0, role);
      } catch (const Unusable&) {
        return std::nullopt;
      }
    };
    const auto system = render("system");
    if (!system || !system->has_input() || system->bytes() == without.bytes()) return false;
    for (const char* other : {"user", "assistant"}) {
      if (const auto as_other = render(other); as_other && as_other->bytes() == system->bytes()) {
        return false;
      }
    }
    return true;
  }

  std::string name_;
  jinja::Template template_;
  std::string bos_, eos_;
  std::string lead_;
  bool takes_system_ = true;
  const SystemFold* fold_ = nullptr;
  std::set<std::string> marks_;
};

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
  for (const BuiltinTemplate& builtin : builtin_templates()) names.push_back(builtin.name);
  return names;
}

std::unique_ptr<ChatTemplate> ChatTemplate::from_gguf(const Gguf& gguf, std::string_view name) {
  const TokenTexts tokens(gguf);
  const std::string bos = tokens.special("tokenizer.ggml.bos_token_id", "<s>");
  const std::string eos = tokens.special("tokenizer.ggml.eos_token_id", "</s>");
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
      out = std::make_unique<JinjaTemplate>("tokenizer.chat_template", *source, bos, eos);
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
      out = std::make_unique<JinjaTemplate>(builtin->name, builtin->jinja, bos, eos);
    } catch (const Unusable& unusable) {  // for the texts of BOS and EOS, which are the file's
      throw Error(ErrorCode::kUnsupported, format("%s: chat template %s %s", gguf.path().c_str(),
                                                  builtin->name.c_str(), unusable.why.c_str()));
    }
  }
  if (!note.empty()) out->note(std::move(note));

  // Of a file's own template, the tokens of the family it is of.
  const auto writes = [&](const std::string& control) {
    return control[0] == '<' && out->marks().contains(control);
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
  if (!missing.empty()) {
    out->note(format("chat template %s: %s %s in this vocabulary: written as plain text",
                     out->name(), joined(missing).c_str(),
                     missing.size() == 1 ? "is no token" : "are no tokens"));
  }
  return out;
}

}  // namespace specbound
