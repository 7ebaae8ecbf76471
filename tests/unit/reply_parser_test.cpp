// Replies taken apart: calls in the syntax of each family, thoughts, and all that only looks like
// them. Every text is also cut in two at every byte, and read byte by byte.
#include "server/reply_parser.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parsed_reply.h"
#include "server/call_grammar.h"

namespace reply_parser_test {

using namespace specbound;
using namespace specbound::server;
using namespace specbound::test;

namespace {

void check_is_text(const ReplyParser::Options& options, const std::string& text) {
  CAPTURE(text);
  CHECK(parsed(options, text) == "|" + text + "|");
}

const std::string kOslo = R"({"city": "Oslo"})";
const char* kHermes = "<tool_call>";
const char* kXml = "<tool_call> <parameter=";
const char* kMistral = "[TOOL_CALLS]";
const char* kLlama = "<|python_tag|>";
const char* kDeepSeek = "<｜tool▁calls▁begin｜>";

}  // namespace

TEST_CASE("reply parser: calls of Hermes and Qwen") {
  const auto style = options(kHermes);
  const std::string call =
      "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": " + kOslo + "}\n</tool_call>";
  CHECK(parsed(style, call) == "||get_weather(" + kOslo + ")");
  CHECK(parsed(style, "\n\n" + call + "\n") == "||get_weather(" + kOslo + ")");
  CHECK(parsed(style, "I look.\n" + call) == "|I look.\n|get_weather(" + kOslo + ")");
  CHECK(parsed(style, call + "\n" + call + "\nDone.") ==
        "|Done.|get_weather(" + kOslo + ")get_weather(" + kOslo + ")");
  // Other keys, other order, no arguments, arguments in a string, no end.
  CHECK(parsed(style, R"(<tool_call>{"arguments":{"a":[1,"}"]},"id":3,"name":"x"}</tool_call>)") ==
        R"(||x({"a":[1,"}"]}))");
  CHECK(parsed(style, R"(<tool_call>{"name": "clock"}</tool_call>)") == "||clock({})");
  CHECK(parsed(style, R"(<tool_call>{"name": "clock", "arguments": null}</tool_call>)") ==
        "||clock({})");
  CHECK(parsed(style, R"(<tool_call>{"name": "x", "arguments": "{\"a\": 1}"}</tool_call>)") ==
        R"(||x({"a": 1}))");
  CHECK(parsed(style, R"(<tool_call>{"name": "x", "parameters": {"a": 1}})") == R"(||x({"a": 1}))");
  // Of a repeated key the last value counts, as everywhere.
  CHECK(parsed(style, R"(<tool_call>{"name": "x", "arguments": {}, "arguments": {"b": 2}})") ==
        R"(||x({"b": 2}))");
}

