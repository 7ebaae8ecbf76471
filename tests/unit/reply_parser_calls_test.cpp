// Calls that are held to what they may be, from the grammar to the parser: what the grammar takes
// is read as such a call, what comes before it is free, and arguments come out as they are written.
// The syntaxes of GLM, Kimi K2 and Command R beside those of reply_parser_test.cpp.
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "expect_error.h"
#include "grammar/grammar.h"
#include "grammar/matcher.h"
#include "grammar/token_grammar.h"
#include "parsed_reply.h"
#include "piece_tokenizer.h"
#include "server/api_error.h"
#include "server/call_grammar.h"

namespace reply_parser_calls_test {

using namespace specbound;
using namespace specbound::server;
using namespace specbound::test;

namespace {

const std::string kOslo = R"({"city": "Oslo"})";
const char* kGlm = "<tool_call> <arg_key>";
const char* kKimi = "<|tool_calls_section_begin|>";
const char* kCohere = "<|START_ACTION|> <|START_THINKING|>";
const char* kAction = "Action: \"tool_name\"";
const char* kXml = "<tool_call> <parameter=";
const char* kSchema = R"({"type": "object", "properties": {
    "city": {"enum": ["Oslo", "Lima"]}, "days": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["city"]})";

ToolRequest asked(ToolChoice::Kind kind, bool strict = true) {
  ToolRequest request{.tools = {{.name = "get_weather",
                                 .parameters = kSchema,
                                 .strict = strict,
                                 .text_parameters = {"city"}},
                                {.name = "clock"}}};
  request.choice = {kind, kind == ToolChoice::Kind::kNamed ? "get_weather" : ""};
  return request;
}

struct Held {
  explicit Held(const std::vector<Parts>& parts)
      : grammar(Grammar::choice_of(parts)), matcher(grammar->automaton()) {}

  bool takes(std::string_view text) { return matcher.accepts(matcher.next(matcher.start(), text)); }
  bool begins(std::string_view text) {
    return matcher.next(matcher.start(), text) != GrammarMatcher::kDead;
  }

  Grammar::Shared grammar;
  GrammarMatcher matcher;
};

// A reply of each syntax with one call, and without what the call's schema asks for.
struct Written {
  const char* jinja;
  std::string good, bad;
};
std::vector<Written> written() {
  const auto json = [](const std::string& before, const std::string& after) {
    return std::pair(before + kOslo + after, before + R"({"city": "Rome"})" + after);
  };
  std::vector<Written> all;
  const auto add = [&](const char* jinja, const std::string& before, const std::string& after) {
    const auto [good, bad] = json(before, after);
    all.push_back({jinja, good, bad});
  };
  add("<tool_call>", "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": ", "}\n</tool_call>");
  add("[TOOL_CALLS]", "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": ", "}]");
  add("[TOOL_CALLS] [ARGS]", "[TOOL_CALLS]get_weather[ARGS]", "");
  add("<｜tool▁calls▁begin｜>",
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>",
      "<｜tool▁call▁end｜><｜tool▁calls▁end｜>");
  add("<｜tool▁calls▁begin｜> ```json",
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n",
      "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>");
  add(kKimi,
      "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
      "<|tool_call_argument_begin|>",
      "<|tool_call_end|><|tool_calls_section_end|>");
  add(kCohere,
      "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", "
      "\"parameters\": ",
      "}\n]<|END_ACTION|>");
  add(kAction,
      "Action: ```json\n[\n    {\n        \"tool_name\": \"get_weather\",\n        "
      "\"parameters\": ",
      "\n    }\n]\n```");
  add("<|python_tag|>", "{\"name\": \"get_weather\", \"parameters\": ", "}");
  add("", "{\"name\": \"get_weather\", \"parameters\": ", "}");
  for (const std::string city : {"Oslo", "Rome"}) {
    const std::string pairs = "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>" +
                              city + "</arg_value>\n</tool_call>";
    const std::string tags = "<tool_call>\n<function=get_weather>\n<parameter=city>\n" + city +
                             "\n</parameter>\n</function>\n</tool_call>";
    if (city == "Oslo") all.insert(all.end(), {{kGlm, pairs, ""}, {kXml, tags, ""}});
    if (city == "Rome") all[all.size() - 2].bad = pairs, all[all.size() - 1].bad = tags;
  }
  return all;
}

