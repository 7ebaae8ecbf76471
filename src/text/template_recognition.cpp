#include "text/template_recognition.h"

#include <initializer_list>
#include <vector>

#include "text/jinja.h"

namespace specbound {

namespace {

using Role = ChatMessage::Role;
using Messages = std::vector<ChatMessage>;

constexpr size_t kMaxLearnt = size_t{16} << 10;  // bytes of text in front of the messages
constexpr size_t kMaxTail = 256;                 // of what stands behind the last message

Messages conversation(std::initializer_list<std::string> contents, Role first = Role::kUser) {
  Messages out;
  for (const std::string& content : contents) {
    const bool user = out.empty() ? first == Role::kUser : out.back().role != Role::kUser;
    out.push_back({out.empty() ? first : user ? Role::kUser : Role::kAssistant, content});
  }
  return out;
}

Messages with_system(std::initializer_list<std::string> contents) {
  return conversation(contents, Role::kSystem);
}

const Messages kPlain = conversation({"USER"});
const Messages kWithSystem = with_system({"SYSTEM", "USER"});
const Messages kEmptySystem = with_system({"", "USER"});
const Messages kFinished = conversation({"USER", "REPLY"});

// Several turns, with and without a system prompt, finished or not; white space at the ends of
// messages, empty ones, text that looks like somebody's control tokens; thoughts; SmolLM3's
// switches.
const std::vector<Messages>& probes() {
  static const std::vector<Messages> all = {
      kPlain,
      kWithSystem,
      kFinished,
      conversation({"Hello there.", "Hi, what is it?", "Find me a film."}),
      with_system({"Answer briefly.", "a", "b", "c", "d", "e"}),
      with_system({"Answer briefly.", "a", "b", "c", "d"}),
      conversation({" \n one\n\n two \t\n", "\n\n three \n", "\u00a0four\u3000"}),
      with_system({" \n spaced \n", "x"}),
      with_system({"Answer briefly.", " \n"}),
      with_system({"Answer briefly.", "\n x \n", " y ", " z "}),
      conversation({"", "", ""}),
      conversation({"<|im_start|>system\n{{ bos_token }} </s>[INST] <<SYS>> 'q' \"d\" \\n",
                    "<|im_end|><eos>{% if x %}<|eot_id|>", "USER: x ASSISTANT: <｜User｜>[/INST]"}),
      conversation({"x", "<think>\nlong\n thoughts\n\n</think>\n\n\nanswer ", "y"}),
      conversation({"x", "<think>\n\n</think>\n\nanswer", "y", "\n<think>\n a \n</think>\n\n b\n"}),
      conversation({"x", "one</think>two</think>\nthree", "y"}),
      conversation({"x", "one", "y", "\n\nno thoughts"}),
      with_system({"/no_think Be brief. ", "x", "y", "z"}),
      with_system({"Be brief. /think", "x", "\ny", "z", "w"}),
      with_system({"/no_think", "x"}),
  };
  return all;
}

bool has_system(const Messages& messages) {
  return messages[0].role == Role::kSystem;
}

bool is_finished(const Messages& messages) {
  return messages.back().role == Role::kAssistant;
}

class Recognizer {
 public:
  // Throws NotUnderstood, for a template that fails on a probe too.
  Recognizer(std::string_view source, std::string_view bos, std::string_view eos)
      : template_(source), bos_(bos), eos_(eos) {
    for (const Messages& messages : probes()) wanted_.push_back(render(messages));
    plain_ = render(kPlain);
    system_ = render(kWithSystem);
    // Dropped, or taken for a message of any other role: the template knows no system prompts.
    if (system_ == plain_ || system_ == render(kWithSystem, "stranger")) system_.reset();
    empty_system_ = render(kEmptySystem);
    finished_ = render(kFinished);
  }

  std::optional<TemplateLayout> run() const {
    if (!plain_) return std::nullopt;
    for (const TemplateLayout& layout : template_layouts()) {
      if (fits(layout)) return layout;
    }
    for (const TemplateLayout& layout : template_layouts()) {
      const auto adapted = adapt(layout);
      if (adapted && fits(*adapted)) return adapted;
    }
    return std::nullopt;
  }

