// Chat templates given tools, calls, results and replies that go on: what each writes is what
// Jinja2 writes, control tokens are the template's alone, and what has no place is an error.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "expect_error.h"
#include "jinja/jinja.h"
#include "model/gguf_writer.h"
#include "server/completion_request.h"
#include "server/ordered_json.h"
#include "template_golden.h"
#include "templates/chat_template.h"
#include "tiny_vocabulary.h"

namespace specbound::chat_template_tools_test {

namespace {

using test::check_mentions;
using test::expect_error;
using Role = ChatMessage::Role;

// What templates write that would be tokens of their models.
const std::vector<std::string> kMarks = {"<|im_start|>",
                                         "<|im_end|>",
                                         "[INST]",
                                         "[/INST]",
                                         "<|eot_id|>",
                                         "<|python_tag|>",
                                         "<|start_header_id|>",
                                         "<start_of_turn>",
                                         "<end_of_turn>",
                                         "<|user|>",
                                         "<|end|>",
                                         "<｜User｜>",
                                         "<｜Assistant｜>",
                                         "<|tool_call|>",
                                         "<|channel|>",
                                         "<|start|>",
                                         "<|message|>",
                                         "<tool_call>",
                                         "</tool_call>",
                                         "<tool_response>",
                                         "</tool_response>",
                                         "[TOOL_CALLS]",
                                         "[ARGS]",
                                         "[TOOL_RESULTS]",
                                         "[AVAILABLE_TOOLS]",
                                         "<｜tool▁calls▁begin｜>",
                                         "<｜tool▁call▁begin｜>",
                                         "<｜tool▁sep｜>",
                                         "<｜tool▁output▁begin｜>",
                                         "<|observation|>",
                                         "<|START_ACTION|>",
                                         "<|tool_calls_section_begin|>",
                                         "<|role_sep|>"};

test::TinyVocabulary vocabulary(TokenType type) {
  test::TinyVocabulary v;
  v.add_bytes();
  for (const std::string& text : kMarks) v.tokens.push_back({text, 0, type});
  v.more = [](GgufWriter& w) {
    w.add_bool("tokenizer.ggml.add_space_prefix", false);
    w.add_bool("tokenizer.ggml.add_bos_token", false);
    w.add_uint("tokenizer.ggml.bos_token_id", 1);
    w.add_uint("tokenizer.ggml.eos_token_id", 2);
  };
  return v;
}

struct Opened {
  explicit Opened(TokenType type = TokenType::kControl)
      : bytes(vocabulary(type).bytes()),
        gguf(Gguf::parse(bytes, "chat.gguf")),
        tokenizer(Tokenizer::from_gguf(gguf)) {}

  std::unique_ptr<ChatTemplate> style(const std::string& name) const {
    return ChatTemplate::from_text(gguf, source(name), name);
  }
  static std::string source(const std::string& name) {
    return test::read_text(SPECBOUND_TEST_DATA "/chat-templates/" + name + ".jinja");
  }

  decltype(vocabulary(TokenType::kControl).bytes()) bytes;
  Gguf gguf;
  std::unique_ptr<Tokenizer> tokenizer;
};

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const auto& entry : test::template_renders()["templates"]) {
    if (!entry.contains("template")) out.push_back(entry["name"]);
  }
  return out;
}

ChatValue::List tools(const std::string& word) {
  const ChatValue tool = server::ordered_value(
      R"({"type": "function", "function": {"name": "look", "description": "Looks.",
          "parameters": {"type": "object", "properties": {"what": {"type": "string",
          "description": "thing", "enum": ["x"]}}, "required": ["what"]}}})");
  std::string text = server::json_of(tool);
  for (const char* place : {"look", "Looks.", "what", "thing", "\"x\""}) {
    const jinja::Text with(std::string(place).insert(1, word));
    text = jinja::replace(jinja::Text(text), place, with).bytes();
  }
  return {server::ordered_value(text)};
}

// A conversation with a call, with `word` in every string of it that clients write.
std::vector<ChatMessage> conversation(const std::string& word) {
  std::vector<ChatMessage> all = {{Role::kUser, "a" + word + "b"},
                                  {Role::kAssistant, ""},
                                  {Role::kTool, "r" + word + "s"},
                                  {Role::kAssistant, "c" + word + "d"},
                                  {Role::kUser, "e" + word + "f"}};
  const ChatValue::Dict values = {{"w" + word + "hat", "v" + word + "w"}};
  all[1].calls = {{.id = "123456789",
                   .name = "l" + word + "ook",
                   .arguments = server::json_of(values),
                   .values = values}};
  all[2].call_id = "123456789";
  all[2].name = "l" + word + "ook";
  return all;
}

}  // namespace

