#include "text/spm_tokenizer.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <unordered_map>

#include "error.h"
#include "text/utf8_stream.h"

namespace specbound {

namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581
constexpr unsigned char kSpaceClass = 0xFF;          // in no well-formed text

// Bytes of the character text begins with; a byte that begins none stands alone.
size_t character_size(std::string_view text) {
  const Utf8Head head = utf8_head(text);
  return head.kind == Utf8Head::kWhole ? head.length : 1;
}

unsigned char first_class(std::string_view character) {
  return character == kSpace ? kSpaceClass : static_cast<unsigned char>(character.front());
}

unsigned char last_class(std::string_view character) {
  return character == kSpace ? kSpaceClass : static_cast<unsigned char>(character.back());
}

size_t join(unsigned char last, unsigned char first) {
  return last * size_t{256} + first;
}

bool is_white(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// The value of "<0xXX>", -1 for anything else.
int byte_value(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  const int high = hex_digit(text[3]), low = hex_digit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

std::string unescape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  size_t from = 0;
  for (size_t at; (at = text.find(kSpace, from)) != text.npos; from = at + kSpace.size()) {
    out += text.substr(from, at - from);
    out += ' ';
  }
  return out += text.substr(from);
}

// Phi-3's special tokens swallow the white space behind them. GGUF has no key for that; the model's
// name is what there is to go by, here as in llama.cpp.
bool strips_right(const Gguf& gguf) {
  std::string name(gguf.get_string("general.name").value_or(""));
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name.find("phi-3") != name.npos || name.find("phi3") != name.npos;
}

bool keeps_white(std::string_view special) {
  return special == "<unk>" || special == "<s>" || special == "<|endoftext|>";
}

}  // namespace

// Merges one run of characters. The queue holds (rank, left symbol) in one integer, so that its
// order is the order of merging; an entry is out of date when the pair that begins at its symbol
// has another rank by now.
struct SpmTokenizer::Merger {
  struct Symbol {
    uint32_t begin;
    uint32_t size;  // 0: merged into the one before
    int32_t prev, next;
    int32_t token;  // -1: no token, becomes bytes
    int32_t pair;   // the token this and the next symbol would make, -1: none
  };

  const SpmTokenizer& owner;
  std::string run;  // the characters, spaces escaped
  std::vector<Symbol> symbols;
  std::vector<uint64_t> queue;  // a heap, smallest on top
  // Unused token: size of the left one of the two symbols it was made of. These are the same two
  // wherever it comes up, since nothing outside decides in which order its own characters merge.
  std::unordered_map<int32_t, uint32_t> splits;
  bool after_unknown = false;  // a stretch of unknown characters is one unknown token

  explicit Merger(const SpmTokenizer& tokenizer) : owner(tokenizer) {}

  void add(std::string_view character) {
    const auto index = static_cast<int32_t>(symbols.size());
    symbols.push_back({static_cast<uint32_t>(run.size()), static_cast<uint32_t>(character.size()),
                       index - 1, index + 1, -1, -1});
    run += character;
  }

  std::string_view text(uint32_t begin, size_t size) const {
    return std::string_view(run).substr(begin, size);
  }

  // Looks up what symbol i and the one behind it would make. True if that is a token.
  bool pair_up(int32_t i) {
    Symbol& left = symbols[i];
    left.pair = -1;
    if (left.next < 0) return false;
    const size_t size = size_t{left.size} + symbols[left.next].size;
    if (size > owner.max_size_) return false;
    left.pair = owner.mergeable(text(left.begin, size));
    if (left.pair < 0) return false;
    if (owner.vocabulary_.types[left.pair] == TokenType::kUnused) {
      splits[left.pair] = left.size;
    }
    return true;
  }

  uint64_t key(int32_t i) const {
    return uint64_t{owner.ranks_[symbols[i].pair]} << 32 | static_cast<uint32_t>(i);
  }

  void push(int32_t i) {
    if (!pair_up(i)) return;
    queue.push_back(key(i));
    std::push_heap(queue.begin(), queue.end(), std::greater<>());
  }

  void merge_all() {
    const auto n = static_cast<int32_t>(symbols.size());
    symbols.back().next = -1;
    for (int32_t i = 0; i + 1 < n; ++i) {
      if (pair_up(i)) queue.push_back(key(i));
    }
    std::make_heap(queue.begin(), queue.end(), std::greater<>());
    while (!queue.empty()) {
      std::pop_heap(queue.begin(), queue.end(), std::greater<>());
      const uint64_t top = queue.back();
      queue.pop_back();
      const auto i = static_cast<int32_t>(static_cast<uint32_t>(top));
      Symbol& left = symbols[i];
      if (left.size == 0 || left.pair < 0 || key(i) != top) continue;
      Symbol& right = symbols[left.next];
      left.size += right.size;
      left.token = left.pair;
      left.next = right.next;
      right.size = 0;
      if (left.next >= 0) symbols[left.next].prev = i;
      push(i);
      if (left.prev >= 0) push(left.prev);
    }
  }

