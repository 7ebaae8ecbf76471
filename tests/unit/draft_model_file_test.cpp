// A second model from the command line: vocabularies that are another one, flags that do not go
// together, loading beside the target, and the plain text that comes of it.
#include "runtime/draft_model_file.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "cli/speculation_flags.h"
#include "decode/generate.h"
#include "expect_error.h"
#include "library/load_watcher.h"
#include "parse.h"
#include "runtime/speculation.h"
#include "temp_dir.h"
#include "terminal/flag_names.h"
#include "terminal/interrupt.h"
#include "tiny_gguf.h"

namespace draft_model_file_test {

using namespace specbound;
using namespace specbound::test;

namespace {

TinySpec spec(int n_layers) {
  TinySpec spec = q8_0_spec(n_layers);
  spec.dim = spec.ffn_dim = 32;
  spec.n_heads = spec.n_kv_heads = 2;
  spec.vocabulary = true;
  spec.vocab_size = 320;
  return spec;
}

std::string write(const std::string& path, const std::vector<std::byte>& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<long>(bytes.size()));
  return path;
}

LoadedModel& open(std::optional<LoadedModel>& model, const std::string& path, int n_ctx = 128) {
  ModelOptions flags;
  flags.model = path;
  flags.n_ctx = n_ctx;
  flags.n_threads = 1;
  flags.device.where = DeviceOptions::Where::kCpu;
  return model.emplace(flags);
}

SpeculationOptions parse(std::vector<std::string> arguments) {
  SpeculationOptions options;
  Flags flags("test");
  add_speculation_flags(flags, options);
  Parse parsed;
  parse_into(flags, std::move(arguments), parsed);
  REQUIRE(!parsed.status);
  return options;
}

const LoadWatcher kSilent = {[](const std::string&, size_t, size_t) {}, [](const std::string&) {},
                             nullptr};

}  // namespace

TEST_CASE("a draft model with another vocabulary is refused for the first difference") {
  const TempDir folder;
  std::optional<LoadedModel> model;
  const LoadedModel& target = open(model, write(folder / "target.gguf", tiny_model(spec(3))));
  // What is said of a file that differs by what `change` does to its bytes or its making.
  const auto refusal = [&](TinySpec other,
                           const std::function<void(Gguf&, std::vector<std::byte>&)>& change) {
    std::vector<std::byte> bytes = tiny_model(other);
    Gguf gguf = Gguf::parse(bytes, "other");
    if (change) change(gguf, bytes);
    const std::string path = write(folder / "other.gguf", bytes);
    const std::string text =
        expect_error(ErrorCode::kUsage, [&] { DraftModelFile draft(path, target); });
    check_mentions(text, {path, "needs the vocabulary of", target.path()});
    return text;
  };
  const auto overwrite = [](const void* at, std::vector<std::byte>& bytes, auto value) {
    const size_t offset = static_cast<const std::byte*>(at) - bytes.data();
    std::memcpy(&bytes[offset], &value, sizeof value);
  };
  const auto number = [&](const char* key, int at, uint32_t value) {
    return [&overwrite, key, at, value](Gguf& gguf, std::vector<std::byte>& bytes) {
      overwrite(gguf.find(key)->bytes.data() + at * sizeof value, bytes, value);
    };
  };

  TinySpec larger = spec(2);
  larger.vocab_size = 321;
  check_mentions(refusal(larger, nullptr), {"vocab_size: expected 320, found 321"});
  TinySpec cut_otherwise = spec(2);
  cut_otherwise.metadata = [](GgufWriter& writer) {
    writer.add_string("tokenizer.ggml.pre", "llama-bpe");
  };
  check_mentions(refusal(cut_otherwise, nullptr),
                 {"tokenizer.ggml.pre: expected none, found \"llama-bpe\""});
  const auto reword = [&](Gguf& gguf, std::vector<std::byte>& bytes) {
    overwrite(gguf.get_strings("tokenizer.ggml.tokens")->at(261).data(), bytes, 'B');
  };
  check_mentions(refusal(spec(2), reword),
                 {"token 261: expected \"b\" of type 1, found \"B\" of type 1"});
  check_mentions(refusal(spec(2), number("tokenizer.ggml.token_type", 262, 4)),
                 {"token 262: expected \"c\" of type 1, found \"c\" of type 4"});
  check_mentions(refusal(spec(2), number("tokenizer.ggml.bos_token_id", 0, 2)),
                 {"BOS token: expected 1, found 2"});
  check_mentions(refusal(spec(2), number("tokenizer.ggml.eos_token_id", 0, 1)),
                 {"EOS token: expected 2, found 1"});
  TinySpec ends_sooner = spec(2);
  ends_sooner.metadata = [](GgufWriter& writer) {
    writer.add_uint("tokenizer.ggml.eot_token_id", 1);
  };
  check_mentions(refusal(ends_sooner, nullptr),
                 {"token 1: expected one that does not end a reply, found one that ends a reply"});
}

