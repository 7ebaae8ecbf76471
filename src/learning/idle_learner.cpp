#include "learning/idle_learner.h"

#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "descriptor.h"
#include "error.h"
#include "json/json_reader.h"
#include "json/json_writer.h"
#include "system/file_output.h"
#include "system/number_text.h"
#include "system/regular_file.h"
#include "system/text_input.h"

namespace specbound {

namespace {

namespace fs = std::filesystem;
using std::chrono::duration, std::chrono::duration_cast;

constexpr std::chrono::milliseconds kLook(200);  // at whether the process has ended
constexpr std::chrono::seconds kLater(60);       // before another try where it may not learn now
constexpr std::chrono::seconds kLookAsleep(2);   // at whether what sleeps is in the way
constexpr double kFaster = 1.02;                 // than now: less is noise
constexpr int kFailedStatus = 1;                 // of a program that says why
constexpr int kUsageStatus = 2;                  // ... whose arguments do not do
constexpr int kMostFruitless = 3, kMostFailures = 3;  // in a row
constexpr double kLongestRound = 8;                   // times the first
constexpr const char* kMostFeatures = "1G";
constexpr size_t kMostTexts = size_t{64} << 20;      // bytes that the model wrote
constexpr const char* kReplyTokens = "96";           // of each measured question
constexpr const char *kNow = "auto", *kNew = "new";  // who is measured
constexpr size_t kMostJson = size_t{64} << 20;

// {"rounds", "fruitless"}: what earlier runs did; zeros where that is not known.
std::pair<int, int> read_rounds(const std::string& path) {
  try {
    check_regular(path, kMostJson);
    const nlohmann::json json = parse_json(read_bytes(path), path, {.depth = 4});
    const JsonObject object(json, path);
    return {static_cast<int>(object.bounded("rounds", 0, 1 << 20, 0)),
            static_cast<int>(object.bounded("fruitless", 0, 1 << 20, 0))};
  } catch (const Error&) {
    return {0, 0};
  }
}

std::string questions_text(const std::vector<std::string>& questions) {
  std::string text;
  for (size_t i = 0; i < questions.size(); ++i) {
    const nlohmann::ordered_json question = {
        {"question_id", i}, {"category", "writing"}, {"turns", {questions[i]}}};
    text += dump(question) + "\n";
  }
  return text;
}

// Of the drafter of that name; nullopt where spec-bench's figures do not say.
std::optional<double> decode_speedup(const nlohmann::json& results, std::string_view name) {
  for (const nlohmann::json& result : results) {
    if (result.at("name") != name) continue;
    const double speedup = result.at("overall").at("decode_speedup").get<double>();
    if (std::isfinite(speedup) && speedup > 0) return speedup;
  }
  return std::nullopt;
}

// Somebody trains in the folder, who holds it as TrainingFolder does.
bool at_work_in(const std::string& folder) {
  const Descriptor held(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return held && held_by_another(held);
}

// Of a round that is under way; empty where that is not known.
std::vector<std::string> read_arguments(const std::string& path) {
  try {
    check_regular(path, kMostJson);
    const nlohmann::json json = parse_json(read_bytes(path), path, {.depth = 4});
    return json.get<std::vector<std::string>>();
  } catch (const std::exception&) {
    return {};
  }
}

// That a round takes, by its arguments; 0 where they do not say.
double minutes_of(const std::vector<std::string>& arguments) {
  const auto flag = std::ranges::find(arguments, "--minutes");
  if (arguments.end() - flag < 2) return 0;
  return parse_number(flag[1]).value_or(0);
}

void append(std::vector<std::string>& to, std::initializer_list<std::string> more) {
  to.insert(to.end(), more.begin(), more.end());
}

// A signal that others send, not one of its own making.
bool somebody_killed(int status) {
  constexpr int kUnknown = 0, kSignals[] = {kUnknown, SIGKILL, SIGTERM, SIGINT, SIGHUP};
  return std::ranges::count(kSignals, status - BackgroundProcess::kBySignal) > 0;
}

}  // namespace

IdleLearner::IdleLearner(IdleLearnerOptions options, LearningLock lock)
    : options_(std::move(options)), lock_(std::move(lock)), idle_from_(Clock::now()) {
  std::tie(rounds_, fruitless_) = read_rounds(file("rounds.json"));
  std::error_code error;  // halves of files that a kill left: heads, and what NewFile wrote
  std::vector<fs::path> halves;
  for (const auto& entry : fs::directory_iterator(options_.folder, error)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".tmp" || extension.starts_with(".tmp-")) halves.push_back(entry.path());
  }
  for (const fs::path& half : halves) fs::remove(half, error);
  begin_work();
  end_work();
  thread_ = std::thread([this] { run(); });
}

IdleLearner::~IdleLearner() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void IdleLearner::begin_work() {
  const std::lock_guard lock(mutex_);
  ++working_;
  if (!process_.started() || asleep_) return;
  if (stage_ == Stage::kMeasuring) {  // a clock that was stopped tells nothing
    process_.end();
    stage_ = Stage::kNone;
  } else {
    process_.stop();
    asleep_ = true;
  }
}

void IdleLearner::end_work() {
  {
    const std::lock_guard lock(mutex_);
    --working_;
    idle_from_ =
        Clock::now() + duration_cast<Clock::duration>(duration<double>(options_.idle_seconds));
  }
  changed_.notify_all();
}

std::optional<LearntHeads> IdleLearner::take_news() {
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, std::nullopt);
}

