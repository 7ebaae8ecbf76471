// A long session: memory must not grow with what is over.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "gui/fake_worker.h"
#include "gui/worker_rig.h"
#include "unit/sanitized.h"

namespace specbound::gui::soak_test {

namespace {

double resident_mib() {
  long pages = 0, resident = 0;
  FILE* file = std::fopen("/proc/self/statm", "r");
  REQUIRE(file);
  REQUIRE(std::fscanf(file, "%ld %ld", &pages, &resident) == 2);
  std::fclose(file);
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

// What memory is freed and kept for later differs from run to run; a sanitizer keeps all of it.
void check_flat(double before, double after, double allowed) {
  MESSAGE("resident: " << before << " MiB, later " << after << " MiB");
  if (!test::kSanitized) CHECK(after - before < allowed);
}

// Hands events to the app until all it has asked for is over.
void settle(WorkerRig& rig, AppState& app) {
  rig.until([&](const WorkerEvent& event) {
    app.apply(event);
    return !app.busy() && app.model_state() == ModelState::kReady;
  });
  rig.forget_events();
}

}  // namespace

TEST_CASE("soak: 500 turns with the worker, in flat memory") {
  test::TempDir folder;
  ConversationStore store(folder / "conversations");
  TraceModel trace;
  WorkerRig rig;
  AppState app(*rig, store, trace);
  LoadRequest launch;
  launch.model.n_ctx = 256;
  launch.model.n_threads = 1;
  app.set_launch(launch);
  app.set_reply_budget(24);
  app.set_guessing(true);
  app.load(demo_model());
  settle(rig, app);

  constexpr int kTurns = test::some_of(500);
  double half_way = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    CAPTURE(turn);
    if (turn % 50 == 0) app.new_conversation();
    if (turn % 100 == 99) {  // swapped between two turns
      app.load(demo_model());
      settle(rig, app);
    }
    if (turn % 10 == 7) {
      app.regenerate();
    } else if (turn % 10 == 9) {
      app.compare("Which way is the sea?");
    } else {
      app.send("What did you do on day " + std::to_string(turn) + "?");
    }
    REQUIRE(app.busy());
    if (turn % 10 == 3) app.stop();
    settle(rig, app);
    CHECK(app.errors.empty());
    if (turn == kTurns / 2) half_way = resident_mib();
  }
  CHECK(trace.replies().size() <= TraceModel::kMaxReplies);
  CHECK(app.conversations().size() == kTurns / 50);
  CHECK(app.errors.empty());
  // What was said is kept, and the columns of the trace up to their bound.
  check_flat(half_way, resident_mib(), 8);

  std::vector<std::string> problems;
  CHECK(store.load(problems).size() == kTurns / 50);
  CHECK(problems.empty());
}

TEST_CASE("soak: 500 long replies, of which the trace keeps what it may") {
  FakeApp f;
  AppState& app = f.app;
  const std::vector<std::string> texts{" four", " words", " a", " round"};
  double after_some = 0;
  for (int turn = 0; turn < 500; ++turn) {
    if (turn % 20 == 0) app.new_conversation();
    app.send("go on");
    const uint64_t id = f.worker.replies.back().id;
    f.worker.replies.clear();
    f.worker.samplings.clear();
    f.begin(id);
    for (int round = 0; round < 200; ++round) f.round(id, texts);
    f.end(id, StopReason::kEnd, 800);
    if (turn == 200) after_some = resident_mib();
  }
  CHECK(f.trace.columns() <= TraceModel::kMaxColumns);
  CHECK(f.trace.replies().size() <= TraceModel::kMaxReplies);
  // 240,000 more tokens: their text and where each one ends in it, 14 bytes a token.
  check_flat(after_some, resident_mib(), 16);
}

}  // namespace specbound::gui::soak_test
