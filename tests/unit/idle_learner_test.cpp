// Learning in idle time, with a script in place of the program: it runs when nobody works and is
// stopped at once, what the clock says decides, what fails is told and ends. What memory it asks
// for. And the clock that counts only while the process runs.
#include "learning/idle_learner.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "corpus/running_time.h"
#include "engine/cpu/cpu_plan.h"
#include "engine/cpu/kv_cache.h"
#include "error.h"
#include "learning/idle_learning.h"
#include "read_file.h"
#include "sanitized.h"
#include "temp_dir.h"
#include "tiny_gguf.h"

namespace idle_learner_test {

using namespace specbound;
using namespace specbound::test;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

bool wait_until(const std::function<bool()>& condition, Clock::duration most = 20s) {
  for (const auto end = Clock::now() + most; Clock::now() < end;) {
    if (condition()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return condition();
}

// Of /proc/PID/stat: the state, and the ticks of processor time.
struct ProcessState {
  char state = '?';
  long ticks = 0;
};
ProcessState state_of(pid_t pid) {
  std::ifstream file(format("/proc/%d/stat", static_cast<int>(pid)));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  ProcessState found;
  if (text.empty()) return found;
  std::istringstream rest(text.substr(text.rfind(')') + 1));
  rest >> found.state;
  std::string skipped;
  for (int i = 0; i < 10; ++i) rest >> skipped;
  long user = 0, system = 0;
  rest >> user >> system;
  found.ticks = user + system;
  return found;
}

// What spec-bench writes of the drafters that learning compares.
std::string figures(double before, double now) {
  return format(
      "{\"strategies\": [{\"results\": [{\"name\": \"auto\", \"overall\": {\"decode_speedup\": "
      "%g}}, "
      "{\"name\": \"new\", \"overall\": {\"decode_speedup\": %g}}]}]}",
      before, now);
}

class Rig {
 public:
  // `train` and `bench`: what the script does in place of the two commands.
  Rig(const std::string& train, const std::string& bench) {
    std::filesystem::create_directory(folder());
    const std::string script = temp_ / "program.sh";
    std::ofstream(script) << "#!/bin/sh\necho \"$@\" >> calls\necho $$ > pid\ncase $1 in\n"
                          << "train-heads) " << train << ";;\nspec-bench) " << bench
                          << ";;\nesac\n";
    chmod(script.c_str(), 0700);
  }

  std::string folder() const { return temp_ / "model"; }
  std::string file(const std::string& name) const { return folder() + "/" + name; }
  bool has(const std::string& name) const { return std::filesystem::exists(file(name)); }
  std::string calls() const { return has("calls") ? read_file(file("calls")) : ""; }

  pid_t pid() const {
    int pid = 0;
    std::ifstream(file("pid")) >> pid;
    return pid;
  }

  std::unique_ptr<IdleLearner> start(double idle_seconds = 0, const std::string& refusal = "",
                                     double minutes = 2) const {
    IdleLearnerOptions options;
    options.program = temp_ / "program.sh";
    options.folder = folder();
    options.model = {"-m", "/models/a b.gguf"};
    options.questions = {"Why?", "A \"quoted\"\nquestion"};
    options.idle_seconds = idle_seconds;
    options.refusal = [this, refusal](bool there) {
      return there && has("crowded") ? "not now: crowded" : refusal;
    };
    options.minutes = minutes;
    auto lock = LearningLock::take(folder());
    REQUIRE(lock);
    return std::make_unique<IdleLearner>(std::move(options), std::move(*lock));
  }

 private:
  TempDir temp_;
};

constexpr const char* kBusy = "while :; do :; done";
constexpr const char* kLearns = "echo heads > new.heads.gguf";
constexpr const char* kLearnsOnce =
    "[ -e once ] && while :; do :; done; touch once; echo heads > new.heads.gguf";

void work(IdleLearner& learner) {
  learner.begin_work();
  learner.end_work();
}

}  // namespace

TEST_CASE(
    "idle learner: nothing of it runs within 50 ms of other work, and it goes on after that") {
  const Rig rig(kBusy, "exit 1");
  const auto learner = rig.start();
  REQUIRE(wait_until([&] { return rig.pid() > 0 && state_of(rig.pid()).state == 'R'; }));
  const pid_t pid = rig.pid();
  CHECK(getpgid(pid) == pid);
  CHECK(getpriority(PRIO_PROCESS, static_cast<id_t>(pid)) == 19);
  std::vector<Clock::duration> latencies;
  for (int i = 0; i < 5; ++i) {
    const auto begin = Clock::now();
    learner->begin_work();
    CHECK(wait_until([&] { return state_of(pid).state == 'T'; }));
    latencies.push_back(Clock::now() - begin);
    const long ticks = state_of(pid).ticks;
    std::this_thread::sleep_for(60ms);
    CHECK(state_of(pid).ticks == ticks);
    learner->begin_work();  // two at once
    learner->end_work();
    std::this_thread::sleep_for(20ms);
    CHECK(state_of(pid).state == 'T');
    learner->end_work();
    CHECK(wait_until([&] { return state_of(pid).state == 'R'; }));
  }
  std::ranges::sort(latencies);
  if (kSanitized) {
    MESSAGE("SKIP the limit of 50 ms: tests run beside this one");
  } else {
    CHECK(latencies[2] < 50ms);  // one may be the machine's
  }
  CHECK(rig.calls().find("train-heads") == rig.calls().rfind("train-heads"));  // one process
}

TEST_CASE("idle learner: it says how much of a round's time has passed, and of nothing else") {
  const Rig rig("mkdir -p training; echo 30.5 > training/seconds.txt; " + std::string(kBusy),
                "exit 1");
  const auto learner = rig.start(0.3);
  CHECK(!learner->share());
  REQUIRE(wait_until([&] { return learner->share().value_or(0) > 0; }));
  CHECK(*learner->share() == doctest::Approx(30.5 / 120));
  std::ofstream(rig.file("training/seconds.txt")) << "1e9\n";
  CHECK(*learner->share() == 1);
  std::ofstream(rig.file("training/seconds.txt")) << "nonsense\n";
  CHECK(*learner->share() == 0);
}

TEST_CASE("idle learner: a disk that does not answer keeps no key waiting") {
  const Rig rig("mkdir -p training; mkfifo training/seconds.txt; " + std::string(kBusy), "exit 1");
  const auto learner = rig.start();
  REQUIRE(wait_until([&] { return rig.has("training/seconds.txt"); }));
  auto share = std::async(std::launch::async, [&] { return learner->share(); });
  int fd = -1;
  REQUIRE(wait_until([&] {
    fd = open(rig.file("training/seconds.txt").c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    return fd >= 0;  // it reads, and waits for who writes
  }));
  auto key = std::async(std::launch::async, [&] { work(*learner); });
  CHECK(key.wait_for(5s) == std::future_status::ready);
  CHECK(write(fd, "60\n", 3) == 3);
  close(fd);
  CHECK(share.get().value_or(0) == 0.5);
}

TEST_CASE("idle learner: it waits for idle time, and ends with who started it") {
  const Rig rig(kBusy, "exit 1");
  auto learner = rig.start(2);
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(100ms);
    work(*learner);
    CHECK(rig.calls().empty());
  }
  REQUIRE(wait_until([&] { return rig.pid() > 0; }));
  const pid_t pid = rig.pid();
  learner->begin_work();
  learner.reset();
  CHECK(kill(pid, 0) != 0);
}

TEST_CASE("idle learner: heads are taken where the clock says that they are faster") {
  struct Case {
    double before, now;
    bool better;
  };
  for (const Case& c : {Case{1.2, 1.6, true}, Case{1.6, 1.61, false}, Case{1.6, 1.2, false},
                        Case{0.8, 0.9, false}}) {
    const Rig rig(kLearnsOnce, "echo '" + figures(c.before, c.now) + "' > measured.json");
    std::ofstream(rig.file("conversations.jsonl")) << "{\"messages\": []}\n";
    const auto learner = rig.start();
    REQUIRE(wait_until([&] { return learner->status().find("1 round done") < 20; }));
    const std::optional<LearntHeads> news = learner->take_news();
    CHECK(news.has_value() == c.better);
    CHECK(rig.has("heads.gguf") == c.better);
    if (news) {
      CHECK(news->path == rig.file("heads.gguf"));
      CHECK(news->before == c.before);
      CHECK(news->now == c.now);
      CHECK(!learner->take_news());
    }
    const std::string calls = rig.calls();
    CHECK(calls.find("--minutes 2 --texts texts.bin") != std::string::npos);
    CHECK(calls.find("--also round.jsonl -m /models/a b.gguf") != std::string::npos);
    CHECK(calls.find("--setting new: --heads new.heads.gguf -m /models") != std::string::npos);
    CHECK(read_file(rig.file("questions.jsonl")).find("quoted") != std::string::npos);
  }
}

TEST_CASE("idle learner: later rounds take longer, and end where they bring nothing") {
  const Rig rig(kLearns, "echo '" + figures(1.5, 1.4) + "' > measured.json");
  auto learner = rig.start();
  REQUIRE(wait_until(
      [&] { return learner->status().find("more text no longer helps") != std::string::npos; }));
  const std::string calls = rig.calls();
  for (const char* minutes : {"--minutes 2 ", "--minutes 4 ", "--minutes 8 "}) {
    CHECK(calls.find(minutes) != std::string::npos);
  }
  learner.reset();
  learner = rig.start();  // it is remembered
  CHECK(wait_until(
      [&] { return learner->status().find("more text no longer helps") != std::string::npos; }));
  CHECK(rig.calls() == calls);
}

TEST_CASE("idle learner: what is measured is measured anew after other work") {
  const Rig rig(kLearnsOnce, "[ -e twice ] && echo '" + figures(1, 2) +
                                 "' > measured.json || { touch twice; while :; do :; done; }");
  const auto learner = rig.start();
  REQUIRE(wait_until([&] { return rig.has("twice"); }));
  const pid_t pid = rig.pid();
  const auto begin = Clock::now();
  work(*learner);
  if (!kSanitized) CHECK(Clock::now() - begin < 50ms);
  CHECK(wait_until([&] { return kill(pid, 0) != 0; }));
  REQUIRE(wait_until([&] { return rig.has("heads.gguf"); }));
  CHECK(learner->status().find("ended with") == std::string::npos);  // no failure
}

TEST_CASE("idle learner: what was learnt outlives a kill or a failure while it is measured") {
  for (const char* end : {"kill -9 $$", "exit 1"}) {
    CAPTURE(end);
    const Rig rig(kLearnsOnce, "[ -e ended ] && echo '" + figures(1, 2) +
                                   "' > measured.json || { touch ended; " + end + "; }");
    const auto learner = rig.start();
    REQUIRE(wait_until(
        [&] { return learner->status().find("spec-bench ended with") != std::string::npos; }));
    CHECK(rig.has("new.heads.gguf"));
    work(*learner);  // sooner than in a minute
    REQUIRE(wait_until([&] { return rig.has("heads.gguf"); }));
    const std::string calls = rig.calls();
    CHECK(calls.find("train-heads") == calls.rfind("train-heads"));
  }
}

TEST_CASE("idle learner: heads whose measurement always fails are learnt anew") {
  const Rig rig(kLearnsOnce, "exit 1");
  const auto learner = rig.start();
  for (int i = 1; i <= 3; ++i) {
    REQUIRE(wait_until(
        [&] { return learner->status().find("spec-bench ended with 1") != std::string::npos; }));
    CHECK(rig.has("new.heads.gguf") == (i < 3));
    if (i == 3) break;
    std::filesystem::remove(rig.file("calls"));
    work(*learner);  // sooner than in a minute
    REQUIRE(wait_until([&] { return !rig.calls().empty(); }));
  }
}

TEST_CASE("idle learner: heads that cannot be put in place are no news") {
  const Rig rig(kLearnsOnce,
                "mkdir -p heads.gguf/full; echo '" + figures(1, 2) + "' > measured.json");
  const auto learner = rig.start();
  REQUIRE(wait_until([&] { return learner->status().find("heads.gguf") != std::string::npos; }));
  CHECK(!learner->take_news());
}

TEST_CASE("idle learner: heads that end their measurement are learnt anew") {
  const Rig rig(kLearnsOnce, "kill -ABRT $$");
  const auto learner = rig.start();
  REQUIRE(wait_until(
      [&] { return learner->status().find("spec-bench ended with") != std::string::npos; }));
  CHECK(!rig.has("new.heads.gguf"));
}

TEST_CASE("idle learner: what fails is told, tried again, and given up") {
  const Rig rig("mkdir -p training; touch training/manifest.json; echo no disk; exit 1", "exit 1");
  const auto learner = rig.start();
  for (int i = 1; i <= 3; ++i) {
    REQUIRE(wait_until([&] {
      return learner->status().find("train-heads ended with 1: " + rig.file("log")) !=
             std::string::npos;
    }));
    CHECK(read_file(rig.file("log")) == "no disk\n");
    CHECK(rig.has("training/manifest.json"));  // it had its reasons to keep that
    if (i < 3) {
      std::filesystem::remove(rig.file("calls"));
      work(*learner);  // sooner than in a minute
      REQUIRE(wait_until([&] { return !rig.calls().empty(); }));
    }
  }
  std::filesystem::remove(rig.file("calls"));
  work(*learner);
  std::this_thread::sleep_for(300ms);
  CHECK(rig.calls().empty());
}

TEST_CASE("idle learner: a training that today's program refuses is deleted") {
  const Rig rig("mkdir training; touch training/manifest.json; exit 2", "exit 1");
  const auto learner = rig.start();
  CHECK(wait_until([&] { return learner->status().find("ended with 2") != std::string::npos; }));
  CHECK(!rig.has("training"));
}

TEST_CASE("idle learner: another's training is not deleted") {
  const Rig rig("exit 2", "exit 1");
  std::filesystem::create_directory(rig.file("training"));
  std::ofstream(rig.file("training/manifest.json")) << "{}";
  const int fd = open(rig.file("training").c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(flock(fd, LOCK_EX) == 0);
  const auto learner = rig.start();
  CHECK(wait_until([&] { return learner->status().find("ended with 2") != std::string::npos; }));
  CHECK(rig.has("training/manifest.json"));
  close(fd);
}

TEST_CASE("idle learner: figures that make no sense bring nothing") {
  for (const std::string& text : {std::string("not json"), std::string("{}"), std::string("[]"),
                                  std::string("{\"strategies\": 3}"),
                                  std::string("{\"strategies\": [{\"results\": [{}]}]}")}) {
    const Rig rig(kLearns, "echo '" + text + "' > measured.json");
    const auto learner = rig.start();
    REQUIRE(
        wait_until([&] { return learner->status().find("measured.json") != std::string::npos; }));
    CHECK(!rig.has("heads.gguf"));
    CHECK(!rig.has("new.heads.gguf"));
    CHECK(!learner->take_news());
  }
}

TEST_CASE("idle learner: it does not sleep on memory that other work needs") {
  const Rig rig(kBusy, "exit 1");
  const auto learner = rig.start();
  REQUIRE(wait_until([&] { return rig.pid() > 0; }));
  const pid_t pid = rig.pid();
  learner->begin_work();
  CHECK(wait_until([&] { return state_of(pid).state == 'T'; }));
  std::ofstream(rig.file("crowded")) << "";
  CHECK(wait_until([&] { return kill(pid, 0) != 0; }));
  CHECK(learner->status().find("crowded") != std::string::npos);
  std::filesystem::remove(rig.file("crowded"));
  learner->end_work();
  CHECK(wait_until([&] { return rig.pid() != pid; }));  // and goes on
}

TEST_CASE("background process: a failure is one where nobody waits for children") {
  const auto before = signal(SIGCHLD, SIG_IGN);
  const TempDir temp;
  BackgroundProcess process;
  process.start({.program = "/bin/false", .arguments = {}, .folder = "/", .log = temp / "log"});
  std::optional<int> status;
  CHECK(wait_until([&] { return (status = process.ended()).has_value(); }));
  CHECK(status.value_or(0) != 0);
  signal(SIGCHLD, before);
}

TEST_CASE("idle learner: a round goes on with the conversations and flags that it began with") {
  const Rig rig("mkdir -p training; touch training/manifest.json; " + std::string(kBusy), "exit 1");
  std::ofstream(rig.file("conversations.jsonl")) << "first\n";
  std::ofstream(rig.file("new.heads.gguf.123.tmp")) << "half";
  std::ofstream(rig.file("rounds.json.tmp-123-0")) << "half";
  auto learner = rig.start();
  REQUIRE(wait_until([&] { return rig.has("training/manifest.json"); }));
  CHECK(!rig.has("new.heads.gguf.123.tmp"));
  CHECK(!rig.has("rounds.json.tmp-123-0"));
  learner.reset();
  std::ofstream(rig.file("conversations.jsonl"), std::ios::app) << "second\n";
  std::filesystem::remove(rig.file("calls"));
  learner = rig.start(0, "", 7);
  REQUIRE(wait_until([&] { return !rig.calls().empty(); }));
  CHECK(read_file(rig.file("round.jsonl")) == "first\n");
  CHECK(rig.calls().find("--minutes 2 ") != std::string::npos);
}

TEST_CASE("idle learner: what keeps it from learning now is told") {
  const Rig rig(kBusy, "exit 1");
  const auto learner = rig.start(0, "not now: for want of memory");
  CHECK(wait_until(
      [&] { return learner->status().find("for want of memory") != std::string::npos; }));
  CHECK(rig.calls().empty());
}

TEST_CASE("idle learning: its memory is what the engine asks for, and what training takes") {
  const TempDir dir;
  TinySpec spec;
  spec.vocabulary = true;
  spec.vocab_size = 320;
  spec.dim = spec.ffn_dim = 256;
  spec.head_dim = 64;
  for (const DType type : {DType::kQ2_K, DType::kQ4_K, DType::kF16}) {
    for (const int n_ctx : {64, 1 << 20}) {
      CAPTURE(static_cast<int>(type));
      CAPTURE(n_ctx);
      spec.type = type;
      ModelOptions options;
      options.model = dir / "tiny.gguf";
      options.n_ctx = n_ctx;
      options.device.where = DeviceOptions::Where::kCpu;
      options.device.kv = KvType::kInt8;
      const std::vector<std::byte> bytes = tiny_model(spec);
      std::ofstream(options.model, std::ios::binary)
          .write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
      const LoadedModel model(options);
      const size_t kv = KvCache::bytes_needed(model.config(), n_ctx, 0, KvType::kInt8);
      const size_t tiles =
          LinearStore::bytes_needed(partitioned_matrices(model.weights(), 0, kTileOutputs), true);
      CHECK(model.bytes_on_cpu() >= kv + std::max(tiles, bytes.size() / 2));
      CHECK(model.bytes_on_cpu() < kv + tiles + bytes.size());
      constexpr double kHead = 5 * 256 * 256, kOutput = 320 * 256;
      const double numbers = 4 * (kHead * 4 + kOutput);
      CHECK(learning_bytes(model) > static_cast<double>(model.bytes_on_cpu()) + numbers);
    }
  }
}

TEST_CASE("running time: what passes while the process is stopped does not count") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    bool good = true;
    {
      const RunningTime time;
      std::this_thread::sleep_for(300ms);
      good = time.seconds() >= 0.29;
      raise(SIGSTOP);
      good = good && time.seconds() < 1.5;
    }
    _exit(good ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, WUNTRACED) == child);
  REQUIRE(WIFSTOPPED(status));
  std::this_thread::sleep_for(2500ms);
  kill(child, SIGCONT);
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace idle_learner_test
