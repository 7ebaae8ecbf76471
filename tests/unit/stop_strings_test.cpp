// Stop strings: found byte by byte however the text is cut into tokens, never shown, not even their
// beginnings, and the same in drafts as in plain decoding.
#include "text/stop_strings.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

#include "decode/generate.h"
#include "drafters/forced_head.h"
#include "drafters/specbound.h"
#include "engine_rig.h"
#include "error.h"
#include "tiny_vocabulary.h"

namespace stop_strings_test {

using namespace specbound;
using namespace specbound::test;

namespace {

// Tokens are places in a list of pieces.
ReplyText::Piece pieces(std::vector<std::string> list) {
  return [list = std::move(list)](int32_t token) { return list.at(static_cast<size_t>(token)); };
}

std::string joined(const std::vector<ReplyText::Stretch>& stretches) {
  std::string text;
  for (const auto& stretch : stretches) text += stretch.bytes;
  return text;
}

// What is shown of these pieces one after another, "|" behind each; "!" where the reply ends.
std::string shown(std::vector<std::string> stop, const std::vector<std::string>& list,
                  ReplyText::FirstPiece first_piece = {}) {
  const StopStrings strings(std::move(stop));
  ReplyText text(strings, pieces(list), std::move(first_piece));
  std::vector<int32_t> reply;
  std::string out;
  for (size_t i = 0; i < list.size(); ++i) {
    reply.push_back(static_cast<int32_t>(i));
    const bool foreseen = text.ends(reply);
    out += joined(text.push(reply.back())) + "|";
    CHECK(text.ends(reply) == foreseen);
    if (foreseen) return out + "!" + joined(text.finish());
  }
  return out + joined(text.finish());
}

// The text up to the stop string that is complete first, the slow way.
std::string cut(const std::vector<std::string>& stop, const std::string& text, bool& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& s : stop) {
      if (s.size() <= end && text.compare(end - s.size(), s.size(), s) == 0) {
        longest = std::max(longest, s.size());
      }
    }
    if (longest > 0) {
      stops = true;
      return text.substr(0, end - longest);
    }
  }
  stops = false;
  return text;
}

std::string cut_leading_space(int32_t, std::string_view piece) {
  if (piece.starts_with(' ')) piece.remove_prefix(1);
  return std::string(piece);
}

}  // namespace

TEST_CASE("a stop string ends the text before it, in one token or over several") {
  CHECK(shown({"STOP"}, {"go on ", "STOP", "x"}) == "go on ||!");
  CHECK(shown({"STOP"}, {"S", "T", "O", "P", "x"}) == "||||!");
  CHECK(shown({"STOP"}, {"no", "nSTO", "Px"}) == "no|n||!");
  CHECK(shown({"STOP"}, {"STO", "STOP"}) == "|STO|!");
}

TEST_CASE("beginnings are held back until they are none") {
  CHECK(shown({"###"}, {"a#", "#", "b", "##", "#", "c"}) == "a||##b|||!");
  CHECK(shown({"###"}, {"a", "##"}) == "a||##");  // over without it: nothing is lost
  CHECK(shown({"aab"}, {"a", "a", "a", "b"}) == "||a||!");
  CHECK(shown({"abab"}, {"ab", "a", "ca", "bab"}) == "||abac||!");
  CHECK(shown({"x"}, {"", "", "a", "", "x"}) == "||a|||!");
}

TEST_CASE("of several stop strings the one that is complete first counts, then the longest") {
  CHECK(shown({"abc", "b"}, {"xabc"}) == "xa|!");
  CHECK(shown({"abc", "b"}, {"xa", "b", "c"}) == "x|a|!");  // however it is cut
  CHECK(shown({"c", "abc"}, {"xabc"}) == "x|!");
  CHECK(shown({"b", "cd"}, {"xcd b"}) == "x|!");
  CHECK(shown({"aaaa", "ab"}, {"aaa", "b"}) == "|aa|!");
}

TEST_CASE("without stop strings every piece comes at once") {
  CHECK(shown({}, {"a", "", "bc"}) == "a||bc|");
}

TEST_CASE("stop strings are bytes: characters cut into byte tokens are found") {
  const std::string llama = "\xF0\x9F\xA6\x99";
  CHECK(shown({llama}, {"a\xF0", "\x9F", "\xA6", "\x99", "b"}) == "a||||!");
  CHECK(shown({llama}, {"a\xF0", "\x9F", "\xA6", "\x98"}) == "a|||\xF0\x9F\xA6\x98|");
  CHECK(shown({"\n\n"}, {"one\n", "two\n", "\n"}) == "one|\ntwo||!");
  CHECK(shown({std::string("\0x", 2)}, {std::string("a\0", 2), "x"}) == "a||!");
}

