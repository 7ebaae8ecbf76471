// Models by name: what the list offers and says of memory, what is refused before anything is
// loaded, which are remembered, and the dialog that shows it.
#include "gui/model/model_choices.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gui/fake_worker.h"
#include "gui/headless.h"
#include "gui/view/file_picker.h"
#include "gui/view/model_picker.h"
#include "library/model_name.h"
#include "unit/process_state.h"
#include "unit/temp_dir.h"

namespace specbound::gui::model_choices_test {

namespace {

using From = ModelChoice::From;

void put(const std::string& path, size_t bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << std::string(bytes, 'x');
}

// A machine with nothing but what a test puts there.
struct Machine {
  test::TempDir folder;
  test::CacheFolder cache{folder / "cache"};

  void put_cached(const std::string& name, size_t bytes) const {
    put(folder / ("cache/specbound/models/" + name + ".gguf"), bytes);
  }
};

const ModelChoice* find(const std::vector<ModelChoice>& choices, const std::string& name) {
  const auto found = std::ranges::find(choices, name, &ModelChoice::name);
  return found == choices.end() ? nullptr : &*found;
}

struct Dialog {
  Machine machine;
  FakeApp fake;
  FilePicker files;
  ModelPicker models{files};
  Headless ui{900, 700};

  Dialog() {
    ui.set_content([this] {
      files.draw(fake.app, probe());
      models.draw(fake.app, probe());
    });
  }
  void open() {
    models.open();
    ui.frame(3);
  }
  std::string row(int i) { return ui.value("models.row." + std::to_string(i)); }
};

}  // namespace

TEST_CASE("model choices: short names say whether they fit into memory") {
  const Machine machine;
  const std::vector<ModelChoice> choices = model_choices({}, 4'000'000'000);
  CHECK(choices.size() == short_names().size());
  REQUIRE(find(choices, "qwen3:4b"));
  CHECK(*find(choices, "qwen3:4b") == ModelChoice{From::kHub, "qwen3:4b", "2.5 GB, fits", true});
  CHECK(*find(choices, "qwen3:8b") ==
        ModelChoice{From::kHub, "qwen3:8b", "5.0 GB, too large for memory", false});
  for (const ModelChoice& choice : model_choices({}, 0)) CHECK_FALSE(choice.fits);
}

TEST_CASE("model choices: what the open model takes is counted as free, up to all there is") {
  const uint64_t all = memory_without(UINT64_MAX);
  CHECK(memory_without(0) < all);
  CHECK(memory_without(all) == all);
}

TEST_CASE("model choices: what was used of late comes first, what is gone is left out") {
  const Machine machine;
  const std::string file = machine.folder / "my model.gguf";
  put(file, 1500);
  machine.put_cached("mine", 2500);
  machine.put_cached("other", 3500);
  const std::vector<ModelChoice> choices = model_choices(
      {"qwen3:4b", file, "mine", machine.folder / "gone.gguf", "hf:a", "nobody"}, 1'000'000'000);
  REQUIRE(choices.size() == 4 + short_names().size() - 1);
  CHECK(choices[0] == ModelChoice{From::kRecent, "qwen3:4b", "to be downloaded", true});
  CHECK(choices[1] == ModelChoice{From::kRecent, file, "1.5 KB", true});
  CHECK(choices[2] == ModelChoice{From::kRecent, "mine", "2.5 KB", true});
  CHECK(choices[3] == ModelChoice{From::kHere, "other", "3.5 KB", true});
  CHECK(choices[4].from == From::kHub);
}

TEST_CASE("model choices: of a model in several files the size of all") {
  const Machine machine;
  const std::string name = machine.folder / "big-0000";
  for (const int i : {1, 2, 3}) put(name + std::to_string(i) + "-of-00003.gguf", 1000);
  const std::string first = name + "1-of-00003.gguf";
  CHECK(model_choices({first}, 0).at(0).note == "3.0 KB");
  std::filesystem::remove(name + "2-of-00003.gguf");
  CHECK(model_choices({first}, 0).at(0).from != From::kRecent);  // it cannot be opened
}

TEST_CASE("model choices: a text that is no model is refused in one line") {
  const Machine machine;
  put(machine.folder / "a.gguf", 10);
  for (const char* name : {"smollm2", "hf:own/repo", "hf:own/repo:Q4_K_M"}) {
    CHECK(why_no_model(name).empty());
  }
  CHECK(why_no_model(machine.folder / "a.gguf").empty());
  const std::vector<std::string> none = {
      "", "hf:", "hf:own", "hf:../x", "nobody", "\xff\x01", machine.folder / "b.gguf"};
  for (const std::string& text : none) {
    const std::string why = why_no_model(text);
    CAPTURE(why);
    CHECK_FALSE(why.empty());
    CHECK(why.find_first_of("\n\x01") == std::string::npos);
  }
}

TEST_CASE("model choices: the newest come first, once, not too many of them") {
  std::vector<std::string> recent;
  for (int i = 0; i < 12; ++i) put_in_front(recent, std::to_string(i));
  CHECK(recent.size() == kMostRecentModels);
  put_in_front(recent, "8");
  CHECK(recent.size() == kMostRecentModels);
  CHECK(recent[0] == "8");
  CHECK(recent[1] == "11");
  CHECK(std::ranges::count(recent, "8") == 1);
}

TEST_CASE("model choices: loaded models are remembered, by name where one was used") {
  Machine machine;
  FakeApp f(false);
  const auto load = [&](const std::string& name, const std::string& path) {
    f.app.load(name);
    ModelInfo model = FakeApp::model();
    model.path = path;
    f.app.apply(ModelLoaded{model});
  };
  load("smollm2", "/cache/x.gguf");
  load("/models/a.gguf", "/models/a.gguf");
  f.app.load("/models/broken.gguf");
  f.app.apply(LoadFailed{"broken"});
  load("smollm2", "/cache/x.gguf");
  CHECK(f.app.recent_models() == std::vector<std::string>{"smollm2", "/models/a.gguf"});
}

TEST_CASE("model picker: a name of the list is chosen, and typed ones are loaded") {
  Dialog d;
  d.machine.put_cached("mine", 2500);
  d.open();
  CHECK(d.row(0) == "mine");
  CHECK(d.ui.value("models.note.0") == "2.5 KB");
  CHECK(d.ui.shows("On this machine"));
  CHECK(d.ui.shows("From Hugging Face"));
  d.ui.click("models.open");  // nothing is chosen yet
  CHECK(d.fake.worker.loads.size() == 1);
  d.ui.click("models.row.0");
  CHECK(d.ui.value("models.name") == "mine");
  d.ui.click("models.open");
  d.ui.frame(2);
  REQUIRE(d.fake.worker.loads.size() == 2);
  CHECK(d.fake.worker.loads[1].model.model == "mine");
  CHECK_FALSE(d.ui.has("models.name"));

  d.open();
  d.ui.type("  hf:own/repo:Q8_0");
  d.ui.key(Key::kEnter);
  d.ui.frame(2);
  REQUIRE(d.fake.worker.loads.size() == 3);
  CHECK(d.fake.worker.loads[2].model.model == "hf:own/repo:Q8_0");
  d.open();
  d.ui.double_click(d.ui.rect("models.row.1").center());
  d.ui.frame(2);
  CHECK(d.fake.worker.loads.size() == 4);
}

TEST_CASE("model picker: what is no model stays in the dialog, with the reason") {
  Dialog d;
  d.open();
  d.ui.type("hf:nothing");
  d.ui.key(Key::kEnter);
  d.ui.frame(2);
  CHECK(d.fake.worker.loads.size() == 1);
  CHECK(d.ui.value("models.problem").find("hf:nothing") != std::string::npos);
  CHECK(d.ui.shows("expected"));
  d.ui.click("models.row.0");
  d.ui.frame(2);
  CHECK(d.ui.value("models.problem").empty());
  d.ui.key(Key::kEscape);
  d.ui.frame(2);
  CHECK_FALSE(d.ui.has("models.name"));
}

TEST_CASE("model picker: the list scrolls, and a file may be chosen instead") {
  Dialog d;
  d.ui.resize(480, 360);
  d.open();
  for (const Headless::Glyph& glyph : d.ui.glyphs()) CHECK(glyph.max.x <= 480);
  CHECK(d.ui.rect("models.open").max.y <= 360);
  d.ui.click("models.file");
  d.ui.frame(3);
  CHECK_FALSE(d.ui.has("models.name"));
  CHECK(d.ui.has("files.path"));
}

}  // namespace specbound::gui::model_choices_test