// As ReplyJob has it.
ReplyParser::Options held_options(const char* jinja, const ToolRequest& request) {
  ReplyParser::Options out = options(jinja);
  out.tools = request.tools;
  out.held = true;
  if (!request.strict()) return out;
  using Bare = ReplyParser::Options::Bare;
  const bool json = out.format.syntax == CallSyntax::kJson;
  out.bare = json ? Bare::kObject : Bare::kNone;
  if (json) out.format.call_open = {};
  return out;
}

}  // namespace

TEST_CASE("calls: those of GLM, with values as their tools have them") {
  const auto style = options(kGlm);
  const std::string city = "<arg_key>city</arg_key>\n<arg_value>5</arg_value>\n";
  CHECK(parsed(style, "<tool_call>get_weather\n" + city +
                          "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>") ==
        R"(||get_weather({"city": "5", "days": 3}))");
  CHECK(parsed(style,
               "<tool_call>get_weather<arg_key>city</arg_key><arg_value> a\n</tool_call>b"
               "</arg_value></tool_call>") == R"(||get_weather({"city": " a\n</tool_call>b"}))");
  CHECK(parsed(style, "<tool_call>clock</tool_call>\n<tool_call>clock\n</tool_call>") ==
        "||clock({})clock({})");
  CHECK(parsed(style, "Hm.\n<tool_call>clock\n</tool_call>") == "|Hm.\n|clock({})");
  for (const std::string broken : {"<tool_call>", "<tool_call>f\n", "<tool_call>f<arg_key>a"}) {
    CHECK(parsed(style, broken + "<tool_call>clock</tool_call>") == "|" + broken + "|clock({})");
  }
  for (const char* text :
       {"<tool_call>", "<tool_call>clock", "<tool_call>clock\n", "<tool_call>a b\n</tool_call>",
        "<tool_call>\n</tool_call>", "<tool_call>clock\n<arg_key>a</arg_key></tool_call>",
        "<tool_call>clock\nx</tool_call>", "<tool_call>clock<arg_value>1</arg_value></tool_call>",
        "<tool_call>clock\n<arg_key>a</arg_key><arg_value>b</tool_call>"}) {
    CAPTURE(text);
    CHECK(parsed(style, text) == "|" + std::string(text) + "|");
  }
}

TEST_CASE("calls: those of Kimi K2 keep the ids that the model gave") {
  const auto style = options(kKimi);
  const auto call = [](const std::string& id, const std::string& object) {
    return "<|tool_call_begin|>" + id + "<|tool_call_argument_begin|>" + object +
           "<|tool_call_end|>";
  };
  const std::string open = kKimi, close = "<|tool_calls_section_end|>";
  const std::string two =
      open + call("functions.get_weather:0", kOslo) + call("functions.clock:1", "{}") + close;
  CHECK(parsed(style, "I look." + two) == "|I look.|get_weather(" + kOslo + ")clock({})");
  ReplyParser parser(style);
  const ReplyPieces pieces = parser.push(two);
  CHECK(pieces.calls[0].id == "functions.get_weather:0");
  CHECK(pieces.calls[1].id == "functions.clock:1");
  CHECK(parsed(style, open + call("clock", "{}") + close) == "||clock({})");
  CHECK(ReplyParser(style).push(open + call("clock", "{}")).calls.at(0).id.empty());
  for (const std::string& text :
       {open, open + "{}", open + call("", "{}"), open + call("functions.clock:0", "[1]"),
        open + "<|tool_call_begin|>functions.clock:0{}", open + call("a b:0", "{}"),
        open + call("functions.:0", "{}")}) {
    CAPTURE(text);
    CHECK(parsed(style, text) == "|" + text + "|");
  }
}

TEST_CASE("calls: those of Command R, behind its thoughts") {
  const auto style = options(kCohere);
  CHECK(parsed(style,
               "<|START_THINKING|>I look.<|END_THINKING|><|START_ACTION|>[\n    "
               R"({"tool_call_id": "0", "tool_name": "get_weather", "parameters": )" +
                   kOslo +
                   R"(},
    {"tool_call_id": "1", "tool_name": "clock", "parameters": {}}
]<|END_ACTION|>)") == "I look.||get_weather(" + kOslo + ")clock({})");
}

