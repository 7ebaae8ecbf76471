// How likely what is looked up is right, on texts that models write: the figures that ship in
// drafters/candidate_odds.cpp come from here. `write` writes replies to questions in the form of
// Spec-Bench into a file, `fit` fits log-odds to such files by tune/fit_odds.h and prints them as
// the source has them. `fit-store` fits those of a datastore of others' texts to N tokens that the
// model wrote into its heads file, all other figures as they ship.
//   bench_lookup write MODEL.gguf QUESTIONS.jsonl COUNT N_PREDICT TEMPERATURE TEXTS.jsonl
//   bench_lookup fit TEXTS.jsonl...
//   bench_lookup fit-store MODEL.gguf HEADS.gguf FILE.datastore N
//   bench_lookup simulate COSTS TEXTS.jsonl [MEMORY.jsonl]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench_model.h"
#include "decode/generate.h"
#include "drafters/lookup.h"
#include "drafters/tree_speculator.h"
#include "recorded_text.h"
#include "runtime/loaded_model.h"
#include "spec_bench/spec_bench_questions.h"
#include "terminal/progress.h"
#include "tune/fit_odds.h"

using namespace specbound;
using nlohmann::json;

namespace {

std::string read(const char* path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_texts(const char* model_path, const char* questions, int count, int n, float temperature,
                 const char* path) {
  ModelOptions options;
  options.model = model_path;
  LoadedModel model(options, terminal_watcher());
  model.load();
  TreeSpeculator tree(nullptr, nullptr, 8, true);
  Session session(model.backend(), Sampler(SamplingParams{.temperature = temperature}));
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
                {"temperature", temperature},
                {"prompt_tokens", prompt.size()},
                {"tokens", std::vector<int32_t>(tokens.begin(), tokens.end())}}
               .dump()
        << std::endl;
  }
}

std::vector<TuningText> read_texts(const char* path) {
  std::vector<TuningText> texts;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const json text = json::parse(line);
    // As the sampler of write_texts() has it: its seed stays.
    texts.push_back({.tokens = text.at("tokens"),
                     .prompt_tokens = text.at("prompt_tokens"),
                     .sampling = {.temperature = text.at("temperature")},
                     .dialogue = static_cast<int>(texts.size())});
  }
  return texts;
}

void print_row(const float* from, int n) {
  for (int i = 0; i < n; ++i) std::printf("%s%.2ff", i > 0 ? ", " : "", double{from[i]});
}

void print_cells(const std::array<float, CandidateOdds::kCells>& cells) {
  std::printf("{");
  for (int length = 0; length < CandidateOdds::kLengths; ++length) {
    print_row(cells.data() + length * CandidateOdds::kAgreements, CandidateOdds::kAgreements);
    std::printf(length + 1 < CandidateOdds::kLengths ? ",\n " : "},\n");
  }
}

void print_weights(const CandidateOdds::Weights& weights) {
  print_cells(weights.text);
  print_cells(weights.memory);
  std::printf("{");
  print_row(weights.rival.data(), CandidateOdds::kRivals);
  std::printf("},\n%.2ff\n", double{weights.both});
  for (const auto* noise : {&weights.noise, &weights.rival_noise}) {
    std::printf("{");
    print_row(noise->data(), CandidateOdds::kNoises);
    std::printf("},\n");
  }
}

// The odds that ship have nothing before them to be pulled to. Each model's texts have a memory of
// their own.
void fit(std::span<char* const> paths) {
  std::vector<OddsCase> cases;
  for (const char* path : paths) {
    const std::vector<OddsCase> more = look_up(read_texts(path), {});
    cases.insert(cases.end(), more.begin(), more.end());
  }
  if (cases.empty()) throw Error(ErrorCode::kFile, "nothing is found in these texts");
  const CandidateOdds::Weights weights = fit_odds(cases, {}, 0);
  std::fprintf(stderr, "%zu candidates, log loss %.4f (as shipped %.4f)\n", cases.size(),
               log_loss(cases, weights), log_loss(cases, CandidateOdds::shipped()));
  print_weights(weights);
}

