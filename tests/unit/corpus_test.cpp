// Training text: files that are right, files that are hostile, what of a dialogue is learnt, the
// shortlist, and what the model writes itself.
#include "corpus/corpus.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <lzma.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <utility>

#include "corpus/self_generate.h"
#include "engine_rig.h"
#include "error.h"
#include "expect_error.h"
#include "read_file.h"
#include "runtime/saved_conversation.h"
#include "temp_dir.h"

namespace corpus_test {

using namespace specbound;

namespace {

using test::check_mentions;
using test::expect_error;
using test::read_file;
using test::TempDir;

constexpr const char* kGood =
    R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]})";

std::string put(const TempDir& dir, const std::string& name, const std::string& bytes) {
  const std::string path = (dir / name);
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

Corpus read(const std::string& path) {
  return read_corpus(std::vector<std::string>{path});
}

std::string packed(const std::string& bytes) {
  std::string out(bytes.size() + 4096, '\0');
  size_t n = 0;
  REQUIRE(lzma_easy_buffer_encode(
              1, LZMA_CHECK_CRC32, nullptr, reinterpret_cast<const uint8_t*>(bytes.data()),
              bytes.size(), reinterpret_cast<uint8_t*>(out.data()), &n, out.size()) == LZMA_OK);
  out.resize(n);
  return out;
}

std::string reason(const std::string& line) {
  CorpusText text;
  return parse_corpus_line(line, text);
}

const Gguf& demo() {
  static const Gguf gguf = Gguf::open(SPECBOUND_MODELS "/demo-chat-16l-q8_0.gguf");
  return gguf;
}

// The learnt tokens of a text, spelled out.
std::string learnt_text(const Tokenizer& tokenizer, const TrainingText& text) {
  std::string out;
  for (size_t i = 0; i < text.tokens.size(); ++i) {
    if (text.learn[i]) out += tokenizer.piece(text.tokens.at(i + 1), true);
  }
  return out;
}

// A model that can write a little.
test::TinySpec writing_spec() {
  test::TinySpec spec;
  spec.vocabulary = true;
  spec.vocab_size = 320;
  spec.max_seq_len = 64;
  return spec;
}

}  // namespace

TEST_CASE("corpus: the three forms of a line, blank lines, a line without an end") {
  const TempDir dir;
  const Corpus corpus =
      read(put(dir, "a.jsonl",
               std::string(kGood) + "\r\n\n  \n" +
                   R"([{"role":"system","content":"S"},{"content":"Q","role":"user","id":7},)"
                   R"({"role":"assistant","content":""},{"role":"user","content":"cut"}])"
                   "\n"
                   R"({"text": "plain\u0000text"})"));
  REQUIRE(corpus.texts.size() == 3);
  CHECK(corpus.dialogues == 2);
  CHECK(corpus.lines == 3);
  CHECK(corpus.skipped == 0);
  CHECK(corpus.texts[0].messages.size() == 2);
  REQUIRE(corpus.texts[1].messages.size() == 3);  // nothing behind the last reply
  CHECK(corpus.texts[1].messages[0].role == ChatMessage::Role::kSystem);
  CHECK(corpus.texts[2].text == std::string("plain\0text", 10));
}

TEST_CASE("corpus: what a chat saves is a line to learn from") {
  const TempDir dir;
  using Role = ChatMessage::Role;
  SavedConversation saved;
  saved.title = "Talk";
  saved.system = "Be brief.";
  saved.messages = {{Role::kUser, "Hi\nthere"},
                    {Role::kAssistant, "Yo", "2 tokens"},
                    {Role::kUser, "unanswered"}};
  const std::string one = saved_conversation_json(saved);
  saved.system.clear();
  const Corpus corpus =
      read(put(dir, "talks.json", one + "{\"messages\": []}\n" + saved_conversation_json(saved)));
  REQUIRE(corpus.texts.size() == 2);
  CHECK(corpus.dialogues == 2);
  CHECK(corpus.skipped == 1);
  const std::vector<ChatMessage>& messages = corpus.texts[0].messages;
  REQUIRE(messages.size() == 3);
  CHECK(messages[0].role == Role::kSystem);
  CHECK(messages[0].content == "Be brief.");
  CHECK(messages[1].content == "Hi\nthere");
  CHECK(messages[2].role == Role::kAssistant);
  CHECK(messages[2].content == "Yo");
  CHECK(corpus.texts[1].messages.size() == 2);
}

