// Tools, calls and what else a chat template is given, read from JSON: as OpenAI's clients send
// them, and as nobody should.
#include <doctest/doctest.h>

#include <string>

#include "server/api_error.h"
#include "server/completion_request.h"
#include "server/ordered_json.h"

namespace server_request_tools_test {

using namespace specbound;
using namespace specbound::server;
using Role = ChatMessage::Role;
using Kind = ToolChoice::Kind;

namespace {

const std::string kUser = R"({"role": "user", "content": "hi"})";
const std::string kTool = R"({"type": "function", "function": {"name": "f", "description": "d",
  "parameters": {"type": "object", "properties": {"z": {"type": "string"}, "a": {"type": "integer"},
  "m": {}, "e": {"enum": ["x", "y"]}, "n": {"enum": ["x", 1]},
  "o": {"anyOf": [{"type": "string"}, {"enum": ["z"]}]},
  "p": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}}})";

Chat chat(const std::string& messages, const std::string& fields = "") {
  const std::string more = fields.empty() ? "" : ", " + fields;
  return parse_chat(R"({"messages": [)" + messages + "]" + more + "}", {}, 512).conversation;
}

// The field that an error names.
std::string refused(const std::string& messages, const std::string& fields = "") {
  CAPTURE(messages);
  CAPTURE(fields);
  try {
    chat(messages, fields);
  } catch (const ApiError& e) {
    CHECK(e.status() == 400);
    CHECK(std::string(e.what()).starts_with(e.param()));
    return e.param();
  }
  return "nothing";
}

std::string with_tool(const std::string& function) {
  return refused(kUser, R"("tools": [{"type": "function", "function": )" + function + "}]");
}

std::string with_call(const std::string& call) {
  return refused(R"({"role": "assistant", "tool_calls": [)" + call + "]}");
}

}  // namespace

TEST_CASE("server request tools: tools arrive, their schemas with keys in order") {
  const Chat talk = chat(kUser, R"("tools": [)" + kTool + R"(, {"type": "function", "function":
    {"name": "g", "strict": false}}], "parallel_tool_calls": false)");
  REQUIRE(talk.tools.tools.size() == 2);
  const Tool& tool = talk.tools.tools[0];
  CHECK(tool.name == "f");
  CHECK(tool.parameters.starts_with(R"({"type":"object","properties":{"z":{"type":"string"},)"
                                    R"("a":{"type":"integer"},"m":{},"e")"));
  CHECK(tool.text_parameters == std::vector<std::string>{"e", "o", "z"});
  CHECK(talk.tools.tools[1].parameters == R"({"type":"object","properties":{}})");
  CHECK(talk.tools.choice.kind == Kind::kAuto);
  CHECK_FALSE(talk.tools.parallel);
  REQUIRE(talk.tools.as_given.size() == 2);
  CHECK(*talk.tools.as_given[1].find("function")->find("name")->text() == "g");
  // With none the model is told of none.
  const Chat none = chat(kUser, R"("tools": [)" + kTool + R"(], "tool_choice": "none")");
  CHECK(none.tools.tools.empty());
  CHECK(none.tools.as_given.empty());
  CHECK(chat(kUser, R"("tools": [], "tool_choice": "auto")").tools.choice.kind == Kind::kNone);
}

TEST_CASE("server request tools: calls and their results arrive") {
  const Chat talk = chat(kUser + R"(,
    {"role": "assistant", "content": null, "reasoning_content": "hm", "refusal": null,
     "tool_calls": [
       {"id": "1", "type": "function",
        "function": {"name": "f", "arguments": "{\"z\": 1, \"a\":2}"}},
       {"id": "2", "type": "function", "function": {"name": "g", "arguments": "{"}},
       {"id": "3", "function": {"name": "h", "arguments": {"b": [null, 1.5, true]}}}]},
    {"role": "tool", "tool_call_id": "2", "content": "two"},
    {"role": "tool", "tool_call_id": "1", "name": "own",
     "content": [{"type": "text", "text": "x"}, {"type": "text", "text": " y "}]},
    {"role": "tool", "tool_call_id": "9", "content": ""})");
  REQUIRE(talk.messages.size() == 5);
  const ChatMessage& called = talk.messages[1];
  CHECK(called.content.empty());
  CHECK(called.reasoning == "hm");
  REQUIRE(called.calls.size() == 3);
  CHECK(called.calls[0].arguments == R"({"z": 1, "a":2})");
  CHECK(json_of(called.calls[0].values) == R"({"z":1,"a":2})");
  CHECK(called.calls[1].values.is_null());
  CHECK(called.calls[2].arguments == R"({"b":[null,1.5,true]})");
  CHECK(talk.messages[2].role == Role::kTool);
  CHECK(talk.messages[2].call_id == "2");
  CHECK(talk.messages[2].name == "g");
  CHECK(talk.messages[3].name == "own");
  CHECK(talk.messages[3].content == "x\n y ");
  CHECK(talk.messages[4].name.empty());
  CHECK(talk.asks);
  CHECK_FALSE(talk.continues);
}