TEST_CASE("flags of a draft model, and those that do not go together") {
  const SpeculationOptions flags =
      parse({"--speculator", "draft", "-md", "a.gguf", "--accept", "rejection"});
  CHECK(flags.draft_model == "a.gguf");
  CHECK(flags.acceptance == Acceptance::kRejection);
  flags.check();
  CHECK(parse({"-md=b.gguf"}).draft_model == "b.gguf");
  CHECK(parse({"--model-draft", "-md"}).draft_model == "-md");
  const auto refusal = [](std::vector<std::string> arguments) {
    return expect_error(ErrorCode::kUsage, [&] { parse(std::move(arguments)).check(); });
  };
  check_mentions(refusal({"--speculator", "draft"}), {"needs --model-draft (-md) FILE"});
  check_mentions(refusal({"-md", "a.gguf", "--speculator", "ngram"}),
                 {"needs --speculator auto or draft, found ngram"});
  parse({"-md", "a.gguf"}).check();
  check_mentions(refusal({"--accept", "rejection", "--speculator", "ngram"}),
                 {"--accept rejection: needs --speculator draft, found ngram"});
  check_mentions(refusal({"--speculator", "draft", "-md", "a.gguf", "--siblings", "2"}),
                 {"--siblings 2: needs --accept rejection"});
  check_mentions(refusal({"--accept", "rejection", "--siblings", "2"}),
                 {"needs --speculator draft"});
}

TEST_CASE("flags of rules of acceptance: each drafter has those that are its own") {
  const SpeculationOptions typical =
      parse({"--speculator", "medusa", "--accept", "typical", "--fixed-tree"});
  typical.check();
  for (const char* name : {"medusa", "hydra", "eagle", "draft", "auto"}) {
    CAPTURE(name);
    const SpeculationOptions other = typical.with_speculator(name);
    const bool keeps = std::string(name) == "medusa" || std::string(name) == "hydra";
    CHECK((other.acceptance == Acceptance::kTypical) == keeps);
    CHECK(other.fixed_tree == keeps);
  }
  const SpeculationOptions rejection =
      parse({"--speculator", "draft", "-md", "a.gguf", "--accept", "rejection"});
  CHECK(rejection.with_speculator("hydra").acceptance == Acceptance::kCoupled);
  CHECK(rejection.with_speculator("draft").acceptance == Acceptance::kRejection);
  const auto refusal = [](std::vector<std::string> arguments) {
    return expect_error(ErrorCode::kUsage, [&] { parse(std::move(arguments)).check(); });
  };
  check_mentions(refusal({"--speculator", "draft", "-md", "a.gguf", "--accept", "typical"}),
                 {"--accept typical: needs --speculator medusa or hydra, found draft"});
  check_mentions(refusal({"--speculator", "medusa", "--accept", "rejection"}),
                 {"--accept rejection: needs --speculator draft, found medusa"});
  check_mentions(refusal({"--fixed-tree"}),
                 {"--fixed-tree: needs --speculator medusa or hydra, found auto"});
}

