// specbound lens: the table against a computation by hand and against what SpecBound itself
// drafts, the marks, and the three views with whatever bytes tokens may have.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine_rig.h"
#include "library/load_watcher.h"
#include "system/number_text.h"
#include "terminal/interrupt.h"
#include "terminal/terminal_text.h"
#include "tools/lens.h"
#include "xml_fault.h"

namespace lens_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr int kLayers = 6, kVocab = 97;
constexpr auto kNone = LensMark::kNone, kWrong = LensMark::kWrong, kRight = LensMark::kRight,
               kAfter = LensMark::kAfter;

const TinyModel& model() {
  static const TinyModel model(q8_0_spec(kLayers));
  return model;
}

std::unique_ptr<Backend> backend(int n_ctx = 0) {
  return model().backend(best_isa(), 1, true, n_ctx);
}

SpecBoundParams params_with(float tau) {
  SpecBoundParams params;
  params.tau = tau;
  return params;
}

LensTable collected(Backend& backend, const SpecBoundParams& params,
                    const std::vector<int32_t>& prompt, int n) {
  LensHead head;
  LensRequest request;
  request.prompt = prompt;
  request.n_tokens = n;
  return collect_lens(backend, head, params, request);
}

struct Said {
  int32_t token;
  float confidence;
};

// A column by hand; the last is what the layers say. Layers 1..n-1 are checked up to `d_max`.
LensColumn column_of(const std::vector<Said>& layers, float tau, int d_max,
                     std::vector<int> check_layers = {}) {
  SpecBoundParams params;
  params.d_max = d_max;
  params.check_layers = std::move(check_layers);
  LensColumn column;
  for (const Said& said : layers) column.cells.push_back({said.token, said.confidence, kNone});
  mark_exits(column, bounded_check_layers(params, static_cast<int>(layers.size())), tau);
  return column;
}

std::vector<LensMark> marks(const LensColumn& column) {
  std::vector<LensMark> marks;
  for (const LensCell& cell : column.cells) marks.push_back(cell.mark);
  return marks;
}

// Bytes that tokens may have and that must not reach a terminal or an XML file as they are.
const std::vector<std::string>& hostile_pieces() {
  static const std::vector<std::string> pieces = {
      "",
      " the",
      "\n",
      "\t\r",
      std::string("\0x", 2),
      "\x1b[31mred",
      "\x7f",
      "\xc2\x9b"
      "31m",  // C1: CSI
      "\xff",
      "\xe4\xbd",      // a cut character
      "\xed\xa0\x80",  // a surrogate
      "\xef\xbf\xbe",  // U+FFFE
      "\xe2\x80\xae"
      "abc",               // right-to-left override
      "\xd8\x9c",          // Arabic letter mark
      "\xef\xbb\xbf",      // byte order mark
      "\xf3\xa0\x81\x81",  // a tag character
      "<script>&\"']]>",
      "\xe4\xbd\xa0\xe5\xa5\xbd\xe4\xbd\xa0\xe5\xa5\xbd\xe5\x95\x8a",  // five wide characters
      "a\xe4\xbd\xa0\xe5\xa5\xbd\xe4\xbd\xa0\xe5\xa5\xbd",
      "e\xcc\x81\xcc\x81\xcc\x81tude",
      "\xcc\x81",                  // a mark with nothing to sit on
      "\xe0\xb8\x81\xe0\xb8\xb5",  // Thai with a vowel above
      "antidisestablishmentarianism",
      "\\n",
  };
  return pieces;
}

// Every mark, every piece, `n` tokens of `n_layers` layers.
LensTable hostile_table(int n, int n_layers) {
  LensTable table;
  table.params = params_with(0.5f);
  table.n_layers = n_layers;
  table.check_layers = bounded_check_layers(table.params, n_layers);
  const int n_pieces = static_cast<int>(hostile_pieces().size());
  for (int i = 0; i < n; ++i) {
    LensColumn column;
    for (int l = 0; l < n_layers; ++l) {
      column.cells.push_back(
          {(i + l / 2) % n_pieces, static_cast<float>((7 * l + i) % 11) / 10, kNone});
    }
    mark_exits(column, table.check_layers, table.params.tau);
    table.columns.push_back(std::move(column));
  }
  return table;
}

