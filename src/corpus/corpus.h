// Texts to learn from, read from files, and what of them is learnt. Files come from anywhere: lines
// that are none are skipped and counted.
//
//   .jsonl   a text a line: {"messages": [{"role": "user"|"assistant"|"system", "content": "..."},
//            ...]}, the bare list of messages, or {"text": "..."}. What a chat saves is such a line
//            too: its messages have "text" for "content", and "system" stands beside them
//   .txt     plain text; other names: JSON lines if the first character is { or [, else plain text
//   .xz      any of these, packed
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "corpus/features.h"
#include "templates/chat_template.h"
#include "text/tokenizer.h"

namespace specbound {

// A dialogue that ends with a reply, or a piece of plain text.
struct CorpusText {
  std::vector<ChatMessage> messages;  // empty: plain text
  std::string text;
};

struct Corpus {
  std::vector<CorpusText> texts;  // in the order of the files
  int64_t dialogues = 0;          // of the texts; the rest is plain
  int64_t lines = 0;              // that were not blank, of JSON lines
  int64_t skipped = 0;            // of these, lines that are no text
  std::string first_skipped;      // "chat.jsonl:17: why"
  uint64_t hash = 0;              // of all bytes, unpacked
};

inline constexpr size_t kMaxLineBytes = size_t{16} << 20;   // longer lines are skipped
inline constexpr size_t kMaxCorpusBytes = size_t{1} << 30;  // unpacked, all files
inline constexpr size_t kMaxPlainBytes = size_t{16} << 10;  // plain text is cut into such pieces

// `progress(bytes)`, unpacked so far, may throw, and so may `wait`, see DataFile. Throws
// Error(kFile | kFormat | kLimit) for a file that cannot be read, Error(kFormat) when no text at
// all is found.
Corpus read_corpus(std::span<const std::string> paths,
                   const std::function<void(size_t)>& progress = nullptr,
                   const std::function<void(int fd)>& wait = nullptr);

// Whether a file of that name, unpacked, that begins so holds JSON lines; nullopt: more of it is
// needed to tell.
std::optional<bool> holds_json_lines(std::string_view name, std::string_view beginning);

// The line as a text; otherwise the reason why it is none.
std::string parse_corpus_line(std::string_view line, CorpusText& text);

// The order of `n` texts that `seed` gives, the same on every machine.
std::vector<size_t> shuffled_order(size_t n, uint64_t seed);

// `text` as tokens, at most `n_ctx` in each. A dialogue is rendered with `chat_template` (not null
// then) and cut at its end; learnt are the positions before the tokens of its replies, end tokens
// included. Plain text is cut into as many as it takes, and all of it learnt.
std::vector<TrainingText> training_texts(const CorpusText& text, const Tokenizer& tokenizer,
                                         const ChatTemplate* chat_template, int n_ctx);

// A sixteenth of the prompts goes to the end with all replies to them, those of a prompt together:
// what stands at the end is validated on, and prompts that were answered several times would tell
// there what was learnt. Returns the first of these texts.
size_t hold_out(std::vector<TrainingText>& texts);
// Where it goes among those, which ascend; 0: it stays where it is.
uint64_t held_out_place(const TrainingText& text);

// Tokens that are learnt from in `text`.
int64_t learnt_tokens(const TrainingText& text);
int64_t learnt_tokens(std::span<const TrainingText> texts);

// The tokens of their replies, LookupMemory::kBetween behind each; of the first texts where `most`
// do not hold all.
std::vector<int32_t> reply_tokens(std::span<const TrainingText> texts, size_t most);

// `size` token ids (all, when the vocabulary has no more): those that end a reply, then by falling
// number of times they are learnt in `texts`, equals by id.
std::vector<int32_t> count_shortlist(std::span<const TrainingText> texts, int vocab_size, int size,
                                     const std::function<bool(int32_t)>& ends_reply);

}  // namespace specbound
