// specbound bench: how fast models run here: of some size, with random weights and no file; as
// llama-bench measures them; and with speculation against without.
#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/bench_compare.h"
#include "app/bench_flags.h"
#include "app/bench_random.h"
#include "app/bench_tests.h"
#include "app/cli.h"
#include "app/commands.h"
#include "app/interrupt.h"

namespace specbound {

namespace {

constexpr const char* kAbout =
    "How fast models run here. With -m: prompts and tokens a second, as llama-bench has them.\n"
    "With --compare spec: plain and speculative decoding of varied prompts in turn; exits with 1\n"
    "if a byte differs. Else of some size, with random weights and no file: plain tokens against\n"
    "the memory bandwidth of the same run, passes over 1 to 16 rows, rows that leave early,\n"
    "checks. With --replay...: what speculation would give, by replaying rounds through the same\n"
    "layers.";

}  // namespace

int command_bench(int argc, char** argv) {
  BenchFlags flags;
  CLI::App app(kAbout);
  add_bench_flags(app, flags);
  if (const std::optional<int> status = parse_cli(app, argc, argv)) return *status;
  flags.check(app);
  const BenchOutput output(flags.output, flags.json, std::vector<std::string>(argv, argv + argc));

  catch_interrupts();
  if (flags.mode == BenchMode::kCompare) return bench_compare(flags, output) ? 0 : 1;
  if (flags.mode == BenchMode::kTests) {
    bench_tests(flags, output);
  } else {
    bench_shape(flags, output);
  }
  return 0;
}

}  // namespace specbound
