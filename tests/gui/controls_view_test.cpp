// The controls, drawn: what is moved reaches the worker at once, what it refuses is read beside the
// control, and nothing is cut off or drawn out of sight.
#include "gui/view/controls_view.h"

#include <doctest/doctest.h>

#include "gui/fake_worker.h"
#include "gui/headless.h"

namespace specbound::gui::controls_view_test {
namespace {

// The panel over a worker of which only the answers are real.
struct Panel {
  explicit Panel(float width = 360, float height = 900) : ui(width, height) {
    ui.set_content([this] { view.draw(fake.app, probe()); });
    ui.frame(2);
  }
  void loaded(int n_layers = 16) {
    ModelLoaded event;
    event.model.n_layers = n_layers;
    event.model.drafting = drafting;
    fake.app.load("demo.gguf");
    fake.app.apply(event);
    ui.frame(2);
  }
  void answer(const std::string& refusal = "") {
    fake.app.apply(DraftingChanged{drafting, refusal});
    ui.frame(2);
  }
  const std::vector<DraftingChange>& changes() const { return fake.worker.draftings; }
  ImVec2 at(const char* name, float share) {
    const Probe::Rect r = ui.rect(name);
    return {r.min.x + (r.max.x - r.min.x) * share, r.center().y};
  }

  FakeApp fake{false};
  Drafting drafting = [] {
    Drafting d;
    d.possible = d.on = true;
    d.description = "speculation on: specbound with chained heads";
    d.head_layers = {0, 2, 4, 8, 12};
    d.params.d_max = 8;
    d.params.check_layers = {2, 8};
    return d;
  }();
  ControlsView view;
  Headless ui;
};

}  // namespace

TEST_CASE("controls: without a model there is sampling and a hint") {
  Panel panel;
  CHECK(panel.ui.shows("Once a model is loaded"));
  CHECK_FALSE(panel.ui.has("controls.tau"));
  CHECK(panel.ui.has("controls.temperature"));
}

TEST_CASE("controls: a slider asks the worker as it moves, and stays there") {
  Panel panel;
  panel.loaded();
  panel.ui.drag(panel.at("controls.tau", 0.5f), panel.at("controls.tau", 0.9f));
  REQUIRE_FALSE(panel.changes().empty());
  const float asked = panel.changes().back().params->tau;
  CHECK(asked > 0.7f);
  panel.ui.frame(2);
  CHECK(std::stof(panel.ui.value("controls.tau")) == doctest::Approx(asked));
  CHECK(panel.ui.value("controls.changed") == "yes");
  CHECK(panel.ui.has("controls.reset"));
  panel.ui.click("controls.reset");
  CHECK(panel.changes().back().preset == Preset::kTuned);
}

TEST_CASE("controls: what the worker refuses is read beside the control") {
  Panel panel;
  panel.loaded();
  panel.ui.click("controls.layer.4");
  REQUIRE(panel.changes().size() == 1);
  CHECK(panel.changes()[0].params->check_layers == std::vector<int>{2, 4, 8});
  CHECK(panel.ui.value("controls.layer.4") == "on");
  panel.answer("check_layers: expected layers that have a head, found 4");
  CHECK(panel.ui.value("controls.layer.4") == "off");
  CHECK(panel.ui.shows("Not changed: expected layers that have a head, found 4"));
  CHECK(panel.ui.value("controls.layer.12") == "off, beyond");
}

TEST_CASE("controls: speculation, presets") {
  Panel panel;
  panel.loaded();
  CHECK(panel.ui.shows("chained heads"));
  CHECK(panel.ui.value("controls.preset") == "tuned");
  panel.ui.click("controls.preset.paper");
  REQUIRE(panel.changes().size() == 1);
  CHECK(panel.changes()[0].preset == Preset::kPaper);
  panel.ui.click(panel.at("controls.speculation", 0.1f));
  REQUIRE(panel.changes().size() == 2);
  CHECK(panel.changes()[1].on == false);
  CHECK(panel.ui.value("controls.speculation") == "off");
}

TEST_CASE("controls: where nothing can draft it says why, and shows no settings") {
  Panel panel;
  panel.drafting = Drafting();
  panel.drafting.description = "speculation off: no exit heads beside the model";
  panel.loaded();
  CHECK(panel.ui.shows("no exit heads beside the model"));
  CHECK_FALSE(panel.ui.has("controls.tau"));
  panel.ui.click(panel.at("controls.speculation", 0.1f));
  CHECK(panel.changes().empty());
}

TEST_CASE("controls: sampling, seed and budget") {
  Panel panel;
  panel.ui.drag(panel.at("controls.temperature", 0.3f), panel.at("controls.temperature", 0.0f));
  CHECK(panel.fake.app.sampling().temperature == 0);
  CHECK(panel.fake.worker.samplings.back().temperature == 0);

  CHECK(panel.fake.app.random_seed());
  panel.ui.double_click(panel.ui.rect("controls.seed").center());
  panel.ui.key(Key{'A'}, true);
  panel.ui.type("4711");
  panel.ui.key(Key::kEnter);
  CHECK(panel.fake.app.sampling().seed == 4711);
  CHECK_FALSE(panel.fake.app.random_seed());
  panel.ui.click(panel.ui.rect("controls.seed").center());
  panel.ui.key(Key{'A'}, true);
  panel.ui.type("nonsense");
  panel.ui.key(Key::kEnter);
  CHECK(panel.fake.app.sampling().seed == 4711);
  CHECK(panel.ui.shows("found \"nonsense\""));
  panel.ui.click("controls.seed.random");
  CHECK(panel.fake.app.random_seed());

  panel.ui.click("controls.reset_sampling");
  CHECK(panel.fake.app.sampling().temperature == SamplingParams().temperature);
}

TEST_CASE("controls: a tooltip teaches") {
  Panel panel;
  panel.loaded();
  panel.ui.move("controls.d_max");
  panel.ui.frame(3);
  CHECK(panel.ui.shows("deepest layer a draft may leave at"));
  CHECK(panel.ui.shows("--d-max"));
}

TEST_CASE("controls: a narrow panel keeps everything inside") {
  Panel panel(240, 1400);
  panel.loaded();
  for (const std::string& name : panel.ui.rects("controls.")) {
    CAPTURE(name);
    const Probe::Rect r = panel.ui.rect(name);
    CHECK(r.min.x >= 0);
    CHECK(r.max.x <= 240);
  }
}

TEST_CASE("controls: a model of very many layers draws those that can be seen") {
  Panel panel(360, 700);
  for (int l = 13; l < 100'000; ++l) panel.drafting.head_layers.push_back(l);
  panel.loaded(100'000);
  CHECK(panel.ui.triangles() < 20'000);
  CHECK(panel.ui.rects("controls.layer.").size() < 1000);
}

}  // namespace specbound::gui::controls_view_test