TEST_CASE("calls: those of Command R+, of tools that there are") {
  const auto style = options(kAction);
  const std::string list =
      "[\n    {\n        \"tool_name\": \"get_weather\",\n        \"parameters\": " + kOslo +
      "\n    }\n]";
  const std::string read = "get_weather(" + kOslo + ")";
  for (const char* begin : {"Action: ```json\n", "Action:\n```json\n", "Action: ```json"}) {
    for (const char* end : {"```", "\n```", "\n```\n", ""}) {
      CHECK(parsed(style, "Plan: I look.\n" + std::string(begin) + list + end) ==
            "|Plan: I look.\n|" + read);
    }
  }
  CHECK(parsed(style, "Action: ```json\n" + list + "\n```\nDone ```x```.") ==
        "|Done ```x```.|" + read);
  CHECK(parsed(style, R"(Action: ```json
[{"tool_name": "clock", "parameters": {}}, {"tool_name": "get_weather", "parameters": )" +
                          kOslo + "}]```") == "||clock({})" + read);
  for (const std::string text :
       {"Action: walk.", "Action:", "Action: ```json\n[]\n```", "Action: ```json\nx\n```",
        "Action: ```json\n[{\"tool_name\": \"directly-answer\", \"parameters\": {}}]\n```",
        "Action: ```python\nf()\n```", "```json\n[1]\n```"}) {
    CAPTURE(text);
    CHECK(parsed(style, text) == "|" + text + "|");
  }
  // Held ones begin in either way.
  const ReplyParser::Options held = held_options(kAction, asked(ToolChoice::Kind::kAuto));
  Held grammar(
      text_or_calls(find_reply_format(kAction), asked(ToolChoice::Kind::kAuto), true, false));
  for (const std::string begin : {"Action: ```json\n", "Plan.\nAction:\n```json\n"}) {
    CAPTURE(begin);
    CHECK(grammar.takes(begin + list + "\n```"));
    CHECK_FALSE(grammar.begins(begin + "[1"));
    CHECK_FALSE(grammar.begins(begin + list.substr(0, list.find("Oslo")) + "R"));
    const std::string text = begin.substr(0, begin.find("Action"));
    CHECK(parsed(held, begin + list + "\n```") == "|" + text + "|" + read);
  }
  for (const char* text : {"Action:", "Action:\n``", "Action:  ```json [", "Action:\n```js"}) {
    CHECK(grammar.takes(text));
  }
}

TEST_CASE("calls: strict ones are held from where they begin, and text before them is free") {
  for (const Written& each : written()) {
    CAPTURE(each.good);
    const ToolRequest request = asked(ToolChoice::Kind::kAuto);
    const ReplyFormat format = find_reply_format(each.jinja);
    Held held(text_or_calls(format, request, true, false));
    CHECK(held.takes(each.good));
    CHECK(held.takes(each.good + "\n"));
    CHECK_FALSE(held.begins(each.bad));
    CHECK_FALSE(held.begins(each.good + "x"));
    for (const char* text :
         {"", " ", "Hello.", "a\xff\xfe", "a < b [x] \xc3\xa9", "\n\n1", "<tool"}) {
      CAPTURE(text);
      CHECK(held.takes(text));
    }
    const bool bare = format.syntax == CallSyntax::kJson;
    const std::string before = bare ? " \n" : "I look: {\"a\": 1}\n";
    CHECK(held.takes(before + each.good));
    CHECK_FALSE(held.begins(before + each.bad));
    const ReplyParser::Options style = held_options(each.jinja, request);
    CHECK(parsed(style, before + each.good) ==
          "|" + (bare ? "" : before) + "|get_weather(" + kOslo + ")");
    // What is no call of the grammar is none of the parser's.
    for (const std::string& text : {"[" + kOslo + "]", std::string("[1]"), "x " + each.good}) {
      if (!bare) break;
      CHECK(held.takes(text));
      CHECK(parsed(style, text) == "|" + text + "|");
    }
    if (!bare) {
      const std::string json = R"({"name": "get_weather", "parameters": {}})";
      CHECK(held.takes(json));
      CHECK(parsed(style, json) == "|" + json + "|");
    }
  }
}

TEST_CASE("calls: beside a format of JSON a reply is that, or calls") {
  for (const bool strict : {false, true}) {
    for (const Written& each : written()) {
      CAPTURE(each.good);
      CompletionRequest request;
      request.chat = true;
      request.conversation.tools = asked(ToolChoice::Kind::kAuto, strict);
      request.format = {"response_format", R"({"type": "object", "properties": {"n": {"const": 1}},
        "required": ["n"], "additionalProperties": false})"};
      request.settings.grammar = compiled(request.format);
      Held held(held_calls(find_reply_format(each.jinja), false, request)->alternatives);
      CHECK(held.takes(R"({"n": 1})"));
      CHECK(held.takes(each.good));
      CHECK(held.begins(each.bad) == !strict);
      CHECK_FALSE(held.begins("Hello"));
      CHECK_FALSE(held.begins(R"({"n": 1} )" + each.good));
      request.format = {"grammar", "root ::= \"a\"", true};
      if (strict) {
        CHECK_THROWS_AS(held_calls(find_reply_format(each.jinja), false, request), ApiError);
      } else {
        CHECK_FALSE(held_calls(find_reply_format(each.jinja), false, request));
      }
    }
  }
}

