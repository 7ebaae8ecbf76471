#include "corpus/corpus.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "corpus/data_file.h"
#include "decode/common_prefix.h"
#include "drafters/lookup.h"
#include "error.h"
#include "json/json_reader.h"
#include "numerics/splitmix64.h"

namespace specbound {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 32;  // of JSON; four are needed
constexpr const char* kExpected =
    "{\"messages\": [{\"role\": ..., \"content\": ...}, ...]}, a list of such messages, or "
    "{\"text\": ...}";

// The JSON of a line, or the reason why there is none.
std::string read_json(std::string_view line, Json& value) {
  try {
    value = parse_json(line, "line", {.depth = kMaxDepth, .repeated_keys = true});
    return "";
  } catch (const JsonError& e) {
    if (e.fault == JsonError::Fault::kText) return format("no JSON from byte %zu on", e.byte);
    if (e.fault == JsonError::Fault::kLimit) return format("brackets more than %d deep", kMaxDepth);
    return "no JSON: a number out of range";
  }
}

std::optional<ChatMessage::Role> parse_role(const std::string& name) {
  if (name == "system") return ChatMessage::Role::kSystem;
  if (name == "user") return ChatMessage::Role::kUser;
  if (name == "assistant") return ChatMessage::Role::kAssistant;
  return std::nullopt;
}

const std::string* find_string(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() ? it->get_ptr<const std::string*>() : nullptr;
}

std::string parse_messages(const Json& list, std::vector<ChatMessage>& messages) {
  if (!list.is_array()) {
    return format("\"messages\" is %s, expected a list", list.type_name());
  }
  size_t kept = 0, number = 0;
  for (const Json& entry : list) {
    const std::string at = format("message %zu", ++number);
    if (!entry.is_object()) return at + ": expected an object, found " + entry.type_name();
    const std::string* role_name = find_string(entry, "role");
    const std::string* content = find_string(entry, "content");
    if (!content) content = find_string(entry, "text");
    if (!role_name) return at + ": no \"role\" that is a string";
    if (!content) return at + ": no \"content\" that is a string";
    const auto role = parse_role(*role_name);
    if (!role) {
      return format("%s: role \"%s\", expected system, user or assistant", at.c_str(),
                    printable(*role_name).c_str());
    }
    messages.push_back({*role, *content});
    if (*role == ChatMessage::Role::kAssistant) kept = messages.size();
  }
  messages.resize(kept);  // what stands behind the last reply teaches nothing
  return kept > 0 ? "" : "no message of an assistant";
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

// Where to cut `text`, which is longer than a piece: behind a line, a word, a character.
size_t piece_length(std::string_view text) {
  const std::string_view head = text.substr(0, kMaxPlainBytes);
  for (const char* separators : {"\n", " \t\r"}) {
    const size_t at = head.find_last_of(separators);
    if (at != std::string_view::npos && at >= kMaxPlainBytes / 2) return at + 1;
  }
  size_t length = kMaxPlainBytes;
  while (length > kMaxPlainBytes - 4 && (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80) {
    --length;
  }
  return length;
}

class CorpusReader {
 public:
  CorpusReader(const std::function<void(size_t)>& progress, const DataFile::Wait& wait)
      : progress_(progress), wait_(wait) {}

  void read(const std::string& path) {
    DataFile file(path, wait_);
    name_ = file.name();
    line_ = 0;
    searched_ = 0;
    skipping_ = false;
    std::string buffer;
    std::optional<bool> json = holds_json_lines(name_, "");
    std::vector<char> block(size_t{256} << 10);
    for (;;) {
      const size_t n = file.read(block);
      bytes_ += n;
      if (bytes_ > kMaxCorpusBytes) {
        throw Error(ErrorCode::kLimit,
                    format("%s: more than %zu MiB of text in all: give a part of it", name_.c_str(),
                           kMaxCorpusBytes >> 20));
      }
      if (progress_) progress_(bytes_);
      buffer.append(block.data(), n);
      if (!json) json = holds_json_lines(name_, buffer);
      if (!json && n > 0) {  // nothing but blanks so far
        line_ += std::ranges::count(buffer, '\n');
        buffer.clear();
        continue;
      }
      json.value_or(false) ? take_lines(buffer, n == 0) : take_plain(buffer, n == 0);
      if (n == 0) break;
    }
    corpus_.hash = (corpus_.hash ^ file.hash()) * 0x9e3779b97f4a7c15u + 1;
  }

  Corpus finish() {
    if (!corpus_.texts.empty()) return std::move(corpus_);
    throw Error(
        ErrorCode::kFormat,
        corpus_.lines == 0
            ? format("%s: expected dialogues or text to learn from, found nothing", name_.c_str())
            : format("no line to learn from among %lld: expected %s; the first: %s",
                     static_cast<long long>(corpus_.lines), kExpected,
                     corpus_.first_skipped.c_str()));
  }

 private:
  void take_lines(std::string& buffer, bool end) {
    size_t start = 0;
    for (;;) {
      size_t stop = buffer.find('\n', std::max(start, searched_));
      if (stop == std::string::npos) {
        if (!end || start == buffer.size()) break;
        stop = buffer.size();
      }
      take_line(std::string_view(buffer).substr(start, stop - start));
      start = std::min(stop + 1, buffer.size());
    }
    buffer.erase(0, start);
    if (end && skipping_) take_line("");
    if (buffer.size() > kMaxLineBytes) {
      buffer.clear();
      skipping_ = true;
    }
    searched_ = buffer.size();
  }

  void take_line(std::string_view line) {
    ++line_;
    const bool too_long = skipping_ || line.size() > kMaxLineBytes;
    skipping_ = false;
    if (!too_long && is_blank(line)) return;
    ++corpus_.lines;
    CorpusText text;
    const std::string why = too_long ? format("longer than %zu MiB", kMaxLineBytes >> 20)
                                     : parse_corpus_line(line, text);
    if (!why.empty()) {
      if (corpus_.skipped++ == 0) {
        corpus_.first_skipped =
            format("%s:%lld: %s", name_.c_str(), static_cast<long long>(line_), why.c_str());
      }
    } else if (!text.messages.empty()) {
      ++corpus_.dialogues;
      corpus_.texts.push_back(std::move(text));
    } else {
      take_plain(text.text, true);
    }
  }

  void take_plain(std::string& buffer, bool end) {
    size_t start = 0;
    while (buffer.size() - start > kMaxPlainBytes) {
      const size_t length = piece_length(std::string_view(buffer).substr(start));
      add_plain(buffer.substr(start, length));
      start += length;
    }
    if (end && start < buffer.size()) {
      add_plain(buffer.substr(start));
      start = buffer.size();
    }
    buffer.erase(0, start);
  }

  void add_plain(std::string piece) {
    if (is_blank(piece)) return;
    corpus_.texts.push_back({.messages = {}, .text = std::move(piece)});
  }

  const std::function<void(size_t)>& progress_;
  const DataFile::Wait& wait_;
  Corpus corpus_;
  std::string name_;
  int64_t line_ = 0;
  size_t bytes_ = 0;
  size_t searched_ = 0;    // bytes of the buffer known to hold no line end
  bool skipping_ = false;  // inside a line that is too long
};

// Replies of `messages` as they lie in `tokens`, their rendering.
void mark_replies(TrainingText& out, const std::vector<ChatMessage>& messages,
                  const Tokenizer& tokenizer, const ChatTemplate& chat_template) {
  const std::span<const ChatMessage> all = messages;
  const int64_t n = std::ssize(out.tokens);
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].role != ChatMessage::Role::kAssistant) continue;
    // Where the rendering of the whole differs from that of its beginning, the boundary is where
    // they part.
    const int64_t begin = common_prefix(chat_template.encode(tokenizer, all.first(i)), out.tokens);
    if (begin >= n) return;
    const int64_t end =
        i + 1 == all.size()
            ? n
            : common_prefix(chat_template.encode(tokenizer, all.first(i + 1)), out.tokens);
    for (int64_t t = std::max<int64_t>(begin, 1); t < end; ++t) {
      out.learn[t - 1] = 1;
      if (tokenizer.is_end(out.tokens[t])) break;
    }
  }
}

}  // namespace