 private:
  // Nullopt if the template refuses the conversation.
  std::optional<std::string> render(const Messages& messages, const char* system = "system") {
    jinja::Inputs inputs;
    for (const ChatMessage& message : messages) {
      const char* role = message.role == Role::kSystem ? system
                         : message.role == Role::kUser ? "user"
                                                       : "assistant";
      inputs.messages.emplace_back(role, message.content);
    }
    inputs.bos_token = bos_;
    inputs.eos_token = eos_;
    inputs.add_generation_prompt = !is_finished(messages);
    try {
      return template_.render(inputs);
    } catch (const jinja::Refused&) {
      return std::nullopt;
    }
  }

  std::string own(const TemplateLayout& layout, const Messages& messages) const {
    return render_text(layout, messages, bos_, eos_);
  }

  bool fits(const TemplateLayout& layout) const {
    size_t n_accepted = 0;
    for (size_t i = 0; i < wanted_.size(); ++i) {
      const Messages& messages = probes()[i];
      if (!wanted_[i] || (has_system(messages) && !system_)) continue;
      ++n_accepted;
      const std::string text = own(layout, messages);
      // Some templates ask for a reply even behind one.
      if (text != *wanted_[i] && (!is_finished(messages) || text + layout.prompt != *wanted_[i])) {
        return false;
      }
    }
    return n_accepted > 2 &&
           (!system_ || !empty_system_ || own(layout, kEmptySystem) == *empty_system_);
  }

  // `layout` with what may differ as the template has it; fits() tells whether that is all.
  std::optional<TemplateLayout> adapt(TemplateLayout layout) const {
    if (layout.thinking_switch) return std::nullopt;  // its default is part of the switch
    layout.begin = layout.prompt = layout.end = "";
    layout.default_system.reset();
    const std::string& known = system_ ? *system_ : *plain_;
    const std::string body = own(layout, system_ ? kWithSystem : kPlain);
    const size_t at = known.find(body);
    if (at == known.npos || known.size() - at - body.size() > kMaxTail) return std::nullopt;
    const std::string_view head = std::string_view(known).substr(0, at);
    if (head.size() > kMaxLearnt) return std::nullopt;
    const bool with_bos = !bos_.empty() && head.starts_with(bos_);
    layout.begin = (with_bos ? "{bos}" : "") + std::string(head.substr(with_bos ? bos_.size() : 0));
    layout.prompt = known.substr(at + body.size());
    if (own(layout, kPlain) != *plain_ && !find_default(layout)) return std::nullopt;
    layout.skips_empty_system = system_ && empty_system_ == plain_;
    if (finished_) {
      const std::string text = own(layout, kFinished);
      if (!finished_->starts_with(text)) return std::nullopt;
      const std::string tail = finished_->substr(text.size());
      if (tail == eos_) {
        layout.end = "{eos}";
      } else if (tail != layout.prompt) {
        layout.end = tail;
      }
    }
    return layout;
  }

  // The system prompt that stands in a conversation which has none.
  bool find_default(TemplateLayout& layout) const {
    constexpr char kMark = '\x01';
    const std::string marked =
        own(layout, {{Role::kSystem, std::string(1, kMark)}, {Role::kUser, kPlain[0].content}});
    const size_t mark = marked.find(kMark);
    const std::string_view before = std::string_view(marked).substr(0, mark);
    const std::string_view behind = std::string_view(marked).substr(mark + 1);
    if (plain_->size() < before.size() + behind.size() || !plain_->starts_with(before) ||
        !plain_->ends_with(behind)) {
      return false;
    }
    const size_t size = plain_->size() - before.size() - behind.size();
    if (size > kMaxLearnt) return false;
    layout.default_system = plain_->substr(before.size(), size);
    return true;
  }

  jinja::Template template_;
  std::string bos_, eos_;
  std::vector<std::optional<std::string>> wanted_;  // for each probe
  std::optional<std::string> plain_, system_, empty_system_, finished_;
};

}  // namespace

std::optional<TemplateLayout> recognize_template(std::string_view source, std::string_view bos,
                                                 std::string_view eos) {
  try {
    return Recognizer(source, bos, eos).run();
  } catch (const jinja::NotUnderstood&) {
    return std::nullopt;
  }
}

}  // namespace specbound
