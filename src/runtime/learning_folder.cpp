#include "runtime/learning_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "error.h"
#include "system/file_output.h"
#include "system/regular_file.h"
#include "system/text_input.h"
#include "system/user_path.h"

namespace specbound {

namespace {

namespace fs = std::filesystem;

constexpr const char* kLock = "lock";

std::string answer_path() {
  const std::string home = learning_home();
  return home.empty() ? "" : home + "/answer";
}

const char* answer_word(LearningAnswer answer) {
  constexpr const char* kWords[] = {"", "offered", "on", "off"};
  return kWords[static_cast<size_t>(answer)];
}

void make_private(const std::string& folder) {
  std::error_code error;
  if (fs::create_directories(folder, error)) {
    fs::permissions(folder, fs::perms::owner_all, error);
  }
  if (!fs::is_directory(folder, error)) {
    throw Error(ErrorCode::kFile, printable(folder) + ": cannot be made: nothing is kept there");
  }
}

// Its owner's alone from the first byte on. A pipe that lies there is not waited for.
void make_file(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (fd >= 0) close(fd);
}

// Behind the line that is half way.
void halve(const std::string& path) {
  const std::string all = read_bytes(path);
  const size_t line = all.find('\n', all.size() / 2);
  write_file(path, line == std::string::npos ? "" : std::string_view(all).substr(line + 1));
}

bool is_models(const fs::directory_entry& entry) {
  std::error_code error;
  return entry.is_directory(error) && !entry.is_symlink(error);
}

uint64_t bytes_in(const fs::path& folder) {
  std::error_code error;
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
    const bool file = entry.is_regular_file(error) && !entry.is_symlink(error);
    if (file) bytes += entry.file_size(error);
  }
  return bytes;
}

}  // namespace

std::string learning_home() {
  return user_path("XDG_DATA_HOME", ".local/share", "learning");
}

std::string learning_folder(const std::string& model_fingerprint) {
  const std::string home = learning_home();
  return home.empty() ? "" : home + '/' + name_digits(model_fingerprint);
}

std::string learnt_heads(const std::string& model_fingerprint) {
  const std::string folder = learning_folder(model_fingerprint);
  return folder.empty() ? "" : folder + "/heads.gguf";
}

LearningAnswer read_learning_answer() {
  std::string word;
  std::ifstream(answer_path()) >> word;
  for (const auto answer : {LearningAnswer::kOffered, LearningAnswer::kOn, LearningAnswer::kOff}) {
    if (word == answer_word(answer)) return answer;
  }
  return LearningAnswer::kNone;
}

void keep_learning_answer(LearningAnswer answer) {
  if (answer_path().empty()) {
    throw Error(ErrorCode::kFile, "no folder to learn in: set HOME or XDG_DATA_HOME to one");
  }
  make_private(learning_home());
  write_file(answer_path(), answer_word(answer) + std::string("\n"));
}

void make_learning_folder(const std::string& folder) {
  make_private(learning_home());
  make_private(folder);
}

void keep_for_learning(const std::string& folder, const SavedConversation& conversation) {
  if (conversation.messages.size() < 2) return;
  make_learning_folder(folder);
  const std::string path = folder + "/conversations.jsonl";
  // A line that a full disk cut short must not swallow this one; blank lines are none.
  const std::string line = "\n" + saved_conversation_json(conversation);
  make_file(path);
  check_regular(path, UINT64_MAX);
  append_file(path, line);
  std::error_code gone;  // where somebody else forgets it meanwhile
  const auto bytes = fs::file_size(path, gone);
  if (!gone && bytes > kMostConversationBytes) halve(path);
}

std::optional<LearningLock> LearningLock::take(const std::string& folder) {
  const std::string path = folder + '/' + kLock;
  Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) {
    throw Error(ErrorCode::kFile,
                format("%s: cannot open: %s", printable(path).c_str(), std::strerror(errno)));
  }
  // A lock on a file that somebody has deleted since keeps nobody out.
  const bool locked = flock(file.get(), LOCK_EX | LOCK_NB) == 0;
  return locked && is_at(file, path) ? std::optional(LearningLock(std::move(file))) : std::nullopt;
}

ForgottenLearning forget_learning() {
  const std::string home = learning_home();
  std::error_code error;
  ForgottenLearning forgotten;
  std::vector<std::pair<fs::path, LearningLock>> held;  // all first: nobody begins meanwhile
  for (const fs::directory_entry& entry : fs::directory_iterator(home, error)) {
    if (!is_models(entry)) continue;
    if (auto lock = LearningLock::take(entry.path().string())) {
      held.emplace_back(entry.path(), std::move(*lock));
    } else {
      forgotten.at_work.push_back(entry.path().string());
    }
  }
  for (const auto& [folder, lock] : held) {
    forgotten.bytes += bytes_in(folder);
    std::error_code failed;
    fs::remove_all(folder, failed);
    if (failed) {
      throw Error(ErrorCode::kFile,
                  format("%s: cannot be deleted: %s", printable(folder.string()).c_str(),
                         failed.message().c_str()));
    }
  }
  if (read_learning_answer() != LearningAnswer::kOff) fs::remove(answer_path(), error);
  fs::remove(home, error);  // where nothing else is in it
  return forgotten;
}

}  // namespace specbound