TEST_CASE("reply parser: what is no call is text, byte for byte") {
  const auto style = options(kHermes);
  for (const char* text : {"",
                           " ",
                           "\n\n",
                           "Hello.",
                           " Hello.\n",
                           "<",
                           "<tool_cal",
                           "<tool_call>",
                           "<tool_call>\n",
                           "<tool_call>{",
                           "<tool_call>{\"name\": \"x\"",
                           "<tool_call>x</tool_call>",
                           "<tool_call>{}</tool_call>",
                           "<tool_call>{\"name\": 1, \"arguments\": {}}</tool_call>",
                           "<tool_call>{\"name\": \"x\", \"arguments\": [1]}</tool_call>",
                           "<tool_call>{\"name\": \"x\", \"arguments\": {1}}</tool_call>",
                           "<tool_call>{\"name\": \"\"}</tool_call>",
                           "<tool_call>{\"name\": \"x\", \"arguments\": \"{\"}</tool_call>",
                           "<tool_call>{\"name\": \"x\",}</tool_call> tail",
                           "<tool_call>{]}</tool_call>",
                           "a <tool_call> b",
                           "</tool_call>",
                           "<<tool_call",
                           "{\"name\": \"Ann\", \"arguments\": {}}",
                           "<tool_call>[]</tool_call>",
                           "<tool_call>{\"name\": \"\xff\"}</tool_call>"}) {
    check_is_text(style, text);
  }
  // Behind one that is none there may be one.
  CHECK(parsed(style, R"(<tool_call>no <tool_call>{"name": "clock"}</tool_call>)") ==
        "|<tool_call>no |clock({})");
  CHECK(parsed(style, R"(<tool_call><tool_call>{"name": "clock"}</tool_call>)") ==
        "|<tool_call>|clock({})");
  // One that is not closed takes no other with it.
  const std::string open = R"(<tool_call>{"name": "x", "arguments": {"a": "<"})"
                           "\n</tool_call>\nSorry:\n";
  CHECK(parsed(style, open + R"(<tool_call>{"name": "clock"}</tool_call>)") ==
        "|" + open + "|clock({})");
  const std::string quote =
      "<tool_call>{\"name\": \"x\", \"arguments\": {\"a\": \"b}}\n</tool_call>\n";
  CHECK(parsed(style, quote + R"(<tool_call>{"name": "clock"}</tool_call>)") ==
        "|" + quote + "|clock({})");
  const std::string begun = "<tool_call>\n<function=f>\n";
  for (const std::string& tags : {begun + "</tool_call>\n", begun, begun + "<param",
                                  std::string("<tool_call>"), std::string("<tool_call>\n<fun")}) {
    CHECK(
        parsed(options(kXml), tags + "<tool_call>\n<function=clock>\n</function>\n</tool_call>") ==
        "|" + tags + "|clock({})");
  }
  check_is_text(options(kLlama), "{x: 1} <|python_tag|>");
  // Without tools nothing is.
  check_is_text(options(kHermes, false), R"(<tool_call>{"name": "clock"}</tool_call>)");
}

TEST_CASE("reply parser: calls in JSON alone are those of tools that there are") {
  for (const char* jinja : {kLlama, "", kHermes, kXml, kDeepSeek}) {
    const auto style = options(jinja);
    CHECK(parsed(style, "{\"name\": \"get_weather\", \"parameters\": " + kOslo + "}") ==
          "||get_weather(" + kOslo + ")");
    CHECK(parsed(style,
                 R"([{"name": "clock", "arguments": {}}, {"name": "clock", "arguments": {}}])") ==
          "||clock({})clock({})");
    CHECK(parsed(style,
                 R"({"name": "clock", "parameters": {}}; {"name": "clock", "parameters": {}})") ==
          "||clock({})clock({})");
    for (const char* text :
         {R"({"name": "Ann", "parameters": {}})", R"({"name": "clock"})", R"({"a": 1})", "[1, 2]",
          R"([{"name": "clock", "arguments": {}}, 1])", R"({"name": "clock", "parameters": {})",
          R"(It is {"name": "clock", "parameters": {}})", "[", "{", "{}", " {} "}) {
      check_is_text(style, text);
    }
  }
  // A list of Mistral's has its mark.
  CHECK(parsed(options(kMistral), R"({"name": "clock", "arguments": {}})") == "||clock({})");
  check_is_text(options(kMistral), R"([{"name": "clock", "arguments": {}}])");
  CHECK(parsed(options(kLlama), R"(<|python_tag|>{"name": "clock", "parameters": {}})") ==
        "||clock({})");
  check_is_text(options(kLlama), "<|python_tag|>print(1)");
}

