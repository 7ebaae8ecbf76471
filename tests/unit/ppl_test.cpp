// Perplexity: the formula against values by hand, what is scored of a text, prefill's logits
// against decode's by memcmp, the golden logits of transformers, and files that hold nothing.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "engine_rig.h"
#include "expect_error.h"
#include "forwarding_backend.h"
#include "numerics/log_probability.h"
#include "temp_dir.h"
#include "tools/perplexity.h"
#include "tools/ppl_texts.h"

namespace ppl_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

bool go_on(int) {
  return true;
}

// Logits of every position but the last: row p is behind ids[0..p].
std::vector<float> decoded_logits(Backend& backend, const std::vector<int32_t>& ids) {
  const int n = static_cast<int>(ids.size()) - 1, vocab_size = backend.config().vocab_size;
  std::vector<float> logits(static_cast<size_t>(n) * vocab_size);
  backend.truncate(0);
  for (int pos = 0; pos < n; ++pos) {
    backend.embed(0, ids[pos]);
    backend.run_layers(0, 1, pos, 1, backend.config().n_layers);
    backend.logits(0, 1, &logits[static_cast<size_t>(pos) * vocab_size]);
  }
  return logits;
}

// The same by prefill, `chunk` rows at a time, the logits of `group` rows at a time.
std::vector<float> prefilled_logits(Backend& backend, const std::vector<int32_t>& ids, int chunk,
                                    int group) {
  const int n = static_cast<int>(ids.size()) - 1, vocab_size = backend.config().vocab_size;
  std::vector<float> logits(static_cast<size_t>(n) * vocab_size);
  backend.truncate(0);
  for (int pos = 0; pos < n; pos += chunk) {
    const int rows = std::min(chunk, n - pos);
    backend.prefill_rows(std::span(ids).subspan(pos, rows));
    for (int r = 0; r < rows; r += group) {
      backend.prefill_logits(r, std::min(group, rows - r),
                             &logits[static_cast<size_t>(pos + r) * vocab_size]);
    }
  }
  return logits;
}

std::vector<TinySpec> specs() {
  std::vector<TinySpec> all(5);
  all[0] = q8_0_spec();
  all[1].ffn_dim = 172;            // F32, no multiple of 32
  all[2].architecture = "gemma2";  // soft caps, post norms
  all[2].type = DType::kQ8_0;
  all[2].dim = 32;
  all[2].tied = true;
  all[2].window = 9;
  all[2].attn_softcap = 0.5f;
  all[2].final_softcap = 0.3f;
  all[3].architecture = "phi3";
  all[3].type = DType::kF16;
  all[3].dim = 40;
  all[3].head_dim = 24;
  all[3].rope_dim = 14;
  all[3].long_rope = true;
  all[4] = q8_0_spec(1);
  all[4].types["ffn_down.weight"] = DType::kBF16;
  for (TinySpec& spec : all) spec.max_seq_len = kPrefillChunk + 64;
  return all;
}

struct Demo {
  Gguf gguf = Gguf::open(SPECBOUND_MODELS "/demo-chat-16l-q8_0.gguf");
  std::unique_ptr<Tokenizer> tokenizer = Tokenizer::from_gguf(gguf);
  std::unique_ptr<ChatTemplate> chat_template = ChatTemplate::from_gguf(gguf);

  PplTexts texts(const PplFile& file, const PplTextOptions& options = {}) const {
    return make_ppl_texts(
        file, *tokenizer, [this]() -> const ChatTemplate& { return *chat_template; }, options);
  }
};

const Demo& demo() {
  static const Demo demo;
  return demo;
}

PplFile plain(const std::string& bytes) {
  return {"some.txt", bytes, false};
}

PplFile lines(const std::string& bytes) {
  return {"some.jsonl", bytes, true};
}

std::string refused(ErrorCode code, const PplFile& file, const PplTextOptions& options = {}) {
  return expect_error(code, [&] { demo().texts(file, options); });
}

const std::string kWords = "Once upon a time there was a fox who wanted to see the sea and went. ";

}  // namespace

