// Which rows the replies that share a pass have of the tree of free candidates, under which costs.
#include <doctest/doctest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "decode/reply_batch.h"
#include "engine/cpu/cpu_backend.h"
#include "tree_rows.h"

namespace shared_tree_test {

using namespace specbound;
using namespace specbound::test;
using namespace specbound::test::tree_rows;

TEST_CASE("shared tree: replies that share a pass have the rows of those likeliest to be right") {
  const Text fresh = {3, 5, 7, 9, 13, 17};  // nothing comes again
  // Rows of the first round of each.
  const auto first_rounds = [&](TreeSpeculator& tree, const std::vector<Text>& prompts) {
    CpuOptions options;
    options.n_threads = 1;
    options.n_sequences = static_cast<int>(prompts.size());
    const auto backend = make_cpu_backend(model().config, model().weights, options);
    Sessions sessions(*backend);
    ReplyBatch batch(sessions);
    std::vector<std::vector<Row>> found(prompts.size());
    for (size_t i = 0; i < prompts.size(); ++i) {
      BatchRequest request;
      request.prompt = prompts[i];
      request.sampling = SamplingParams{.temperature = 0};
      request.options.max_tokens = 20;
      request.speculator = [&] { return &tree; };
      request.options.on_round = [&found, i](const RoundEvent& round) {
        check_exits(round);
        if (round.round > 0) return;
        for (const RowEvent& row : round.rows) {
          found[i].push_back({row.token, row.parent, row.drafted_at});
        }
      };
      batch.add(static_cast<int64_t>(i), std::move(request));
    }
    batch.step();
    return found;
  };
  const std::vector<Row> echo = {
      {55, -1, kNoDraft}, {66, 0, 0}, {77, 1, 0}, {88, 2, 0}, {11, 3, 0}};
  TreeSpeculator cheap(nullptr, nullptr, 5, true);
  cheap.set_costs(costing(0.01));
  CHECK(first_rounds(cheap, {fresh, kEcho}) ==
        std::vector<std::vector<Row>>{{{17, -1, kNoDraft}}, echo});
  TreeSpeculator dear(nullptr, nullptr, 5, true);
  dear.set_costs(costing(1.01));  // more than a token
  CHECK(first_rounds(dear, {fresh, kEcho}) ==
        std::vector<std::vector<Row>>{{{17, -1, kNoDraft}}, {echo[0]}});
  // A pass of several that has more rows than one costs more by itself: a row of drafts costs as
  // many tokens more as they give in its time.
  TreeSpeculator alone(nullptr, nullptr, 5, true), crowd(nullptr, nullptr, 5, true);
  alone.set_costs(costing(0.1));
  crowd.set_costs(costing(0.1));
  CHECK(first_round(alone, kEcho).size() > 1);
  for (const auto& rows : first_rounds(crowd, {kEcho, kEcho, kEcho, kEcho, kEcho, kEcho})) {
    CHECK(rows.size() == 1);
  }
  // Free rows: all that a pass has room for.
  TreeSpeculator unmeasured(nullptr, nullptr, kMaxRows, false);
  size_t n = 0;
  for (const auto& rows : first_rounds(unmeasured, {kEcho, kFork, kEcho})) {
    n += rows.size();
  }
  CHECK(n == kMaxRows);
}

TEST_CASE("shared tree: what is written is there for others to look up, once") {
  CpuOptions options;
  options.n_threads = 1;
  options.n_sequences = 3;
  const auto backend = make_cpu_backend(model().config, model().weights, options);
  LookupMemory memory;
  TreeSpeculator tree(nullptr, &memory, 5, false);
  Sessions sessions(*backend);
  ReplyBatch batch(sessions);
  // The last one is alone in the end, and has the others' company twice.
  const std::vector<int> lengths = {6, 12, 40};
  std::vector<Text> written(lengths.size());
  const auto add = [&](size_t i) {
    BatchRequest request;
    request.prompt = i == 0 ? kEcho : kFork;
    request.sampling = SamplingParams{.temperature = 0.8f, .seed = i};
    request.options.max_tokens = lengths[i];
    request.options.on_token = [&written, i](const TokenEvent& event) {
      written[i].push_back(event.token);
    };
    request.speculator = [&] { return &tree; };
    batch.add(static_cast<int64_t>(i), std::move(request));
  };
  add(2);
  add(0);
  int alone = 0;
  for (bool again = false; batch.size() > 0;) {
    alone += batch.size() == 1;
    batch.step();
    if (alone == 2 && !std::exchange(again, true)) add(1);
  }
  REQUIRE(alone > 3);
  tree.forget();  // of the reply alone
  // Whatever the order of its parts is, each token stands there once.
  Text found(memory.replies().begin(), memory.replies().end()), expected;
  std::erase(found, LookupMemory::kBetween);
  for (const Text& text : written) expected.insert(expected.end(), text.begin(), text.end());
  std::ranges::sort(found);
  std::ranges::sort(expected);
  CHECK(found == expected);
}

}  // namespace shared_tree_test