TEST_CASE("reply parser: calls of Mistral, in a list or by name") {
  const auto style = options(kMistral);
  CHECK(parsed(style, "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": " + kOslo +
                          "}, {\"name\": \"clock\", \"arguments\": {}}]") ==
        "||get_weather(" + kOslo + ")clock({})");
  CHECK(parsed(style, "Hm.[TOOL_CALLS] [{\"name\": \"x\", \"arguments\": {}, \"id\": \"123\"}]") ==
        "|Hm.|x({})");
  CHECK(parsed(style, "[TOOL_CALLS]get_weather[ARGS]" + kOslo + "[TOOL_CALLS]clock[ARGS]{}") ==
        "||get_weather(" + kOslo + ")clock({})");
  CHECK(parsed(style, "[TOOL_CALLS]clock[CALL_ID]abc123[ARGS]{}") == "||clock({})");
  CHECK(parsed(style, "[TOOL_CALLS]clock{}") == "||clock({})");
  for (const char* text :
       {"[TOOL_CALLS]", "[TOOL_CALLS]clock", "[TOOL_CALLS]clock[ARGS]", "[TOOL_CALLS]clock[ARGS]{",
        "[TOOL_CALLS]the clock {}", "[TOOL_CALLS][1]", "[TOOL_CALLS]clock[CALL_ID]x{}",
        "[TOOL_CALLS][ARGS]{}", "[TOOL_CALLS]clock[ARGS][1]", "[TOOL_CALLS]clock[ARGS]{x}",
        "[TOOL"}) {
    check_is_text(style, text);
  }
  check_is_text(style, "[TOOL_CALLS]" + std::string(400, 'x') + "[ARGS]{}");
  for (const std::string broken :
       {"[TOOL_CALLS]", "[TOOL_CALLS]clock",
        "[TOOL_CALLS]clock[ARGS]{\"a\": ", "[TOOL_CALLS][{\"name\": \"x\", \"arguments\": {}}, "}) {
    CHECK(parsed(style, broken + "[TOOL_CALLS]clock[ARGS]{}") == "|" + broken + "|clock({})");
  }
}

TEST_CASE("reply parser: calls of DeepSeek, fenced or not") {
  const auto style = options(kDeepSeek);
  const auto call = [](const std::string& inner) {
    return "<｜tool▁call▁begin｜>" + inner + "<｜tool▁call▁end｜>";
  };
  const auto calls = [](const std::string& inner) {
    return "<｜tool▁calls▁begin｜>" + inner + "<｜tool▁calls▁end｜>";
  };
  const std::string fenced = call("function<｜tool▁sep｜>get_weather\n```json\n" + kOslo + "\n```");
  const std::string bare = call("clock<｜tool▁sep｜>{}");
  CHECK(parsed(style, calls(fenced)) == "||get_weather(" + kOslo + ")");
  CHECK(parsed(style, "Look:" + calls(fenced + "\n" + fenced)) ==
        "|Look:|get_weather(" + kOslo + ")get_weather(" + kOslo + ")");
  CHECK(parsed(style, calls(bare + bare) + "\n") == "||clock({})clock({})");
  CHECK(parsed(style, std::string(kDeepSeek) + "<｜tool▁call▁begin｜>x" + calls(bare)) ==
        "|" + std::string(kDeepSeek) + "<｜tool▁call▁begin｜>x|clock({})");
  for (const std::string& text :
       {calls(""), calls(call("clock{}")), calls(call("<｜tool▁sep｜>{}")),
        calls(call("function<｜tool▁sep｜>clock {}")), calls("{}"),
        calls(call("a b<｜tool▁sep｜>{}"))}) {
    check_is_text(style, text);
  }
}

TEST_CASE("reply parser: what stands behind a call is text but for what closes it") {
  const std::string named = R"({"name": "clock"})";
  const auto hermes = options(kHermes);
  const std::string call = "<tool_call>" + named + "</tool_call>";
  for (const char* text : {"<", "<tool_cal", "<x", "```", "</tool_call", "a"}) {
    CAPTURE(text);
    const bool closes = std::string_view(text).starts_with("</");
    CHECK(parsed(hermes, call + text) == "|" + std::string(closes ? "" : text) + "|clock({})");
  }
  const std::string deepseek = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>clock<｜tool▁sep｜>{}";
  for (const char* text : {"```", "```python", "<｜tool▁c", "``"}) {
    CHECK(parsed(options(kDeepSeek), deepseek + text) == "|" + std::string(text) + "|clock({})");
  }
  const std::string fenced =
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>clock\n```json\n{}\n";
  const auto style = options("<｜tool▁calls▁begin｜>```json");
  CHECK(parsed(style, fenced + "```") == "||clock({})");
  CHECK(parsed(style, fenced + "```<｜tool▁call▁end｜><｜tool▁calls▁end｜>```c") ==
        "|```c|clock({})");
}

