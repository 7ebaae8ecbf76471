// The live panel's figures: columns from rounds, drafts counted once and under the right name, and
// memory that does not grow with the session.
#include "gui/model/trace_model.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "gui/trace_rig.h"

namespace specbound::gui::trace_model_test {

TEST_CASE("trace model: a round becomes columns of three kinds") {
  TraceModel trace;
  trace.set_model(16);
  trace.begin_reply(1, make_settings());
  trace.round(1, make_round(0, 9, {2, 4, 3}, 1), 0.01);
  trace.round(1, make_round(1, 11, {}), 0.02);
  const ReplyTrace& reply = *trace.find(1);
  REQUIRE(reply.columns.size() == 3);
  CHECK(reply.columns[0].kind() == TokenKind::kAccepted);
  CHECK(reply.columns[1].kind() == TokenKind::kRejected);
  CHECK(reply.columns[1].draft_text == " wrong");
  CHECK(reply.columns[1].dropped == 1);
  CHECK(reply.columns[2].kind() == TokenKind::kVerified);
  CHECK(reply.verified == 1);
  CHECK(reply.counters.decoded_tokens == 3);
  CHECK(reply.counters.accepted_tokens == 1);
  CHECK(*reply.compression_rate() == 1.5);
  CHECK(trace.columns() == 3);
}

TEST_CASE("trace model: with a wrong draft of a tree go those behind it, not those beside it") {
  for (const bool behind : {false, true}) {
    RoundRecord round = make_round(0, 9, {2, 2, 2}, 0);
    for (int slot = 1; slot < 4; ++slot) round.rows[slot].drafted_at = 2;
    round.rows[2].parent = 0;
    round.rows[3].parent = behind ? 1 : 2;
    round.rows[1].exit_layer = behind ? 2 : kNoDraft;
    round.rows[2].exit_layer = behind ? kNoDraft : 2;
    TraceModel trace;
    trace.set_model(16);
    trace.begin_reply(1, make_settings());
    trace.round(1, round, 0.01);
    REQUIRE(trace.find(1)->columns.size() == 1);
    CHECK(trace.find(1)->columns[0].dropped == (behind ? 1 : 0));
  }
}

TEST_CASE("trace model: drafts count by layer and by place, dropped ones apart") {
  TraceModel trace;
  trace.begin_reply(1, make_settings());
  trace.round(1, make_round(0, 9, {2, 4, 3, 2}, 1), 0.01);
  const ReplyTrace& reply = *trace.find(1);
  REQUIRE(reply.drafts_at.size() == 5);
  CHECK(reply.drafts_at[2].accepted == 1);
  CHECK(reply.drafts_at[2].dropped == 1);
  CHECK(reply.drafts_at[4].rejected == 1);
  CHECK(reply.drafts_at[3].dropped == 1);
  REQUIRE(reply.drafts_place.size() == 4);
  CHECK(*reply.drafts_place[0].acceptance() == 1);
  CHECK(*reply.drafts_place[1].acceptance() == 0);
  CHECK_FALSE(reply.drafts_place[2].acceptance());
  int left = 0, right = 0, wrong = 0;
  for (const CheckOutcome& check : reply.checks) {
    left += check.result != CheckResult::kContinued;
    right += check.result == CheckResult::kRight;
    wrong += check.result == CheckResult::kWrong;
  }
  CHECK(left == 4);
  CHECK(right == 1);
  CHECK(wrong == 1);
}

TEST_CASE("trace model: the plain rate comes from plain rounds, and the first is left out") {
  TraceModel trace;
  trace.begin_reply(1, make_settings());
  for (int i = 0; i < 3; ++i) trace.round(1, make_round(i, 9 + i, {}), 0.01 * (i + 1));
  CHECK_FALSE(trace.find(1)->plain_tokens_per_second());
  trace.round(1, make_round(3, 12, {}), 0.04);
  REQUIRE(trace.find(1)->plain_tokens_per_second());
  CHECK(*trace.find(1)->plain_tokens_per_second() == doctest::Approx(100));
  trace.round(1, make_round(4, 13, {1, 1, 1}), 0.05);
  CHECK(*trace.find(1)->tokens_per_second() == doctest::Approx(8 / 0.05));
  CHECK_FALSE(trace.find(1)->speedup());  // of eight tokens it tells nothing
  for (int i = 0; i < 7; ++i) {
    trace.round(1, make_round(5 + i, 17 + 4 * i, {1, 1, 1}), 0.06 + 0.01 * i);
  }
  CHECK(*trace.find(1)->speedup() == doctest::Approx(4));  // of the rounds that drafted
  SUBCASE("the next reply knows it from the start") {
    trace.begin_reply(2, make_settings());
    CHECK(trace.find(2)->plain_tokens_per_second());
  }
  SUBCASE("another model does not") {
    trace.set_model(5);
    trace.begin_reply(2, make_settings());
    CHECK_FALSE(trace.find(2)->plain_tokens_per_second());
  }
  SUBCASE("a plain reply has no speedup") {
    trace.begin_reply(2, TraceReply());
    trace.round(2, make_round(0, 9, {}), 0.01);
    CHECK_FALSE(trace.find(2)->speedup());
  }
}

TEST_CASE("trace model: guesses find their column by position") {
  TraceModel trace;
  trace.begin_reply(1, make_settings());
  trace.round(1, make_round(0, 9, {2}), 0.01);
  trace.guesses(1, 11, {{5, 0.25f, " cat"}, {6, 0.5f, " dog"}});
  const ReplyTrace& reply = *trace.find(1);
  CHECK(reply.columns[0].guesses.empty());
  REQUIRE(reply.columns[1].guesses.size() == 2);
  CHECK(reply.columns[1].guesses[1].token == 6);
  CHECK(*trace.text(6) == " dog");
  for (const int pos : {-1, 0, 9, 12, std::numeric_limits<int>::max()}) {
    trace.guesses(1, pos, {{1, 1, ""}});
  }
  trace.guesses(99, 10, {{1, 1, ""}});
  CHECK(reply.columns[0].guesses.empty());
}

TEST_CASE("trace model: settings hold from the column on at which they changed") {
  TraceModel trace;
  trace.begin_reply(1, make_settings(0.5f));
  trace.apply_settings(1, make_settings(0.6f));  // before the first round: takes its place
  trace.round(1, make_round(0, 9, {2}), 0.01);
  trace.apply_settings(1, make_settings(0.7f));
  trace.round(1, make_round(1, 11, {2}), 0.02);
  const ReplyTrace& reply = *trace.find(1);
  CHECK(reply.settings.size() == 2);
  CHECK(reply.settings_at(0).settings->tau == 0.6f);
  CHECK(reply.settings_at(1).settings->tau == 0.6f);
  CHECK(reply.settings_at(2).settings->tau == 0.7f);
  CHECK(reply.newest_settings().settings->tau == 0.7f);
  for (int i = 0; i < 1000; ++i) {
    trace.round(1, make_round(2 + i, 13 + i, {}), 0.03);
    trace.apply_settings(1, make_settings());
  }
  CHECK(reply.settings.size() <= TraceModel::kMaxSettings);
  CHECK(reply.settings_at(0).settings);
}

TEST_CASE("trace model: a long session stays bounded") {
  TraceModel trace;
  const int rounds = 2000, replies = 60;
  for (int r = 0; r < replies; ++r) {
    trace.begin_reply(r + 1, make_settings());
    for (int i = 0; i < rounds; ++i) {
      trace.round(r + 1, make_round(i, 9 + 3 * i, {2, 3}), 0.01 * (i + 1));
    }
    trace.end_reply(r + 1, "end");
    CHECK(trace.columns() <= TraceModel::kMaxColumns);
  }
  CHECK_FALSE(trace.find(1));
  const ReplyTrace& newest = *trace.find(replies);
  CHECK(newest.columns.size() == 3 * rounds);
  CHECK(newest.slices.size() <= TraceModel::kMaxSlices);
  CHECK(newest.checks.size() <= TraceModel::kMaxChecks);
  int tokens = 0, n = 0;
  for (const RateSlice& slice : newest.slices) {
    tokens += slice.tokens;
    n += slice.rounds;
  }
  CHECK(tokens == 3 * rounds);
  CHECK(n == rounds);
  for (uint64_t id = 1000; id < 3000; ++id) trace.begin_reply(id, make_settings());
  CHECK(trace.replies().size() <= TraceModel::kMaxReplies);
  trace.clear();
  CHECK(trace.columns() == 0);
  CHECK(trace.newest() == nullptr);
}

TEST_CASE("trace model: what no decode loop would tell is passed over") {
  TraceModel trace;
  trace.begin_reply(1, make_settings());
  RoundRecord bad = make_round(0, 9, {2, 3});
  SUBCASE("no rows") {
    bad.rows.clear();
  }
  SUBCASE("no tokens") {
    bad.tokens.clear();
  }
  SUBCASE("more tokens than rows") {
    bad.rows.resize(1);
  }
  SUBCASE("a layer that no model has") {
    bad.rows[1].drafted_at = 1 << 30;
  }
  SUBCASE("a draft without a layer") {
    bad.tokens[0].exit_layer = kNoDraft;
  }
  SUBCASE("a token below 0, that no draft was") {
    bad.tokens[2].token = bad.tokens[2].draft = -1;
  }
  SUBCASE("slots out of order") {
    bad.tokens[1].slot = 5;
  }
  trace.round(1, bad, 0.01);
  CHECK(trace.columns() == 0);
}

TEST_CASE("trace model: figures never become NaN or negative") {
  TraceModel trace;
  trace.begin_reply(1, make_settings());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  double at = 1;
  for (const double seconds : {nan, -5.0, 1.0, 0.5, std::numeric_limits<double>::infinity()}) {
    trace.round(1, make_round(0, static_cast<int>(9 * at++), {2}), seconds);
  }
  const ReplyTrace& reply = *trace.find(1);
  CHECK(reply.seconds == 1);
  CHECK(std::isfinite(*reply.tokens_per_second()));
  CHECK(trace.find(TokenRef{1, 0}) != nullptr);
  CHECK(trace.find(TokenRef{1, -1}) == nullptr);
  CHECK(trace.find(TokenRef{1, 10}) == nullptr);
  CHECK(trace.find(TokenRef{2, 0}) == nullptr);
}

TEST_CASE("trace model: no time that a file claims is too long to add up") {
  TraceModel trace;
  trace.begin_reply(1, make_settings());
  RoundRecord round = make_round(0, 9, {2});
  round.ns.fill(int64_t{1} << 53);  // the most that the reader takes
  for (int i = 0; i < 1100; ++i) trace.round(1, round, i);
  for (const int64_t ns : trace.find(1)->counters.ns) CHECK(ns == int64_t{1} << 62);
}

TEST_CASE("trace model: events of others change nothing") {
  TraceModel trace;
  trace.round(5, make_round(0, 9, {2}), 0.1);
  trace.end_reply(5, "end");
  trace.forget(5);
  trace.apply(Note{"hello"});
  trace.apply(LoadProgress{"loading", 0.5});
  CHECK(trace.version() == 0);
  trace.apply(ReplyBegan{5, make_settings(), 0});
  trace.apply(RoundDone{5, make_round(0, 9, {2}), 0.1});
  trace.apply(Guesses{5, 10, {{1, 0.5f, "x"}}});
  trace.apply(ReplyFailed{5, "out of memory"});
  const ReplyTrace& reply = *trace.find(5);
  CHECK(reply.columns.size() == 2);
  CHECK(reply.columns[0].guesses.size() == 1);
  CHECK(reply.over);
  CHECK(reply.stop == "failed");
}

}  // namespace specbound::gui::trace_model_test
