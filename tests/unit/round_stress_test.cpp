// 10,000 rounds of random conversations with forced exits, trees and rejections, aborts and
// failures. After each one the K/V of its positions, kv_len at every layer and the logits are, bit
// for bit, those of a shadow that decodes plainly (random_conversation.h). docs/architecture.md
// 3.2, 3.5, 4.
#include <doctest/doctest.h>

#include "random_conversation.h"

namespace round_stress_test {

using namespace specbound;
using namespace specbound::test;

namespace {

// `trees`: what only drafting by exits comes to is not required.
void expect_coverage(Coverage& coverage, bool trees) {
  constexpr int kLast = kMaxRows - 1;
  const auto by_exits = [&](const char* what, int first = 0, int last = 0) {
    coverage.expect(what, first, trees ? first - 1 : last);
  };
  coverage.expect("rows", 1, kMaxRows);
  coverage.expect("rejection in slot", 0, kLast - 1);
  coverage.expect("chunk edge before slot", 1, kLast);
  coverage.expect("chunk edge crossed and kept");
  coverage.expect("chunk edge crossed and rejected");
  coverage.expect("K block edge before slot", 1, kLast);
  coverage.expect("end token in slot", 0, kLast);
  by_exits("end token drafted in slot", 0, kLast - 1);
  coverage.expect("end token from an accepted draft");
  coverage.expect("stop string in slot", 0, kLast);
  by_exits("stop string drafted in slot", 0, kLast - 1);
  coverage.expect("width bound", 1, kMaxRows);
  by_exits("depth bound");
  by_exits("difficult without a depth bound");
  coverage.expect("budget cuts the width to", 1, kLast);
  coverage.expect("context end cuts the width to", 1, kLast);
  coverage.expect("plain round measured");
  coverage.expect("abort in prefill");
  coverage.expect("abort between rounds");
  by_exits("abort in a check");
  by_exits("abort after drafting pass", 1, 20);
  coverage.expect("abort after verify pass", 1, 4);
  coverage.expect("abort after logits");
  coverage.expect("abort after token in slot", 0, kLast);
  coverage.expect("failure in pass", 1, 6);
  coverage.expect("failure of the reader in slot", 0, 5);
  coverage.expect("reply regenerated");
  coverage.expect("reply repeated");
  coverage.expect("conversation continued");
  coverage.expect("speculation switched on");
  coverage.expect("speculation switched off");
  coverage.expect("failure of the round's reader");
  coverage.expect("tree of rows", 3, kMaxRows);
  coverage.expect("tree: failure when the path has moved");
  coverage.expect("tree: tokens", 1, kMaxRows / 2);
  coverage.expect("tree: path moved");
  coverage.expect("tree: chunk edge within the path");
  coverage.expect("tree: chunk edge between place and position");
  coverage.expect("tree: rows lag behind");
}

// 10,000 rounds.
std::vector<ConversationSetting> settings() {
  const Isa other = isa_supported(Isa::kAvx2) ? Isa::kAvx2 : Isa::kPortable;
  return {
      {.name = "greedy", .rounds = 1500},
      {.name = "greedy, INT8", .rounds = 1000, .kv = KvType::kInt8},
      {.name = "sampled", .rounds = 1500, .temperature = 1},
      {.name = "windows, INT8",
       .rounds = 1000,
       .architecture = "gemma2",
       .kv = KvType::kInt8,
       .temperature = 1},
      {.name = "filtered", .rounds = 1500, .isa = other, .temperature = 0.8f, .filters = true},
      {.name = "penalized",
       .rounds = 1500,
       .architecture = "gemma2",
       .penalty = 1.3f,
       .last_n = -1},
      {.name = "all",
       .rounds = 1000,
       .architecture = "phi3",
       .temperature = 1.5f,
       .penalty = 1.3f,
       .filters = true},
      {.name = "two threads", .rounds = 500, .architecture = "gemma2", .threads = 2},
      {.name = "two threads, all",
       .rounds = 500,
       .threads = 2,
       .temperature = 0.7f,
       .penalty = 1.3f,
       .filters = true,
       .last_n = 5},
  };
}

void run_all(bool trees, uint64_t seed) {
  Coverage coverage;
  expect_coverage(coverage, trees);
  int rounds = 0;
  for (ConversationSetting setting : settings()) {
    CAPTURE(setting.name);
    setting.trees = trees;
    RandomConversation conversation(setting, seed++, coverage);
    conversation.run(setting.rounds);
    rounds += setting.rounds;
  }
  REQUIRE(rounds == 10000);
  coverage.require_all();
}

}  // namespace

TEST_CASE("10,000 rounds leave the K/V, kv_len and logits of plain decoding") {
  run_all(false, 1);
}

TEST_CASE("10,000 rounds of random trees leave the K/V, kv_len and logits of plain decoding") {
  run_all(true, 101);
}

}  // namespace round_stress_test
