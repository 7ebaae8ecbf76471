// A trace played again: as fast as asked, step by step, to and fro, with the same end whatever the
// way there.
#include "gui/model/replay_player.h"

#include <doctest/doctest.h>

#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <utility>
#include <variant>

#include "error.h"
#include "gui/trace_rig.h"
#include "gui/worker/worker_thread.h"
#include "unit/temp_dir.h"

namespace specbound::gui::replay_player_test {
namespace {

// Two replies; rounds of 3, 2 and 1 tokens, 10 ms each.
std::shared_ptr<const RecordedTrace> recording() {
  RecordedTrace trace;
  trace.header.n_layers = 6;
  for (int r = 0; r < 2; ++r) {
    RecordedReply reply;
    reply.reply = make_settings();
    reply.reply.seed = 1855959306;
    reply.reply.regen = 2;
    reply.rounds = {make_round(0, 9, {2, 3}), make_round(1, 12, {2, 3}, 1), make_round(2, 14, {})};
    TraceChange change;
    change.round = 2;
    change.reply = make_settings(0.9f);
    reply.changes.push_back(change);
    TraceEnd end;
    end.stop = "length";
    end.generated_tokens = 6;
    end.decode_seconds = 0.03;
    end.counters.rounds = 3;
    end.counters.decoded_tokens = 6;
    reply.end = end;
    trace.replies.push_back(reply);
  }
  return std::make_shared<const RecordedTrace>(std::move(trace));
}

// As the worker reads it.
WorkerEvent opened(const std::string& path) {
  const std::atomic<bool> stop = false;
  return open_trace(path, stop);
}

bool refused(const std::string& path, const std::string& part) {
  const WorkerEvent event = opened(path);
  const TraceRefused* refused = std::get_if<TraceRefused>(&event);
  return refused && refused->path == path && refused->message.starts_with(path + ": ") &&
         refused->message.find(part) != std::string::npos &&
         refused->message.find('\n') == std::string::npos;
}

std::string all_text(const ReplayPlayer& player) {
  std::string text;
  for (const Message& message : player.conversation().messages) text += message.text + "|";
  return text;
}

constexpr const char* kAll = "w10 w11 w12 w13 w14 w15|w10 w11 w12 w13 w14 w15|";

}  // namespace

TEST_CASE("replay: starts before the first round, slow enough to read") {
  ReplayPlayer player(recording(), "a.jsonl");
  CHECK(player.rounds() == 6);
  CHECK(player.round() == 0);
  CHECK(player.seconds() == doctest::Approx(0.06));
  CHECK(player.speed() == doctest::Approx(0.1));  // 200 tokens a second were recorded
  CHECK(player.conversation().messages.empty());
  CHECK_FALSE(player.cursor());
  CHECK(player.conversation().title == "Replay of a.jsonl");
}

TEST_CASE("replay: rounds come when they are due") {
  ReplayPlayer player(recording(), "a.jsonl");
  player.set_speed(0.1f);
  player.play();
  player.advance(1000);
  CHECK(player.round() == 0);
  player.advance(1000.05);
  CHECK(player.round() == 0);
  player.advance(1000.11);
  CHECK(player.round() == 1);
  CHECK(all_text(player) == "w10 w11 w12|");
  SUBCASE("not while it is paused") {
    player.pause();
    player.advance(2000);
    CHECK(player.round() == 1);
    player.play();
    player.advance(2001);
    CHECK(player.round() == 1);
  }
  SUBCASE("a long frame is no leap") {
    player.advance(5000);
    CHECK(player.round() == 3);
  }
  SUBCASE("to the end, where it stops") {
    for (int i = 0; i < 100; ++i) player.advance(1001 + 0.1 * i);
    CHECK(player.at_end());
    CHECK_FALSE(player.playing());
    CHECK(all_text(player) == kAll);
    const std::string& figures = player.conversation().messages[1].figures;
    CHECK(figures.starts_with("6 tokens"));
    CHECK(figures.find("stop: length | seed 1855959306 reply 2") != std::string::npos);
    player.play();
    CHECK(player.round() == 0);
    CHECK(player.playing());
  }
}

TEST_CASE("replay: the same state whatever the way to it") {
  ReplayPlayer there(recording(), "a.jsonl"), back(recording(), "a.jsonl");
  back.seek(6);
  for (int round = 0; round <= 6; ++round) {
    there.seek(round);
    back.seek(6);
    back.seek(round);
    CHECK(all_text(there) == all_text(back));
    CHECK(there.trace().columns() == back.trace().columns());
    CHECK(there.time() == doctest::Approx(back.time()));
    CHECK(there.cursor() == back.cursor());
  }
  CHECK(all_text(there) == kAll);
  there.seek(-5);
  CHECK(there.round() == 0);
  there.seek(1000);
  CHECK(there.at_end());
}

TEST_CASE("replay: columns, tokens of the text and settings go together") {
  ReplayPlayer player(recording(), "a.jsonl");
  player.seek(6);
  for (const Message& message : player.conversation().messages) {
    const ReplyTrace* reply = player.trace().find(message.reply);
    REQUIRE(reply);
    CHECK(reply->id >= ReplayPlayer::kFirstReply);
    CHECK(reply->columns.size() == message.token_ends.size());
    CHECK(message.token_ends.back() == message.text.size());
    CHECK(reply->over);
    CHECK(reply->stop == "length");
    CHECK(reply->settings_at(0).settings->tau == 0.55f);
    CHECK(reply->newest_settings().settings->tau == 0.9f);
    CHECK(reply->seconds == doctest::Approx(0.03));
  }
}

TEST_CASE("replay: token by token, to the end and back") {
  ReplayPlayer player(recording(), "a.jsonl");
  const uint64_t first = ReplayPlayer::kFirstReply;
  std::vector<TokenRef> forth;
  for (int i = 0; i < 20; ++i) {
    player.step_token(1);
    REQUIRE(player.cursor());
    if (forth.empty() || *player.cursor() != forth.back()) forth.push_back(*player.cursor());
  }
  REQUIRE(forth.size() == 12);
  for (int i = 0; i < 12; ++i) CHECK(forth[i] == TokenRef{first + i / 6, i % 6});
  for (int i = 10; i >= 0; --i) {
    player.step_token(-1);
    CHECK(*player.cursor() == forth[i]);
  }
  player.step_token(-1);
  CHECK_FALSE(player.cursor());
  player.step_token(-1);
  CHECK(player.round() == 0);
}

TEST_CASE("replay: round by round") {
  ReplayPlayer player(recording(), "a.jsonl");
  player.play();
  player.step_round(1);
  CHECK_FALSE(player.playing());
  CHECK(player.round() == 1);
  player.step_round(3);
  CHECK(player.round() == 4);
  player.step_round(-1);
  CHECK(player.round() == 3);
  player.step_round(-100);
  CHECK(player.round() == 0);
  player.step_round(1 << 30);
  CHECK(player.at_end());
}

TEST_CASE("replay: an end token stands in the map and not in the text") {
  RecordedTrace trace = *recording();
  trace.replies[0].rounds[2].tokens[0].ends_reply = true;
  ReplayPlayer player(std::make_shared<const RecordedTrace>(std::move(trace)), "a.jsonl");
  player.seek(3);
  const Message& message = player.conversation().messages[0];
  CHECK(message.text == "w10 w11 w12 w13 w14");
  CHECK(message.token_ends.size() == 6);
  CHECK(message.token_ends[5] == message.token_ends[4]);
}

TEST_CASE("replay: files that are no trace are refused in one line") {
  test::TempDir folder;
  const std::string path = folder / "x.jsonl";
  CHECK(refused(path, "cannot open"));
  std::ofstream(path) << "what is this?\n";
  CHECK(refused(path, "expected a JSON object"));
  CHECK(refused(folder.path().string(), "not a regular file"));
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(refused(folder / "pipe", "not a regular file"));  // nobody waited for its writer
  CHECK(refused("/dev/zero", "not a regular file"));
  CHECK_THROWS_AS((ReplayPlayer{std::make_shared<const RecordedTrace>(), "empty.jsonl"}), Error);
}

TEST_CASE("replay: what --trace writes is what is played") {
  test::TempDir folder;
  const std::string path = folder / "t.jsonl";
  write_trace(path, {make_round(0, 9, {2, 3}, 1)});
  const auto event = std::get<TraceOpened>(opened(path));
  ReplayPlayer player(event.trace, "t.jsonl");
  CHECK(player.name() == "t.jsonl");
  player.seek(1);
  CHECK(all_text(player) == "t110 t111|");
  CHECK(player.trace().newest()->columns[1].kind() == TokenKind::kRejected);
  CHECK(player.trace().n_layers() == 6);
}

}  // namespace specbound::gui::replay_player_test
