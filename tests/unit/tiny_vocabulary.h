// Small SentencePiece vocabularies as GGUF files, made to be wrong in one place at a time.
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

struct TinyVocabulary {
  struct Token {
    std::string text;
    float score = 0;
    TokenType type = TokenType::kNormal;
  };
  std::vector<Token> tokens = {{"<unk>", 0, TokenType::kUnknown},
                               {"<s>", 0, TokenType::kControl},
                               {"</s>", 0, TokenType::kControl}};
  std::string model = "llama";
  bool with_scores = true, with_types = true;
  std::function<void(GgufWriter&)> more = [](GgufWriter&) {};  // further keys

  void add_bytes() {
    constexpr char kHex[] = "0123456789ABCDEF";
    for (int i = 0; i < 256; ++i) {
      tokens.push_back(
          {std::string("<0x") + kHex[i >> 4] + kHex[i & 15] + ">", 0, TokenType::kByte});
    }
  }

  std::vector<std::byte> bytes() const {
    std::vector<std::string_view> texts;
    std::vector<float> scores;
    std::vector<int32_t> types;
    for (const Token& token : tokens) {
      texts.push_back(token.text);
      scores.push_back(token.score);
      types.push_back(static_cast<int32_t>(token.type));
    }
    GgufWriter writer;
    writer.add_string("general.architecture", "llama");
    if (!model.empty()) writer.add_string("tokenizer.ggml.model", model);
    writer.add_strings("tokenizer.ggml.tokens", texts);
    if (with_scores) writer.add_floats("tokenizer.ggml.scores", scores);
    if (with_types) writer.add_ints("tokenizer.ggml.token_type", types);
    more(writer);
    return writer.serialize();
  }

  std::unique_ptr<Tokenizer> load() const { return load_tokenizer(bytes()); }
};

}  // namespace specbound::test
