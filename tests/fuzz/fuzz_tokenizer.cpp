// Any bytes as text over real vocabularies, or over small ones of each way to cut words; any bytes
// as the file a vocabulary comes from, or as its tokens and merges. The first byte of an input says
// which.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "error.h"
#include "model/gguf.h"
#include "templates/chat_template.h"
#include "tests/unit/tiny_bpe.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace {

using namespace specbound;

constexpr std::string_view kSpace =
    "\xE2\x96\x81";  // decodes to a space: such text does not come back

std::unique_ptr<Tokenizer> load(const char* path) {
  return Tokenizer::from_gguf(Gguf::open(path));
}

const Tokenizer& llama() {
  static const auto t = load(SPECBOUND_TEST_DATA "/tokenizer/ggml-vocab-llama-spm.gguf");
  return *t;
}

const Tokenizer& phi3() {
  static const auto t = load(SPECBOUND_TEST_DATA "/tokenizer/ggml-vocab-phi-3.gguf");
  return *t;
}

const Tokenizer& gpt2() {
  static const auto t = load(SPECBOUND_TEST_DATA "/tokenizer/ggml-vocab-gpt-2.gguf");
  return *t;
}

// One vocabulary for each way to cut words.
const Tokenizer& tiny_bpe(unsigned char which) {
  static const auto all = [] {
    std::vector<std::unique_ptr<Tokenizer>> out;
    for (const char* pre : {"gpt-2", "llama-bpe", "minicpm5", "qwen2", "qwen35", "seed-coder",
                            "tekken", "gpt-4o", "deepseek-llm", "deepseek-coder", "deepseek-v3",
                            "falcon", "starcoder", "bloom", "viking", "default"}) {
      test::TinyBpe v;
      v.pre = pre;
      v.add_bytes();
      v.add_merge("a", "a");
      v.add_merge("1", "2");
      v.add_merge(test::spelled_byte(0xE2), test::spelled_byte(0x82));
      v.add_merge(test::spelled_byte(' '), "aa");
      v.add("<s>", TokenType::kControl);
      v.add("  ", TokenType::kUserDefined);
      v.more = [](GgufWriter& w) { w.add_bool("tokenizer.ggml.add_bos_token", false); };
      out.push_back(v.load());
    }
    return out;
  }();
  return *all[which % all.size()];
}

std::string show(std::string_view text, size_t cut) {
  Utf8Stream stream;
  std::string out = stream.push(text.substr(0, cut));
  out += stream.push(text.substr(cut));
  return out + stream.finish();
}

// `spaces`: of U+2581 a space is made.
void fuzz_text(const Tokenizer& tokenizer, std::string_view text, bool spaces) {
  const EncodeOptions plain = {.add_special = false, .parse_special = false};
  const std::vector<int32_t> ids = tokenizer.encode(text, plain);
  for (const int32_t id : ids) {
    SB_CHECK(id >= 0 && id < tokenizer.vocab_size());
    SB_CHECK(!tokenizer.is_control(id));
  }
  if (!spaces || text.find(kSpace) == text.npos) SB_CHECK(tokenizer.decode(ids) == text);

  const std::vector<int32_t> parsed = tokenizer.encode(text, {.parse_special = true});
  if (tokenizer.add_bos()) SB_CHECK(!parsed.empty() && parsed[0] == tokenizer.bos());
  std::string pieces;
  for (const int32_t id : parsed) pieces += tokenizer.piece(id, true);
  const std::string decoded = tokenizer.decode(parsed, true);
  SB_CHECK(decoded.size() == pieces.size() || decoded.size() + 1 == pieces.size());

  // Cut anywhere, the stream shows the same, and showing that again changes nothing.
  const std::string whole = show(text, 0);
  const size_t step = text.size() < 64 ? 1 : text.size() / 16;
  for (size_t cut = 0; cut <= text.size(); cut += step) SB_CHECK(show(text, cut) == whole);
  SB_CHECK(show(whole, whole.size() / 2) == whole);
}

void try_vocabulary(const Tokenizer& tokenizer) {
  const std::string_view text = "Hello <s> \xF0\x9F\xA6\x99\n  aa\xFF </s>";
  const std::vector<int32_t> ids = tokenizer.encode(text, {.parse_special = true});
  for (const int32_t id : ids) SB_CHECK(id >= 0 && id < tokenizer.vocab_size());
  tokenizer.decode(ids);
  for (const int32_t id : tokenizer.encode(text, {.add_special = false, .parse_special = false})) {
    SB_CHECK(!tokenizer.is_control(id));
  }
  for (int32_t id = -1; id <= tokenizer.vocab_size(); ++id) {
    tokenizer.piece(id, true);
    tokenizer.is_end(id);
  }
}

// The bytes and, line by line, further tokens with their types, an empty line, merges.
void fuzz_merges(std::string_view lines) {
  test::TinyBpe v;
  v.add_bytes();
  bool merges = false;
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (merges) {
      v.merges.emplace_back(line);
    } else if (line.empty()) {
      merges = true;
    } else {
      v.add(line.substr(1), static_cast<TokenType>(line[0] % 7));
    }
  }
  try {
    try_vocabulary(*v.load());
  } catch (const Error&) {
  }
}

// A whole vocabulary that any text can be tried on, or an Error.
void fuzz_file(std::string_view file) {
  // Copied, because a file in memory must begin at a multiple of 8.
  const auto* begin = reinterpret_cast<const std::byte*>(file.data());
  const std::vector<std::byte> bytes(begin, begin + file.size());
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplate> chat;
  try {
    const Gguf gguf = Gguf::parse(bytes, "fuzz.gguf");
    try {
      chat = ChatTemplate::from_gguf(gguf);
    } catch (const Error&) {
    }
    tokenizer = Tokenizer::from_gguf(gguf);
  } catch (const Error&) {
    return;
  }
  try {
    try_vocabulary(*tokenizer);
  } catch (const Error&) {  // it lacks a byte of the text
  }
  if (!chat) return;
  const ChatMessage talk[] = {{ChatMessage::Role::kUser, "Hello <s> </s>"}};
  try {
    chat->encode(*tokenizer, talk);
    chat->render(talk);
  } catch (const Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 7) {
    case '0' % 7:
      fuzz_text(llama(), text, true);
      break;
    case '1' % 7:
      fuzz_text(phi3(), text, true);
      break;
    case '2' % 7:
      fuzz_file(text);
      break;
    case '4' % 7:
      fuzz_text(gpt2(), text, false);
      break;
    case '5' % 7:
      if (!text.empty()) fuzz_text(tiny_bpe(data[1]), text.substr(1), false);
      break;
    case '6' % 7:
      fuzz_merges(text);
      break;
  }
  return 0;
}
