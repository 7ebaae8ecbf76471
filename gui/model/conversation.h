// Conversations as the window keeps them: what was said, and which bytes of a reply are which
// token. As files: one JSON object each in a folder of the person's data home, replaced whole or
// not at all, in the format of runtime/saved_conversation.h; what cannot be read is reported and
// left as it is, never written over. And exported for other programs. No drawing, no worker.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gui/model/text_layout.h"
#include "runtime/saved_conversation.h"

namespace specbound::gui {

// Another number each time, above 0.
uint64_t fresh_key();

// Text is the bytes as generated; drawing replaces what is no UTF-8.
struct Message : SavedMessage {
  // Of a reply of this process only:
  uint64_t reply = 0;                   // its id; 0: it came from a file
  std::vector<size_t> token_ends = {};  // [i]: bytes of text up to the end of token i

  // What layouts are kept under: the text of a key only ever grows. What says something else is
  // another Message.
  uint64_t key = fresh_key();

  // The token that byte `at` of the text belongs to; -1: none is known.
  int token_at(size_t at) const;
  // Bytes [begin, end) of token i; it may be empty.
  TextRange token_bytes(int i) const;
};

struct Conversation {
  std::string id;                 // file name without .json
  std::string title;              // the first message's beginning unless given
  std::string system;             // prompt; empty: none
  std::vector<Message> messages;  // user and assistant in turn
  int64_t changed = 0;            // seconds since 1970
  size_t heard_from = 0;          // messages before it are not learnt from; not in files

  // Whether its title or any of its messages has `needle` in it, capital ASCII letters or small.
  bool mentions(std::string_view needle) const;

  // For the worker: system prompt first, the first `n` messages.
  std::vector<ChatMessage> prompt(size_t n) const;
};

// Nothing but white space: no message.
bool is_blank(std::string_view text);

// $XDG_DATA_HOME/specbound/conversations; without that variable (or with a relative path in it,
// which its specification forbids) ~/.local/share. Throws Error(kUsage) without a home either.
std::string default_conversations_folder();

// As stored. Bytes that are no UTF-8 become U+FFFD.
std::string conversation_json(const Conversation& conversation);

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
  std::vector<Conversation> load(std::vector<std::string>& problems);

  // Not for a conversation without messages. Where another window has written to its file since
  // this one last looked, that stays, and this window goes on in a file of its own; whether that is
  // so from now on. Throws Error(kFile).
  bool save(const Conversation& conversation);
  // Its file, unless another window has written to it: whether there is none now. Throws
  // Error(kFile).
  bool remove(const std::string& id);

  // A name that no conversation has, neither here nor in another window's hands.
  std::string new_id() const;

 private:
  // Each save is a new file.
  struct Version {
    uint64_t inode = 0;
    int64_t bytes = 0;
    int64_t seconds = 0, nanoseconds = 0;  // of its last change
    bool operator==(const Version&) const = default;
  };
  // The file of a conversation in this window, as it left it; no version: it has written none.
  struct Kept {
    std::string name;  // without .json
    std::optional<Version> version = {};
  };

  std::string path_of(const std::string& name) const;
  std::optional<Version> version_of(const std::string& name) const;  // nullopt: there is no file

  std::string folder_;
  std::map<std::string, Kept> kept_;  // [id]
};

enum class ExportFormat { kMarkdown, kText, kJson };
inline constexpr std::array<ExportFormat, 3> kExportFormats = {
    ExportFormat::kMarkdown, ExportFormat::kText, ExportFormat::kJson};

const char* format_name(ExportFormat format);  // "Markdown"

// UTF-8, whatever the replies' bytes are. JSON is what the program itself stores.
std::string export_text(const Conversation& conversation, ExportFormat format);

// A file name made of the title: "how-do-tides-work.md".
std::string export_name(const Conversation& conversation, ExportFormat format);

// Where files that a person asked for go: the documents folder if there is one, else the home
// folder, else the folder the program was started in.
std::string export_folder();

}  // namespace specbound::gui
