// Random text against libsentencepiece, which nobody here wrote: the vocabularies of the demo model
// and of stories260K, and small random vocabularies full of ties.
#include <doctest/doctest.h>

#ifndef SPECBOUND_HAVE_SENTENCEPIECE

TEST_CASE("sentencepiece: the oracle") {
  MESSAGE("SKIP: built without libsentencepiece (Debian: libsentencepiece-dev)");
}

#else

#include <sentencepiece_processor.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "templates/chat_template.h"
#include "text/tokenizer.h"
#include "tiny_vocabulary.h"

namespace specbound::sentencepiece_oracle_test {

namespace {

using test::TinyVocabulary;
using Ids = std::vector<int32_t>;
using Oracle = sentencepiece::SentencePieceProcessor;

constexpr EncodeOptions kPlain = {.add_special = false, .parse_special = false};
constexpr std::string_view kSpace = "\xE2\x96\x81";

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.good());
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The few bytes of protobuf that a SentencePiece model needs.
void put_varint(std::string& out, uint64_t value) {
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  out += static_cast<char>(value);
}
void put_number(std::string& out, int field, uint64_t value) {
  put_varint(out, field << 3);
  put_varint(out, value);
}
void put_bytes(std::string& out, int field, const std::string& bytes) {
  put_varint(out, field << 3 | 2);
  put_varint(out, bytes.size());
  out += bytes;
}

// A normalizer that leaves text as it is. Fields given twice count as set last, so appended to a
// serialized model this overrides what it says.
std::string plain_normalizer(bool add_dummy_prefix) {
  std::string spec, out;
  put_bytes(spec, 1, "identity");
  put_number(spec, 3, add_dummy_prefix);
  put_number(spec, 4, 0);  // remove_extra_whitespaces
  put_bytes(out, 3, spec);
  return out;
}

std::string serialize(const TinyVocabulary& v, bool byte_fallback, bool add_dummy_prefix) {
  std::string out, trainer;
  for (const TinyVocabulary::Token& token : v.tokens) {
    std::string piece;
    put_bytes(piece, 1, token.text);
    put_varint(piece, 2 << 3 | 5);
    piece.append(reinterpret_cast<const char*>(&token.score), sizeof(float));
    put_number(piece, 3, static_cast<uint64_t>(token.type));
    put_bytes(out, 1, piece);
  }
  put_number(trainer, 3, 2);  // BPE
  put_number(trainer, 35, byte_fallback);
  put_bytes(out, 2, trainer);
  return out + plain_normalizer(add_dummy_prefix);
}

std::string utf8(uint32_t c) {
  std::string out;
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      out += static_cast<char>(0xE0 | c >> 12);
    } else {
      out += static_cast<char>(0xF0 | c >> 18);
      out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    }
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
  }
  return out += static_cast<char>(0x80 | (c & 0x3F));
}

// Text of all sorts, well-formed: libsentencepiece replaces broken UTF-8 by U+FFFD before it looks
// at it, while bytes must come back unchanged here.
class RandomText {
 public:
  explicit RandomText(uint32_t seed) : random_(seed) {
    const std::string valid = read(SPECBOUND_TEST_DATA "/dialogue-valid/dialogue-valid.jsonl");
    prose_ = valid.substr(0, 100000);
  }

