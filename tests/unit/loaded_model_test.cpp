// Loading as the window sees it: progress, notes and a way to stop, with not a word on stderr.
#include "runtime/loaded_model.h"

#include <doctest/doctest.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "expect_error.h"
#include "library/load_watcher.h"
#include "process_state.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "tiny_gguf.h"

namespace loaded_model_test {

using namespace specbound;
using namespace specbound::test;

namespace {

// A model with a name that a terminal should not be given as it is.
std::string write_model(const TempDir& folder) {
  TinySpec spec = q8_0_spec(3);
  spec.vocabulary = true;
  spec.vocab_size = 320;
  const std::string path = folder / "m\x1b[31m.gguf";
  const std::vector<std::byte> bytes = tiny_model(spec);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<long>(bytes.size()));
  return path;
}

ModelOptions flags_for(const std::string& path) {
  ModelOptions flags;
  flags.model = path;
  flags.n_threads = 1;
  flags.device.where = DeviceOptions::Where::kCpu;
  return flags;
}

}  // namespace

TEST_CASE("a watcher gets the progress and the notes, stderr nothing") {
  const TempDir folder;
  const std::string path = write_model(folder);
  ModelOptions flags = flags_for(path);
  flags.n_ctx = 300;  // trained on 256
  LoadedModel model(flags);
  std::vector<std::string> notes, labels;
  std::vector<double> shares;
  LoadWatcher watcher;
  watcher.progress = [&](const std::string& label, size_t done, size_t total) {
    labels.push_back(label);
    REQUIRE(total > 0);
    CHECK(done <= total);
    shares.push_back(static_cast<double>(done) / static_cast<double>(total));
  };
  watcher.note = [&](const std::string& line) { notes.push_back(line); };
  CHECK(stderr_of(folder, [&] { model.load(nullptr, watcher); }).empty());
  REQUIRE(shares.size() >= 2);
  CHECK(shares.front() == 0);
  CHECK(shares.back() == 1);
  CHECK(std::is_sorted(shares.begin(), shares.end()));
  for (const std::string& label : labels) CHECK(label == "repacking weights");
  REQUIRE(notes.size() == 3);
  check_mentions(notes[0], {"warning: n_ctx=300", "trained on 256"});
  check_mentions(notes[1],
                 {"model: " + path + " (llama, 3 layers, context 300 of 256), loaded in"});
  CHECK(notes[2] == "backend: " + model.backend().description());
  CHECK(model.load_seconds() > 0);
}

TEST_CASE("the terminal's watcher tells the same on stderr, safe for a terminal") {
  const TempDir folder;
  const std::string path = write_model(folder);
  LoadedModel model(flags_for(path), terminal_watcher());
  const std::string told = stderr_of(folder, [&] { model.load(); });
  check_mentions(told, {"m\\x1b[31m.gguf (llama, 3 layers, context 256 of 256), loaded in",
                        "\nbackend: " + model.backend().description() + "\n"});
  CHECK(told.find('\x1b') == std::string::npos);
  CHECK(told.find('\r') == std::string::npos);  // no bar where there is no terminal
}

TEST_CASE("loading ends where the watcher says so, and not by Ctrl-C elsewhere") {
  const TempDir folder;
  const std::string path = write_model(folder);
  std::atomic<bool> abort{false};
  LoadWatcher watcher;
  int calls = 0;
  watcher.progress = [&](const std::string&, size_t, size_t) { abort = ++calls == 2; };
  watcher.note = [](const std::string&) { FAIL_CHECK("nothing was loaded"); };
  watcher.abort = &abort;
  {
    LoadedModel model(flags_for(path));
    CHECK_THROWS_AS(model.load(nullptr, watcher), Interrupted);
    CHECK(calls == 2);
  }
  watcher.abort = nullptr;
  watcher.note = [](const std::string&) {};
  catch_interrupts();
  std::raise(SIGINT);
  LoadedModel model(flags_for(path));
  model.load(nullptr, watcher);
  LoadedModel other(flags_for(path), terminal_watcher());
  CHECK_THROWS_AS(other.load(), Interrupted);
  clear_interrupt();
}

}  // namespace loaded_model_test
