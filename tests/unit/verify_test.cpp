// What `specbound verify` goes through, read from the command line and from files; and that the
// comparison it makes holds on models of every element type.
#include <doctest/doctest.h>

#include <set>

#include "cli/verify.h"
#include "decode/side_by_side.h"
#include "decode/specbound.h"
#include "engine_rig.h"
#include "expect_error.h"
#include "tools/prompt_sets.h"

namespace verify_test {

using namespace specbound;
using namespace specbound::test;

TEST_CASE("verify: temperatures are a strict list") {
  CHECK(parse_temperatures("0") == std::vector<float>{0});
  CHECK(parse_temperatures("0,0.7,1.5") == std::vector<float>{0, 0.7f, 1.5f});
  for (const char* text : {"", ",", "0,", ",0", "0,,1", "0 ,1", "0;1", "nan", "inf", "1e999", "0x1",
                           "warm", "0.7.1", "0\n"}) {
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

TEST_CASE("verify: plain and speculative decoding agree to the bit for every element type") {
  for (const DType type : {DType::kQ8_0, DType::kF16, DType::kBF16, DType::kF32}) {
    TinySpec spec;
    spec.n_layers = 5;
    spec.type = type;
    const TinyModel model(spec);
    const auto backend = model.backend(best_isa(), 2, true, 64);
    DifferentialBackend differential(*backend, 64, 60);
    SpecBoundParams params;
    params.w_max = kMaxRows;
    for (const bool forced : {false, true}) {
      for (const float temperature : {0.0f, 1.0f}) {
        SamplingParams sampling;
        sampling.temperature = temperature;
        sampling.repeat_penalty = 1.3f;
        GenerateOptions options;  // to the end of the context
        LensHead lens;
        params.tau = forced ? 0.55f : 0.05f;  // so that the lens drafts too
        std::optional<ForcedHead> head;
        std::optional<SpecBound> speculator(std::in_place, lens, params, spec.n_layers);
        const SideBySide reply = decode_side_by_side(
            *backend, &differential, sampling, token_ids(7, spec.vocab_size), options,
            [&](std::span<const int32_t> text) {
              if (forced) {
                head.emplace(forced_by_chance(text, {1, 2, 3, 4}, spec.vocab_size, {0.95, 0.9}, 1));
                speculator.emplace(*head, params, spec.n_layers);
              }
              return &*speculator;
            });
        CAPTURE(forced);
        if (reply.difference) FAIL_CHECK(describe(*reply.difference));
        CHECK(reply.speculative.stop == StopReason::kContext);
        CHECK(reply.speculative.counters.decoded_tokens == 58);
        CHECK(reply.speculative.counters.drafted_tokens > 0);
        if (forced) CHECK(reply.speculative.counters.rounds <= 29);
      }
    }
  }
}

}  // namespace verify_test