// Replies that the model wrote, n tokens of them, from the front of `text`, which loses them.
std::vector<TuningText> take_replies(std::span<const int32_t>& text, size_t n) {
  std::vector<TuningText> replies;
  for (size_t taken = 0; taken < n && !text.empty();) {
    const auto end = std::ranges::find(text, LookupMemory::kBetween);
    const auto length = static_cast<size_t>(end - text.begin());
    replies.push_back({.tokens = {text.begin(), end}, .sampling = {.temperature = 0}});
    taken += length + 1;
    text = text.subspan(std::min(length + 1, text.size()));
  }
  return replies;
}

// All replies are of dialogue 0, which has no memory: the datastore is all there is beside them.
void fit_store(const char* model_path, const char* heads_path, const char* store_path, size_t n) {
  const Gguf gguf = Gguf::open(model_path);
  const ModelConfig config = read_config(gguf);
  const ExitHeads heads = ExitHeads::open(heads_path, gguf, config);
  const Datastore store =
      Datastore::open(store_path, {config.vocab_size, vocabulary_fingerprint(gguf)});
  std::span<const int32_t> text = heads.text();
  std::vector<OddsCase> cases = look_up(take_replies(text, n), {}, &store);
  std::vector<OddsCase> unseen = look_up(take_replies(text, n / 4), {}, &store);
  for (std::vector<OddsCase>* some : {&cases, &unseen}) {
    std::erase_if(*some, [](const OddsCase& one) { return one.features.store < 0; });
    if (some->empty()) throw Error(ErrorCode::kFile, "nothing is found in these texts");
  }
  const size_t stride = cases.size() % 7919 == 0 ? 1 : 7919;
  CandidateOdds::Weights weights = CandidateOdds::shipped();
  for (int epoch = 0; epoch < 20; ++epoch) {  // as fit_odds() does, but for what stays
    for (size_t i = 0; i < cases.size(); ++i) {
      const OddsCase& one = cases[i * stride % cases.size()];
      CandidateOdds odds(weights);
      odds.learn(one.features, one.right, 0.1 / (1 + epoch));
      weights.store = odds.weights().store;
    }
  }
  std::fprintf(stderr, "%zu candidates, log loss %.4f (as shipped %.4f), unseen %.4f (%.4f)\n",
               cases.size(), log_loss(cases, weights), log_loss(cases, CandidateOdds::shipped()),
               log_loss(unseen, weights), log_loss(unseen, CandidateOdds::shipped()));
  print_cells(weights.store);
}

// Of passes over 2, 3, .. rows in plain rounds, as "1.27,1.54,1.54"; the last step goes on.
RowCosts parse_costs(const std::string& list) {
  RowCosts costs;
  costs.start[1] = 1;
  std::istringstream in(list);
  std::string cost;
  for (int rows = 2; rows <= kMaxRows; ++rows) {
    const double step = rows > 2 ? costs.start[rows - 1] - costs.start[rows - 2] : 0;
    costs.start[rows] =
        std::getline(in, cost, ',') ? std::atof(cost.c_str()) : costs.start[rows - 1] + step;
  }
  return costs;
}

// Tokens in the time of a plain round that no tree of what is looked up can exceed: of each round
// just the rows that turn out right, and of these as many as pay.
double ceiling(const RowCosts& costs, const std::vector<TuningText>& texts,
               const LookupMemory* given) {
  std::vector<std::vector<int>> runs;  // [text][token of the reply] found one after the other
  std::vector<Lookup::Found> found;
  for (const TuningText& text : texts) {
    const std::span<const int32_t> tokens = text.tokens;
    LookupMemory memory;
    if (given) memory.assign(given->replies());
    Lookup lookup(given ? &memory : nullptr);
    const auto prompt = static_cast<size_t>(text.prompt_tokens);
    lookup.begin(tokens.first(prompt));
    std::vector<int>& run = runs.emplace_back();
    for (size_t at = prompt; at < tokens.size(); ++at) {
      lookup.find(tokens.first(at), text.sampling.temperature, {.pos = static_cast<uint32_t>(at)},
                  found);
      run.push_back(std::ranges::find(found, tokens[at], &Lookup::Found::token) != found.end());
      lookup.push(tokens[at]);
    }
    for (size_t i = run.size(); i-- > 0;) {
      const int behind = i + 1 < run.size() ? run[i + 1] : 0;
      run[i] = run[i] ? 1 + behind : 0;
    }
  }
  // The rate at which the best rounds are worth their time (Dinkelbach).
  double rate = 1;
  for (int turn = 0; turn < 20; ++turn) {
    double tokens = 0, time = 0;
    for (const std::vector<int>& run : runs) {
      struct Rest {
        double worth = 0, tokens = 0, time = 0;
      };
      std::vector<Rest> rest(run.size() + 1);  // [i]: of tokens i and all behind it
      for (size_t i = run.size(); i-- > 0;) {
        for (int rows = 1; rows <= std::min(1 + run[i], kMaxRows); ++rows) {
          const double cost = costs.pass(rows, 0) / costs.pass(1, 0);
          const size_t next = std::min(i + static_cast<size_t>(rows), run.size());
          const double worth = static_cast<double>(next - i) - rate * cost + rest[next].worth;
          if (rows > 1 && worth <= rest[i].worth) continue;
          rest[i] = {worth, static_cast<double>(next - i) + rest[next].tokens,
                     cost + rest[next].time};
        }
      }
      tokens += rest[0].tokens;
      time += rest[0].time;
    }
    if (time > 0) rate = tokens / time;
  }
  return rate;
}

