// Formats that are kept for later requests: by their text and kind, so many and so large.
#include "server/kept_formats.h"

#include <doctest/doctest.h>

#include <string>

#include "server/call_grammar.h"
#include "server/response_format.h"

namespace kept_formats_test {

using namespace specbound;
using namespace specbound::server;

namespace {

ResponseFormat literal(const std::string& text) {
  return {"grammar", "root ::= \"" + text + '"', true};
}

using Kept = KeptFormats<ResponseFormat>;

Grammar::Shared keep(Kept& kept, const ResponseFormat& format) {
  Grammar::Shared grammar = compiled(format);
  kept.keep(format, grammar);
  return grammar;
}

}  // namespace

TEST_CASE("kept formats: the same text and kind is found, whatever field asks for it") {
  Kept kept;
  const ResponseFormat schema = {"json_schema", R"({"type": "string"})"};
  CHECK(kept.find(schema) == nullptr);
  const Grammar::Shared grammar = keep(kept, schema);
  CHECK(kept.find(schema) == grammar);
  CHECK(kept.find({"response_format", schema.text}) == grammar);
  CHECK(kept.find({"grammar", schema.text, true}) == nullptr);
  CHECK(kept.find({"json_schema", R"({"type": "number"})"}) == nullptr);
}

TEST_CASE("kept formats: the oldest goes first") {
  Kept kept;
  for (size_t i = 0; i < Kept::kMost; ++i) keep(kept, literal(std::to_string(i)));
  CHECK(kept.find(literal("0")) != nullptr);  // now the newest
  keep(kept, literal("a"));
  CHECK(kept.find(literal("1")) == nullptr);
  CHECK(kept.find(literal("0")) != nullptr);
  CHECK(kept.find(literal("2")) != nullptr);
  // As few as make room for large ones, the newest always.
  const std::string large(200'000, 'a');  // nodes for each byte
  for (const char* number : {"1", "2", "3", "4", "5"}) keep(kept, literal(large + number));
  CHECK(kept.find(literal(large + "1")) == nullptr);
  CHECK(kept.find(literal(large + "5")) != nullptr);
  CHECK(kept.find(literal("0")) == nullptr);
}

TEST_CASE("kept formats: calls are found by their parts and the marks that are shown") {
  KeptFormats<HeldCalls> kept;
  const auto calls = [](const std::string& schema, std::vector<std::string> shown) {
    return HeldCalls{{{GrammarPart::literal("<tool>"), GrammarPart::schema(schema)}},
                     std::move(shown)};
  };
  const HeldCalls asked = calls(R"({"type": "string"})", {"<tool>"});
  const Grammar::Shared grammar = compiled(asked);
  kept.keep(asked, grammar);
  CHECK(kept.find(calls(R"({"type": "string"})", {"<tool>"})) == grammar);
  CHECK(kept.find(calls(R"({"type": "string"})", {})) == nullptr);
  CHECK(kept.find(calls(R"({"type": "number"})", {"<tool>"})) == nullptr);
}

}  // namespace kept_formats_test
