// Small byte-level BPE vocabularies as GGUF files, made to be wrong in one place at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "load_tokenizer.h"
#include "model/gguf_writer.h"
#include "text/vocabulary.h"

namespace specbound::test {

// The character that spells a byte in such vocabularies, as UTF-8 (GPT-2, bytes_to_unicode).
inline std::string spelled_byte(int byte) {
  const auto itself = [](int b) {
    return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
  };
  int c = byte;
  if (!itself(byte)) {
    c = 256;
    for (int b = 0; b < byte; ++b) c += !itself(b);
  }
  if (c < 0x80) return std::string(1, static_cast<char>(c));
  return {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
}

struct TinyBpe {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;  // ordinary tokens where it is shorter
  std::vector<std::string> merges;
  std::string pre = "gpt-2";  // empty: no such key
  bool with_merges = true;
  std::function<void(GgufWriter&)> more = [](GgufWriter&) {};  // further keys

  int32_t add(std::string_view token, TokenType type = TokenType::kNormal) {
    types.resize(tokens.size(), static_cast<int32_t>(TokenType::kNormal));
    tokens.emplace_back(token);
    types.push_back(static_cast<int32_t>(type));
    return static_cast<int32_t>(tokens.size()) - 1;
  }
  // Token of byte b: id b.
  void add_bytes() {
    for (int byte = 0; byte < 256; ++byte) add(spelled_byte(byte));
  }
  // A merge together with the token it makes.
  int32_t add_merge(const std::string& left, const std::string& right) {
    merges.push_back(left + " " + right);
    return add(left + right);
  }

  std::vector<std::byte> bytes() const {
    const std::vector<std::string_view> texts(tokens.begin(), tokens.end());
    const std::vector<std::string_view> pairs(merges.begin(), merges.end());
    std::vector<int32_t> all_types = types;
    all_types.resize(tokens.size(), static_cast<int32_t>(TokenType::kNormal));
    GgufWriter writer;
    writer.add_string("general.architecture", "llama");
    writer.add_string("tokenizer.ggml.model", "gpt2");
    if (!pre.empty()) writer.add_string("tokenizer.ggml.pre", pre);
    writer.add_strings("tokenizer.ggml.tokens", texts);
    writer.add_ints("tokenizer.ggml.token_type", all_types);
    if (with_merges) writer.add_strings("tokenizer.ggml.merges", pairs);
    more(writer);
    return writer.serialize();
  }

  std::unique_ptr<Tokenizer> load() const { return load_tokenizer(bytes()); }
};

}  // namespace specbound::test