  std::string next() {
    std::string out;
    for (int n = below(6) + 1; n > 0; --n) out += part();
    return out;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % n); }

  std::string part() {
    std::string out;
    const int n = below(12);
    switch (below(11)) {
      case 0:  // printable ASCII
        for (int i = 0; i < n; ++i) out += static_cast<char>(0x20 + below(95));
        break;
      case 1:
        return std::string(n, ' ');
      case 2:
        for (int i = 0; i < n; ++i) out += static_cast<char>('0' + below(10));
        break;
      case 3:  // Latin with accents, Greek, Cyrillic
        for (int i = 0; i < n; ++i) out += utf8(0xA0 + below(0x460));
        break;
      case 4:  // emoji with joiners and selectors
        for (int i = 0; i < n / 2; ++i) {
          out += utf8(0x1F300 + below(0x3FF));
          if (below(3) == 0) out += below(2) ? "\xE2\x80\x8D" : "\xEF\xB8\x8F";
        }
        break;
      case 5:  // control characters, NUL among them
        for (int i = 0; i < n; ++i) out += static_cast<char>(below(32));
        break;
      case 6:  // any character
        for (int i = 0; i < n; ++i) {
          const uint32_t c = random_() % 0x110000;
          out += utf8(c >= 0xD800 && c < 0xE000 ? 0x4E00 + c % 0x5000 : c);
        }
        break;
      case 7:  // combining marks and the space symbol itself
        for (int i = 0; i < n; ++i)
          out += below(2) ? utf8(0x300 + below(0x70)) : std::string(kSpace);
        break;
      case 8:  // runs of one character
        return std::string(below(40), static_cast<char>('!' + below(94)));
      case 9: {  // the texts of special tokens
        constexpr const char* kTexts[] = {"<s>", "</s>", "<unk>", "<0x0A>", "<pad>"};
        return kTexts[below(5)];
      }
      default: {
        size_t begin = random_() % (prose_.size() - 100), size = random_() % 80;
        // Cut at ASCII, so that no character is cut in two.
        while (prose_[begin] & 0x80) ++begin;
        while (prose_[begin + size] & 0x80) --size;
        return prose_.substr(begin, size);
      }
    }
    return out;
  }

  std::mt19937 random_;
  std::string prose_;
};

std::string with_spaces(std::string_view text) {
  std::string out;
  for (size_t at; (at = text.find(kSpace)) != text.npos; text.remove_prefix(at + kSpace.size())) {
    out.append(text.substr(0, at)).push_back(' ');
  }
  return out.append(text);
}

void compare(const Tokenizer& tokenizer, const Oracle& oracle, int n_texts, uint32_t seed) {
  RandomText random(seed);
  size_t n_bytes = 0;
  for (int i = 0; i < n_texts; ++i) {
    const std::string text = random.next();
    n_bytes += text.size();
    CAPTURE(i);
    CAPTURE(text);
    const Ids ids = tokenizer.encode(text, kPlain);
    REQUIRE(ids == oracle.EncodeAsIds(text));
    REQUIRE(tokenizer.decode(ids) == with_spaces(text));
  }
  MESSAGE(n_texts << " texts, " << n_bytes << " bytes");
}

}  // namespace

TEST_CASE("sentencepiece: random text with the demo model's vocabulary") {
  const auto tokenizer =
      Tokenizer::from_gguf(Gguf::open(SPECBOUND_MODELS "/demo-chat-16l-q8_0.gguf"));
  Oracle oracle;
  REQUIRE(oracle.Load(SPECBOUND_TEST_DATA "/tokenizer/demo-tok.model").ok());
  REQUIRE(oracle.GetPieceSize() == tokenizer->vocab_size());
  compare(*tokenizer, oracle, 20000, 1);
}

TEST_CASE("sentencepiece: random text with the vocabulary of stories260K") {
  const auto tokenizer =
      Tokenizer::from_gguf(Gguf::open(SPECBOUND_TEST_DATA "/models/stories260K.gguf"));
  const std::string model = read(SPECBOUND_TEST_DATA "/models/tok512.model");
  Oracle oracle;
  // This model removes extra spaces first. A GGUF file does not carry that for SentencePiece BPE,
  // and no runtime does it; apart from it the two must agree.
  REQUIRE(oracle.LoadFromSerializedProto(model + plain_normalizer(true)).ok());
  REQUIRE(oracle.GetPieceSize() == tokenizer->vocab_size());
  compare(*tokenizer, oracle, 20000, 2);

  // The model as it is, for text without spaces it would remove.
  Oracle original;
  REQUIRE(original.LoadFromSerializedProto(model).ok());
  RandomText random(3);
  int n_compared = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::string text = random.next();
    const std::string shown = with_spaces(text);
    if (shown.empty() || shown.front() == ' ' || shown.back() == ' ' ||
        shown.find("  ") != shown.npos) {
      continue;
    }
    CAPTURE(text);
    REQUIRE(tokenizer->encode(text, kPlain) == original.EncodeAsIds(text));
    ++n_compared;
  }
  CHECK(n_compared > 500);
}

