#include "cli/train_heads_summary.h"

#include <doctest/doctest.h>

#include <string>

namespace train_heads_summary_test {

using namespace specbound;
using namespace specbound::train_heads_command;

TEST_CASE("the summary of a training names heads that are not those of its end") {
  TrainHeadsFlags flags;
  flags.train.kinds = {HeadKind::kChained};
  flags.train.layers = {0, 2};
  flags.out = "/nonexistent/a.heads.gguf";
  const Corpus corpus;
  const std::string model = "a.gguf", settings = "guessed";
  TrainedHeads trained;
  trained.heads.heads.resize(2);
  for (const int layer : flags.train.layers) {
    HeadReport& report = trained.reports.emplace_back();
    report.kind = HeadKind::kChained;
    report.layer = layer;
    report.passes = 5.25;
  }
  trained.reports[1].taken_after = 2.5;
  const std::string told = training_summary({flags, corpus, trained, model, 1, 16, settings});
  CHECK(told.find("best       chained at 2 after 2.5 of 5.2 passes") != std::string::npos);
  CHECK(told.find("chained at 0 after") == std::string::npos);
}

}  // namespace train_heads_summary_test
