// Any bytes as a reply in each syntax of calls, cut anywhere: what comes out does not depend on the
// cuts, calls are JSON objects, and without calls and thoughts the text is the reply. The first two
// bytes of an input say which syntax it is and how it is cut.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "error.h"
#include "server/json_body.h"
#include "server/reply_parser.h"

namespace {

using namespace specbound;
using namespace specbound::server;

constexpr const char* kTemplates[] = {
    "",
    "<tool_call>",
    "<think> <tool_call> <parameter=",
    "[THINK] [TOOL_CALLS]",
    "[TOOL_CALLS] [ARGS]",
    "<｜tool▁calls▁begin｜> <think>",
    "<｜tool▁calls▁begin｜> ```json",
    "<|python_tag|>",
    "<|tool_calls_section_begin|> <think>",
    "<|START_ACTION|> <|START_THINKING|>",
    "<tool_call> <arg_key> <think>",
    "<|channel|>commentary <|call|>",
    "Action: \"tool_name\"",
};

// `how`: with 0x80 calls come out as they are written, whole or not.
ReplyParser::Options options(uint8_t which, uint8_t how) {
  ReplyParser::Options out;
  out.format = find_reply_format(kTemplates[which % std::size(kTemplates)]);
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
