// The same text with speculation on and off (docs/architecture.md 1, 4): element types, instruction
// sets, threads, sampling and drafting settings in a covering array, on tiny models and on the
// bundled one, with drafts that are forced, right and wrong, and with the logit lens.
#include "covering_array.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "decode/generate.h"
#include "drafters/exit_head.h"
#include "drafters/forced_head.h"
#include "drafters/specbound.h"
#include "engine_rig.h"
#include "templates/chat_template.h"
#include "text/tokenizer.h"

namespace covering_array_test {

using namespace specbound;
using namespace specbound::test;

namespace {

// Every element type, every way in which architectures differ.
struct TinyKind {
  DType type;
  const char* architecture;
  KvType kv = KvType::kFp16;
};
const std::vector<TinyKind> kKinds = {{DType::kQ8_0, "llama"},
                                      {DType::kQ8_0, "gemma2"},
                                      {DType::kF16, "phi3"},
                                      {DType::kF32, "gemma2"},
                                      {DType::kQ8_0, "gemma3"},
                                      {DType::kBF16, "smollm3"},
                                      {DType::kQ8_0, "llama", KvType::kInt8},
                                      {DType::kF32, "gemma2", KvType::kInt8}};

struct Setting {
  size_t kind = 0;  // of kKinds; the demo model is of the first
  Isa isa = best_isa();
  int threads = 1;
  SamplingParams sampling;
  SpecBoundParams drafting;
  bool lens = false;
  bool measure_plain = false;

  std::string description() const {
    std::string layers;
    for (const int l : drafting.check_layers) layers += format(" %d", l);
    return format(
        "%s %s%s, %s, %d threads, %s, temp %g, top-k %d, top-p %g, min-p %g, penalty %g, seed %d, "
        "of the reply %g, w_max %d, d_max %d, check layers%s, plain rounds %d",
        kKinds[kind].architecture, dtype_info(kKinds[kind].type)->name,
        kKinds[kind].kv == KvType::kInt8 ? ", K/V INT8" : "", isa_name(isa), threads,
        lens ? "lens" : "forced", sampling.temperature, sampling.top_k, sampling.top_p,
        sampling.min_p, sampling.repeat_penalty, static_cast<int>(sampling.seed),
        sampling.frequency_penalty, drafting.w_max, drafting.d_max,
        layers.empty() ? " all" : layers.c_str(), measure_plain);
  }
};

void set_filters(SamplingParams& p, int level) {
  p.top_k = level == 1 || level == 4 ? 20 : 0;
  p.top_p = level == 2 || level == 4 ? 0.9f : 1;
  p.min_p = level == 3 || level == 4 ? 0.05f : 0;
}

// What the drafts of some settings were worth.
struct Worth {
  int settings = 0, tokens = 0, rounds = 0, drafted = 0, accepted = 0;