TEST_CASE("reply parser: calls in tags, with values as their tools have them") {
  const auto style = options(kXml);
  CHECK(parsed(style,
               "<tool_call>\n<function=get_weather>\n<parameter=city>\n5\n</parameter>\n"
               "<parameter=days>\n3\n</parameter>\n<parameter=note>\na \"b\"\nc\n</parameter>\n"
               "</function>\n</tool_call>") ==
        R"(||get_weather({"city": "5", "days": 3, "note": "a \"b\"\nc"}))");
  CHECK(parsed(style, "<tool_call><function=clock></function></tool_call>") == "||clock({})");
  CHECK(parsed(style, "<tool_call><function=f><parameter=x>1</parameter></function>") ==
        R"(||f({"x": "1"}))");  // nobody knows its type
  for (const char* text :
       {"<tool_call><function=", "<tool_call><function=>x</function>",
        "<tool_call><function=f></function", "<tool_call><function=f>x</function>",
        "<tool_call><function=f><parameter=a>b</function></tool_call>", "<tool_call><x></x>"}) {
    check_is_text(style, text);
  }
}

TEST_CASE("reply parser: thoughts come apart from the text") {
  auto style = options("<think></think><tool_call>");
  CHECK(parsed(style, "<think>\nhm, so\n\n</think>\n\nIt is 4.") == "hm, so|It is 4.|");
  CHECK(parsed(style, "\n <think>a</think>b") == "a|b|");
  CHECK(parsed(style, "<think>\n\n</think>\n\nHi") == "|Hi|");
  CHECK(parsed(style, "<think>a < b </thin") == "a < b </thin||");
  CHECK(parsed(style, "It is <think>a</think>") == "|It is <think>a</think>|");
  CHECK(parsed(style, "<think>a</think><think>b</think>") == "a|<think>b</think>|");
  CHECK(parsed(style, "<think><tool_call>{</think>\n\n<tool_call>{\"name\": \"clock\"}") ==
        "<tool_call>{||clock({})");
  check_is_text(style, " \n x</think>");
  style.thinks = true;
  CHECK(parsed(style, "hm\n</think>\n\nYes") == "hm|Yes|");
  CHECK(parsed(style, "hm") == "hm||");
  CHECK(parsed(style, "</think>x") == "|x|");
  style.splits_thoughts = false;
  check_is_text(style, "hm\n</think>\n\nYes");
  check_is_text(style, "<think>hm</think>\nYes");
  // Where the template knows no thoughts nothing is held back.
  check_is_text(options(kHermes), "<think>\nhm</think>\n\nYes");
}

TEST_CASE("reply parser: no more calls than may be") {
  auto style = options(kHermes);
  const std::string call = R"(<tool_call>{"name": "clock"}</tool_call>)";
  style.several = false;
  CHECK(parsed(style, call + call) == "|" + call + "|clock({})");
  const std::string list = R"([{"name": "clock"}, {"name": "clock"}])";
  CHECK(parsed(style, "<tool_call>" + list + "</tool_call>") ==
        R"(|, {"name": "clock"}]|clock({}))");
  style.several = true;
  std::string many;
  for (size_t i = 0; i < ReplyParser::kMaxCalls + 2; ++i) many += call;
  ReplyParser parser(style);
  ReplyPieces all;
  add(all, parser.push(many));
  add(all, parser.finish());
  CHECK(all.calls.size() == ReplyParser::kMaxCalls);
  CHECK(all.text ==
        R"(<tool_call>{"name": "clock"}</tool_call><tool_call>{"name": "clock"}</tool_call>)");
  for (const auto& [jinja, named] :
       {std::pair{kMistral, "[TOOL_CALLS]clock[ARGS]{}"},
        std::pair{kDeepSeek, "<｜tool▁call▁begin｜>clock<｜tool▁sep｜>{}"}}) {
    std::string reply = jinja == kDeepSeek ? kDeepSeek : "";
    for (size_t i = 0; i < ReplyParser::kMaxCalls + 1; ++i) reply += named;
    ReplyParser reader(options(jinja));
    ReplyPieces pieces = reader.push(reply);
    add(pieces, reader.finish());
    CHECK(pieces.calls.size() == ReplyParser::kMaxCalls);
    CHECK(pieces.text == named);
  }
  // Nor longer ones.
  const std::string open = "<tool_call>{\"name\": \"" + std::string(ReplyParser::kMaxCall, 'x');
  ReplyParser long_one(style);
  CHECK(long_one.push(open).text.size() > ReplyParser::kMaxCall);
}