TEST_CASE("log probability: by hand, shifted, and what is no number") {
  // e^0, e^1, e^2 over their sum.
  const double total = 1 + std::exp(1.0) + std::exp(2.0);
  const std::vector<float> z = {0, 1, 2};
  for (int i = 0; i < 3; ++i) {
    CHECK(log_probability(z, i) == doctest::Approx(i - std::log(total)).epsilon(1e-15));
  }
  CHECK(log_probability(std::vector<float>(16, 3.5f), 7) ==
        doctest::Approx(-std::log(16.0)).epsilon(1e-15));
  CHECK(log_probability(std::vector<float>{-4.25f}, 0) == 0);

  // Lanes and what is left of them; the same bits wherever the logits lie.
  TinyRandom random(5);
  std::vector<float> many(8 * 5 + 3), raised;
  for (float& v : many) v = std::round(64 * random.normal()) / 32;
  for (const float v : many) raised.push_back(v + 512);
  long double sum = 0;
  for (const float v : many) sum += std::exp(static_cast<long double>(v));
  for (const int token : {0, 7, 39, 40, 42}) {
    const double expected = static_cast<double>(many[token] - std::log(sum));
    CHECK(log_probability(many, token) == doctest::Approx(expected).epsilon(1e-14));
    CHECK(log_probability(raised, token) == log_probability(many, token));
  }

  CHECK(log_probability(std::vector<float>{0, -kInfinity, 0}, 0) ==
        doctest::Approx(-std::log(2.0)).epsilon(1e-15));
  CHECK(log_probability(std::vector<float>{0, -kInfinity}, 1) == -HUGE_VAL);
  CHECK(log_probability(std::vector<float>{0, -2000}, 1) == -2000);
  for (const float bad : {kNan, kInfinity}) {
    for (const size_t at : {size_t{0}, size_t{20}, many.size() - 1}) {
      std::vector<float> broken = many;
      broken[at] = bad;
      CHECK(std::isnan(log_probability(broken, 3)));
      CHECK(std::isnan(log_probability(broken, static_cast<int32_t>(at))));
    }
  }
  CHECK(std::isnan(log_probability(std::vector<float>(9, -kInfinity), 2)));
}

TEST_CASE("perplexity: mean and standard error by hand") {
  NllSum nll;
  nll.add(1);
  CHECK(nll.perplexity() == doctest::Approx(std::exp(1.0)));
  CHECK(!nll.mean_error());
  CHECK(!nll.perplexity_error());
  nll.add(2);
  nll.add(6);
  // Mean 3, mean of squares 41 / 3: variance 14 / 3, over n - 1 = 2.
  CHECK(nll.count() == 3);
  CHECK(nll.mean() == doctest::Approx(3));
  CHECK(*nll.mean_error() == doctest::Approx(std::sqrt(14.0 / 6)));
  CHECK(*nll.perplexity_error() == doctest::Approx(std::sqrt(14.0 / 6) * std::exp(3.0)));
  NllSum equal;
  for (int i = 0; i < 10; ++i) equal.add(0.1);
  CHECK(*equal.mean_error() < 1e-8);  // rounding makes no NaN of it
}

TEST_CASE("windows: end to end as llama-perplexity cuts them, or a stride apart") {
  const auto windows = cut_windows(1535, 512, 0, 0);
  REQUIRE(windows.size() == 2);  // the rest is no whole window
  CHECK(windows[1].begin == 512);
  CHECK(windows[1].length == 512);
  CHECK(windows[1].first == 257);
  CHECK(windows[1].scored() == 255);  // n_ctx - n_ctx / 2 - 1
  CHECK(cut_windows(1536, 512, 0, 0).size() == 3);
  CHECK(cut_windows(1536, 512, 0, 2).size() == 2);
  CHECK(cut_windows(511, 512, 0, 0).empty());
  CHECK(cut_windows(0, 512, 0, 0).empty());
  CHECK(cut_windows(7, 7, 0, 0).at(0).scored() == 3);
  CHECK(cut_windows(3, 3, 0, 0).at(0).scored() == 1);

  // Strided windows score runs that lie end to end.
  for (const int n : {9, 20, 21, 22, 23}) {
    CAPTURE(n);
    const auto strided = cut_windows(n, 8, 3, 0);
    REQUIRE(strided.size() == static_cast<size_t>((n - 8 + 2) / 3));
    for (size_t i = 0; i < strided.size(); ++i) {
      CHECK(strided[i].scored() == 3);
      CHECK(strided[i].begin + strided[i].first == 5 + 3 * static_cast<int64_t>(i));
      CHECK(strided[i].begin + strided[i].length <= n);
    }
  }
  CHECK(cut_windows(8, 8, 3, 0).empty());  // llama-perplexity wants more than a window
  CHECK(cut_windows(100, 8, 7, 4).size() == 4);
  CHECK(cut_windows(100, 8, 7, 4)[0].first == 1);
}

