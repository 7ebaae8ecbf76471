// The layer map apart from drawing: what its cells say, where they lie, how it scrolls.
#include "gui/model/layer_map.h"

#include <doctest/doctest.h>

#include <cmath>

#include "gui/trace_rig.h"

namespace specbound::gui::layer_map_test {
namespace {

// Token 0 drafted at layer 2 and right, 1 drafted at 4 and wrong, 2 from the last layer.
TraceModel three_kinds() {
  TraceModel trace;
  trace.set_model(6);
  trace.begin_reply(1, make_settings());
  trace.round(1, make_round(0, 9, {2, 4, 3}, 1), 0.01);
  trace.round(1, make_round(1, 11, {}), 0.02);
  return trace;
}

bool says(const std::vector<std::string>& lines, const std::string& text) {
  for (const std::string& line : lines) {
    if (line.find(text) != std::string::npos) return true;
  }
  return false;
}

MapLayout layout_of(int columns, float view = 200) {
  MapLayout layout;
  layout.columns = columns;
  layout.first_layer = 1;
  layout.n_layers = 4;
  layout.cell_width = 50;
  layout.cell_height = 10;
  layout.view_width = view;
  return layout;
}

}  // namespace

TEST_CASE("layer map: each token is marked in the cell that decided it") {
  const TraceModel trace = three_kinds();
  const ReplyTrace& reply = *trace.find(1);
  const auto mark = [&](int column, int layer) { return map_cell(reply, column, layer, 6).mark; };
  CHECK(mark(0, 2) == TokenKind::kAccepted);
  CHECK(mark(0, 6) == std::nullopt);
  CHECK(mark(1, 4) == TokenKind::kRejected);
  CHECK(mark(1, 6) == TokenKind::kVerified);
  CHECK(mark(2, 6) == TokenKind::kVerified);
  for (int layer = 1; layer <= 6; ++layer) {
    CHECK(map_cell(reply, 0, layer, 6).skipped == (layer > 2));
    CHECK_FALSE(map_cell(reply, 1, layer, 6).skipped);
  }
  CHECK(first_map_layer(reply) == 1);
  CHECK(map_layers(reply) == 6);
}

TEST_CASE("layer map: a reply keeps the layers of its model when another one is loaded") {
  TraceModel trace = three_kinds();
  trace.set_model(3);
  CHECK(map_layers(*trace.find(1)) == 6);
  trace.begin_reply(2, make_settings());
  CHECK(map_layers(*trace.find(2)) == 3);
}

TEST_CASE("layer map: colours come from looks until guesses are there") {
  TraceModel trace = three_kinds();
  const ReplyTrace& reply = *trace.find(1);
  CHECK(*map_cell(reply, 0, 1, 6).confidence == doctest::Approx(0.3));
  CHECK(map_cell(reply, 0, 1, 6).checked);
  CHECK_FALSE(map_cell(reply, 0, 5, 6).confidence);
  CHECK(cell_label(trace, reply, 0, 1) == "30%");
  CHECK(cell_label(trace, reply, 0, 2) == "w10");
  CHECK(cell_label(trace, reply, 1, 4) == "wrong");
  CHECK(cell_label(trace, reply, 2, 3) == "");
  std::vector<LayerGuess> guesses;
  for (int l = 1; l <= 6; ++l) guesses.push_back({l, 0.1f * l, " g" + std::to_string(l)});
  trace.guesses(1, 10, guesses);
  CHECK(*map_cell(reply, 0, 1, 6).confidence == doctest::Approx(0.1));
  CHECK(*map_cell(reply, 0, 5, 6).confidence == doctest::Approx(0.5));
  CHECK(cell_label(trace, reply, 0, 1) == "g1");
  trace.guesses(1, 12, {{2, 0.9f, ""}});
  CHECK(cell_label(trace, reply, 2, 1) == "(end)");
  // Where it left, the exit head's word counts: that is what was drafted.
  CHECK(*map_cell(reply, 0, 2, 6).confidence == doctest::Approx(0.9));
  CHECK(cell_label(trace, reply, 0, 2) == "w10");
}

TEST_CASE("layer map: what is no number has no colour") {
  TraceModel trace;
  trace.set_model(6);
  trace.begin_reply(1, make_settings());
  RoundRecord round = make_round(0, 9, {2});
  round.tokens[0].checks[0].confidence = NAN;
  round.tokens[0].checks[1].confidence = 7;
  trace.round(1, round, 0.1);
  CHECK_FALSE(map_cell(*trace.find(1), 0, 1, 6).confidence);
  CHECK(*map_cell(*trace.find(1), 0, 2, 6).confidence == 1);
}

TEST_CASE("layer map: the tooltip tells what happened") {
  TraceModel trace = three_kinds();
  const ReplyTrace& reply = *trace.find(1);
  CHECK(says(describe_token(reply, 0, 6), "Drafted at layer 2; the last layer agreed"));
  CHECK(says(describe_token(reply, 0, 6), "Layers 3 to 6 ran afterwards, for all 4 rows"));
  CHECK(says(describe_token(reply, 1, 6), "was drafted at layer 4; the last layer said"));
  CHECK(says(describe_token(reply, 1, 6), "wrong\""));
  CHECK(says(describe_token(reply, 1, 6), "1 draft behind it went with it"));
  CHECK(says(describe_token(reply, 2, 6), "the last layer gave it"));
  CHECK(says(describe_cell(trace, reply, 0, 1, 6), "not known here"));
  CHECK(says(describe_cell(trace, reply, 0, 1, 6), "0.30 sure (tau is 0.55): on it went"));
  CHECK(says(describe_cell(trace, reply, 0, 2, 6), "0.90 sure (tau is 0.55): the token left here"));
  trace.guesses(1, 10, {{3, 0.625f, " cat"}});
  CHECK(says(describe_cell(trace, reply, 0, 1, 6), "cat\", with probability 0.62"));
}

TEST_CASE("layer map: a token of a megabyte is cut in what is said of it") {
  TraceModel trace;
  trace.set_model(6);
  trace.begin_reply(1, make_settings());
  RoundRecord round = make_round(0, 9, {2}, 0);
  round.tokens[0].text = round.rows[1].text = std::string(1 << 20, '\xff');
  trace.round(1, round, 0.1);
  for (const std::string& line : describe_token(*trace.find(1), 0, 6)) CHECK(line.size() < 1000);
  trace.guesses(1, 10, {{3, 0.5f, std::string(1 << 20, 'x')}});
  for (const std::string& line : describe_cell(trace, *trace.find(1), 0, 1, 6)) {
    CHECK(line.size() < 1000);
  }
}

TEST_CASE("layer map: bytes that are no text are shown as such") {
  CHECK(short_text(" the") == "the");
  CHECK(short_text("a\xff") == "a\\xff");
  CHECK(short_text("") == "");
  CHECK(short_text(" ") != "");
  CHECK(short_text("\n") == "\\n");
  CHECK(short_text(std::string(1 << 20, 'x')).size() < 100);
}

TEST_CASE("layer map: drafts before any layer have a row of their own") {
  TraceModel trace;
  trace.set_model(6);
  trace.begin_reply(1, make_settings());
  trace.round(1, make_round(0, 9, {0, 1}), 0.01);
  const ReplyTrace& reply = *trace.find(1);
  CHECK(first_map_layer(reply) == 0);
  CHECK(map_cell(reply, 0, 0, 6).mark == TokenKind::kAccepted);
  CHECK(map_cell(reply, 0, 1, 6).skipped);
  CHECK(says(describe_token(reply, 0, 6), "Drafted before any layer"));
}

TEST_CASE("layer map: rounds are whole, however little of them is in view") {
  const TraceModel trace = three_kinds();
  const ReplyTrace& reply = *trace.find(1);
  const auto spans = round_spans(reply, 1, 2);
  REQUIRE(spans.size() == 1);
  CHECK(spans[0].begin == 0);
  CHECK(spans[0].end == 2);
  CHECK(round_spans(reply, 0, 3).size() == 2);
  CHECK(round_spans(reply, 3, 3).empty());
  CHECK(round_spans(reply, -5, 100).size() == 2);
}

TEST_CASE("layer map: only what is visible is laid out") {
  MapLayout layout = layout_of(100000);
  layout.scroll = 12345.0;
  CHECK(layout.first_column() == 246);
  CHECK(layout.end_column() == 251);
  CHECK(layout.x(246) == doctest::Approx(-45));
  CHECK(*layout.column_at(0) == 246);
  CHECK(*layout.column_at(199) == 250);
  CHECK_FALSE(layout.column_at(-1));
  CHECK_FALSE(layout.column_at(200));
  CHECK(*layout.row_at(0) == 0);
  CHECK(*layout.row_at(39) == 3);
  CHECK_FALSE(layout.row_at(40));
  SUBCASE("at the far end") {
    layout.scroll = layout.max_scroll();
    CHECK(layout.end_column() == 100000);
    CHECK(layout.x(99999) == doctest::Approx(150));
  }
  SUBCASE("fewer tokens than room") {
    layout = layout_of(2);
    CHECK(layout.end_column() == 2);
    CHECK_FALSE(layout.column_at(150));
  }
}

TEST_CASE("layer map: it follows the newest token until somebody looks back") {
  MapScroll scroll;
  MapLayout layout = layout_of(10);
  scroll.clamp(layout);
  CHECK(layout.scroll == 300);
  layout = layout_of(12);
  scroll.clamp(layout);
  CHECK(layout.scroll == 400);
  scroll.move(-120, layout);
  CHECK_FALSE(scroll.following());
  layout = layout_of(20);
  scroll.clamp(layout);
  CHECK(layout.scroll == 280);
  SUBCASE("until the end is reached again") {
    scroll.move(10000, layout);
    CHECK(scroll.following());
  }
  SUBCASE("or it is asked to") {
    scroll.follow();
    scroll.clamp(layout);
    CHECK(layout.scroll == 800);
  }
  SUBCASE("a token that is looked for comes to the middle") {
    scroll.reveal(2, layout);
    scroll.clamp(layout);
    CHECK(layout.scroll == 25);
    CHECK_FALSE(scroll.following());
  }
  SUBCASE("one in view stays where it is") {
    scroll.reveal(6, layout);
    scroll.clamp(layout);
    CHECK(layout.scroll == 280);
  }
  SUBCASE("wider cells keep what is under the pointer") {
    scroll.zoom(2, 100);
    layout.cell_width *= 2;
    scroll.clamp(layout);
    CHECK(layout.scroll == 660);
  }
}

TEST_CASE("layer map: what began or was selected last is shown") {
  TraceModel trace;
  for (const uint64_t id : {1, 2}) trace.begin_reply(id, make_settings());
  MapFocus focus;
  CHECK(focus.choose(trace, 0, std::nullopt) == nullptr);
  CHECK(focus.choose(trace, 2, std::nullopt)->id == 2);
  CHECK(focus.choose(trace, 2, TokenRef{1, 0})->id == 1);
  CHECK(focus.choose(trace, 2, TokenRef{1, 0})->id == 1);
  SUBCASE("a new reply takes over") {
    trace.begin_reply(3, make_settings());
    CHECK(focus.choose(trace, 3, TokenRef{1, 0})->id == 3);
    CHECK(focus.choose(trace, 3, TokenRef{2, 0})->id == 2);
  }
  SUBCASE("without a selection the newest comes back") {
    CHECK(focus.choose(trace, 2, std::nullopt)->id == 2);
  }
  SUBCASE("a reply that is gone is no loss") {
    trace.forget(1);
    CHECK(focus.choose(trace, 2, TokenRef{1, 0})->id == 2);
  }
}

TEST_CASE("layer map: rows share layers rather than that they are too low") {
  MapLayout layout = layout_of(3);
  for (const int n_layers : {1, 16, 30, 80, 1000}) {
    for (const bool lane : {false, true}) {
      for (const float room : {20.0f, 130.0f, 300.0f, 700.0f}) {
        CAPTURE(n_layers);
        CAPTURE(room);
        layout.n_layers = n_layers;
        layout.first_layer = lane ? 0 : 1;
        layout.lane_gap = 4;
        layout.fit_rows(room, 12, 26);
        CHECK(layout.cell_height <= 26);
        if (room > 30) CHECK(layout.height() <= room);
        if (room > 30) CHECK(layout.cell_height >= 12);
        if (static_cast<float>(n_layers + 1) * 12 + 4 <= room) CHECK(layout.group == 1);
        int next = lane ? 0 : 1;
        for (int row = 0; row < layout.rows(); ++row) {
          CHECK(layout.first_of(row) == next);
          for (int layer = next; layer <= layout.last_of(row); ++layer) {
            CHECK(layout.row_of(layer) == row);
          }
          next = layout.last_of(row) + 1;
          CHECK(*layout.row_at(layout.row_y(row) + 0.5f) == row);
        }
        CHECK(next == n_layers + 1);
        CHECK_FALSE(layout.row_at(layout.height()));
        if (lane) CHECK_FALSE(layout.row_at(layout.cell_height + 2));
      }
    }
  }
}

TEST_CASE("layer map: of layers that share a cell the one that decided speaks") {
  const TraceModel trace = three_kinds();
  const ReplyTrace& reply = *trace.find(1);
  const MapGroup exit = map_group(reply, 0, 1, 3, 6);
  CHECK(exit.layer == 2);
  CHECK(exit.cell.mark == TokenKind::kAccepted);
  CHECK(exit.cell.checked);
  CHECK_FALSE(exit.cell.skipped);
  CHECK(map_group(reply, 0, 4, 6, 6).cell.skipped);
  const MapGroup wrong = map_group(reply, 1, 4, 6, 6);
  CHECK(wrong.layer == 4);
  CHECK(wrong.cell.mark == TokenKind::kRejected);
  const MapGroup verified = map_group(reply, 2, 4, 6, 6);
  CHECK(verified.layer == 6);
  CHECK(verified.cell.mark == TokenKind::kVerified);
  // Nobody decided: the deepest that was asked.
  CHECK(map_group(reply, 1, 1, 3, 6).layer == 3);
}

TEST_CASE("layer map: the whole reply in small has the commonest kind and the mean depth") {
  const TraceModel trace = three_kinds();
  const ReplyTrace& reply = *trace.find(1);
  CHECK(mini_column(reply, 0, 1, 6).kind == TokenKind::kAccepted);
  CHECK(mini_column(reply, 0, 1, 6).depth == doctest::Approx(2.0 / 6));
  CHECK(mini_column(reply, 1, 2, 6).kind == TokenKind::kRejected);
  CHECK(mini_column(reply, 2, 3, 6).kind == TokenKind::kVerified);
  CHECK(mini_column(reply, 0, 3, 6).depth == doctest::Approx((2.0 / 6 + 2) / 3));
}

}  // namespace specbound::gui::layer_map_test
