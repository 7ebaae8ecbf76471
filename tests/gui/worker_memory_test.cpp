// A worker that has no memory left for what it has to say: a line, and it goes on.
#include <doctest/doctest.h>

#include <new>
#include <string>
#include <vector>

#include "gui/worker/worker.h"
#include "gui/worker_rig.h"
#include "unit/process_state.h"
#include "unit/temp_dir.h"

namespace specbound::gui::worker_memory_test {

namespace {

struct FullHost final : WorkerHost {
  void emit(WorkerEvent event) override {
    if (full && std::holds_alternative<LearningChanged>(event)) throw std::bad_alloc();
    events.push_back(std::move(event));
  }
  std::optional<WorkerSetting> next_setting() override { return std::nullopt; }
  const std::atomic<bool>& abort_flag() const override { return abort; }
  bool wanted_elsewhere() const override { return false; }
  void set_learner(std::shared_ptr<IdleLearner>) override {}

  // Whether the newest line is one of memory.
  bool said_so() const {
    const Note* note = events.empty() ? nullptr : std::get_if<Note>(&events.back());
    return note && note->text.find("out of memory") != std::string::npos;
  }

  bool full = false;
  std::atomic<bool> abort{false};
  std::vector<WorkerEvent> events;
};

}  // namespace

TEST_CASE("worker: no memory to tell of learning is a line, and it is told later") {
  test::TempDir folder;
  const test::Environment home{"XDG_DATA_HOME", (folder / "data").c_str()};
  FullHost host;
  Worker worker(host, "");
  LoadRequest request;
  request.model.model = demo_model();
  request.model.n_threads = 1;
  request.learning.idle_seconds = 86400;
  worker.load(request);
  host.full = true;
  worker.set_learning(true);
  CHECK(host.said_so());
  host.events.clear();
  worker.look_at_learning();
  CHECK(host.said_so());
  host.full = false;
  worker.look_at_learning();
  const auto* told = std::get_if<LearningChanged>(&host.events.back());
  REQUIRE(told);
  CHECK(told->learning.on);
}

}  // namespace specbound::gui::worker_memory_test