std::optional<bool> holds_json_lines(std::string_view name, std::string_view beginning) {
  if (name.ends_with(".xz")) name.remove_suffix(3);
  for (const char* ending : {".jsonl", ".json", ".ndjson"}) {
    if (name.ends_with(ending)) return true;
  }
  if (name.ends_with(".txt")) return false;
  const size_t first = beginning.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return std::nullopt;
  return beginning[first] == '{' || beginning[first] == '[';
}

std::string parse_corpus_line(std::string_view line, CorpusText& text) {
  Json value;
  if (std::string why = read_json(line, value); !why.empty()) return why;
  if (value.is_array()) return parse_messages(value, text.messages);
  if (value.is_object()) {
    if (const auto list = value.find("messages"); list != value.end()) {
      const std::string* system = find_string(value, "system");
      if (system && !system->empty()) {
        text.messages.push_back({ChatMessage::Role::kSystem, *system});
      }
      return parse_messages(*list, text.messages);
    }
    if (const std::string* plain = find_string(value, "text")) {
      if (is_blank(*plain)) return "an empty text";
      text.text = *plain;
      return "";
    }
  }
  return format("found %s without messages or text",
                value.is_object() ? "an object" : value.type_name());
}

Corpus read_corpus(std::span<const std::string> paths, const std::function<void(size_t)>& progress,
                   const std::function<void(int fd)>& wait) {
  CorpusReader reader(progress, wait);
  for (const std::string& path : paths) reader.read(path);
  return reader.finish();
}

