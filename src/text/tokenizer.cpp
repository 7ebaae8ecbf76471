#include "text/tokenizer.h"

#include <algorithm>

#include "error.h"
#include "text/bpe_tokenizer.h"
#include "text/spm_tokenizer.h"

namespace specbound {

namespace {

// What tokenizer.ggml.model says, in words.
constexpr struct {
  std::string_view model;
  const char* words;
} kKinds[] = {
    {"bert", "WordPiece"},       {"t5", "SentencePiece unigram"},   {"rwkv", "RWKV trie"},
    {"plamo2", "PLaMo unigram"}, {"gemma4", "BPE over characters"}, {"no_vocab", "no vocabulary"},
};

}  // namespace

bool TextOrigin::has_input(size_t at, size_t size) const {
  const auto first = input.begin() + static_cast<ptrdiff_t>(at);
  const auto last = first + static_cast<ptrdiff_t>(size);
  return std::find(first, last, true) != last;
}

std::unique_ptr<Tokenizer> Tokenizer::from_gguf(const Gguf& gguf) {
  const auto model = gguf.get_string("tokenizer.ggml.model");
  if (!model) {
    throw Error(
        ErrorCode::kFormat,
        format("%s: no tokenizer.ggml.model: the file holds no vocabulary; convert the model "
               "again together with its tokenizer",
               gguf.path().c_str()));
  }
  if (*model == "llama") return std::make_unique<SpmTokenizer>(gguf);
  if (*model == "gpt2") return std::make_unique<BpeTokenizer>(gguf);
  std::string kind = format("\"%s\"", printable(*model).c_str());
  for (const auto& known : kKinds) {
    if (known.model == *model) kind += format(" (%s)", known.words);
  }
  throw Error(
      ErrorCode::kUnsupported,
      format("%s: its vocabulary is of kind %s; text is turned into tokens only for \"llama\" "
             "(SentencePiece BPE) and \"gpt2\" (byte-level BPE)",
             gguf.path().c_str(), kind.c_str()));
}

}  // namespace specbound
