// How long work is shown: bars, lines in a log, and what a download says beside a load.
#include "terminal/progress.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace progress_test {

using namespace specbound;

TEST_CASE("progress: bars and lines") {
  using Unit = Progress::Unit;
  CHECK(progress_bar("load", Unit::kBytes, 500, 1000, 1e-6) ==
        "load [############            ]  50 %  0.5 GB/s");
  CHECK(progress_line("get", Unit::kBytes, 500000000, 2000000000, 10, "") ==
        "get:  25 %  50.0 MB/s  0:30 left\n");
  CHECK(progress_line("get", Unit::kBytes, 500000000, 2000000000, 10, "", 400000000) ==
        "get:  25 %  10.0 MB/s  2:30 left\n");
  CHECK(progress_line("get", Unit::kBytes, 400000000, 2000000000, 10, "", 500000000) ==
        "get:  20 %  0.0 MB/s\n");
  CHECK(progress_bar("load", Unit::kItems, 24, 24, 1) ==
        "load [########################] 100 %  24/24");
  CHECK(progress_bar("x", Unit::kItems, 0, 0, 0).find("100 %") != std::string::npos);
  CHECK(progress_line("train", Unit::kWork, 1, 4, 20, "loss 0.5") ==
        "train:  25 %  1:00 left  loss 0.5\n");
  // What was there before took none of these seconds.
  CHECK(progress_line("train", Unit::kWork, 3, 4, 20, "", 2) == "train:  75 %  0:20 left\n");
  CHECK(progress_line("train", Unit::kWork, 3, 4, 20, "", 3) == "train:  75 %\n");
  CHECK(progress_line("train", Unit::kWork, 1, 1000, 20, "") == "train:   0 %  5:33 h left\n");
}

TEST_CASE("progress: lines where there is no terminal, also during one long step") {
  CHECK(ProgressOutput{}.interval < std::chrono::seconds(30));
  std::mutex mutex;
  std::vector<std::string> lines;
  const auto wait_for = [&](const std::string& line) {
    for (int i = 0; i < 10000; ++i) {
      {
        const std::lock_guard lock(mutex);
        if (std::count(lines.begin(), lines.end(), line) >= 2) return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  };
  ProgressOutput output;
  output.interval = std::chrono::milliseconds(2);
  output.write = [&](const std::string& text) {
    const std::lock_guard lock(mutex);
    lines.push_back(text);
  };
  {
    Progress progress("work", Progress::Unit::kItems, output);
    CHECK(wait_for("work:   0 %  0/1\n"));  // before the first step is done
    progress.update(1, 4, "first");
    CHECK(wait_for("work:  25 %  1/4  first\n"));
  }
  const size_t written = lines.size();
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(lines.size() == written);

  // Work that is over at once says nothing, and ends at once.
  lines.clear();
  output.interval = std::chrono::hours(1);
  { Progress("work", Progress::Unit::kItems, output).update(1, 2); }
  CHECK(lines.empty());
  output.terminal = true;
  { Progress("work", Progress::Unit::kItems, output).update(1, 2); }
  CHECK(lines.empty());
}

TEST_CASE("progress: what was there before counts for no rate, and labels are kept apart") {
  std::vector<std::string> lines;
  ProgressOutput output;
  output.terminal = true;
  output.write = [&](const std::string& text) { lines.push_back(text); };
  {
    Progress progress("get", Progress::Unit::kBytes, output);
    CHECK(progress.label() == "get");
    progress.update(1000000000, 2000000000);
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    progress.update(1000000000, 2000000000);
  }
  REQUIRE(lines.size() == 2);  // and what erases the bar
  CHECK(lines[0].find("50 %  0.0 MB/s") != std::string::npos);
}

}  // namespace progress_test
