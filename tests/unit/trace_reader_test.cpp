// Traces read back: every round as it was recorded, and files that are cut, broken or hostile.
#include "trace/trace_reader.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "decode/generate.h"
#include "drafters/exit_head.h"
#include "drafters/specbound.h"
#include "engine_rig.h"
#include "expect_error.h"
#include "trace/recorded_rounds.h"
#include "trace_text.h"

namespace trace_reader_test {

using namespace specbound;
using namespace specbound::test;
using Json = nlohmann::ordered_json;

namespace {

RecordedTrace read(const std::string& text) {
  std::istringstream in(text);
  return read_trace(in, "t.jsonl");
}

std::string refusal(const std::string& text, ErrorCode code = ErrorCode::kFormat) {
  return expect_error(code, [&] { read(text); });
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line + "\n");
  return lines;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line;
  return text;
}

// NaN equals NaN here.
bool same(float a, float b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

void check_same(const std::vector<ExitCheck>& a, const std::vector<ExitCheck>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].layer == b[i].layer);
    CHECK(same(a[i].confidence, b[i].confidence));
  }
}

void check_same(const RoundRecord& a, const RoundRecord& b) {
  CHECK(a.round == b.round);
  CHECK(a.pos == b.pos);
  CHECK(a.draft_end == b.draft_end);
  CHECK(a.passes == b.passes);
  CHECK(a.ns == b.ns);
  CHECK(a.drafted() == b.drafted());
  CHECK(a.total_ns() == b.total_ns());
  REQUIRE(a.rows.size() == b.rows.size());
  for (size_t i = 0; i < a.rows.size(); ++i) {
    CHECK(a.rows[i].token == b.rows[i].token);
    CHECK(a.rows[i].exit_layer == b.rows[i].exit_layer);
    CHECK(a.rows[i].parent == b.rows[i].parent);
    CHECK(a.rows[i].drafted_at == b.rows[i].drafted_at);
    CHECK(a.rows[i].text == b.rows[i].text);
    check_same(a.rows[i].checks, b.rows[i].checks);
  }
  REQUIRE(a.tokens.size() == b.tokens.size());
  for (size_t i = 0; i < a.tokens.size(); ++i) {
    const TokenRecord &x = a.tokens[i], &y = b.tokens[i];
    CHECK(x.round == y.round);
    CHECK(x.rows == y.rows);
    CHECK(x.slot == y.slot);
    CHECK(x.pos == y.pos);
    CHECK(x.token == y.token);
    CHECK(x.draft == y.draft);
    CHECK(x.exit_layer == y.exit_layer);
    CHECK(x.ends_reply == y.ends_reply);
    CHECK(x.accepted() == y.accepted());
    CHECK(x.text == y.text);
    check_same(x.checks, y.checks);
  }
}

// Of two replies, each with a round of three rows and a plain one, and one change.
std::string example() {
  TraceText trace;
  trace.reply(TraceText::drafting(4, {2, 5}));
  trace.round({2, 5}, 1);
  trace.settings(TraceText::plain());
  trace.plain_round();
  trace.end();
  trace.reply(TraceText::plain());
  trace.plain_round();
  return trace.text();
}

}  // namespace

