#include "text/bpe_tokenizer.h"

#include <algorithm>

#include "error.h"
#include "text/nfc.h"
#include "text/utf8.h"

namespace specbound {

namespace {

constexpr std::string_view kUnreadable = "\xEF\xBF\xBD";  // U+FFFD

// The character that spells a byte, 0x21 to 0x143.
constexpr std::array<uint16_t, 256> kSpelling = [] {
  std::array<uint16_t, 256> out{};
  uint16_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool itself =
        (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
    out[byte] = itself ? static_cast<uint16_t>(byte) : next++;
  }
  return out;
}();

constexpr std::array<int16_t, 0x144> kSpelledByte = [] {
  std::array<int16_t, 0x144> out{};
  for (int16_t& byte : out) byte = -1;
  for (int byte = 0; byte < 256; ++byte) out[kSpelling[byte]] = static_cast<int16_t>(byte);
  return out;
}();

std::string spelled(std::string_view bytes) {
  static const std::array<std::string, 256> kTexts = [] {
    std::array<std::string, 256> texts;
    for (int byte = 0; byte < 256; ++byte) texts[byte] = to_utf8(kSpelling[byte]);
    return texts;
  }();
  std::string out;
  for (const char byte : bytes) out += kTexts[static_cast<unsigned char>(byte)];
  return out;
}

// What a token's text spells; a text with other characters in it stands for itself, as in HF
// tokenizers.
std::string unspelled(std::string_view text) {
  std::string out;
  for (std::string_view rest = text; !rest.empty();) {
    const Utf8Head head = utf8_head(rest);
    const bool spells = head.kind == Utf8Head::kWhole && head.code < kSpelledByte.size() &&
                        kSpelledByte[head.code] >= 0;
    if (!spells) return std::string(text);
    out += static_cast<char>(kSpelledByte[head.code]);
    rest.remove_prefix(head.length);
  }
  return out;
}

// Bytes that occur in no UTF-8.
bool never_in_utf8(int byte) {
  return byte == 0xC0 || byte == 0xC1 || byte >= 0xF5;
}

constexpr const char* kPreKey = "tokenizer.ggml.pre";

const PreFamily& family_of(const Gguf& gguf) {
  const std::string_view name = gguf.get_string(kPreKey).value_or("default");
  const PreFamily* family = find_pre_family(name);
  if (!family) {
    throw Error(ErrorCode::kUnsupported,
                format("%s: %s is \"%s\": how that vocabulary cuts text into words is not known "
                       "here; token ids still run",
                       gguf.path().c_str(), kPreKey, printable(name).c_str()));
  }
  return *family;
}

}  // namespace

BpeTokenizer::BpeTokenizer(const Gguf& gguf) : BpeTokenizer(gguf, family_of(gguf)) {}

// Where a file names no special ids: Falcon's, as in llama.cpp.
BpeTokenizer::BpeTokenizer(const Gguf& gguf, const PreFamily& family)
    : VocabularyTokenizer(
          Vocabulary::read(gguf, {.bos = 11, .eos = 11, .unknown = -1, .add_bos = family.add_bos})),
      pre_tokenizer_(family.patterns),
      merges_(gguf, vocabulary_),
      ignore_merges_(family.ignore_merges),
      composes_(gguf.get_bool(kComposesKey).value_or(family.composes)) {
  for (const std::string_view text : vocabulary_.texts)
    max_size_ = std::max(max_size_, text.size());
  find_bytes();
  if (!gguf.get_string(kPreKey)) {
    notes_.push_back(format(
        "%s is missing: text is cut into words by the default rule, and where the model learnt "
        "another its ids are wrong; a newer converter writes that key",
        kPreKey));
  }
}

// A token stands for a byte when that is what it decodes to: one that is always matched in text by
// its own characters (user-defined) may be spelled like a byte and mean something else.
void BpeTokenizer::find_bytes() {
  for (int value = 0; value < 256; ++value) {
    const std::string byte(1, static_cast<char>(value));
    const int32_t id = vocabulary_.index.find(spelled(byte));
    byte_ids_[value] = id >= 0 && piece(id) == byte ? id : -1;
  }
}

int32_t BpeTokenizer::whole_word(std::string_view word) const {
  if (word.size() > max_size_) return -1;
  const int32_t id = vocabulary_.index.find(spelled(word));
  const bool may = id >= 0 && vocabulary_.types[id] != TokenType::kControl &&
                   vocabulary_.types[id] != TokenType::kUnknown;
  return may ? id : -1;
}

void BpeTokenizer::encode_word(std::string_view word, MergeRun& run,
                               std::vector<int32_t>& ids) const {
  if (ignore_merges_) {
    const int32_t id = whole_word(word);
    if (id >= 0) {
      ids.push_back(id);
      return;
    }
  }
  run.clear();
  const auto add = [&](unsigned char byte) {
    if (byte_ids_[byte] < 0 && vocabulary_.unknown < 0) no_token_for(byte);
    run.add(1, byte_ids_[byte] >= 0 ? byte_ids_[byte] : vocabulary_.unknown);
  };
  for (const char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte_ids_[byte] < 0 && vocabulary_.unknown < 0 && never_in_utf8(byte)) {
      for (const char other : kUnreadable) add(static_cast<unsigned char>(other));
    } else {
      add(byte);
    }
  }
  run.merge([&](MergeRun::Symbol& left, const MergeRun::Symbol& right) {
    const MergePairs::Merge* merge = merges_.find(left.token, right.token);
    if (!merge) return;
    left.pair = merge->token;
    left.rank = merge->rank;
  });
  run.for_each([&](const MergeRun::Symbol& symbol) { ids.push_back(symbol.token); });
}

std::vector<int32_t> BpeTokenizer::encode(std::string_view text, EncodeOptions options) const {
  MergeRun run;
  const auto encode_text = [&](std::string_view part, Place, std::vector<int32_t>& ids) {
    const std::string whole = composes_ ? composed(part) : std::string();
    pre_tokenizer_.split(composes_ ? whole : part, [&](std::string_view word) {
      for (; word.size() > MergeRun::kMaxSize; word.remove_prefix(MergeRun::kMaxSize)) {
        encode_word(word.substr(0, MergeRun::kMaxSize), run, ids);
      }
      encode_word(word, run, ids);
    });
  };
  return encode_around_specials(text, options, encode_text);
}

std::string BpeTokenizer::piece(int32_t id, bool special) const {
  if (auto plain = plain_piece(id, special)) return *plain;
  return unspelled(vocabulary_.texts[id]);
}

std::string BpeTokenizer::decode(std::span<const int32_t> ids, bool special) const {
  std::string out;
  for (const int32_t id : ids) out += piece(id, special);
  return out;
}

}  // namespace specbound