TEST_CASE("server request tools: the assistant's message goes on where it comes last") {
  const std::string begun = kUser + R"(, {"role": "assistant", "content": "It is"})";
  CHECK(chat(begun).continues);
  CHECK(chat(begun, R"("add_generation_prompt": false)").continues);
  CHECK_FALSE(chat(begun, R"("add_generation_prompt": true)").continues);
  CHECK_FALSE(chat(kUser, R"("add_generation_prompt": false)").asks);
  CHECK_FALSE(chat(kUser).continues);
  // With nothing begun it is a reply to what stands in front, which must be something. What is
  // white space is the template's to say.
  for (const std::string blank : {" \\n", "\\u00a0", "\\u2003\\u000b"}) {
    const std::string last = R"({"role": "assistant", "content": ")" + blank + "\"}";
    CHECK(refused(last) == "messages");
    CHECK_FALSE(chat(kUser + ", " + last).goes_on());
  }
  CHECK(chat(begun).goes_on());
}

TEST_CASE("server request tools: variables of the template arrive in order") {
  const Chat talk = chat(kUser, R"("chat_template_kwargs": {"enable_thinking": false, "a": [1]})");
  REQUIRE(talk.variables.size() == 2);
  CHECK(talk.variables[0].first == "enable_thinking");
  CHECK(std::get<bool>(talk.variables[0].second.value) == false);
  CHECK(refused(kUser, R"("chat_template_kwargs": [])") == "chat_template_kwargs");
  CHECK(refused(kUser, R"("chat_template_kwargs": {"messages": []})") ==
        "chat_template_kwargs.messages");
}

TEST_CASE("server request tools: whether calls are held follows from the choice and from strict") {
  const auto tools = [](const std::string& strict, const std::string& choice) {
    return chat(kUser, R"("tools": [{"type": "function", "function": {"name": "f", "strict": )" +
                           strict + R"(}}], "tool_choice": )" + choice)
        .tools;
  };
  CHECK(tools("true", R"("auto")").strict());
  CHECK(tools("true", R"("auto")").held());
  CHECK_FALSE(tools("true", R"("auto")").must());
  CHECK_FALSE(tools("false", R"("auto")").held());
  CHECK(tools("false", R"("required")").must());
  CHECK_FALSE(tools("true", R"("required")").strict());
  CHECK_FALSE(tools("true", R"("none")").held());
}

TEST_CASE("server request tools: arguments are an object, whatever the schema says") {
  const auto schema = [](const std::string& parameters) {
    return chat(kUser,
                R"("tools": [{"type": "function", "function": {"name": "f", "parameters": )" +
                    parameters + "}}]")
        .tools.tools[0]
        .parameters;
  };
  CHECK(schema("{}") == R"({"type":"object"})");
  CHECK(schema(R"({"type": "object", "nullable": true})") == R"({"type":"object"})");
  CHECK(schema(R"({"$schema": "s", "properties": {}})") ==
        R"({"type":"object","$schema":"s","properties":{}})");
  CHECK(schema(R"({"properties": {}, "type": ["object", "null"]})") ==
        R"({"properties":{},"type":"object"})");
  CHECK(schema(R"({"$ref": "#/$defs/a", "$defs": {"a": {}}})") ==
        R"({"type":"object","allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{}}})");
  CHECK(schema(R"({"anyOf": [{"type": "null"}, {"type": "object", "properties": {}}]})") ==
        R"({"type":"object","anyOf":[{"type":"object","properties":{}}]})");
}

