// Prefill and greedy decode speed of one model in this process, as one JSON object on stdout.
// bench_decode -m FILE [-t N] [--prompt P] [--gen G] [--repeats R] [--no-repack]
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench_model.h"
#include "decode/generate.h"

using namespace specbound;

int main(int argc, char** argv) try {
  const bench::Arguments a = bench::parse(argc, argv);
  bench::Model model(a, a.prompt + a.gen + 1);
  SamplingParams greedy;
  greedy.temperature = 0;
  const std::vector<int32_t> prompt = bench::ids(a.prompt, model.config.vocab_size);
  GenerateOptions options;
  options.max_tokens = a.gen;
  std::vector<double> prefill, decode;
  for (int i = 0; i <= a.repeats; ++i) {
    Session session(*model.backend, Sampler(greedy));
    const GenerateStats s = session.generate(prompt, options);
    if (i == 0) continue;  // warm-up
    prefill.push_back(s.prefilled_tokens / s.prefill_seconds);
    decode.push_back(s.generated_tokens / s.decode_seconds);
    model.backend->truncate(0);
  }
  const double decode_rate = median(decode);
  const nlohmann::json out = {
      {"backend", model.backend->description()},
      {"prompt", a.prompt},
      {"gen", a.gen},
      {"prefill_tok_s", median(prefill)},
      {"decode_tok_s", decode_rate},
      {"decode_gb_s", decode_rate * static_cast<double>(model.weights.bytes_per_token()) / 1e9},
      {"prefill_samples", prefill},
      {"decode_samples", decode}};
  std::printf("%s\n", out.dump().c_str());
  return 0;
} catch (const Error& e) {
  std::fprintf(stderr, "bench_decode: %s\n", e.what());
  return 1;
}
