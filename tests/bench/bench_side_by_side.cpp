// Tokens a second of n replies written side by side, n = 1, 2, 4, 8 and 16, as one JSON object on
// stdout. The numbers take turns, so that a slow spell of the machine touches all of them. Every
// reply has --gen tokens behind a prompt of --prompt tokens; reading prompts is not counted.
// bench_side_by_side -m FILE [-t N] [--prompt P] [--gen G] [--repeats R]
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench_model.h"
#include "decode/reply_batch.h"

using namespace specbound;

namespace {

constexpr int kTogether[] = {1, 2, 4, 8, 16};

double tokens_per_second(Backend& backend, int n, const bench::Arguments& a) {
  Sessions sessions(backend);
  ReplyBatch batch(sessions);
  unsigned writing = 0;  // bit by bit: those that have begun
  for (int i = 0; i < n; ++i) {
    BatchRequest request;
    request.prompt = bench::ids(a.prompt, backend.config().vocab_size);
    request.sampling.seed = static_cast<uint64_t>(i);
    request.options.max_tokens = a.gen;
    request.options.on_token = [&writing, i](const TokenEvent&) { writing |= 1u << i; };
    batch.add(i, std::move(request));
  }
  while (batch.size() > 0 && writing != (1u << n) - 1) batch.step();
  const int64_t written = batch.tokens_under_way();
  const double start = bench::now();
  while (batch.size() > 0) batch.step();
  return static_cast<double>(n * a.gen - written) / (bench::now() - start);
}

}  // namespace

int main(int argc, char** argv) try {
  const bench::Arguments a =
      bench::parse(argc, argv, {.model = "", .prompt = 64, .gen = 64, .repeats = 3});
  if (a.prompt < 1 || a.gen < 1) throw Error(ErrorCode::kUsage, "--prompt, --gen: at least 1");
  bench::Model model(a, a.prompt + a.gen, kMaxRows);
  if (model.backend->sequences()->n_sequences() < kMaxRows) {
    throw Error(ErrorCode::kLimit, "no memory for 16 texts");
  }
  std::vector<std::vector<double>> samples(std::size(kTogether));
  for (int i = 0; i <= a.repeats; ++i) {
    for (size_t k = 0; k < std::size(kTogether); ++k) {
      const double rate = tokens_per_second(*model.backend, kTogether[k], a);
      if (i > 0) samples[k].push_back(rate);  // the first turn warms up
    }
  }
  nlohmann::json out = {{"backend", model.backend->description()},
                        {"replies", kTogether},
                        {"tokens_per_second", nlohmann::json::array()}};
  for (const auto& of : samples) out["tokens_per_second"].push_back(median(of));
  std::printf("%s\n", out.dump().c_str());
  return 0;
} catch (const Error& e) {
  std::fprintf(stderr, "bench_side_by_side: %s\n", e.what());
  return 1;
}
