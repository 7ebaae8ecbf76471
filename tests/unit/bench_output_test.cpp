// The four forms of a benchmark's results, the prompts that are compared, the tests that are
// planned, and which flags go together.
#include "tools/bench_output.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "cli/bench.h"
#include "expect_error.h"
#include "parse.h"
#include "tools/prompt_sets.h"

namespace bench_output_test {

using namespace specbound;
using namespace specbound::test;

namespace {

using Json = nlohmann::ordered_json;

struct ParsedBench {
  BenchFlags flags;
  BenchMode mode{};
  Parse parse;
};

// What does not parse has a status; what parses is checked, which may throw.
ParsedBench parse_bench(const std::vector<std::string>& arguments) {
  ParsedBench out;
  Flags flags;
  add_bench_flags(flags, out.flags);
  parse_into(flags, arguments, out.parse, "bench");
  out.mode = out.flags.mode;
  return out;
}

}  // namespace

TEST_CASE("a Markdown table is padded, numbers to the right, bars escaped") {
  CHECK(markdown_table({{"model", false}, {"t/s"}}, {{"llama", "12.34 ± 0.1"}, {"a|b", "5"}}) ==
        "| model |         t/s |\n"
        "| ----- | ----------: |\n"
        "| llama | 12.34 ± 0.1 |\n"
        "| a\\|b  |           5 |\n");
  CHECK(markdown_table({{"x"}}, {}) == "|   x |\n| --: |\n");
}

TEST_CASE("CSV quotes what has to be quoted, and spells out what lies inside") {
  const std::vector<Json> records = {
      {{"name", "plain"}, {"n", 1}, {"side", {{"ts", 2.5}, {"ok", true}}}, {"list", {1, 2}}},
      {{"name", "a,\"b\"\nc"}, {"n", nullptr}, {"side", {{"ts", 3.0}, {"ok", false}}}},
  };
  CHECK(csv_text(records) ==
        "name,n,side.ts,side.ok,list\n"
        "plain,1,2.5,true,\"[1,2]\"\n"
        "\"a,\"\"b\"\"\nc\",,3.0,false,\n");
  CHECK(csv_text({}).empty());
}

TEST_CASE("JSON lines hold a record each, also of names that are no UTF-8") {
  const std::string lines = json_lines({{{"a", "x\ny"}}, {{"a", "\xff"}}});
  const size_t end = lines.find('\n');
  CHECK(Json::parse(lines.substr(0, end))["a"] == "x\ny");
  CHECK(Json::parse(lines.substr(end + 1))["a"] == "\xef\xbf\xbd");
  CHECK(lines.ends_with("}\n"));
}

TEST_CASE("formats by their names, and no others") {
  BenchFormat format = BenchFormat::kMarkdown;
  for (const auto& [name, want] :
       {std::pair("md", BenchFormat::kMarkdown), std::pair("csv", BenchFormat::kCsv),
        std::pair("json", BenchFormat::kJson), std::pair("jsonl", BenchFormat::kJsonLines)}) {
    CHECK(parse_bench_format(name, format));
    CHECK(format == want);
  }
  for (const char* name : {"", "MD", "sql", "bench.json"}) CHECK(!parse_bench_format(name, format));
}

TEST_CASE("the built-in prompts are varied and can be told apart") {
  std::set<std::string> names, texts;
  for (const BenchPrompt& prompt : builtin_bench_prompts()) {
    names.insert(prompt.name);
    texts.insert(prompt.text);
    CHECK(!prompt.text.empty());
  }
  CHECK(names.size() == builtin_bench_prompts().size());
  CHECK(texts.size() == names.size());
  for (const char* name : {"booking", "prose", "code", "list", "repetition", "random bytes"}) {
    CHECK(names.count(name) == 1);
  }
  CHECK(bench_prompts("").size() == names.size());
}

TEST_CASE("prompts from a file: lines, or JSON lines with names") {
  const auto plain = parse_bench_prompts("one\n\ntwo\r\n", "p.txt");
  REQUIRE(plain.size() == 2);
  CHECK(plain[0].name == "prompt 1");
  CHECK(plain[1].text == "two");
  const auto json = parse_bench_prompts(
      "{\"prompt\": \"a\\nb\", \"name\": \"n\"}\n{\"prompt\": \"c\"}\n", "p.jsonl");
  REQUIRE(json.size() == 2);
  CHECK(json[0].name == "n");
  CHECK(json[0].text == "a\nb");
  CHECK(json[1].name == "prompt 2");
  CHECK(parse_bench_prompts("{\"prompt\": \"c\"}", "stdin")[0].text == "c");
  CHECK(parse_bench_prompts("{braces}", "p.txt")[0].text == "{braces}");

  for (const char* bad : {"{\"text\": \"a\"}", "{\"prompt\": 3}", "{\"prompt\": \"\"}", "[1]",
                          "{\"prompt\": \"a\"", "{\"prompt\": \"a\", \"name\": 3}"}) {
    check_mentions(
        expect_error(
            ErrorCode::kFormat,
            [&] { parse_bench_prompts(std::string("{\"prompt\": \"x\"}\n") + bad, "p.jsonl"); }),
        {"p.jsonl, prompt 2"});
  }
  expect_error(ErrorCode::kFormat,
               [] { parse_bench_prompts(std::string(1000000, '['), "p.jsonl"); });
  expect_error(ErrorCode::kUsage, [] { parse_bench_prompts("\n\n", "p.txt"); });
}

TEST_CASE("tests are named and ordered as llama-bench has them") {
  const ParsedBench parsed =
      parse_bench({"-m", "x.gguf", "-p", "512,0", "-n", "16,32", "-d", "0,64"});
  CHECK(parsed.mode == BenchMode::kTests);
  const BenchOptions& options = parsed.flags.options;
  std::vector<std::string> names;
  for (const BenchTest& test : bench_plan(options)) names.push_back(test.name());
  CHECK(names == std::vector<std::string>{"pp512", "tg16", "tg32", "pp512 @ d64", "tg16 @ d64",
                                          "tg32 @ d64"});
  CHECK(bench_plan(options).back().context() == 64 + 32 + 1);
}

TEST_CASE("modes by their flags, with defaults of their own") {
  const ParsedBench shape = parse_bench({"--device", "cpu"});
  CHECK(shape.mode == BenchMode::kShape);
  CHECK(shape.flags.options.n_prompt == std::vector<int>{128});
  CHECK(shape.flags.options.shortlist() == 8192);
  CHECK(std::string(shape.flags.options.dtype()) == "int8");
  const ParsedBench tests = parse_bench({"-m", "a", "-m", "b"});
  CHECK(tests.mode == BenchMode::kTests);
  CHECK(tests.flags.options.models == std::vector<std::string>{"a", "b"});
  CHECK(tests.flags.options.n_prompt == std::vector<int>{512});
  CHECK(tests.flags.options.n_gen == std::vector<int>{128});
  const ParsedBench compare = parse_bench({"--compare", "spec", "--tau", "0.4"});
  CHECK(compare.mode == BenchMode::kCompare);
  CHECK(compare.flags.options.sampling.params.temperature == 0);
  CHECK(compare.flags.options.sampling.seed == 1);
}

TEST_CASE("a flag of another mode is refused, and what it needs is said") {
  struct Case {
    std::vector<std::string> arguments, says;
  };
  for (const Case& c : std::vector<Case>{
           {{"--tau", "0.4"}, {"--tau", "--compare spec"}},
           {{"-m", "x", "--tau", "0.4"}, {"--tau", "--compare spec"}},
           {{"-m", "x", "--temp", "1"}, {"--temp", "--compare spec"}},
           {{"-m", "x", "--shape", "1b"}, {"--shape", "leave out -m"}},
           {{"--compare", "spec", "--replay-grid"}, {"--replay-grid", "leave out"}},
           {{"-m", "x", "--head", "folded"}, {"--head", "a shape or --compare"}},
           {{"--compare", "spec", "-p", "8"}, {"--n-prompt", "--prompts"}},
           {{"--compare", "spec", "-d", "8"}, {"--n-depth", "without --compare"}},
           {{"-ngl", "0"}, {"--gpu-layers", "-m"}},
           {{"-m", "x", "-p", "0", "-n", "0"}, {"no test"}},
           {{"-n", "0"}, {"-n", "one number above 0"}},
           {{"-p", "1,2"}, {"-p", "one number"}},
           {{"--compare", "spec", "-n", "1,2"}, {"-n", "one number"}},
           {{"-o", "csv"}, {"-o", "md or json"}},
           {{"--compare", "spec", "--spec", "off"}, {"--spec off"}},
           {{"--compare", "spec", "--raw", "--chat-template", "chatml"}, {"--chat-template"}}}) {
    INFO("arguments: ", c.arguments.back());
    const std::string text = expect_error(ErrorCode::kUsage, [&] { parse_bench(c.arguments); });
    for (const std::string& part : c.says) check_mentions(text, {part});
  }
  for (const Case& c : std::vector<Case>{{{"-o", "bench.json"}, {"--json names a file"}},
                                         {{"--compare", "plain"}, {"expected spec"}},
                                         {{"-m", ""}, {"empty"}},
                                         {{"-p", "1,,2"}, {"--n-prompt"}},
                                         {{"-n", "1.5"}, {"whole numbers"}}}) {
    const ParsedBench refused = parse_bench(c.arguments);
    CHECK(refused.parse.status == 2);
    check_mentions(refused.parse.err, {c.says.front()});
  }
}

}  // namespace bench_output_test
