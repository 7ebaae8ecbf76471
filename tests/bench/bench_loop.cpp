// What the decode loop itself costs: G tokens by a bare loop (embed, layers, logits, sample) and by
// Session with speculation off, taking turns from the same prompt, as one JSON object on stdout.
// Both must write the same tokens. bench_loop -m FILE [-t N] [--prompt P] [--gen G] [--repeats R]
// [--no-repack]
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench_model.h"
#include "decode/generate.h"

using namespace specbound;

namespace {

std::vector<int32_t> bare_loop(Backend& backend, Sampler& sampler, std::vector<int32_t> text,
                               int n) {
  std::vector<float> logits(backend.config().vocab_size);
  for (int i = 0; i < n; ++i) {
    const int pos = static_cast<int>(text.size()) - 1;
    backend.embed(0, text.back());
    backend.run_layers(0, 1, pos, 1, backend.config().n_layers);
    backend.logits(0, 1, logits.data());
    text.push_back(sampler.sample(logits, text, {0, 0, static_cast<uint32_t>(pos + 1)}));
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) try {
  const bench::Arguments a = bench::parse(argc, argv);
  bench::Model model(a, a.prompt + a.gen);
  Backend& backend = *model.backend;
  const std::vector<int32_t> prompt = bench::ids(a.prompt, model.config.vocab_size);
  SamplingParams greedy;
  greedy.temperature = 0;
  Session session(backend, Sampler(greedy));
  GenerateOptions options;
  options.max_tokens = 0;
  session.generate(prompt, options);  // the prompt into the cache
  options.max_tokens = a.gen;
  Sampler sampler(greedy);

  std::vector<int32_t> bare_text;
  const auto bare = [&] {
    backend.truncate(a.prompt - 1);
    const double start = bench::now();
    bare_text = bare_loop(backend, sampler, prompt, a.gen);
    return bench::now() - start;
  };
  const auto loop = [&] {
    const double start = bench::now();
    session.generate(prompt, options);
    return bench::now() - start;
  };
  std::vector<double> bare_seconds, loop_seconds, ratio;
  for (int i = 0; i <= a.repeats; ++i) {
    // Who goes first changes, so that neither always finds the machine as the other left it.
    double b = 0, l = 0;
    if (i % 2 == 0) b = bare();
    l = loop();
    if (i % 2 != 0) b = bare();
    if (!std::equal(bare_text.begin(), bare_text.end(), session.tokens().begin(),
                    session.tokens().end())) {
      throw Error(ErrorCode::kLimit, "the bare loop and Session wrote different tokens");
    }
    if (i == 0) continue;  // warms up
    bare_seconds.push_back(b / a.gen);
    loop_seconds.push_back(l / a.gen);
    ratio.push_back(l / b);
  }
  const nlohmann::json out = {{"backend", backend.description()},
                              {"prompt", a.prompt},
                              {"gen", a.gen},
                              {"bare_seconds", median(bare_seconds)},
                              {"loop_seconds", median(loop_seconds)},
                              {"ratio", median(ratio)}};
  std::printf("%s\n", out.dump().c_str());
  return 0;
} catch (const Error& e) {
  std::fprintf(stderr, "bench_loop: %s\n", e.what());
  return 1;
}
