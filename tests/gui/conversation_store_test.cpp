// Conversations on disk: what is saved comes back, what is hostile is reported and left alone, and
// no crash leaves half a file.
#include "gui/model/conversation.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <set>
#include <thread>

#include "error.h"
#include "runtime/saved_conversation.h"
#include "system/text_input.h"
#include "unit/process_state.h"
#include "unit/sanitized.h"
#include "unit/temp_dir.h"

namespace specbound::gui::conversation_store_test {

namespace {

namespace fs = std::filesystem;
using Role = ChatMessage::Role;
using test::Environment;

void put(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

Conversation example(const std::string& id, int64_t changed = 7) {
  Conversation c;
  c.id = id;
  c.title = "Tides";
  c.system = "Be brief.\n";
  c.changed = changed;
  c.messages.push_back({{.role = Role::kUser, .text = "Why? \"\\ \u00fc \U0001f30a\n"}});
  c.messages.push_back({{.role = Role::kAssistant,
                         .text = std::string("The moon.\0", 10),
                         .figures = "3 tokens",
                         .number = 2},
                        9,
                        {3, 10}});
  return c;
}

std::string error_of(const std::string& json) {
  try {
    parse_saved_conversation(json, "x.json");
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("store: what is saved is what is loaded, newest first") {
  test::TempDir dir;
  ConversationStore store(dir / "a/b");
  std::vector<std::string> problems;
  CHECK(store.load(problems).empty());
  store.save(example("older", 5));
  store.save(example("newer", 6));
  const std::vector<Conversation> loaded = store.load(problems);
  CHECK(problems.empty());
  REQUIRE(loaded.size() == 2);
  CHECK(loaded[0].id == "newer");
  const Conversation& c = loaded[1];
  const Conversation was = example("older", 5);
  CHECK(c.id == "older");
  CHECK(c.title == was.title);
  CHECK(c.system == was.system);
  CHECK(c.changed == 5);
  REQUIRE(c.messages.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(c.messages[i].role == was.messages[i].role);
    CHECK(c.messages[i].text == was.messages[i].text);
    CHECK(c.messages[i].figures == was.messages[i].figures);
    CHECK(c.messages[i].number == was.messages[i].number);
    CHECK(c.messages[i].key != was.messages[i].key);
    // Of another process, these would name other tokens.
    CHECK(c.messages[i].reply == 0);
    CHECK(c.messages[i].token_ends.empty());
  }
  // Nobody else's to read.
  CHECK((fs::status(dir / "a/b").permissions() & fs::perms::others_all) == fs::perms::none);
}

TEST_CASE("store: a save replaces, a removal removes, ids are new") {
  test::TempDir dir;
  ConversationStore store(dir / "c");
  Conversation c = example(store.new_id());
  store.save(c);
  c.title = "Other";
  store.save(c);
  std::vector<std::string> problems;
  REQUIRE(store.load(problems).size() == 1);
  CHECK(store.load(problems)[0].title == "Other");
  CHECK(store.new_id() != store.new_id());
  CHECK(store.remove(c.id));
  CHECK(store.remove(c.id));
  CHECK(store.load(problems).empty());
  CHECK(fs::is_empty(dir / "c"));
}

TEST_CASE("store: what another window said in the same conversation is not written over") {
  test::TempDir dir;
  ConversationStore first(dir / "c");
  Conversation mine = example(first.new_id());
  CHECK_FALSE(first.save(mine));
  ConversationStore second(dir / "c");
  std::vector<std::string> problems;
  Conversation other = second.load(problems).at(0);
  other.title = "What they said";
  CHECK_FALSE(second.save(other));
  mine.title = "Mine";
  CHECK(first.save(mine));
  for (const char* title : {"Mine, longer", "Mine, the longest"}) {  // in turn
    mine.title = title;
    CHECK_FALSE(first.save(mine));
    CHECK_FALSE(second.save(other));
  }
  const auto titles = [&] {
    std::vector<std::string> titles;
    for (const Conversation& c : ConversationStore(dir / "c").load(problems)) {
      titles.push_back(c.title);
    }
    std::ranges::sort(titles);
    return titles;
  };
  CHECK(titles() == std::vector<std::string>{"Mine, the longest", "What they said"});
  // Nor is it removed.
  ConversationStore third(dir / "c");
  third.load(problems);
  other.title = "What they said at last";
  CHECK_FALSE(second.save(other));
  CHECK_FALSE(third.remove(other.id));
  CHECK(first.remove(mine.id));
  CHECK(titles() == std::vector<std::string>{"What they said at last"});
  CHECK(second.remove(other.id));
  CHECK(titles().empty());
  CHECK(problems.empty());
}

TEST_CASE("store: of two windows that save at once one goes on in a file of its own") {
  test::TempDir dir;
  for (int round = 0; round < 10; ++round) {
    CAPTURE(round);
    const std::string folder = dir / std::to_string(round);
    ConversationStore first(folder);
    const Conversation common = example(first.new_id());
    first.save(common);
    ConversationStore second(folder);
    std::vector<std::string> problems;
    REQUIRE(second.load(problems).size() == 1);
    const auto say = [&common](ConversationStore& store, const char* title, bool& apart) {
      Conversation c = common;
      c.title = title;
      apart = store.save(c);
    };
    bool ours = false, theirs = false;
    std::thread other(say, std::ref(second), "theirs", std::ref(theirs));
    say(first, "ours", ours);
    other.join();
    CHECK(ours != theirs);
    std::set<std::string> titles;
    for (const Conversation& c : ConversationStore(folder).load(problems)) titles.insert(c.title);
    CHECK(titles == std::set<std::string>{"ours", "theirs"});
  }
}

TEST_CASE("store: a store without a folder keeps nothing") {
  ConversationStore store("");
  store.save(example("a"));
  store.remove("a");
  std::vector<std::string> problems;
  CHECK(store.load(problems).empty());
  CHECK(problems.empty());
}

TEST_CASE("store: hostile files are reported, skipped and left as they are") {
  test::TempDir dir;
  ConversationStore store(dir.path().string());
  store.save(example("good"));
  const std::string good = conversation_json(example("good"));
  std::string deep(100000, '[');
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"empty", ""},
      {"truncated", good.substr(0, good.size() / 2)},
      {"number", "17"},
      {"binary", std::string("\0\xff\xfe{}", 5)},
      {"utf8", "{\"version\":1,\"title\":\"\xc3(\",\"messages\":[]}"},
      {"deep", deep},
      {"huge", std::string((16 << 20) + 1, ' ')}};
  for (const auto& file : bad) put(dir / (file.first + ".json"), file.second);
  REQUIRE(mkfifo((dir / "pipe.json").c_str(), 0600) == 0);
  fs::create_directory(dir / "folder.json");
  fs::create_symlink(dir / "nowhere", dir / "dangling.json");
  fs::create_symlink("/dev/zero", dir / "zero.json");
  put(dir / "notes.txt", "not asked about");
  put(dir / ".json", "hidden");

  std::vector<std::string> problems;
  const auto loaded = store.load(problems);
  REQUIRE(loaded.size() == 1);
  CHECK(loaded[0].id == "good");
  CHECK(problems.size() == bad.size() + 4);
  for (const std::string& line : problems) {
    CHECK(line.find('\n') == std::string::npos);
    CHECK(line.size() < 400);
  }
  for (const auto& file : bad) CHECK(read_bytes(dir / (file.first + ".json")) == file.second);
}

TEST_CASE("store: what could not be read again is not written") {
  test::TempDir dir;
  ConversationStore store(dir.path().string());
  store.save(example("a"));
  const std::string before = read_bytes(dir / "a.json");

  Conversation longest = example("a");
  while (longest.messages.size() < 10000) longest.messages.push_back(longest.messages[0]);
  CHECK_NOTHROW(conversation_json(longest));
  longest.messages.push_back(longest.messages[0]);
  CHECK_THROWS_WITH_AS(store.save(longest),
                       "conversation \"Tides\": expected at most 10000 messages, found 10001",
                       Error);

  Conversation largest = example("a");
  largest.messages[0].text.assign(size_t{16} << 20, 'x');
  CHECK_THROWS_AS(store.save(largest), Error);
  CHECK(read_bytes(dir / "a.json") == before);
}

TEST_CASE("store: a folder that cannot be read or made is one clear line") {
  test::TempDir dir;
  put(dir / "file", "");
  ConversationStore store(dir / "file");
  std::vector<std::string> problems;
  CHECK(store.load(problems).empty());
  CHECK(problems.size() == 1);
  CHECK_THROWS_AS(store.save(example("a")), Error);
}

TEST_CASE("store: a value of the wrong kind says where and what was expected") {
  const std::string head = "{\"version\":1,";
  CHECK(error_of("[]").find("expected an object, found a list of 0") != std::string::npos);
  CHECK(error_of("{}").find("'version': expected 1, found no such key") != std::string::npos);
  CHECK(error_of("{\"version\":2,\"messages\":[]}").find("found 2") != std::string::npos);
  CHECK(
      error_of(head + "\"title\":3,\"messages\":[]}").find("'title': expected a string, found 3") !=
      std::string::npos);
  CHECK(error_of(head + "\"messages\":{}}").find("expected a list") != std::string::npos);
  CHECK(error_of(head + "\"messages\":[1]}").find("message 0: expected an object, found 1") !=
        std::string::npos);
  CHECK(error_of(head + "\"messages\":[{\"role\":\"system\",\"text\":\"\"}]}")
            .find("'role': expected user, found \"system\"") != std::string::npos);
  for (const char* number : {"-1", "1e30", "NaN", "99999999999999999999", "0.5", "\"1\"",
                             "18446744073709551615", "null"}) {
    CAPTURE(number);
    CHECK(error_of(head + "\"changed\":" + number + ",\"messages\":[]}") != "");
    CHECK(error_of(head + "\"messages\":[{\"role\":\"user\",\"text\":\"\",\"number\":" + number +
                   "}]}") != "");
  }
  const std::string nest = std::string(50000, '[') + std::string(50000, ']');
  CHECK(error_of(head + "\"messages\":[],\"x\":" + nest + "}").find("nested 8 deep") !=
        std::string::npos);
  CHECK(error_of(head + "\"changed\":9223372036854775807,\"messages\":[]}") == "");
}

TEST_CASE("store: no prefix and no damage of a file crashes, and what parses is whole") {
  const std::string good = conversation_json(example("a"));
  for (size_t n = 0; n + 2 < good.size(); ++n) CHECK(error_of(good.substr(0, n)) != "");
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = good;
    for (int k = 0; k < 3; ++k) damaged[random() % damaged.size()] = static_cast<char>(random());
    error_of(damaged);
  }
}

TEST_CASE("store: replies cut inside a character are stored as UTF-8") {
  Conversation c = example("a");
  c.messages[1].text = "half \xe2\x82";
  const SavedConversation back = parse_saved_conversation(conversation_json(c), "x");
  CHECK(back.messages[1].text == "half \ufffd");
}

constexpr int kKills = 20;
// Under sanitizers text takes longer to make than the child has: none may hit.
constexpr int kMostKills = test::kSanitized ? kKills : 1000;

TEST_CASE("store: killed while it saves, it leaves the old file or the new one") {
  test::TempDir dir;
  ConversationStore store(dir.path().string());
  Conversation c = example("kept");
  const std::string first = c.messages[0].text;
  store.save(c);
  int hit = 0;  // times that a save was under way
  for (int i = 0; i < kKills || (hit == 0 && i < kMostKills); ++i) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      c.messages[0].text.assign(size_t{1} << 20, 'x');
      for (;;) store.save(c);
    }
    usleep(1000 * (5 + 3 * (i % 20)));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    for (const auto& entry : fs::directory_iterator(dir.path())) {
      hit += entry.path().extension().string().starts_with(".tmp-");
    }
    std::vector<std::string> problems;
    const auto loaded = store.load(problems);
    CHECK(problems.empty());
    REQUIRE(loaded.size() == 1);
    REQUIRE(loaded[0].messages.size() == 2);
    const std::string& text = loaded[0].messages[0].text;
    CHECK((text == first || text == std::string(size_t{1} << 20, 'x')));
  }
  CHECK((hit > 0 || kMostKills == kKills));
  // And what it was writing is cleared away.
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(dir.path())) files += entry.exists();
  CHECK(files == 1);
  // Not what another window is writing.
  const std::string ours = dir / ("a.json.tmp-" + std::to_string(getpid()) + "-0");
  put(ours, "");
  std::vector<std::string> problems;
  store.load(problems);
  CHECK(fs::exists(ours));
}