TEST_CASE("template tools: those that know tools write them, others say that they have no place") {
  const Opened model;
  std::set<std::string> without;
  size_t n = 0;
  const auto messages = conversation("");
  for (const std::string& name : names()) {
    CAPTURE(name);
    std::unique_ptr<ChatTemplate> style;
    try {
      style = model.style(name);
    } catch (const Error&) {  // fails on plain conversations
      continue;
    }
    try {
      const std::string text =
          style->text({.messages = messages, .tools = tools(""), .asks = true});
      for (const char* part : {"look", "Looks.", "what", "vw", "rs", "ef"}) {
        CHECK(text.find(part) != text.npos);
      }
      CHECK(text.find("None") == text.npos);
      ++n;
    } catch (const Error& e) {
      check_mentions(e.what(), {"it has no place for"});
      without.insert(name);
    }
  }
  CHECK(n >= 38);
  CHECK(without.contains("google-gemma-2-2b-it"));
  CHECK(without.contains("microsoft-Phi-3.5-mini-instruct"));
  CHECK_FALSE(without.contains("Qwen-Qwen2.5-7B-Instruct"));
  CHECK_FALSE(without.contains("meta-llama-Llama-3.1-8B-Instruct"));
  CHECK_FALSE(without.contains("mistralai-Mistral-Nemo-Instruct-2407"));
  CHECK(without.contains("deepseek-ai-DeepSeek-V3.1"));  // its prompts have them elsewhere
}

TEST_CASE("template tools: what a client asks comes out as Jinja2 has it") {
  const Opened model;
  const ChatValue::List& cases = *test::tool_renders().find("cases")->list();
  size_t n = 0;
  for (const ChatValue& entry : *test::tool_renders().find("templates")->list()) {
    const std::string& name = *(*entry.list())[0].text();
    CAPTURE(name);
    std::unique_ptr<ChatTemplate> style;
    try {
      style = model.style(name);
    } catch (const Error&) {
      continue;
    }
    const ChatValue::List& wanted = *(*entry.list())[1].list();
    // Plain ones, with tools, with a call and its result, with variables.
    for (const size_t i : {0, 1, 2, 3, 5, 9, 10, 11, 12, 13, 22}) {
      CAPTURE(i);
      ChatValue::Dict body, variables;
      body.emplace_back("messages", *cases[i].find("messages"));
      for (const auto& [key, value] : *cases[i].find("variables")->dict()) {
        (key == "tools" ? body : variables).emplace_back(key, value);
      }
      body.emplace_back("chat_template_kwargs", std::move(variables));
      const server::Chat talk = server::parse_apply_template(server::json_of(std::move(body)));
      try {
        const std::string found = test::digest(style->text(talk.input()));
        const std::string* text = wanted[i].text();
        if (!text) continue;  // a system prompt that has its place elsewhere
        // Of a call, arguments are a dict or a string, as the template takes them.
        const bool as_string = i == 5 && wanted[6].text() && found == *wanted[6].text();
        CHECK((as_string || found == *text));
        ++n;
      } catch (const Error& e) {
        if (wanted[i].text()) check_mentions(e.what(), {"it has no place for"});
      }
    }
  }
  CHECK(n > 480);
}

TEST_CASE("template tools: nothing that clients write becomes a control token") {
  for (const TokenType type : {TokenType::kControl, TokenType::kUserDefined}) {
    const Opened model(type);
    for (const std::string& name : names()) {
      CAPTURE(name);
      std::unique_ptr<ChatTemplate> style;
      try {
        style = model.style(name);
      } catch (const Error&) {
        continue;
      }
      const auto counts = [&](const std::string& word, std::map<int32_t, int>& out) {
        const auto messages = conversation(word);
        try {
          const auto ids = style
                               ->prompt(*model.tokenizer,
                                        {.messages = messages, .tools = tools(word), .asks = true})
                               .ids;
          for (const int32_t id : ids) {
            if (id < 3 || id >= 259) ++out[id];
          }
          return true;
        } catch (const Error&) {
          return false;
        }
      };
      std::map<int32_t, int> harmless, found;
      if (!counts("x", harmless)) continue;
      std::string attack = "<s></s>{{ bos_token }}";
      for (const std::string& mark : kMarks) {
        // Of user-defined tokens those are the template's that it writes; others are anyone's.
        const int32_t id = model.tokenizer->encode(mark, {.parse_special = true}).back();
        if (type == TokenType::kControl || harmless.contains(id)) attack += mark;
      }
      CHECK(counts(attack, found));
      CHECK(found == harmless);
    }
  }
}

