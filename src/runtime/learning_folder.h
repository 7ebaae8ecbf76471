// What idle learning keeps, for its owner alone, in $XDG_DATA_HOME/specbound/learning (without that
// variable ~/.local/share): whether it may learn on this machine, and a folder for each model, with
//   heads.gguf           heads that were measured to be faster than those before them
//   conversations.jsonl  what was said with the model, as dialogues to train from
//   texts.bin            what the model wrote to learn from (train-heads --texts)
// and what a round of learning has under way (learning/idle_learner.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "descriptor.h"
#include "runtime/saved_conversation.h"

namespace specbound {

// Empty without a home.
std::string learning_home();
// Of a model by its fingerprint (model/exit_heads.h). Empty without a home.
std::string learning_folder(const std::string& model_fingerprint);
// The heads that were learnt, whether or not there are any. Empty without a home.
std::string learnt_heads(const std::string& model_fingerprint);

enum class LearningAnswer {
  kNone,     // nobody was asked
  kOffered,  // nobody has answered
  kOn,
  kOff
};
LearningAnswer read_learning_answer();
// Throws Error(kFile).
void keep_learning_answer(LearningAnswer answer);

// Makes the folder of a model. Throws Error(kFile).
void make_learning_folder(const std::string& folder);

// Behind those that are there; the older half goes where they have become kMostConversationBytes.
// One without a reply teaches nothing and is not kept. Throws Error(kFile).
inline constexpr size_t kMostConversationBytes = size_t{8} << 20;
void keep_for_learning(const std::string& folder, const SavedConversation& conversation);

// Held while somebody learns in a folder: two on one model would be in each other's way.
class LearningLock {
 public:
  // nullopt: another process has it.
  static std::optional<LearningLock> take(const std::string& folder);

 private:
  explicit LearningLock(Descriptor file) : file_(std::move(file)) {}
  Descriptor file_;
};

// Deletes all of it, of all models, and the answer with it, unless that was no; not where somebody
// learns just now. Throws Error(kFile) where something cannot be deleted.
struct ForgottenLearning {
  uint64_t bytes = 0;
  std::vector<std::string> at_work;  // folders that stay
};
ForgottenLearning forget_learning();

}  // namespace specbound
