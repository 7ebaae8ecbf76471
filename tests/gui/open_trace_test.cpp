// A trace file on its way into the window: asked for there, read on the worker's thread, shown when
// the answer comes.
#include <doctest/doctest.h>

#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "gui/fake_worker.h"
#include "gui/model/replay_player.h"
#include "gui/trace_rig.h"
#include "gui/worker/worker_thread.h"
#include "gui/worker_rig.h"
#include "unit/temp_dir.h"

namespace specbound::gui::open_trace_test {

namespace {

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("app state: a trace is read by the worker, and shown when its answer comes") {
  FakeApp f;
  AppState& app = f.app;
  const std::string first = f.folder / "first.jsonl", second = f.folder / "second.jsonl";
  write_trace(first, {make_round(0, 9, {2})});
  write_trace(second, {make_round(0, 9, {2}), make_round(1, 11, {})});
  const std::atomic<bool> stop = false;
  const WorkerEvent first_read = open_trace(first, stop);
  const std::string before = app.status();
  app.open_file(first);
  CHECK(f.worker.traces == Lines{first});
  CHECK(app.opening_replay());
  CHECK_FALSE(app.replay());
  CHECK(app.status() == "opening first.jsonl");
  SUBCASE("it is what the worker read") {
    std::filesystem::remove(first);
    app.apply(first_read);
    REQUIRE(app.replay());
    CHECK(app.replay()->name() == "first.jsonl");
    CHECK(app.replay()->rounds() == 1);
    app.apply(first_read);  // which nobody asked for
    CHECK(app.errors.empty());
  }
  SUBCASE("the worker says other things meanwhile") {
    f.talk("one", {"1"});
    app.stop();
    app.apply(Note{"a note"});
    CHECK(app.status() == "opening first.jsonl");
    app.apply(TraceRefused{first, "first.jsonl: no"});
    CHECK(app.status() == "a note");
    CHECK(app.errors == Lines{"first.jsonl: no"});
    CHECK_FALSE(app.replay());
  }
  SUBCASE("another one is asked for") {
    app.open_replay(second);
    CHECK(f.worker.traces == Lines{first, second});
    app.apply(first_read);
    CHECK_FALSE(app.replay());
    app.apply(TraceRefused{first, "no"});
    CHECK(app.errors.empty());
    CHECK(app.status() == "opening second.jsonl");
    f.answer_trace();
    REQUIRE(app.replay());
    CHECK(app.replay()->rounds() == 2);
  }
  SUBCASE("it has no reply in it, and what is shown stays") {
    app.apply(TraceOpened{first, std::make_shared<const RecordedTrace>()});
    CHECK(app.errors.size() == 1);
    CHECK(&app.trace() == &f.trace);
  }
  CHECK_FALSE(app.opening_replay());
  if (app.errors.empty()) CHECK(app.status() == before);
}

TEST_CASE("worker thread: a trace is read, with a model or without, or refused in one line") {
  test::TempDir folder;
  const std::string path = folder / "t.jsonl", pipe = folder / "pipe";
  write_trace(path, {make_round(0, 9, {2, 3})});
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  WorkerRig rig;
  rig->open_trace(pipe);
  CHECK(rig.next<TraceRefused>().message == pipe + ": not a regular file");
  rig->open_trace(path);
  const TraceOpened opened = rig.next<TraceOpened>();
  CHECK(opened.path == path);
  REQUIRE(opened.trace->replies.size() == 1);
  CHECK(opened.trace->replies[0].rounds.size() == 1);

  rig.load_demo();
  rig->set_guessing(true);
  rig.forget_events();
  // Within a reply: it waits, settings do not wait behind it, and stopping the reply stops only it.
  DraftingChange off;
  off.on = false;
  rig.watch([&](const WorkerEvent& event) {
    const RoundDone* done = std::get_if<RoundDone>(&event);
    if (!done || done->round.round != 1) return;
    rig->open_trace(pipe);  // overtaken
    rig->open_trace(path);
    rig->set_drafting(off);
  });
  rig->reply(ask(1, "Tell me a very long story."));
  rig.next<DraftingChanged>();
  CHECK(rig.all<ReplyEnded>().empty());
  rig->stop();
  CHECK(rig.next<ReplyEnded>().stats.stop == StopReason::kAborted);
  CHECK(rig.next<TraceOpened>().path == path);  // after it
  CHECK(rig.all<TraceOpened>().size() == 1);
  CHECK(rig.all<TraceRefused>().empty());
  CHECK_FALSE(rig.answer(ask(2, "Hello", 4)).empty());
}

TEST_CASE("worker thread: who closes the window does not wait for a long trace") {
  test::TempDir folder;
  const std::string path = folder / "t.jsonl";
  write_trace(path, {make_round(0, 9, {2, 3})});
  const std::atomic<bool> stop = true;
  CHECK(std::holds_alternative<TraceRefused>(open_trace(path, stop)));  // not one line was read
  WorkerRig rig;
  rig->open_trace(path);
}

}  // namespace specbound::gui::open_trace_test
