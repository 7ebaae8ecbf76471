// The rounds of one model replayed on another: what speculation would give on a model of other
// size that drafted as well. Exits, their layers (scaled by depth) and how many drafts are right
// come from the job; layers, checks (by heads of random weights) and verification are real.
// bench_replay JOB.json; one JSON object on stdout.
//
// Job: {"model": path, "threads": N, "kind": head kind, "check_layers": [...], "shortlist": N,
// "n_layers": of the model the rounds come from, "w_max": rows there, "rounds": [{"exits": [layer
// of each draft], "accepted": N, "end": why it ended}], "prompt": tokens before, "tokens": of a
// run, "repeats": R}. A table or hybrid is replayed as the chained head, which costs more.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "bench_model.h"
#include "decode/forced_head.h"
#include "decode/generate.h"
#include "decode/specbound.h"
#include "model/exit_heads.h"

using namespace specbound;
using nlohmann::json;

namespace {

struct Outline {
  std::vector<int> exits;
  int accepted = 0;
  bool plain = false;  // it did not look for drafts
};

// Layer `from` of a model of `n_from` layers, in one of `n_to`.
int scaled(int from, int n_from, int n_to) {
  return static_cast<int>(std::lround(static_cast<double>(from) * n_to / n_from));
}

HeadTensor random_tensor(int n_out, int n_in, std::minstd_rand& rng) {
  HeadTensor t{n_out, n_in, std::vector<float>(static_cast<size_t>(n_out) * n_in)};
  for (float& v : t.values) v = static_cast<float>(rng()) / 2147483647.0f - 0.5f;
  return t;
}

// Heads of random weights at `layers`: they cost what trained ones cost.
void write_random_heads(const std::string& path, const bench::Model& model, HeadKind kind,
                        const std::vector<int>& layers, int shortlist) {
  std::minstd_rand rng(1);
  const int dim = model.config.dim;
  NewHeads file;
  file.base = heads_base(model.gguf, model.config);
  for (int i = 0; i < shortlist; ++i) file.shortlist.push_back(i);
  for (const int layer : layers) {
    NewHead head;
    head.layer = layer;
    head.kind = kind;
    if (kind == HeadKind::kFolded) {
      head.folded = random_tensor(shortlist, dim, rng);
    } else {
      head.map = random_tensor(dim, kind == HeadKind::kChained ? 2 * dim : dim, rng);
    }
    if (kind == HeadKind::kChained) {
      head.inner = random_tensor(dim, 2 * dim, rng);
      head.outer = random_tensor(dim, dim, rng);
    }
    file.heads.push_back(std::move(head));
  }
  file.defaults.kind = kind;
  file.defaults.check_layers = layers;
  file.defaults.shortlist = shortlist;
  file.defaults.d_max = model.config.n_layers - 1;
  write_exit_heads(path, file);
}

// Checks as a trained head does, and hears from the script what came of it.
class ReplayedHead final : public ExitHead {
 public:
  ReplayedHead(const ExitHeads& heads, HeadKind kind, ForcedScript script)
      : real_(heads, kind), forced_(std::move(script)) {}

  const char* name() const override { return "replayed"; }
  float confidence(Round& round, int layer, float temperature) override {
    real_.confidence(round, layer, temperature);
    return forced_.confidence(round, layer, temperature);
  }
  int32_t token(Round& round) override { return forced_.token(round); }
  void begin() override { real_.begin(); }
  void settled(Backend& backend, int slot) override { real_.settled(backend, slot); }

 private:
  TrainedHead real_;
  ForcedHead forced_;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) throw Error(ErrorCode::kUsage, "usage: bench_replay JOB.json");
  const json job = json::parse(std::ifstream(argv[1]));
  bench::Arguments a;
  a.model = job.at("model");
  a.threads = job.at("threads");
  const int n_prompt = job.at("prompt"), n_tokens = job.at("tokens");
  bench::Model model(a, n_prompt + n_tokens + kMaxRows);
  const int n_layers = model.config.n_layers, from_layers = job.at("n_layers");
  HeadKind kind = parse_head_kind(job.at("kind").get<std::string>()).value();
  if (kind == HeadKind::kHybrid || kind == HeadKind::kTable) kind = HeadKind::kChained;

  std::vector<int> check_layers;
  for (const int layer : job.at("check_layers")) {
    check_layers.push_back(scaled(layer, from_layers, n_layers));
  }
  std::vector<Outline> outlines;
  for (const json& round : job.at("rounds")) {
    outlines.push_back(
        {round.at("exits"), round.at("accepted"), round.at("end") == kDraftEndNames[0]});
    for (int& layer : outlines.back().exits) layer = scaled(layer, from_layers, n_layers);
  }
  // Plain rounds bring a reply's first token, before there is a state to draft from; a run here
  // begins with one of its own.
  std::erase_if(outlines, [](const Outline& outline) { return outline.plain; });
  if (outlines.empty()) throw Error(ErrorCode::kUsage, "no round of the job drafted");
  const std::string path =
      std::filesystem::temp_directory_path() / format("bench_replay.%d.gguf", getpid());
  write_random_heads(path, model, kind, check_layers, job.at("shortlist"));
  const ExitHeads heads = ExitHeads::open(path, model.gguf, model.config);
  std::filesystem::remove(path);
  model.backend->set_exit_heads(&heads, job.at("shortlist"));

  SamplingParams greedy;
  greedy.temperature = 0;
  Session session(*model.backend, Sampler(greedy));
  const std::vector<int32_t> prompt = bench::ids(n_prompt, model.config.vocab_size);
  GenerateOptions options;
  options.max_tokens = n_tokens;
  session.generate(prompt, options);
  const std::vector<int32_t> text(session.tokens().begin(), session.tokens().end());

  size_t next = 0;  // outline of the round under way, one behind
  const auto script = [&](const Round& round) -> ForcedExit {
    const int row = round.newest();
    if (row == 0) ++next;
    const Outline& outline = outlines[(next - 1) % outlines.size()];
    if (row >= static_cast<int>(outline.exits.size())) return {};
    const size_t pos = static_cast<size_t>(round.pos()) + row + 1;
    const int32_t right = pos < text.size() ? text[pos] : 0;
    const int32_t token = row < outline.accepted ? right : (right + 1) % model.config.vocab_size;
    return {outline.exits[row], token};
  };
  ReplayedHead head(heads, kind, script);
  SpecBoundParams params;
  params.check_layers = check_layers;
  params.d_max = n_layers;
  params.w_max = job.at("w_max");
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
