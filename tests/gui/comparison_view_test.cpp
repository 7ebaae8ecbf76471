// The comparison, drawn: why it cannot begin is told, both sides are shown as they come, and the
// end has times, ratio and verdict.
#include "gui/view/comparison_view.h"

#include <doctest/doctest.h>

#include "gui/fake_worker.h"
#include "gui/headless.h"
#include "gui/trace_rig.h"

namespace specbound::gui::comparison_view_test {
namespace {

struct Panel {
  explicit Panel(bool loaded = true, float width = 700) : fake(loaded), ui(width, 700) {
    ui.set_content([this] { view.draw(fake.app, probe()); });
    ui.frame(2);
  }
  // By a click; returns the plain side's id.
  uint64_t begin() {
    ui.click("compare.start");
    REQUIRE(fake.worker.comparisons.size() == 1);
    const uint64_t id = fake.worker.comparisons[0].id;
    fake.app.apply(ComparisonBegan{id, id + 1});
    return id;
  }
  // Both sides, from the click on.
  void compare(const std::vector<std::string>& texts, bool identical = true) {
    const uint64_t id = begin();
    for (const uint64_t side : {id, id + 1}) {
      fake.begin(side);
      fake.round(side, texts);
      ui.frame(2);
      fake.end(side);
    }
    ComparisonEnded end;
    end.plain.generated_tokens = end.speculative.generated_tokens = 40;
    end.plain.decode_seconds = 2;
    end.speculative.decode_seconds = 0.8;
    end.identical = identical;
    if (!identical) end.first_difference = "at byte 7";
    fake.app.apply(end);
    ui.frame(2);
  }

  FakeApp fake;
  ComparisonView view;
  Headless ui;
};

}  // namespace

TEST_CASE("comparison view: why it cannot begin is told beside the button") {
  Panel none(false);
  CHECK(none.ui.shows("Load a model first."));
  none.ui.click("compare.start");
  CHECK(none.fake.worker.comparisons.empty());
}

TEST_CASE("comparison view: nothing that drafts is told") {
  Panel panel;
  ModelInfo model = FakeApp::model();
  model.drafting = Drafting();
  model.drafting.description = "no exit heads";
  panel.fake.app.apply(ModelLoaded{model});
  panel.ui.frame(2);
  CHECK(panel.ui.shows("Nothing can draft: no exit heads"));
}

TEST_CASE("comparison view: the newest message is the prompt, until one is typed") {
  Panel panel;
  panel.fake.talk("Find me some music.", {"Which", " genre?"});
  panel.ui.frame(2);
  CHECK(panel.ui.text("compare.prompt") == "Find me some music.");
  panel.ui.click("compare.prompt");
  panel.ui.key(Key{'A'}, true);
  panel.ui.type("Play jazz.");
  panel.ui.click("compare.start");
  REQUIRE(panel.fake.worker.comparisons.size() == 1);
  CHECK(panel.fake.worker.comparisons[0].messages.back().content == "Play jazz.");
}

TEST_CASE("comparison view: both sides, the times, the ratio and the verdict") {
  Panel panel;
  panel.compare({"What", " kind", " of food?"});
  CHECK(panel.ui.text("compare.plain.text").find("What kind of food?") != std::string::npos);
  CHECK(panel.ui.text("compare.speculative.text").find("What kind of food?") != std::string::npos);
  CHECK(panel.ui.shows("40 tokens in 2.00 s, 20.0 tokens/s"));
  CHECK(panel.ui.shows("40 tokens in 800 ms, 50.0 tokens/s"));
  CHECK(panel.ui.shows("2.50 times as fast with speculation"));
  CHECK(panel.ui.shows("identical: yes"));
  CHECK(panel.ui.value("compare.identical") == "yes");
  CHECK(std::stod(panel.ui.value("compare.ratio")) == doctest::Approx(2.5));
  const Probe::Rect plain = panel.ui.rect("compare.plain.bar");
  const Probe::Rect speculative = panel.ui.rect("compare.speculative.bar");
  const float share = (speculative.max.x - speculative.min.x) / (plain.max.x - plain.min.x);
  CHECK(share == doctest::Approx(0.4).epsilon(0.02));
  CHECK(panel.ui.color_at(plain.center()) == theme().verified);
  CHECK(panel.ui.color_at(speculative.center()) == theme().accepted);
}

TEST_CASE("comparison view: each side shows its own text as it comes") {
  Panel panel;
  const uint64_t id = panel.begin();
  panel.fake.begin(id);
  panel.fake.round(id, {"slow", " one"});
  panel.ui.frame(2);
  CHECK(panel.ui.text("compare.plain.text").find("slow one") != std::string::npos);
  CHECK(panel.ui.value("compare.plain.state") == "writing");
  CHECK(panel.ui.value("compare.speculative.state") == "waiting for its turn");
  panel.fake.end(id);
  panel.fake.begin(id + 1);
  panel.fake.round(id + 1, {"fast", " one"});
  panel.ui.frame(2);
  CHECK(panel.ui.text("compare.plain.text").find("slow one") != std::string::npos);
  CHECK(panel.ui.text("compare.speculative.text").find("fast one") != std::string::npos);
}

TEST_CASE("comparison view: what is replayed meanwhile is not what is compared") {
  Panel panel;
  const std::string path = panel.fake.folder / "t.jsonl";
  write_trace(path, {make_round(0, 10, {2})});
  panel.fake.app.open_replay(path);
  panel.fake.answer_trace();
  REQUIRE(panel.fake.app.replay());
  panel.ui.frame(2);
  const uint64_t id = panel.begin();
  panel.fake.begin(id);
  panel.fake.round(id, {"slow", " one"});
  panel.ui.frame(2);
  CHECK(panel.ui.value("compare.plain.state") == "writing");
}

TEST_CASE("comparison view: texts that differ are an error on screen") {
  Panel panel;
  panel.compare({"a"}, false);
  CHECK(panel.ui.shows("identical: no"));
  CHECK(panel.ui.shows("at byte 7"));
}

TEST_CASE("comparison view: while it runs there is a stop") {
  Panel panel;
  panel.ui.click("compare.start");
  panel.ui.frame(2);
  CHECK(panel.ui.value("compare.running") == "yes");
  CHECK_FALSE(panel.ui.has("compare.start"));
  panel.ui.click("compare.stop");
  CHECK(panel.fake.worker.stops == 1);
}

TEST_CASE("comparison view: a narrow panel has the texts one above the other, inside") {
  Panel panel(true, 320);
  panel.compare({"What", " kind", " of food?"});
  const Probe::Rect plain = panel.ui.rect("compare.plain.text");
  CHECK(panel.ui.rect("compare.prompt").max.x <= 320);
  CHECK(plain.max.x <= 320);
}

TEST_CASE("comparison view: an enormous text is drawn where it can be seen") {
  Panel panel;
  const std::vector<std::string> many(50'000, " word");
  panel.compare(many);
  CHECK(panel.ui.triangles() < 20'000);
}

}  // namespace specbound::gui::comparison_view_test
