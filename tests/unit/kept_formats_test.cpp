// Formats that are kept for later requests: by their text and kind, so many and so large.
#include "server/kept_formats.h"

#include <doctest/doctest.h>

#include <string>

namespace kept_formats_test {

using namespace specbound;
using namespace specbound::server;

namespace {

ResponseFormat literal(const std::string& text) {
  return {"grammar", "root ::= \"" + text + '"', true};
}

Grammar::Shared keep(KeptFormats& kept, const ResponseFormat& format) {
  Grammar::Shared grammar = compiled(format);
  kept.keep(format, grammar);
  return grammar;
}

}  // namespace

TEST_CASE("kept formats: the same text and kind is found, whatever field asks for it") {
  KeptFormats kept;
  const ResponseFormat schema = {"json_schema", R"({"type": "string"})"};
  CHECK(kept.find(schema) == nullptr);
  const Grammar::Shared grammar = keep(kept, schema);
  CHECK(kept.find(schema) == grammar);
  CHECK(kept.find({"response_format", schema.text}) == grammar);
  CHECK(kept.find({"grammar", schema.text, true}) == nullptr);
  CHECK(kept.find({"json_schema", R"({"type": "number"})"}) == nullptr);
}

TEST_CASE("kept formats: the oldest goes first") {
  KeptFormats kept;
  for (size_t i = 0; i < KeptFormats::kMost; ++i) keep(kept, literal(std::to_string(i)));
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

}  // namespace kept_formats_test
