// Conversations as files: one JSON object each in a folder of the person's data home, replaced
// whole or not at all, in the format of app/saved_conversation.h. What cannot be read is reported
// and left as it is, never written over.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gui/model/conversation.h"

namespace specbound::gui {

// $XDG_DATA_HOME/specbound/conversations; without that variable (or with a relative path in it,
// which its specification forbids) ~/.local/share. Throws Error(kUsage) without a home either.
std::string default_conversations_folder();

// As stored. Bytes that are no UTF-8 become U+FFFD.
std::string conversation_json(const Conversation& conversation);
// Throws Error(kFormat | kLimit) saying what was expected and found; `name` stands for the file.
Conversation parse_conversation(std::string_view json, const std::string& name);

// Of a file of at most 16 MiB; without an id. Throws what parsing throws, and Error(kFile) for what
// cannot be read or is no regular file.
Conversation read_conversation(const std::string& path);

class ConversationStore {
 public:
  // The folder is made when the first conversation is saved. An empty name keeps nothing.
  explicit ConversationStore(std::string folder) : folder_(std::move(folder)) {}

  const std::string& folder() const { return folder_; }

  // Newest first. A line in `problems` for each file that is left out, and why; what a file holds
  // never throws. Removes temporary files that a crash left behind.
  std::vector<Conversation> load(std::vector<std::string>& problems) const;

  // Not for a conversation without messages. Throws Error(kFile).
  void save(const Conversation& conversation) const;
  // Its file, if there is one. Throws Error(kFile).
  void remove(const std::string& id) const;

  // A name that no conversation has, neither here nor in another window's hands.
  std::string new_id() const;

 private:
  std::string path_of(const std::string& id) const;

  std::string folder_;
};

}  // namespace specbound::gui
