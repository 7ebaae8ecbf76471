// What spec-bench reads and keeps: questions, which of them, what is cut, who drafts, answers.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "cli/spec_bench.h"
#include "expect_error.h"
#include "spec_bench/spec_bench_answers.h"
#include "spec_bench/spec_bench_plan.h"
#include "spec_bench/spec_bench_questions.h"
#include "spec_bench/spec_bench_run.h"
#include "temp_dir.h"

namespace spec_bench_test {

using namespace specbound;
using specbound::test::check_mentions;
using specbound::test::expect_error;
using specbound::test::TempDir;

namespace {

SpecBenchQuestion question(int64_t id, const std::string& category, int turns = 1) {
  SpecBenchQuestion q;
  q.id = id;
  q.category = category;
  for (int i = 0; i < turns; ++i) q.turns.push_back("turn " + std::to_string(i));
  return q;
}

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void append(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::app) << text;
}

SpecBenchAnswer answer_to(const SpecBenchQuestion& q, double tstamp) {
  SpecBenchAnswer answer;
  answer.question_id = q.id;
  answer.category = q.category;
  answer.question_hash = question_hash(q);
  answer.tstamp = tstamp;
  for (size_t i = 0; i < q.turns.size(); ++i) {
    SpecBenchTurn turn;
    turn.text = "reply \"" + std::to_string(i) + "\"\n";
    turn.token_hash = 0xfedcba9876543210u + i;
    turn.prompt_tokens = 11;
    turn.cut_tokens = static_cast<int>(i);
    turn.drafted_tokens = 9;
    turn.step_tokens = {1, 3, 2};
    turn.wall_seconds = 0.1 + 0.2;  // no short decimal
    turn.prefill_seconds = 0.125;
    turn.ttft_seconds = 0.25;
    turn.draft_seconds = 0.0625;
    answer.turns.push_back(turn);
  }
  return answer;
}

const std::vector<SpecBenchSource> kSources = {{"plain", "demo-plain", "settings A"},
                                               {"specbound", "demo-specbound", "settings B"}};
constexpr size_t kBoth[] = {0, 1};

}  // namespace

TEST_CASE("spec-bench: the questions of a file, with their tasks") {
  const std::string text =
      "{\"question_id\": 81, \"category\": \"writing\", \"turns\": [\"a\", \"b\"], \"reference\": "
      "[1]}\r\n"
      "\n   \n"
      "{\"turns\":[\"Z\\u00fcrich\"],\"category\":\"math_reasoning\",\"question_id\":0}";
  const std::vector<SpecBenchQuestion> questions = parse_questions(text, "q.jsonl");
  REQUIRE(questions.size() == 2);
  CHECK(questions[0].id == 81);
  CHECK(questions[0].turns == std::vector<std::string>{"a", "b"});
  CHECK(std::string(kSpecBenchTasks[questions[0].task()]) == "multi-turn");
  CHECK(questions[1].turns[0] == "Z\xc3\xbcrich");
  CHECK(std::string(kSpecBenchTasks[questions[1].task()]) == "math");
  CHECK(spec_bench_task("math") == spec_bench_task("humanities"));  // MT-bench's, not GSM8K's
  CHECK(spec_bench_task("rag") != spec_bench_task("qa"));
  CHECK(spec_bench_task("") == -1);
}