TEST_CASE("prefill's logits are decode's, bit for bit, on the CPU") {
  for (const TinySpec& spec : specs()) {
    CAPTURE(spec.architecture);
    CAPTURE(static_cast<int>(spec.type));
    const TinyModel model(spec);
    const std::vector<int32_t> ids = token_ids(76, model.config.vocab_size);
    for (const Isa isa : supported_isas()) {
      CAPTURE(isa_name(isa));
      const auto backend = model.backend(isa, 2);
      const std::vector<float> expected = decoded_logits(*backend, ids);
      for (const auto& cut : {std::pair(kPrefillChunk, kMaxRows), {33, 7}, {1, 1}}) {
        CAPTURE(cut.first);
        const std::vector<float> found = prefilled_logits(*backend, ids, cut.first, cut.second);
        REQUIRE(same_bits(found.data(), expected.data(), expected.size()));
        REQUIRE(backend->kv_len(model.config.n_layers) == 75);
      }
    }
  }
}

TEST_CASE("prefill with logits leaves prefill's keys and values, and the rows under way alone") {
  const TinyModel model(q8_0_spec());
  const std::vector<int32_t> ids = token_ids(30, model.config.vocab_size);
  const auto plain = model.backend(best_isa(), 2), scored = model.backend(best_isa(), 2);
  plain->prefill(ids);
  scored->embed(0, 5);
  const std::vector<float> h(scored->inspect().hidden(0).begin(),
                             scored->inspect().hidden(0).end());
  scored->prefill_rows(ids);
  std::vector<float> logits(static_cast<size_t>(kMaxRows) * model.config.vocab_size);
  scored->prefill_logits(14, kMaxRows, logits.data());
  CHECK(same_bits(scored->inspect().hidden(0).data(), h.data(), h.size()));
  Record a(model.config, 30), b(model.config, 30);
  for (int pos = 0; pos < 30; ++pos) {
    a.read_kv(*plain, pos);
    b.read_kv(*scored, pos);
  }
  CHECK(Record::difference(a, b, 0, 30) == "");
}

TEST_CASE("scores: both paths the same bits across chunks, any part of a text, passes counted") {
  TinySpec spec = q8_0_spec();
  spec.max_seq_len = kPrefillChunk + 64;
  const TinyModel model(spec);
  const auto backend = model.backend(best_isa(), 2);
  const std::vector<int32_t> ids = token_ids(kPrefillChunk + 40, model.config.vocab_size);
  const int n = static_cast<int>(ids.size());
  TextScorer scorer(*backend);
  const auto all = scorer.score(ids, 1, Through::kDecode, go_on);
  REQUIRE(all);
  REQUIRE(all->size() == ids.size() - 1);
  const std::vector<float> logits = decoded_logits(*backend, ids);
  for (int i = 1; i < n; ++i) {
    const std::span<const float> z(&logits[static_cast<size_t>(i - 1) * spec.vocab_size],
                                   spec.vocab_size);
    REQUIRE((*all)[i - 1] == -log_probability(z, ids[i]));
  }
  for (const Through through : {Through::kDecode, Through::kPrefill}) {
    CAPTURE(through_name(through));
    for (const int first : {1, 2, 16, 17, kPrefillChunk, kPrefillChunk + 1, n - 1}) {
      CAPTURE(first);
      std::vector<int> passes;
      const auto part = scorer.score(ids, first, through, [&](int rows) {
        passes.push_back(rows);
        return true;
      });
      REQUIRE(part);
      REQUIRE(part->size() == ids.size() - first);
      CHECK(same_bits(part->data(), all->data() + first - 1, part->size()));
      const int most = through == Through::kDecode ? kMaxRows : kPrefillChunk;
      CHECK(std::accumulate(passes.begin(), passes.end(), 0) == n - 1);
      CHECK(passes.front() == most);
      CHECK(passes.size() == static_cast<size_t>((n - 1 + most - 1) / most));
    }
    int calls = 0;
    CHECK(!scorer.score(ids, 1, through, [&](int) { return ++calls < 2; }));
    CHECK(calls == 2);
    // A text of two tokens, the shortest.
    CHECK(scorer.score(std::span(ids).first(2), 1, through, go_on)->at(0) == all->at(0));
  }
}

