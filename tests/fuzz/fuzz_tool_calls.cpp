// Any bytes as a reply in each syntax of calls, cut anywhere: what comes out does not depend on the
// cuts, calls are JSON objects, and without calls and thoughts the text is the reply. The first two
// bytes of an input say which syntax it is and how it is cut. Begins with a call in each.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "empty_corpus.h"
#include "error.h"
#include "server/json_body.h"
#include "server/reply_parser.h"

namespace {

using namespace specbound;
using namespace specbound::server;

// What stands in a template of each syntax, and a reply that calls by it.
struct Style {
  const char *jinja, *call;
};
constexpr Style kStyles[] = {
    {"", R"({"name": "f", "arguments": {"a": [1, "x"]}})"},
    {"<tool_call>", "Hi <tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n"},
    {"<think> <tool_call> <parameter=",
     "<tool_call>\n<function=f>\n<parameter=t>\n1\n</parameter>\n</function>\n</tool_call>"},
    {"[THINK] [TOOL_CALLS]", R"([TOOL_CALLS][{"name": "f", "arguments": {}}])"},
    {"[TOOL_CALLS] [ARGS]", "[TOOL_CALLS]f[CALL_ID]1[ARGS]{}[TOOL_CALLS]g[ARGS]{}"},
    {"<｜tool▁calls▁begin｜> <think>",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜><"
     "｜tool▁calls▁end｜>"},
    {"<｜tool▁calls▁begin｜> ```json",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```"
     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
    {"<|python_tag|>", R"(<|python_tag|>{"name": "f", "parameters": {}})"},
    {"<|tool_calls_section_begin|> <think>",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}"
     "<|tool_call_end|><|tool_calls_section_end|>"},
    {"<|START_ACTION|> <|START_THINKING|>",
     R"(<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": {}}])"
     "<|END_ACTION|>"},
    {"<tool_call> <arg_key> <think>",
     "<tool_call>f\n<arg_key>t</arg_key>\n<arg_value>1</arg_value>\n</tool_call>"},
    {"<|channel|>commentary <|call|>",
     "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>"},
    {"Action: \"tool_name\"", "Action: ```json\n[{\"tool_name\": \"f\", \"parameters\": {}}]\n```"},
};

// `how`: with 0x80 calls come out as they are written, whole or not.
ReplyParser::Options options(uint8_t which, uint8_t how) {
  ReplyParser::Options out;
  out.format = find_reply_format(kStyles[which % std::size(kStyles)].jinja);
  out.splits_thoughts = which & 0x10;
  out.thinks = which & 0x20;
  out.several = !(which & 0x40);
  out.held = how & 0x80;
  out.goes_on = how & 0x40;
  if (!(which & 0x80)) out.tools = {{.name = "f", .text_parameters = {"t"}}, {.name = "g"}};
  return out;
}

void add(ReplyPieces& all, ReplyPieces pieces) {
  all.text += pieces.text;
  all.thoughts += pieces.thoughts;
  for (CallText& call : pieces.calls) {
    if (call.goes_on) {
      all.calls.back().arguments += call.arguments;
    } else {
      all.calls.push_back(std::move(call));
    }
  }
}

ReplyPieces read(const ReplyParser::Options& options, std::string_view text, size_t step) {
  ReplyParser parser(options);
  ReplyPieces all;
  for (size_t at = 0; at < text.size(); at += step) add(all, parser.push(text.substr(at, step)));
  add(all, parser.finish());
  return all;
}

bool same(const CallText& a, const CallText& b) {
  return a.name == b.name && a.arguments == b.arguments;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  std::vector<std::string> seeds;
  for (size_t i = 0; i < std::size(kStyles); ++i) {
    const std::string call = kStyles[i].call;
    SB_CHECK(!read(options(static_cast<uint8_t>(i), 0), call, call.size()).calls.empty());
    seeds.push_back(std::string{static_cast<char>(i), static_cast<char>(i)} + call);
  }
  specbound::test::fill_empty_corpus(*argc, *argv, seeds);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const ReplyParser::Options how = options(data[0], data[1]);
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const ReplyPieces whole = read(how, text, std::max<size_t>(text.size(), 1));
  const ReplyPieces cut = read(how, text, 1 + data[1] % 16);
  SB_CHECK(whole.text == cut.text && whole.thoughts == cut.thoughts);
  SB_CHECK(
      std::equal(whole.calls.begin(), whole.calls.end(), cut.calls.begin(), cut.calls.end(), same));
  SB_CHECK(whole.text.size() + whole.thoughts.size() <= text.size());
  SB_CHECK(whole.calls.size() <= ReplyParser::kMaxCalls);
  SB_CHECK(how.several || whole.calls.size() <= 1);
  SB_CHECK(!how.tools.empty() || whole.calls.empty());
  for (const CallText& call : whole.calls) {
    SB_CHECK(!call.name.empty());
    SB_CHECK(how.held || Json::parse(call.arguments).is_object());
  }
  const bool thoughts = how.format.syntax == CallSyntax::kHarmony ||
                        (how.splits_thoughts && !how.format.think_open.empty());
  if (whole.calls.empty() && !thoughts) SB_CHECK(whole.text == text);
  return 0;
}