TEST_CASE("what decoding told comes back from the file, round by round, with counters and ends") {
  const TinyModel model(q8_0_spec(6));
  const auto backend = model.backend(best_isa(), 1);
  const auto piece = [](int32_t token) {
    return token % 5 == 0 ? std::string() : "<" + std::to_string(token) + "\"\n>";
  };
  const TempDir folder;
  const std::string path = folder / "trace.jsonl";
  std::vector<std::vector<RoundRecord>> told;
  std::vector<Counters> counters;
  {
    Recorder recorder(path, open_output(path));
    recorder.header({"1.2.3", "tiny \xC3\xA9.gguf", 6, 97, backend->n_ctx(), "CPU"}, piece);
    LensHead head;
    SpecBoundParams params;
    params.tau = 0.02f;  // a random model is sure of nothing
    SpecBound speculator(head, params, 6);
    SamplingParams sampling;
    sampling.seed = 18446744073709551615u;
    Session session(*backend, Sampler(sampling));
    for (int number = 0; number < 3; ++number) {
      session.set_speculator(number < 2 ? &speculator : nullptr);
      TraceReply reply;
      reply.regen = 4294967295u;
      reply.prompt_tokens = 9;
      reply.max_tokens = number == 1 ? -1 : 40;
      reply.stop_strings = {"\n\n", "x"};
      reply.seed = sampling.seed;
      reply.temperature = sampling.temperature;
      reply.top_p = sampling.top_p;
      reply.min_p = sampling.min_p;
      reply.top_k = sampling.top_k;
      reply.repeat_last_n = -1;
      reply.repeat_penalty = 1.1f;
      if (number < 2) {
        reply.speculator = "specbound";
        reply.settings = TraceSettings{8, 10, 0.2f, 0.55f, {1, 2, 5}, false, true, false};
        reply.settings->anneal_learned = number == 1;
      }
      recorder.begin_reply(reply);
      GenerateOptions options;
      options.max_tokens = 40;
      options.reply = static_cast<uint32_t>(number);
      told.emplace_back();
      options.on_round = [&](const RoundEvent& event) {
        recorder.round(event);
        told.back().push_back(record_round(event, piece));
      };
      const GenerateStats stats = session.generate(token_ids(9, 97), options);
      counters.push_back(stats.counters);
      TraceEnd end;
      end.stop = "length";
      end.generated_tokens = stats.generated_tokens;
      end.decode_seconds = 1.5;
      end.counters = stats.counters;
      if (number != 2) recorder.end_reply(end);
    }
  }
  const RecordedTrace found = read(read_file(path));
  CHECK(found.header.specbound == "1.2.3");
  CHECK(found.header.model == "tiny \xC3\xA9.gguf");
  CHECK(found.header.n_layers == 6);
  CHECK(found.header.vocab_size == 97);
  CHECK(found.header.n_ctx == backend->n_ctx());
  CHECK(found.header.backend == "CPU");
  REQUIRE(found.replies.size() == 3);
  int drafted = 0;
  for (size_t i = 0; i < 3; ++i) {
    const RecordedReply& reply = found.replies[i];
    CHECK(reply.reply.regen == 4294967295u);
    CHECK(reply.reply.seed == 18446744073709551615u);
    CHECK(reply.reply.max_tokens == (i == 1 ? -1 : 40));
    CHECK(reply.reply.stop_strings == std::vector<std::string>{"\n\n", "x"});
    CHECK(reply.reply.temperature == 0.8f);
    CHECK(reply.reply.top_p == 0.95f);
    CHECK(reply.reply.repeat_penalty == 1.1f);
    CHECK(reply.reply.repeat_last_n == -1);
    CHECK(reply.reply.speculator == (i < 2 ? "specbound" : "none"));
    REQUIRE(reply.reply.settings.has_value() == (i < 2));
    if (i < 2) {
      CHECK(reply.reply.settings->check_layers == std::vector<int>{1, 2, 5});
      CHECK(reply.reply.settings->tau == 0.55f);
      CHECK(!reply.reply.settings->anneal);
      CHECK(reply.reply.settings->anneal_learned == (i == 1));
      CHECK(!reply.reply.settings->width_bound);
    }
    CHECK(reply.changes.empty());
    REQUIRE(reply.rounds.size() == told[i].size());
    Counters of_records;
    for (size_t r = 0; r < told[i].size(); ++r) {
      check_same(reply.rounds[r], told[i][r]);
      of_records.add(reply.rounds[r]);
      drafted += reply.rounds[r].drafted();
    }
    CHECK(of_records == counters[i]);
    REQUIRE(reply.end.has_value() == (i != 2));
    if (i == 2) continue;
    CHECK(reply.end->counters == counters[i]);
    CHECK(reply.end->stop == "length");
    CHECK(reply.end->decode_seconds == 1.5);
    CHECK(!reply.end->ttft_seconds);
  }
  CHECK(drafted > 20);
}

TEST_CASE("changes of settings come with the round they hold from") {
  const RecordedTrace found = read(example());
  REQUIRE(found.replies.size() == 2);
  const RecordedReply& first = found.replies[0];
  CHECK(first.reply.speculator == "specbound");
  REQUIRE(first.changes.size() == 1);
  CHECK(first.changes[0].round == 1);
  CHECK(first.changes[0].reply.speculator == "none");
  CHECK(!first.changes[0].reply.settings);
  CHECK(first.rounds.size() == 2);
  CHECK(first.end.has_value());
  CHECK(!found.replies[1].end);
}

