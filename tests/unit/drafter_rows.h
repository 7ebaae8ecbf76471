// Drafters, with the settings, samplers and models that each is tried with, and the loop that tries
// one: replies are decoded plainly and then with the drafter; tokens, ends, hidden rows, logits, K
// and V are compared by memcmp, and the logits that are handed over with each token
// (decode/side_by_side.h). docs/architecture.md 4.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "decode/side_by_side.h"
#include "drafters/draft_verify.h"
#include "drafters/exit_head.h"
#include "drafters/forced_head.h"
#include "drafters/head_tree.h"
#include "drafters/ngram.h"
#include "drafters/specbound.h"
#include "drafters/tree_speculator.h"
#include "engine_rig.h"
#include "grammar/grammar.h"
#include "grammar/token_grammar.h"
#include "in_step.h"
#include "piece_tokenizer.h"

namespace specbound::test::drafters {

using Tokens = std::vector<int32_t>;
using Text = std::span<const int32_t>;
using Layers = std::vector<int>;
using Drafter = std::shared_ptr<Speculator>;  // with all that it drafts with

struct Row {
  std::string name;
  const TinyModel& model;
  // For replies of `engine`, the next one's text being `plain`.
  std::function<Drafter(Backend& engine, Text plain)> drafter;
  std::vector<SamplingParams> samplings = {};
  std::vector<Tokens> prompts = {token_ids(9, 97)};
  std::vector<int> replies = {40};  // tokens; each goes on from the one before; -1: the context
  bool anew = false;                // another drafter for each reply: it knows the text, or learns
  int32_t end = -1;                 // the token that ends replies
  int threads = 1;
  // Of all replies, at least; and the deepest layer where drafts are taken.
  int drafted = 1, accepted = 0, rejected = 0, trees = 0;
  int deepest = 1000;
};

inline SamplingParams sampling(float temperature, uint64_t seed = 5, float penalty = 1) {
  SamplingParams params;
  params.temperature = temperature;
  params.seed = seed;
  params.repeat_penalty = penalty;
  return params;
}

// With what a reply's own tokens, and a list of some, do to logits.
inline SamplingParams changing(SamplingParams params) {
  params.frequency_penalty = 0.4f;
  params.presence_penalty = 0.3f;
  params.logit_bias = {{1, 1.5f}, {2, -100}, {60, 0.75f}};
  return params;
}

// A grammar over 97 tokens.
inline std::shared_ptr<const TokenGrammar> made_of(const char* gbnf) {
  std::vector<PieceTokenizer::Piece> pieces;
  for (const char c : std::string_view("abcdefghijlmnuvxy0123456789{}[]\":, \n-.")) {
    pieces.push_back({std::string(1, c)});
  }
  for (const char* text : {"name", "value", "na", "val", "\":", "{\"", "\",", "\"}", "],", "[[",
                           "12", "345", "ab", "abc", "cd", ": ", ", ", "lue\"", "me\":"}) {
    pieces.push_back({text});
  }
  while (pieces.size() < 97) pieces.push_back({format("x%zu", pieces.size())});
  const PieceTokenizer tokenizer(pieces);
  return std::make_shared<const TokenGrammar>(Grammar::from_gbnf(gbnf), trie_of(tokenizer));
}

// Keys that are forced, lists, numbers, and texts that may end anywhere. It never ends by itself.
inline SamplingParams held(SamplingParams params) {
  static const std::shared_ptr<const TokenGrammar> grammar = made_of(
      "root ::= (item \",\" \" \"?)*\n"
      "item ::= \"{\\\"name\\\":\" text \",\\\"value\\\":\" [0-9]{1,4} \"}\" | list\n"
      "list ::= \"[\" (item | text) (\",\" (item | text)){0,2} \"]\"\n"
      "text ::= \"\\\"\" [a-jnamevluxy]{0,6} \"\\\"\"");
  params.grammar = grammar;
  return params;
}

// Up to kShort tokens, behind which nothing can follow.
inline constexpr int kShort = 25;
inline SamplingParams held_short(SamplingParams params) {
  static const std::shared_ptr<const TokenGrammar> grammar =
      made_of("root ::= \"{\\\"name\\\":\" [a-j]{2,4} \",\\\"value\\\":\" [0-9]{3} \"}\"");
  params.grammar = grammar;
  return params;
}

// On the CPU engine, all of it the CPU's.
inline std::unique_ptr<Backend> cpu_engine(const TinyModel& model, int threads, int n_ctx) {
  return model.backend(best_isa(), threads, true, n_ctx);
}

// All replies, each behind its prompt.
inline std::vector<Tokens> run(
    const Row& row,
    const std::function<std::unique_ptr<Backend>(const TinyModel&, int threads, int n_ctx)>& make =
        cpu_engine) {
  CAPTURE(row.name);
  const bool to_the_end = row.replies.front() < 0;
  const auto engine = make(row.model, row.threads, to_the_end ? 64 : 0);
  DifferentialBackend differential(*engine, engine->n_ctx(), engine->n_ctx());
  Counters counters;
  int trees = 0;
  GenerateOptions options;
  if (row.end >= 0) options.is_end = [&](int32_t token) { return token == row.end; };
  std::vector<float> heard;  // logits of the tokens, of the plain reply and of the other one
  options.on_logits = [&](const TokenEvent&, std::span<const float> logits) {
    heard.insert(heard.end(), logits.begin(), logits.end());
  };
  options.on_round = [&](const RoundEvent& round) { trees += !is_chain(round.rows); };
  Drafter drafter;
  std::vector<Tokens> texts;
  for (const SamplingParams& params : row.samplings) {
    CAPTURE(params.temperature);
    CAPTURE(params.seed);
    const bool ends = params.grammar && params.grammar == held_short({}).grammar;
    for (Tokens text : row.prompts) {
      for (const int tokens : row.replies) {
        options.max_tokens = tokens;
        const size_t n_prompt = text.size();
        const SideBySide both =
            decode_side_by_side(*engine, &differential, params, Tokens(text), options, [&](Text t) {
              text.assign(t.begin(), t.end());
              if (!drafter || row.anew) drafter = row.drafter(*engine, text);
              return drafter.get();
            });
        ++options.reply;
        texts.push_back(text);
        if (params.grammar) {
          TokenGrammar::Path path;
          const Text reply = Text(text).subspan(std::min(n_prompt, text.size()));
          CHECK(params.grammar->mask(reply, path) != nullptr);
        }
        if (both.difference) FAIL_CHECK(describe(*both.difference));
        const size_t half = heard.size() / 2;
        CHECK((heard.size() % 2 == 0 && same_bits(heard.data(), heard.data() + half, half)));
        heard.clear();
        if (to_the_end && !ends) CHECK(both.speculative.stop == StopReason::kContext);
        if (ends && (to_the_end || tokens >= kShort)) {
          CHECK(both.speculative.stop == StopReason::kEnd);
        }
        counters.add(both.speculative.counters);
      }
    }
  }
  CHECK(differential.rows_compared() > 0);
  CHECK(counters.drafted_tokens >= row.drafted);
  CHECK(counters.accepted_tokens >= row.accepted);
  CHECK(counters.drafted_tokens - counters.accepted_tokens >= row.rejected);
  CHECK(trees >= row.trees);
  CHECK(static_cast<int>(counters.accepted_at.size()) <= row.deepest + 1);
  return texts;
}

// ---- models ----

inline const TinyModel& model(int n_layers, DType type = DType::kQ8_0, uint64_t seed = 1,
                              const char* architecture = "llama") {
  static std::map<std::tuple<int, DType, uint64_t, std::string>, std::unique_ptr<TinyModel>> all;
  std::unique_ptr<TinyModel>& made = all[{n_layers, type, seed, architecture}];
  if (!made) {
    TinySpec spec;
    spec.architecture = architecture;
    spec.n_layers = n_layers;
    spec.type = type;
    spec.seed = seed;
    if (spec.architecture != "llama") spec.window = 20;
    made = std::make_unique<TinyModel>(spec);
  }
  return *made;
}

// SpecBound over a head of its own.
struct Exits {
  std::unique_ptr<ExitHead> head;
  SpecBound speculator;

