// The live panel drawn without a screen: cells where they are claimed to be and in the colours that
// mean what they show, links to the chat, nothing drawn that is not visible.
#include "gui/view/live_panel.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>

#include "gui/fake_worker.h"
#include "gui/headless.h"
#include "gui/model/replay_player.h"
#include "gui/trace_rig.h"

namespace specbound::gui::live_panel_test {
namespace {

struct Rig {
  Headless ui;
  FakeApp fake;
  LivePanel panel;
  uint64_t id = 0;
  int pos = 9, rounds = 0;

  explicit Rig(float width = 700, float height = 760, bool dark = true)
      : ui(width, height, 1, dark) {
    ui.set_content([this] { panel.draw(fake.app, probe()); });
  }

  void begin(const TraceReply& settings = make_settings()) {
    fake.app.send("hello");
    id = fake.worker.replies.back().id;
    fake.app.apply(ReplyBegan{id, settings, 0});
    pos = 9;
    rounds = 0;
  }
  void round(const std::vector<int>& exits, int wrong = -1) {
    RoundDone done{id, make_round(rounds, pos, exits, wrong), 0.01 * (rounds + 1)};
    pos += static_cast<int>(done.round.tokens.size());
    ++rounds;
    fake.app.apply(std::move(done));
  }
  void three_kinds() {
    begin();
    round({2, 3}, 1);
    round({});
    ui.frame(2);
  }
  ImU32 cell(int column, int layer) {
    const Probe::Rect rect =
        ui.rect("map.cell." + std::to_string(column) + "." + std::to_string(layer));
    // Left of the mark and of letters, inside the border.
    return ui.color_at({rect.min.x + 4, rect.max.y - 5});
  }
};

}  // namespace

TEST_CASE("live panel: empty, it says what to do") {
  Rig rig;
  rig.ui.frame(2);
  CHECK(rig.ui.shows("Send a message: each token"));
  CHECK(rig.ui.shows("Layer map"));
  CHECK(rig.ui.has("plots.rate"));
  CHECK_FALSE(rig.ui.value("plots.rate.empty").empty());
}

TEST_CASE("live panel: cells have the colours of their confidence, on both themes") {
  for (const bool dark : {true, false}) {
    CAPTURE(dark);
    Rig rig(700, 760, dark);
    rig.three_kinds();
    CHECK(rig.ui.value("map.columns") == "3");
    CHECK(rig.cell(0, 1) == theme().confidence(0.3f));
    CHECK(rig.cell(0, 2) == theme().confidence(0.9f));
    CHECK(rig.cell(0, 4) == mixed(theme().panel, theme().faint, 0.22f));
    CHECK(rig.cell(2, 1) == mixed(theme().panel, theme().raised, 0.7f));
    const auto border = [&](const char* name) {
      const Probe::Rect rect = rig.ui.rect(name);
      return rig.ui.color_at({rect.center().x, rect.min.y + 1});
    };
    CHECK(border("map.cell.0.2") == theme().accepted);
    CHECK(border("map.cell.1.3") == theme().rejected);
    CHECK(border("map.cell.2.4") == theme().verified);
  }
}

TEST_CASE("live panel: cells and the text row say what they stand for") {
  Rig rig;
  rig.three_kinds();
  CHECK(rig.ui.text("map.cell.0.2") == "w10");
  CHECK(rig.ui.text("map.cell.0.1") == "30%");
  CHECK(rig.ui.text("map.cell.2.4") == "w12");
  CHECK(rig.ui.text("map.text.1") == "w11");
  CHECK(rig.ui.value("map.summary") ==
        "3 tokens: 1 drafted right, 1 drafted wrong, 1 from the last layer");
  std::vector<LayerGuess> guesses(4, LayerGuess{77, 0.5f, " cat"});
  rig.fake.app.apply(Guesses{rig.id, 12, guesses});
  rig.ui.frame();
  CHECK(rig.ui.text("map.cell.2.1") == "cat");
  CHECK(rig.cell(2, 1) == theme().confidence(0.5f));
}

TEST_CASE("live panel: guesses are wanted while the map is seen") {
  Rig rig;
  rig.ui.frame();
  REQUIRE_FALSE(rig.fake.worker.guessings.empty());
  CHECK(rig.fake.worker.guessings.back());
  rig.ui.resize(700, 300);
  rig.ui.frame(2);
  rig.ui.click("plots.show");
  rig.ui.frame();
  CHECK_FALSE(rig.fake.worker.guessings.back());
  CHECK(rig.ui.has("plots.rate"));
  CHECK_FALSE(rig.ui.has("map.newest"));
}

TEST_CASE("live panel: the pointer finds out what happened") {
  Rig rig;
  rig.three_kinds();
  rig.ui.move("map.cell.1.3");
  rig.ui.frame(2);
  CHECK(rig.ui.shows("drafted at layer 3"));
  CHECK(rig.ui.shows("0.90 sure (tau is 0.55)"));
  CHECK(*rig.fake.app.hovered == TokenRef{rig.id, 1});
  rig.ui.move({1, 1});
  rig.ui.frame(2);
  CHECK_FALSE(rig.fake.app.hovered);
  CHECK_FALSE(rig.ui.shows("drafted at layer 3"));
}

TEST_CASE("live panel: a click selects the token, for the chat too") {
  Rig rig;
  rig.three_kinds();
  rig.ui.click("map.cell.1.1");
  CHECK(*rig.fake.app.selected == TokenRef{rig.id, 1});
  CHECK(rig.fake.app.reveal_in_chat);
  rig.ui.click("map.text.2");
  CHECK(*rig.fake.app.selected == TokenRef{rig.id, 2});
}

TEST_CASE("live panel: of a long reply only what is visible is drawn") {
  Rig rig;
  rig.begin();
  for (int i = 0; i < 30; ++i) rig.round({2, 3});
  rig.ui.frame(2);
  const int few = rig.ui.triangles();
  const size_t cells = rig.ui.rects("map.cell.").size();
  for (int i = 0; i < 34000; ++i) rig.round({2, 3});
  rig.ui.frame(2);
  CHECK(rig.ui.value("map.columns") == "102090");
  CHECK(rig.ui.rects("map.cell.").size() < cells + 10);
  CHECK(rig.ui.triangles() < few * 2 + 20000);  // the plots have more dots, up to their bound
  SUBCASE("the newest token is in view") {
    CHECK(rig.ui.value("map.following") == "yes");
    CHECK(rig.ui.has("map.cell.102089.1"));
  }
  SUBCASE("and any other when it is selected in the chat") {
    rig.fake.app.select_in_chat({rig.id, 50000});
    rig.ui.frame(2);
    CHECK(rig.ui.has("map.cell.50000.1"));
    CHECK_FALSE(rig.fake.app.reveal_in_map);
    CHECK(rig.ui.value("map.following") == "no");
    rig.round({2});
    rig.ui.frame();
    CHECK(rig.ui.has("map.cell.50000.1"));
    rig.ui.click("map.newest");
    rig.ui.frame();
    CHECK(rig.ui.has("map.cell.102091.1"));
  }
  SUBCASE("the wheel moves it") {
    rig.ui.move("map.cells");
    rig.ui.wheel(5);
    rig.ui.frame();
    CHECK(rig.ui.value("map.following") == "no");
    CHECK_FALSE(rig.ui.has("map.cell.102089.1"));
  }
  SUBCASE("the bar goes anywhere") {
    const Probe::Rect bar = rig.ui.rect("map.bar");
    rig.ui.drag(bar.center(), {bar.min.x - 50, bar.center().y});
    rig.ui.frame();
    CHECK(rig.ui.has("map.cell.0.1"));
  }
}

TEST_CASE("live panel: a frame takes no longer because the reply is long") {
  const auto fastest = [](int rounds) {
    Rig rig;
    rig.begin();
    for (int i = 0; i < rounds; ++i) rig.round({2, 3});
    rig.ui.frame(2);
    double best = 1e9;
    for (int i = 0; i < 30; ++i) {
      const auto start = std::chrono::steady_clock::now();
      rig.ui.frame();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      best = std::min(best, took.count());
    }
    return best;
  };
  const double few = fastest(500), many = fastest(45000);
  CAPTURE(few);
  CAPTURE(many);
  CHECK(many < 2 * few + 0.0005);
}

TEST_CASE("live panel: cells get narrower and wider around what is seen") {
  Rig rig;
  rig.begin();
  for (int i = 0; i < 300; ++i) rig.round({2, 3});
  rig.ui.frame(2);
  const size_t before = rig.ui.rects("map.cell.").size();
  for (int i = 0; i < 3; ++i) rig.ui.click("map.narrower");
  rig.ui.frame();
  CHECK(rig.ui.rects("map.cell.").size() > 2 * before);
  for (int i = 0; i < 12; ++i) rig.ui.click("map.narrower");
  for (int i = 0; i < 20; ++i) rig.ui.click("map.wider");
  rig.ui.frame();
  CHECK(rig.ui.rects("map.cell.").size() < before);
  CHECK(rig.ui.rects("map.cell.").size() > 0);
  rig.fake.app.select_in_chat({rig.id, 400});
  rig.ui.frame(2);
  for (const char* button : {"map.narrower", "map.narrower", "map.wider"}) {
    rig.ui.click(button);
    rig.ui.frame();
    CHECK(rig.ui.has("map.cell.400.1"));
  }
}

TEST_CASE("live panel: every plot is there, with words where there is nothing to draw") {
  Rig rig(700, 3000);
  rig.three_kinds();
  for (const char* name :
       {"plots.rate", "plots.exits", "plots.gain", "plots.checks", "plots.time", "plots.places"}) {
    CAPTURE(name);
    CHECK(rig.ui.has(name));
    CHECK(rig.ui.value(std::string(name) + ".empty").empty());
  }
  CHECK(rig.ui.shows("tau 0.55"));
  CHECK(rig.ui.shows("exit layer"));
  CHECK(rig.ui.shows("verify"));
  CHECK(rig.ui.value("plots.exits.headline") == "mean layer 2.0 of 4");
}

TEST_CASE("live panel: any size, any reply") {
  for (const ImVec2 size :
       {ImVec2(40, 30), ImVec2(120, 90), ImVec2(640, 480), ImVec2(2560, 1440)}) {
    CAPTURE(size.x);
    Rig rig(size.x, size.y);
    rig.three_kinds();
    TraceReply odd = make_settings();
    odd.settings->check_layers = {0, 1, 999};
    rig.begin(odd);
    rig.ui.frame(2);
    rig.round({0, 0, 0});
    rig.round({1}, 0);
    rig.ui.frame(3);
    CHECK(rig.ui.triangles() > 0);
    rig.ui.resize(size.x * 1.5f, size.y * 1.5f);
    rig.ui.frame(3);
    CHECK(rig.ui.triangles() > 0);
  }
}

TEST_CASE("live panel: 30 layers have rows that are read, before plots have room") {
  Rig rig(700, 760);
  ModelInfo model = FakeApp::model();
  model.n_layers = 30;
  rig.fake.app.apply(ModelLoaded{model});
  rig.three_kinds();
  rig.ui.frame(2);
  CHECK(rig.ui.value("map.group") == "1");
  CHECK(std::stof(rig.ui.value("map.cell_height")) >= 12);
  CHECK(rig.ui.text("map.cell.0.2") == "w10");
  CHECK(rig.ui.has("map.cell.0.30"));
  CHECK(rig.ui.rect("map.legend").max.y < rig.ui.rect("map.grip").min.y + 1);
  CHECK(rig.ui.has("plots.rate"));
}

TEST_CASE("live panel: more layers share rows, none is out of view, and the legend stays") {
  for (const float height : {500.0f, 760.0f}) {
    CAPTURE(height);
    Rig rig(700, height);
    ModelInfo model = FakeApp::model();
    model.n_layers = 120;
    rig.fake.app.apply(ModelLoaded{model});
    rig.three_kinds();
    rig.ui.frame(2);
    CHECK(rig.ui.value("map.layers") == "120");
    const int group = std::stoi(rig.ui.value("map.group"));
    CHECK(group > 1);
    CHECK(std::stof(rig.ui.value("map.cell_height")) >= 12);
    CHECK(rig.ui.has("map.cell.0.1"));
    CHECK(rig.ui.has("map.cell.0." + std::to_string((120 - 1) / group * group + 1)));
    CHECK(rig.ui.rect("map.legend").max.y < height);
    CHECK(rig.ui.has("map.text.0"));
    rig.ui.move("map.cell.1.1");
    rig.ui.frame(2);
    CHECK(rig.ui.shows("Layers 1 to " + std::to_string(group)));
  }
}

TEST_CASE("live panel: the bar under the map is the whole reply in small") {
  Rig rig;
  rig.begin();
  for (int i = 0; i < 200; ++i) rig.round({1, 1, 1});
  for (int i = 0; i < 200; ++i) rig.round({});
  rig.ui.frame(2);
  const Probe::Rect bar = rig.ui.rect("map.bar");
  const float quarter = bar.min.x + (bar.max.x - bar.min.x) / 4;
  CHECK(rig.ui.color_at({quarter, bar.min.y + 1}) == theme().accepted);
  CHECK(rig.ui.color_at({quarter, bar.max.y - 1}) != theme().accepted);
  const float late = bar.min.x + (bar.max.x - bar.min.x) * 0.9f;
  CHECK(rig.ui.color_at({late, bar.max.y - 2}) == theme().verified);
}

TEST_CASE("live panel: what is drafted before any layer has a lane above the first one") {
  Rig rig;
  rig.begin();
  rig.round({2, 3});
  rig.ui.frame(2);
  CHECK(rig.ui.value("map.lane") == "no");
  rig.round({0, 0});
  rig.ui.frame(2);
  CHECK(rig.ui.value("map.lane") == "yes");
  const Probe::Rect lane = rig.ui.rect("map.cell.3.0"), first = rig.ui.rect("map.cell.3.1");
  CHECK(first.min.y - lane.max.y >= 5);
  CHECK(rig.ui.text("map.cell.3.0") == "w13");
  CHECK(rig.ui.color_at({lane.center().x, lane.min.y + 1}) == theme().accepted);
  CHECK(rig.ui.shows("before"));
}

TEST_CASE("live panel: a replay that goes on after a look back is followed") {
  Rig rig(700, 900);
  const std::string path = rig.fake.folder / "t.jsonl";
  std::vector<RoundRecord> rounds;
  for (int i = 0; i < 40; ++i) rounds.push_back(make_round(i, 9 + 2 * i, {2}));
  write_trace(path, rounds);
  REQUIRE(rig.fake.open_replay(path));
  rig.fake.app.replay()->seek(20);
  rig.ui.frame(2);
  rig.ui.click("replay.token_back");
  rig.ui.frame(2);
  CHECK(rig.ui.value("map.following") == "no");
  rig.ui.click("replay.play");
  rig.ui.frame(2);
  CHECK(rig.ui.value("map.following") == "yes");
  CHECK_FALSE(rig.fake.app.selected);
}

TEST_CASE("live panel: a replay plays, steps and ends by its bar") {
  Rig rig(700, 900);
  const std::string path = rig.fake.folder / "t.jsonl";
  std::vector<RoundRecord> rounds;
  for (int i = 0; i < 4; ++i) rounds.push_back(make_round(i, 9 + 2 * i, {2}));
  write_trace(path, rounds);
  REQUIRE(rig.fake.open_replay(path));
  rig.ui.frame(2);
  CHECK(rig.ui.value("replay.rounds") == "4");
  CHECK(rig.ui.shows("Replay of t.jsonl"));
  rig.ui.click("replay.round");
  rig.ui.frame();
  CHECK(rig.ui.value("replay.round") == "1");
  CHECK(rig.ui.value("map.columns") == "2");
  CHECK(*rig.fake.app.selected == TokenRef{ReplayPlayer::kFirstReply, 1});
  rig.ui.click("replay.token");
  rig.ui.frame();
  CHECK(*rig.fake.app.selected == TokenRef{ReplayPlayer::kFirstReply, 2});
  rig.ui.click("replay.token_back");
  rig.ui.click("replay.round_back");
  rig.ui.frame();
  CHECK(rig.ui.value("replay.round") == "0");
  rig.ui.click("replay.play");
  rig.ui.frame();
  CHECK(rig.ui.value("replay.playing") == "yes");
  rig.ui.click("replay.play");
  rig.ui.frame();
  CHECK(rig.ui.value("replay.playing") == "no");
  const Probe::Rect seek = rig.ui.rect("replay.seek");
  rig.ui.drag(seek.center(), {seek.max.x - 2, seek.center().y});
  rig.ui.frame();
  CHECK(rig.ui.value("replay.round") == "4");
  CHECK(rig.ui.value("map.columns") == "8");
  rig.ui.click("replay.close");
  rig.ui.frame(2);
  CHECK_FALSE(rig.fake.app.selected);
  CHECK(rig.fake.app.replay() == nullptr);
  CHECK_FALSE(rig.ui.has("replay.play"));
}

}  // namespace specbound::gui::live_panel_test
