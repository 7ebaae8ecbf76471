// The command line: numbers, the -ngl spelling, complaints, and the flags that commands share.
#include "cli/common_flags.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "error.h"
#include "parse.h"
#include "process_state.h"
#include "system/number_text.h"
#include "temp_dir.h"
#include "terminal/flag_names.h"

namespace cli_test {

using namespace specbound;
using namespace specbound::test;

namespace {

struct Given : Parse {
  ModelOptions model;
  SamplingOptions sampling;
  ReplyOptions reply;
  TextFlags text;
};

Given parse(std::vector<std::string> arguments) {
  Given given;
  Flags flags("test");
  add_text_flags(flags, given.text, "prompt", "file");
  add_reply_flags(flags, given.reply);
  add_sampling_flags(flags, given.sampling);
  add_model_flags(flags, given.model);
  parse_into(flags, std::move(arguments), given);
  return given;
}

bool accepts(std::vector<std::string> arguments) {
  return !parse(std::move(arguments)).status;
}

bool refuses_options(const ModelOptions& flags) {
  try {
    flags.cpu_options();
  } catch (const Error& e) {
    return e.code() == ErrorCode::kUsage;
  }
  return false;
}

}  // namespace

TEST_CASE("number parsers take whole numbers in whole texts only") {
  CHECK(parse_int("42") == 42);
  CHECK(parse_int("-1") == -1);
  CHECK(parse_int("010") == 10);
  for (const char* bad :
       {"", " 1", "1 ", "+1", "0x10", "1.0", "1e3", "--1", "9223372036854775808"}) {
    CHECK_MESSAGE(!parse_int(bad), bad);
  }
  CHECK(parse_uint("18446744073709551615") == ~uint64_t{0});
  for (const char* bad : {"", "-1", "18446744073709551616", "1x"}) {
    CHECK_MESSAGE(!parse_uint(bad), bad);
  }
  CHECK(parse_number("0.5") == 0.5);
  CHECK(parse_number("1e-3") == 0.001);
  CHECK(parse_number(".5") == 0.5);
  for (const char* bad : {"", "nan", "inf", "-inf", "1e999", "1,5", "0.5f", " 1", "0x1p3"}) {
    CHECK_MESSAGE(!parse_number(bad), bad);
  }
  CHECK(!parse_int(std::string_view("1\0", 2)));
}

TEST_CASE("flags arrive") {
  const Given f = parse({"-m",
                         "a.gguf",
                         "-c",
                         "128",
                         "-t",
                         "3",
                         "-n",
                         "7",
                         "--temp",
                         "0.5",
                         "--top-k",
                         "5",
                         "--top-p",
                         "0.9",
                         "--min-p",
                         "0",
                         "--presence-penalty",
                         "-2",
                         "--frequency-penalty",
                         "0.25",
                         "--repeat-penalty",
                         "1.1",
                         "--repeat-last-n",
                         "-1",
                         "-s",
                         "9",
                         "--sys",
                         "be brief",
                         "--ignore-eos",
                         "--no-repack",
                         "--stats-json",
                         "s.json",
                         "--trace",
                         "t.jsonl",
                         "--show-exits"});
  REQUIRE(!f.status);
  CHECK(f.model.model == "a.gguf");
  CHECK(f.model.n_ctx == 128);
  CHECK(f.model.n_threads == 3);
  CHECK(f.model.no_repack);
  CHECK(f.reply.n_predict == 7);
  CHECK(f.reply.system == "be brief");
  CHECK(f.reply.ignore_eos);
  CHECK(f.reply.stats_json == "s.json");
  CHECK(f.reply.trace == "t.jsonl");
  CHECK(f.reply.show_exits);
  const SamplingParams p = f.sampling.resolve();
  CHECK(p.temperature == 0.5f);
  CHECK(p.top_k == 5);
  CHECK(p.top_p == 0.9f);
  CHECK(p.min_p == 0);
  CHECK(p.presence_penalty == -2);
  CHECK(p.frequency_penalty == 0.25f);
  CHECK(p.repeat_penalty == 1.1f);
  CHECK(p.repeat_last_n == -1);
  CHECK(p.seed == 9);
}

TEST_CASE("llama.cpp's other spellings are known") {
  const Given f =
      parse({"-sys", "be brief", "--temperature", "0.5", "--predict", "7", "-ngl", "0"});
  REQUIRE(!f.status);
  CHECK(f.reply.system == "be brief");
  CHECK(f.sampling.params.temperature == 0.5f);
  CHECK(f.reply.n_predict == 7);
  CHECK(f.model.device.layers == 0);
  CHECK(parse({"--system-prompt=x"}).reply.system == "x");
  CHECK(parse({"-sys=y"}).reply.system == "y");
  CHECK(parse({"-p", "-sys"}).text.text == "-sys");
}

TEST_CASE("-hf names a model of the hub, as llama.cpp has it") {
  CHECK(parse({"-hf", "own/stories"}).model.model == "hf:own/stories");
  CHECK(parse({"-hf", "own/stories:Q8_0"}).model.model == "hf:own/stories:Q8_0");
  CHECK(parse({"--hf-repo=hf:own/stories"}).model.model == "hf:own/stories");
  CHECK_THROWS_WITH_AS(parse({"-hf", "own/stories", "-m", "a.gguf"}),
                       "-m and -hf both name a model: give one of them", Error);
}

TEST_CASE("a word of one dash that is no flag is not taken apart") {
  for (const char* word : {"-hello", "-no-cnv", "-fa", "-px", "-h1", "-mdraft", "-nx", "-s-"}) {
    const Given f = parse({word});
    INFO(word, " ", f.out, f.err);
    CHECK(f.status == 2);
    CHECK(f.err.starts_with(std::string("specbound test: unknown option ") + word + ";"));
  }
  const Given joined = parse({"-n7", "-c4096", "-t2", "-s-1", "-ma.gguf", "-f./a"});
  REQUIRE_MESSAGE(!joined.status, joined.err);
  CHECK(joined.reply.n_predict == 7);
  CHECK(joined.model.n_ctx == 4096);
  CHECK(joined.model.n_threads == 2);
  CHECK(!joined.sampling.seed);
  CHECK(joined.model.model == "a.gguf");
  CHECK(joined.text.file == "./a");
  CHECK(parse({"-p", "-hello"}).text.text == "-hello");
}

TEST_CASE("a name that is nearly one of them is told") {
  CHECK(parse({"--tmep", "1"}).err ==
        "specbound test: unknown option --tmep; did you mean --temp? specbound test --help lists "
        "the options\n");
  CHECK(parse({"--frobnicate"}).err ==
        "specbound test: unknown option --frobnicate; specbound test --help lists the options\n");
  CHECK(parse({"-"}).err.find("unexpected argument -;") != std::string::npos);
  CHECK(parse({"---"}).status == 2);
}

TEST_CASE("without flags: the documented defaults and a seed of its own") {
  const Given f = parse({});
  REQUIRE(!f.status);
  const SamplingParams p = f.sampling.resolve(), defaults;
  CHECK(p.temperature == defaults.temperature);
  CHECK(p.top_k == defaults.top_k);
  CHECK(f.reply.n_predict == -1);
  CHECK(f.reply.stop.empty());
  CHECK(!f.reply.show_exits);
  CHECK(f.model.cpu_options().repack);
  CHECK(!f.sampling.seed);
  // Four equal draws of 32 bits would be a miracle.
  bool differs = false;
  for (int i = 0; i < 3; ++i) differs |= f.sampling.resolve().seed != p.seed;
  CHECK(differs);
}

TEST_CASE("the last one of a repeated flag counts") {
  const Given f = parse({"--temp", "1", "--sys", "a", "--temp", "0.25", "--sys", "b"});
  REQUIRE(!f.status);
  CHECK(f.sampling.params.temperature == 0.25f);
  CHECK(f.reply.system == "b");
}

TEST_CASE("of two prompts neither is dropped: they are refused") {
  for (const std::vector<std::string>& twice : std::vector<std::vector<std::string>>{
           {"-p", "a", "-p", "b"}, {"-p", "a", "--prompt=b"}, {"-f", "a", "--file", "b"}}) {
    const Given f = parse(twice);
    CHECK(f.status == 2);
    CHECK(f.err.find(": expected once, found 2 times; ") != std::string::npos);
  }
}

TEST_CASE("what this CPU has no kernels for is refused") {
  CHECK(refuses_options(parse({"--isa", "sse"}).model));
  CHECK(!refuses_options(parse({"--isa", "portable"}).model));
}

TEST_CASE("an empty file name is refused, not taken for a flag left out") {
  for (const char* flag : {"-m", "--model", "-f", "--stats-json", "--trace"}) {
    for (const bool joined : {false, true}) {
      if (joined && flag[1] != '-') continue;
      const Given f = joined ? parse({flag + std::string("=")}) : parse({flag, ""});
      INFO(flag, " ", f.err);
      CHECK(f.status == 2);
      CHECK(f.err.find("expected the name of a file, found an empty one") != std::string::npos);
    }
  }
}

TEST_CASE("-p and -f: one of them, and an empty prompt only when asked for") {
  const test::TempDir folder;
  const test::StdinFrom no_input(folder, "");
  const auto refusal = [](const TextFlags& text) {
    try {
      text.prompt();
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::kUsage);
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(parse({"-p", "a\n"}).text.prompt() == "a\n");
  CHECK(parse({"-p", ""}).text.prompt() == "");
  CHECK(parse({"-p", ""}).text.given() == "");
  CHECK(refusal(parse({"-p", "", "-f", "x"}).text).starts_with("-p and -f both name a text"));
  CHECK_THROWS_AS(parse({"-p", "a", "-f", "x"}).text.given(), Error);
  const std::string path = folder / "text";
  const auto from_file = [&](const char* content) {
    std::ofstream(path, std::ios::binary) << content;
    return parse({"-f", path}).text;
  };
  CHECK(from_file("a\r\n").prompt() == "a");
  CHECK(from_file("a\r\n").given() == "a");
  CHECK(from_file("\n\n").prompt() == "\n");
  for (const char* nothing : {"", "\n", "\r\n"}) {
    CHECK(refusal(from_file(nothing)).find("expected a prompt, found no text") !=
          std::string::npos);
  }
  CHECK(from_file("").given() == "");
}

TEST_CASE("what is piped in stands behind the prompt of -p") {
  const test::TempDir folder;
  const auto prompt = [&](std::vector<std::string> arguments, const std::string& piped) {
    const test::StdinFrom input(folder, piped);
    return parse(std::move(arguments)).text.prompt();
  };
  CHECK(prompt({"-p", "Sum this up:"}, "one\ntwo\n") == "Sum this up:\n\none\ntwo");
  CHECK(prompt({"-p", "a"}, "") == "a");
  CHECK(prompt({"-p", "a"}, "\n") == "a");
  CHECK(prompt({"-p", ""}, "b\n") == "b");
  CHECK(prompt({}, "b\n") == "b");
}

TEST_CASE("prompts are taken as they are") {
  CHECK(parse({"-p", ""}).text.text == "");
  CHECK(!parse({"-p", ""}).status);
  CHECK(parse({"-p", "-ngl"}).text.text == "-ngl");
  CHECK(parse({"-p", "--help"}).text.text == "--help");
  CHECK(parse({"-p", "--temp=3"}).text.text == "--temp=3");
  CHECK(parse({"-p", "[1,2]"}).text.text == "[1,2]");
  CHECK(parse({"-p", "{}"}).text.text == "{}");
  CHECK(parse({"-p", "--"}).text.text == "--");
  CHECK(parse({"-p", "\"quoted\""}).text.text == "\"quoted\"");
  CHECK(parse({"-p", " a\nb\t"}).text.text == " a\nb\t");
  CHECK(parse({"-p", "\xff\xfe"}).text.text == "\xff\xfe");
  CHECK(parse({"--prompt="}).text.text == "");
  CHECK(!parse({"--prompt="}).status);
  CHECK(parse({"--prompt=a=b"}).text.text == "a=b");
}

TEST_CASE("--stop counts as often as it is given and takes any text as it is") {
  using Strings = std::vector<std::string>;
  const auto stop = [](std::vector<std::string> arguments) {
    const Given f = parse(std::move(arguments));
    CHECK(!f.status);
    return f.reply.stop.strings();
  };
  CHECK(stop({"--stop", "a", "-n", "3", "--stop", "b"}) == Strings{"a", "b"});
  CHECK(stop({"--stop=a,b", "--stop", "[1,2]"}) == Strings{"a,b", "[1,2]"});
  for (const char* text : {"{}", "[]", "--", "-n", "--stop", "-p", "%%", " ", "\n", "\\n", "a=b",
                           "\"q\"", "\xff\x80", "-ngl"}) {
    CHECK(stop({"--stop", text}) == Strings{text});
    CHECK(stop({std::string("--stop=") + text}) == Strings{text});
  }
  CHECK(parse({"--stop", "a", "stray"}).status == 2);
  std::vector<std::string> many;
  for (int i = 0; i < 16; ++i) many.insert(many.end(), {"--stop", "a"});
  CHECK(stop(many).size() == 16);
  many.insert(many.end(), {"--stop", "b"});
  CHECK(parse(many).err.starts_with(
      "specbound test: --stop: expected at most 16 stop strings, found 17; "));
  for (const Strings& empty : {Strings{"--stop", ""}, Strings{"--stop="}}) {
    const Given f = parse(empty);
    CHECK(f.status == 2);
    CHECK(f.err.starts_with(
        "specbound test: --stop: expected a stop string of 1 to 256 bytes, found 0; "));
  }
  CHECK(stop({"--stop", std::string(256, 'x')}).size() == 1);
}

TEST_CASE("a trace never goes between the words of the text") {
  const Given f = parse({"--trace", "-"});
  CHECK(f.status == 2);
  CHECK(f.err.starts_with("specbound test: --trace: expected a file, found -: stdout carries"));
  CHECK(parse({"--trace", "/dev/stderr"}).reply.trace == "/dev/stderr");
  CHECK(parse({"--trace", "-x"}).reply.trace == "-x");
}

TEST_CASE("wrong usage gives status 2") {
  for (const std::vector<std::string>& bad : std::vector<std::vector<std::string>>{
           {"--frobnicate"},
           {"stray"},
           {"--temp"},
           {"--temp", "hot"},
           {"--temp", "nan"},
           {"--temp", "inf"},
           {"--temp", "-0.5"},
           {"--temp", "101"},
           {"--temp", ""},
           {"--top-p", "1.01"},
           {"--top-k", "-3"},
           {"--top-k", "4.5"},
           {"--min-p", "2"},
           {"--presence-penalty", "2.5"},
           {"--frequency-penalty", "-3"},
           {"--repeat-penalty", "0"},
           {"--repeat-last-n", "-2"},
           {"--stop"},
           {"--stop", std::string(257, 'x')},
           {"--trace"},
           {"-n", "many"},
           {"-n", "-2"},
           {"-n", "99999999999999999999"},
           {"-c", "-1"},
           {"-c", "12x"},
           {"-t", "-1"},
           {"-t", "257"},
           {"-ngl", "some"},
           {"--device", "gpu"},
           {"--dtype", "q4"},
           {"--prefill", "fast"},
           {"-s", "-2"},
           {"-s", "18446744073709551616"},
       }) {
    const Given f = parse(bad);
    INFO(bad.front(), " ", bad.back(), ": ", f.err);
    CHECK(f.status == 2);
    CHECK(f.out == "");
    CHECK(f.err.starts_with("specbound test: "));
    CHECK(f.err.find(bad.front().substr(1)) != std::string::npos);  // names the flag
    CHECK(f.err.ends_with("specbound test --help lists the options\n"));
    CHECK(std::count(f.err.begin(), f.err.end(), '\n') == 1);
  }
}

TEST_CASE("a sampling parameter out of its range is told in the sampler's words") {
  CHECK(parse({"--temp", "101"})
            .err.starts_with("specbound test: --temp: expected 0 to 100, found 101; "));
  CHECK(parse({"--top-k", "-3"})
            .err.starts_with("specbound test: --top-k: expected 0 or more, found -3; "));
  CHECK(parse({"--temp", "hot"})
            .err.starts_with("specbound test: --temp: expected a number, found \"hot\"; "));
  CHECK(parse({"--top-p", "1e300"}).status == 2);
  CHECK(parse({"--repeat-last-n", "-9223372036854775808"}).status == 2);
  CHECK(accepts({"--top-p", "7", "--top-p", "0.5"}));  // only the last one counts
}

TEST_CASE("the limits themselves are fine") {
  CHECK(accepts({"--temp", "0"}));
  CHECK(accepts({"--temp", "100"}));
  CHECK(accepts({"--top-p", "1", "--min-p", "1", "--top-k", "0"}));
  CHECK(accepts({"-c", "0"}));
  CHECK(accepts({"-n", "-1"}));
  CHECK(accepts({"-n", "0"}));
  CHECK(accepts({"-t", "0"}));
  CHECK(accepts({"-t", std::to_string(kMaxThreads)}));
  CHECK(accepts({"-s", "18446744073709551615"}));
  CHECK(accepts({"-s", "-1"}));
  CHECK(!parse({"-s", "5", "-s", "-1"}).sampling.seed);
}

TEST_CASE("a switch is on or off") {
  CHECK(parse({"--ignore-eos=on"}).reply.ignore_eos);
  CHECK(!parse({"--ignore-eos", "--ignore-eos=off"}).reply.ignore_eos);
  CHECK(parse({"--ignore-eos=maybe"}).err ==
        "specbound test: --ignore-eos: expected on or off, found \"maybe\"; specbound test --help "
        "lists the options\n");
}

TEST_CASE("complaints stay one printable line whatever they quote") {
  const Given f = parse({"--temp", "1\n2\x1b[31m"});
  CHECK(f.status == 2);
  CHECK(f.err.find("\"1\\x0a2\\x1b[31m\"") != std::string::npos);
  const Given stray = parse({"\x1b[31m\nstray"});
  CHECK(stray.err.find('\x1b') == std::string::npos);
  CHECK(std::count(stray.err.begin(), stray.err.end(), '\n') == 1);
  CHECK(parse({"\xc2\x9bm"}).err.find("\xc2\x9b") == std::string::npos);  // a C1 control
  CHECK(parse({std::string(100000, 'x')}).err.size() < 600);
}

TEST_CASE("parameters in messages become flags, and nothing else does") {
  CHECK(with_flags("d_max: expected 1, found 0") == "--d-max: expected 1, found 0");
  CHECK(with_flags("tau: expected 0 to 1") == "--tau: expected 0 to 1");
  CHECK(with_flags("temperature: expected 0 to 100") == "--temp: expected 0 to 100");
  CHECK(with_flags("words; pre_name=NAME says which") == "words; --pre NAME says which");
  CHECK(
      with_flags("give another features_dir, or fresh=on to start over, or leave resume=on out") ==
      "give another --features-dir, or --fresh to start over, or leave --resume out");
  CHECK(with_flags("give a smaller n_ctx, or fewer train_layers") ==
        "give a smaller -c, or fewer --layers");
  CHECK(with_flags("record them with trace=FILE") == "record them with --trace FILE");
  CHECK(with_flags("trace: expected a file") == "trace: expected a file");  // its name
  CHECK(with_flags("no context (n_ctx=N) is; device=cpu or dtype=int8 would") ==
        "no context (-c N) is; --device cpu or --dtype int8 would");
  CHECK(with_flags("speculator=draft: needs draft_model=FILE, a smaller one") ==
        "--speculator draft: needs --model-draft (-md) FILE, a smaller one");
  CHECK(with_flags("parse_special: works with raw=on only") ==
        "--parse-special: works with --raw only");
  for (const char* same :
       {"", "model: m.gguf, loaded", "the tau: of", "a/device=cpu", "found \"tau=1\"", "tau 0.5",
        "top_k.gguf: cannot open", "device", "\"check_layers\": expected a list", "heads"}) {
    CHECK(with_flags(same) == same);
  }
  for (const char* flag : {"d-max", "model-draft", "temp", "tau", "check-layers"}) {
    CHECK(with_flags(parameter_of(flag) + "=x") ==
          (std::string(flag) == "model-draft" ? "-md x" : std::string("--") + flag + " x"));
  }
}

TEST_CASE("help is status 0") {
  for (const char* flag : {"--help", "-h"}) {
    const Given f = parse({flag});
    CHECK(f.status == 0);
    CHECK(f.err == "");
    CHECK(f.out.find("Usage: specbound test") != std::string::npos);
    CHECK(f.out.find("--repeat-penalty") != std::string::npos);
    CHECK(f.out.find("\n\n\n") == std::string::npos);
  }
}

}  // namespace cli_test
