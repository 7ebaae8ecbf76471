// The folder listing of the model dialog, and exports.
#include "gui/model/file_list.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "gui/model/conversation.h"
#include "unit/temp_dir.h"

namespace specbound::gui::file_list_test {

namespace {

namespace fs = std::filesystem;

void put(const std::string& path, size_t bytes) {
  std::ofstream(path, std::ios::binary) << std::string(bytes, 'x');
}

std::vector<std::string> names(const FileList& list) {
  std::vector<std::string> result;
  for (const FileEntry& e : list.entries()) result.push_back(e.name + (e.folder ? "/" : ""));
  return result;
}

}  // namespace

TEST_CASE("file list: folders, then models, by name; neither hidden ones nor exit heads") {
  test::TempDir dir;
  fs::create_directory(dir / "zoo");
  fs::create_directory(dir / ".cache");
  fs::create_directory(dir / "Data.gguf");
  put(dir / "b.gguf", 10);
  put(dir / "A.GGUF", 3);
  put(dir / "a.heads.gguf", 3);
  put(dir / ".hidden.gguf", 3);
  put(dir / "readme.txt", 3);
  put(dir / "\xff odd.gguf", 3);
  REQUIRE(mkfifo((dir / "pipe.gguf").c_str(), 0600) == 0);
  fs::create_symlink(dir / "b.gguf", dir / "link.gguf");
  fs::create_symlink(dir / "zoo", dir / "link");
  fs::create_symlink(dir / "none", dir / "dangling.gguf");
  FileList list;
  list.open(dir.path().string());
  CHECK(list.problem() == "");
  CHECK(names(list) == std::vector<std::string>{"Data.gguf/", "link/", "zoo/", "A.GGUF", "b.gguf",
                                                "link.gguf", "\xff odd.gguf"});
  CHECK(list.entries()[4].bytes == 10);
  CHECK(list.entries()[5].bytes == 10);
  CHECK(list.path(list.entries()[4]) == dir / "b.gguf");
  put(dir / "chat.json", 1);
  list.open(dir.path().string(), FileKind::kConversation);
  CHECK(names(list) == std::vector<std::string>{"Data.gguf/", "link/", "zoo/", "chat.json"});
  list.open(dir.path().string(), FileKind::kTrace);
  CHECK(list.entries().size() == 3 + 7);
}

TEST_CASE("file list: of a split model the first file") {
  test::TempDir dir;
  for (const char* name : {"a-00001-of-00002.gguf", "a-00002-of-00002.gguf",
                           "B-00010-OF-00011.GGUF", "c-0002-of-0002.gguf"}) {
    put(dir / name, 1);
  }
  FileList list;
  list.open(dir.path().string());
  CHECK(names(list) == std::vector<std::string>{"a-00001-of-00002.gguf", "c-0002-of-0002.gguf"});
}

TEST_CASE("file list: a path is made absolute and plain, and has a parent up to the root") {
  test::TempDir dir;
  fs::create_directory(dir / "a");
  FileList list;
  list.open(dir / "a/../a/");
  CHECK(list.folder() == dir / "a");
  CHECK(list.parent() == dir.path().string());
  list.open("/");
  CHECK(list.folder() == "/");
  CHECK(list.parent() == "/");
  CHECK(list.problem() == "");
}

TEST_CASE("file list: a folder that cannot be read says so") {
  test::TempDir dir;
  put(dir / "file", 1);
  FileList list;
  for (const std::string& path : {dir / "none", dir / "file", std::string(100000, 'x')}) {
    list.open(dir.path().string());
    list.open(path);
    CHECK(list.entries().empty());
    CHECK(list.problem() != "");
  }
  list.open("");
  CHECK(list.folder() != "");
}

TEST_CASE("file list: places are folders that are there, each once") {
  const std::vector<Place> found = places();
  REQUIRE_FALSE(found.empty());
  CHECK(found.back().path == "/");
  for (const Place& place : found) {
    CHECK(fs::is_directory(place.path));
    CHECK(std::count_if(found.begin(), found.end(),
                        [&](const Place& p) { return p.path == place.path; }) == 1);
  }
}

TEST_CASE("file list: sizes for people") {
  CHECK(size_text(0) == "0 B");
  CHECK(size_text(999) == "999 B");
  CHECK(size_text(1000) == "1.0 KB");
  CHECK(size_text(9949) == "9.9 KB");
  CHECK(size_text(9951) == "10 KB");
  CHECK(size_text(999499) == "999 KB");
  CHECK(size_text(999501) == "1.0 MB");
  CHECK(size_text(1234567890) == "1.2 GB");
  CHECK(size_text(UINT64_MAX) == "18 EB");
}

TEST_CASE("export: Markdown, text and JSON") {
  Conversation c;
  c.title = "How do tides work?";
  c.system = "Be brief.\nBe kind.";
  c.messages.push_back({{.role = ChatMessage::Role::kUser, .text = "Why?"}});
  c.messages.push_back(
      {{.role = ChatMessage::Role::kAssistant, .text = "Moon \xff", .figures = "2 tokens"}});
  CHECK(export_text(c, ExportFormat::kMarkdown) ==
        "# How do tides work?\n\n**System prompt**\n\n> Be brief.\n> Be kind.\n\n**You**\n\nWhy?\n"
        "\n**Assistant**\n\nMoon \ufffd\n\n*2 tokens*\n");
  CHECK(export_text(c, ExportFormat::kText) ==
        "How do tides work?\n\nSystem prompt:\nBe brief.\nBe kind.\n\nYou:\nWhy?\n\nAssistant:\n"
        "Moon \ufffd\n");
  const SavedConversation back = parse_saved_conversation(export_text(c, ExportFormat::kJson), "x");
  CHECK(back.messages.size() == 2);
  CHECK(back.system == c.system);
}

TEST_CASE("export: file names are plain, whatever the title is") {
  Conversation c;
  c.title = "How do tides work?";
  CHECK(export_name(c, ExportFormat::kMarkdown) == "how-do-tides-work.md");
  c.title = "../../etc/passwd\n";
  CHECK(export_name(c, ExportFormat::kText) == "etc-passwd.txt");
  c.title = "\u6c34";
  CHECK(export_name(c, ExportFormat::kJson) == "conversation.json");
  c.title = std::string(5000, 'a');
  CHECK(export_name(c, ExportFormat::kJson).size() < 100);
}

TEST_CASE("file list: of paths in a line only the files' names") {
  CHECK(without_folders("auto with heads of /a/b c/x.heads.gguf, up to 8 rows") ==
        "auto with heads of x.heads.gguf, up to 8 rows");
  CHECK(without_folders("/m/model.gguf") == "model.gguf");
  CHECK(without_folders("draft, by /m/d.gguf (30 layers)") == "draft, by d.gguf (30 layers)");
  CHECK(without_folders("/m/u/t.jsonl: cannot write the trace: Input/output error; what is there "
                        "is not all of it") ==
        "t.jsonl: cannot write the trace: Input/output error; what is there is not all of it");
  CHECK(without_folders("read /a/b.gguf; then a/c") == "read b.gguf; then a/c");
  CHECK(without_folders("2 tok/s and / or /") == "2 tok/s and / or /");
  CHECK(without_folders("") == "");
}

}  // namespace specbound::gui::file_list_test