TEST_CASE("stop strings are looked for in what is shown: the first space is not there") {
  CHECK(shown({" a"}, {" a", " a"}, cut_leading_space) == "a||!");
  CHECK(shown({" "}, {" ", "b", " c"}, cut_leading_space) == "|b||!");
  CHECK(shown({"a"}, {"", " a"}, cut_leading_space) == "||!");
  // A first piece that is all space counts as the first, as it does without stop strings.
  CHECK(shown({"zz"}, {" ", " b"}, cut_leading_space) == "| b|");
}

TEST_CASE("held bytes keep the mark of their token") {
  const StopStrings strings({"abcd"});
  ReplyText text(strings, pieces({"xa", "b", "cz", "ab"}));
  const auto first = text.push(0, 5);
  REQUIRE(first.size() == 1);
  CHECK(first[0].bytes == "x");
  CHECK(first[0].mark == 5);
  CHECK(text.push(1, 7).empty());
  const auto rest = text.push(2, 0);
  REQUIRE(rest.size() == 3);
  CHECK((rest[0].bytes == "a" && rest[0].mark == 5));
  CHECK((rest[1].bytes == "b" && rest[1].mark == 7));
  CHECK((rest[2].bytes == "cz" && rest[2].mark == 0));
  text.push(3, 9);
  const auto last = text.finish();
  REQUIRE(last.size() == 1);
  CHECK((last[0].bytes == "ab" && last[0].mark == 9));
}

TEST_CASE("drafts are looked at and forgotten") {
  const StopStrings strings({"abc"});
  ReplyText text(strings, pieces({"a", "b", "c", "x", ""}));
  text.push(0);
  using Ids = std::vector<int32_t>;
  CHECK(!text.ends(Ids{0}));
  CHECK(!text.ends(Ids{0, 1}));
  CHECK(text.ends(Ids{0, 1, 2}));
  CHECK(text.ends(Ids{0, 4, 1, 4, 2}));
  CHECK(!text.ends(Ids{0, 3, 1, 2}));
  CHECK(!text.ends(Ids{0, 2}));
  CHECK(joined(text.push(3)) == "ax");  // none of that stayed
  CHECK(!text.ends(Ids{0, 3, 1, 2}));
  CHECK(text.ends(Ids{0, 3, 0, 1, 2}));
}

TEST_CASE("what cannot be a stop string is refused") {
  const auto refusal = [](std::vector<std::string> strings) {
    try {
      StopStrings stop(std::move(strings));
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::kUsage);
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(refusal({""}) == "expected a stop string of 1 to 256 bytes, found 0");
  CHECK(refusal({"a", std::string(257, 'a')}).ends_with("found 257"));
  CHECK(refusal(std::vector<std::string>(17, "a")) == "expected at most 16 stop strings, found 17");
  CHECK(refusal(std::vector<std::string>(16, std::string(256, 'a'))) == "");
}

TEST_CASE("any text in any pieces: the same cut, and no byte held back for nothing") {
  std::mt19937 random(5);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const auto letters = [&](size_t n) {
    std::string s;
    for (size_t i = 0; i < n; ++i) s += "ab\xE2\n"[below(4)];
    return s;
  };
  int stopped = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::string> stop, list;
    for (size_t n = 1 + below(4); n > 0; --n) stop.push_back(letters(1 + below(6)));
    for (size_t n = below(12); n > 0; --n) list.push_back(letters(below(4)));
    const bool cuts = below(2) == 0;  // the first piece's first byte
    const auto first_piece = [&](int32_t, std::string_view piece) {
      return std::string(piece.substr(cuts ? 1 : 0));
    };
    const StopStrings strings(stop);
    ReplyText text(strings, pieces(list), first_piece);
    std::string all, out;
    std::vector<int32_t> reply;
    bool begun = false, stops = false;
    for (size_t at = 0; at < list.size() && !stops; ++at) {
      reply.push_back(static_cast<int32_t>(at));
      all += !begun && !list[at].empty() ? first_piece(0, list[at]) : list[at];
      begun |= !list[at].empty();
      // Seen as a draft behind what was pushed and behind all drafts before it.
      const std::string expected = cut(stop, all, stops);
      REQUIRE(text.ends(reply) == stops);
      REQUIRE(ReplyText(strings, pieces(list), first_piece).ends(reply) == stops);
      out += joined(text.push(reply.back()));
      REQUIRE(text.ends(reply) == stops);
      const size_t held = stops ? 0 : strings.begun(all);
      REQUIRE(out == expected.substr(0, expected.size() - held));
    }
    stopped += stops;
    out += joined(text.finish());
    REQUIRE(out == cut(stop, all, stops));
  }
  CHECK(stopped > 5000);
  CHECK(stopped < 19000);
}

