// Replies as Markdown, drawn without a screen: selecting, copying, tokens, the switch to what was
// written, replies that still come, and sources made to cost a frame.
#include "gui/view/markdown_text.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "gui/fake_worker.h"
#include "gui/headless.h"
#include "gui/view/chat_view.h"
#include "gui/view/export_view.h"
#include "gui/view/file_picker.h"
#include "gui/view/model_picker.h"
#include "unit/sanitized.h"

namespace specbound::gui::markdown_view_test {

namespace {

constexpr double kMostSeconds = test::kSanitized ? 0.2 : 0.02;

struct Rig {
  FakeApp fake;
  FilePicker picker;
  ExportView exporter;
  ModelPicker models{picker};
  ChatView chat{picker, models, exporter};
  Headless ui{700, 600};

  Rig() {
    ui.set_content([this] { chat.draw(fake.app, probe()); });
    ui.frame(3);
  }
  std::string copied() {
    ui.key(Key{'C'}, true);
    return ui.clipboard();
  }
};

}  // namespace

TEST_CASE("markdown view: marks are not drawn, tokens are tinted, code has its button") {
  if (!markdown_available()) return;
  Rig r;
  r.fake.talk("Q", {"# Top\n\n", "A **bo", "ld** word\n\n", "```python\n", "x = **1**\n", "```\n"});
  r.ui.frame(3);
  CHECK(r.ui.value("chat.rendered.1") == "yes");
  CHECK(r.ui.shows("Top"));
  CHECK(r.ui.shows("A boldbold word"));  // bold letters are drawn twice
  CHECK(r.ui.shows("x = **1**"));
  CHECK_FALSE(r.ui.shows("# Top"));
  CHECK_FALSE(r.ui.shows("```"));
  CHECK(r.ui.value("chat.text.1.language.2") == "python");
  CHECK(r.ui.has("chat.text.1.heading.0"));
  CHECK(r.ui.has("chat.token.1.1"));
  CHECK(r.ui.has("chat.token.1.4"));
  CHECK_FALSE(r.ui.has("chat.token.1.5"));  // a fence is no text
  CHECK(r.ui.color_at(r.ui.rect("chat.token.1.1").center()) != 0);
  r.ui.click("chat.text.1.copy.2");
  CHECK(r.ui.clipboard() == "x = **1**");
  r.ui.click("chat.copy.1");
  CHECK(r.ui.clipboard() == "# Top\n\nA **bold** word\n\n```python\nx = **1**\n```\n");
  // A token pointed at is the one whose letters are there.
  r.ui.click("chat.token.1.4");
  CHECK(r.fake.app.selected == TokenRef{r.fake.worker.replies.back().id, 4});
}

TEST_CASE(
    "markdown view: selection goes through all blocks of a message, and copies what is seen") {
  if (!markdown_available()) return;
  Rig r;
  r.fake.talk("Q", {"# Top\n\n", "- **one**\n", "- two\n\n", "```c\n", "int x;\n", "```\n\nend"});
  r.ui.frame(3);
  const Probe::Rect top = r.ui.rect("chat.token.1.0"), end = r.ui.rect("chat.token.1.5");
  r.ui.drag({top.min.x + 1, top.center().y}, {end.max.x + 40, end.center().y});
  CHECK(r.copied() == "Top\n\n\u2022 one\n\u2022 two\n\nint x;\n\nend");
  r.ui.double_click(r.ui.rect("chat.token.1.1").center());
  CHECK(r.copied() == "one");
  r.ui.key(Key{'A'}, true);
  CHECK(r.copied() == "Q\n\nTop\n\n\u2022 one\n\u2022 two\n\nint x;\n\nend");
}

TEST_CASE("markdown view: what was written is shown by a switch, of one reply or of all") {
  if (!markdown_available()) return;
  Rig r;
  r.fake.talk("Q", {"**one**"});
  r.fake.talk("Q", {"**two**"});
  r.ui.frame(3);
  CHECK(r.ui.shows("one"));
  CHECK_FALSE(r.ui.shows("**one**"));
  r.ui.click("chat.raw.1");
  r.ui.frame(2);
  CHECK(r.ui.shows("**one**"));
  CHECK_FALSE(r.ui.shows("**two**"));
  r.ui.double_click(r.ui.rect("chat.token.1.0").center());
  CHECK(r.copied() == "one");
  r.ui.click("chat.raw.1");
  r.ui.frame(2);
  CHECK_FALSE(r.ui.shows("**one**"));
  r.chat.set_raw(true);
  r.ui.frame(2);
  CHECK(r.ui.shows("**one**"));
  CHECK(r.ui.shows("**two**"));
  CHECK(r.ui.value("chat.rendered.1") == "no");
}

TEST_CASE("markdown view: a reply is rendered while it comes, and as at once at its end") {
  if (!markdown_available()) return;
  Rig r;
  r.fake.app.send("Q");
  const uint64_t id = r.fake.worker.replies.back().id;
  r.fake.begin(id);
  r.fake.round(id, {"Intro **bo"});
  r.ui.frame(2);
  CHECK(r.ui.shows("Intro **bo"));
  r.fake.round(id, {"ld**\n\n", "```py\n", "x"});
  r.ui.frame(2);
  CHECK(r.ui.shows("Intro boldbold"));
  CHECK(r.ui.value("chat.text.1.language.1") == "py");
  r.fake.round(id, {" = 1\n```\n\nSee [it]", "\n\n[it]: http://x.org\n"});
  r.ui.frame(2);
  r.fake.end(id);
  r.ui.frame(2);
  CHECK(r.ui.shows("See it (http://x.org)"));
}

TEST_CASE("markdown view: a long reply that comes is parsed a part at a time") {
  if (!markdown_available()) return;
  Headless ui(700, 600);
  MarkdownText view;
  std::string text;
  ui.set_content([&] {
    view.begin_frame();
    REQUIRE(view.update(1, text, true, 600));
    view.draw(1, 600, {}, probe(), "reply");
  });
  for (int i = 0; i < 1000; ++i) {
    text += "A paragraph of some words, **bold** ones too.\n\n- a list\n- of two\n\n";
    ui.frame();
  }
  CHECK(view.work() < 5 * text.size());
}

TEST_CASE("markdown view: a long part that shows nothing comes behind a paragraph or a table") {
  if (!markdown_available()) return;
  for (const char* settled : {"Sources:\n\n", "|a|b|\n|-|-|\n|c|d|\n\n"}) {
    Headless ui(700, 600);
    MarkdownText view;
    std::string text = settled;
    const auto frame = [&] {
      view.begin_frame();
      REQUIRE(view.update(1, text, true, 600));
      view.draw(1, 600, {}, probe(), "reply");
    };
    ui.set_content(frame);
    while (text.size() < 12'000) {
      const std::string line = format("[%zu]: https://example.org/1234567890\n", text.size());
      for (size_t at = 0; at < line.size(); at += 8) {
        text += line.substr(at, 8);
        ui.frame();
      }
    }
    text += "\n\n" + std::string(300, 'b');  // enough to be parsed at once
    ui.frame();
    MarkdownText fresh;
    ui.set_content([&] {
      fresh.begin_frame();
      REQUIRE(fresh.update(1, text, true, 600));
      CHECK(fresh.shown(1) == view.shown(1));
      CHECK(fresh.height(1) == view.height(1));
    });
    ui.frame();
  }
}

TEST_CASE("markdown view: what comes behind a refused part is not a reason to parse it each time") {
  if (!markdown_available()) return;
  Headless ui(700, 600);
  MarkdownText view;
  ui.set_content([&] { view.begin_frame(); });
  ui.frame();
  std::string text = "Settled.\n\n[a]: " + std::string(10'000, 'u') + "\n";
  for (int i = 0; i < 2000; ++i) text += "[a] ";
  CHECK_FALSE(view.update(1, text, true, 600));
  const size_t once = view.work(), size = text.size();
  CHECK(once >= size);
  for (int i = 0; i < 1000; ++i) {
    text += "x";
    CHECK_FALSE(view.update(1, text, true, 600));
  }
  CHECK(view.work() < 6 * size);  // and not 1000 times
  // One that was refused is shown again once it can be.
  text = "One.\n\n[a]: " + std::string(10'000, 'u') + "\n";
  view.update(2, text, true, 600);
  for (int i = 0; i < 2000; ++i) text += "[a] ";
  CHECK_FALSE(view.update(2, text, false, 600));
  CHECK(view.update(2, text.substr(0, 6), false, 600));
  CHECK(view.shown(2) == "One.");
}

TEST_CASE("markdown view: sources made to take time cost no frame") {
  if (!markdown_available()) return;
  const auto repeated = [](std::string_view text, size_t n) {
    std::string result;
    while (result.size() < n) result += text;
    return result;
  };
  const size_t n = MarkdownText::kMostBytes - 10;
  const struct {
    std::string text;
    bool rendered;
  } sources[] = {
      {repeated("*", n), true},
      {repeated("> ", n), true},
      {repeated("- ", n) + "x", true},
      {repeated("1. a\n", n), true},
      {repeated("`", n), true},
      {repeated("[a](", n), true},
      {repeated("**a *b ", n), true},
      {repeated("word ", n), true},
      {"|a|b|\n|---|---|\n" + repeated("|1|2|\n", n - 12), true},
      {repeated("```\nx\n", n), true},
      {repeated("# h\n\n", n), true},
      {repeated("![", n), true},
      {"[u]: v '" + repeated("w", n / 2) + "'\n\n" + repeated("[u] ", n / 2 - 16), false},
      {"[u]: " + repeated("v", n / 2) + "\n\n" + repeated("![", n / 8) + "x" +
           repeated("][u]", n / 4),
       false},
      {"[a]: u\n\n" + repeated("[a]\n", n - 12), false},
  };
  for (const auto& made : sources) {
    const std::string& source = made.text;
    CAPTURE(source.substr(0, 12));
    Headless ui(700, 600);
    MarkdownText view;
    bool shown = false;
    ui.set_content([&] {
      view.begin_frame();
      shown = view.update(1, source, false, 600);
      if (shown) view.draw(1, 600, {}, probe(), "reply");
    });
    const auto seconds = [&ui] {
      const auto before = std::chrono::steady_clock::now();
      ui.frame();
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
    };
    const double first = seconds();
    CHECK(shown == made.rendered);
    const size_t work = view.work();
    double later = seconds();
    for (int i = 1; i < 20; ++i) later = std::min(later, seconds());
    MESSAGE(source.substr(0, 12), ": first ", 1000 * first, " ms, then ", 1000 * later, " ms");
    CHECK(view.work() == work);  // once
    CHECK(later < kMostSeconds);
    CHECK(ui.triangles() < 20000);
  }
}

TEST_CASE("markdown view: too long a reply is shown as it was written") {
  Headless ui(700, 600);
  MarkdownText view;
  ui.set_content([&] { view.begin_frame(); });
  ui.frame();
  CHECK_FALSE(view.update(1, std::string(MarkdownText::kMostBytes + 1, 'x'), false, 600));
  CHECK(view.shown(1).empty());
  CHECK_FALSE(view.update(2, std::string(MarkdownText::kMostUnsettled + 1, 'x'), true, 600));
  CHECK(view.update(3, std::string(MarkdownText::kMostUnsettled + 1, 'x'), false, 600) ==
        markdown_available());
}

}  // namespace specbound::gui::markdown_view_test