  static Drafter make(std::unique_ptr<ExitHead> head, const SpecBoundParams& params, int n_layers) {
    ExitHead& asked = *head;
    const std::shared_ptr<Exits> all(new Exits{std::move(head), {asked, params, n_layers}});
    return {all, &all->speculator};
  }
};

inline Row trained(const ExitHeads& heads, HeadKind kind, ConfidenceRule rule, float tau,
                   int shortlist) {
  const auto make = [=, &heads](Backend& engine, Text) {
    engine.set_exit_heads(&heads, shortlist);
    const SpecBoundParams params{.tau = tau, .check_layers = heads.layers(kind)};
    return Exits::make(std::make_unique<TrainedHead>(heads, kind, rule), params, 4);
  };
  return {.name = format("%s heads of random weights, rule %d, tau %g, %d tokens",
                         head_kind_name(kind), static_cast<int>(rule), tau, shortlist),
          .model = model(4),
          .drafter = make,
          .samplings = {sampling(0), sampling(0, 5, 1.4f), sampling(0.7f), sampling(1.5f, 5, 1.2f)},
          .drafted = tau == 0 ? 40 : 0};
}

// A published head alone, which always drafts.
inline Row head_tree(const ExitHeads& heads, HeadKind kind, int w_max, bool fixed = false) {
  const auto make = [=, &heads](Backend& engine, Text) {
    engine.set_exit_heads(&heads, 32);
    return std::make_shared<HeadTree>(heads, kind, w_max, HeadTree::Rules{.fixed = fixed});
  };
  return {.name = format("a%s tree by %s heads of random weights, %d rows", fixed ? " fixed" : "",
                         head_kind_name(kind), w_max),
          .model = model(4),
          .drafter = make,
          .samplings = {sampling(0), sampling(0, 5, 1.4f), sampling(0.7f), sampling(1.5f, 5, 1.2f)},
          .prompts = {token_ids(9, 97), token_ids(1, 97)},
          .replies = {40, 20},
          .drafted = 40,
          .rejected = 1,
          .trees = w_max > 4 ? 20 : 0};
}

// Another model, whose K/V are looked at too.
struct Modelled {
  std::unique_ptr<Backend> backend;
  DraftModel draft;
  InStep watched;