TEST_CASE("a file cut at any byte gives what was whole in it") {
  const std::string text = example();
  const std::vector<std::string> lines = split(text);
  // Rounds that are there once so many lines are.
  std::vector<size_t> rounds_after = {0};
  for (const std::string& line : lines) {
    const bool round = line.find("\"type\":\"round\"") != std::string::npos;
    rounds_after.push_back(rounds_after.back() + (round ? 1 : 0));
  }
  REQUIRE(rounds_after.back() == 3);
  size_t whole = 0, begin = 0;  // lines, and where the next one begins
  for (size_t size = 0; size < text.size(); ++size) {
    // A line is whole without its line end.
    if (whole < lines.size() && size == begin + lines[whole].size() - 1)
      begin += lines[whole++].size();
    const std::string cut = text.substr(0, size);
    if (whole == 0) {
      check_mentions(refusal(cut), {size == 0 ? "lines of a trace, found none" : "line 1"});
      continue;
    }
    const RecordedTrace found = read(cut);
    size_t rounds = 0;
    for (const RecordedReply& reply : found.replies) rounds += reply.rounds.size();
    REQUIRE(rounds == rounds_after[whole]);
  }
}

TEST_CASE("every field must be there, and be what it should be") {
  const std::vector<std::string> lines = split(example());
  int refusals = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    const Json line = Json::parse(lines[i]);
    const auto with = [&](const Json& other) {
      std::vector<std::string> changed = lines;
      changed[i] = other.dump() + "\n";
      return joined(changed);
    };
    for (const auto& item : line.items()) {
      const std::string key = item.key();
      CAPTURE(i);
      CAPTURE(key);
      if (key == "mean_exit_layer") continue;  // follows from the rest
      Json without = line;
      without.erase(key);
      const std::string at = format("line %zu: ", i + 1);
      check_mentions(refusal(with(without)), {at, "\"" + key + "\""});
      const std::vector<Json> wrong = {
          Json::parse("-7"),        Json::parse("1e400", nullptr, false),
          Json::parse("0.5e300"),   Json::parse("[[[]]]"),
          Json::parse("{\"a\":1}"), Json::parse("1e23")};
      for (const Json& value : wrong) {
        if (value.is_discarded()) continue;
        const bool any = key == "type" || key == "settings" || key == "prefill_seconds" ||
                         key == "decode_seconds" || key == "ttft_seconds" ||
                         key == "plain_token_seconds";
        if (any && value.is_number()) continue;
        // A large one is odd, but possible.
        if ((key == "temperature" || key == "repeat_penalty") && value.is_number() &&
            value.get<double>() == 1e23) {
          continue;
        }
        Json other = line;
        other[key] = value;
        CAPTURE(value.dump());
        check_mentions(refusal(with(other)), {at});
        ++refusals;
      }
    }
  }
  CHECK(refusals > 500);
}

TEST_CASE("a round that is a tree comes back, and one that is none is refused") {
  TraceText trace;
  trace.reply(TraceText::drafting(8, {2, 5}));
  trace.tree_round();
  trace.end();
  const std::string text = trace.text();
  const RoundRecord round = read(text).replies.at(0).rounds.at(0);
  REQUIRE(round.rows.size() == 4);
  const int parents[] = {-1, 0, 0, 2}, layers[] = {kNoDraft, 2, 0, 0}, slots[] = {0, 2, 3};
  for (int slot = 0; slot < 4; ++slot) {
    CHECK(round.rows[slot].parent == parents[slot]);
    CHECK(round.rows[slot].drafted_at == layers[slot]);
  }
  REQUIRE(round.tokens.size() == 3);
  for (int i = 0; i < 3; ++i) CHECK(round.tokens[i].slot == slots[i]);
  const auto refused = [&](const std::string& what, const std::string& with,
                           std::initializer_list<std::string_view> words) {
    std::string changed = text;
    const size_t at = changed.find(what);
    CAPTURE(what);
    REQUIRE(at != std::string::npos);
    changed.replace(at, what.size(), with);
    check_mentions(refusal(changed), words);
  };
  refused("\"parent\":2", "\"parent\":3", {"parent", "0 to 2"});
  refused("\"parent\":2", "\"parent\":null", {"parent", "every slot but the first"});
  refused("\"parent\":null", "\"parent\":0", {"parent", "every slot but the first"});
  refused("\"parent\":2", "\"parent\":1", {"exit_layer"});
  refused("\"drafted_at\":2", "\"drafted_at\":5", {"exit_layer"});
  refused("\"drafted_at\":2", "\"drafted_at\":null", {"exit_layer"});
  refused(",\"drafted_at\":2", "", {"drafted_at"});
  // Nor where a sibling hides it.
  std::string hidden = text;
  for (const auto& [what, with] : {std::pair("\"drafted_at\":2", "\"drafted_at\":null"),
                                   {"\"exit_layer\":2", "\"exit_layer\":0"}}) {
    const size_t at = hidden.find(what);
    REQUIRE(at != std::string::npos);
    hidden.replace(at, std::string_view(what).size(), with);
  }
  check_mentions(refusal(hidden), {"exit_layer"});
  refused("\"slot\":2", "\"slot\":1", {"fits its tokens"});
  std::istringstream lines(text);
  check_mentions(
      expect_error(ErrorCode::kUnsupported, [&] { read_recorded_rounds(lines, "t.jsonl"); }),
      {"rounds whose rows are a chain", "a tree"});
}

