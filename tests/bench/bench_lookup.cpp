// How likely what is looked up is right, on texts that models write: the figures that ship in
// src/decode/candidate_odds.cpp come from here. `write` writes greedy replies to Spec-Bench
// questions into a file, `fit` fits log-odds to such files and prints them as the source has them.
//   bench_lookup write MODEL.gguf QUESTIONS.jsonl COUNT N_PREDICT TEXTS.jsonl
//   bench_lookup fit TEXTS.jsonl...
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench_model.h"
#include "decode/generate.h"
#include "decode/lookup.h"
#include "decode/tree_speculator.h"
#include "runtime/loaded_model.h"
#include "terminal/progress.h"
#include "tools/spec_bench_questions.h"

using namespace specbound;
using nlohmann::json;

namespace {

struct Text {
  std::vector<int32_t> tokens;
  size_t n_prompt;
};

std::string read(const char* path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_texts(const char* model_path, const char* questions, int count, int n,
                 const char* path) {
  ModelOptions options;
  options.model = model_path;
  LoadedModel model(options, terminal_watcher());
  model.load();
  TreeSpeculator tree(nullptr, nullptr, 8, true);
  Session session(model.backend(), Sampler(SamplingParams{.temperature = 0}));
  session.set_speculator(&tree);
  GenerateOptions generate;
  generate.max_tokens = n;
  generate.is_end = [&](int32_t id) { return model.ends_reply(id); };
  std::ofstream out(path);
  for (const SpecBenchQuestion& question :
       spread_questions(parse_questions(read(questions), questions), count)) {
    const std::vector<ChatMessage> messages = {{ChatMessage::Role::kUser, question.turns[0]}};
    std::vector<int32_t> prompt = model.chat_template().encode(model.tokenizer(), messages);
    cut_middle(prompt, static_cast<size_t>(model.n_ctx() - n));
    session.generate(prompt, generate);
    const std::span<const int32_t> tokens = session.tokens();
    out << json{{"id", question.id},
                {"task", question.task()},
                {"prompt_tokens", prompt.size()},
                {"tokens", std::vector<int32_t>(tokens.begin(), tokens.end())}}
               .dump()
        << std::endl;
  }
}

std::vector<Text> read_texts(const char* path) {
  std::vector<Text> texts;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const json text = json::parse(line);
    texts.push_back({text.at("tokens"), text.at("prompt_tokens")});
  }
  return texts;
}

// What looking up at every place of the texts would have found, and whether it was right. Every
// second text is looked up without a memory, as a first conversation is; each model has its own.
struct Case {
  CandidateOdds::Features features;
  bool right;
};
void collect(const std::vector<Text>& texts, std::vector<Case>& cases) {
  LookupMemory memory;
  std::vector<Lookup::Found> found;
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::span<const int32_t> text = texts[i].tokens, prompt = text.first(texts[i].n_prompt);
    Lookup lookup(i % 2 == 1 ? &memory : nullptr);
    lookup.begin(prompt);
    for (size_t at = prompt.size(); at < text.size(); ++at) {
      lookup.find(text.first(at), found);
      for (const Lookup::Found& f : found) cases.push_back({f.features, f.token == text[at]});
      lookup.push(text[at]);
    }
    memory.add(text.subspan(prompt.size()));
  }
}

// Logistic regression by stochastic gradient descent, over the cases in a fixed scattered order.
CandidateOdds fit(const std::vector<Case>& cases) {
  constexpr int kEpochs = 40;
  constexpr size_t kStride = 7919;  // prime
  CandidateOdds odds{CandidateOdds::Weights{}};
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    for (size_t i = 0; i < cases.size(); ++i) {
      const Case& one = cases[i * kStride % cases.size()];
      odds.learn(one.features, one.right, 0.1 / (1 + epoch));
    }
  }
  return odds;
}

double log_loss(const std::vector<Case>& cases, const CandidateOdds& odds) {
  double sum = 0;
  for (const Case& one : cases) {
    const double chance = odds.chance(one.features);
    sum -= std::log(one.right ? chance : 1 - chance);
  }
  return sum / static_cast<double>(cases.size());
}

void print_weights(const CandidateOdds::Weights& weights) {
  const auto row = [](const float* from, int n) {
    for (int i = 0; i < n; ++i) std::printf("%s%.2ff", i > 0 ? ", " : "", double{from[i]});
  };
  for (const auto* cells : {&weights.text, &weights.memory}) {
    std::printf("{");
    for (int length = 0; length < CandidateOdds::kLengths; ++length) {
      row(cells->data() + length * CandidateOdds::kAgreements, CandidateOdds::kAgreements);
      std::printf(length + 1 < CandidateOdds::kLengths ? ",\n " : "},\n");
    }
  }
  std::printf("{");
  row(weights.rival.data(), CandidateOdds::kRivals);
  std::printf("},\n%.2ff\n", double{weights.both});
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "write" && argc == 7) {
    write_texts(argv[2], argv[3], std::atoi(argv[4]), std::atoi(argv[5]), argv[6]);
  } else if (mode == "fit" && argc > 2) {
    std::vector<Case> cases;
    for (int i = 2; i < argc; ++i) collect(read_texts(argv[i]), cases);
    const CandidateOdds odds = fit(cases);
    std::fprintf(stderr, "%zu candidates, log loss %.4f (as shipped %.4f)\n", cases.size(),
                 log_loss(cases, odds), log_loss(cases, CandidateOdds()));
    print_weights(odds.weights());
  } else {
    throw Error(ErrorCode::kUsage,
                "bench_lookup write MODEL QUESTIONS COUNT N_PREDICT TEXTS | fit TEXTS...");
  }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "bench_lookup: %s\n", e.what());
  return 1;
}