TEST_CASE(
    "calls: of strict tools several may come, where they may, and other tools take anything") {
  for (const Written& each : written()) {
    CAPTURE(each.good);
    ToolRequest request = asked(ToolChoice::Kind::kAuto);
    const ReplyFormat format = find_reply_format(each.jinja);
    const auto two = [&](bool parallel) {
      request.parallel = parallel;
      Held held(text_or_calls(format, request, true, false));
      return held.takes(each.good + "\n" + each.good) || held.takes(each.good + "; " + each.good);
    };
    const bool repeats = format.syntax == CallSyntax::kHermes || is_tagged(format.syntax) ||
                         format.syntax == CallSyntax::kJson;
    CHECK(two(true) == repeats);  // in others they share marks
    CHECK_FALSE(two(false));
    request.parallel = true;
    request.tools[0].strict = false;
    request.tools[1].strict = true;
    CHECK(Held(text_or_calls(format, request, true, false)).takes(each.bad));
  }
}

TEST_CASE("calls: in thoughts nothing is held") {
  const ToolRequest request = asked(ToolChoice::Kind::kAuto);
  const ReplyFormat format = find_reply_format("<think></think><tool_call>");
  const Written hermes = written()[0];
  const std::string thoughts = "Hm <tool_call> {</think>\n\n";
  for (const bool thinks : {false, true}) {
    CAPTURE(thinks);
    const std::string begin = thinks ? thoughts : "\n<think>" + thoughts;
    Held held(text_or_calls(format, request, true, thinks));
    CHECK(held.takes(begin + "Hello."));
    CHECK(held.takes(begin + hermes.good));
    CHECK_FALSE(held.begins(begin + hermes.bad));
    CHECK(held.takes(begin.substr(0, begin.size() - 12)));  // not even ended
  }
  Held raw(text_or_calls(format, request, false, false));
  CHECK_FALSE(raw.begins("<think>" + thoughts));
}

