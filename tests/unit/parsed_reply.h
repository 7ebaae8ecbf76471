// A reply as the parser takes it apart, however it is cut.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/reply_parser.h"

namespace specbound::test {

using namespace specbound::server;

// Those of all tests: one with a text, one without arguments.
inline const std::vector<Tool>& tools() {
  static const std::vector<Tool> all = {{.name = "get_weather", .text_parameters = {"city"}},
                                        {.name = "clock"}};
  return all;
}

// `jinja`: a template's text.
inline ReplyParser::Options options(std::string_view jinja, bool with_tools = true) {
  ReplyParser::Options out;
  out.format = find_reply_format(jinja);
  out.splits_thoughts = true;
  if (with_tools) out.tools = tools();
  return out;
}

inline void add(ReplyPieces& all, ReplyPieces pieces) {
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

// "thoughts|text|name(arguments)..."
inline std::string shown(const ReplyPieces& pieces) {
  std::string out = pieces.thoughts + "|" + pieces.text + "|";
  for (const CallText& call : pieces.calls) out += call.name + "(" + call.arguments + ")";
  return out;
}

inline std::string read(const ReplyParser::Options& options,
                        const std::vector<std::string_view>& parts) {
  ReplyParser parser(options);
  ReplyPieces all;
  for (const std::string_view part : parts) add(all, parser.push(part));
  add(all, parser.finish());
  return shown(all);
}

// However it is cut, the same comes out.
inline std::string parsed(const ReplyParser::Options& options, std::string_view text) {
  std::string whole = read(options, {text});
  std::vector<std::string_view> bytes;
  for (size_t at = 0; at < text.size(); ++at) {
    CAPTURE(at);
    CHECK(read(options, {text.substr(0, at), text.substr(at)}) == whole);
    bytes.push_back(text.substr(at, 1));
  }
  CHECK(read(options, bytes) == whole);
  return whole;
}

}  // namespace specbound::test