TEST_CASE("a draft model is loaded beside the target when it is first to draft") {
  const TempDir folder;
  TinySpec small = spec(2);
  small.max_seq_len = 64;
  const std::string drafter = write(folder / "draft.gguf", tiny_model(small));
  std::optional<LoadedModel> model;
  LoadedModel& target = open(model, write(folder / "target.gguf", tiny_model(spec(3))));
  const auto make = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--speculator", "draft", "-md", drafter});
    return std::make_unique<Speculation>(parse(std::move(more)), target);
  };

  const auto off = make({"--spec", "off"});
  std::vector<std::string> notes;
  std::set<std::string> labels;
  std::atomic<bool> abort = false;
  LoadWatcher watcher;
  watcher.progress = [&](const std::string& label, size_t, size_t) { labels.insert(label); };
  watcher.note = [&](const std::string& line) { notes.push_back(line); };
  watcher.abort = &abort;
  target.load(nullptr, kSilent);
  off->attach(target.backend(), watcher);
  CHECK(notes.empty());
  CHECK(off->speculator() == nullptr);
  abort = true;
  CHECK_THROWS_AS(off->set_active(true), Interrupted);
  CHECK(!off->active());
  abort = false;
  CHECK(off->set_active(true));
  CHECK(labels == std::set<std::string>{"draft model: repacking weights"});
  REQUIRE(notes.size() == 2);
  check_mentions(notes[0], {"draft model: " + drafter, "2 layers, context 64 of 64"});
  check_mentions(notes[1], {"draft backend: CPU"});
  CHECK(off->set_active(false));
  CHECK(off->set_active(true));
  CHECK(notes.size() == 2);  // once
  CHECK(off->drafter() == "the draft model " + drafter);
  CHECK(off->description() ==
        "speculation on: draft, by " + drafter + " (2 layers), up to 8 rows, tau 0.4");
  expect_error(ErrorCode::kUsage, [&] { off->change({}); });
  expect_error(ErrorCode::kUsage, [&] { off->choose(Preset::kPaper); });

  const auto never = make({"--w-max", "1"});
  CHECK(!never->active());
  check_mentions(with_flags(never->description()), {"--w-max 1 leaves no row to draft"});
  const auto other =
      make({"--accept", "rejection", "--siblings", "2", "--w-max", "3", "--tau", "0.1"});
  CHECK(other->speculator() == nullptr);  // not before there is a backend
  other->attach(target.backend(), watcher);
  REQUIRE(other->draft_model() != nullptr);
  CHECK(other->draft_model()->acceptance() == Acceptance::kRejection);
  CHECK(other->draft_model()->n_siblings() == 2);
  CHECK(other->draft_model()->width() == 3);
  CHECK(other->draft_model()->tau() == 0.1f);
  check_mentions(other->description(),
                 {"up to 2 drafts a place",
                  "by rejection: the probabilities of plain decoding, another text"});
  CHECK(!other->controls());

  // 90 tokens, of which the drafter's context holds 64.
  const auto reply = [&](Speculator* speculator, Counters* counters) {
    SamplingParams params;
    params.seed = 5;
    Session session(target.backend(), Sampler(params));
    session.set_speculator(speculator);
    GenerateOptions options;
    options.max_tokens = 80;
    const std::vector<int32_t> prompt = {1, 270, 263, 280, 290, 263, 270, 299, 300, 261};
    const GenerateStats stats = session.generate(prompt, options);
    if (counters) counters->add(stats.counters);
    return std::vector<int32_t>(session.tokens().begin(), session.tokens().end());
  };
  const auto on = make({"--preset", "paper", "--tau", "0"});
  on->attach(target.backend(), watcher);
  Counters counters;
  CHECK(reply(on->speculator(), &counters) == reply(nullptr, nullptr));
  CHECK(counters.drafted_tokens > 0);
}

}  // namespace draft_model_file_test
