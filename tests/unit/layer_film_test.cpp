// The film of a reply: when and where tokens and drafts are shown, and well-formed whatever the
// tokens' bytes are.
#include "tools/layer_film.h"

#include <doctest/doctest.h>

#include <string>

#include "xml_fault.h"

namespace layer_film_test {

using namespace specbound;
using namespace specbound::test;

namespace {

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++n;
  return n;
}

TokenRecord token(const std::string& text, int exit_layer = kNoDraft, bool accepted = false) {
  TokenRecord token;
  token.token = 7;
  token.draft = accepted ? 7 : exit_layer == kNoDraft ? -1 : 8;
  token.exit_layer = exit_layer;
  token.text = text;
  return token;
}

RowRecord row(int parent, int drafted_at) {
  RowRecord row;
  row.parent = parent;
  row.drafted_at = drafted_at;
  return row;
}

// Ended `seconds` after the reply began, half of it spent drafting.
RoundRecord round_of(std::vector<RowRecord> rows, std::vector<TokenRecord> tokens, double seconds) {
  RoundRecord round;
  round.rows = std::move(rows);
  round.tokens = std::move(tokens);
  round.decode_seconds = seconds;
  round.ns[static_cast<size_t>(Phase::kDraft)] = 500'000'000;
  return round;
}

}  // namespace

TEST_CASE("a film shows each token from its round's end on, and drafts before") {
  LayerFilm film("folder/m.gguf", 10);
  film.add(round_of({row(-1, kNoDraft)}, {token("One")}, 1));
  // Two siblings behind the root, one row behind the first: right at layer 3, then one that the
  // last layer gave where layer 4 had drafted another.
  film.add(round_of({row(-1, kNoDraft), row(0, 3), row(0, 3), row(1, 4)},
                    {token(" two", 3, true), token(" three", 4)}, 2));
  const std::string svg = film.svg();
  CHECK(xml_fault(svg) == "");
  CHECK(svg.find("m.gguf: 3 tokens in 2 passes through 10 layers") != svg.npos);
  CHECK(svg.find("folder") == svg.npos);
  CHECK(svg.find(">drafts<") == svg.npos);            // no draft came from before the layers
  CHECK(svg.find("2 tokens a second<") != svg.npos);  // 1.5, and not slowed down
  // Half a second in the film goes before; shown when the round is over: map and text.
  CHECK(count(svg, "begin=\"film.begin\" dur=\"1.500s\"") == 2);
  CHECK(count(svg, "begin=\"film.begin\" dur=\"2.500s\"") == 2);
  // From the end of drafting to the end of the round.
  CHECK(count(svg, "begin=\"film.begin+2.000s\" dur=\"0.500s\"") == 1);
  // One more of each in the legend.
  CHECK(count(svg, "class=\"draft\"") == 3 + 1);
  CHECK(count(svg, "class=\"wrong\"") == 1 + 1);
  CHECK(count(svg, "class=\"all\"") == 2 + 1);
  CHECK(count(svg, "class=\"rest\"") == 1);
  CHECK(svg.find(">three<") == svg.npos);  // with the space before it
  CHECK(svg.find("> three<") != svg.npos);
  CHECK(count(svg, "style=\"fill:") == 1);  // the right draft's text
}

TEST_CASE("a film is slowed down until an eye can follow, scrolls, and ends somewhere") {
  LayerFilm film("m.gguf", 80);
  double seconds = 0;
  size_t added = 0;
  while (!film.whole()) {
    film.add(round_of({row(-1, kNoDraft), row(0, 0)}, {token("a\n", 0, true), token("b")},
                      seconds += 0.001));
    added += 2;
  }
  CHECK(added == kFilmTokens);
  const std::string svg = film.svg();
  CHECK(xml_fault(svg) == "");
  CHECK(svg.find(">drafts<") != svg.npos);
  CHECK(svg.find("shown 167 times slower") != svg.npos);  // 2,000 a second as 12
  CHECK(count(svg, "<animateTransform") == 2);
  // The newest column is in view at the end, and so is the last line: 512 line ends, four lines.
  CHECK(svg.find(";-17388 0\"") != svg.npos);
  CHECK(svg.find(";0 -12216\"") != svg.npos);
}

TEST_CASE("a film is well-formed whatever tokens are, and of no reply too") {
  CHECK(xml_fault(LayerFilm("", 0).svg()) == "");
  LayerFilm film("m<o>&\x1b\xff\".gguf", 1);
  RoundRecord round = round_of({row(-1, kNoDraft), row(5, 2), row(-7, -9)},
                               {token("<script>&\x1b\xff", 99, true), token("\xe2\x82"),
                                token("\xac\xef\xbf\xbe\n\n", -5), token("</s>")},
                               0);
  round.tokens.back().ends_reply = true;
  film.add(std::move(round));
  const std::string svg = film.svg();
  CHECK(xml_fault(svg) == "");
  CHECK(svg.find("<script") == svg.npos);
  CHECK(svg.find("\u20ac") != svg.npos);  // of two tokens' bytes
  CHECK(svg.find("&lt;/s&gt;") == svg.npos);
}

}  // namespace layer_film_test
