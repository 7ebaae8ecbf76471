// How often loading says how far it is.
#include "gui/worker/load_teller.h"

#include <doctest/doctest.h>

namespace specbound::gui::load_teller_test {

TEST_CASE("load teller: each whole percent, and each label") {
  LoadTeller teller;
  const LoadTeller::Time now{};
  CHECK(teller.at("opening", 0, 0, now));
  CHECK_FALSE(teller.at("opening", 0, 0, now));
  CHECK(teller.at("repacking weights", 0, 1000, now));
  CHECK_FALSE(teller.at("repacking weights", 9, 1000, now));
  const auto told = teller.at("repacking weights", 10, 1000, now);
  REQUIRE(told);
  CHECK(told->label == "repacking weights");
  CHECK(told->share == doctest::Approx(0.01));
  CHECK_FALSE(teller.at("repacking weights", 10, 1000, now + std::chrono::hours(1)));
}

TEST_CASE("load teller: within a percent of a download each second what came") {
  LoadTeller teller;
  const LoadTeller::Time start{};
  constexpr size_t kTotal = 20'000'000'000;
  CHECK(teller.at("downloading", 0, kTotal, start));
  CHECK_FALSE(teller.at("downloading", 5'000'000, kTotal, start + std::chrono::milliseconds(999)));
  const auto told = teller.at("downloading", 6'000'000, kTotal, start + std::chrono::seconds(1));
  REQUIRE(told);
  CHECK(told->label == "downloading 6.0 of 20000.0 MB");
  CHECK_FALSE(teller.at("downloading", 7'000'000, kTotal, start + std::chrono::seconds(1)));
  CHECK_FALSE(
      teller.at("downloading", 6'000'001, kTotal, start + std::chrono::seconds(9)));  // stalls
  CHECK(
      teller.at("downloading", 200'000'000, kTotal, start + std::chrono::seconds(1)));  // a percent
}

}  // namespace specbound::gui::load_teller_test
