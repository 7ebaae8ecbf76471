// Idle learning in the window: what the person sees and presses, what of conversations is handed
// on, and a worker that learns for a real model. That it gives way at once: tests/e2e.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gui/fake_worker.h"
#include "gui/headless.h"
#include "gui/view/controls_view.h"
#include "gui/view/main_view.h"
#include "gui/worker_rig.h"
#include "library/model_path.h"
#include "runtime/learning_folder.h"
#include "unit/process_state.h"

namespace specbound::gui::learning_test {

namespace {

namespace fs = std::filesystem;

Learning learning(bool on) {
  Learning learning;
  learning.on = on;
  learning.about = "Replies can become faster: it takes 0.6 GB of memory.";
  learning.status = on ? "idle learning: 0 rounds done, writing and learning; in /tmp/x/y"
                       : "idle learning is off";
  return learning;
}

// Tells of it as the worker does.
struct Panel {
  Panel() : ui(360, 900) {
    ui.set_content([this] { view.draw(fake.app, probe()); });
  }
  void tell(const Learning& learning) {
    fake.app.apply(LearningChanged{learning});
    ui.frame(2);
  }

  FakeApp fake;
  ControlsView view;
  Headless ui;
};

// A worker with a model of its own folder and a home to learn in, where nothing ever begins.
struct Learner {
  test::TempDir folder;
  test::Environment home{"XDG_DATA_HOME", (folder / "data").c_str()};
  WorkerRig worker;

