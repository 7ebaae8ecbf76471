// What `specbound verify` goes through, read from the command line and from files.
#include <doctest/doctest.h>

#include <set>

#include "cli/verify.h"
#include "expect_error.h"
#include "tools/prompt_sets.h"

namespace verify_test {

using namespace specbound;
using namespace specbound::test;

TEST_CASE("verify: temperatures are a strict list") {
  CHECK(parse_temperatures("0") == std::vector<float>{0});
  CHECK(parse_temperatures("0,0.7,1.5") == std::vector<float>{0, 0.7f, 1.5f});
  for (const char* text : {"", ",", "0,", ",0", "0,,1", "0 ,1", "0;1", "nan", "inf", "1e999", "0x1",
                           "warm", "0.7.1", "0\n", "-1", "0,101", "1e30"}) {
    CAPTURE(text);
    check_mentions(expect_error(ErrorCode::kUsage, [&] { parse_temperatures(text); }), {"--temps"});
  }
  std::string many = "0";
  for (int i = 0; i < 5000; ++i) many += ",0";
  expect_error(ErrorCode::kUsage, [&] { parse_temperatures(many); });
}

TEST_CASE("verify: seeds are a count or a list") {
  CHECK(parse_seeds("1") == std::vector<uint64_t>{1});
  CHECK(parse_seeds("3") == std::vector<uint64_t>{1, 2, 3});
  CHECK(parse_seeds("7,") == std::vector<uint64_t>{7});
  CHECK(parse_seeds("0,18446744073709551615") == std::vector<uint64_t>{0, 18446744073709551615u});
  for (const char* text : {"", "0", "-1", "1001", ",", ",1", "1,,2", "1,2,", "1,-2", "1.5", " 1",
                           "18446744073709551616", "1,18446744073709551616", "two"}) {
    CAPTURE(text);
    check_mentions(expect_error(ErrorCode::kUsage, [&] { parse_seeds(text); }), {"--seeds"});
  }
}

TEST_CASE("verify: a prompt a line, whatever bytes it holds") {
  using Lines = std::vector<std::string>;
  CHECK(prompt_lines("one\n\ntwo\r\n\r\n three ", "f") == Lines{"one", "two", " three "});
  const std::string odd("\xff\xfe\x80\0x\n\x1b[31m\xc3", 12);
  CHECK(prompt_lines(odd, "f") ==
        Lines{std::string("\xff\xfe\x80\0x", 5), std::string("\x1b[31m\xc3")});
  for (const char* nothing : {"", "\n", "\r\n\n\r\n"}) {
    check_mentions(expect_error(ErrorCode::kUsage, [&] { prompt_lines(nothing, "list.txt"); }),
                   {"list.txt", "no text"});
  }
  check_mentions(
      expect_error(ErrorCode::kLimit,
                   [] { prompt_lines("a\n\n" + std::string((1 << 20) + 1, 'b'), "list.txt"); }),
      {"list.txt, line 3", "1024 KiB", "1048577"});
  std::string many;
  for (int i = 0; i < 100001; ++i) many += "a\n";
  check_mentions(expect_error(ErrorCode::kLimit, [&] { prompt_lines(many, "list.txt"); }),
                 {"100000 prompts"});
}

TEST_CASE("verify: the built-in prompts are many and different") {
  const std::vector<std::string>& prompts = verify_prompts();
  CHECK(prompts.size() >= 10);
  CHECK(std::set<std::string>(prompts.begin(), prompts.end()).size() == prompts.size());
}

}  // namespace verify_test
