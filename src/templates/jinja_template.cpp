#include "templates/jinja_template.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "error.h"
#include "jinja/jinja.h"
#include "templates/template_encoder.h"

namespace specbound {

namespace {

using jinja::Text;
using Role = ChatMessage::Role;
using Messages = std::vector<ChatMessage>;

std::optional<size_t> input_begin(const Text& text) {
  size_t at = 0;
  for (const Text::Part& part : text.parts()) {
    if (part.input) return at;
    at += part.bytes.size();
  }
  return std::nullopt;
}

// The end of the last input; 0 if there is none.
size_t input_end(const Text& text) {
  size_t at = 0, end = 0;
  for (const Text::Part& part : text.parts()) {
    at += part.bytes.size();
    if (part.input) end = at;
  }
  return end;
}

// [TOOL_CALLS]: capitals in brackets.
bool is_word(std::string_view mark) {
  return mark.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_/", 1) == mark.size() - 1 &&
         mark.size() > 4;
}

const std::string& role_of(const ChatValue::Dict& message) {
  return *message[0].second.text();  // as dict() made it
}

// A tool that is called, for probing. Mistral's templates want ids of nine characters.
ChatValue::List probe_tools() {
  const ChatValue::Dict argument = {{"type", "string"}, {"description", "text"}};
  ChatValue::Dict parameters = {{"type", "object"},
                                {"properties", ChatValue::Dict{{"ARG", argument}}},
                                {"required", ChatValue::List{"ARG"}}};
  ChatValue::Dict function = {
      {"name", "TOOL"}, {"description", "DOES"}, {"parameters", std::move(parameters)}};
  ChatValue::List tools;
  tools.push_back(ChatValue::Dict{{"type", "function"}, {"function", std::move(function)}});
  return tools;
}
Messages probe_calls() {
  Messages all = {{Role::kUser, "USER"}, {Role::kAssistant, ""}, {Role::kTool, "RESULT"}};
  all[1].calls = {{.id = "123456789",
                   .name = "TOOL",
                   .arguments = R"({"ARG": "VALUE"})",
                   .values = ChatValue::Dict{{"ARG", "VALUE"}}}};
  all[2].call_id = "123456789";
  all[2].name = "TOOL";
  return all;
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

constexpr int kMostFolds = 64;
constexpr const char* kFails = "fails on a plain conversation, or asks for what is not built in";

class Rendered final : public JinjaTemplate {
 public:
  // Throws Unusable where not even plain conversations come out.
  Rendered(std::string name, std::string_view source, std::string bos, std::string eos)
      : name_(std::move(name)),
        template_(parse(source)),
        tokens_{std::move(bos), std::move(eos)},
        knows_developers_(source.find("developer") != source.npos) {
    format_ = find_reply_format(source);
    for (const std::string_view mark : format_.think_marks()) marks_.emplace(mark);
    try {
      learn();
    } catch (const Unusable&) {
      // Those for conversations with tools alone go through them unasked, and fail on none: with
      // transformers too, which has others beside them.
      says_none_ = false;
      learn();
    }
    learn_more();
  }

  const char* name() const override { return name_.c_str(); }

  ChatPrompt prompt(const Tokenizer& tokenizer, const ChatInput& input) const override {
    const auto special = [&](int32_t id) { return id < 0 ? "" : tokenizer.piece(id, true); };
    Tokens tokens{special(tokenizer.bos()), special(tokenizer.eos())};
    for (const std::string_view view : format_.think_marks()) {
      const std::string mark(view);
      const int32_t id = token_of(tokenizer, mark);
      if (id >= 0 && !tokenizer.is_control(id)) tokens.of_replies.push_back(mark);
    }
    const Text text = written(input, tokens);
    return {encode_rendered(tokenizer, marks_, text), ends_thinking(input, text)};
  }

  std::string text(const ChatInput& input) const override {
    return written(input, tokens_).bytes();
  }

  std::string reply_text(std::string_view generated) const override {
    if (generated.starts_with(lead_)) generated.remove_prefix(lead_.size());
    return std::string(generated);
  }

  const std::set<std::string>& marks() const override { return marks_; }

 private:
  // How a vocabulary writes BOS, EOS, and the marks of thoughts where replies may have them.
  struct Tokens {
    std::string bos, eos;
    std::vector<std::string> of_replies = {};
  };

  static jinja::Template parse(std::string_view source) {
    try {
      return jinja::Template(source);
    } catch (const jinja::NotUnderstood&) {
      throw Unusable{"is no Jinja that is understood here"};
    }
  }

  const char* role_name(Role role) const {
    switch (role) {
      case Role::kUser:
        return "user";
      case Role::kAssistant:
        return "assistant";
      case Role::kTool:
        return "tool";
      case Role::kDeveloper:
        return knows_developers_ ? "developer" : "system";
      default:
        return "system";
    }
  }

  bool is_system(const ChatMessage& message) const {
    return std::string_view(role_name(message.role)) == "system";
  }

  // Templates of channels have another name for it, and beside calls take that or the content,
  // either of which they write as analysis.
  void add_reasoning(const ChatMessage& message, ChatValue::Dict& out) const {
    out.emplace_back("reasoning_content", message.reasoning);
    if (format_.syntax != CallSyntax::kHarmony) return;
    const bool both = !message.calls.empty() && !message.content.empty();
    out.emplace_back("thinking", message.reasoning + (both ? "\n\n" + message.content : ""));
    if (both) out[1].second = "";
  }

  // The role comes first, then the content.
  ChatValue::Dict dict(const ChatMessage& message) const {
    ChatValue::Dict out = {{"role", role_name(message.role)}, {"content", message.content}};
    if (!message.reasoning.empty()) add_reasoning(message, out);
    ChatValue::List calls;
    for (const ToolCall& call : message.calls) {
      const bool as_text = arguments_as_text_ || call.values.is_null();
      ChatValue::Dict function = {{"name", call.name},
                                  {"arguments", as_text ? ChatValue(call.arguments) : call.values}};
      calls.push_back(ChatValue::Dict{
          {"id", call.id}, {"type", "function"}, {"function", std::move(function)}});
    }
    if (!calls.empty()) out.emplace_back("tool_calls", std::move(calls));
    if (!message.call_id.empty()) out.emplace_back("tool_call_id", message.call_id);
    if (!message.name.empty()) out.emplace_back("name", message.name);
    return out;
  }

  jinja::Inputs inputs(const ChatInput& in, const Tokens& tokens) const {
    jinja::Inputs out;
    for (const ChatMessage& message : in.messages) out.messages.push_back(dict(message));
    out.variables = in.variables;
    if (!in.tools.empty()) out.variables.emplace_back("tools", in.tools);
    // As transformers has them where there are none; what is undefined is no none.
    for (const char* name : {"tools", "documents"}) {
      const auto is_named = [name](const auto& variable) { return variable.first == name; };
      if (!says_none_ || std::ranges::any_of(out.variables, is_named)) continue;
      out.variables.emplace_back(name, ChatValue());
    }
    out.bos_token = tokens.bos;
    out.eos_token = tokens.eos;
    out.reply_marks = tokens.of_replies;
    const bool asked = !in.messages.empty() && in.messages.back().role == Role::kUser;
    out.add_generation_prompt = !in.continues && in.asks.value_or(asked);
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

  void check_tools(const ChatInput& in) const {
    const bool called =
        std::any_of(in.messages.begin(), in.messages.end(),
                    [](const ChatMessage& m) { return m.role == Role::kTool || !m.calls.empty(); });
    const bool no_tools = !in.tools.empty() && !takes_tools_, no_calls = called && !takes_calls_;
    if (!no_tools && !no_calls) return;
    throw Error(ErrorCode::kUnsupported,
                format("chat template %s: it has no place for %s: the model has not learnt them",
                       name_.c_str(),
                       no_tools ? no_calls ? "tools and their calls" : "tools" : "calls of tools"));
  }

  // What comes behind the text are thoughts.
  bool ends_thinking(const ChatInput& in, const Text& text) const {
    const std::string_view open = format_.think_open, close = format_.think_close;
    if (open.empty() || text.empty()) return false;
    if (jinja::strip(std::string_view(text.bytes()), jinja::Side::kRight).ends_with(open)) {
      return !text.parts().back().input || in.continues;
    }
    if (!in.continues) return false;
    const std::string_view begun = in.messages.back().content;
    const size_t at = begun.rfind(open);
    return at != begun.npos && begun.find(close, at) == begun.npos;
  }

  Text written(const ChatInput& in, const Tokens& tokens) const {
    check_tools(in);
    if (in.continues && !is_begun(in.messages.back())) {  // nothing is begun
      ChatInput before = in;
      before.messages = in.messages.first(in.messages.size() - 1);
      before.continues = false;
      before.asks = true;
      return written(before, tokens);
    }
    if (takes_system_) {
      jinja::Inputs all = inputs(in, tokens);
      if (auto text = run(all)) {
        const size_t size = text->size();
        return in.continues ? without_end(*std::move(text), size, std::move(all))
                            : *std::move(text);
      }
    }
    // System prompts that have no place in the template go into the user's messages behind them.
    const std::span<const ChatMessage> messages = in.messages;
    const bool leads = takes_system_ && messages.size() > 1 && messages[1].role == Role::kUser;
    Messages rest;
    std::vector<std::pair<std::string_view, size_t>> folded;  // what, and behind how many messages
    for (const ChatMessage& message : messages) {
      if (!is_system(message) || (leads && &message == messages.data())) {
        rest.push_back(message);
      } else {
        folded.emplace_back(message.content, rest.size());
      }
    }
    ChatInput others = in;
    others.messages = rest;
    const jinja::Inputs inputs = this->inputs(others, tokens);
    const auto checked = run(inputs);
    Text text = checked ? *checked : run_unchecked(inputs);
    const size_t size = text.size();
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
      if (const auto at = fold_place(inputs, folded[begin].second)) {
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
    return in.continues ? without_end(std::move(text), size, inputs) : text;
  }

  // `text` up to where the content of the last message ends. `inputs` were rendered as `size`
  // bytes, with the same behind it.
  Text without_end(Text text, size_t size, jinja::Inputs inputs) const {
    inputs.marked = inputs.messages.size() - 1;
    const size_t end = input_end(run_unchecked(std::move(inputs)));
    if (end == 0) {
      throw Error(
          ErrorCode::kUnsupported,
          format("chat template %s: it leaves out the reply that is to go on", name_.c_str()));
    }
    return text.part(std::string_view(text.bytes()).substr(0, text.size() - (size - end)));
  }

  // Where a system prompt goes that stood behind `n` messages: into the next of the user's, or the
  // one before where none follows.
  std::optional<size_t> fold_place(jinja::Inputs inputs, size_t n) const {
    const auto is_users = [](const auto& message) { return role_of(message) == "user"; };
    const auto begin = inputs.messages.begin(), end = inputs.messages.end();
    auto user = std::find_if(begin + static_cast<ptrdiff_t>(n), end, is_users);
    if (user == end) {
      while (user != begin && !is_users(*(user - 1))) --user;
      if (user == begin) {
        throw Error(ErrorCode::kUnsupported,
                    format("chat template %s: expected a message of the user's that a system "
                           "prompt can stand in, found none",
                           name_.c_str()));
      }
      --user;
    }
    n = static_cast<size_t>(user - begin);
    inputs.messages[n][1].second = "x";  // the message itself may be empty
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
    jinja::Inputs in = inputs({.messages = messages}, tokens_);
    in.marked = marked;
    if (first_role) in.messages[0][0].second = first_role;
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
      find_marks(written({.messages = all}, tokens_), true);
    } catch (const Error&) {
      throw Unusable{kFails};
    }
  }

  // ---- what it does beyond plain conversations ----

  void learn_more() {
    jinja::Budget budget;
    const Messages all = {{Role::kUser, "USER"}};
    const Messages developer = {{Role::kDeveloper, "DEVELOPER"}, {Role::kUser, "USER"}};
    if (knows_developers_) {
      const auto text = try_out({.messages = developer, .asks = true}, budget);
      knows_developers_ = text && shows(*text, "DEVELOPER");
    }
    const ChatInput offered{.messages = all, .tools = probe_tools(), .asks = true};
    const auto tools = try_out(offered, budget);
    takes_tools_ = tools && shows(*tools, "TOOL") && shows(*tools, "DOES");
    if (takes_tools_) find_marks(*tools, false);
    const Messages called = probe_calls();
    ChatInput calls{.messages = called,
                    .tools = takes_tools_ ? offered.tools : ChatValue::List(),
                    .asks = true};
    for (const bool as_text : {false, true}) {
      arguments_as_text_ = as_text;
      const auto text = try_out(calls, budget);
      // Neither as Python writes a dict, nor as a string in a string.
      takes_calls_ = text && shows(*text, "TOOL") && shows(*text, "VALUE") &&
                     shows(*text, "RESULT") && text->bytes().find("{'ARG'") == std::string::npos &&
                     text->bytes().find("\\\"ARG") == std::string::npos;
      if (!takes_calls_) continue;
      find_marks(*text, false);
      return;
    }
  }

  // Nothing where the template fails.
  std::optional<Text> try_out(const ChatInput& in, jinja::Budget& budget) const {
    try {
      return template_.render(inputs(in, tokens_), budget);
    } catch (const jinja::Refused&) {
      return std::nullopt;
    } catch (const jinja::NotUnderstood&) {
      return std::nullopt;
    }
  }

  static bool shows(const Text& text, std::string_view input) {
    const std::vector<Text::Part> parts = text.parts();
    return std::any_of(parts.begin(), parts.end(), [&](const Text::Part& part) {
      return part.input && part.bytes.find(input) != part.bytes.npos;
    });
  }

  // `any`: of brackets with anything in them; else of those alone that are no JSON.
  void find_marks(const Text& text, bool any) {
    for (const Text::Part& part : text.parts()) {
      for (size_t at = 0; !part.input && at < part.bytes.size(); ++at) {
        if (part.bytes[at] == ']') continue;
        const std::string_view mark = part.bytes.substr(at, bracketed(part.bytes.substr(at)));
        if (!mark.empty() && (any || mark[0] == '<' || is_word(mark))) marks_.emplace(mark);
      }
    }
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
  const Tokens tokens_;
  std::string lead_;
  bool says_none_ = true;  // of tools and documents that are not there
  bool knows_developers_;  // until it is known: it speaks of them
  bool takes_system_ = true;
  bool takes_calls_ = true;  // until it is known
  bool arguments_as_text_ = false;
  const SystemFold* fold_ = nullptr;
  std::set<std::string> marks_;
};

}  // namespace

std::unique_ptr<JinjaTemplate> JinjaTemplate::make(std::string name, std::string_view source,
                                                   std::string bos, std::string eos) {
  return std::make_unique<Rendered>(std::move(name), source, std::move(bos), std::move(eos));
}

}  // namespace specbound