std::string IdleLearner::status() const {
  const std::lock_guard lock(mutex_);
  std::string line = format("learning: %d round%s done", rounds_, rounds_ == 1 ? "" : "s");
  if (stage_ == Stage::kLearning) line += ", writing and learning";
  if (stage_ == Stage::kMeasuring) line += ", measuring";
  if (asleep_) line += " (stopped while there is other work)";
  if (stage_ == Stage::kNone && !over_) {
    line += format(", goes on after %g s without work", options_.idle_seconds);
  }
  if (!trouble_.empty()) line += "; " + trouble_;
  return line;
}

// train-heads says in its folder how long it has run: at least every half minute, but for replies
// that take longer. It is read without the lock: who presses a key does not wait for a disk.
std::optional<double> IdleLearner::share() const {
  double round_seconds = 0;
  {
    const std::lock_guard lock(mutex_);
    if (stage_ == Stage::kLearning) round_seconds = round_seconds_;
  }
  if (round_seconds <= 0) return std::nullopt;
  double seconds = 0;
  std::ifstream(file("training/seconds.txt")) >> seconds;
  return std::clamp(seconds / round_seconds, 0.0, 1.0);
}

// ---- its own thread ----

void IdleLearner::run() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (!process_.started()) {
      if (has_time() && !over_) begin_stage(lock);
    } else if (asleep_) {
      if (has_time()) {
        asleep_ = false;
        process_.go_on();
      } else {
        give_way(lock);
      }
    } else if (const std::optional<int> status = process_.ended()) {
      if (stage_ != Stage::kNone) end_stage(lock, *status);
      continue;
    }
    wait(lock);
  }
  process_.kill();
}

void IdleLearner::wait(std::unique_lock<std::mutex>& lock) {
  if (ending_) return;
  const bool runs = process_.started() && !asleep_;
  if (runs) {
    changed_.wait_for(lock, kLook);
  } else if (asleep_ && working_ > 0) {
    changed_.wait_for(lock, kLookAsleep);
  } else if (working_ == 0 && !over_ && Clock::now() < idle_from_) {
    changed_.wait_until(lock, idle_from_);
  } else {
    changed_.wait_for(lock, kLater);
  }
}

// What other work needs the memory of does not sleep on: the next one goes on with it.
void IdleLearner::give_way(std::unique_lock<std::mutex>& lock) {
  if (!options_.refusal || working_ == 0) return;
  lock.unlock();
  const std::string refusal = options_.refusal(true);
  lock.lock();
  if (refusal.empty() || !asleep_ || ending_) return;
  process_.end();
  stage_ = Stage::kNone;
  asleep_ = false;
  trouble_ = refusal;
}

// What needs files is done without the lock: nobody waits for it.
void IdleLearner::begin_stage(std::unique_lock<std::mutex>& lock) {
  const int round = rounds_;
  lock.unlock();
  std::string refusal = options_.refusal ? options_.refusal(false) : "";
  BackgroundCommand command;
  Stage stage = Stage::kNone;
  try {
    std::error_code error;
    const bool learnt = fs::exists(file("new.heads.gguf"), error);
    stage = learnt ? Stage::kMeasuring : Stage::kLearning;
    if (refusal.empty()) command = learnt ? measuring() : learning(round);
  } catch (const std::exception& e) {
    refusal = e.what();
  }
  std::error_code error;
  const bool full = fs::file_size(file("texts.bin"), error) > kMostTexts && !error;
  lock.lock();
  trouble_ = refusal;
  if (fruitless_ >= kMostFruitless || full) {
    over_ = stage == Stage::kLearning;
    if (over_) trouble_ = full ? "as much as is kept" : "more text no longer helps";
  }
  if (over_ || ending_ || !has_time()) return;
  if (!refusal.empty()) {
    idle_from_ = Clock::now() + kLater;
    return;
  }
  try {
    process_.start(command);
    stage_ = stage;
    round_seconds_ = 60 * minutes_of(command.arguments);
  } catch (const Error& e) {
    trouble_ = e.what();
    idle_from_ = Clock::now() + kLater;
  }
}