LensView view_of(const LensTable& table) {
  return {table,
          "dir/m<o>&\x1b\xff"
          "del.gguf",
          "lens", [](int32_t id) { return hostile_pieces().at(id); }};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string without_colour(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = text.find('m', i);
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string with_marked_spaces(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == ' ' ? std::string("\u2423") : std::string(1, c);
  return out;
}

}  // namespace

TEST_CASE("lens: every cell is what the layer says when asked alone") {
  const std::vector<int32_t> prompt = token_ids(9, kVocab);
  SpecBoundParams params;
  params.alpha = 0.7f;
  const auto engine = backend(), other = backend();
  const LensTable table = collected(*engine, params, prompt, 12);
  REQUIRE(table.columns.size() == 12);
  CHECK(table.n_layers == kLayers);
  CHECK(table.prompt_tokens == 9);
  CHECK(table.stop == StopReason::kLength);

  std::vector<int32_t> text = prompt;
  other->prefill(std::span(text).first(text.size() - 1));
  std::vector<float> z(kVocab);
  for (const LensColumn& column : table.columns) {
    REQUIRE(column.cells.size() == kLayers);
    other->embed(0, text.back());
    int32_t top = 0;
    for (int l = 1; l <= kLayers; ++l) {
      other->run_layers(0, 1, static_cast<int>(text.size()) - 1, l, l);
      other->logits(0, 1, z.data());
      top = static_cast<int32_t>(std::max_element(z.begin(), z.end()) - z.begin());
      const float temperature = 1.0f + 0.7f * (1.0f - float(l) / float(kLayers));
      CHECK(column.cells[l - 1].token == top);
      CHECK(column.cells[l - 1].confidence == other->confidence(z, temperature));
    }
    text.push_back(top);
  }

  GenerateOptions options;
  options.max_tokens = 12;
  SamplingParams greedy;
  greedy.temperature = 0;
  Session session(*other, Sampler(greedy));
  session.generate(prompt, options);
  CHECK(std::vector<int32_t>(session.tokens().begin(), session.tokens().end()) == text);
}

TEST_CASE("lens: exits and confidences are those of SpecBound's own checks") {
  const std::vector<int32_t> prompt = token_ids(5, kVocab, 3);
  const int n = 60;
  const auto engine = backend();
  // The confidences of random weights are small: a tau in their middle gives exits of all kinds.
  std::vector<float> confidences;
  for (const LensColumn& column : collected(*engine, params_with(1), prompt, n).columns) {
    for (const LensCell& cell : column.cells) confidences.push_back(cell.confidence);
  }
  std::sort(confidences.begin(), confidences.end());
  SpecBoundParams params = params_with(confidences[confidences.size() * 3 / 4]);
  params.d_max = 4;
  const LensTable table = collected(*engine, params, prompt, n);
  const LensSummary summary = summarize(table);
  CHECK(summary.right > 0);
  CHECK(summary.wrong > 0);
  CHECK(summary.nowhere > 0);

  LensHead head;
  SpecBound speculator(head, params, kLayers);
  SamplingParams greedy;
  greedy.temperature = 0;
  Session session(*engine, Sampler(greedy));
  session.set_speculator(&speculator);
  int n_checks = 0, n_drafts = 0;
  GenerateOptions options;
  options.max_tokens = n;
  options.on_token = [&](const TokenEvent& event) {
    const LensColumn& column = table.columns.at(event.pos - prompt.size());
    CHECK(event.token == column.token());
    for (const ExitCheck& check : event.checks) {
      CHECK(check.confidence == column.cells[check.layer - 1].confidence);
      ++n_checks;
    }
    if (event.exit_layer == kNoDraft) return;
    ++n_drafts;
    CHECK(event.exit_layer == column.exit_layer);
    CHECK(event.accepted() == column.exit_right);
    CHECK(event.draft == column.cells[event.exit_layer - 1].token);
  };
  session.generate(prompt, options);
  CHECK(n_checks > n);
  CHECK(n_drafts > 5);
}

TEST_CASE("lens: a reply's end, a full context and an interrupt end the table") {
  const std::vector<int32_t> prompt = token_ids(9, kVocab);
  const auto engine = backend();
  const LensTable whole = collected(*engine, {}, prompt, 8);
  LensHead head;
  LensRequest request;
  request.prompt = prompt;
  request.n_tokens = 8;

  SUBCASE("the end token has a column, the last") {
    const int32_t end = whole.columns[3].token();
    size_t first = 0;
    while (whole.columns[first].token() != end) ++first;
    request.is_end = [end](int32_t id) { return id == end; };
    const LensTable table = collect_lens(*engine, head, {}, request);
    CHECK(table.stop == StopReason::kEnd);
    REQUIRE(table.columns.size() == first + 1);
    CHECK(table.columns.back().token() == end);
  }
  SUBCASE("a context of 12 leaves room for 4 tokens after 9") {
    const auto small = backend(12);
    const LensTable table = collect_lens(*small, head, {}, request);
    CHECK(table.stop == StopReason::kContext);
    CHECK(table.columns.size() == 4);
  }
  SUBCASE("a prompt above the context") {
    const auto small = backend(8);
    CHECK_THROWS_AS(collect_lens(*small, head, {}, request), Error);
  }
  SUBCASE("interrupts: in the prompt, between layers") {
    std::atomic<bool> abort = true;
    request.abort = &abort;
    CHECK_THROWS_AS(collect_lens(*engine, head, {}, request), Interrupted);
    abort = false;
    int columns = 0;
    request.on_column = [&](int done, int total) {
      CHECK(total == 8);
      columns = done;
      abort = done == 2;
    };
    CHECK_THROWS_WITH_AS(collect_lens(*engine, head, {}, request),
                         "interrupted after 2 of 8 tokens", Interrupted);
    CHECK(columns == 2);
  }
}

TEST_CASE("lens: marks") {
  using Marks = std::vector<LensMark>;
  SUBCASE("a right exit greys what is after it, confident or not") {
    const LensColumn column =
        column_of({{5, .2f}, {7, .6f}, {8, .9f}, {7, .1f}, {7, .8f}}, 0.55f, 10);
    CHECK(marks(column) == Marks{kNone, kRight, kAfter, kAfter, kAfter});
    CHECK(column.exit_layer == 2);
    CHECK(column.exit_right);
  }
  SUBCASE("wrong, then right: the draft left at the wrong one") {
    const LensColumn column =
        column_of({{5, .9f}, {7, .3f}, {6, .7f}, {7, .6f}, {7, .8f}}, 0.55f, 10);
    CHECK(marks(column) == Marks{kWrong, kNone, kWrong, kRight, kAfter});
    CHECK(column.exit_layer == 1);
    CHECK(!column.exit_right);
  }
  SUBCASE("nowhere; the last layer is no exit") {
    const LensColumn column = column_of({{7, .5f}, {7, .54f}, {7, .99f}}, 0.55f, 10);
    CHECK(marks(column) == Marks{kNone, kNone, kNone});
    CHECK(column.exit_layer == 0);
  }
  SUBCASE("layers that are not checked do not count") {
    const LensColumn column = column_of({{7, .9f}, {5, .9f}, {7, .9f}, {7, .9f}}, 0.55f, 10, {3});
    CHECK(marks(column) == Marks{kNone, kNone, kRight, kAfter});
    CHECK(column.exit_layer == 3);
  }
  SUBCASE("nor do layers beyond d_max") {
    const LensColumn column = column_of({{7, .1f}, {7, .2f}, {7, .9f}, {7, .9f}}, 0.55f, 2);
    CHECK(marks(column) == Marks{kNone, kNone, kNone, kNone});
    CHECK(column_of({{7, .1f}, {7, .9f}, {7, .9f}, {7, .9f}}, 0.55f, 2).exit_layer == 2);
  }
  SUBCASE("tau itself is enough, NaN is not, one layer has no exit") {
    CHECK(column_of({{7, .55f}, {7, 1}}, 0.55f, 10).exit_layer == 1);
    CHECK(column_of({{7, std::nanf("")}, {7, 1}}, 0, 10).exit_layer == 0);
    CHECK(column_of({{7, 0}, {7, 1}}, 0, 10).exit_layer == 1);
    CHECK(marks(column_of({{7, 1}}, 0, 10)) == Marks{kNone});
  }
}

TEST_CASE("lens: the summary") {
  LensTable table;
  table.n_layers = 3;
  table.columns = {column_of({{7, .9f}, {7, .9f}, {7, .9f}}, 0.5f, 10),   // right at 1
                   column_of({{5, .1f}, {7, .9f}, {7, .9f}}, 0.5f, 10),   // right at 2
                   column_of({{5, .9f}, {7, .9f}, {7, .9f}}, 0.5f, 10),   // wrong at 1
                   column_of({{5, .1f}, {6, .1f}, {7, .9f}}, 0.5f, 10)};  // nowhere
  const LensSummary summary = summarize(table);
  CHECK(summary.right == 2);
  CHECK(summary.wrong == 1);
  CHECK(summary.nowhere == 1);
  CHECK(summary.mean_right_exit == 1.5);
  CHECK(summary.agreement == std::vector<double>{0.25, 0.75, 1});
  CHECK(summary_line(view_of(table)) ==
        "4 tokens: 2 leave right (mean layer 1.5), 1 wrong, 1 nowhere | lens, alpha 0.2, tau 0.55");
  table.params.learned = true;
  CHECK(summary_line(view_of(table)).ends_with("| lens, annealing learned, tau 0.55"));
  table.columns.clear();
  table.params.learned = table.params.anneal = false;
  CHECK(!summarize(table).mean_right_exit);
  CHECK(summary_line(view_of(table)) ==
        "0 tokens: 0 leave right, 0 wrong, 0 nowhere | lens, no annealing, tau 0.55");
}

TEST_CASE("percent never reaches what was not reached") {
  CHECK(percent(0) == 0);
  CHECK(percent(0.5499999f) == 54);
  CHECK(percent(0.55f) == 55);
  CHECK(percent(0.7f) == 70);
  CHECK(percent(0.9999f) == 99);
  CHECK(percent(1) == 99);
  CHECK(percent(-1) == 0);
  CHECK(percent(std::numeric_limits<float>::infinity()) == 99);
  CHECK(percent(std::numeric_limits<float>::quiet_NaN()) == 0);
}

TEST_CASE("visible text") {
  CHECK(visible_text(" a b\n") == "\u2423a\u2423b\\n");
  CHECK(visible_text("\x1b[1m") == "\\x1b[1m");
  CHECK(visible_text("\xc2\x85") == "\\xc2\\x85");
  CHECK(visible_text("\xff\xe4\xbd") == "\\xff\\xe4\\xbd");
  CHECK(visible_text("\u202e\u200d\ufeff\u061c\ufe0f\u00ad") ==
        "\\xe2\\x80\\xae\\xe2\\x80\\x8d\\xef\\xbb\\xbf\\xd8\\x9c\\xef\\xb8\\x8f\\xc2\\xad");
  CHECK(visible_text("\xef\xbf\xbf") == "\\xef\\xbf\\xbf");
  CHECK(visible_text("\u0301a\u0301") == "\u25cc\u0301a\u0301");
  CHECK(visible_text("\u4f60\u00e9") == "\u4f60\u00e9");
  CHECK(visible_text("") == "");
}

TEST_CASE("display width, and text cut to it") {
  CHECK(display_width("") == 0);
  CHECK(display_width("abc") == 3);
  CHECK(display_width("e\u0301") == 1);
  CHECK(display_width("\u4f60\u597d") == 4);
  CHECK(display_width("\U0001f600") == 2);
  CHECK(display_width("\u2423") == 1);
  CHECK(fit_width("abc", 5) == "abc  ");
  CHECK(fit_width("abcde", 5) == "abcde");
  CHECK(fit_width("abcdef", 5) == "abcd~");
  CHECK(fit_width("\u4f60\u597d", 4) == "\u4f60\u597d");
  CHECK(fit_width("\u4f60\u597d\u554a", 4) == "\u4f60 ~");  // half a character fits nowhere
  CHECK(fit_width("ae\u0301\u0301bc", 3) == "ae\u0301\u0301~");
  CHECK(fit_width("abc", 1) == "~");
  CHECK(fit_width("\u4f60", 1) == "~");
  for (const std::string& piece : hostile_pieces()) {
    for (int width = 1; width < 12; ++width) {
      CHECK(display_width(fit_width(visible_text(piece), width)) == width);
    }
  }
}

TEST_CASE("lens on a terminal: the layout") {
  LensTable table;
  table.n_layers = 4;
  table.check_layers = {1, 2, 3};
  table.params.tau = 0.5f;
  table.columns = {column_of({{1, .1f}, {22, .9f}, {1, .6f}, {1, 1}}, 0.5f, 10),
                   column_of({{18, .7f}, {1, .2f}, {1, .2f}, {18, .3f}}, 0.5f, 10)};
  CHECK(
      lens_terminal(view_of(table), {80, false}) ==
      "layer same  1             2\n"
      "  1*  100%  \u2423the     10  [a\u4f60\u597d\u4f60~ 70]\n"
      "  2*    0% !antidis~ 90! .\u2423the     20\n"
      "  3*   50% [\u2423the     60] .\u2423the     20\n"
      "  4   100% .\u2423the     99  .a\u4f60\u597d\u4f60~ 30\n"
      "text        \u2423the          a\u4f60\u597d\u4f60~\n"
      "\n"
      "A cell: the layer's top token and its confidence in percent.\n"
      "[right exit]  !wrong exit!  .after the right exit  * a draft may leave here\n"
      "same: how often the layer's token is the text's\n"
      "2 tokens: 1 leaves right (mean layer 1.0), 1 wrong, 0 nowhere | lens, alpha 0.2, tau 0.5\n");
}

TEST_CASE("lens on a terminal: any width, any bytes") {
  const int n_layers = 14;
  const LensTable table = hostile_table(29, n_layers);
  const LensView view = view_of(table);
  for (const int width : {1, 24, 25, 52, 80, 120, 133, 200, 1000}) {
    CAPTURE(width);
    const std::string plain = lens_terminal(view, {width, false});
    const std::vector<std::string> lines = lines_of(plain);
    int n_rows = 0, n_tokens = 0;
    for (const std::string& line : lines) {
      CAPTURE(line);
      CHECK(visible_text(line) == with_marked_spaces(line));  // nothing to be made visible
      if (line.starts_with("layer same")) {
        std::istringstream numbers(line.substr(10));
        for (int i; numbers >> i;) CHECK(i == ++n_tokens);
      }
      if (line.size() < 10 || line[9] != '%') continue;
      ++n_rows;
      const int columns = display_width(line);
      CHECK(columns <= std::max(width, 24));
    }
    const size_t per_block = std::max(1, (width - 10) / 14);
    CHECK(n_tokens == 29);
    CHECK(n_rows == n_layers * int((29 + per_block - 1) / per_block));

    const std::string coloured = lens_terminal(view, {width, true});
    const std::vector<std::string> bare = lines_of(without_colour(coloured));
    REQUIRE(bare.size() == lines.size());
    for (size_t i = 0; i < bare.size(); ++i) {
      const std::string trimmed = bare[i].substr(0, bare[i].find_last_not_of(' ') + 1);
      if (!trimmed.starts_with("A cell:")) CHECK(trimmed == lines[i]);
    }
    CHECK(coloured.find("\x1b[1;48;5;28;38;5;231m[") != coloured.npos);
    CHECK(coloured.find("\x1b[1;48;5;160;38;5;231m!") != coloured.npos);
    CHECK(coloured.find("\x1b[48;5;252;38;5;242m.") != coloured.npos);
  }
}

TEST_CASE("lens as SVG: well-formed whatever the tokens are, and complete") {
  for (const auto& size : {std::pair(0, 4), {1, 1}, {16, 16}, {64, 32}}) {
    const int n = size.first, n_layers = size.second;
    CAPTURE(n);
    const LensTable table = hostile_table(n, n_layers);
    const std::string svg = lens_svg(view_of(table));
    CHECK(xml_fault(svg) == "");
    CHECK(svg.find("<script") == svg.npos);
    CHECK(svg.find("href") == svg.npos);
    size_t n_cells = 0;
    for (size_t at = 0; (at = svg.find("<title>", at)) != svg.npos; ++at) ++n_cells;
    CHECK(n_cells == size_t(n) * n_layers);
  }
  CHECK(xml_fault("<a>\x01</a>") != "");
  CHECK(xml_fault("<a><b></a></b>") != "");
  CHECK(xml_fault("<a>&</a>") != "");
  const LensTable table = hostile_table(24, 16);
  const std::string svg = lens_svg(view_of(table));
  CHECK(svg.find("m&lt;o&gt;&amp;\\x1b\\xffdel.gguf") != svg.npos);
  CHECK(svg.find("&lt;script&gt;&amp;") != svg.npos);
  CHECK(svg.find("\\x1b[31mred") != svg.npos);
}

TEST_CASE("lens as JSON") {
  const LensTable table = hostile_table(24, 16);
  const std::string text = lens_json(view_of(table));
  const nlohmann::json json = nlohmann::json::parse(text);
  CHECK(json["n_layers"] == 16);
  CHECK(json["tau"] == 0.5);
  CHECK(json["head"] == "lens");
  CHECK(json["check_layers"] == std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  REQUIRE(json["tokens"].size() == 24);
  const LensSummary summary = summarize(table);
  CHECK(json["exits"]["right"] == summary.right);
  CHECK(json["exits"]["wrong"] == summary.wrong);
  CHECK(json["exits"]["nowhere"] == summary.nowhere);
  CHECK(json["agreement"] == summary.agreement);
  const std::vector<std::string> names = {"", "wrong", "right", "after"};
  for (size_t i = 0; i < 24; ++i) {
    const LensColumn& column = table.columns[i];
    const auto& token = json["tokens"][i];
    CHECK(token["id"] == column.token());
    REQUIRE(token["layers"].size() == 16);
    if (column.exit_layer == 0) {
      CHECK(token["exit_layer"].is_null());
      CHECK(token["exit_right"].is_null());
    } else {
      CHECK(token["exit_layer"] == column.exit_layer);
      CHECK(token["exit_right"] == column.exit_right);
    }
    for (size_t l = 0; l < 16; ++l) {
      const auto& cell = token["layers"][l];
      CHECK(cell["id"] == column.cells[l].token);
      CHECK(cell["confidence"].get<float>() == column.cells[l].confidence);
      const std::string& name = names[static_cast<int>(column.cells[l].mark)];
      CHECK((name.empty() ? cell["mark"].is_null() : cell["mark"] == name));
    }
  }
}

TEST_CASE("floats as the shortest decimals that read back as they were") {
  for (const char* text : {"0.2", "0.55", "0.1234567", "1", "100", "1e-45", "3.4028235e+38"}) {
    const float value = std::strtof(text, nullptr);
    CHECK(shortest_decimal(value) == std::strtod(text, nullptr));
    CHECK(static_cast<float>(shortest_decimal(value)) == value);
  }
  CHECK(std::isnan(shortest_decimal(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace lens_test