TEST_CASE("server request tools: what is wrong is named by its place") {
  CHECK(refused(kUser, R"("tools": {})") == "tools");
  CHECK(refused(kUser, R"("tools": [1])") == "tools[0]");
  CHECK(refused(kUser, R"("tools": [{}])") == "tools[0].type");
  CHECK(refused(kUser, R"("tools": [{"type": "function"}])") == "tools[0].function");
  CHECK(with_tool("{}") == "tools[0].function.name");
  CHECK(with_tool(R"({"name": "a b"})") == "tools[0].function.name");
  CHECK(with_tool("{\"name\": \"" + std::string(65, 'n') + "\"}") == "tools[0].function.name");
  CHECK(with_tool(R"({"name": "f", "description": 1})") == "tools[0].function.description");
  CHECK(with_tool(R"({"name": "f", "parameters": []})") == "tools[0].function.parameters");
  CHECK(with_tool(R"({"name": "f", "parameters": {"type": "string"}})") ==
        "tools[0].function.parameters.type");
  CHECK(with_tool(R"({"name": "f", "parameters": {"properties": 1}})") ==
        "tools[0].function.parameters.properties");
  CHECK(with_tool(R"({"name": "f", "strict": 1})") == "tools[0].function.strict");
  CHECK(refused(kUser, R"("tools": [)" + kTool + "," + kTool + "]") == "tools[1].function.name");
  std::string many = kTool;
  for (size_t i = 0; i < kMaxTools; ++i) many += "," + kTool;
  CHECK(refused(kUser, R"("tools": [)" + many + "]") == "tools");
  std::string list = "1";
  for (size_t i = 0; i < kMaxChatValues; ++i) list += ",1";
  CHECK(with_tool(R"({"name": "f", "parameters": {"enum": [)" + list + "]}}") == "tools");
  CHECK(refused(kUser, R"("chat_template_kwargs": {"a": [)" + list + "]}") ==
        "chat_template_kwargs");
  CHECK(with_call(R"({"function": {"name": "f", "arguments": {"a": [)" + list + "]}}}") ==
        "messages");
  const std::string tools = R"("tools": [)" + kTool + "], ";
  CHECK(refused(kUser, R"("tool_choice": "required")") == "tool_choice");
  CHECK(refused(kUser, tools + R"("tool_choice": "any")") == "tool_choice");
  CHECK(
      refused(kUser, tools + R"("tool_choice": {"type": "function", "function": {"name": "g"}})") ==
      "tool_choice.function.name");
  CHECK(refused(kUser, tools + R"("parallel_tool_calls": 1)") == "parallel_tool_calls");

  CHECK(refused(R"({"role": "user", "content": "x", "tool_calls": [{}]})") ==
        "messages[0].tool_calls");
  CHECK(refused(R"({"role": "assistant", "content": "x", "tool_calls": 1})") ==
        "messages[0].tool_calls");
  CHECK(refused(R"({"role": "assistant", "content": null})") == "messages[0].content");
  CHECK(chat(kUser + R"(, {"role": "developer", "content": "x"})").asks);
  CHECK(with_call("1") == "messages[0].tool_calls[0]");
  CHECK(with_call("{}") == "messages[0].tool_calls[0].function");
  CHECK(with_call(R"({"type": "x", "function": {}})") == "messages[0].tool_calls[0].type");
  CHECK(with_call(R"({"function": {}})") == "messages[0].tool_calls[0].function.name");
  CHECK(with_call(R"({"function": {"name": "f"}})") ==
        "messages[0].tool_calls[0].function.arguments");
  CHECK(with_call(R"({"function": {"name": "f", "arguments": 1}})") ==
        "messages[0].tool_calls[0].function.arguments");
  CHECK(with_call(R"({"id": 1, "function": {"name": "f", "arguments": "{}"}})") ==
        "messages[0].tool_calls[0].id");
  CHECK(with_call("{\"id\": \"" + std::string(300, 'i') + "\", \"function\": {\"name\": \"f\"}}") ==
        "messages[0].tool_calls[0].id");
  CHECK(refused(R"({"role": "tool", "content": "x", "tool_call_id": 1})") ==
        "messages[0].tool_call_id");
  CHECK(refused(R"({"role": "assistant", "content": "x", "function_call": {"name": "f"}})") ==
        "messages[0].function_call");
}

TEST_CASE("server request tools: arguments as deep as a body may be are text, deeper ones too") {
  const auto call = [](int depth) {
    std::string json;
    for (int i = 0; i < depth; ++i) json += R"({\"a\":)";
    json += "1" + std::string(depth, '}');
    return chat(kUser + R"(, {"role": "assistant", "tool_calls": [{"function": {"name": "f",
      "arguments": ")" +
                json + R"("}}]})")
        .messages[1]
        .calls[0];
  };
  CHECK_FALSE(call(30).values.is_null());
  CHECK(call(5000).values.is_null());
  CHECK(call(5000).arguments.size() == 5000 * 6 + 1);
}

TEST_CASE("server request tools: JSON keeps the order of its keys, and the last of repeated ones") {
  const std::string text = R"({"b":1,"a":{"z":[],"y":{}},"c":[[1,-2.5],"x\"é",null,true,{"k":0}]})";
  CHECK(json_of(ordered_value(text)) == text);
  CHECK(json_of(ordered_value(R"({"a": 1, "b": 2, "a": 3})")) == R"({"a":3,"b":2})");
  CHECK(json_of(ordered_value("18446744073709551615")) == "1.8446744073709552e+19");
}

}  // namespace server_request_tools_test