TEST_CASE("reply parser: the format follows from the template's text") {
  using enum CallSyntax;
  const auto syntax = [](std::string_view jinja) { return find_reply_format(jinja).syntax; };
  CHECK(syntax("") == kJson);
  CHECK(syntax("a <tool_call> b") == kHermes);
  CHECK(syntax("a <tool_call> <parameter=x>") == kXml);
  CHECK(syntax("<tool_call> <arg_key>") == kGlm);
  CHECK(syntax("<|tool_calls_section_begin|>") == kKimi);
  CHECK(syntax("<|START_ACTION|>") == kCohere);
  CHECK(syntax("<|channel|>commentary <|call|>") == kHarmony);
  CHECK(syntax("'\\nAction:\\n' \"tool_name\": ") == kAction);
  CHECK(syntax("[TOOL_CALLS]") == kMistral);
  CHECK(syntax("[TOOL_CALLS] [ARGS]") == kMistralNamed);
  CHECK(syntax("<｜tool▁calls▁begin｜>") == kDeepSeek);
  CHECK(syntax("<｜tool▁calls▁begin｜> ```json") == kDeepSeekFenced);
  CHECK(find_reply_format("<think>").think_close == "</think>");
  CHECK(find_reply_format("[THINK]").think_close == "[/THINK]");
  CHECK(find_reply_format("").think_open.empty());
}

TEST_CASE("reply parser: what a call must be, in parts") {
  const auto text = [](std::string_view jinja, const ToolChoice& choice) {
    ToolRequest request{.tools = {{.name = "a", .parameters = "A"}, {.name = "b"}}};
    request.choice = choice;
    std::string out;
    for (const auto& parts : call_alternatives(find_reply_format(jinja), request)) {
      for (const GrammarPart& part : parts) {
        out += part.kind == GrammarPart::Kind::kSchema ? "{" + part.text + "}" : part.text;
      }
      out += "\n\n";
    }
    return out;
  };
  using Kind = ToolChoice::Kind;
  const std::string any = R"({{"type":"object","properties":{}}})";
  CHECK(text(kHermes, {Kind::kNamed, "a"}) ==
        "<tool_call>\n{\"name\": \"a\", \"arguments\": {A}}\n</tool_call>\n\n");
  CHECK(text(kHermes, {Kind::kRequired}) ==
        "<tool_call>\n{\"name\": \"a\", \"arguments\": {A}}\n</tool_call>\n\n"
        "<tool_call>\n{\"name\": \"b\", \"arguments\": " +
            any + "}\n</tool_call>\n\n");
  CHECK(text(kMistral, {Kind::kNamed, "a"}) ==
        "[TOOL_CALLS][{\"name\": \"a\", \"arguments\": {A}}]\n\n");
  CHECK(text("[TOOL_CALLS][ARGS]", {Kind::kNamed, "a"}) == "[TOOL_CALLS]a[ARGS]{A}\n\n");
  CHECK(text(kLlama, {Kind::kNamed, "a"}) == "{\"name\": \"a\", \"parameters\": {A}}\n\n");
  // What they give is read as such a call.
  for (const char* jinja : {kHermes, kMistral, "[TOOL_CALLS][ARGS]", kLlama, "", kDeepSeek,
                            "<｜tool▁calls▁begin｜>```json"}) {
    CAPTURE(jinja);
    ToolRequest request{.tools = tools()};
    request.choice = {Kind::kNamed, "get_weather"};
    std::string reply;
    const auto alternatives = call_alternatives(find_reply_format(jinja), request);
    for (const GrammarPart& part : alternatives.at(0)) {
      reply += part.kind == GrammarPart::Kind::kSchema ? kOslo : part.text;
    }
    CHECK(parsed(options(jinja), reply) == "||get_weather(" + kOslo + ")");
  }
}

}  // namespace reply_parser_test
