// The text and the bits of plain decoding from every drafter: one table of drafters, their
// settings, samplers and models, and one loop (drafter_rows.h). What else a drafter must do is in
// the test named after it; forced drafts under all settings are in the covering array.
// docs/architecture.md 4.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "drafter_rows.h"
#include "process_state.h"
#include "runtime/tuned_settings.h"
#include "sanitized.h"
#include "speculation_rig.h"
#include "temp_dir.h"
#include "tiny_datastore.h"
#include "tiny_heads.h"

namespace same_text_test {

using namespace specbound;
using namespace specbound::test;
using namespace specbound::test::drafters;

namespace {

// As flags make it, of a model with some heads; the controller may find that these do not pay.
Row by_flags(std::vector<std::string> flags, const std::string& path) {
  const bool controlled = flags.back() == "--controller";
  flags.insert(flags.begin(), "--speculator");
  if (controlled) flags.push_back("on");
  if (!controlled) flags.insert(flags.end(), {"--controller", "off"});
  std::string name;
  for (const std::string& flag : flags) name += flag + " ";
  const Parsed parsed = parse(flags);
  REQUIRE_MESSAGE(!parsed.status, parsed.err);
  const auto make = [options = parsed.flags, path](Backend& engine, Text) -> Drafter {
    const std::shared_ptr<Speculation> all = speculation(options, kLayers, path);
    all->attach(engine);
    return {all, all->speculator()};
  };
  Tokens prompt = token_ids(6, 97);
  for (int i = 0; i < 5; ++i) prompt.push_back(prompt[i]);
  return {.name = name,
          .model = tiny(kLayers),
          .drafter = make,
          .samplings = {sampling(0), sampling(0.8f, 1), sampling(0.8f, 2)},
          .prompts = {prompt},
          .replies = {20, 20},
          .drafted = !controlled};
}

// Of by_flags()' prompt, and other texts that go on from parts of it.
void write_store(const std::string& path) {
  const Tokens ids = token_ids(6, 97);
  std::vector<Tokens> texts = {ids};
  for (int i = 0; i < 97; ++i) {
    texts.push_back({ids[3], ids[4], i, ids[static_cast<size_t>(i) % 6], (7 * i) % 97});
    texts.push_back({i, (i + 1) % 97, i, 5, 6});
  }
  write_datastore(path, {97, vocabulary_fingerprint(tiny(kLayers).gguf)}, store_tokens(texts));
}

}  // namespace

TEST_CASE("every drafter gives the text and the bits of plain decoding") {
  const TempDir folder;
  // What the controller takes rows to cost, whatever they do on this machine.
  const CacheFolder cache(folder / "cache");
  RowCosts costs;
  for (int rows = 1; rows <= kMaxRows; ++rows) costs.start[rows] = 1 + 0.001 * rows;
  const auto engine = cpu_engine(tiny(kLayers), 1, 0);
  write_row_costs(model_fingerprint(tiny(kLayers).gguf), engine->device(),
                  {costs, engine->n_ctx()});
  const std::string path = folder / "m.gguf", random_path = folder / "random.gguf";
  HeadDefaults shipped;
  shipped.kind = HeadKind::kFolded;
  write_heads(folder / "m.heads.gguf", {{HeadKind::kFolded, {4, 8, 12}}, {HeadKind::kFull, {4}}},
              shipped);
  NewHeads file = random_heads(heads_base(model(4).gguf, model(4).config));
  file.heads.push_back(random_layer(file.base, 64, 5));
  file.heads.push_back(random_medusa(file.base, 3, 1, 50));
  file.heads.push_back(random_eagle(file.base, 64, true, 60));
  file.heads.push_back(random_eagle3(file.base, 64, 90));
  file.heads.push_back(random_hydra(file.base, 3, 2, 120));
  file.heads.push_back(random_mtp(file.base, 64, true, 150));
  file.heads.push_back(random_kangaroo(file.base, 2, 190));
  write_exit_heads(random_path, file);
  NewHeads published;
  published.base = heads_base(tiny(kLayers).gguf, tiny(kLayers).config);
  published.heads.push_back(random_medusa(published.base, 4, 1, 70));
  published.heads.push_back(random_eagle(published.base, 32, false, 80));
  published.heads.push_back(random_eagle3(published.base, 32, 110));
  published.heads.push_back(random_hydra(published.base, 4, 1, 130));
  published.heads.push_back(random_mtp(published.base, 32, false, 170));
  published.heads.push_back(random_kangaroo(published.base, 3, 200));
  published.defaults.kind = HeadKind::kMedusa;
  write_exit_heads(folder / "published.heads.gguf", published);
  const std::string published_path = folder / "published.gguf";
  NewHeads shared;
  shared.base = published.base;
  shared.heads.push_back(with_shared_lm_head(random_medusa(shared.base, 4, 1, 140)));
  shared.heads.push_back(with_shared_lm_head(random_hydra(shared.base, 4, 1, 150)));
  shared.defaults.kind = HeadKind::kMedusa;
  write_exit_heads(folder / "shared.heads.gguf", shared);
  const std::string shared_path = folder / "shared.gguf";
  NewHeads masks;
  masks.base = published.base;
  masks.masks.rows = random_head_tensor(3, masks.base.dim, 210, 0.7f);
  write_exit_heads(folder / "masks.heads.gguf", masks);
  masks.masks = {.token = 41, .count = 5};
  write_exit_heads(folder / "mask_token.heads.gguf", masks);
  const std::string masks_path = folder / "masks.gguf", token_path = folder / "mask_token.gguf";
  const std::string store = folder / "m.datastore";
  write_store(store);
  const ExitHeads heads = ExitHeads::open(random_path, model(4).gguf, model(4).config);

  std::vector<Row> rows = {
      by_flags({"layerskip"}, path),
      by_flags({"layerskip", "--head", "full"}, path),
      by_flags({"layerskip", "--exit-layer", "15"}, path),
      by_flags({"adadecode", "--tau", "0"}, path),
      by_flags({"adadecode", "--head", "lens", "--tau", "0.02"}, path),
      by_flags({"auto", "--tau", "0.02"}, path),
      by_flags({"auto", "--head", "lens", "--tau", "1"}, path),
      by_flags({"auto", "--remember", "on"}, path),
      by_flags({"auto", "--head", "lens", "--controller"}, path),
      by_flags({"specbound", "--head", "lens", "--tau", "0.02"}, path),
      by_flags({"draft-verify", "--tau", "0"}, path),
      by_flags({"draft-verify", "--skip-layers", "1-15", "--tau", "0"}, path),
      by_flags({"lookahead"}, path),
      by_flags({"lookahead", "--lookahead", "7,2,9"}, path),
      by_flags({"lookahead", "--lookahead", "1,9,1"}, path),
      by_flags({"rest", "--datastore", store}, path),
      by_flags({"rest", "--datastore", store, "--w-max", "3"}, path),
      by_flags({"auto", "--datastore", store}, path),
      by_flags({"auto", "--datastore", store, "--controller"}, path),
      by_flags({"medusa"}, published_path),
      by_flags({"eagle"}, published_path),
      by_flags({"eagle", "--w-max", "3"}, published_path),
      by_flags({"hydra"}, published_path),
      by_flags({"specbound", "--head", "hydra", "--tau", "0"}, published_path),
      by_flags({"auto", "--head", "hydra", "--controller"}, published_path),
      by_flags({"medusa"}, shared_path),
      by_flags({"hydra"}, shared_path),
      by_flags({"auto", "--controller"}, shared_path),
      by_flags({"eagle3"}, published_path),
      by_flags({"specbound", "--head", "eagle3", "--tau", "0"}, published_path),
      by_flags({"auto", "--head", "eagle3", "--controller"}, published_path),
      by_flags({"mtp"}, published_path),
      by_flags({"mtp", "--w-max", "5"}, published_path),
      by_flags({"specbound", "--head", "mtp", "--tau", "0"}, published_path),
      by_flags({"auto", "--head", "mtp", "--controller"}, published_path),
      by_flags({"space"}, masks_path),
      by_flags({"space", "--w-max", "9"}, masks_path),
      by_flags({"space"}, token_path),
      by_flags({"space", "--w-max", "5"}, token_path),
      by_flags({"kangaroo", "--tau", "0"}, published_path),
      by_flags({"kangaroo", "--tau", "0.02", "--w-max", "16"}, published_path),
      by_flags({"kangaroo"}, published_path),
      by_flags({"specbound", "--head", "kangaroo", "--tau", "0"}, published_path),
      by_flags({"auto", "--head", "kangaroo", "--tau", "0.02"}, published_path),
      by_flags({"auto", "--head", "kangaroo", "--controller"}, published_path),
      by_flags({"specbound", "--head", "medusa", "--tau", "0"}, published_path),
      by_flags({"specbound", "--head", "eagle", "--tau", "0"}, published_path),
      by_flags({"auto", "--head", "eagle", "--tau", "0.02"}, published_path),
      by_flags({"auto", "--head", "eagle", "--controller"}, published_path),
      by_flags({"auto", "--tau", "0.02"}, published_path),
      by_flags({"auto", "--controller"}, published_path),
      without({4}),
      without({1, 2}),
      without({8}),
      without({2, 4, 6}),
      without({3, 4, 7}, 4, 0),
      without({1, 2, 3, 4, 5, 6, 7, 8}),
      tree(model(8), false),
      tree(model(8), true),
      tree(model(4, DType::kQ8_0, 1, "gemma2"), false),  // windows
      tree(model(4, DType::kQ8_0, 1, "phi3"), false),
      ngrams(3, 8),
      ngrams(1, 16),
      ngrams(16, 2),
  };
  // As the program comes: lookups, which pay where rows cost nearly nothing.
  rows.push_back(by_flags({"auto", "--controller"}, folder / "alone.gguf"));
  rows.back().drafted = 1;
  // To the end of the context, where the last rounds have room for few rows.
  for (const auto& [name, with] :
       {std::pair("space", masks_path), {"space", token_path}, {"kangaroo", published_path}}) {
    rows.push_back(by_flags({name, "--w-max", "16"}, with));
    rows.back().replies = {-1};
  }
  // The target's first two layers, often right and often not; and a stranger.
  const std::pair<const char*, const TinyModel&> drafters[] = {
      {"the first layers", model(2)}, {"a stranger", model(1, DType::kQ8_0, 99)}};
  for (const auto& [name, drafter] : drafters) {
    rows.push_back(modelled(name, drafter, 4, 0.05f));
    rows.push_back(modelled(name, drafter, 4, 0));
    rows.push_back(modelled(name, drafter, kMaxRows, 0));
  }
  for (const HeadKind kind : kHeadKinds) {
    for (const ConfidenceRule rule : {ConfidenceRule::kPeak, ConfidenceRule::kMargin}) {
      for (const float tau : {0.0f, 0.2f}) {
        for (const int shortlist : some_of({16, 32})) {
          rows.push_back(trained(heads, kind, rule, tau, shortlist));
        }
      }
    }
  }
  for (const int w_max : {2, 7, kMaxRows}) {
    for (const HeadKind kind : kHeadKinds) {
      if (!is_published(kind) || !stands_before(kind)) continue;
      rows.push_back(head_tree(heads, kind, w_max));
      if (is_by_place(kind)) rows.push_back(head_tree(heads, kind, w_max, true));
    }
  }
  for (const DType type : {DType::kQ8_0, DType::kF16, DType::kBF16, DType::kF32}) {
    for (const bool forced : {false, true}) rows.push_back(of_type(type, forced));
  }
  for (Row& row : rows) {
    const SamplingParams first = row.samplings.front(), last = row.samplings.back();
    row.samplings.insert(row.samplings.end(), {changing(first), changing(last), held(first),
                                               held(changing(last)), held_short(last)});
    run(row);
  }
}

}  // namespace same_text_test