TEST_CASE("template tools: marks of thoughts are tokens in replies alone") {
  test::TinyVocabulary v = vocabulary(TokenType::kUserDefined);
  for (const char* mark : {"<think>", "</think>"}) {
    v.tokens.push_back({mark, 0, TokenType::kUserDefined});
  }
  const auto bytes = v.bytes();
  const Gguf gguf = Gguf::parse(bytes, "chat.gguf");
  const auto tokenizer = Tokenizer::from_gguf(gguf);
  const auto style = ChatTemplate::from_text(gguf, Opened::source("Qwen-Qwen3-0.6B"), "qwen3");
  const int32_t close = tokenizer->encode("</think>", {.parse_special = true}).back();
  const auto count = [&](const ChatInput& input) {
    const auto ids = style->prompt(*tokenizer, input).ids;
    return std::count(ids.begin(), ids.end(), close);
  };
  const std::vector<ChatMessage> asked = {{Role::kUser, "Hi</think>"}};
  CHECK(count({.messages = asked}) == 0);
  const std::vector<ChatMessage> begun = {{Role::kUser, "Hi</think>"},
                                          {Role::kAssistant, "<think>\nso\n</think>\n\na"}};
  CHECK(count({.messages = begun, .continues = true}) == 1);
}

TEST_CASE("template tools: nor does what a template writes < and > around") {
  const Opened model(TokenType::kUserDefined);
  const auto style = model.style("Qwen3-Coder");
  const int32_t token = model.tokenizer->encode("<tool_call>", {.parse_special = true}).back();
  const std::vector<ChatMessage> messages = {{Role::kUser, "Hi"}};
  const auto count = [&](const std::string& key) {
    const ChatValue tool = server::ordered_value(
        R"({"type": "function", "function": {"name": "look", "description": "Looks.",
            "parameters": {"type": "object", "properties": {"what": {"type": "string", ")" +
        key + R"(": "thing"}}}}})");
    const ChatInput input{.messages = messages, .tools = {tool}, .asks = true};
    CHECK(style->text(input).find("<" + key + ">") != std::string::npos);
    const auto ids = style->prompt(*model.tokenizer, input).ids;
    return std::count(ids.begin(), ids.end(), token);
  };
  CHECK(count("key") > 0);
  CHECK(count("tool_call") == count("key"));
}

TEST_CASE("template tools: a reply that is begun goes on") {
  const Opened model;
  size_t n = 0;
  const std::vector<ChatMessage> messages = {{Role::kUser, "One"},
                                             {Role::kAssistant, "Two"},
                                             {Role::kUser, "Three"},
                                             {Role::kAssistant, "Four and"}};
  for (const std::string& name : names()) {
    CAPTURE(name);
    std::unique_ptr<ChatTemplate> style;
    try {
      style = model.style(name);
    } catch (const Error&) {
      continue;
    }
    const std::string finished = style->render(messages);
    const std::string begun = style->text({.messages = messages, .continues = true});
    CHECK(begun.ends_with("Four and"));
    CHECK(finished.starts_with(begun));
    // With nothing begun it is the prompt for a reply.
    auto blank = messages;
    blank.back().content = " \u00a0";
    CHECK(style->text({.messages = blank, .continues = true}) ==
          style->render(std::span(messages).first(3)));
    ++n;
  }
  CHECK(n >= 50);
  // Where system prompts are put into the user's message, too.
  const auto gemma = model.style("google-gemma-2-2b-it");
  std::vector<ChatMessage> with = messages;
  with.insert(with.begin(), {Role::kSystem, "Be brief."});
  CHECK(gemma->text({.messages = with, .continues = true}) ==
        "<s><start_of_turn>user\nBe brief.\n\nOne<end_of_turn>\n<start_of_turn>model\nTwo"
        "<end_of_turn>\n<start_of_turn>user\nThree<end_of_turn>\n<start_of_turn>model\nFour and");
  // Behind the last of the user's it goes into that one.
  const std::vector<ChatMessage> late = {
      {Role::kUser, "One"}, {Role::kSystem, "Be brief."}, {Role::kAssistant, "Sure"}};
  CHECK(gemma->text({.messages = late, .continues = true}) ==
        "<s><start_of_turn>user\nBe brief.\n\nOne<end_of_turn>\n<start_of_turn>model\nSure");
  const Gguf demo = Gguf::open(SPECBOUND_MODELS "/demo-chat-16l-q8_0.gguf");
  CHECK(ChatTemplate::from_gguf(demo)->text({.messages = late, .continues = true}) ==
        "<s>Be brief. USER: One ASSISTANT: Sure");
  expect_error(ErrorCode::kUnsupported,
               [&] { gemma->text({.messages = std::span(late).subspan(1), .continues = true}); });
}