TEST_CASE("rounds and tokens that contradict each other or the model are refused") {
  const std::vector<std::string> lines = split(example());
  const auto refused = [&](size_t line, const std::string& what, const std::string& with,
                           std::initializer_list<std::string_view> words) {
    std::vector<std::string> changed = lines;
    const size_t at = changed[line - 1].find(what);
    CAPTURE(what);
    REQUIRE(at != std::string::npos);
    changed[line - 1].replace(at, what.size(), with);
    check_mentions(refusal(joined(changed)), words);
  };
  // Lines: header, reply, two tokens, round, settings, token, round, end, reply, token, round.
  REQUIRE(lines.size() == 12);
  refused(1, "\"n_layers\":16", "\"n_layers\":0", {"line 1", "n_layers", "1 to 4096"});
  refused(1, "\"n_layers\":16", "\"n_layers\":5", {"line 2", "check_layers", "3 to 4", "found 5"});
  refused(1, "\"version\":1", "\"version\":2", {"line 1", "version", "found 2"});
  refused(1, "\"vocab_size\":97", "\"vocab_size\":50", {"line 4", "0 to 49", "found 50"});
  refused(2, "\"reply\":0", "\"reply\":1", {"line 2", "0 to 0"});
  refused(2, "[2,5]", "[5,2]", {"line 2", "6 to 15"});
  refused(2, "\"w_max\":4", "\"w_max\":17", {"line 2", "1 to 16"});
  refused(2, "\"tau\":0.55", "\"tau\":1.5", {"line 2", "0 to 1"});
  refused(3, "\"slot\":0", "\"slot\":1", {"line 5", "fits its tokens"});
  refused(3, "\"slot\":0", "\"slot\":3", {"line 3", "0 to 2"});
  refused(3, "\"rows\":3", "\"rows\":2", {"line 5", "fits its tokens"});
  refused(3, "\"pos\":5", "\"pos\":6", {"line 5", "fits its tokens"});
  refused(3, "\"pos\":5", "\"pos\":1001", {"line 3", "0 to 1000"});
  refused(3, "\"exit_layer\":2", "\"exit_layer\":5", {"line 5", "fits its tokens"});
  refused(3, "\"accepted\":true", "\"accepted\":false", {"line 3", "accepted"});
  refused(3, "\"draft\":11", "\"draft\":null", {"line 3", "accepted"});
  refused(5, "\"emitted\":2", "\"emitted\":1", {"line 5", "1 tokens before it, found 2"});
  refused(5, "\"rows\":3", "\"rows\":4", {"line 5", "4 rows"});
  refused(5, "\"draft_end\":\"difficult\"", "\"draft_end\":\"tired\"", {"line 5", "tired"});
  refused(5, "\"exit_layer\":5", "\"exit_layer\":null", {"line 5", "exit_layer", "before a draft"});
  refused(5, "\"exit_layer\":null", "\"exit_layer\":2",
          {"line 5", "exit_layer", "null in all others"});
  refused(5, "\"from\":1,\"to\":2", "\"from\":2,\"to\":1", {"line 5", "2 to 16"});
  refused(5, "\"phase\":\"verify\"", "\"phase\":\"\"", {"line 5", "phase"});
  refused(6, "\"round\":1", "\"round\":2", {"line 6", "1 to 1"});
  refused(8, "\"round\":1", "\"round\":0", {"line 8", "round"});
  refused(9, "\"type\":\"end\"", "\"type\":\"header\"", {"line 9", "one header"});
  refused(9, "\"type\":\"end\"", "\"type\":\"e\u0001nd\"", {"line 9", "JSON"});
  refused(7, "\"type\":\"token\"", "\"type\":\"later\"", {"line 8", "1 tokens before it, found 0"});
  refused(8, "\"type\":\"round\"", "\"type\":\"later\"", {"line 9", "round of the tokens"});
  const auto without = [&](size_t line) {
    std::vector<std::string> rest = lines;
    rest.erase(rest.begin() + static_cast<long>(line) - 1);
    return joined(rest);
  };
  check_mentions(refusal(without(1)), {"line 1", "header"});
  check_mentions(refusal(without(2)), {"line 2", "\"reply\" first"});
  check_mentions(refusal(lines[0] + lines[8]), {"line 2", "\"reply\" first"});
  // After its end a reply has nothing more.
  for (const size_t again : {3, 5, 6, 9}) {
    std::vector<std::string> more = lines;
    more.insert(more.begin() + 9, lines[again - 1]);
    check_mentions(refusal(joined(more)), {"line 10", "\"reply\" first"});
  }
  // Kinds of lines that are not known yet are passed over.
  CHECK(read(lines[0] + "{\"type\":\"later\",\"x\":[1]}\n" + lines[1]).replies.size() == 1);
}

