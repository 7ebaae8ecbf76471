#include "text/spm_tokenizer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <unordered_map>

#include "error.h"
#include "text/merges.h"
#include "text/utf8.h"

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

}  // namespace

// Merges one run of characters.
struct SpmTokenizer::Merger {
  const SpmTokenizer& owner;
  std::string run;  // the characters, spaces escaped
  MergeRun symbols;
  // Unused token: size of the left one of the two symbols it was made of. These are the same two
  // wherever it comes up, since nothing outside decides in which order its own characters merge.
  std::unordered_map<int32_t, uint32_t> splits;
  bool after_unknown = false;  // a stretch of unknown characters is one unknown token

  explicit Merger(const SpmTokenizer& tokenizer) : owner(tokenizer) {}

  void add(std::string_view character) {
    symbols.add(character.size(), -1);
    run += character;
  }

  std::string_view text(uint32_t begin, size_t size) const {
    return std::string_view(run).substr(begin, size);
  }

  void find_pair(MergeRun::Symbol& left, const MergeRun::Symbol& right) {
    const size_t size = size_t{left.size} + right.size;
    if (size > owner.max_size_) return;
    left.pair = owner.mergeable(text(left.begin, size));
    if (left.pair < 0) return;
    left.rank = owner.ranks_[left.pair];
    if (owner.vocabulary_.types[left.pair] == TokenType::kUnused) splits[left.pair] = left.size;
  }

  void emit_bytes(std::string_view bytes, std::vector<int32_t>& ids) {
    for (const char c : bytes) {
      const int32_t id = owner.byte_ids_[static_cast<unsigned char>(c)];
      if (id >= 0) {
        ids.push_back(id);
      } else if (owner.vocabulary_.unknown < 0) {
        no_token_for(static_cast<unsigned char>(c));
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
    symbols.merge(
        [this](MergeRun::Symbol& left, const MergeRun::Symbol& right) { find_pair(left, right); });
    symbols.for_each([&](const MergeRun::Symbol& s) {
      const std::string_view part = text(s.begin, s.size);
      const int32_t token = s.token >= 0 ? s.token : owner.mergeable(part);
      if (token >= 0 && owner.vocabulary_.types[token] != TokenType::kUnused) {
        ids.push_back(token);
        after_unknown = false;
      } else {
        emit(part, token, ids);
      }
    });
    run.clear();
    symbols.clear();
  }
};

// Where a file names no special ids: where SentencePiece puts them.
SpmTokenizer::SpmTokenizer(const Gguf& gguf)
    : VocabularyTokenizer(
          Vocabulary::read(gguf, {.bos = 1, .eos = 2, .unknown = 0, .add_bos = true})) {
  add_space_prefix_ = gguf.get_bool("tokenizer.ggml.add_space_prefix").value_or(true);
  space_at_start_ = gguf.get_bool(kSpaceAtStartKey).value_or(false);
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

bool SpmTokenizer::gets_space(std::string_view text, Place place) const {
  if (!add_space_prefix_ || place == Place::kBehindCut) return false;
  if (!space_at_start_) return true;
  return place == Place::kStart && !text.starts_with(' ') && !text.starts_with(kSpace);
}

void SpmTokenizer::encode_text(std::string_view text, Place place, Merger& merger,
                               std::vector<int32_t>& ids) const {
  merger.after_unknown = false;
  int last = -1;
  const auto add = [&](std::string_view character) {
    const bool cut =
        last >= 0 && !joins_[join(static_cast<unsigned char>(last), first_class(character))];
    if (cut || merger.symbols.size() > MergeRun::kMaxSize) merger.finish_run(ids);
    merger.add(character);
    last = last_class(character);
  };
  if (gets_space(text, place)) add(kSpace);
  while (!text.empty()) {
    const std::string_view character = text.substr(0, character_size(text));
    add(character == " " ? kSpace : character);
    text.remove_prefix(character.size());
  }
  merger.finish_run(ids);
}

std::vector<int32_t> SpmTokenizer::encode(std::string_view text, EncodeOptions options) const {
  Merger merger(*this);
  const auto encode_part = [&](std::string_view part, Place place, std::vector<int32_t>& ids) {
    encode_text(part, place, merger, ids);
  };
  return encode_around_specials(text, options, encode_part);
}

std::string SpmTokenizer::piece(int32_t id, bool special) const {
  if (auto plain = plain_piece(id, special)) return *plain;
  const std::string_view text = vocabulary_.texts[id];
  if (vocabulary_.types[id] == TokenType::kByte) {
    return std::string(1, static_cast<char>(byte_value(text)));
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