TEST_CASE("tokens without text are many, and cost nothing") {
  const StopStrings strings({"ab"});
  int asked = 0;
  ReplyText text(strings, [&](int32_t token) {
    ++asked;
    return std::string(token == 0 ? "" : token == 1 ? "a" : "b");
  });
  std::vector<int32_t> reply = {1};
  text.push(1);
  for (int i = 0; i < 1000; ++i) {
    reply.push_back(0);
    text.push(0);
  }
  asked = 0;
  reply.push_back(2);
  CHECK(text.ends(reply));  // over all of them
  CHECK(asked == 1);
}

TEST_CASE("byte tokens of a real vocabulary; ids outside it are no text") {
  TinyVocabulary vocabulary;
  vocabulary.add_bytes();
  vocabulary.tokens.push_back({"\xE2\x96\x81hi"});
  const auto tokenizer = vocabulary.load();
  const StopStrings strings({"\xC3\xA9", "</s>"});
  ReplyText text(
      strings, [&](int32_t id) { return tokenizer->piece(id); }, cut_leading_space);
  const int hi = 3 + 256, first_byte = 3;
  std::string out;
  std::vector<int32_t> reply;
  for (const int32_t token : {-1, hi, 2, 1 << 30, hi, first_byte + 0xC3}) {
    reply.push_back(token);
    CHECK(!text.ends(reply));
    out += joined(text.push(token));
  }
  CHECK(out == "hi hi");
  reply.push_back(first_byte + 0xA9);
  CHECK(text.ends(reply));
  CHECK(text.push(reply.back()).empty());
  CHECK(text.finish().empty());
}

TEST_CASE("a stop string completed at any slot of a round leaves the text of plain decoding") {
  constexpr int kLayers = 4, kTokens = 40;
  TinySpec spec;
  spec.n_layers = kLayers;
  spec.type = DType::kQ8_0;
  const TinyModel model(spec);
  const std::vector<int32_t> prompt = token_ids(7, model.config.vocab_size);
  // Pieces of 0 to 2 letters of a small alphabet.
  const auto piece = [](int32_t token) {
    return std::string("abcdefgh")
        .substr(static_cast<size_t>(token) % 7, static_cast<size_t>(token) % 3);
  };
  SamplingParams sampling;
  sampling.temperature = 1.2f;
  sampling.seed = 3;
  const auto backend = model.backend(best_isa(), 1);

  struct Outcome {
    std::string text;
    std::vector<int32_t> tokens;
    StopReason stop;
    int last_slot;
    DraftEnd draft_end;
  };
  const auto run = [&](const StopStrings& strings, Speculator* speculator) {
    Session session(*backend, Sampler(sampling));
    session.set_speculator(speculator);
    ReplyText text(strings, piece);
    Outcome outcome{};
    GenerateOptions options;
    options.max_tokens = kTokens;
    options.is_stop = [&](std::span<const int32_t> reply) { return text.ends(reply); };
    options.on_token = [&](const TokenEvent& event) {
      outcome.text += joined(text.push(event.token));
      outcome.last_slot = event.slot;
    };
    options.on_round = [&](const RoundEvent& round) { outcome.draft_end = round.draft_end; };
    outcome.stop = session.generate(prompt, options).stop;
    outcome.text += joined(text.finish());
    outcome.tokens.assign(session.tokens().begin(), session.tokens().end());
    for (int l = 1; l <= kLayers; ++l) {
      CHECK(backend->kv_len(l) == static_cast<int>(outcome.tokens.size()) - 1);
    }
    return outcome;
  };

  const Outcome whole = run(StopStrings(), nullptr);
  std::string letters;
  for (size_t i = prompt.size(); i < whole.tokens.size(); ++i) letters += piece(whole.tokens[i]);
  REQUIRE(whole.text == letters);
  REQUIRE(letters.size() > 20);
  std::set<int> slots;
  int foreseen = 0;
  for (size_t begin = 0; begin < letters.size(); ++begin) {
    for (const size_t size : {1, 3, 6}) {
      const StopStrings strings({letters.substr(begin, size), "not in it"});
      const Outcome plain = run(strings, nullptr);
      CHECK(plain.stop == StopReason::kStopString);
      for (const ForcedRates rates : {ForcedRates{1, 1}, ForcedRates{0.9, 0.6}}) {
        ForcedHead head(forced_by_chance(whole.tokens, {1, 2, 3}, model.config.vocab_size, rates,
                                         begin * 8 + size));
        SpecBound speculator(head, {}, kLayers);
        const Outcome drafted = run(strings, &speculator);
        CHECK(drafted.text == plain.text);
        CHECK(drafted.tokens == plain.tokens);
        CHECK(drafted.stop == plain.stop);
        slots.insert(drafted.last_slot);
        foreseen += drafted.draft_end == DraftEnd::kReplyEnd;
      }
    }
  }
  CHECK(slots == std::set<int>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(foreseen > 20);
}

}  // namespace stop_strings_test