// What drafting would have brought on such texts: tokens in the time of a plain round, in all, and
// of the replies the fifth percentile and the share below 0.98.
void simulate(const RowCosts& costs, const std::vector<TuningText>& texts,
              const char* memory_path) {
  size_t longest = 0;
  int32_t last = 0;
  for (const TuningText& text : texts) {
    longest = std::max(longest, text.tokens.size());
    last = std::max(last, std::ranges::max(text.tokens));
  }
  bench::RecordedText backend(last + 1, static_cast<int>(longest) + 1);
  LookupMemory memory;
  if (memory_path) {
    for (const TuningText& text : read_texts(memory_path)) {
      memory.add(std::span(text.tokens).subspan(static_cast<size_t>(text.prompt_tokens)));
    }
  }
  std::vector<double> gains;
  double tokens = 0, time = 0;
  for (const TuningText& text : texts) {
    LookupMemory same;  // each a first conversation
    same.assign(memory.replies());
    TreeSpeculator tree(nullptr, memory_path ? &same : nullptr, 16, true);
    tree.set_costs(costs);
    backend.assign(text.tokens);
    Session session(backend, Sampler({.temperature = text.sampling.temperature, .top_k = 1}));
    session.set_speculator(&tree);
    GenerateOptions options;
    options.max_tokens = static_cast<int>(text.tokens.size()) - text.prompt_tokens;
    double own = 0;
    options.on_round = [&](const RoundEvent& round) {
      own += costs.pass(static_cast<int>(round.rows.size()), 0) / costs.pass(1, 0);
    };
    session.generate(std::span(text.tokens).first(static_cast<size_t>(text.prompt_tokens)),
                     options);
    gains.push_back(options.max_tokens / own);
    tokens += options.max_tokens;
    time += own;
  }
  std::ranges::sort(gains);
  const auto lost = std::ranges::lower_bound(gains, 0.98) - gains.begin();
  std::printf("%.3f of plain decoding, %.3f at most; 5th percentile %.3f, %.1f %% below 0.98\n",
              tokens / time, ceiling(costs, texts, memory_path ? &memory : nullptr),
              gains[gains.size() / 20],
              100.0 * static_cast<double>(lost) / static_cast<double>(gains.size()));
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "write" && argc == 8) {
    write_texts(argv[2], argv[3], std::atoi(argv[4]), std::atoi(argv[5]),
                static_cast<float>(std::atof(argv[6])), argv[7]);
  } else if (mode == "fit" && argc > 2) {
    fit(std::span(argv, static_cast<size_t>(argc)).subspan(2));
  } else if (mode == "fit-store" && argc == 6) {
    fit_store(argv[2], argv[3], argv[4], static_cast<size_t>(std::atoll(argv[5])));
  } else if (mode == "simulate" && (argc == 4 || argc == 5)) {
    simulate(parse_costs(argv[2]), read_texts(argv[3]), argc == 5 ? argv[4] : nullptr);
  } else {
    throw Error(ErrorCode::kUsage,
                "bench_lookup write MODEL QUESTIONS COUNT N_PREDICT TEMPERATURE TEXTS | fit "
                "TEXTS... | fit-store MODEL HEADS DATASTORE N | simulate COSTS TEXTS [MEMORY]");
  }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "bench_lookup: %s\n", e.what());
  return 1;
}