TEST_CASE("store: the folder is the data home's") {
  {
    const Environment data("XDG_DATA_HOME", "/d");
    CHECK(default_conversations_folder() == "/d/specbound/conversations");
  }
  const Environment home("HOME", "/h");
  for (const char* none : {static_cast<const char*>(nullptr), "", "relative"}) {
    const Environment data("XDG_DATA_HOME", none);
    CHECK(default_conversations_folder() == "/h/.local/share/specbound/conversations");
  }
  const Environment data("XDG_DATA_HOME", nullptr), no_home("HOME", nullptr);
  CHECK_THROWS_AS(default_conversations_folder(), Error);
}

TEST_CASE("conversation: titles are short whole characters of the first line") {
  CHECK(title_from("How do tides work?\nAnd why?") == "How do tides work?");
  CHECK(title_from("\n\n  a \t b\x01\xff c") == "a b c");
  CHECK(title_from("") == "Untitled");
  CHECK(title_from(" \n ") == "Untitled");
  std::string many;
  for (int i = 0; i < 100; ++i) many += "\u00fc";
  CHECK(title_from(many).size() == 2 * 40 + 3);
  CHECK(title_from(std::string(1 << 20, ' ') + "x") == "x");
}

TEST_CASE("conversation: a search looks at titles and messages") {
  const Conversation c = example("a");
  for (const char* there : {"", "tides", "WHY?", "moon", "\u00fc"}) CHECK(c.mentions(there));
  for (const char* not_there : {"sun", "moon.x", "brief"}) CHECK_FALSE(c.mentions(not_there));
}

TEST_CASE("conversation: tokens of bytes and bytes of tokens") {
  Message m;
  m.text = "abcd";
  m.token_ends = {1, 1, 3};
  CHECK(m.token_at(0) == 0);
  CHECK(m.token_at(1) == 2);
  CHECK(m.token_at(2) == 2);
  CHECK(m.token_at(3) == -1);
  CHECK(m.token_bytes(0).end == 1);
  CHECK(m.token_bytes(1).begin == m.token_bytes(1).end);
  CHECK(m.token_bytes(2).begin == 1);
  CHECK(m.token_bytes(3).end == 0);
  CHECK(m.token_bytes(-1).end == 0);
  const Conversation c = example("a");
  CHECK(c.prompt(9).size() == 3);
  CHECK(c.prompt(1).back().role == Role::kUser);
}

}  // namespace specbound::gui::conversation_store_test