TEST_CASE("corpus: hostile lines are skipped, counted, and the first is named") {
  const TempDir dir;
  const std::string deep(100000, '[');
  std::string bytes = std::string(kGood) + "\n{\"messages\": 7}\n" + deep + "\n\xff\xfe\n" +
                      std::string("\0\0\n", 3) + "{\"text\": \"\xe2\x82\"}\n" +
                      std::string(kMaxLineBytes + 1, 'x') + "\n" + kGood + "\n" +
                      std::string(2 * kMaxLineBytes, '[');
  const Corpus corpus = read(put(dir, "hostile.jsonl", bytes));
  CHECK(corpus.dialogues == 2);
  CHECK(corpus.lines == 9);
  CHECK(corpus.skipped == 7);
  CHECK(corpus.first_skipped ==
        (dir / "hostile.jsonl") + ":2: \"messages\" is number, expected a list");
}

TEST_CASE("corpus: a line of objects side by side takes no longer than its bytes") {
  std::string line = "[{}";
  for (int i = 0; i < 200'000; ++i) line += ",{}";
  const auto begin = std::chrono::steady_clock::now();
  CHECK(reason(line + "]") == "message 1: no \"role\" that is a string");
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
}

TEST_CASE("corpus: each wrong line has its reason") {
  CHECK(reason(kGood).empty());
  CHECK(reason(std::string(40, '[') + std::string(40, ']')) == "brackets more than 32 deep");
  CHECK(reason("{\"text\": 1e99999}").find("no JSON") == 0);
  CHECK(reason("{\"text\": \"a\"} x").find("no JSON from byte") == 0);
  CHECK(reason("{\"text\": \"\xc3\"}").find("no JSON from byte") == 0);
  CHECK(reason(R"({"text": "", "text": "a"})").empty());  // the last one counts
  CHECK(reason("12") == "found number without messages or text");
  CHECK(reason("{}") == "found an object without messages or text");
  CHECK(reason("{\"text\": null}") == "found an object without messages or text");
  CHECK(reason("{\"text\": \" \"}") == "an empty text");
  CHECK(reason("[]") == "no message of an assistant");
  CHECK(reason(R"([{"role":"user","content":"x"}])") == "no message of an assistant");
  CHECK(reason("[1]") == "message 1: expected an object, found number");
  CHECK(reason(R"([{"content":"x"}])") == "message 1: no \"role\" that is a string");
  CHECK(reason(R"([{"role":"user","content":["x"]}])") ==
        "message 1: no \"content\" that is a string");
  CHECK(reason(R"([{"role":"user","content":"x"},{"role":"to\u001bol","content":"x"}])") ==
        "message 2: role \"to\\x1bol\", expected system, user or assistant");
}

TEST_CASE("corpus: files that hold nothing are refused") {
  const TempDir dir;
  check_mentions(expect_error(ErrorCode::kFormat, [&] { read(put(dir, "empty.jsonl", "")); }),
                 {"empty.jsonl", "found nothing"});
  check_mentions(expect_error(ErrorCode::kFormat, [&] { read(put(dir, "blank.txt", " \n\n")); }),
                 {"blank.txt", "found nothing"});
  check_mentions(expect_error(ErrorCode::kFormat, [&] { read(put(dir, "bad.jsonl", "x\ny\n")); }),
                 {"among 2", "bad.jsonl:1: no JSON from byte 1"});
  check_mentions(expect_error(ErrorCode::kFile, [&] { read((dir / "absent.jsonl")); }),
                 {"absent.jsonl", "No such file"});
  check_mentions(expect_error(ErrorCode::kFile, [&] { read(dir.path().string()); }),
                 {"Is a directory"});
}

TEST_CASE("corpus: archives, whole, several in a row, truncated, damaged, none") {
  const TempDir dir;
  const std::string lines = std::string(kGood) + "\n" + kGood + "\n";
  const std::string archive = packed(lines);
  CHECK(read(put(dir, "a.jsonl.xz", archive)).dialogues == 2);
  CHECK(read(put(dir, "b.jsonl.xz", archive + archive)).dialogues == 4);
  CHECK(read(put(dir, "unnamed", archive)).dialogues == 2);
  CHECK(read(put(dir, "a.jsonl", lines)).hash == read((dir / "a.jsonl.xz")).hash);
  for (size_t n = 0; n < archive.size(); ++n) {
    const std::string path = put(dir, "cut.jsonl.xz", archive.substr(0, n));
    check_mentions(expect_error(ErrorCode::kFormat, [&] { read(path); }),
                   {"cut.jsonl.xz", n < 6 ? "expected an .xz archive" : "expected a whole .xz"});
  }
  size_t refused = 0;
  for (size_t at = 6; at < archive.size(); ++at) {
    std::string damaged = archive;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    const std::string path = put(dir, "damaged.jsonl.xz", damaged);
    try {
      read(path);
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(refused == archive.size() - 6);
  check_mentions(expect_error(ErrorCode::kFormat, [&] { read(put(dir, "text.jsonl.xz", lines)); }),
                 {"text.jsonl.xz", "without its signature"});
}

TEST_CASE("corpus: plain text is cut into pieces that lose nothing") {
  const TempDir dir;
  std::string text;
  for (int i = 0; i < 9000; ++i) text += i % 13 == 0 ? "line\n" : "w\xc3\xb6rd ";
  for (int i = 0; i < 30000; ++i) text += "\xe2\x82\xac";  // no place to cut but between characters
  const Corpus corpus = read(put(dir, "book.txt", text));
  CHECK(corpus.dialogues == 0);
  std::string joined;
  for (const CorpusText& piece : corpus.texts) {
    CHECK(piece.text.size() <= kMaxPlainBytes);
    CHECK((static_cast<unsigned char>(piece.text[0]) & 0xc0) != 0x80);
    joined += piece.text;
  }
  CHECK(joined == text);
  CHECK(read(put(dir, "notes", "Once upon a time")).texts.size() == 1);
  CHECK(read(put(dir, "lines", std::string("\n ") + kGood)).dialogues == 1);
}

TEST_CASE("corpus: blanks before the first line are read once") {
  const TempDir dir;
  std::string blanks(size_t{32} << 20, ' ');
  for (size_t i = 99; i < blanks.size(); i += 100) blanks[i] = '\n';
  const size_t lines = blanks.size() / 100;
  const Corpus corpus = read(put(dir, "unnamed", blanks + "\n" + kGood + "\n{}\n"));
  CHECK(corpus.dialogues == 1);
  CHECK(corpus.first_skipped.find(format(":%zu:", lines + 3)) != std::string::npos);
}

TEST_CASE("corpus: the order is a permutation that the seed decides") {
  const auto order = shuffled_order(1000, 7);
  CHECK(std::set<size_t>(order.begin(), order.end()).size() == 1000);
  CHECK(order == shuffled_order(1000, 7));
  CHECK(order != shuffled_order(1000, 8));
  CHECK(shuffled_order(5, 1) == std::vector<size_t>{shuffled_order(5, 1)});
  CHECK(shuffled_order(0, 1).empty());
}

TEST_CASE("corpus: of a dialogue the replies are learnt, end tokens included") {
  const auto tokenizer = Tokenizer::from_gguf(demo());
  const auto chat_template = ChatTemplate::from_gguf(demo());
  using Role = ChatMessage::Role;
  CorpusText text;
  text.messages = {{Role::kSystem, "Be brief."},
                   {Role::kUser, "I want a table."},
                   {Role::kAssistant, "For how many?"},
                   {Role::kUser, "Two. </s>"},
                   {Role::kAssistant, "Done. </s> Bye!"}};
  const auto out = training_texts(text, *tokenizer, chat_template.get(), 768);
  REQUIRE(out.size() == 1);
  CHECK(out[0].tokens == chat_template->encode(*tokenizer, text.messages));
  CHECK(learnt_text(*tokenizer, out[0]) == " For how many?</s> Done. </s> Bye!</s>");
  CHECK(out[0].learn.back() == 0);

  // Cut at the context; a reply that begins behind it leaves nothing.
  const int n = static_cast<int>(out[0].tokens.size());
  const auto cut = training_texts(text, *tokenizer, chat_template.get(), n - 3);
  REQUIRE(cut.size() == 1);
  CHECK(static_cast<int>(cut[0].tokens.size()) == n - 3);
  CHECK(learnt_text(*tokenizer, cut[0]).starts_with(" For how many?</s> Done."));
  CHECK(cut[0].learn.back() == 0);
  CHECK(training_texts(text, *tokenizer, chat_template.get(), 5).empty());
}

TEST_CASE("corpus: of a dialogue far beyond the context the beginning costs what it is") {
  class Counting final : public ChatTemplate {
   public:
    explicit Counting(const ChatTemplate& inner) : inner_(inner) {}
    const char* name() const override { return inner_.name(); }
    ChatPrompt prompt(const Tokenizer& tokenizer, const ChatInput& input) const override {
      ++renderings;
      return inner_.prompt(tokenizer, input);
    }
    std::string text(const ChatInput& input) const override { return inner_.text(input); }
    std::string reply_text(std::string_view generated) const override {
      return inner_.reply_text(generated);
    }
    mutable int renderings = 0;

   private:
    const ChatTemplate& inner_;
  };
  const auto tokenizer = Tokenizer::from_gguf(demo());
  const auto chat_template = ChatTemplate::from_gguf(demo());
  CorpusText few, many;
  for (int i = 0; i < 400; ++i) {
    many.messages.push_back({ChatMessage::Role::kUser, "I want a table."});
    many.messages.push_back({ChatMessage::Role::kAssistant, "For how many?"});
    if (i < 12) few = many;
  }
  const Counting counting(*chat_template);
  const auto out = training_texts(many, *tokenizer, &counting, 64);
  const auto expected = training_texts(few, *tokenizer, chat_template.get(), 64);
  REQUIRE(out.size() == 1);
  CHECK(out[0].tokens == expected[0].tokens);
  CHECK(out[0].learn == expected[0].learn);
  CHECK(counting.renderings < 30);
}

TEST_CASE("corpus: all of plain text is learnt, a context at a time") {
  const auto tokenizer = Tokenizer::from_gguf(demo());
  CorpusText text;
  for (int i = 0; i < 50; ++i) text.text += "There was a cat. ";
  const auto out = training_texts(text, *tokenizer, nullptr, 32);
  REQUIRE(out.size() > 3);
  std::vector<int32_t> joined;
  for (const TrainingText& piece : out) {
    CHECK(piece.tokens.size() <= 32);
    CHECK(piece.tokens[0] == tokenizer->bos());
    CHECK(learnt_tokens(piece) == std::ssize(piece.tokens) - 1);
    joined.insert(joined.end(), piece.tokens.begin() + 1, piece.tokens.end());
  }
  CHECK(joined == tokenizer->encode(text.text, {.add_special = false}));
}

TEST_CASE("corpus: the shortlist has what ends a reply, then the frequent, equals by id") {
  const std::vector<TrainingText> texts = {{{9, 5, 5, 3, 8, 8}, {1, 1, 1, 1, 0, 0}}};
  const auto ends = [](int32_t id) { return id == 2 || id == 7; };
  // Learnt: 5 5 3 8; the second 8 is not.
  CHECK(count_shortlist(texts, 10, 6, ends) == std::vector<int32_t>{2, 7, 5, 3, 8, 0});
  CHECK(count_shortlist(texts, 10, 99, ends).size() == 10);
  CHECK(count_shortlist({}, 4, 3, ends) == std::vector<int32_t>{2, 0, 1});
}

TEST_CASE("corpus: the tokens that are learnt, reply by reply") {
  const std::vector<TrainingText> texts = {{{9, 5, 6, 3, 8, 7}, {1, 1, 0, 1, 0, 0}},
                                           {{1, 2}, {0, 0}},
                                           {{4, 5, 6}, {0, 1, 0}},
                                           {{4, 5}, {1, 1}}};
  const std::vector<int32_t> all = {5, 6, -1, 8, -1, 6, -1, 5, -1};
  CHECK(reply_tokens(texts, 9) == all);
  CHECK(reply_tokens(texts, 1000) == all);
  CHECK(reply_tokens(texts, 6) == std::vector<int32_t>{5, 6, -1, 8, -1});
  CHECK(reply_tokens({}, 10).empty());
}

TEST_CASE(
    "hold out: a sixteenth of the prompts at the end, their replies together, the rest as it was") {
  std::vector<TrainingText> texts;
  for (int32_t i = 0; i < 4000; ++i) {  // four replies to each of 1000 prompts
    TrainingText text;
    text.tokens = {5, i % 1000, 7, i};
    text.learn = {0, 0, 1, 0};
    texts.push_back(text);
  }
  const size_t at = hold_out(texts);
  REQUIRE(texts.size() == 4000);
  size_t first = 1;
  while (first < texts.size() && texts[first].tokens[3] > texts[first - 1].tokens[3]) ++first;
  CHECK(first == at);
  const size_t held = texts.size() - first;
  CHECK(held > 4000 / 24);
  CHECK(held < 4000 / 11);
  CHECK(held % 4 == 0);
  std::set<int32_t> learnt;
  for (size_t i = 0; i < first; ++i) learnt.insert(texts[i].tokens[1]);
  for (size_t i = first; i < texts.size(); ++i) {
    CHECK(!learnt.contains(texts[i].tokens[1]));
    CHECK(texts[i].tokens[1] == texts[first + (i - first) / 4 * 4].tokens[1]);
  }
}

TEST_CASE(
    "self-generate: the same texts, in one go or interrupted at any byte, side by side or not") {
  const test::TinyModel model(writing_spec());
  const auto tokenizer = Tokenizer::from_gguf(model.gguf);
  auto backend = model.backend(Isa::kPortable, 1);
  const std::vector<CorpusText> corpus = {{.messages = {}, .text = "abc"},
                                          {.messages = {}, .text = "hello there"},
                                          {.messages = {}, .text = std::string(500, 'z')},
                                          {.messages = {}, .text = "bcd"}};
  std::vector<const CorpusText*> texts;
  for (const CorpusText& text : corpus) texts.push_back(&text);
  SelfGenerateOptions options;
  options.tokens = 40;
  options.max_reply = 12;
  options.seed = 3;
  options.ends_reply = [](int32_t id) { return id == 2; };
  const auto generate = [&] {
    std::vector<TrainingText> out = self_generate(*backend, *tokenizer, nullptr, texts, options);
    return out;
  };
  const auto same = [](const std::vector<TrainingText>& a, const std::vector<TrainingText>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const TrainingText& x, const TrainingText& y) {
                        return x.tokens == y.tokens && x.learn == y.learn && x.greedy == y.greedy;
                      });
  };
  const std::vector<TrainingText> want = generate();
  REQUIRE(want.size() >= 3);
  for (const TrainingText& text : want) {
    CHECK(learnt_tokens(text) >= 1);
    CHECK(learnt_tokens(text) <= 12);
    CHECK(text.learn.back() == 0);
    CHECK(text.tokens.size() <= 65);
  }

  const TempDir dir;
  std::string bytes;
  std::vector<std::string> warnings;
  options.warn = [&](const std::string& warning) { warnings.push_back(warning); };
  for (const int n_sequences : {1, 2, 16}) {
    CAPTURE(n_sequences);
    CpuOptions side_by_side;
    side_by_side.n_threads = 1;
    side_by_side.n_sequences = n_sequences;
    backend = make_cpu_backend(model.config, model.weights, side_by_side);
    options.file = (dir / format("texts-%d.bin", n_sequences));
    CHECK(same(generate(), want));
    std::ifstream file(options.file, std::ios::binary);
    const std::string written((std::istreambuf_iterator<char>(file)), {});
    CHECK((bytes.empty() || written == bytes));
    bytes = written;
    options.file = (dir / "texts.bin");
    for (size_t n = 0; n <= bytes.size(); n += 7) {
      put(dir, "texts.bin", bytes.substr(0, n));
      CHECK(same(generate(), want));
    }
  }
  // What is damaged, not cut short, is told and kept, all of it.
  CHECK(warnings.empty());
  CHECK(!std::ifstream(options.file + ".damaged"));
  for (size_t at = 0; at < bytes.size(); at += 11) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0xff);
    put(dir, "texts.bin", damaged);
    if (at >= 16) {
      warnings.clear();
      CHECK(same(generate(), want));
      REQUIRE(warnings.size() == 1);
      check_mentions(warnings[0], {"texts.bin: damaged at byte", "texts.bin.damaged has all"});
      CHECK(read_file(options.file + ".damaged") == damaged);
      continue;
    }
    expect_error(ErrorCode::kFile, generate);  // no such file, or another model's
    CHECK(read_file(options.file) == damaged);
  }
  put(dir, "texts.bin", "GGUF");
  expect_error(ErrorCode::kFile, generate);
  CHECK(read_file(options.file) == "GGUF");
  put(dir, "texts.bin", bytes);
  options.model = "another";
  expect_error(ErrorCode::kFile, generate);
  options.model.clear();
  {
    const int fd = open(options.file.c_str(), O_RDWR);
    REQUIRE(flock(fd, LOCK_EX) == 0);
    expect_error(ErrorCode::kFile, generate);
    close(fd);
  }
  CHECK(read_file(options.file) == bytes);

  // What is too long for a context is not learnt in it, and is there for the next one.
  CpuOptions shorter;
  shorter.n_threads = 1;
  shorter.n_ctx = 16;
  auto longer = std::exchange(backend, make_cpu_backend(model.config, model.weights, shorter));
  const auto some = generate();
  CHECK(!some.empty());
  CHECK(some.size() < want.size());
  for (const TrainingText& text : some) CHECK(text.tokens.size() <= 17);
  CHECK(read_file(options.file).starts_with(bytes));
  backend = std::move(longer);

  // Of another corpus all prompts are still to be answered, whatever the file has replies to.
  const std::vector<CorpusText> others = {{.messages = {}, .text = "mnopq"},
                                          {.messages = {}, .text = "another one"}};
  texts.clear();
  for (const CorpusText& text : others) texts.push_back(&text);
  options.tokens = 400;
  const auto more = generate();
  for (const CorpusText& text : others) {
    const std::vector<int32_t> prompt = tokenizer->encode(text.text, {.parse_special = false});
    CHECK(std::ranges::any_of(more, [&](const TrainingText& written) {
      return written.tokens.size() > prompt.size() &&
             std::equal(prompt.begin(), prompt.end(), written.tokens.begin());
    }));
  }
  texts.clear();
  for (const CorpusText& text : corpus) texts.push_back(&text);
  options.tokens = 40;

  // The other half is sampled: another seed changes it, and only it.
  options.file.clear();
  options.seed = 4;
  const auto other = generate();
  CHECK(other[0].tokens == want[0].tokens);
  CHECK(other[1].tokens != want[1].tokens);
}