TEST_CASE("calls: one that must be keeps to the schema in each syntax, values in tags too") {
  for (const Written& each : written()) {
    CAPTURE(each.good);
    const ToolRequest request = asked(ToolChoice::Kind::kNamed);
    Held held(call_alternatives(find_reply_format(each.jinja), request));
    CHECK(held.takes(each.good));
    CHECK_FALSE(held.begins(each.bad));
    CHECK_FALSE(held.takes(""));
    CHECK(parsed(held_options(each.jinja, request), each.good) == "||get_weather(" + kOslo + ")");
  }
  ToolRequest request = asked(ToolChoice::Kind::kNamed);
  request.tools[0].parameters =
      R"({"type": "object", "properties": {"a": {"type": "string", "example": "x",
          "discriminator": {}}, "b": {"$ref": "#/$defs/n"}}, "required": ["b"],
          "$defs": {"n": {"type": "integer", "minimum": 1, "maximum": 3}}})";
  request.tools[0].text_parameters = {"a"};
  const std::string a = "<arg_key>a</arg_key><arg_value>any {\n thing</arg_value>";
  const std::string b = "<arg_key>b</arg_key><arg_value>2</arg_value>";
  Held held(call_alternatives(find_reply_format(kGlm), request));
  CHECK(held.takes("<tool_call>get_weather" + a + b + "</tool_call>"));
  CHECK(held.takes("<tool_call>get_weather\n" + b + "\n</tool_call>"));
  CHECK_FALSE(held.begins("<tool_call>get_weather" + a + "</tool_call>"));
  CHECK_FALSE(held.begins("<tool_call>get_weather<arg_key>b</arg_key><arg_value>4"));
  for (const char* refused :
       {R"({"type": "object", "properties": {"a": {"type": "string", "minLength": 2}}})",
        R"({"type": "object", "properties": {"b": {"$id": "c", "items": {"$ref": "#"}}}})",
        R"({"type": "object", "anyOf": []})",
        R"({"type": "object", "properties": {}, "required": ["x"]})"}) {
    request.tools[0].parameters = refused;
    for (const char* jinja : {kGlm, kXml}) {
      CHECK_THROWS_AS(Held{call_alternatives(find_reply_format(jinja), request)}, Error);
    }
  }
}

TEST_CASE("calls: held ones come out as they are written") {
  for (const Written& each : written()) {
    const ReplyFormat format = find_reply_format(each.jinja);
    if (is_tagged(format.syntax)) continue;  // their values become JSON when all are there
    CAPTURE(each.good);
    const ToolRequest request = asked(ToolChoice::Kind::kRequired);
    ReplyParser parser(held_options(each.jinja, request));
    const size_t at = each.good.find("Oslo");
    ReplyPieces pieces = parser.push(std::string_view(each.good).substr(0, at));
    REQUIRE(pieces.calls.size() == 1);
    CHECK(pieces.calls[0].name == "get_weather");
    CHECK(pieces.calls[0].arguments == R"({"city": ")");
    CHECK_FALSE(pieces.calls[0].goes_on);
    pieces = parser.push("Os");
    REQUIRE(pieces.calls.size() == 1);
    CHECK(pieces.calls[0].goes_on);
    CHECK(pieces.calls[0].arguments == "Os");
    // One that is cut off keeps what came.
    pieces = parser.finish();
    CHECK(pieces.calls.empty());
    CHECK(pieces.text.empty());
  }
}

TEST_CASE("calls: behind thoughts they are held in each syntax, with a mark or without") {
  for (const Written& each : written()) {
    ReplyFormat format = find_reply_format(each.jinja);
    std::string jinja = each.jinja;
    if (format.think_open.empty()) jinja += "<think></think>";
    format = find_reply_format(jinja);
    CAPTURE(jinja);
    const ToolRequest request = asked(ToolChoice::Kind::kAuto);
    const ReplyParser::Options style = held_options(jinja.c_str(), request);
    const std::string open(format.think_open), close(format.think_close);
    Held held(text_or_calls(format, request, true, false));
    for (const std::string before : {"", "\t", "\r\n "}) {
      const std::string thoughts = before + open + "x" + close + "\n";
      CHECK(held.takes(thoughts + each.good));
      CHECK_FALSE(held.begins(thoughts + each.bad));
      CHECK(parsed(style, thoughts + each.good) == "x||get_weather(" + kOslo + ")");
      CHECK(held.takes(thoughts + "y"));
      CHECK(held.takes(thoughts + open + "y"));
      CHECK(parsed(style, thoughts + open + "y") == "x|" + open + "y|");
    }
    // What only begins like the mark is text, and JSON behind text is none of a call.
    if (format.syntax != CallSyntax::kJson) continue;
    for (size_t n = 1; n < open.size(); ++n) {
      const std::string text = open.substr(0, n);
      CHECK(held.takes(text));
      CHECK(held.takes(text + "{" + each.bad));
      CHECK(parsed(style, text + "{" + each.bad) == "|" + text + "{" + each.bad + "|");
    }
  }
}