TEST_CASE("sentencepiece: small random vocabularies with many ties") {
  std::mt19937 random(5);
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  const std::vector<std::string> letters = {
      "a", "b", "c", "\xC3\xA9", "\xF0\x9F\x99\x82", std::string(kSpace)};
  // Up to `most` of the letters first..last-1.
  const auto word = [&](int most, int first, int last) {
    std::string out;
    for (int n = below(most) + 1; n > 0; --n) out += letters[first + below(last - first)];
    return out;
  };
  int n_texts = 0, n_unused = 0, n_user_defined = 0;
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    TinyVocabulary v;
    const bool bytes = below(2);
    if (bytes) v.add_bytes();
    // Libsentencepiece cuts user-defined symbols out inside one text; here what follows them gets a
    // space in front like any text. Without that space both mean the same.
    const bool user_defined = below(3) == 0;
    const bool unused = below(2);
    const bool prefix = !user_defined && below(2);
    // Tokens of the first three letters or the last three, none of both: text falls into short
    // runs.
    const bool sparse = below(2);
    std::set<std::string> seen;
    for (int n = below(40) + 5; n > 0; --n) {
      const int kind = below(4);
      const bool is_user_defined = user_defined && kind == 0;
      const int first = sparse ? below(2) * 3 : 0;
      const int last = sparse && first == 0 ? 3 : is_user_defined ? 5 : 6;  // no space in symbols
      const std::string text = word(4, first, last);
      if (!seen.insert(text).second) continue;
      const TokenType type = is_user_defined       ? TokenType::kUserDefined
                             : unused && kind == 1 ? TokenType::kUnused
                                                   : TokenType::kNormal;
      n_unused += type == TokenType::kUnused;
      n_user_defined += type == TokenType::kUserDefined;
      v.tokens.push_back({text, static_cast<float>(-below(6)), type});
    }
    v.more = [&](GgufWriter& w) { w.add_bool("tokenizer.ggml.add_space_prefix", prefix); };
    const auto tokenizer = v.load();
    Oracle oracle;
    REQUIRE(oracle.LoadFromSerializedProto(serialize(v, bytes, prefix)).ok());
    for (int i = 0; i < 100; ++i) {
      std::string text = with_spaces(word(30, 0, 6));
      if (below(10) == 0) text += "\xE2\x82\xAC";  // in no vocabulary
      CAPTURE(text);
      REQUIRE(tokenizer->encode(text, kPlain) == oracle.EncodeAsIds(text));
      ++n_texts;
    }
  }
  CHECK(n_texts == 40000);
  CHECK(n_unused > 100);
  CHECK(n_user_defined > 100);
}

// The training text was made turn by turn: "USER: ... ASSISTANT: ..." through libsentencepiece,
// then </s>.
TEST_CASE("sentencepiece: conversations become the ids the demo model was trained on") {
  const Gguf gguf = Gguf::open(SPECBOUND_MODELS "/demo-chat-16l-q8_0.gguf");
  const auto tokenizer = Tokenizer::from_gguf(gguf);
  const auto chat = ChatTemplate::from_gguf(gguf);
  Oracle oracle;
  REQUIRE(oracle.Load(SPECBOUND_TEST_DATA "/tokenizer/demo-tok.model").ok());
  std::ifstream file(SPECBOUND_TEST_DATA "/dialogue-valid/dialogue-valid.jsonl");
  std::string line;
  int n_turns = 0;
  while (std::getline(file, line)) {
    const nlohmann::json dialogue = nlohmann::json::parse(line);
    std::vector<ChatMessage> messages;
    Ids trained = {1};
    for (size_t i = 0; i + 1 < dialogue.size(); i += 2) {
      const std::string user = dialogue[i]["content"], reply = dialogue[i + 1]["content"];
      std::string text("USER: ");
      text.append(user).append(" ASSISTANT: ").append(reply);
      const std::vector<int> turn = oracle.EncodeAsIds(text);
      Ids whole = trained;
      whole.insert(whole.end(), turn.begin(), turn.end());
      whole.push_back(2);

      messages.push_back({ChatMessage::Role::kUser, user});
      const Ids open = chat->encode(*tokenizer, messages);
      REQUIRE(open.size() < whole.size());
      REQUIRE(std::equal(open.begin(), open.end(), whole.begin()));
      messages.push_back({ChatMessage::Role::kAssistant, reply});
      REQUIRE(chat->encode(*tokenizer, messages) == whole);
      trained = whole;
      ++n_turns;
    }
  }
  CHECK(n_turns > 1000);
}

}  // namespace specbound::sentencepiece_oracle_test

#endif