TEST_CASE("scores: logits that are no numbers come out as such") {
  class Broken final : public ForwardingBackend {
   public:
    using ForwardingBackend::ForwardingBackend;
    void logits(int slot, int n, float* out) override {
      ForwardingBackend::logits(slot, n, out);
      if (n > 3) out[3 * config().vocab_size + 1] = kNan;
    }
  };
  const TinyModel model(q8_0_spec());
  Broken backend(model.backend(best_isa(), 1));
  TextScorer scorer(backend);
  const auto nll = scorer.score(token_ids(9, 97), 1, Through::kDecode, go_on);
  REQUIRE(nll);
  for (int i = 0; i < 8; ++i) CHECK(std::isfinite((*nll)[i]) == (i != 3));
}

// llama_gqa.hf.f32: logits by Hugging Face transformers (tests/golden/make_golden.py).
TEST_CASE("scores: the perplexity that transformers' logits give") {
  std::ifstream manifest(SPECBOUND_GOLDEN "/golden.json");
  REQUIRE(manifest);
  const nlohmann::json cases = nlohmann::json::parse(manifest).at("cases");
  int found = 0;
  for (const nlohmann::json& entry : cases) {
    const std::string name = entry.at("name");
    if (name != "llama_gqa" && name != "qwen3" && name != "gemma2") continue;
    CAPTURE(name);
    ++found;
    const std::vector<int32_t> ids = entry.at("ids");
    const int vocab_size = entry.at("vocab_size");
    std::vector<float> logits(ids.size() * vocab_size);
    std::ifstream file(SPECBOUND_GOLDEN "/" + name + ".hf.f32", std::ios::binary);
    REQUIRE(file.read(reinterpret_cast<char*>(logits.data()),
                      static_cast<std::streamsize>(logits.size() * sizeof(float))));
    double expected = 0;
    for (size_t i = 1; i < ids.size(); ++i) {
      const float* z = &logits[(i - 1) * vocab_size];
      double sum = 0;
      for (int t = 0; t < vocab_size; ++t) sum += std::exp(static_cast<double>(z[t]));
      expected += std::log(sum) - z[ids[i]];
    }
    expected = std::exp(expected / static_cast<double>(ids.size() - 1));

    const Gguf gguf = Gguf::open(SPECBOUND_GOLDEN "/" + name + ".gguf");
    const ModelConfig config = read_config(gguf);
    const Weights weights = map_weights(gguf, config);
    const auto backend = make_cpu_backend(config, weights, {});
    TextScorer scorer(*backend);
    for (const Through through : {Through::kDecode, Through::kPrefill}) {
      const auto scores = scorer.score(ids, 1, through, go_on);
      REQUIRE(scores);
      NllSum nll;
      for (const double x : *scores) nll.add(x);
      CHECK(nll.perplexity() == doctest::Approx(expected).epsilon(1e-5));
    }
  }
  CHECK(found == 3);
}

TEST_CASE("texts: windows of plain text begin with BOS in place of their first token") {
  const Demo& d = demo();
  std::string text;
  for (int i = 0; i < 8; ++i) text += kWords;
  std::vector<int32_t> ids = d.tokenizer->encode(text);  // BOS in front
  REQUIRE(ids.front() == d.tokenizer->bos());
  PplTextOptions options;
  options.window = 32;
  const PplTexts texts = d.texts(plain(text), options);
  CHECK(texts.windows);
  REQUIRE(texts.runs.size() == ids.size() / 32);
  REQUIRE(texts.runs.size() > 2);
  CHECK(texts.scored() == 15 * std::ssize(texts.runs));
  CHECK(texts.rows() == 31 * std::ssize(texts.runs));
  for (size_t w = 0; w < texts.runs.size(); ++w) {
    std::vector<int32_t> expected(ids.begin() + 32 * w, ids.begin() + 32 * (w + 1));
    CHECK((w == 0 || expected[0] != d.tokenizer->bos()));
    expected[0] = d.tokenizer->bos();
    CHECK(texts.text(texts.runs[w]) == expected);
  }
  options.most = 2;
  CHECK(d.texts(plain(text), options).runs.size() == 2);
  options.stride = 31;
  CHECK(d.texts(plain(text), options).runs.at(1).begin == 31);

  options = {};
  options.whole = true;
  options.n_ctx = 40;
  const PplTexts whole = d.texts(plain(text), options);
  CHECK(!whole.windows);
  CHECK(whole.cut == 1);
  REQUIRE(whole.runs.size() == 1);
  ids.resize(40);
  CHECK(whole.text(whole.runs[0]) == ids);
  CHECK(whole.scored() == 39);
}