  void add(const Counters& counters) {
    tokens += counters.decoded_tokens;
    rounds += counters.rounds;
    drafted += counters.drafted_tokens;
    accepted += counters.accepted_tokens;
  }
  double compression() const { return static_cast<double>(tokens) / rounds; }
  std::string description() const {
    return format("%d settings, %d tokens in %d rounds (CR %.2f), %d of %d drafts accepted",
                  settings, tokens, rounds, compression(), accepted, drafted);
  }
};

struct Reply {
  std::vector<int32_t> tokens, text;  // as emitted; the session's own
  StopReason stop;
};

Reply reply(Session& session, const std::vector<int32_t>& prompt, GenerateOptions options,
            Counters* counters = nullptr) {
  Reply reply;
  options.on_token = [&](const TokenEvent& event) { reply.tokens.push_back(event.token); };
  const GenerateStats stats = session.generate(prompt, options);
  reply.text.assign(session.tokens().begin(), session.tokens().end());
  reply.stop = stats.stop;
  if (counters) *counters = stats.counters;
  return reply;
}

// Plain replies from `plain`, speculative ones to the same prompts from `other`: equal throughout.
void check_texts(const Setting& setting, Backend& plain, Backend& other,
                 const std::vector<std::vector<int32_t>>& prompts, GenerateOptions options,
                 Worth& worth) {
  CAPTURE(setting.description());
  const int n_layers = plain.config().n_layers;
  validate(setting.drafting, n_layers);
  const std::vector<int> layers = bounded_check_layers(setting.drafting, n_layers);
  Session expected_session(plain, Sampler(setting.sampling));
  Session session(other, Sampler(setting.sampling));
  ++worth.settings;
  for (size_t i = 0; i < prompts.size(); ++i) {
    CAPTURE(i);
    options.reply = static_cast<uint32_t>(i % 3);
    const Reply expected = reply(expected_session, prompts[i], options);

    ForcedHead forced(forced_by_chance(expected.text, layers, plain.config().vocab_size,
                                       {.exit = 0.95, .right = 0.9}, 100 * i + worth.settings));
    LensHead lens;
    ExitHead& head = setting.lens ? static_cast<ExitHead&>(lens) : forced;
    SpecBound speculator(head, setting.drafting, n_layers);
    session.set_speculator(&speculator);
    GenerateOptions speculative = options;
    speculative.measure_plain = setting.measure_plain;
    Counters counters;
    const Reply got = reply(session, prompts[i], speculative, &counters);
    session.set_speculator(nullptr);
    REQUIRE(got.tokens == expected.tokens);
    REQUIRE(got.text == expected.text);
    REQUIRE(got.stop == expected.stop);
    worth.add(counters);
  }
}

// ---- tiny models ----

constexpr int kTinyLayers = 6;

const TinyModel& tiny_model_of(size_t kind) {
  static std::map<size_t, std::unique_ptr<TinyModel>> models;
  auto& model = models[kind];
  if (!model) {
    TinySpec spec;
    spec.architecture = kKinds[kind].architecture;
    spec.n_layers = kTinyLayers;
    spec.dim = 32;
    spec.n_heads = 2;
    spec.n_kv_heads = 1;
    spec.type = kKinds[kind].type;
    if (spec.architecture == "phi3") spec.rope_dim = 12;
    if (spec.architecture == "phi3" || spec.architecture.starts_with("gemma")) spec.window = 20;
    if (spec.architecture == "gemma3") spec.window_step = 3;
    model = std::make_unique<TinyModel>(spec, kKinds[kind].kv);
  }
  return *model;
}

const std::vector<float> kTemperatures = {0, 0.3f, 0.7f, 1.0f, 1.5f};
const std::vector<std::vector<int>> kCheckLayers = {{}, {2, 3, 5}, {1, 4}};
const std::vector<int> kDepths = {2, 4, 10};
// What is slow (two threads where cores are shared, portable kernels) stands in fewer settings.
const std::vector<int> kThreads = {1, 1, 1, 2};
constexpr int kFilterLevels = 5, kWidths = kMaxRows - 1;  // 2..16

std::vector<Isa> isa_levels() {
  std::vector<Isa> levels = {Isa::kPortable};
  for (const Isa isa : supported_isas()) {
    if (isa != Isa::kPortable) levels.insert(levels.end(), 2, isa);
  }
  return levels;
}

std::vector<int> tiny_levels(size_t isas) {
  return {kWidths,
          static_cast<int>(kTemperatures.size()),
          kFilterLevels,
          static_cast<int>(kKinds.size()),
          static_cast<int>(isas),
          static_cast<int>(kCheckLayers.size()),
          static_cast<int>(kDepths.size()),
          3,  // seeds
          2,  // penalty
          static_cast<int>(kThreads.size()),
          2,   // forced, lens
          2,   // plain rounds among them
          2};  // a bias, and penalties of the reply
}

Setting tiny_setting(const std::vector<int>& level, const std::vector<Isa>& isas) {
  Setting s;
  s.drafting.w_max = 2 + level[0];
  s.sampling.temperature = kTemperatures[level[1]];
  set_filters(s.sampling, level[2]);
  s.kind = level[3];
  s.isa = isas[level[4]];
  s.drafting.check_layers = kCheckLayers[level[5]];
  s.drafting.d_max = kDepths[level[6]];
  s.sampling.seed = 1000 + level[7];
  s.sampling.repeat_penalty = level[8] ? 1.3f : 1.0f;
  s.threads = kThreads[level[9]];
  s.lens = level[10];
  s.measure_plain = level[11];
  if (level[12]) {
    s.sampling.frequency_penalty = 0.4f;
    s.sampling.presence_penalty = -0.2f;
    s.sampling.logit_bias = {{2, -100}, {60, 0.75f}};
  }
  if (s.lens) s.drafting.tau = 0.08f;  // of 97 tokens; random weights are never sure
  return s;
}

}  // namespace

TEST_CASE("a covering array holds every pair of levels, whatever the factors") {
  for (const std::vector<int>& levels :
       {std::vector<int>{2, 2}, {5, 3, 2, 7}, {1, 4, 4, 4, 4}, {15, 5, 5, 4, 3, 3, 3, 2, 2}}) {
    std::set<LevelPair> held;
    const CoveringArray array = pairwise_array(levels);
    for (const std::vector<int>& setting : array) {
      for (size_t f = 0; f < levels.size(); ++f) {
        REQUIRE(setting[f] >= 0);
        REQUIRE(setting[f] < levels[f]);
      }
      held.merge(level_pairs(setting));
    }
    CHECK(held == all_level_pairs(levels));
    CHECK(pairwise_array(levels) == array);
    size_t grid = 1;
    for (const int n : levels) grid *= n;
    CHECK(array.size() <= grid);
  }
}

TEST_CASE("tiny models: the same texts with speculation on and off, in a covering array") {
  const std::vector<Isa> isas = isa_levels();
  const std::vector<int> levels = tiny_levels(isas.size());
  const CoveringArray array = pairwise_array(levels);
  REQUIRE(array.size() >= 40);
  std::set<LevelPair> held;
  std::set<int> widths;
  Worth forced, lens;
  std::vector<std::vector<int32_t>> prompts;
  for (int i = 0; i < 10; ++i) prompts.push_back(token_ids(1 + 7 * i, 97, 40 + i));
  const std::vector<std::vector<int32_t>> few = {prompts[0], prompts[3], prompts[8]};
  int whole = 0;  // settings with all prompts
  GenerateOptions options;
  options.max_tokens = 64;
  for (const std::vector<int>& level : array) {
    const Setting setting = tiny_setting(level, isas);
    const TinyModel& model = tiny_model_of(setting.kind);
    const auto plain = model.backend(best_isa(), 1, true, 160);
    const auto other = model.backend(setting.isa, setting.threads, true, 160);
    const bool slow = setting.threads > 1 || (setting.isa == Isa::kPortable && isas.size() > 1);
    check_texts(setting, *plain, *other, slow ? few : prompts, options,
                setting.lens ? lens : forced);
    whole += !slow;
    held.merge(level_pairs(level));
    widths.insert(setting.drafting.w_max);
  }
  REQUIRE(held == all_level_pairs(levels));
  REQUIRE(widths.size() == kWidths);
  MESSAGE("pairs of levels: " << held.size() << "; forced: " << forced.description()
                              << "; lens: " << lens.description());
  CHECK(whole >= 40);
  CHECK(forced.tokens + lens.tokens >= 40 * 10 * 64);
  CHECK(forced.compression() >= 2);
  CHECK(lens.accepted > 0);
  CHECK(lens.accepted < lens.drafted);  // some of its drafts were rejected
}

TEST_CASE("the bundled model: the same texts with speculation on and off, in a smaller array") {
  const Gguf gguf = Gguf::open(SPECBOUND_MODELS "/demo-chat-16l-q8_0.gguf");
  const ModelConfig config = read_config(gguf);
  const Weights weights = map_weights(gguf, config);
  const auto tokenizer = Tokenizer::from_gguf(gguf);
  const auto chat_template = ChatTemplate::from_gguf(gguf);
  std::vector<std::vector<int32_t>> prompts;
  for (const char* text :
       {"I want to book a table for two people tonight.",
        "What is the weather like in San Francisco tomorrow?", "Play some music, please."}) {
    const ChatMessage message = {ChatMessage::Role::kUser, text};
    prompts.push_back(chat_template->encode(*tokenizer, {&message, 1}));
  }
  CpuOptions cpu;
  cpu.n_ctx = 128;
  cpu.n_threads = 1;
  const auto plain = make_cpu_backend(config, weights, cpu);
  const auto other = make_cpu_backend(config, weights, cpu);
  GenerateOptions options;
  options.max_tokens = 48;
  options.is_end = [&](int32_t token) { return tokenizer->is_end(token); };

  const std::vector<int> widths = {2, 5, 8, 16};
  const std::vector<float> temperatures = {0, 0.7f, 1.5f};
  const std::vector<int> levels = {4, 3, kFilterLevels, 2, 2, 2};
  std::set<LevelPair> held;
  Worth forced, lens;
  for (const std::vector<int>& level : pairwise_array(levels)) {
    Setting s;
    s.drafting.w_max = widths[level[0]];
    s.sampling.temperature = temperatures[level[1]];
    set_filters(s.sampling, level[2]);
    s.sampling.repeat_penalty = level[3] ? 1.3f : 1.0f;
    s.drafting.d_max = level[4] ? 10 : 6;
    s.lens = level[5];
    s.sampling.seed = 17;
    if (s.lens) s.drafting.tau = 0.3f;
    check_texts(s, *plain, *other, prompts, options, s.lens ? lens : forced);
    held.merge(level_pairs(level));
  }
  REQUIRE(held == all_level_pairs(levels));
  MESSAGE("forced: " << forced.description() << "; lens: " << lens.description());
  CHECK(forced.compression() >= 2);
  CHECK(lens.accepted > 0);
}

}  // namespace covering_array_test