TEST_CASE("calls: thoughts begin with a control token where it is shown, else it is no text") {
  const PieceTokenizer tokenizer(byte_pieces({{"<think>", true}}));
  const ReplyFormat format = find_reply_format("<think></think>");
  CompletionRequest request;
  request.chat = true;
  request.conversation.tools = asked(ToolChoice::Kind::kAuto);
  for (const bool splits : {false, true}) {
    request.settings.split_thoughts = splits;
    request.settings.grammar = nullptr;
    request.settings.grammar = compiled(*held_calls(format, false, request));
    const TokenGrammar held(request.settings.grammar, trie_of(tokenizer));
    TokenGrammar::Path path;
    CHECK(held.allows(std::vector<int32_t>{}, 256, path));
    CHECK(held.allows(std::vector<int32_t>{256}, '{', path));
    // Where it is not shown the reply begins with the bracket, as a call does.
    CHECK(held.allows(std::vector<int32_t>{256, '{'}, 'x', path) == splits);
    CHECK(held.allows(std::vector<int32_t>{256, '{'}, '"', path));
  }
}

TEST_CASE("calls: a mark that tokens without text stand in is one to parser and grammar") {
  const PieceTokenizer tokenizer(byte_pieces({{"<tool_call>", true}, {"<hidden>", true}, {"\n{"}}));
  const ReplyFormat format = find_reply_format("<tool_call>");
  CompletionRequest request;
  request.chat = true;
  request.conversation.tools = asked(ToolChoice::Kind::kAuto);
  request.settings.grammar = compiled(*held_calls(format, false, request));
  const TokenGrammar held(request.settings.grammar, trie_of(tokenizer));
  TokenGrammar::Path path;
  std::vector<int32_t> reply = {'H', 'm', 257};
  for (const char c : std::string("<tool")) reply.push_back(c);
  reply.push_back(257);
  for (const char c : std::string("_call>")) reply.push_back(c);
  CHECK(held.mask(reply, path)->n() == 2);  // a line end, alone or with more
  // Within a call none may come.
  reply.push_back('\n');
  CHECK_FALSE(held.allows(reply, 257, path));
  // The text of a value is no control token's, whatever it spells.
  Tool& tool = request.conversation.tools.tools[0];
  tool.parameters = R"({"properties": {"<hidden>": {}, "city": {"const": "<hidden>"}}})";
  const ReplyFormat xml = find_reply_format(kXml);
  request.settings.grammar = nullptr;
  CHECK_THROWS_AS(compiled(*held_calls(xml, false, request)), ApiError);  // no name in a tag
  tool.parameters = R"({"properties": {"city": {"const": "<hidden>"}}})";
  request.settings.grammar = compiled(*held_calls(xml, false, request));
  const TokenGrammar tagged(request.settings.grammar, trie_of(tokenizer));
  TokenGrammar::Path other;
  reply = {256};
  for (const char c : std::string("\n<function=get_weather>\n<parameter=city>\n")) {
    reply.push_back(c);
  }
  CHECK(tagged.allows(reply, '<', other));
  CHECK_FALSE(tagged.allows(reply, 257, other));
}