TEST_CASE(
    "self-generate: what is not wanted is dropped, later rounds are sampled, an abort ends it") {
  const test::TinyModel model(writing_spec());
  const auto tokenizer = Tokenizer::from_gguf(model.gguf);
  std::vector<CorpusText> corpus;
  for (char c = 'a'; c <= 'j'; ++c) corpus.push_back({.messages = {}, .text = std::string(3, c)});
  std::vector<const CorpusText*> texts;  // two rounds over them
  for (int round = 0; round < 2; ++round) {
    for (const CorpusText& text : corpus) texts.push_back(&text);
  }
  SelfGenerateOptions options;
  options.tokens = 50;
  options.max_reply = 12;
  options.distinct = corpus.size();
  options.ends_reply = [](int32_t) { return false; };
  const auto generate = [&](int n_sequences) {
    CpuOptions cpu;
    cpu.n_threads = 1;
    cpu.n_sequences = n_sequences;
    const auto backend = make_cpu_backend(model.config, model.weights, cpu);
    return self_generate(*backend, *tokenizer, nullptr, texts, options);
  };
  for (const int n : {1, 16}) {
    CAPTURE(n);
    options.tokens = 50;
    CHECK(generate(n).size() == 5);  // of 12 tokens each, though more were under way
    options.tokens = 1000;
    const auto all = generate(n);
    REQUIRE(all.size() == 20);
    for (size_t i = 0; i < all.size(); ++i) CHECK(all[i].greedy == (i % 2 == 0 && i < 10));
    CHECK(all[2].tokens != all[12].tokens);
    options.seconds = 1e-9;
    CHECK(generate(n).empty());
    options.seconds = 0;

    std::atomic<bool> abort{false};
    options.abort = &abort;
    options.progress = [&](int64_t done, int64_t) { abort = done > 30; };
    const auto some = generate(n);
    CHECK(some.size() < 20);
    for (size_t i = 0; i < some.size(); ++i) CHECK(some[i].tokens == all[i].tokens);
    options.abort = nullptr;
    options.progress = nullptr;
  }
}