// A round's conversations and arguments stay as they are until it is over: what goes on after a
// kill must learn the same.
BackgroundCommand IdleLearner::learning(int round) {
  BackgroundCommand command{options_.program, {}, options_.folder, file("log")};
  std::error_code error;
  const std::string own = file("round.jsonl"), kept = file("round.json");
  if (fs::exists(file("training/manifest.json"), error)) {
    command.arguments = read_arguments(kept);
    const auto model = std::ranges::find(command.arguments, "-m");  // which may have been moved
    const bool whole = command.arguments.end() - model >= 2 && !options_.model.empty();
    if (whole) model[1] = options_.model[1];
    if (whole && command.arguments[0] == "train-heads") return command;
  } else {
    fs::remove(own, error);
    if (fs::file_size(file("conversations.jsonl"), error) > 0 && !error) {
      fs::copy_file(file("conversations.jsonl"), own);
    }
  }
  command.arguments = round_arguments(round);
  write_file(kept, dump(nlohmann::ordered_json(command.arguments)) + "\n");
  return command;
}

std::vector<std::string> IdleLearner::round_arguments(int round) const {
  const double minutes = options_.minutes * std::min(std::exp2(round), kLongestRound);
  std::vector<std::string> arguments = {"train-heads"};
  append(arguments,
         {"--no-config", "--minutes", format("%g", minutes), "--texts", "texts.bin",
          "--features-dir", "training", "--max-disk", kMostFeatures, "-o", "new.heads.gguf"});
  std::error_code error;
  if (fs::exists(file("round.jsonl"), error)) append(arguments, {"--also", "round.jsonl"});
  arguments.insert(arguments.end(), options_.model.begin(), options_.model.end());
  return arguments;
}

BackgroundCommand IdleLearner::measuring() {
  write_file(file("questions.jsonl"), questions_text(options_.questions));
  BackgroundCommand command{options_.program, {"spec-bench"}, options_.folder, file("log")};
  append(command.arguments,
         {"--no-config", "-f", "questions.jsonl", "-n", kReplyTokens, "--repeats", "2", "--json",
          "measured.json", "--setting", std::string(kNew) + ": --heads new.heads.gguf"});
  command.arguments.insert(command.arguments.end(), options_.model.begin(), options_.model.end());
  return command;
}

// What was measured, where it is in favour of the new heads.
std::optional<LearntHeads> IdleLearner::judged() const {
  const std::string path = file("measured.json");
  check_regular(path, kMostJson);
  const nlohmann::json json = parse_json(read_bytes(path), path);
  try {
    const nlohmann::json& results = json.at("strategies").at(0).at("results");
    const auto before = decode_speedup(results, kNow), now = decode_speedup(results, kNew);
    if (!before || !now || *now < kFaster * std::max(*before, 1.0)) return std::nullopt;
    return LearntHeads{file("heads.gguf"), *before, *now};
  } catch (const nlohmann::json::exception& e) {
    throw Error(ErrorCode::kFormat,
                format("%s: expected spec-bench's figures: %s", path.c_str(), e.what()));
  }
}

void IdleLearner::end_stage(std::unique_lock<std::mutex>& lock, int status) {
  const Stage stage = std::exchange(stage_, Stage::kNone);
  int rounds = rounds_, fruitless = fruitless_;
  const bool may_fail_again = failures_ + 1 < kMostFailures;
  lock.unlock();
  std::optional<LearntHeads> better;
  std::string trouble;
  std::error_code error;
  try {
    if (status != 0) {
      throw Error(ErrorCode::kFile, format("%s ended with %d: %s says why",
                                           stage == Stage::kLearning ? "train-heads" : "spec-bench",
                                           status, file("log").c_str()));
    }
    if (stage == Stage::kMeasuring) {
      std::optional<LearntHeads> found = judged();
      if (found) fs::rename(file("new.heads.gguf"), found->path);
      better = std::move(found);
      ++rounds;
      fruitless = better ? 0 : fruitless + 1;
      write_file(file("rounds.json"),
                 dump(nlohmann::ordered_json{{"rounds", rounds}, {"fruitless", fruitless}}) + "\n");
    }
  } catch (const std::exception& e) {
    trouble = e.what();
  }
  // What cannot be measured, or is no training of today's program, is begun anew; not what somebody
  // has killed, nor what train-heads itself keeps for another day, as where the disk is full. That
  // and want of memory may be why a measurement failed: it is made again.
  const bool again = somebody_killed(status) || (status == kFailedStatus && may_fail_again);
  if (stage == Stage::kMeasuring && !again) {
    fs::remove(file("new.heads.gguf"), error);
  }
  if (stage == Stage::kLearning && status == kUsageStatus && !at_work_in(file("training"))) {
    fs::remove_all(file("training"), error);
  }
  lock.lock();
  rounds_ = rounds;
  fruitless_ = fruitless;
  if (better) news_ = std::move(better);
  failures_ = trouble.empty() ? 0 : failures_ + 1;
  trouble_ = trouble;
  over_ = failures_ >= kMostFailures;
  if (!trouble.empty()) idle_from_ = Clock::now() + kLater;
}

}  // namespace specbound