TEST_CASE("calls: what may stand between tags is what the parser reads there") {
  const auto tagged = [](const std::string& key, const std::string& value, bool pairs) {
    const std::string name = "<tool_call>";
    if (pairs) {
      return name + "clock<arg_key>" + key + "</arg_key><arg_value>" + value +
             "</arg_value></tool_call>";
    }
    return name + "\n<function=clock>\n<parameter=" + key + ">\n" + value +
           "\n</parameter>\n</function>\n</tool_call>";
  };
  for (const bool pairs : {false, true}) {
    CAPTURE(pairs);
    const char* jinja = pairs ? kGlm : kXml;
    ToolRequest request{.tools = {{.name = "clock"}}};
    request.choice = {ToolChoice::Kind::kNamed, "clock"};
    Tool& clock = request.tools[0];
    const auto takes = [&](const std::string& text) {
      return Held(call_alternatives(find_reply_format(jinja), request)).takes(text);
    };
    // Without properties a schema leaves them open: any that can be told apart.
    CHECK_FALSE(takes(tagged("a", "1", pairs)));
    for (const char* open : {R"({"type": "object"})", "{}", R"({"additionalProperties": true})"}) {
      clock.parameters = open;
      CHECK(takes(tagged("a b", "1", pairs)));
      for (const char* key : {"", "a<b", "a\nb"}) CHECK_FALSE(takes(tagged(key, "1", pairs)));
    }
    clock.parameters = R"({"additionalProperties": false})";
    CHECK_FALSE(takes(tagged("a", "1", pairs)));
    // No text in JSON ends its value.
    clock.parameters = R"({"properties": {"a": {"type": "array"}, "b": {"enum": [["<"]]},
        "c": {"properties": {"<": {"type": "string", "pattern": "^[<x]$"}}}}})";
    const std::string end = pairs ? "</arg_value>" : "</parameter>";
    CHECK_FALSE(takes(tagged("a", "[\"" + end + "\"]", pairs)));
    CHECK_FALSE(takes(tagged("b", R"(["<"])", pairs)));
    CHECK_FALSE(takes(tagged("c", R"({"<": "x"})", pairs)));
    CHECK_FALSE(takes(tagged("c", R"({"\u003c": "<"})", pairs)));
    for (const auto& [key, value] :
         {std::pair("a", R"(["\u003c/parameter>"])"), std::pair("b", R"(["\u003c"])"),
          std::pair("c", R"({"\u003c": "\u003c"})")}) {
      const std::string text = tagged(key, value, pairs);
      CHECK(takes(text));
      CHECK(parsed(held_options(jinja, request), text) ==
            "||clock({\"" + std::string(key) + "\": " + value + "})");
    }
    // What values refer to is in the schema of them all.
    clock.parameters = R"({"type": "object", "properties": {"name": {"type": "string"},
        "list": {"type": "array", "items": {"$ref": "#"}},
        "far": {"type": "array", "items": {"$ref": "#/$defs/whole"}},
        "own": {"$ref": "#/$defs/n", "$defs": {"n": {"type": "null"}}},
        "same": {"$ref": "#/properties/name"}},
        "$defs": {"whole": {"$ref": "#"}, "n": {"type": "integer"}}})";
    for (const auto& [key, value, other] :
         {std::tuple("list", R"([{"name": "x", "list": []}])", "[[]]"),
          std::tuple("far", R"([{"name": "x"}])", "[[]]"), std::tuple("own", "1", "null"),
          std::tuple("same", "\"x\"", "1")}) {
      const std::string name = key;
      CAPTURE(name);
      CHECK(takes(tagged(name, value, pairs)));
      CHECK_FALSE(takes(tagged(name, other, pairs)));
    }
  }
}

TEST_CASE("calls: what many values in tags refer to stands in their grammar once") {
  std::string schema = R"({"$defs": {"x": {"description": ")" + std::string(100'000, 'x') +
                       R"("}}, "properties": {)";
  for (int i = 0; i < 2000; ++i) {
    schema += format(R"(%s"p%d": {"$ref": "#/$defs/x"})", i > 0 ? ", " : "", i);
  }
  ToolRequest request{.tools = {{.name = "f", .parameters = schema + "}}"}}};
  request.choice = {ToolChoice::Kind::kRequired};
  const Held held(call_alternatives(find_reply_format(kXml), request));
  CHECK(held.grammar->source().size() < 10 * schema.size());
}

TEST_CASE("calls: as many are held as the parser reads") {
  const ReplyFormat format = find_reply_format("[TOOL_CALLS]");
  const ToolRequest request = asked(ToolChoice::Kind::kAuto);
  const std::string one = R"({"name": "clock", "arguments": {}})";
  std::string most = "[TOOL_CALLS][" + one;
  for (size_t n = 1; n < ReplyParser::kMaxCalls; ++n) most += ", " + one;
  Held held(text_or_calls(format, request, true, false));
  CHECK(held.takes(most + "]"));
  CHECK_FALSE(held.begins(most + ", "));
}

TEST_CASE("calls: of a held list where one may come, the first comes out") {
  ReplyParser::Options one = held_options("[TOOL_CALLS]", asked(ToolChoice::Kind::kAuto));
  const std::string two = R"([TOOL_CALLS][{"name": "clock", "arguments": {"a": 1}}, )"
                          R"({"name": "get_weather", "arguments": {"b": 2}}])";
  CHECK(parsed(one, two) == R"(||clock({"a": 1})get_weather({"b": 2}))");
  one.several = false;
  CHECK(parsed(one, two) == R"(||clock({"a": 1}))");
}

}  // namespace reply_parser_calls_test
