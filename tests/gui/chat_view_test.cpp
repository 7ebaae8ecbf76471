// The chat pane, drawn without a screen: writing, streaming, scrolling, selecting, tokens, and what
// can be done with a message.
#include "gui/view/chat_view.h"

#include <doctest/doctest.h>

#include <chrono>

#include "gui/fake_worker.h"
#include "gui/headless.h"
#include "gui/model/replay_player.h"
#include "gui/trace_rig.h"
#include "gui/view/export_view.h"
#include "gui/view/file_picker.h"
#include "gui/view/fonts.h"
#include "gui/view/model_picker.h"

namespace specbound::gui::chat_view_test {

namespace {

struct Rig {
  FakeApp fake;
  FilePicker picker;
  ExportView exporter;
  ModelPicker models{picker};
  ChatView chat{picker, models, exporter};
  Headless ui;

  explicit Rig(bool loaded = true, float width = 700, float height = 600)
      : fake(loaded), ui(width, height) {
    ui.set_content([this] {
      chat.draw(fake.app, probe());
      picker.draw(fake.app, probe());
      exporter.draw(fake.app, probe());
    });
    ui.frame(3);
  }
  AppState& app() { return fake.app; }
  ImVec2 left_of(const std::string& rect) {
    const Probe::Rect r = ui.rect(rect);
    return {r.min.x + 2, (r.min.y + r.max.y) / 2};
  }
};

std::string words(int n) {
  std::string text;
  for (int i = 0; i < n; ++i) text += "word" + std::to_string(i) + (i % 9 == 8 ? "\n" : " ");
  return text;
}

}  // namespace

TEST_CASE("chat view: a message typed and sent with Enter, a reply that streams") {
  Rig r;
  CHECK(r.ui.shows("Try one of these"));
  r.ui.type("Hello");
  r.ui.key(Key::kEnter, false, true);
  r.ui.type("there");
  CHECK(r.ui.value("chat.input") == "Hello\nthere");
  r.ui.key(Key::kEnter);
  REQUIRE(r.fake.worker.replies.size() == 1);
  CHECK(r.fake.worker.replies[0].messages.back().content == "Hello\nthere");
  CHECK(r.ui.value("chat.input") == "");
  CHECK(r.ui.value("chat.replying") == "yes");
  CHECK(r.ui.has("chat.stop"));
  r.app().apply(PromptRead{1, 3, 12});
  r.ui.frame();
  CHECK(r.ui.shows("reading the prompt, 3 of 12 tokens"));
  r.fake.begin(1);
  r.fake.round(1, {"Good", " day"});
  r.ui.frame();
  CHECK(r.ui.shows("Good day"));
  CHECK_FALSE(r.ui.shows("reading the prompt"));
  r.fake.round(1, {" half \xe2\x82"});
  r.ui.frame();
  CHECK(r.ui.text("chat.message.1").find("?") == std::string::npos);
  r.fake.end(1);
  r.ui.frame();
  CHECK(r.ui.value("chat.replying") == "no");
  CHECK(r.ui.value("chat.figures.1") != "");
  CHECK(r.ui.shows("stop: end"));
  // The keyboard is still the composer's.
  r.ui.type("More");
  CHECK(r.ui.value("chat.input") == "More");
}

TEST_CASE("chat view: sending waits for a model and for something to send; stop stops") {
  Rig r(false);
  CHECK(r.ui.has("chat.choose"));
  CHECK(r.ui.shows("A model is needed first"));
  r.ui.click("chat.input");
  r.ui.type("early");
  r.ui.key(Key::kEnter);
  CHECK(r.fake.worker.replies.empty());
  CHECK(r.ui.value("chat.input") == "early");
  r.app().load("a/demo.gguf");
  r.app().apply(LoadProgress{"repacking weights", 0.5});
  r.ui.frame(2);
  CHECK(r.ui.shows("Loading demo.gguf: repacking weights"));
  CHECK(r.ui.has("chat.load.bar"));
  CHECK(r.ui.shows("50 %"));
  r.ui.click("chat.load.cancel");
  CHECK(r.fake.worker.stops == 1);
  r.app().apply(LoadFailed{"a/demo.gguf: truncated"});
  r.ui.frame(2);
  CHECK(r.ui.shows("a/demo.gguf: truncated"));
  r.app().apply(ModelLoaded{FakeApp::model()});
  r.ui.frame(2);
  r.ui.click("chat.send");
  REQUIRE(r.fake.worker.replies.size() == 1);
  r.ui.click("chat.stop");
  CHECK(r.fake.worker.stops == 2);
  CHECK(r.ui.shows("Stopping"));
  r.ui.click("chat.input");
  r.ui.type("and more");
  // No token came: the message is back in the box, before what was written since.
  r.fake.end(1, StopReason::kAborted, 0);
  r.ui.frame(2);
  CHECK(r.ui.value("chat.input") == "early\n\nand more");
  CHECK(r.ui.value("chat.messages") == "0");
}

TEST_CASE("chat view: with messages there, a model that is missing is said above the composer") {
  Rig r;
  r.fake.talk("Hi", {"Yes"});
  r.app().apply(LoadFailed{"gone"});
  r.ui.frame(2);
  CHECK(r.ui.shows("could not be loaded: gone"));
  CHECK(r.ui.rect("chat.choose").max.y < r.ui.rect("chat.input").min.y);
  CHECK(r.ui.shows("Yes"));
}

TEST_CASE("chat view: regenerate, edit and send again, copy") {
  Rig r;
  r.fake.talk("First", {"One"});
  r.fake.talk("Second", {"Two"});
  r.ui.frame(2);
  r.ui.click("chat.copy.3");
  CHECK(r.ui.clipboard() == "Two");
  r.ui.click("chat.regenerate");
  REQUIRE(r.fake.worker.replies.size() == 3);
  CHECK(r.fake.worker.replies[2].number == 1);
  CHECK_FALSE(r.ui.has("chat.edit.0"));
  r.fake.answer({"Three"});
  r.ui.frame(2);
  r.ui.click("chat.edit.0");
  CHECK(r.ui.value("chat.editor") == "First");
  r.ui.key(Key::kEscape);
  CHECK_FALSE(r.ui.has("chat.editor"));
  CHECK(r.ui.value("chat.messages") == "4");
  r.ui.click("chat.edit.0");
  r.ui.type(" again");
  r.ui.click("chat.editor.send");
  REQUIRE(r.fake.worker.replies.size() == 4);
  CHECK(r.fake.worker.replies[3].messages.back().content == "First again");
  CHECK(r.ui.value("chat.messages") == "2");
  r.fake.answer({"Four"});
  r.ui.frame(2);
  r.ui.click("chat.edit.0");
  r.ui.key(Key::kEnter);
  CHECK(r.fake.worker.replies.size() == 5);
}

TEST_CASE("chat view: the system prompt is edited, kept, and told to the next reply") {
  Rig r;
  r.ui.click("chat.system");
  r.ui.type("Be brief.");
  r.ui.click("chat.system.cancel");
  CHECK(r.app().conversation().system == "");
  r.ui.click("chat.system");
  r.ui.type("Be brief.");
  r.ui.key(Key::kEnter);
  r.ui.type("Be kind.");
  r.ui.click("chat.system.save");
  CHECK(r.app().conversation().system == "Be brief.\nBe kind.");
  CHECK(r.ui.shows("System prompt (set)"));
  CHECK_FALSE(r.ui.has("chat.system.box"));
  r.ui.click("chat.system");
  CHECK(r.ui.value("chat.system.box") == "Be brief.\nBe kind.");
}

TEST_CASE("chat view: tokens are tinted by how they came about, and a switch takes that away") {
  Rig r;
  r.fake.talk("Hi", {"drafted", "verified"});
  r.ui.frame(2);
  const auto below = [&](const char* rect) {
    const Probe::Rect p = r.ui.rect(rect);
    return ImVec2{(p.min.x + p.max.x) / 2, p.min.y + 1};
  };
  // Half transparent fills are not in color_at; triangles tell.
  const int tinted = r.ui.triangles();
  CHECK(r.ui.shows("drafted early"));
  r.ui.click("chat.tint");
  r.ui.move({1, 1});
  CHECK_FALSE(r.chat.tinted());
  CHECK(r.ui.triangles() < tinted);
  CHECK_FALSE(r.ui.shows("drafted early"));
  CHECK(below("chat.token.1.0").x < below("chat.token.1.1").x);
}

TEST_CASE("chat view: a draft that was replaced is underlined, others are not") {
  Rig r;
  r.app().send("Hi");
  r.fake.begin(1);
  // Drafts at layers 2 and 3, of which the second is wrong; then a token without a draft.
  r.app().apply(RoundDone{1, make_round(0, 10, {2, 3}, 1), 0.1});
  r.app().apply(RoundDone{1, make_round(1, 12, {}), 0.2});
  r.ui.frame(2);
  const auto under = [&](int token) {
    const Probe::Rect p = r.ui.rect("chat.token.1." + std::to_string(token));
    return r.ui.color_at({(p.min.x + p.max.x) / 2, p.max.y - 1});
  };
  CHECK(under(1) == theme().rejected);
  CHECK(under(0) != theme().rejected);
  CHECK(under(2) != theme().rejected);
  r.ui.move("chat.token.1.1");
  r.ui.frame(2);
  CHECK(r.ui.shows("Layer 3 had drafted another token (\" wrong\")"));
  r.ui.move("chat.token.1.2");
  r.ui.frame();
  CHECK(r.ui.shows("Not drafted: all layers gave this token."));
}

TEST_CASE("chat view: a token pointed at and clicked is the map's, and the map's is shown here") {
  Rig r;
  r.fake.talk("Hi", {"alpha", " beta", " gamma"});
  r.ui.frame(2);
  const uint64_t reply = r.fake.worker.replies[0].id;
  r.ui.move("chat.token.1.1");
  r.ui.frame(2);
  CHECK(r.app().hovered == TokenRef{reply, 1});
  CHECK(r.ui.shows("Drafted at layer 2, 90 % sure"));
  r.ui.click("chat.token.1.2");
  CHECK(r.app().selected == TokenRef{reply, 2});
  CHECK(r.app().reveal_in_map);
  r.ui.move({1, 1});
  r.ui.frame();
  CHECK_FALSE(r.app().hovered);
  // Somebody else's stays.
  r.app().hovered = TokenRef{reply, 0};
  r.ui.frame(2);
  CHECK(r.app().hovered == TokenRef{reply, 0});
}

TEST_CASE("chat view: a token chosen in the map is scrolled to") {
  Rig r;
  std::vector<std::string> texts;
  for (int i = 0; i < 600; ++i) texts.push_back("word" + std::to_string(i) + " ");
  r.fake.talk("Hi", texts);
  r.ui.frame(3);
  CHECK_FALSE(r.ui.has("chat.token.1.3"));
  r.app().selected = TokenRef{r.fake.worker.replies[0].id, 3};
  r.app().reveal_in_chat = true;
  r.ui.frame(2);
  CHECK(r.ui.has("chat.token.1.3"));
  CHECK_FALSE(r.app().reveal_in_chat);
  CHECK(r.ui.value("chat.following") == "no");
  r.ui.frame(5);
  CHECK(r.ui.has("chat.token.1.3"));
  // One that is not there harms nothing.
  r.app().selected = TokenRef{999, 3};
  r.app().reveal_in_chat = true;
  r.ui.frame(2);
  r.app().selected = TokenRef{r.fake.worker.replies[0].id, 99999};
  r.app().reveal_in_chat = true;
  r.ui.frame(2);
}

TEST_CASE("chat view: the newest text stays in view until the person scrolls up") {
  Rig r;
  r.app().send("Hi");
  r.fake.begin(1);
  for (int i = 0; i < 100; ++i) {
    r.fake.round(1, {"line" + std::to_string(i) + "\n"});
    r.ui.frame();  // one frame is all that an event gets
    CHECK(r.ui.shows("line" + std::to_string(i)));
  }
  r.ui.move("chat.list");
  r.ui.wheel(3);
  CHECK(r.ui.value("chat.following") == "no");
  const std::string before = r.ui.text("chat.list");
  r.fake.round(1, {"and\n", "more\n"});
  r.ui.frame(3);
  CHECK(r.ui.text("chat.list") == before);
  for (int i = 0; i < 20; ++i) r.ui.wheel(-5);
  CHECK(r.ui.value("chat.following") == "yes");
  r.fake.round(1, {"the end"});
  r.ui.frame();
  CHECK(r.ui.shows("the end"));
}

TEST_CASE("chat view: text is selected by dragging and by clicks, and copied") {
  Rig r;
  r.fake.talk("Question", {"alpha", " beta", " gamma"});
  r.ui.frame(2);
  r.ui.drag(r.left_of("chat.token.1.0"), r.left_of("chat.token.1.2"));
  r.ui.key(Key{'C'}, true);
  CHECK(r.ui.clipboard() == "alpha beta ");
  CHECK_FALSE(r.app().selected);
  r.ui.double_click(r.ui.rect("chat.token.1.1").center());
  r.ui.key(Key{'C'}, true);
  CHECK(r.ui.clipboard() == "beta");
  r.ui.key(Key{'A'}, true);
  r.ui.key(Key{'C'}, true);
  CHECK(r.ui.clipboard() == "Question\n\nalpha beta gamma");
  // What is typed is the composer's, which has a selection of its own.
  r.ui.click("chat.input");
  r.ui.type("typed");
  r.ui.key(Key{'A'}, true);
  r.ui.key(Key{'C'}, true);
  CHECK(r.ui.clipboard() == "typed");
  r.ui.click("chat.input");
  r.ui.double_click(r.ui.rect("chat.token.1.1").center());
  r.ui.click("chat.input");
  r.ui.key(Key{'A'}, true);
  r.ui.key(Key::kEscape);
  r.ui.key(Key{'C'}, true);
  CHECK(r.ui.clipboard() == "beta");
}

TEST_CASE("chat view: a drag from one message into others selects all between, in order") {
  Rig r;
  r.fake.talk("First question", {"alpha", " beta"});
  r.fake.talk("Second question", {"gamma", " delta"});
  r.ui.frame(3);
  const auto copied = [&] {
    r.ui.set_clipboard("nothing");
    r.ui.key(Key{'C'}, true);
    return r.ui.clipboard();
  };
  const std::string between = "beta\n\nSecond question\n\ngamma";
  const ImVec2 beta = r.left_of("chat.token.1.1"), end = r.ui.rect("chat.token.3.0").max;
  const ImVec2 after_gamma{end.x + 1, r.ui.rect("chat.token.3.0").center().y};
  const int unselected = r.ui.triangles();
  r.ui.drag(beta, after_gamma);
  r.ui.move(after_gamma);
  CHECK(r.ui.triangles() >= unselected + 3 * 2);  // what is behind the letters of three messages
  CHECK(copied() == between);
  CHECK_FALSE(r.app().selected);
  r.ui.drag(after_gamma, beta);  // and upwards
  CHECK(copied() == between);
  // It may be narrowed to the message that it began in, and is gone with the next click.
  r.ui.move(beta);
  r.ui.press();
  r.ui.move(after_gamma);
  r.ui.frame(2);
  r.ui.move(r.left_of("chat.token.1.0"));
  r.ui.frame(2);
  r.ui.release();
  CHECK(copied() == "alpha ");
  r.ui.drag(beta, after_gamma);
  r.ui.click(r.ui.rect("chat.token.3.1").center());
  CHECK(copied() == "nothing");
  // Below the last message is its end.
  r.ui.drag(beta, {beta.x, r.ui.rect("chat.list").max.y - 2});
  CHECK(copied() == "beta\n\nSecond question\n\ngamma delta");
  // Figures are selected alone.
  r.ui.drag(beta, after_gamma);
  r.ui.double_click({r.ui.rect("chat.token.1.0").min.x + 4,
                     r.ui.rect("chat.copy.1").min.y - ImGui::GetFontSize() / 2 - 2});
  CHECK(copied().find("gamma") == std::string::npos);
}

TEST_CASE("chat view: Ctrl+A selects the conversation, also what is out of view") {
  Rig r;
  std::string all;
  for (int i = 0; i < 12; ++i) {
    const std::string number = std::to_string(i);
    r.fake.talk("Question " + number, {words(100), "end" + number});
    all += (i ? "\n\n" : "") + ("Question " + number) + "\n\n" + words(100) + "end" + number;
  }
  r.ui.frame(3);
  REQUIRE_FALSE(r.ui.has("chat.message.0"));
  r.ui.click(r.ui.rect("chat.token.23.1").center());
  r.ui.key(Key{'A'}, true);
  r.ui.key(Key{'C'}, true);
  CHECK(r.ui.clipboard() == all);
  r.app().new_conversation();
  r.fake.talk("Other", {"reply"});
  r.ui.frame(2);
  r.app().select(1);
  r.ui.frame(2);
  r.ui.key(Key::kEscape);
  r.ui.set_clipboard("nothing");
  r.ui.key(Key{'C'}, true);
  CHECK(r.ui.clipboard() == "nothing");  // another conversation was shown meanwhile
}

TEST_CASE("chat view: a drag across messages goes on while they scroll") {
  Rig r;
  for (int i = 0; i < 6; ++i) r.fake.talk("Question", {words(120), "end" + std::to_string(i)});
  r.ui.frame(3);
  const Probe::Rect list = r.ui.rect("chat.list");
  r.ui.move(r.ui.rect("chat.token.11.1").center());
  r.ui.press();
  r.ui.move({list.min.x + 100, list.min.y - 40});
  r.ui.frame(300);
  r.ui.release();
  r.ui.key(Key{'C'}, true);
  const std::string copied = r.ui.clipboard();
  CHECK(copied.starts_with("Question\n\n"));
  for (int i = 0; i < 5; ++i) {
    CHECK(copied.find("end" + std::to_string(i)) != std::string::npos);
  }
  CHECK(copied.find("end5") == std::string::npos);
}

TEST_CASE("chat view: of a reply's text and its figures one is selected at a time") {
  Rig r;
  r.fake.talk("Question", {"alpha", " beta"});
  r.ui.frame(2);
  const std::string figures = r.app().conversation().messages[1].figures;
  const ImVec2 on_text = r.ui.rect("chat.token.1.1").center();
  const ImVec2 on_figures{r.ui.rect("chat.token.1.0").min.x + 4,
                          r.ui.rect("chat.copy.1").min.y - ImGui::GetFontSize() / 2 - 2};
  const auto copied = [&] {
    r.ui.key(Key{'C'}, true);
    return r.ui.clipboard();
  };
  r.ui.double_click(on_text);
  CHECK(copied() == "beta");
  r.ui.double_click(on_figures);
  REQUIRE(copied() != "beta");
  CHECK(figures.starts_with(r.ui.clipboard()));
  r.ui.drag(on_text, on_figures);
  CHECK(copied().find("beta") == std::string::npos);
  CHECK(std::string(" beta").ends_with(r.ui.clipboard()));
  r.ui.double_click(on_text);
  CHECK(copied() == "beta");
}

TEST_CASE("chat view: letting go beside a text that is out of view ends its selection") {
  Rig r;
  r.fake.talk("Hi", {words(30)});
  r.fake.talk("More", {words(600)});
  r.ui.frame(3);
  r.ui.move("chat.list");
  r.ui.wheel(200);
  r.ui.frame(2);
  const Probe::Rect list = r.ui.rect("chat.list");
  r.ui.move(r.ui.rect("chat.token.1.0").center());
  r.ui.press();
  r.ui.move({list.min.x + 100, list.max.y + 20});
  r.ui.frame(100);  // scrolls on until the text is above the list
  REQUIRE_FALSE(r.ui.has("chat.message.1"));
  r.ui.release();
  r.ui.move("chat.list");
  r.ui.wheel(200);
  r.ui.frame(2);
  REQUIRE(r.ui.has("chat.message.1"));
  r.ui.move({list.min.x + 100, list.max.y + 20});
  r.ui.frame(60);
  CHECK(r.ui.has("chat.message.1"));
}

TEST_CASE("chat view: text being selected goes on where it is out of view") {
  Rig r;
  std::vector<std::string> texts;
  for (int i = 0; i < 600; ++i) texts.push_back("word" + std::to_string(i) + " ");
  r.fake.talk("Hi", texts);
  r.ui.frame(3);
  const Probe::Rect list = r.ui.rect("chat.list");
  r.ui.move({list.min.x + 200, list.max.y - 90});
  r.ui.press();
  r.ui.move({list.min.x + 100, list.min.y - 40});
  r.ui.frame(200);
  r.ui.release();
  r.ui.key(Key{'C'}, true);
  CHECK(r.ui.clipboard().starts_with("Hi\n\nword0 word1 "));
  CHECK(r.ui.clipboard().size() > 3000);
}

TEST_CASE("chat view: long words and messages stay inside, at any size") {
  for (const float width : {60.0f, 200.0f, 640.0f, 2560.0f}) {
    Rig r(true, width, 480);
    r.fake.talk(std::string(500, 'q') + " \u6c34\u6c34\u6c34 " + words(80),
                {std::string(900, 'x'), words(50)});
    r.ui.frame(3);
    for (const Headless::Glyph& glyph : r.ui.glyphs()) CHECK(glyph.max.x <= width + 1);
    r.ui.resize(width, 20);
    r.ui.frame(2);
  }
}

TEST_CASE("chat view: hostile texts are drawn") {
  Rig r;
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  r.app().rename(0, all);
  r.fake.talk("\xff\xfe \u202e%s%n ##x\t\r\n" + all, {all, "", std::string(3, '\0'), "\xf0\x9f"});
  r.ui.frame(3);
  r.ui.drag({20, 100}, {600, 400});
  r.ui.key(Key{'C'}, true);
  CHECK(clipboard_text(r.ui.clipboard()) == r.ui.clipboard());
}

TEST_CASE("chat view: of 100,000 tokens only what is visible is drawn, and quickly") {
  Rig r;
  r.fake.talk("Hi", {"start"});
  r.ui.frame(3);
  r.app().send("Much");
  const uint64_t id = r.fake.worker.replies.back().id;
  r.fake.begin(id);
  for (int i = 0; i < 12500; ++i) {
    r.fake.round(id, {"one ", "two ", "three ", "four ", "five ", "six ", "seven ", "eight "});
  }
  r.ui.frame(3);
  CHECK(r.ui.triangles() < 12000);
  const auto before = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) {
    r.fake.round(id, {"more "});
    r.ui.frame();
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - before;
  MESSAGE("a frame with 100,000 tokens takes ", 10 * took.count(), " ms");
  CHECK(took.count() < 2);
  r.app().selected = TokenRef{id, 5};
  r.app().reveal_in_chat = true;
  r.ui.frame(2);
  CHECK(r.ui.has("chat.token.3.5"));
  CHECK(r.ui.triangles() < 12000);
  CHECK(r.ui.rects("chat.token.").size() < 3000);
}

TEST_CASE("chat view: of many messages only those in view are drawn") {
  Rig r;
  for (int i = 0; i < 500; ++i) r.fake.talk("Question " + std::to_string(i), {"Answer"});
  r.ui.frame(3);
  CHECK(r.ui.rects("chat.message.").size() < 20);
  CHECK(r.ui.has("chat.message.999"));
  CHECK_FALSE(r.ui.has("chat.message.0"));
  r.ui.move("chat.list");
  for (int i = 0; i < 200; ++i) r.ui.wheel(50);
  CHECK(r.ui.rects("chat.message.").size() < 20);
  CHECK(r.ui.shows("Question 0"));
}

TEST_CASE("chat view: a replay is read only") {
  Rig r;
  r.fake.talk("Hi", {"live"});
  const std::string path = r.fake.folder / "trace.jsonl";
  write_trace(path, {make_round(0, 10, {2, 3}), make_round(1, 13, {1}, 0)});
  REQUIRE(r.fake.open_replay(path));
  r.ui.frame(3);
  CHECK_FALSE(r.ui.has("chat.input"));
  CHECK_FALSE(r.ui.has("chat.system"));
  CHECK_FALSE(r.ui.has("chat.regenerate"));
  CHECK_FALSE(r.ui.shows("live"));
  r.app().close_replay();
  r.ui.frame(2);
  CHECK(r.ui.has("chat.input"));
  CHECK(r.ui.shows("live"));
}

TEST_CASE("chat view: an example is sent at a click, exporting opens its dialog") {
  Rig r;
  r.ui.click("chat.example.0");
  REQUIRE(r.fake.worker.replies.size() == 1);
  r.fake.answer({"Sure."});
  r.ui.frame(2);
  r.ui.click("chat.export");
  CHECK(r.ui.has("export.write"));
}

TEST_CASE("chat view: the box wraps what is typed, grows with it, and takes the mouse") {
  Rig r;
  const float one = r.ui.rect("chat.input").max.y - r.ui.rect("chat.input").min.y;
  r.ui.type(words(200));
  r.ui.frame();
  const Probe::Rect box = r.ui.rect("chat.input");
  CHECK(box.max.y - box.min.y > 2 * one);
  for (const Headless::Glyph& glyph : r.ui.glyphs()) CHECK(glyph.max.x < 700);
  CHECK(r.ui.text("chat.input").find("word199") != std::string::npos);  // the caret is in view
  r.ui.key(Key::kHome, true);
  CHECK(r.ui.text("chat.input").find("word0") != std::string::npos);
  r.ui.type("x");
  CHECK(r.ui.value("chat.input").starts_with("xword0"));
  r.ui.key(Key::kDown);
  r.ui.key(Key::kUp);
  r.ui.key(Key::kEnd);
  r.ui.key(Key{'A'}, true);
  r.ui.key(Key{'X'}, true);
  CHECK(r.ui.value("chat.input") == "");
  r.ui.set_clipboard("pasted\r\ntext");
  r.ui.key(Key{'V'}, true);
  CHECK(r.ui.value("chat.input") == "pasted\ntext");
  r.ui.key(Key{'Z'}, true);
  CHECK(r.ui.value("chat.input") == "");
  r.ui.key(Key{'Y'}, true);
  const Probe::Rect small = r.ui.rect("chat.input");
  r.ui.double_click({small.min.x + 20, small.min.y + 14});
  r.ui.type("typed over");
  CHECK(r.ui.value("chat.input") == "typed over\ntext");
}

}  // namespace specbound::gui::chat_view_test