  void emit_bytes(std::string_view bytes, std::vector<int32_t>& ids) {
    for (const char c : bytes) {
      const int32_t id = owner.byte_ids_[static_cast<unsigned char>(c)];
      if (id >= 0) {
        ids.push_back(id);
      } else if (!after_unknown) {
        ids.push_back(owner.vocabulary_.unknown);
      }
      after_unknown = id < 0;
    }
  }

  // A symbol's token, or its bytes; an unused token is taken apart as it was put together.
  void emit(std::string_view symbol, int32_t token, std::vector<int32_t>& ids) {
    std::vector<std::pair<std::string_view, int32_t>> parts = {{symbol, token}};
    while (!parts.empty()) {
      const auto [part, id] = parts.back();
      parts.pop_back();
      if (id < 0) {
        emit_bytes(part, ids);
        continue;
      }
      if (owner.vocabulary_.types[id] == TokenType::kUnused) {
        const auto split = splits.find(id);
        if (split != splits.end()) {
          const std::string_view left = part.substr(0, split->second);
          const std::string_view right = part.substr(split->second);
          parts.emplace_back(right, owner.mergeable(right));
          parts.emplace_back(left, owner.mergeable(left));
          continue;
        }
      }
      ids.push_back(id);
      after_unknown = false;
    }
  }

  // Ends the run: its ids are appended, the memory is kept for the next.
  void finish_run(std::vector<int32_t>& ids) {
    if (symbols.empty()) return;
    merge_all();
    for (int32_t i = 0; i >= 0; i = symbols[i].next) {
      const Symbol& s = symbols[i];
      const std::string_view part = text(s.begin, s.size);
      const int32_t token = s.token >= 0 ? s.token : owner.mergeable(part);
      if (token >= 0 && owner.vocabulary_.types[token] != TokenType::kUnused) {
        ids.push_back(token);
        after_unknown = false;
      } else {
        emit(part, token, ids);
      }
    }
    run.clear();
    symbols.clear();
  }
};

SpmTokenizer::SpmTokenizer(const Gguf& gguf) : vocabulary_(Vocabulary::read(gguf, true)) {
  add_space_prefix_ = gguf.get_bool("tokenizer.ggml.add_space_prefix").value_or(true);
  strip_right_ = strips_right(gguf);
  read_scores(gguf);
  find_bytes(gguf);
  find_joins();
}

void SpmTokenizer::read_scores(const Gguf& gguf) {
  constexpr const char* kScores = "tokenizer.ggml.scores";
  const auto scores = gguf.get_floats(kScores);
  const auto n = static_cast<size_t>(vocabulary_.size());
  if (!scores || scores->size() != n) {
    throw Error(
        ErrorCode::kFormat,
        format("%s: %s: %s; a SentencePiece vocabulary needs a score for each of its %zu tokens",
               gguf.path().c_str(), kScores,
               scores ? format("%zu entries", scores->size()).c_str() : "missing", n));
  }
  for (size_t i = 0; i < n; ++i) {
    if (std::isnan((*scores)[i])) {
      throw Error(
          ErrorCode::kFormat,
          format("%s: %s: the score of token %zu is not a number; nothing can be ordered by it",
                 gguf.path().c_str(), kScores, i));
    }
  }
  std::vector<float> distinct(*scores);
  std::sort(distinct.begin(), distinct.end(), std::greater<>());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  ranks_.reserve(n);
  for (const float score : *scores) {
    const auto at = std::lower_bound(distinct.begin(), distinct.end(), score, std::greater<>());
    ranks_.push_back(static_cast<uint32_t>(at - distinct.begin()));
  }
}

void SpmTokenizer::find_bytes(const Gguf& gguf) {
  byte_ids_.fill(-1);
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    if (vocabulary_.types[id] != TokenType::kByte) continue;
    const std::string_view text = vocabulary_.texts[id];
    const int value = byte_value(text);
    if (value < 0) {
      throw Error(ErrorCode::kFormat,
                  format("%s: token %d is a byte, but its text is \"%s\", not <0x00> to <0xFF>",
                         gguf.path().c_str(), id, printable(text).c_str()));
    }
    if (byte_ids_[value] < 0) byte_ids_[value] = id;
  }
  const bool complete = std::find(byte_ids_.begin(), byte_ids_.end(), -1) == byte_ids_.end();
  if (!complete && vocabulary_.unknown < 0) {
    throw Error(
        ErrorCode::kFormat,
        format("%s: the vocabulary has neither all 256 byte tokens nor an unknown token; some "
               "text could not be turned into tokens",
               gguf.path().c_str()));
  }
}

