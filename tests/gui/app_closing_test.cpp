// What the store has of a conversation whose window was closed, or killed, while a reply was under
// way.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "gui/fake_worker.h"

namespace specbound::gui::app_closing_test {

namespace {

using Texts = std::vector<std::string>;

// Of the one conversation that is there.
Conversation stored(FakeApp& f) {
  const std::vector<Conversation> all = f.stored();
  REQUIRE(all.size() == 1);
  return all[0];
}

Texts texts(FakeApp& f) {
  Texts all;
  for (const Message& message : stored(f).messages) all.push_back(message.text);
  return all;
}

// A window over the conversation of two questions and answers, in which somebody does something,
// of whose reply `written` comes before it is closed.
void close_behind(FakeApp& f, const std::function<void(AppState&)>& act, const Texts& written) {
  AppState app(f.worker, f.store, f.trace);
  app.apply(ModelLoaded{FakeApp::model()});
  app.select(1);
  act(app);
  REQUIRE(app.busy());
  if (written.empty()) return;
  app.apply(RoundDone{f.worker.replies.back().id, round_of(0, 0, written), 0.001});
}

}  // namespace

TEST_CASE("closing: what was written of a reply stays, unless it was to replace another") {
  FakeApp f;
  f.talk("one", {"1"});
  f.talk("two", {"2"});
  const Texts before = {"one", "1", "two", "2"};
  const auto send = [](AppState& app) { app.send("three"); };
  const auto edit = [](AppState& app) { app.edit(0, "uno"); };
  const auto again = [](AppState& app) { app.regenerate(); };
  SUBCASE("a message") {
    close_behind(f, send, {"Once", " upon"});
    REQUIRE(texts(f) == Texts{"one", "1", "two", "2", "three", "Once upon"});
    CHECK(stored(f).messages[5].figures.find("cut short") != std::string::npos);
  }
  SUBCASE("a message, of whose reply nothing came: it can be answered") {
    close_behind(f, send, {});
    CHECK(texts(f) == Texts{"one", "1", "two", "2", "three"});
    close_behind(f, [](AppState& app) { app.send("more"); }, {"Once"});  // joined
    CHECK(texts(f) == Texts{"one", "1", "two", "2", "three\n\nmore", "Once"});
  }
  SUBCASE("an edited message") {
    close_behind(f, edit, {"eins"});
    CHECK(texts(f) == Texts{"uno", "eins"});
  }
  SUBCASE("an edited message, of whose reply nothing came") {
    close_behind(f, edit, {});
    CHECK(texts(f) == before);
  }
  SUBCASE("another reply") {
    for (const Texts& written : {Texts{}, Texts{"zw"}}) {
      close_behind(f, again, written);
      CHECK(texts(f) == before);
    }
  }
}

TEST_CASE("closing: a crash costs no turns behind an edited message whose reply is to come") {
  FakeApp f;
  f.talk("one", {"1"});
  f.talk("two", {"2"});
  const Texts before = {"one", "1", "two", "2"};
  f.app.edit(0, "uno");
  CHECK(texts(f) == before);
  f.app.rename(0, "numbers");
  CHECK(stored(f).title == "numbers");
  CHECK(texts(f) == before);
  CHECK(f.app.conversation().messages.size() == 2);
  CHECK(f.app.conversation().messages[0].text == "uno");
  const uint64_t id = f.worker.replies.back().id;
  CHECK(f.app.replying() == id);
  f.begin(id);
  CHECK(texts(f) == before);
  f.round(id, {"eins"});
  CHECK(texts(f) == Texts{"uno"});
  f.round(id, {" zwei"});
  f.end(id, StopReason::kEnd, 2);
  CHECK(texts(f) == Texts{"uno", "eins zwei"});
}

}  // namespace specbound::gui::app_closing_test
