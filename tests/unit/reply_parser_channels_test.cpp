// Replies in channels (gpt-oss): analysis, final, calls of functions, what is neither, and what the
// grammar of held ones takes. Every text is also cut in two at every byte, and read byte by byte.
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/matcher.h"
#include "grammar/token_grammar.h"
#include "parsed_reply.h"
#include "piece_tokenizer.h"
#include "server/call_grammar.h"

namespace reply_parser_channels_test {

using namespace specbound;
using namespace specbound::server;
using namespace specbound::test;

namespace {

constexpr const char* kChannels = "<|channel|>commentary <|call|>";
const std::string kOslo = R"({"city": "Oslo"})";
const std::string kNext = "<|start|>assistant";

std::string message(const std::string& head, const std::string& body) {
  return "<|channel|>" + head + "<|message|>" + body;
}
std::string call(const std::string& name, const std::string& arguments) {
  return message("commentary to=functions." + name + " <|constrain|>json", arguments);
}

const std::string kHm = message("analysis", "Hm.") + "<|end|>" + kNext;

ToolRequest asked(ToolChoice::Kind kind) {
  ToolRequest request{
      .tools = {{.name = "get_weather",
                 .parameters = R"({"type": "object", "properties": {"city": {"const": "Oslo"}},
                                   "required": ["city"]})",
                 .strict = true},
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

}  // namespace

TEST_CASE("channels: analysis is thoughts, final is text, with tools and without") {
  for (const bool with_tools : {false, true}) {
    const auto style = options(kChannels, with_tools);
    for (const std::string end : {"", "<|end|>", "<|return|>"}) {
      CAPTURE(end);
      const std::string shown = end == "<|return|>" ? end : "";  // else an end token: not here
      CHECK(parsed(style, kHm + message("final", "Yes <b>.\n") + end) ==
            "Hm.|Yes <b>.\n" + shown + "|");
      CHECK(parsed(style, message("final", "Yes.") + end) == "|Yes." + shown + "|");
      CHECK(parsed(style, message("analysis", " Hm.\n") + end) ==
            "Hm." + (shown.empty() ? "" : "\n" + shown) + "||");
    }
    CHECK(parsed(style, kHm + kHm) == "Hm.\nHm.||");
    // Several of one kind are joined by a line end, white space between messages is none of text.
    CHECK(parsed(style, message("analysis", "a\n") + "<|end|>" + kNext + message("analysis", " b") +
                            "<|end|>" + kNext + message("commentary", "I look.") + "<|end|>\n" +
                            kNext + message("final", " Done.")) == "a\n b|I look.\n Done.|");
    // No channel, no head of a second message.
    CHECK(parsed(style, "<|message|>Yes.") == "|Yes.|");
    CHECK(parsed(style, message("analysis", "Hm.") + "<|end|>" + message("final", "Yes.")) ==
          "Hm.|Yes.|");
  }
}

TEST_CASE("channels: what is no message is text, byte for byte; heads alone are none") {
  const auto style = options(kChannels);
  for (const std::string text : {"",
                                 " ",
                                 "Hello.",
                                 "to",
                                 "to be",
                                 "<|",
                                 "<|channel",
                                 "{\"name\": \"clock\"}",
                                 "<|start|>user<|message|>Me?<|end|>",
                                 "<|start|>functions.clock to=assistant<|message|>x",
                                 "<|channel|>commentary to=python<|message|>1<|end|>",
                                 "<|channel|>commentary to=functions.",
                                 "<|channel|>commentary to=functions.<|message|>{}",
                                 "<|channel|>commentary to=functions.clock<|message|>",
                                 "<|channel|>commentary to=functions.clock<|message|>no",
                                 "<|channel|>commentary to=functions.clock<|message|>[1]",
                                 "<|channel|>commentary to=functions.clock<|message|>{\"a\"",
                                 "<|channel|>commentary to=functions.clock<|message|>{1}<|end|>",
                                 "<|channel|>Hello.",
                                 "<|channel|>analysis Hello",
                                 "<|channel|>other",
                                 "<|start|>user",
                                 "<|channel|>final json x",
                                 "<|start|>assistant<|channel|>Hello <|end|> there"}) {
    CAPTURE(text);
    CHECK(parsed(style, text) == "|" + text + "|");
  }
  const std::string long_one = "<|channel|>" + std::string(ReplyParser::kMaxHead, 'x');
  CHECK(parsed(style, long_one) == "|" + long_one + "|");
  for (const char* head : {"<|channel|>", "<|channel|>analysis", "<|channel|>fin",
                           "<|channel|>final <|constrain|>json", "<|start|>assistant",
                           "<|start|>assistant<|channel|>commentary<|mess"}) {
    CHECK(parsed(style, head) == "||");
  }
  for (const char* cut : {"<|end|><|start|>assis", "<|end|>\n<|sta", "<|end|> "}) {
    CHECK(parsed(style, message("final", "Yes.") + cut) == "|Yes.|");
  }
  // Without tools a call is text.
  CHECK(parsed(options(kChannels, false), call("clock", "{}")) == "|" + call("clock", "{}") + "|");
}

TEST_CASE("channels: what spells an end is text where no message and no end of the reply follows") {
  for (const bool with_tools : {false, true}) {
    const auto style = options(kChannels, with_tools);
    const std::string begun = "<|channel|> is " + std::string(ReplyParser::kMaxHead, 'x');
    for (const std::string& text :
         {std::string("The mark <|end|> ends it."), std::string("a <|end|>\n <|end|><|return|> b"),
          std::string("<|end|>x"), "<|end|> and " + begun, "<|end|>" + begun + "<|end|>y",
          std::string("<|end|><|channel|>Hello"), std::string("a<|end|><|endx <|e")}) {
      CAPTURE(text);
      CHECK(parsed(style, message("final", text)) == "|" + text + "|");
      CHECK(parsed(style, "Hello " + text) == "|Hello " + text + "|");
      CHECK(parsed(style, message("analysis", text) + "<|end|>" + message("final", "Yes.")) ==
            text + "|Yes.|");
    }
    const std::string others = "<|start|>user<|message|>Me <|end|> too<|end|>";
    CHECK(parsed(style, others) == "|" + others + "|");
    const std::string cut = "<|channel|>commentary to=functions.cl";
    CHECK(parsed(style, message("final", "Yes.") + "<|end|>" + cut) == "|Yes." + cut + "|");
  }
}

TEST_CASE("channels: calls, behind thoughts and text, several or one") {
  auto style = options(kChannels);
  const std::string one = call("get_weather", kOslo);
  CHECK(parsed(style, kHm + one) == "Hm.||get_weather(" + kOslo + ")");
  CHECK(parsed(style, one + "<|call|>") == "||get_weather(" + kOslo + ")");
  CHECK(parsed(style, kHm + message("commentary", "I look.") + "<|end|>" + kNext + one) ==
        "Hm.|I look.|get_weather(" + kOslo + ")");
  // As templates write past ones, in any channel, with blanks and without a type.
  CHECK(parsed(style, " to=functions.clock<|channel|>commentary json<|message|>{}<|call|>") ==
        "||clock({})");
  CHECK(parsed(style, message("analysis to=functions.clock", "\n {} ")) == "||clock({})");
  const std::string two = one + "<|call|>" + kNext + call("clock", "{}") + "<|call|>";
  CHECK(parsed(style, two) == "||get_weather(" + kOslo + ")clock({})");
  style.several = false;
  CHECK(parsed(style, two) ==
        "|" + kNext + call("clock", "{}") + "<|call|>|get_weather(" + kOslo + ")");
}

TEST_CASE("channels: thoughts that are not split off stay as they are, the rest is read") {
  auto style = options(kChannels);
  style.splits_thoughts = false;
  const std::string thoughts = message("analysis", "Hm.") + "<|end|>";
  CHECK(parsed(style, thoughts + kNext + message("final", "Yes.")) == "|" + thoughts + "\nYes.|");
  CHECK(parsed(style, thoughts + kNext + call("clock", "{}")) == "|" + thoughts + "|clock({})");
}

TEST_CASE("channels: the rest of a message that was begun") {
  auto style = options(kChannels);
  style.goes_on = true;
  CHECK(parsed(style, "to=functions. <|channel|>") == "|to=functions. <|channel|>|");
  CHECK(parsed(style, " sunny.<|end|>" + kNext + call("clock", "{}")) == "| sunny.|clock({})");
}

TEST_CASE("channels: a call that must be is nothing else") {
  for (const auto kind : {ToolChoice::Kind::kNamed, ToolChoice::Kind::kRequired}) {
    const ToolRequest request = asked(kind);
    Held held(call_alternatives(find_reply_format(kChannels), request));
    CHECK(held.takes(call("get_weather", kOslo)));
    CHECK_FALSE(held.begins(call("get_weather", R"({"city": "R)")));
    CHECK_FALSE(held.begins(message("analysis", "")));
    CHECK(held.takes(call("clock", "{}")) == (kind == ToolChoice::Kind::kRequired));
  }
  // Behind a message that was begun it ends that first.
  CompletionRequest request;
  request.chat = true;
  request.conversation.messages = {{ChatMessage::Role::kAssistant, "It is"}};
  request.conversation.continues = true;
  request.conversation.tools = asked(ToolChoice::Kind::kNamed);
  request.settings.grammar = compiled(*held_calls(find_reply_format(kChannels), false, request));
  GrammarMatcher matcher(request.settings.grammar->automaton());
  CHECK(matcher.accepts(
      matcher.next(matcher.start(), "<|end|>" + kNext + call("get_weather", kOslo))));
}

TEST_CASE("channels: strict calls are held, thoughts and text are free") {
  const ReplyFormat format = find_reply_format(kChannels);
  ToolRequest request = asked(ToolChoice::Kind::kAuto);
  const std::string good = call("get_weather", kOslo), bad = call("get_weather", R"({"city": "R)");
  ReplyParser::Options style = options(kChannels);
  style.tools = request.tools;
  style.held = true;
  style.bare = ReplyParser::Options::Bare::kNone;
  for (const bool goes_on : {false, true}) {
    style.goes_on = goes_on;
    Held held(text_or_calls(format, request, true, false, goes_on));
    const std::string begin = goes_on ? " sunny.<|end|>" + kNext : "";
    const std::string text = goes_on ? " sunny." : "";
    CHECK(held.takes(begin + message("final", "a\xff <|channel|>commentary to=functions.")));
    CHECK(held.takes(begin + kHm + message("final", "")));
    CHECK(held.takes(begin + kHm + good));
    CHECK(parsed(style, begin + kHm + good) == "Hm.|" + text + "|get_weather(" + kOslo + ")");
    CHECK_FALSE(held.begins(begin + kHm + bad));
    CHECK_FALSE(held.begins(begin + bad));
    CHECK_FALSE(held.begins(begin + good + "x"));
    CHECK_FALSE(held.begins(begin + good + "<"));  // <|call|> ends a reply
    CHECK(held.takes(begin + call("clock", R"({"any": [1]})")));
  }
  Held held(text_or_calls(format, request, true, false));
  for (const char* other : {"Hello.", "<|start|>", "<|channel|>other"}) {
    CHECK_FALSE(held.begins(other));
  }
  // Arguments come out as they are written.
  style.goes_on = false;
  ReplyParser parser(style);
  const size_t at = good.find("Oslo");
  CHECK(parser.push(std::string_view(good).substr(0, at)).calls.at(0).arguments == R"({"city": ")");
  CHECK(parser.push("Os").calls.at(0).goes_on);
  CHECK(parser.finish().text.empty());
}

TEST_CASE("channels: control tokens spell heads and ends, and end a reply where they do") {
  const PieceTokenizer tokenizer(byte_pieces({{"<|return|>", true, true},
                                              {"<|call|>", true, true},
                                              {"<|channel|>", true},
                                              {"<|message|>", true},
                                              {"<|end|>", true},
                                              {"<|start|>", true},
                                              {"<|hidden|>", true}}));
  CompletionRequest request;
  request.chat = true;
  request.conversation.messages = {{ChatMessage::Role::kUser, "?"}};
  request.conversation.tools = asked(ToolChoice::Kind::kAuto);
  request.settings.grammar = compiled(*held_calls(find_reply_format(kChannels), false, request));
  const TokenGrammar held(request.settings.grammar, trie_of(tokenizer));
  TokenGrammar::Path path;
  std::vector<int32_t> reply;
  const auto say = [&](std::string_view text) {
    for (const char c : text) reply.push_back(static_cast<uint8_t>(c));
  };
  CHECK(held.allows(reply, 258, path));
  CHECK_FALSE(held.allows(reply, 256, path));
  reply.push_back(258);
  say("analysis");
  reply.push_back(259);
  CHECK(held.allows(reply, 256, path));
  CHECK(held.allows(reply, 262, path));
  say("<|en");
  reply.push_back(262);
  say("d|>");
  CHECK_FALSE(held.allows(reply, 'x', path));  // that ended it
  CHECK(held.allows(reply, 261, path));
  reply.push_back(261);
  say("assistant");
  reply.push_back(258);
  say("commentary to=functions.get_weather <|constrain|>json");
  CHECK_FALSE(held.allows(reply, 262, path));
  reply.push_back(259);
  say(kOslo);
  CHECK(held.allows(reply, 257, path));
  CHECK(held.mask(reply, path)->has(257));
}

}  // namespace reply_parser_channels_test