  LoadRequest request(LearningMode mode) const {
    LoadRequest made;
    made.model.model = demo_model();
    made.model.n_threads = 1;
    made.speculation.controller = false;
    made.learning.mode = mode;
    made.learning.idle_seconds = 86400;
    return made;
  }
  void load(LearningMode mode) { worker.load(request(mode)); }
  Learning next() { return worker.next<LearningChanged>().learning; }
  std::string kept() const {
    for (const auto& entry : fs::recursive_directory_iterator(folder / "data")) {
      if (entry.path().filename() == "conversations.jsonl") return test::read_file(entry.path());
    }
    return "";
  }
};

}  // namespace

TEST_CASE("learning: what is off says why, and a button changes it") {
  Panel panel;
  panel.ui.frame(2);
  CHECK_FALSE(panel.ui.has("learning.begin"));  // nothing is known yet
  panel.tell(learning(false));
  CHECK(panel.ui.value("learning.state") == "off");
  CHECK(panel.ui.shows("idle learning is off"));
  CHECK(panel.ui.shows("it takes 0.6 GB of memory"));
  panel.ui.click("learning.begin");
  CHECK(panel.fake.worker.learnings == std::vector<bool>{true});
}

TEST_CASE("learning: how far it is, what it brought, and an end to it") {
  Panel panel;
  Learning now = learning(true);
  panel.tell(now);
  CHECK(panel.ui.value("learning.state") == "on");
  CHECK(panel.ui.shows("writing and learning; in y"));  // without folders
  CHECK_FALSE(panel.ui.has("learning.progress"));
  now.share = 0.25;
  now.gained = "faster heads draft from now on: 1.50x plain decoding, 1.10x before";
  panel.tell(now);
  CHECK(panel.ui.value("learning.share") == "0.25");
  const Probe::Rect bar = panel.ui.rect("learning.progress");
  const float width = bar.max.x - bar.min.x, y = bar.center().y;
  CHECK(panel.ui.color_at({bar.min.x + 0.2f * width, y}) == theme().accent);
  CHECK(panel.ui.color_at({bar.min.x + 0.5f * width, y}) != theme().accent);
  CHECK(panel.ui.shows("1.50x plain decoding"));
  panel.ui.click("learning.stop");
  CHECK(panel.fake.worker.learnings == std::vector<bool>{false});
}

TEST_CASE("learning: where it cannot help it says why, without a button") {
  Panel panel;
  Learning never = learning(false);
  never.cannot = "the model has one layer";
  panel.tell(never);
  CHECK(panel.ui.shows("cannot help here: the model has one layer"));
  CHECK_FALSE(panel.ui.has("learning.begin"));
}

TEST_CASE("learning: of a model that makes room nothing is shown, and no button is meant") {
  Panel panel;
  panel.fake.app.load("other.gguf");
  panel.tell(learning(false));  // it was on its way
  CHECK(panel.fake.app.learning() == Learning());
  CHECK_FALSE(panel.ui.has("learning.begin"));
  panel.fake.app.set_learning(true);
  CHECK(panel.fake.worker.learnings.empty());
  // Overtaken: that one was there, and the newest load begins and fails.
  panel.fake.app.apply(ModelLoaded{FakeApp::model()});
  panel.tell(learning(false));
  panel.fake.app.apply(LoadProgress{"opening", 0});
  CHECK(panel.fake.app.learning() == Learning());
  panel.fake.app.apply(LoadFailed{"no such file"});
  panel.ui.frame(2);
  CHECK_FALSE(panel.ui.has("learning.begin"));
  panel.fake.app.apply(ModelLoaded{FakeApp::model()});
  panel.tell(learning(false));
  CHECK(panel.ui.has("learning.begin"));
}

TEST_CASE("learning: while a reply is under way the button waits") {
  Panel panel;
  panel.tell(learning(false));
  panel.fake.app.send("hello");
  panel.ui.frame(2);
  panel.ui.click("learning.begin");
  CHECK(panel.fake.worker.learnings.empty());
}

TEST_CASE("learning: it is asked once, above all else, and both answers are taken") {
  for (const bool yes : {true, false}) {
    Headless ui;
    FakeApp fake;
    FrameTimes times;
    MainView view{WindowSettings()};
    ui.set_frame([&] { view.draw(fake.app, probe(), times, "nothing"); });
    Learning asks = learning(false);
    fake.app.apply(LearningChanged{asks});
    ui.frame(3);
    CHECK_FALSE(ui.has("learning.offer"));
    asks.asked = true;
    fake.app.apply(LearningChanged{asks});
    ui.frame(3);
    CHECK(ui.shows("it takes 0.6 GB of memory"));
    CHECK(ui.rect("learning.offer").max.y < ui.rect("chat.input").min.y);
    ui.click(yes ? "learning.offer.yes" : "learning.offer.no");
    ui.frame(2);
    CHECK(fake.worker.learnings == std::vector<bool>{yes});
    CHECK_FALSE(ui.has("learning.offer"));
  }
}

TEST_CASE("learning: what was said before it began is not handed on, edits and new ones are") {
  FakeApp f;
  f.talk("before", {"a"});
  CHECK(f.worker.replies.back().heard_from == 0);
  f.app.set_learning(true);  // from the click on, however long the worker takes to answer it
  f.talk("after", {"b"});
  CHECK(f.worker.replies.back().heard_from == 2);
  f.app.apply(LearningChanged{learning(true)});
  f.app.apply(LearningChanged{learning(true)});  // of its progress
  f.talk("more", {"c"});
  CHECK(f.worker.replies.back().heard_from == 2);
  f.app.edit(0, "again");
  f.answer({"d"});
  CHECK(f.worker.replies.back().heard_from == 0);
  f.app.new_conversation();
  f.talk("new", {"e"});
  CHECK(f.worker.replies.back().heard_from == 0);

  TraceModel trace;
  AppState later(f.worker, f.store, trace);  // what is stored was said before
  later.load("demo.gguf");
  later.apply(ModelLoaded{FakeApp::model()});
  later.select(1);
  later.send("go on");
  CHECK(f.worker.replies.back().heard_from == 2);
}

TEST_CASE("learning: an edit that got no reply leaves unheard what it stood for") {
  FakeApp f;
  f.talk("before", {"a"});
  f.app.set_learning(true);
  f.app.edit(0, "again");
  CHECK(f.worker.replies.back().heard_from == 0);
  SUBCASE("as it was when it was asked") {}
  SUBCASE("and what is agreed to meanwhile begins behind it") {
    f.app.set_learning(true);
  }
  f.end(f.worker.replies.back().id, StopReason::kAborted, 0);
  f.talk("after", {"b"});
  CHECK(f.worker.replies.back().messages.size() == 3);
  CHECK(f.worker.replies.back().heard_from == 2);
}

TEST_CASE("learning: an unanswered message from before is unheard in the one that it becomes") {
  FakeApp f;
  f.app.send("before");
  f.begin(f.worker.replies.back().id);
  TraceModel trace;
  AppState later(f.worker, f.store, trace);  // the window was killed during the reply
  later.load("demo.gguf");
  later.apply(ModelLoaded{FakeApp::model()});
  later.select(1);
  later.set_learning(true);
  later.send("after");
  REQUIRE(f.worker.replies.back().messages.size() == 1);
  CHECK(f.worker.replies.back().heard_from == 2);
}

TEST_CASE("learning: what was said to one model is not handed on to the next") {
  FakeApp f;
  f.talk("to the first", {"a"});
  f.app.load("other.gguf");
  f.app.apply(ModelLoaded{FakeApp::model()});
  f.talk("to the second", {"b"});  // before it is known whether that one learns
  CHECK(f.worker.replies.back().heard_from == 2);
}

TEST_CASE("learning: a conversation that is deleted is forgotten") {
  FakeApp f;
  f.talk("hello", {"a"});
  const std::string id = f.app.conversation().id;
  CHECK(f.worker.replies.back().conversation == id);
  f.app.remove(0);
  CHECK(f.worker.forgotten == std::vector<std::string>{id});
}

TEST_CASE("learning: heads that were taken draft, and the window says what they brought") {
  FakeApp f;
  Drafting other = f.app.drafting();
  other.description = "speculation on: learnt heads";
  f.app.apply(HeadsTaken{other, "faster heads draft from now on"});
  CHECK(f.app.drafting().description == other.description);
  CHECK(f.app.status() == "faster heads draft from now on");
  CHECK(f.app.drafting_pending() == 0);
}

TEST_CASE("learning: a worker begins and ends it, and keeps what was said after the answer") {
  Learner rig;
  rig.load(LearningMode::kAsk);
  Learning now = rig.next();
  CHECK_FALSE(now.on);
  CHECK(now.cannot.empty());
  CHECK(now.about.find("no text changes") != std::string::npos);
  CHECK(now.about.find("/learn on") == std::string::npos);  // that is the terminal's
  rig.worker.answer(ask(1, "Before.", 4));
  rig.worker->set_learning(true);
  CHECK(rig.next().on);
  CHECK(read_learning_answer() == LearningAnswer::kOn);
  ReplyRequest request = ask(2, "Before.", 4);
  request.messages.push_back({ChatMessage::Role::kAssistant, "Unheard."});
  request.messages.push_back({ChatMessage::Role::kUser, "After."});
  request.heard_from = 2;
  const std::string reply = rig.worker.answer(request);
  rig.worker->give_way();
  rig.load(LearningMode::kAsk);  // the answer holds; the first one's conversations are written
  while (!rig.next().on) {
  }
  const std::string kept = rig.kept();
  CHECK(kept.find("After.") != std::string::npos);
  CHECK(kept.find("Before.") == std::string::npos);
  CHECK(kept.find("Unheard.") == std::string::npos);
  rig.worker->set_learning(false);
  now = rig.next();
  CHECK_FALSE(now.on);
  CHECK(now.status.find("what was learnt still drafts") != std::string::npos);
  CHECK(read_learning_answer() == LearningAnswer::kOff);
}

TEST_CASE("learning: a switch does not wait for guesses, and holds where the window closes") {
  const Learner home;
  int guesses = 0, after = 0;
  bool answered = false;
  {
    WorkerRig worker;
    worker.load(home.request(LearningMode::kOff));
    worker.answer(ask(1, "Hello", 64));
    worker.watch([&](const WorkerEvent& event) {
      if (std::holds_alternative<Guesses>(event) && ++guesses == 1) worker->set_learning(true);
      if (std::holds_alternative<Guesses>(event) && !answered) ++after;
      answered = answered || std::holds_alternative<LearningChanged>(event);
    });
    worker->set_guessing(true);
    worker.next<LearningChanged>();
    CHECK(after <= kMaxRows);  // of the group that was under way
    CHECK(read_learning_answer() == LearningAnswer::kOn);
    worker->set_learning(false);
  }
  CHECK(read_learning_answer() == LearningAnswer::kOff);
}

TEST_CASE("learning: of a conversation that is deleted nothing is kept") {
  Learner rig;
  rig.load(LearningMode::kOn);
  const auto asked = [](uint64_t id, const std::string& message, const std::string& where) {
    ReplyRequest request = ask(id, message, 4);
    request.conversation = where;
    return request;
  };
  rig.worker.answer(asked(1, "Deleted.", "one"));
  rig.worker.answer(asked(2, "Kept.", "two"));
  rig.worker->reply(asked(3, "Deleted within its reply.", "three"));
  rig.worker.next<ReplyBegan>();
  rig.worker->forget_conversation("one");
  rig.worker->forget_conversation("three");
  rig.worker.next<ReplyEnded>();
  rig.load(LearningMode::kOn);
  CHECK(rig.kept().find("Kept.") != std::string::npos);
  CHECK(rig.kept().find("Deleted") == std::string::npos);
}

TEST_CASE("learning: it ends though the answer cannot be kept, which is told") {
  Learner rig;
  rig.load(LearningMode::kOn);
  while (!rig.next().on) {
  }
  rig.worker.answer(ask(1, "Hello", 4));
  fs::create_directory(rig.folder / "data/specbound/learning/answer");  // as a full disk does
  rig.worker->set_learning(false);
  Learning now;
  while ((now = rig.next()).on) {
  }
  CHECK(now.status.find("not for later") != std::string::npos);
  CHECK(now.status.find("answer") != std::string::npos);
  rig.load(LearningMode::kOff);
  CHECK_FALSE(rig.next().on);
  CHECK(rig.kept().empty());  // what was open is not learnt from
  rig.worker->set_learning(true);
  now = rig.next();
  CHECK_FALSE(now.on);
  CHECK(now.status.find("answer") != std::string::npos);
}

TEST_CASE("learning: heads that come are what it gained, those that are of no use are a line") {
  for (const bool good : {true, false}) {
    CAPTURE(good);
    Learner rig;
    const std::string script = rig.folder / "program.sh";
    const std::string heads = std::string(SPECBOUND_MODELS) + "/demo-chat-16l-q8_0.heads.gguf";
    std::ofstream(script) << "#!/bin/sh\ncase $1 in\ntrain-heads)\n"
                          << "  [ -e once ] && exec sleep 1000\n  touch once\n"
                          << "  cp '" << (good ? heads : script) << "' new.heads.gguf;;\n"
                          << "spec-bench) echo '{\"strategies\": [{\"results\": ["
                          << "{\"name\": \"auto\", \"overall\": {\"decode_speedup\": 1.25}}, "
                          << "{\"name\": \"new\", \"overall\": {\"decode_speedup\": 2}}"
                          << "]}]}' > measured.json;;\nesac\n";
    chmod(script.c_str(), 0700);
    LoadRequest request = rig.request(LearningMode::kOn);
    request.learning.program = script;
    request.learning.idle_seconds = 0;
    rig.worker.load(request);
    const HeadsTaken taken = rig.worker.next<HeadsTaken>();
    const char* const line = good ? "2.00x plain decoding, 1.25x before" : "are not used";
    CHECK(taken.told.find(line) != std::string::npos);
    if (good) CHECK(rig.next().gained == taken.told);
    CHECK_FALSE(rig.worker.answer(ask(1, "Hello", 4)).empty());
    if (!good) CHECK(rig.worker.all<LearningChanged>().back().learning.gained.empty());
  }
}

TEST_CASE("learning: another program that learns for the model is told of, and none is asked") {
  Learner rig;
  rig.load(LearningMode::kOn);
  while (!rig.next().on) {
  }
  WorkerRig second;
  second.load(rig.request(LearningMode::kOn));
  const Learning refused = second.next<LearningChanged>().learning;
  CHECK_FALSE(refused.on);
  CHECK(refused.status.find("learns for this model already") != std::string::npos);
}

TEST_CASE("learning: a model that another load overtakes says nothing of it") {
  Learner rig;
  rig.worker.watch([&](const WorkerEvent& event) {
    LoadRequest missing;
    missing.model.model = rig.folder / "none.gguf";
    if (std::holds_alternative<ModelLoaded>(event)) rig.worker->load(missing);
  });
  rig.load(LearningMode::kOn);
  rig.worker.next<LoadFailed>();
  CHECK(rig.worker.all<LearningChanged>().empty());
}

}  // namespace specbound::gui::learning_test