TEST_CASE("self-generate: what is told to be in the file is what a kill leaves there") {
  const test::TinyModel model(writing_spec());
  const auto tokenizer = Tokenizer::from_gguf(model.gguf);
  const CorpusText prompt{.messages = {}, .text = "abc"};
  const std::vector<const CorpusText*> texts(20, &prompt);
  for (const int n : {1, 16}) {
    CAPTURE(n);
    const TempDir dir;
    CpuOptions cpu;
    cpu.n_threads = 1;
    cpu.n_sequences = n;
    const auto backend = make_cpu_backend(model.config, model.weights, cpu);
    SelfGenerateOptions options;
    options.tokens = 1000;
    options.max_reply = 12;
    options.ends_reply = [](int32_t) { return false; };
    options.file = dir / "texts.bin";
    uintmax_t size = 0;
    int64_t kept = -1;
    int calls = 0, grown = 0;
    options.progress = [&](int64_t done, int64_t in_file) {
      const uintmax_t before = std::exchange(size, std::filesystem::file_size(options.file));
      CHECK((size > before) == (in_file > std::exchange(kept, in_file)));
      CHECK(in_file <= done);
      ++calls;
      grown += size > before;
    };
    const auto all = self_generate(*backend, *tokenizer, nullptr, texts, options);
    CHECK(all.size() == 20);
    CHECK(kept == learnt_tokens(all));
    CHECK(grown > 2);
    if (n > 1) CHECK(calls > 2 * grown);  // most passes end no reply
  }
}

}  // namespace corpus_test