TEST_CASE("texts: JSON lines are texts of their own, dialogues as the template has them") {
  const Demo& d = demo();
  const PplFile file =
      lines(R"([{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"},)"
            R"({"role":"user","content":"unanswered"}])"
            "\r\n\n  \n"
            R"({"text":"A fox went to the sea."})"
            "\nno JSON\n"
            R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]})"
            "\n\xff\xfe{}\n[1]");
  const PplTexts texts = d.texts(file);
  CHECK(!texts.windows);
  CHECK(!texts.bos);
  CHECK(texts.lines == 6);
  CHECK(texts.skipped == 3);
  CHECK(texts.first_skipped.starts_with("line 5: no JSON"));
  REQUIRE(texts.runs.size() == 3);
  using Role = ChatMessage::Role;
  const std::vector<ChatMessage> first = {{Role::kUser, "Hi"}, {Role::kAssistant, "Hello"}};
  CHECK(texts.text(texts.runs[0]) == d.chat_template->encode(*d.tokenizer, first));
  CHECK(texts.text(texts.runs[1]) == d.tokenizer->encode("A fox went to the sea."));
  for (const ScoredRun& run : texts.runs) CHECK(run.first == 1);

  PplTextOptions options;
  options.most = 1;
  CHECK(d.texts(file, options).runs.size() == 1);
  options = {};
  options.n_ctx = 4;
  const PplTexts cut = d.texts(file, options);
  CHECK(cut.cut == 3);
  CHECK(cut.scored() == 9);
}

TEST_CASE("texts: what holds nothing to score is refused in one line") {
  for (const PplFile& file : {plain(""), lines(""), lines("\n \r\n")}) {
    check_mentions(refused(ErrorCode::kFormat, file), {"at least two tokens, found none"});
  }
  PplTextOptions whole;
  whole.whole = true;
  check_mentions(refused(ErrorCode::kFormat, plain(""), whole), {"some.txt", "two tokens"});
  check_mentions(refused(ErrorCode::kLimit, plain("fox")),
                 {"at least 512 tokens", "-c", "--whole"});
  check_mentions(refused(ErrorCode::kFormat, lines("[[[[\nx")), {"none among 2", "line 1", ".txt"});
  PplTextOptions stride;
  stride.stride = 4;
  check_mentions(refused(ErrorCode::kUsage, lines(R"({"text":"a b c"})"), stride), {"--stride"});
  stride.whole = true;
  check_mentions(refused(ErrorCode::kUsage, plain("a b c"), stride), {"--stride", "--whole"});
  stride = {.window = 8, .n_ctx = 8, .stride = 4};
  std::string text = "a";
  while (demo().tokenizer->encode(text).size() < 8) text += " a";
  check_mentions(refused(ErrorCode::kLimit, plain(text), stride), {"at least 9 tokens", "found 8"});
  CHECK(demo().texts(plain(text), {.window = 8, .n_ctx = 8}).runs.size() == 1);

  // Broken UTF-8 and NUL are text like any other.
  const PplTexts odd = demo().texts(plain(std::string("\xff\xc3(\0\x80", 5)), whole);
  CHECK(odd.scored() >= 5);
}

TEST_CASE("texts: files by name and contents, and those that cannot be read") {
  const TempDir dir;
  const auto put = [&dir](const char* name, const std::string& bytes) {
    std::ofstream(dir / name, std::ios::binary) << bytes;
    return read_ppl_file(dir / name);
  };
  CHECK(put("a.jsonl", "plain").json_lines);
  CHECK(!put("a.txt", "{}").json_lines);
  CHECK(put("a.raw", " \n {\"text\": \"x\"}").json_lines);
  CHECK(!put("b.raw", " = Title = ").json_lines);
  CHECK(!put("c.raw", "").json_lines);
  CHECK(put("c.raw", std::string("a\0b", 3)).bytes.size() == 3);
  check_mentions(expect_error(ErrorCode::kFile, [&] { read_ppl_file(dir / "none"); }),
                 {"cannot open"});
  expect_error(ErrorCode::kFile, [&] { read_ppl_file(dir.path()); });
  check_mentions(expect_error(ErrorCode::kFormat, [&] { put("a.xz", "no archive"); }),
                 {"expected an .xz archive"});
}

}  // namespace ppl_test
