// The overlay's figures.
#include "gui/model/frame_times.h"

#include <doctest/doctest.h>

namespace specbound::gui::frame_times_test {

TEST_CASE("frame times: quantiles of the newest frames; pauses are no intervals") {
  FrameTimes times(100);
  CHECK(times.work(0.99) == 0);
  for (int i = 0; i < 500; ++i) times.add(i * 0.016, 0.5);  // to be forgotten
  for (int i = 1; i <= 100; ++i) times.add(100 + i * 0.02, i * 0.001);
  CHECK(times.frames() == 600);
  CHECK(times.kept() == 100);
  CHECK(times.work(0.5) == doctest::Approx(0.050));
  CHECK(times.work(0.99) == doctest::Approx(0.099));
  CHECK(times.work(1) == doctest::Approx(0.100));
  CHECK(times.interval(0.5) == doctest::Approx(0.02));
  CHECK(times.interval(1) < FrameTimes::kPause);
  times.clear();
  CHECK(times.kept() == 0);
  CHECK(times.interval(0.99) == 0);
}

}  // namespace specbound::gui::frame_times_test
