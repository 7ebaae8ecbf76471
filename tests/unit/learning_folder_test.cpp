// What idle learning keeps: for its owner alone, bounded, by one process at a time, until it is
// forgotten.
#include "runtime/learning_folder.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "corpus/corpus.h"
#include "expect_error.h"
#include "process_state.h"
#include "read_file.h"
#include "temp_dir.h"

namespace learning_folder_test {

using namespace specbound;
using namespace specbound::test;

namespace {

namespace fs = std::filesystem;

// The data of this person go into a folder of the test's own.
class DataHome {
 public:
  std::string operator/(const std::string& name) const { return folder_ / name; }

 private:
  TempDir folder_;
  Environment data_{"XDG_DATA_HOME", folder_.path().c_str()};
};

SavedConversation conversation(const std::string& text) {
  using Role = ChatMessage::Role;
  SavedConversation saved;
  saved.title = "t";
  saved.messages = {{Role::kUser, text}, {Role::kAssistant, "A reply."}};
  return saved;
}

mode_t mode_of(const std::string& path) {
  struct stat status = {};
  REQUIRE(stat(path.c_str(), &status) == 0);
  return status.st_mode & 0777;
}

}  // namespace

TEST_CASE("learning folder: answers are remembered, and nonsense is none") {
  const DataHome home;
  CHECK(read_learning_answer() == LearningAnswer::kNone);
  for (const auto answer : {LearningAnswer::kOffered, LearningAnswer::kOn, LearningAnswer::kOff}) {
    keep_learning_answer(answer);
    CHECK(read_learning_answer() == answer);
  }
  CHECK(mode_of(learning_home()) == 0700);
  std::ofstream(learning_home() + "/answer") << "perhaps\n";
  CHECK(read_learning_answer() == LearningAnswer::kNone);
}

TEST_CASE("learning folder: each model has its own") {
  const DataHome home;
  CHECK(learning_folder("a") != learning_folder("b"));
  CHECK(learning_folder("a").starts_with(home / "specbound/learning/"));
  CHECK(learnt_heads("a") == learning_folder("a") + "/heads.gguf");
}

TEST_CASE("learning folder: conversations are data to train from, for their owner, and bounded") {
  const DataHome home;
  const std::string folder = learning_folder("a"), path = folder + "/conversations.jsonl";
  keep_for_learning(folder, {});  // nothing was said
  CHECK(!fs::exists(path));
  keep_for_learning(folder, conversation("first"));
  CHECK(mode_of(path) == 0600);
  CHECK(mode_of(folder) == 0700);
  std::ofstream(path, std::ios::app) << "{\"messages\": [{\"ro";  // a full disk cut it short
  keep_for_learning(folder, conversation("second"));
  const std::string paths[] = {path};
  const Corpus corpus = read_corpus(paths);
  CHECK(corpus.dialogues == 2);
  CHECK(corpus.skipped == 1);

  const std::string much(kMostConversationBytes / 4, 'x');
  for (int i = 0; i < 6; ++i) {
    keep_for_learning(folder, conversation(std::to_string(i) + much));
    CHECK(fs::file_size(path) <= kMostConversationBytes + kMostConversationBytes / 2);
  }
  const Corpus newest = read_corpus(paths);
  CHECK(newest.skipped == 0);
  CHECK(newest.texts.back().messages[0].content[0] == '5');
  CHECK(fs::file_size(path) <= kMostConversationBytes);
}

TEST_CASE("learning folder: a pipe or link in its place is not written through") {
  const DataHome home;
  const std::string folder = learning_folder("a"), path = folder + "/conversations.jsonl";
  make_learning_folder(folder);
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  expect_error(ErrorCode::kFile, [&] { keep_for_learning(folder, conversation("x")); });
}

TEST_CASE("learning folder: one learns at a time, and nothing is forgotten meanwhile") {
  const DataHome home;
  const std::string folder = learning_folder("a");
  make_learning_folder(folder);
  keep_for_learning(folder, conversation("x"));
  {
    const auto lock = LearningLock::take(folder);
    REQUIRE(lock);
    CHECK(!LearningLock::take(folder));
    keep_for_learning(learning_folder("b"), conversation("x"));
    CHECK(forget_learning().at_work == std::vector{folder});
    CHECK(fs::exists(folder + "/conversations.jsonl"));
    CHECK(!fs::exists(learning_folder("b")));
  }
  CHECK(LearningLock::take(folder));
}

TEST_CASE("learning folder: all of it can be forgotten, and a no stays") {
  const DataHome home;
  CHECK(forget_learning().bytes == 0);
  keep_learning_answer(LearningAnswer::kOn);
  keep_for_learning(learning_folder("a"), conversation("x"));
  fs::create_directories(learning_folder("b") + "/training");
  std::ofstream(learning_folder("b") + "/training/features-00000.bin") << "0123456789";
  const fs::path elsewhere = home / "elsewhere";
  fs::create_directories(elsewhere);
  std::ofstream(elsewhere / "file") << "mine";
  fs::create_directory_symlink(elsewhere, learning_home() + "/link");
  CHECK(forget_learning().bytes > 10);
  CHECK(!fs::exists(learning_folder("a")));
  CHECK(!fs::exists(learning_folder("b")));
  CHECK(fs::exists(elsewhere / "file"));
  CHECK(read_learning_answer() == LearningAnswer::kNone);
  keep_learning_answer(LearningAnswer::kOff);
  CHECK(forget_learning().bytes == 0);
  CHECK(read_learning_answer() == LearningAnswer::kOff);
}

}  // namespace learning_folder_test