void SpmTokenizer::find_joins() {
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    std::string_view rest = vocabulary_.texts[id];
    if (mergeable(rest) != id) continue;
    max_size_ = std::max(max_size_, rest.size());
    int last = -1;
    while (!rest.empty()) {
      const std::string_view character = rest.substr(0, character_size(rest));
      if (last >= 0) joins_.set(join(static_cast<unsigned char>(last), first_class(character)));
      last = last_class(character);
      rest.remove_prefix(character.size());
    }
  }
}

int32_t SpmTokenizer::mergeable(std::string_view text) const {
  const int32_t id = vocabulary_.index.find(text);
  if (id < 0) return -1;
  const TokenType type = vocabulary_.types[id];
  const bool may =
      type == TokenType::kNormal || type == TokenType::kUserDefined || type == TokenType::kUnused;
  return may ? id : -1;
}

void SpmTokenizer::encode_text(std::string_view text, bool prefix, Merger& merger,
                               std::vector<int32_t>& ids) const {
  // Offsets in a run are 32 bits wide; a run this long comes of no text that anyone reads.
  constexpr size_t kMaxRun = size_t{1} << 30;
  merger.after_unknown = false;
  int last = -1;
  const auto add = [&](std::string_view character) {
    const bool cut =
        last >= 0 && !joins_[join(static_cast<unsigned char>(last), first_class(character))];
    if (cut || merger.run.size() > kMaxRun) merger.finish_run(ids);
    merger.add(character);
    last = last_class(character);
  };
  if (prefix) add(kSpace);
  while (!text.empty()) {
    const std::string_view character = text.substr(0, character_size(text));
    add(character == " " ? kSpace : character);
    text.remove_prefix(character.size());
  }
  merger.finish_run(ids);
}

std::vector<int32_t> SpmTokenizer::encode(std::string_view text, EncodeOptions options) const {
  std::vector<int32_t> ids;
  if (options.add_special && vocabulary_.add_bos) ids.push_back(vocabulary_.bos);
  Merger merger(*this);
  bool prefix = add_space_prefix_;
  size_t from = 0;
  while (from < text.size()) {
    const auto match = vocabulary_.specials.find(text, from, options.parse_special);
    const size_t end = match ? match->position : text.size();
    if (end > from) encode_text(text.substr(from, end - from), prefix, merger, ids);
    if (!match) break;
    ids.push_back(match->id);
    prefix = add_space_prefix_;
    from = match->position + match->size;
    if (strip_right_ && !keeps_white(vocabulary_.texts[match->id])) {
      while (from < text.size() && is_white(text[from])) ++from;
    }
  }
  if (options.add_special && vocabulary_.add_eos) ids.push_back(vocabulary_.eos);
  return ids;
}

bool SpmTokenizer::is_control(int32_t id) const {
  return vocabulary_.contains(id) && vocabulary_.types[id] == TokenType::kControl;
}

std::string SpmTokenizer::piece(int32_t id, bool special) const {
  // A model may have more rows than its vocabulary has tokens: what it says there has no text.
  if (!vocabulary_.contains(id)) return "";
  const std::string_view text = vocabulary_.texts[id];
  switch (vocabulary_.types[id]) {
    case TokenType::kControl:
    case TokenType::kUnknown:
      return special ? std::string(text) : "";
    case TokenType::kUserDefined:
      return std::string(text);
    case TokenType::kByte:
      return std::string(1, static_cast<char>(byte_value(text)));
    case TokenType::kNormal:
    case TokenType::kUnused:
      break;
  }
  return unescape(text);
}

std::string SpmTokenizer::decode(std::span<const int32_t> ids, bool special) const {
  std::string out;
  // The space that encode() put in front of the text; control tokens in front of it do not count.
  bool at_start = add_space_prefix_;
  for (const int32_t id : ids) {
    const std::string part = piece(id, special);
    const bool is_text = vocabulary_.contains(id) && !is_control(id);
    const bool strip =
        at_start && is_text && vocabulary_.texts[id].starts_with(kSpace) && part.starts_with(' ');
    out += strip ? std::string_view(part).substr(1) : std::string_view(part);
    if (is_text) at_start = false;
  }
  return out;
}

}  // namespace specbound
