// What rounds taught of rows' costs outlives what drafts by it.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "decode/generate.h"
#include "drafters/tree_speculator.h"
#include "process_state.h"
#include "read_file.h"
#include "runtime/speculation.h"
#include "runtime/tuned_settings.h"
#include "speculation_rig.h"
#include "system/cache_file.h"
#include "system/file_output.h"

namespace row_costs_kept_test {

using namespace specbound;
using namespace specbound::test;

TEST_CASE("a tree that another one replaces leaves it what it learnt of rows") {
  const TempDir folder;
  const CacheFolder cache(folder / "cache");
  const TinyModel& model = tiny(kLayers);
  const auto backend = model.backend(Isa::kPortable, 1);
  RowCosts given;
  for (int rows = 1; rows <= kMaxRows; ++rows) given.start[rows] = 1 + 0.001 * rows;
  write_row_costs(model_fingerprint(model.gguf), backend->device(), {given, backend->n_ctx()});
  const Parsed parsed = parse({"--speculator", "auto", "--head", "lens"});
  const auto speculation = test::speculation(parsed.flags, kLayers, folder / "m.gguf");
  speculation->attach(*backend);
  const auto costs = [&]() -> const LearnedRowCosts& {
    const auto* tree = dynamic_cast<const TreeSpeculator*>(speculation->speculator());
    REQUIRE(tree);
    return tree->costs();
  };
  CHECK(costs().now().start == given.start);

  Session session(*backend, Sampler(SamplingParams{.temperature = 0}));
  session.set_speculator(speculation->speculator());
  GenerateOptions options;
  options.max_tokens = 40;
  for (int reply = 0; reply < 40 && !costs().settled(); ++reply) {
    backend->truncate(0);
    session.generate(std::vector<int32_t>{11, 22, 33, 11, 22, 33, 11}, options);
  }
  REQUIRE(costs().settled());
  const RowCosts learnt = costs().now();
  speculation->choose(Preset::kShipped);
  CHECK(costs().now().start == learnt.start);
  CHECK(costs().now().position == learnt.position);
  const std::optional<KeptRowCosts> kept =
      read_row_costs(model_fingerprint(model.gguf), backend->device(), backend->n_ctx());
  REQUIRE(kept);
  CHECK(kept->costs.start[1] == doctest::Approx(learnt.start[1]));
  session.set_speculator(nullptr);
}

TEST_CASE("costs of other kernels are measured again") {
  const TempDir folder;
  const CacheFolder cache(folder / "cache");
  RowCosts costs;
  for (int rows = 1; rows <= kMaxRows; ++rows) costs.start[rows] = rows;
  write_row_costs("model", "device", {costs, 512});
  REQUIRE(read_row_costs("model", "device", 512));
  const std::string path = cache_file({"costs", "model", "device"});
  const std::string now = read_file(path);
  const std::string own = format("\"kernels\": %d,", kRowKernels);
  const size_t at = now.find(own);
  REQUIRE(at != now.npos);
  for (const char* other : {"", "\"kernels\": 1,", "\"kernels\": \"2\","}) {
    CAPTURE(other);
    write_file(path, std::string(now).replace(at, own.size(), other));
    CHECK_FALSE(read_row_costs("model", "device", 512));
  }
  write_file(path, now);
  CHECK(read_row_costs("model", "device", 512));
}

}  // namespace row_costs_kept_test