TEST_CASE("spec-bench: hostile lines are refused by their number") {
  const std::string good = R"({"question_id":1,"category":"qa","turns":["x"]})";
  const auto refused = [&](const std::string& line, const char* part) {
    INFO("line: ", line.substr(0, 80));
    const std::string what = expect_error(
        ErrorCode::kFormat, [&] { parse_questions(good + "\n\n" + line + "\n", "q.jsonl"); });
    check_mentions(what, {"q.jsonl, line 3", part});
    CHECK(what.size() < 600);
  };
  refused("{", "JSON object");
  refused("[1]", "found array");
  const std::string deep(100000, '['), end(100000, ']');
  refused(R"({"question_id":)" + deep + end + "}", "found array");
  refused(R"({"question_id":1,"category":"qa","turns":[)" + deep + end + "]}", "found array");
  refused("\xff\xfe", "JSON object");
  refused(std::string(100000, '['), "JSON object");
  refused(R"({"category":"qa","turns":["x"]})", "question_id");
  refused(R"({"question_id":"2","category":"qa","turns":["x"]})", "question_id");
  refused(R"({"question_id":2.5,"category":"qa","turns":["x"]})", "question_id");
  refused(R"({"question_id":-2,"category":"qa","turns":["x"]})", "question_id");
  refused(R"({"question_id":18446744073709551615,"category":"qa","turns":["x"]})", "question_id");
  refused(good, "found 1 again");
  refused(R"({"question_id":2,"turns":["x"]})", "category");
  refused(R"({"question_id":2,"category":"poetry\u001b[31m","turns":["x"]})", "poetry\\x1b[31m");
  refused(R"({"question_id":2,"category":"qa"})", "turns");
  refused(R"({"question_id":2,"category":"qa","turns":[]})", "turns");
  refused(R"({"question_id":2,"category":"qa","turns":"x"})", "turns");
  refused(R"({"question_id":2,"category":"qa","turns":["x",null]})", "turns");
  check_mentions(expect_error(ErrorCode::kFormat, [] { parse_questions(" \n\n", "q.jsonl"); }),
                 {"q.jsonl", "found none"});
  check_mentions(
      expect_error(ErrorCode::kLimit,
                   [&] { parse_questions(std::string(size_t{5} << 20, 'x'), "q.jsonl"); }),
      {"line 1", "MiB"});
}

TEST_CASE("spec-bench: a limit takes questions evenly over the tasks") {
  std::vector<SpecBenchQuestion> all;
  const char* const kCategories[] = {"writing", "coding", "translation", "qa", "rag"};
  for (const char* category : kCategories) {
    for (int i = 0; i < 10; ++i)
      all.push_back(question(static_cast<int64_t>(all.size()), category));
  }
  all.push_back(question(1000, "summarization"));
  const auto ids = [&](size_t n) {
    std::vector<int64_t> out;
    for (const SpecBenchQuestion& q : spread_questions(all, n)) out.push_back(q.id);
    return out;
  };
  // multi-turn has 0..19, translation 20..29, qa 30..39, rag 40..49, summarization one.
  CHECK(ids(5) == std::vector<int64_t>{0, 20, 30, 40, 1000});
  // What summarization has not goes to the others; two of MT-bench are of two categories.
  CHECK(ids(9) == std::vector<int64_t>{0, 10, 20, 25, 30, 35, 40, 45, 1000});
  CHECK(ids(1) == std::vector<int64_t>{0});
  CHECK(ids(51).size() == 51);
  CHECK(ids(9999).size() == 51);
  CHECK(ids(50).size() == 50);
}

TEST_CASE("spec-bench: prompts lose their middle") {
  std::vector<int32_t> ids(10);
  std::iota(ids.begin(), ids.end(), 0);
  std::vector<int32_t> whole = ids;
  CHECK(cut_middle(whole, 10) == 0);
  CHECK(whole == ids);
  CHECK(cut_middle(ids, 7) == 3);
  CHECK(ids == std::vector<int32_t>{0, 1, 2, 3, 7, 8, 9});
  CHECK(cut_middle(ids, 4) == 3);
  CHECK(ids == std::vector<int32_t>{0, 1, 8, 9});
  CHECK(cut_middle(ids, 1) == 3);
  CHECK(ids == std::vector<int32_t>{0});

  CHECK(spec_bench_room(768, 64) == 704);
  CHECK(spec_bench_room(768, 1024) == 384);  // half of the context at least
  CHECK(spec_bench_room(1, 1024) == 1);
}

TEST_CASE("spec-bench: sides take turns in every place and behind one another") {
  for (const size_t n : {2, 3, 4, 7}) {
    CAPTURE(n);
    std::vector<std::vector<int>> at(n, std::vector<int>(n)), behind = at;
    const size_t turns = 2 * n;
    for (size_t turn = 0; turn < turns; ++turn) {
      for (size_t place = 0; place < n; ++place) {
        const size_t side = side_in_turn(turn, place, n);
        REQUIRE(side < n);
        ++at[side][place];
        if (place > 0) ++behind[side][side_in_turn(turn, place - 1, n)];
      }
    }
    for (size_t side = 0; side < n; ++side) {
      CHECK(at[side] == std::vector<int>(n, 2));
      CHECK(behind[side][(side + 1) % n] >= static_cast<int>(n) - 2);
      CHECK(behind[(side + 1) % n][side] >= static_cast<int>(n) - 2);
    }
  }
}

TEST_CASE("spec-bench: who drafts, and how tokens are picked") {
  SpecBenchFlags flags;
  SpecBenchOptions& options = flags.options;
  options.questions = "q.jsonl";
  options.sampling.seed = 1;
  options.drafting.specbound.tau = 0.25f;
  const auto names = [&] {
    flags.check();
    std::string out;
    for (const SpecBenchDrafter& d : spec_bench_drafters(options)) out += d.name + " ";
    return out;
  };
  CHECK(names() == "plain auto ");
  options.compare = "specbound,paper,ngram,plain";
  flags.settings = {"eager: --tau 0.9 --w-max 5"};
  CHECK(names() == "plain specbound paper ngram eager ");
  const std::vector<SpecBenchDrafter> drafters = spec_bench_drafters(options);
  CHECK(!drafters[0].options);
  CHECK(drafters[1].options->specbound.tau == 0.25f);
  CHECK(drafters[2].options->specbound.preset == Preset::kPaper);
  CHECK(!drafters[2].options->specbound.tau);  // the paper's, whatever else is asked for
  CHECK(drafters[3].options->speculator == "ngram");
  CHECK(!drafters[3].options->specbound.tau);
  CHECK(drafters[4].options->specbound.tau == 0.9f);
  CHECK(drafters[4].options->specbound.w_max == 5);
  flags.settings = {R"(own: --heads "a b\\\"c.gguf" --tau 0.9)"};
  CHECK(names() == "plain specbound paper ngram own ");
  CHECK(spec_bench_drafters(options)[4].options->heads == R"(a b\"c.gguf)");

  const auto refused = [&](const char* part) {
    check_mentions(expect_error(ErrorCode::kUsage,
                                [&] {
                                  flags.check();
                                  spec_bench_drafters(options);
                                }),
                   {part});
  };
  flags.settings = {"specbound: --tau 0.9"};
  refused("named twice");
  for (const char* text : {"", "x", ": --tau 1", "../x: --tau 1", ".x: --tau 1", "a b: --tau 1"}) {
    flags.settings = {text};
    refused("--setting: expected a name");
  }
  flags.settings = {"x: --tua 0.9"};
  refused("--setting x: ");
  flags.settings = {"x: --tau nan"};
  refused("--tau");
  flags.settings = {"x: --heads \"a b.gguf"};
  refused("--setting x: expected a second \"");
  flags.settings.clear();
  options.compare = "specbound,fast";
  refused("found \"fast\"");
  options.compare = "plain";
  refused("beside plain");
  options.compare = "all";
  const std::string all = names();
  for (const std::string& name : speculators()) CHECK(all.find(" " + name + " ") != all.npos);

  CHECK(spec_bench_strategies(options).size() == 1);
  options.sampling_table = true;
  const std::vector<SpecBenchStrategy> strategies = spec_bench_strategies(options);
  REQUIRE(strategies.size() == 4);
  CHECK(strategies[0].sampling.temperature == 0);
  CHECK(strategies[1].sampling.temperature == 0.3f);
  CHECK(strategies[2].sampling.top_p == 1);
  CHECK(strategies[3].sampling.top_p == 0.9f);
  CHECK(strategies[3].sampling.temperature == 1);
  CHECK(strategies[3].sampling.seed == 1);

  options.fresh = true;
  check_mentions(expect_error(ErrorCode::kUsage, [&] { flags.check(); }), {"--fresh"});
}

TEST_CASE("spec-bench: an answer has the fields of Spec-Bench, and is read back as it was") {
  const SpecBenchAnswer answer = answer_to(question(81, "writing", 2), 1700000000.25);
  const std::string line = answer_line(answer, kSources[0]);
  CHECK(line.find('\n') == line.size() - 1);
  const nlohmann::json json = nlohmann::json::parse(line);
  CHECK(json["question_id"] == 81);
  CHECK(json["category"] == "writing");
  CHECK(json["answer_id"].get<std::string>().size() == 16);
  CHECK(json["model_id"] == "demo-plain");
  CHECK(json["tstamp"] == 1700000000.25);
  const nlohmann::json& choice = json["choices"][0];
  CHECK(choice["index"] == 0);
  CHECK(choice["turns"] == nlohmann::json({"reply \"0\"\n", "reply \"1\"\n"}));
  CHECK(choice["decoding_steps"] == nlohmann::json({3, 3}));
  CHECK(choice["new_tokens"] == nlohmann::json({6, 6}));
  CHECK(choice["wall_time"] == nlohmann::json({0.1 + 0.2, 0.1 + 0.2}));
  CHECK(choice["accept_lengths"] == nlohmann::json({1, 3, 2, 1, 3, 2}));

  const SpecBenchAnswer back =
      parse_answer(std::string_view(line).substr(0, line.size() - 1), kSources[0], "here");
  CHECK(answer_line(back, kSources[0]) == line);
  CHECK(back.turns[1].same_text(answer.turns[1]));
  CHECK(back.turns[1].step_tokens == answer.turns[1].step_tokens);
  CHECK(back.turns[1].wall_seconds == answer.turns[1].wall_seconds);

  SpecBenchAnswer broken = answer;
  broken.turns[0].text = "\xff";  // a reply may end inside a character
  CHECK(nlohmann::json::parse(answer_line(broken, kSources[0]))["choices"][0]["turns"][0] ==
        "\xef\xbf\xbd");
}

TEST_CASE("spec-bench: what no answer looks like is refused by its place") {
  const std::string line = answer_line(answer_to(question(81, "qa"), 2), kSources[0]);
  const nlohmann::json good = nlohmann::json::parse(line);
  const auto refused = [&](const std::string& text, const char* part) {
    INFO("text: ", text.substr(0, 60));
    check_mentions(expect_error(ErrorCode::kFormat,
                                [&] { parse_answer(text, kSources[0], "a.jsonl, line 7"); }),
                   {"a.jsonl, line 7", part, "--fresh"});
  };
  refused("", "question_id");
  refused("[]", "question_id");
  for (const char* key :
       {"question_id", "category", "choices", "tstamp", "settings", "question_hash"}) {
    nlohmann::json json = good;
    json.erase(key);
    refused(json.dump(), key);
    json[key] = nullptr;
    refused(json.dump(), key);
  }
  for (const auto& [key, value] : good["choices"][0].items()) {
    if (key == "index") continue;
    nlohmann::json json = good;
    json["choices"][0].erase(key);
    refused(json.dump(), key.c_str());
    json["choices"][0][key] = nlohmann::json::array({nullptr});
    refused(json.dump(), key == "new_tokens" ? "new_tokens" : "\"");
  }
  nlohmann::json json = good;
  json["choices"][0]["decoding_steps"][0] = 1 << 20;  // more than there are lengths
  refused(json.dump(), "accept_lengths");
  json = good;
  json["choices"][0]["accept_lengths"][0] = 9;
  refused(json.dump(), "new_tokens");
  json = good;
  json["choices"][0]["accept_lengths"] = {1 << 30, 1 << 30, 1 << 30};  // more than an int holds
  refused(json.dump(), "accept_lengths");
  for (const char* seconds : {"-1", "1e-310", "1e300", "\"1\""}) {
    std::string text = line;
    const size_t at = text.find("0.30000000000000004");
    REQUIRE(at != text.npos);
    refused(text.replace(at, 19, seconds), "wall_time");
  }
  check_mentions(
      expect_error(ErrorCode::kUsage, [&] { parse_answer(line, kSources[1], "a.jsonl, line 7"); }),
      {"a.jsonl, line 7", "settings A", "settings B", "--fresh"});
}

TEST_CASE("spec-bench: an interrupted run goes on where it was") {
  const TempDir folder;
  const std::string out = folder / "new/answers";
  const SpecBenchQuestion one = question(1, "qa"), two = question(2, "writing", 2);
  {
    SpecBenchAnswers answers(out, kSources, false);
    CHECK(!answers.done(one, kBoth));
    answers.add(0, answer_to(one, 10));
    CHECK(!answers.done(one, kBoth));  // the other one was not asked yet
    answers.add(1, answer_to(one, 10));
    CHECK(answers.done(one, kBoth));
    answers.add(0, answer_to(two, 20));
  }
  const std::string plain = out + "/plain.jsonl", drafted = out + "/specbound.jsonl";
  const std::string whole = read(plain);
  append(plain, whole.substr(0, 30));  // killed while it wrote
  {
    SpecBenchAnswers answers(out, kSources, false);
    CHECK(read(plain) == whole);
    CHECK(answers.done(one, kBoth));
    CHECK(!answers.done(two, kBoth));
    CHECK(answers.find(0, 1)->turns[0].text == "reply \"0\"\n");
    CHECK(answers.find(1, 2) == nullptr);
    // Asked again, both sides: the answer of before is not paired with one of now.
    answers.add(1, answer_to(two, 30));
    CHECK(!answers.done(two, kBoth));
    answers.add(0, answer_to(two, 30));
    CHECK(answers.done(two, kBoth));
    answers.add(0, answer_to(question(0, "rag"), 40));
    answers.sort();
  }
  std::istringstream lines(read(plain));
  std::vector<int> ids;
  for (std::string line; std::getline(lines, line);) {
    ids.push_back(nlohmann::json::parse(line)["question_id"]);
  }
  CHECK(ids == std::vector<int>{0, 1, 2});

  {
    SpecBenchAnswers answers(out, kSources, false);
    CHECK(answers.find(0, 2)->tstamp == 30);
    SpecBenchQuestion other = one;
    other.turns[0] = "something else";
    check_mentions(expect_error(ErrorCode::kFormat, [&] { (void)answers.done(other, kBoth); }),
                   {"question 1", "plain.jsonl"});
    // Nobody else writes there meanwhile.
    const std::string bytes = read(plain);
    for (const bool anew : {false, true}) {
      check_mentions(expect_error(ErrorCode::kFile, [&] { SpecBenchAnswers(out, kSources, anew); }),
                     {out, "another spec-bench"});
    }
    CHECK(read(plain) == bytes);
  }
  std::vector<SpecBenchSource> changed = kSources;
  changed[1].settings = "settings C";
  check_mentions(expect_error(ErrorCode::kUsage, [&] { SpecBenchAnswers(out, changed, false); }),
                 {"specbound.jsonl, line 1", "settings B", "settings C"});
  append(drafted, "nonsense\n");
  check_mentions(expect_error(ErrorCode::kFormat, [&] { SpecBenchAnswers(out, kSources, false); }),
                 {"specbound.jsonl, line 3"});
  const SpecBenchAnswers fresh(out, changed, true);
  CHECK(fresh.find(0, 1) == nullptr);
  CHECK(read(drafted).empty());
}

TEST_CASE("spec-bench: answers without a folder are kept in memory alone") {
  SpecBenchAnswers answers("", kSources, false);
  answers.add(0, answer_to(question(1, "qa"), 1));
  answers.add(1, answer_to(question(1, "qa"), 1));
  CHECK(answers.done(question(1, "qa"), kBoth));
  answers.sort();
  CHECK(!answers.kept());
  const TempDir folder;
  append(folder / "file", "x");
  expect_error(ErrorCode::kFile,
               [&] { SpecBenchAnswers((folder / "file") + "/below", kSources, false); });
}

TEST_CASE("spec-bench: files that no answer can go to are told before anything is asked") {
  const TempDir folder;
  SUBCASE("a pipe, which would be waited for") {
    REQUIRE(mkfifo((folder / "plain.jsonl").c_str(), 0600) == 0);
  }
  SUBCASE("a folder") {
    std::filesystem::create_directory(folder / "plain.jsonl");
  }
  SUBCASE("a model") {
    append(folder / "plain.jsonl", "GGUF");
  }
  check_mentions(
      expect_error(ErrorCode::kFile, [&] { SpecBenchAnswers(folder.path(), kSources, false); }),
      {"plain.jsonl"});
}

TEST_CASE("spec-bench: what are no answers is not written over") {
  const std::string question = R"({"question_id":1,"category":"qa","turns":["x"]})";
  for (const std::string& text : {std::string("mine"), question + "\n", std::string("\n"),
                                  R"({"question_id": 1, "category")" + std::string(300, 'x'),
                                  R"({"question_id":1,"category":")" + std::string(300, 'x')}) {
    for (const bool fresh : {false, true}) {
      const TempDir folder;
      append(folder / "plain.jsonl", text);
      check_mentions(
          expect_error(ErrorCode::kFile, [&] { SpecBenchAnswers(folder.path(), kSources, fresh); }),
          {"plain.jsonl: expected answers of an earlier run", "not written over"});
      CHECK(read(folder / "plain.jsonl") == text);
    }
  }
}

TEST_CASE("spec-bench: an answer whose category is another one is not scored") {
  // A category that is no task's would be a place outside of the tables.
  const TempDir folder;
  const SpecBenchQuestion one = question(1, "qa");
  for (const SpecBenchSource& source : kSources) {
    std::string line = answer_line(answer_to(one, 10), source);
    const size_t at = line.find("\"qa\"");
    REQUIRE(at != line.npos);
    append(folder / (source.name + ".jsonl"), line.replace(at, 4, "\"poetry\""));
  }
  const SpecBenchAnswers answers(folder.path(), kSources, false);
  check_mentions(expect_error(ErrorCode::kFormat, [&] { (void)answers.done(one, kBoth); }),
                 {"question 1", "plain.jsonl"});
}

}  // namespace spec_bench_test
