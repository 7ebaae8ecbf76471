// Replies that JSON schemas hold: their texts, for another to judge, tokens a round, and what masks
// cost. Speculative with what the grammar forces drafted ("forced"), without ("lookup"), and plain.
//   bench_grammar MODEL.gguf SCHEMAS.jsonl SEEDS N_PREDICT MODE...
// SCHEMAS: {"schema": .., "prompt": ".."} a line. A line of JSON on stdout for each reply: seconds
// of its decoding; microseconds of all masks along it, of a grammar that is new and of one that is
// known, and the most of one.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "decode/generate.h"
#include "drafters/tree_speculator.h"
#include "json/json_member.h"
#include "runtime/speculative_model.h"
#include "terminal/progress.h"

using namespace specbound;
using nlohmann::json;

namespace {

double microseconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

// Of all masks along `reply`, and the most of one.
json mask_costs(const TokenGrammar& grammar, std::span<const int32_t> reply) {
  TokenGrammar::Path path;
  double all = 0, most = 0;
  for (size_t n = 0; n < reply.size(); ++n) {
    const double one = microseconds([&] { grammar.mask(reply.first(n), path); });
    all += one;
    most = std::max(most, one);
  }
  return {{"all", all}, {"most", most}};
}

class Bench {
 public:
  explicit Bench(const char* path)
      : model_(options_of(path), SpeculationOptions(), terminal_watcher()) {
    model_.load();
  }

  void run(int entry, const std::string& line, uint64_t seed, int n, const std::string& mode) {
    const json given = json::parse(line);
    const std::string_view schema = json_member(line, "schema");
    LoadedModel& model = model_.model();
    Grammar::Shared grammar;
    const double compile = microseconds([&] { grammar = Grammar::from_json_schema(schema); });
    const double vocabulary = microseconds([&] { model.constrain(grammar); });
    SamplingParams sampling{.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .seed = seed};
    sampling.grammar = model.constrain(grammar);
    Session session(model.backend(), Sampler(sampling));
    Speculation& speculation = model_.speculation();
    if (mode != "plain") session.set_speculator(speculation.speculator());
    if (auto* tree = dynamic_cast<TreeSpeculator*>(speculation.speculator())) {
      tree->draft_forced(mode == "forced");
    }
    GenerateOptions options;
    options.max_tokens = n;
    options.is_end = [&](int32_t id) { return model.ends_reply(id); };
    const std::vector<ChatMessage> messages = {
        {ChatMessage::Role::kUser, given["prompt"].get<std::string>()}};
    const std::vector<int32_t> prompt = model.chat_template().encode(model.tokenizer(), messages);
    const GenerateStats stats = session.generate(prompt, options);
    const std::span<const int32_t> reply =
        session.tokens().subspan(prompt.size()).first(static_cast<size_t>(stats.generated_tokens));
    const auto fresh = model.constrain(grammar);
    const json cold = mask_costs(*fresh, reply), warm = mask_costs(*fresh, reply);
    std::printf("%s\n", json{{"entry", entry},
                             {"seed", seed},
                             {"mode", mode},
                             {"text", model.tokenizer().decode(reply)},
                             {"stop", stop_reason_name(stats.stop)},
                             {"tokens", stats.generated_tokens},
                             {"rounds", stats.counters.rounds},
                             {"seconds", stats.decode_seconds},
                             {"compile_us", compile},
                             {"vocabulary_us", vocabulary},
                             {"new_us", cold},
                             {"known_us", warm}}
                            .dump(-1, ' ', false, json::error_handler_t::replace)
                            .c_str());
    std::fflush(stdout);
  }

 private:
  static ModelOptions options_of(const char* path) {
    ModelOptions options;
    options.model = path;
    return options;
  }

  SpeculativeModel model_;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 6) {
    std::fprintf(stderr, "bench_grammar MODEL.gguf SCHEMAS.jsonl SEEDS N_PREDICT MODE...\n");
    return 2;
  }
  Bench bench(argv[1]);
  for (int seed = 1; seed <= std::atoi(argv[3]); ++seed) {
    std::ifstream file(argv[2]);
    int entry = 0;
    for (std::string line; std::getline(file, line); ++entry) {
      for (int mode = 5; mode < argc; ++mode) {
        bench.run(entry, line, static_cast<uint64_t>(seed), std::atoi(argv[4]), argv[mode]);
      }
    }
  }
  return 0;
} catch (const Error& e) {
  std::fprintf(stderr, "bench_grammar: %s\n", e.what());
  return 1;
}