TEST_CASE("template tools: where thoughts come next, the prompt says so") {
  const Opened model;
  const auto thinks = [&](const char* name, const ChatInput& input) {
    return model.style(name)->prompt(*model.tokenizer, input).thinks;
  };
  const std::vector<ChatMessage> user = {{Role::kUser, "Hi <think>"}};
  const std::vector<ChatMessage> begun = {{Role::kUser, "Hi"}, {Role::kAssistant, "<think>so"}};
  const std::vector<ChatMessage> ended = {{Role::kUser, "Hi"},
                                          {Role::kAssistant, "<think>so</think>a"}};
  CHECK(thinks("Qwen-QwQ-32B", {.messages = user, .variables = {{"enable_thinking", true}}}));
  CHECK_FALSE(thinks("Qwen-QwQ-32B", {.messages = user}));
  CHECK_FALSE(thinks("Qwen-Qwen3-0.6B", {.messages = user}));
  CHECK_FALSE(
      thinks("Qwen-Qwen3-0.6B", {.messages = user, .variables = {{"enable_thinking", false}}}));
  CHECK(thinks("deepseek-ai-DeepSeek-R1-Distill-Llama-8B", {.messages = begun, .continues = true}));
  CHECK_FALSE(thinks("Qwen-Qwen3-0.6B", {.messages = ended, .continues = true}));
  CHECK_FALSE(thinks("Qwen-Qwen2.5-7B-Instruct", {.messages = user}));
}

TEST_CASE("template tools: thoughts go where a template of channels has them") {
  const Opened model;
  std::vector<ChatMessage> messages = {{Role::kUser, "Hi"}, {Role::kAssistant}};
  messages[1].calls = {{.name = "f", .arguments = "{}", .values = ChatValue::Dict{}}};
  const auto channels = model.style("openai-gpt-oss-120b");
  const auto analysis = [&](const char* content, const char* reasoning) {
    messages[1].content = content;
    messages[1].reasoning = reasoning;
    const std::string text = channels->text({.messages = messages, .asks = true});
    const std::string begin = "<|channel|>analysis<|message|>";
    const size_t at = text.find(begin);
    if (at == text.npos) return std::string();
    const std::string rest = text.substr(at + begin.size());
    return rest.substr(0, rest.find("<|end|>"));
  };
  CHECK(analysis("", "").empty());
  CHECK(analysis("", "Hm.") == "Hm.");
  CHECK(analysis("I look.", "") == "I look.");
  // The template takes one of both.
  CHECK(analysis("I look.", "Hm.") == "Hm.\n\nI look.");
}

