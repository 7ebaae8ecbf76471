// Text to token ids and back, with the vocabulary of a GGUF file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/gguf.h"

namespace specbound {

// Of a text that others have written in, as messages are in a rendered conversation.
struct TextOrigin {
  std::vector<bool> input;   // [bytes]: theirs; control tokens that hold one of these stay text
  std::vector<size_t> cuts;  // ascending: no token reaches across, nor is a space put there

  bool has_input(size_t at, size_t size) const;  // one of these bytes is theirs
};

struct EncodeOptions {
  bool add_special = true;  // BOS/EOS where the file asks for them (add_bos_token, add_eos_token)
  bool parse_special =
      false;  // turn the text of control tokens into those tokens; off for user text
  const TextOrigin* origin = nullptr;  // null: the caller has written all of it
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Throws Error(kUnsupported) for a vocabulary kind that cannot be run yet (naming it),
  // Error(kFormat) for a broken one.
  static std::unique_ptr<Tokenizer> from_gguf(const Gguf& gguf);

  // Any bytes are accepted, invalid UTF-8 too. Throws Error(kUnsupported) for a byte that the
  // vocabulary has no token for, nor an unknown token in its place.
  virtual std::vector<int32_t> encode(std::string_view text, EncodeOptions options = {}) const = 0;

  // The bytes a token stands for. Control tokens give "" unless `special`. A first token's leading
  // space, if the vocabulary adds one, is removed by decode(), not here.
  virtual std::string piece(int32_t id, bool special = false) const = 0;
  virtual std::string decode(std::span<const int32_t> ids, bool special = false) const = 0;

  virtual int vocab_size() const = 0;
  virtual int32_t bos() const = 0;  // -1 if the vocabulary has none
  virtual int32_t eos() const = 0;  // -1 likewise
  virtual bool add_bos() const = 0;
  // The token ends a reply: EOS, EOT, EOM, and what ends the middle of a text.
  virtual bool is_end(int32_t id) const = 0;
  virtual bool is_control(int32_t id) const = 0;

  // What the user should know of how the file is read: lines to print.
  const std::vector<std::string>& notes() const { return notes_; }

 protected:
  std::vector<std::string> notes_;
};

}  // namespace specbound