std::vector<size_t> shuffled_order(size_t n, uint64_t seed) {
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  uint64_t state = seed;
  for (size_t i = n; i > 1; --i) std::swap(order[i - 1], order[splitmix64(state) % i]);
  return order;
}

std::vector<TrainingText> training_texts(const CorpusText& text, const Tokenizer& tokenizer,
                                         const ChatTemplate* chat_template, int n_ctx) {
  std::vector<TrainingText> out;
  if (!text.messages.empty()) {
    SB_CHECK(chat_template);
    TrainingText& dialogue = out.emplace_back();
    dialogue.tokens = chat_template->encode(tokenizer, text.messages);
    // First: for each reply that begins in it all before it is rendered anew.
    if (std::ssize(dialogue.tokens) > n_ctx) dialogue.tokens.resize(n_ctx);
    dialogue.learn.resize(dialogue.tokens.size());
    mark_replies(dialogue, text.messages, tokenizer, *chat_template);
  } else {
    const std::vector<int32_t> ids = tokenizer.encode(text.text, {.add_special = false});
    const bool bos = tokenizer.add_bos() && tokenizer.bos() >= 0;
    const size_t most = std::max(n_ctx - (bos ? 1 : 0), 1);
    for (size_t at = 0; at < ids.size(); at += most) {
      TrainingText& piece = out.emplace_back();
      if (bos) piece.tokens.push_back(tokenizer.bos());
      piece.tokens.insert(piece.tokens.end(), ids.begin() + at,
                          ids.begin() + std::min(at + most, ids.size()));
      piece.learn.assign(piece.tokens.size(), 1);
      piece.learn.back() = 0;
    }
  }
  std::erase_if(out, [](const TrainingText& t) { return learnt_tokens(t) == 0; });
  return out;
}

uint64_t held_out_place(const TrainingText& text) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (size_t i = 0; i < text.tokens.size(); ++i) {
    hash = (hash ^ static_cast<uint32_t>(text.tokens[i])) * 0x100000001b3u;
    if (text.learn[i]) break;
  }
  hash ^= hash >> 32;
  return hash % 16 == 0 ? std::max<uint64_t>(hash, 1) : 0;
}

size_t hold_out(std::vector<TrainingText>& texts) {
  std::ranges::stable_sort(texts, {}, held_out_place);
  const auto held = std::ranges::find_if(texts, held_out_place);
  return static_cast<size_t>(held - texts.begin());
}

int64_t learnt_tokens(const TrainingText& text) {
  return std::count(text.learn.begin(), text.learn.end(), uint8_t{1});
}

int64_t learnt_tokens(std::span<const TrainingText> texts) {
  int64_t n = 0;
  for (const TrainingText& text : texts) n += learnt_tokens(text);
  return n;
}

std::vector<int32_t> reply_tokens(std::span<const TrainingText> texts, size_t most) {
  std::vector<int32_t> all;
  for (const TrainingText& text : texts) {
    for (size_t i = 0; i + 1 < text.tokens.size(); ++i) {
      if (all.size() + 2 > most) return all;
      if (!text.learn[i]) continue;
      all.push_back(text.tokens[i + 1]);
      if (!text.learn[i + 1]) all.push_back(LookupMemory::kBetween);
    }
    if (!all.empty() && all.back() != LookupMemory::kBetween) {
      all.push_back(LookupMemory::kBetween);
    }
  }
  return all;
}

std::vector<int32_t> count_shortlist(std::span<const TrainingText> texts, int vocab_size, int size,
                                     const std::function<bool(int32_t)>& ends_reply) {
  std::vector<int64_t> times(vocab_size);
  for (const TrainingText& text : texts) {
    for (size_t i = 0; i + 1 < text.tokens.size(); ++i) {
      if (text.learn[i]) ++times[text.tokens[i + 1]];
    }
  }
  std::vector<int32_t> ids(vocab_size);
  std::iota(ids.begin(), ids.end(), 0);
  const auto ends = std::stable_partition(ids.begin(), ids.end(), ends_reply);
  std::stable_sort(ends, ids.end(), [&](int32_t a, int32_t b) { return times[a] > times[b]; });
  ids.resize(std::min(size, vocab_size));
  return ids;
}

}  // namespace specbound
