// What every kind of tokenizer reads from a GGUF file in the same way: the tokens with their types,
// the special ids, and the search for special tokens in text.
//
//   tokenizer.ggml.tokens            strings; tokenizer.ggml.token_type: i32, one of TokenType
//   tokenizer.ggml.{bos,eos,unknown,eot,eom,fim_pad,fim_rep,fim_sep}_token_id
//                                                         u32, 4294967295: none
//   tokenizer.ggml.{add_bos_token,add_eos_token}          bool
//
// Two tokens with one text are refused, as the reference implementations do: an id would be out of
// reach. An empty text (some converters pad with them) is kept as a token that no text produces.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/gguf.h"

namespace specbound {

struct TextOrigin;

enum class TokenType : uint8_t {
  kNormal = 1,
  kUnknown = 2,      // stands for what the vocabulary cannot spell
  kControl = 3,      // has no text of its own: <s>, </s>
  kUserDefined = 4,  // always matched whole in text
  kUnused = 5,       // an intermediate step of merging, never a result
  kByte = 6,         // <0xXX>
};

// Phi-3's special tokens swallow the white space behind them. GGUF has no key for that; the model's
// name (general.name) is what there is to go by, here as in llama.cpp, whatever the vocabulary.
bool name_strips_white_space(std::string_view model_name);
// Of such a model: all special tokens do but <unk>, <s> and <|endoftext|>.
bool strips_white_space_behind(std::string_view special);

// Each place of a text may go along with a special token as far as this; real ones have up to 100.
constexpr size_t kMostSpecialBytes = 512;

// Slots that a look-up by hash goes through at most, here and for merges. Llama 3 and Qwen2 need
// 52; texts that were made to collide would take the square of their number, whatever the seed.
constexpr int kMostProbes = 512;

// Token texts to ids: open addressing over one array, since encoding asks it millions of times.
class TokenIndex {
 public:
  static constexpr int32_t kNoPlace = -2;

  explicit TokenIndex(size_t n_tokens);
  // -1 and added, or the id that has this text already; kNoPlace: not added, more than kMostProbes
  // collide.
  int32_t add(std::string_view text, int32_t id);
  int32_t find(std::string_view text) const;  // -1 if absent

 private:
  struct Slot {
    uint32_t hash;
    int32_t id;  // -1: free
    const char* text;
    size_t size;
  };
  std::vector<Slot> slots_;  // a power of two, at most half full
};

// Finds special tokens in text: the leftmost, and of those that start there the longest.
class SpecialTokens {
 public:
  struct Match {
    size_t position;
    size_t size;
    int32_t id;
    bool always;
  };
  void add(std::string_view text, int32_t id, bool always);
  void prepare();  // once, after the last add
  // At or behind `from`; with `parse_special` all of them, without it only those added as `always`.
  // Bytes of others by `origin` (null: none) only these may hold, and of these none that would take
  // a part of one of the rest.
  std::optional<Match> find(std::string_view text, size_t from, bool parse_special,
                            const TextOrigin* origin = nullptr) const;

 private:
  struct Entry {
    std::string_view text;
    int32_t id;
    bool always;
  };
  std::optional<Match> match_at(std::string_view text, size_t position, bool parse_special,
                                const TextOrigin* origin) const;
  bool hides_own(std::string_view text, const Match& match, const TextOrigin& origin) const;

  std::vector<Entry> entries_;  // sorted by text: those with a common prefix are neighbours
  bool starts_[2][256] = {};    // [parse_special][first byte]
  bool any_[2] = {};
};

// What holds where the file does not say.
struct VocabularyDefaults {
  int32_t bos, eos, unknown;  // only where these tokens are control and unknown tokens
  bool add_bos;               // only where there is a BOS token
};

struct Vocabulary {
  std::vector<std::string_view> texts;  // views into `storage`
  std::vector<TokenType> types;
  std::vector<bool> ends;  // the token ends a reply
  TokenIndex index{0};
  SpecialTokens specials;
  int32_t bos = -1, eos = -1, unknown = -1;
  bool add_bos = false, add_eos = false;
  bool strips_white_space = false;  // behind special tokens
  std::vector<char> storage;
  std::vector<std::string> notes;  // what the user should know of it: lines to print

  int size() const { return static_cast<int>(texts.size()); }
  bool contains(int32_t id) const { return id >= 0 && id < size(); }

  // Throws Error(kFormat).
  static Vocabulary read(const Gguf& gguf, VocabularyDefaults defaults);
};

}  // namespace specbound