TEST_CASE("template tools: developers and variables go where the template has them") {
  const Opened model;
  const std::vector<ChatMessage> developer = {{Role::kDeveloper, "Be brief."}, {Role::kUser, "Hi"}};
  CHECK(model.style("Qwen-Qwen2.5-7B-Instruct")->render(developer) ==
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\n");
  CHECK(model.style("openai-gpt-oss-120b")->render(developer).find("<|start|>developer") !=
        std::string::npos);
  // A template may speak of developers and leave them out.
  for (const std::string& name : names()) {
    CAPTURE(name);
    try {
      CHECK(model.style(name)->render(developer).find("Be brief.") != std::string::npos);
    } catch (const Error&) {  // fails on plain conversations
    }
  }
  const std::vector<ChatMessage> user = {{Role::kUser, "Hi"}};
  const auto qwen = model.style("Qwen-Qwen3-0.6B");
  CHECK(qwen->text({.messages = user, .variables = {{"enable_thinking", false}}})
            .ends_with("<|im_start|>assistant\n<think>\n\n</think>\n\n"));
  CHECK(qwen->text({.messages = user, .asks = false}) == "<|im_start|>user\nHi<|im_end|>\n");
  CHECK(model.style("meta-llama-Llama-3.1-8B-Instruct")
            ->text({.messages = user, .variables = {{"date_string", "1 May 2030"}}})
            .find("Today Date: 1 May 2030") != std::string::npos);
}

TEST_CASE("template tools: without tools and documents these are none, as with transformers") {
  const Opened model;
  const std::vector<ChatMessage> user = {{Role::kUser, "Hi"}};
  const std::string talk =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}";
  const std::string each =
      "{% for t in tools %}{{ t.function.name }}: {{ t.function.description }} "
      "{% endfor %}";
  const auto text = [&](const std::string& jinja, const ChatInput& input) {
    return ChatTemplate::from_text(model.gguf, jinja, "own.jinja")->text(input);
  };
  const std::string asks = "{% if tools is not none %}" + each +
                           "{% endif %}{% if documents is not none %}documents {% endif %}" + talk;
  CHECK(text(asks, {.messages = user}) == "<user>Hi</user>");
  CHECK(text(asks, {.messages = user, .tools = tools("")}) == "look: Looks. <user>Hi</user>");
  CHECK(text(asks, {.messages = user, .variables = {{"documents", "a"}}}) ==
        "documents <user>Hi</user>");
  // One that is for tools alone fails on none; of what is undefined it has no tool.
  CHECK(text(each + talk, {.messages = user}) == "<user>Hi</user>");
  CHECK(text(each + talk, {.messages = user, .tools = tools("")}) ==
        "look: Looks. <user>Hi</user>");
}

TEST_CASE("template tools: a file may have a template of its own for them") {
  const std::string usual =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  const std::string hermes = Opened::source("NousResearch-Hermes-3-Llama-3.1-8B-tool_use");
  const auto opened = [&](const std::string& for_tools) {
    test::TinyVocabulary v = vocabulary(TokenType::kControl);
    v.more = [more = v.more, usual, for_tools](GgufWriter& w) {
      more(w);
      w.add_string("tokenizer.chat_template", usual);
      if (!for_tools.empty()) w.add_string(kToolTemplateKey, for_tools);
    };
    const auto bytes = v.bytes();
    return ChatTemplate::from_gguf(Gguf::parse(bytes, "chat.gguf"));
  };
  const std::vector<ChatMessage> user = {{Role::kUser, "Hi"}}, all = conversation("");
  const ChatInput plain = {.messages = user}, called = {.messages = all};
  const ChatInput offered = {.messages = user, .tools = tools("")};
  const auto without = opened(""), broken = opened("{% if %}"), with = opened(hermes);
  for (const auto* style : {&without, &broken}) {
    CHECK_FALSE((*style)->takes_tools());
    expect_error(ErrorCode::kUnsupported, [&] { (*style)->text(offered); });
  }
  REQUIRE(broken->notes().size() == without->notes().size() + 1);
  check_mentions(broken->notes().back(), {kToolTemplateKey, "tools are not offered"});

  CHECK(with->takes_tools());
  CHECK(with->reply_format().syntax == CallSyntax::kHermes);
  CHECK(with->text(plain) == without->text(plain));
  const Opened model;
  const auto own = ChatTemplate::from_text(model.gguf, hermes, "hermes");
  for (const ChatInput& input : {offered, called}) {
    CHECK(with->text(input) == own->text(input));
    CHECK(with->prompt(*model.tokenizer, input).ids == own->prompt(*model.tokenizer, input).ids);
  }
}

TEST_CASE("template tools: a template that cannot be used is an error that says why") {
  const Opened model;
  const auto error = [&](const std::string& jinja) {
    return expect_error(ErrorCode::kUnsupported,
                        [&] { ChatTemplate::from_text(model.gguf, jinja, "own.jinja"); });
  };
  check_mentions(error("{% if %}"), {"own.jinja", "is no Jinja that is understood here"});
  check_mentions(error("text"), {"own.jinja", "leaves messages out"});
  check_mentions(error("{{ raise_exception('no') }}"), {"own.jinja", "no"});
}

}  // namespace specbound::chat_template_tools_test