  Modelled(const TinyModel& model, int w_max, float tau)
      : backend(model.backend(best_isa(), 1)),
        draft(*backend, w_max, tau, Acceptance::kCoupled),
        watched(draft, *backend, model) {}
};

inline Row modelled(const char* name, const TinyModel& drafter, int w_max, float tau) {
  const auto make = [=, &drafter](Backend&, Text) -> Drafter {
    const auto all = std::make_shared<Modelled>(drafter, w_max, tau);
    return {all, &all->watched};
  };
  return {.name = format("%s as draft model, %d rows, tau %g", name, w_max, tau),
          .model = model(3),
          .drafter = make,
          .samplings = {sampling(0), sampling(0.7f, 1), sampling(0.7f, 2), sampling(1, 3, 1.4f)},
          .prompts = {token_ids(24, 97)},
          .anew = true,
          .end = 5,
          .accepted = 1,
          .rejected = 1};
}

inline Row without(Layers skipped, int w_max = 5, float tau = 0.005f) {
  const auto make = [=](Backend&, Text) {
    return std::make_shared<DraftVerify>(DraftVerifyParams{skipped, w_max, tau});
  };
  return {.name = format("the model without %zu layers from %d on", skipped.size(), skipped[0]),
          .model = model(8),
          .drafter = make,
          .samplings = {sampling(0), sampling(0.7f, 1), sampling(0.7f, 2), sampling(1, 1),
                        sampling(1, 2)},
          .replies = {24},
          .anew = true,
          .drafted = 30,
          .rejected = 1};
}

// Few different tokens, where much repeats itself in many ways, and many.
inline Row tree(const TinyModel& model, bool measured) {
  const auto make = [=](Backend&, Text) {
    const auto tree = std::make_shared<TreeSpeculator>(nullptr, nullptr, kMaxRows, measured);
    RowCosts costs;
    for (int rows = 1; rows <= kMaxRows; ++rows) costs.start[rows] = 1 + 0.001 * (rows - 1);
    tree->set_costs(costs);
    return tree;
  };
  return {.name = std::string("a tree of lookups, ") + model.config.architecture,
          .model = model,
          .drafter = make,
          .samplings = {sampling(0), sampling(0.8f), sampling(0.8f, 4, 1.2f), sampling(0, 4, 1.2f)},
          .prompts = {token_ids(40, 5, 1), token_ids(40, 97, 2), token_ids(40, 5, 3)},
          .anew = true,
          .drafted = 200,
          .trees = 20};
}

inline Row ngrams(int n_max, int w_max) {
  Tokens prompt = token_ids(12, 97);
  for (int i = 0; i < 24; ++i) prompt.push_back(prompt[i]);
  return {
      .name = format("%d-grams, %d rows", n_max, w_max),
      .model = model(2),
      .drafter = [=](Backend&, Text) { return std::make_shared<NgramSpeculator>(n_max, w_max); },
      .samplings = {sampling(0, 3), sampling(0.7f, 3)},
      .prompts = {prompt},
      .replies = {120, 40},
      .accepted = 1,
      .deepest = 0};
}

// To the end of the context, on two threads.
inline Row of_type(DType type, bool forced) {
  const auto make = [=](Backend&, Text plain) {
    std::unique_ptr<ExitHead> head = std::make_unique<LensHead>();
    const ForcedRates rates{0.95, 0.9};
    if (forced) {
      head = std::make_unique<ForcedHead>(forced_by_chance(plain, {1, 2, 3, 4}, 97, rates, 1));
    }
    // So that the lens drafts too.
    SpecBoundParams params;
    params.w_max = kMaxRows;
    params.tau = forced ? 0.55f : 0.05f;
    return Exits::make(std::move(head), params, 5);
  };
  return {.name = format("%s, %s", dtype_info(type)->name, forced ? "forced exits" : "the lens"),
          .model = model(5, type),
          .drafter = make,
          .samplings = {sampling(0, 0, 1.3f), sampling(1, 0, 1.3f)},
          .prompts = {token_ids(7, 97)},
          .replies = {-1},
          .anew = true,
          .threads = 2,
          .accepted = forced ? 58 : 0};  // two tokens a round
}

}  // namespace specbound::test::drafters