TEST_CASE("a trace without texts of slots is read: files had none at first") {
  std::string text = example();
  for (size_t at; (at = text.find(",\"text\":\" t10\"")) != std::string::npos;) {
    text.erase(at, std::string(",\"text\":\" t10\"").size());
  }
  const RecordedTrace found = read(text);
  CHECK(found.replies[0].rounds[0].rows[0].text.empty());
  CHECK(found.replies[0].rounds[0].rows[1].text == " t11");
}

TEST_CASE("files that are no traces: one line, soon, whatever they are") {
  for (const std::string& text :
       {std::string(), std::string("\n"), std::string("{}\n"), std::string("[1]\n"),
        std::string(100000, '[') + "\n", std::string("\0\0\0\n", 4), std::string("GGUF\x03\n"),
        std::string("\xFF\xFE{\n"), std::string(3 << 20, 'x'), std::string(3 << 20, '['),
        "{\"type\":\"header\",\"version\":" + std::string(300000, '[') + std::string(300000, ']') +
            "}\n",
        "{\"type\":\"" + std::string(500000, 'y') + "\"}\n"}) {
    const std::string message = refusal(text);
    CHECK(message.rfind("t.jsonl", 0) == 0);
    CHECK(message.size() < 400);
  }
}

TEST_CASE("a trace that would take too much memory is refused, whatever in it does") {
  TraceReply large = TraceText::drafting(4, {2, 5});
  large.stop_strings = {std::string(100000, 'x')};
  TraceText replies, changes, rounds, ends;
  changes.reply(large);
  for (int i = 0; i < 50; ++i) {
    replies.reply(large);
    changes.settings(large);  // which does not spell the strings
    ends.reply(TraceText::plain());
    ends.end(large.stop_strings[0]);
  }
  for (int i = 0; i < 4000; ++i) {
    if (i % 900 == 0) rounds.reply(TraceText::plain());
    rounds.plain_round();
  }
  for (TraceText* text : {&replies, &changes, &rounds, &ends}) {
    const std::string bytes = text->text();
    CHECK(read(bytes).replies.size() >= 1);
    std::istringstream in(bytes);
    const std::string message =
        expect_error(ErrorCode::kLimit, [&] { read_trace(in, "t.jsonl", size_t{1} << 20); });
    check_mentions(message, {"t.jsonl: line", "fits into 1 MiB"});
  }
}

TEST_CASE("bytes that were changed at random never give more than an error") {
  std::mt19937 random(5);
  const std::string text = example();
  int refused = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string broken = text;
    for (int n = 1 + static_cast<int>(random() % 3); n > 0; --n) {
      const size_t at = random() % broken.size();
      if (random() % 2) {
        broken[at] = static_cast<char>(random());
      } else {
        broken.erase(at, random() % 40);
      }
    }
    try {
      read(broken);
    } catch (const Error& e) {
      REQUIRE(e.code() == ErrorCode::kFormat);
      ++refused;
    }
  }
  CHECK(refused > 2000);
}

}  // namespace trace_reader_test
