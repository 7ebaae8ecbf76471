// The parts of a chat's front end that need no terminal: cells of a line, pastes, the history file,
// what Tab completes, how lines become entries, and the histogram of /stats.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "error.h"
#include "expect_error.h"
#include "process_state.h"
#include "repl/cells.h"
#include "repl/chat.h"
#include "repl/commands.h"
#include "repl/history_file.h"
#include "repl/line_input.h"
#include "repl/pastes.h"
#include "repl/tab_completion.h"
#include "system/user_path.h"
#include "temp_dir.h"

namespace specbound::repl_test {

namespace {

using test::TempDir;

void put(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Lines that were typed beforehand.
class TypedLines final : public LineInput {
 public:
  explicit TypedLines(std::vector<std::string> lines, Status end = Status::kEnd)
      : lines_(std::move(lines)), end_(end) {}
  Status next(LinePrompt prompt, std::string& line) override {
    prompts += prompt == LinePrompt::kMore ? '.' : '>';
    line.clear();
    if (at_ == lines_.size()) return end_;
    line = lines_[at_++];
    return Status::kLine;
  }
  std::string prompts;  // that were shown

 private:
  std::vector<std::string> lines_;
  size_t at_ = 0;
  Status end_;
};

struct Read {
  LineInput::Status status;
  std::string entry;
  bool quoted;
};
Read read_all(LineInput& input) {
  Read read;
  read.status = read_entry(input, read.entry, read.quoted);
  return read;
}

CompletionSource settings_source() {
  return {
      {"temp", "top-k", "top-p"},
      [](const std::string& name) {
        return name == "spec" ? std::vector<std::string>{"on", "off"} : std::vector<std::string>{};
      },
      [](const std::string& name) { return name == "grammar"; }};
}

}  // namespace

TEST_CASE("cells: a step of the cursor for whatever a terminal draws in one place") {
  Cells cells;
  for (const std::string text : {"", "plain", "h\u00e9 \u65e5\u672c", "e\u0301", "\u0301 alone",
                                 "a\n\u0301b", "\U0001f469\u200d\U0001f4bb", "\u2764\ufe0f",
                                 "\U00100000\U00017000", "\xff\xc3(\xf0\x9f"}) {
    CAPTURE(text);
    CHECK(cells.decode(cells.encode(text)) == text);
  }
  const std::string with_nul("a\0b", 3);
  CHECK(cells.decode(cells.encode(with_nul)) == with_nul);
  CHECK(cells.encode(with_nul).find(L'\0') == std::wstring::npos);
  CHECK(cells.encode("h\u00e9\u65e5") == L"h\u00e9\u65e5");  // these stand for themselves
  CHECK(cells.encode("xe\u0301\u0323y").size() == 3);
  CHECK(cells.encode("\U0001f469\u200d\U0001f4bb!").size() == 2);
  CHECK(cells.encode("e\u0301") == cells.encode("e\u0301"));
  CHECK(cells.encode("e\u0301") != cells.encode("a\u0301"));
  CHECK(cells.joins(L'e', "\u0301"));
  CHECK(cells.joins(cells.encode("\U0001f469\u200d")[0], "\U0001f4bb"));
  CHECK(!cells.joins(L'e', "x"));
  CHECK(!cells.joins(L'\n', "\u0301"));
  // Nothing that steers a terminal hides in a cell: what stands for itself is spelled by libedit.
  CHECK(cells.encode("a\u200d\u009b31m").substr(1) == L"\u009b31m");
  CHECK(cells.encode("\u009b\u0301")[0] == L'\u009b');
  CHECK(!cells.joins(L'\u009d', "\u0301"));
}

TEST_CASE("cells: the terminal gets what they stand for, however its bytes are cut") {
  Cells cells;
  const std::string text = "a e\u0301 \xff \U0001f469\u200d\U0001f4bb \u0301";
  Cells plain;  // knows no stand-in, so it spells the cells themselves
  const std::string bytes = plain.decode(cells.encode(text));
  CHECK(bytes != text);
  const std::string want = "a e\u0301 \ufffd \U0001f469\u200d\U0001f4bb \u0301";
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    std::string pending = bytes.substr(0, cut);
    std::string shown = cells.shown(pending);
    CHECK(pending.size() < 4);
    pending += bytes.substr(cut);
    shown += cells.shown(pending);
    CHECK(shown == want);
  }
  std::string alone = plain.decode(cells.encode("\u0301"));
  CHECK(cells.shown(alone) == "\u25cc\u0301");
  std::string open = plain.decode(cells.encode("\U0001f469\u200d"));  // a joiner would draw on
  CHECK(cells.shown(open) == "\U0001f469");
}

TEST_CASE("cells: where the cursor is on a terminal") {
  const auto at = [](std::wstring_view cells, int prompt, int columns) {
    const Place place = place_after(cells, prompt, columns);
    return std::pair(place.row, place.column);
  };
  CHECK(at(L"", 2, 10) == std::pair(0, 2));
  CHECK(at(L"abc", 2, 10) == std::pair(0, 5));
  CHECK(at(L"abcdefgh", 2, 10) == std::pair(1, 0));
  CHECK(at(L"abcdefg\u65e5", 2, 10) == std::pair(1, 2));  // does not fit into the last column
  CHECK(at(L"abcdef\u65e5", 2, 10) == std::pair(1, 0));
  CHECK(at(L"a\nbc", 2, 10) == std::pair(1, 2));
  CHECK(at(L"a\tb", 2, 20) == std::pair(0, 9));
  CHECK(at(L"\x01", 2, 20) == std::pair(0, 4));  // ^A
}

TEST_CASE("pastes: a mark for a long text, and the text back in its place") {
  Pastes pastes;
  CHECK(fits_line("one line", 1));
  CHECK(!fits_line("two\nlines", 1));
  CHECK(fits_line("two\nlines", 2));
  CHECK(!fits_line(std::string(3000, 'x'), 1));
  const std::string lines = pastes.put_aside("a\nb\nc");
  CHECK(lines == "[paste 1: 3 lines]");
  CHECK(pastes.put_aside("a\nb\nc") == lines);
  std::string many;
  for (int i = 0; i < 3000; ++i) many += "\u00e9";
  CHECK(pastes.put_aside(many) == "[paste 2: 3000 characters]");
  CHECK(pastes.put_back("x " + lines + lines + "!") == "x a\nb\nca\nb\nc!");
  CHECK(pastes.put_back("[paste 2: 3000 characters]") == many);
  CHECK(pastes.put_back("[paste 1: 3 line] [paste 9: 2 lines] [paste ") ==
        "[paste 1: 3 line] [paste 9: 2 lines] [paste ");
  const std::string inner = pastes.put_aside("see\n" + lines);  // a text may look like a mark
  CHECK(pastes.put_back(inner) == "see\n" + lines);
}

TEST_CASE("history: what was sent comes back, for its owner alone") {
  const TempDir dir;
  const HistoryFile file(dir / "a/b/history");
  CHECK(file.load().empty());
  const std::vector<std::string> entries = {"one", "two\nlines \\n \\", "\xff \u65e5", "  blanks "};
  for (const std::string& entry : entries) file.add(entry);
  file.add("");
  file.add(std::string("with\0nul", 8));
  file.add(std::string(HistoryFile::kMostEntryBytes + 1, 'x'));
  CHECK(file.load() == entries);
  struct stat status = {};
  REQUIRE(stat((dir / "a/b/history").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  HistoryFile("").add("nowhere");
  CHECK(HistoryFile("").load().empty());
}

TEST_CASE("history: a broken file does not matter, and a line cut short swallows nothing") {
  const TempDir dir;
  const std::string path = dir / "history";
  put(path, std::string("good\n\n\0\0nul\nalso good\ncut sho", 29));
  const HistoryFile file(path);
  CHECK(file.load() == std::vector<std::string>{"good", "also good"});
  file.add("new");
  CHECK(file.load() == std::vector<std::string>{"good", "also good", "cut sho", "new"});
  put(path, std::string(1 << 20, 'x') + "\nafter\n");
  CHECK(file.load() == std::vector<std::string>{"after"});
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  CHECK(file.load().empty());
  CHECK_THROWS_AS(file.add("x"), Error);
  std::filesystem::remove(path);
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);  // must not wait for anybody
  CHECK(file.load().empty());
  CHECK_THROWS_AS(file.add("x"), Error);
}

TEST_CASE("history: the file stays bounded while several processes write to it") {
  const TempDir dir;
  const std::string path = dir / "history";
  std::string old;
  for (size_t i = 0; i < 2 * HistoryFile::kMostEntries - 20; ++i) old += "old\n";
  put(path, old);
  constexpr int kWriters = 4, kEach = 25;
  for (int w = 0; w < kWriters; ++w) {
    if (fork() != 0) continue;
    for (int i = 0; i < kEach; ++i) HistoryFile(path).add(format("writer %d line %d", w, i));
    _exit(0);
  }
  for (int w = 0; w < kWriters; ++w) {
    int status = 1;
    wait(&status);
    CHECK(status == 0);
  }
  const std::vector<std::string> entries = HistoryFile(path).load();
  for (int w = 0; w < kWriters; ++w) {
    for (int i = 0; i < kEach; ++i) {
      const std::string line = format("writer %d line %d", w, i);
      CHECK(std::count(entries.begin(), entries.end(), line) == 1);
    }
  }
  const std::string text = test::read_file(path);
  CHECK(std::count(text.begin(), text.end(), '\n') <
        2 * static_cast<long>(HistoryFile::kMostEntries));
  CHECK(entries.size() == HistoryFile::kMostEntries);
}

TEST_CASE("lines: messages, commands and what is both") {
  const auto split = [](std::string_view line) {
    const ChatLine parts = split_line(line);
    return std::pair(std::string(parts.command), std::string(parts.rest));
  };
  using Parts = std::pair<std::string, std::string>;
  CHECK(split("hello there ") == Parts("", "hello there "));
  CHECK(split("  ") == Parts("", ""));
  CHECK(split(" /set  temp \t 0.5 ") == Parts("/set", "temp \t 0.5"));
  CHECK(split("/regen") == Parts("/regen", ""));
  CHECK(split(" //etc is") == Parts("", "/etc is"));
  CHECK(split("/etc\nis a folder") == Parts("", "/etc\nis a folder"));
  for (const std::string text : {"plain", "/slash", "//two", "/a\nb", " /blank"}) {
    CAPTURE(text);
    CHECK(split_line(message_line(text)).command == "");
  }
  CHECK(split_line(message_line("/slash")).rest == "/slash");
  for (const ChatCommand& command : chat_commands()) {
    for (const std::string& name : command.names()) CHECK(find_chat_command(name) == &command);
    CHECK(command.argument.empty() == (command.takes == ChatCommand::Argument::kNone));
  }
  CHECK(find_chat_command("/nothing") == nullptr);
  CHECK(find_chat_command("") == nullptr);
  CHECK(find_chat_command("/bye") == find_chat_command("/exit"));
  CHECK(find_chat_command("/?") == find_chat_command("/help"));
}

TEST_CASE("entries: three quotes begin and end a message of many lines") {
  using Status = LineInput::Status;
  TypedLines typed({"hello", "\"\"\"", "/a", "", "b\"\"\"", "  \"\"\"first", " mid ", "\"\"\" ",
                    "\"\"\"one line\"\"\"", "\"\"\"\"\"\"", "a \"\"\" b", "\"\"\"open", "end"});
  const auto check = [&](const std::string& entry, bool quoted) {
    const Read read = read_all(typed);
    CHECK(read.status == Status::kLine);
    CHECK(read.entry == entry);
    CHECK(read.quoted == quoted);
  };
  check("hello", false);
  check("/a\n\nb", true);
  check("first\n mid ", true);
  check("one line", true);
  check("", true);
  check("a \"\"\" b", false);
  test::check_mentions(test::expect_error(ErrorCode::kLimit, [&] { read_all(typed); }),
                       {"the message was not ended by \"\"\": not sent"});
  CHECK(typed.prompts == ">>...>..>>>>..");
  TypedLines cancelled({"\"\"\"begun"}, Status::kCancelled);
  const Read read = read_all(cancelled);
  CHECK(read.status == Status::kCancelled);
  CHECK(read.quoted);
}

TEST_CASE("entries: of a message that is too long no line is a message or a command") {
  // Refuses that line, as one that is too long by itself is.
  class Refusing final : public LineInput {
   public:
    explicit Refusing(TypedLines& inner) : inner_(inner) {}
    Status next(LinePrompt prompt, std::string& line) override {
      const Status status = inner_.next(prompt, line);
      if (line == "refused") throw Error(ErrorCode::kLimit, "planted");
      return status;
    }

   private:
    TypedLines& inner_;
  };
  const std::string too_long(kMaxTextBytes + 1, 'a');
  for (const std::string& line : {std::string("refused"), too_long}) {
    TypedLines typed({"\"\"\"begun", line, "/exit", "\"\"\"", "x"});
    Refusing input(typed);
    test::check_mentions(test::expect_error(ErrorCode::kLimit, [&] { read_all(input); }),
                         {"longer than 64 MiB"});
    CHECK(read_all(input).entry == "x");
  }
}

TEST_CASE("completion: commands, what they take, and paths") {
  const CompletionSource source = settings_source();
  CHECK(complete("hello", source).words.empty());
  CHECK(complete("", source).words.empty());
  CHECK(complete("/cl", source).insertion() == "/clear ");
  CHECK(complete("/b", source).insertion() == "/bye ");
  CHECK(complete("/s", source).words.size() >= 5);
  CHECK(complete("/s", source).insertion() == "/s");
  CHECK(complete("/nothing", source).words.empty());
  CHECK(complete("/spec o", source).words == std::vector<std::string>{"off", "on"});
  CHECK(complete("/set to", source).insertion() == "top-");
  CHECK(complete("/set to", source).from == 5);
  CHECK(complete("/set  spec of", source).insertion() == "off ");
  CHECK(complete("/set temp ", source).words.empty());
  CHECK(complete("/regen x", source).words.empty());

  const TempDir dir;
  put(dir / "talk 1.json", "x");
  put(dir / ".hidden", "x");
  std::filesystem::create_directory(dir / "folder");
  put(dir / "folder/\u65e5\u672c", "x");
  put(dir / "folder/\u65e5\u6587", "x");
  const auto in = [&](const std::string& rest) {
    return complete("/load " + (dir / rest), source);
  };
  CHECK(in("").words == std::vector<std::string>{dir / "folder/", dir / "talk 1.json"});
  CHECK(in("fo").insertion() == dir / "folder/");
  CHECK(in("talk ").insertion() == (dir / "talk 1.json") + " ");
  CHECK(in(".h").insertion() == (dir / ".hidden") + " ");
  CHECK(in("folder/").insertion() == dir / "folder/\u65e5");  // not inside of a character
  CHECK(in("absent/x").words.empty());
  const std::string home = std::getenv("HOME") ? std::getenv("HOME") : "";
  setenv("HOME", (dir / "").c_str(), 1);
  CHECK(complete("/save ~/fo", source).insertion() == "~/folder/");
  CHECK(complete("/set grammar  ~/fo", source).insertion() == "~/folder/");
  CHECK(complete("/set grammar  ~/fo", source).from == 14);
  CHECK(complete("/set temp ~/fo", source).words.empty());
  CHECK(home_expanded("~/x") == (dir / "") + "/x");
  CHECK(home_expanded("~other/x") == "~other/x");
  setenv("HOME", home.c_str(), 1);
}

TEST_CASE("histogram: drafts by layer and by place in the round") {
  Counters counters;
  DraftPlaces places;
  CHECK(acceptance_histogram(counters, places).empty());
  counters.drafted_tokens = 12;
  counters.accepted_tokens = 8;
  counters.accepted_at = {0, 0, 6, 0, 2};
  places.drafted = {8, 4};
  places.accepted = {7, 1};
  CHECK(acceptance_histogram(counters, places) ==
        "accepted drafts by the layer they left at, of 8:\n"
        "  layer  2  ########################         6 (75 %)\n"
        "  layer  4  ########                         2 (25 %)\n"
        "drafts that were right, by their place in the round:\n"
        "  place  1  ############################     7 of 8 (88 %)\n"
        "  place  2  ########                         1 of 4 (25 %)\n");
  counters.accepted_tokens = 0;
  counters.accepted_at = {};
  places.accepted = {};
  CHECK(acceptance_histogram(counters, places).find("0 of 4 (0 %)") != std::string::npos);
}

}  // namespace specbound::repl_test
