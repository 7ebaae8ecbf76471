// The rounds of one model replayed on another: what speculation would give on a model of other
// size that drafted as well. Exits, their layers (scaled by depth) and how many drafts are right
// come from the job; layers, checks (by heads of random weights) and verification are real.
// bench_replay JOB.json; one JSON object on stdout.
//
// Job: {"model": path, "threads": N, "kind": head kind, "check_layers": [...], "shortlist": N,
// "n_layers": of the model the rounds come from, "w_max": rows there, "rounds": [{"exits": [layer
// of each draft], "accepted": N, "end": why it ended}], "prompt": tokens before, "tokens": of a
// run, "repeats": R}.
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench_model.h"
#include "decode/generate.h"
#include "drafters/forced_head.h"
#include "drafters/specbound.h"
#include "model/random_model.h"

using namespace specbound;
using nlohmann::json;

int main(int argc, char** argv) try {
  if (argc != 2) throw Error(ErrorCode::kUsage, "usage: bench_replay JOB.json");
  const json job = json::parse(std::ifstream(argv[1]));
  bench::Arguments a;
  a.model = job.at("model");
  a.threads = job.at("threads");
  const int n_prompt = job.at("prompt"), n_tokens = job.at("tokens");
  bench::Model model(a, n_prompt + n_tokens + kMaxRows);
  const HeadKind kind = parse_head_kind(job.at("kind").get<std::string>()).value();

  RecordedRounds recorded;
  recorded.n_layers = job.at("n_layers");
  recorded.w_max = job.at("w_max");
  recorded.check_layers = job.at("check_layers").get<std::vector<int>>();
  for (const json& round : job.at("rounds")) {
    // Plain rounds bring a reply's first token, before there is a state to draft from; a run here
    // begins with one of its own.
    if (round.at("end") == kDraftEndNames[0]) continue;
    recorded.rounds.push_back({round.at("exits"), round.at("accepted")});
  }
  if (recorded.rounds.empty()) throw Error(ErrorCode::kUsage, "no round of the job drafted");
  const int n_layers = model.config.n_layers;
  recorded = recorded.scaled(n_layers);
  std::vector<RandomHeads::Head> wanted;
  for (const int layer : recorded.check_layers) wanted.push_back({kind, layer});
  const RandomHeads random(model.config, wanted, job.at("shortlist"));
  const ExitHeads& heads = random.heads();
  model.backend->set_exit_heads(&heads, random.shortlist());

  SamplingParams greedy;
  greedy.temperature = 0;
  Session session(*model.backend, Sampler(greedy));
  const std::vector<int32_t> prompt = bench::ids(n_prompt, model.config.vocab_size);
  GenerateOptions options;
  options.max_tokens = n_tokens;
  session.generate(prompt, options);
  const std::vector<int32_t> text(session.tokens().begin(), session.tokens().end());

  ReplayedHead head(heads, kind, recorded_script(recorded.rounds, text, model.config.vocab_size));
  SpecBoundParams params;
  params.check_layers = recorded.check_layers;
  params.d_max = n_layers;
  params.w_max = recorded.w_max;
  SpecBound speculator(head, params, n_layers);

  json plain = json::array(), seconds = json::array();
  Counters counters;
  for (int i = 0; i <= job.at("repeats"); ++i) {
    session.set_speculator(nullptr);
    const double p = session.generate(prompt, options).decode_seconds;
    session.set_speculator(&speculator);
    const GenerateStats stats = session.generate(prompt, options);
    if (!std::equal(text.begin(), text.end(), session.tokens().begin(), session.tokens().end())) {
      throw Error(ErrorCode::kLimit, "the replay wrote other tokens than plain decoding");
    }
    if (i == 0) continue;  // warms up
    plain.push_back(p);
    seconds.push_back(stats.decode_seconds);
    counters.add(stats.counters);
  }
  const json out = {{"backend", model.backend->description()},
                    {"plain_seconds", plain},
                    {"seconds", seconds},
                    {"rounds", counters.rounds},
                    {"decoded", counters.decoded_tokens},
                    {"drafted", counters.drafted_tokens},
                    {"accepted", counters.accepted_tokens},
                    {"checks", counters.checks},
                    {"nanoseconds", counters.ns},
                    {"mean_exit_layer", counters.mean_exit_layer().value_or(0)}};
  std::printf("%s\n", out.dump().c_str());
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "bench_replay: %s\n", e.what());
  return 1;
}
