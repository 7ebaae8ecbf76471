// Any bytes as text over a real vocabulary, and any bytes as the file a vocabulary comes from. The
// first byte of an input says which.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "error.h"
#include "model/gguf.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "text/utf8_stream.h"

namespace {

using namespace specbound;

constexpr std::string_view kSpace =
    "\xE2\x96\x81";  // decodes to a space: such text does not come back

const Tokenizer& vocabulary(bool phi3) {
  static const auto load = [](const char* path) { return Tokenizer::from_gguf(Gguf::open(path)); };
  static const auto llama = load(SPECBOUND_TEST_DATA "/tokenizer/ggml-vocab-llama-spm.gguf");
  static const auto phi = load(SPECBOUND_TEST_DATA "/tokenizer/ggml-vocab-phi-3.gguf");
  return phi3 ? *phi : *llama;
}

std::string show(std::string_view text, size_t cut) {
  Utf8Stream stream;
  std::string out = stream.push(text.substr(0, cut));
  out += stream.push(text.substr(cut));
  return out + stream.finish();
}

void fuzz_text(const Tokenizer& tokenizer, std::string_view text) {
  const EncodeOptions plain = {.add_special = false, .parse_special = false};
  const std::vector<int32_t> ids = tokenizer.encode(text, plain);
  for (const int32_t id : ids) {
    SB_CHECK(id >= 0 && id < tokenizer.vocab_size());
    SB_CHECK(!tokenizer.is_control(id));
  }
  if (text.find(kSpace) == text.npos) SB_CHECK(tokenizer.decode(ids) == text);

  const std::vector<int32_t> parsed = tokenizer.encode(text, {.parse_special = true});
  SB_CHECK(!parsed.empty() && parsed[0] == tokenizer.bos());
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

// A whole vocabulary that any text can be tried on, or an Error.
void fuzz_file(std::string_view file) {
  // Copied, because a file in memory must begin at a multiple of 8.
  const auto* begin = reinterpret_cast<const std::byte*>(file.data());
  const std::vector<std::byte> bytes(begin, begin + file.size());
  const std::string_view text = "Hello <s> \xF0\x9F\xA6\x99\n  aa\xFF </s>";
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
  const std::vector<int32_t> ids = tokenizer->encode(text, {.parse_special = true});
  for (const int32_t id : ids) SB_CHECK(id >= 0 && id < tokenizer->vocab_size());
  tokenizer->decode(ids);
  for (int32_t id = -1; id <= tokenizer->vocab_size(); ++id) {
    tokenizer->piece(id, true);
    tokenizer->is_end(id);
  }
  if (chat) {
    const ChatMessage talk[] = {{ChatMessage::Role::kUser, std::string(text)}};
    chat->encode(*tokenizer, talk);
    chat->render(talk);
  }
}

// Chat templates alone: through a GGUF file the fuzzer would hardly reach them.
void fuzz_template(std::string_view source) {
  std::vector<std::byte> file;
  const auto put = [&](const void* from, size_t size) {
    const auto* bytes = static_cast<const std::byte*>(from);
    file.insert(file.end(), bytes, bytes + size);
  };
  const auto put_string = [&](std::string_view s) {
    const uint64_t size = s.size();
    put(&size, sizeof(size));
    put(s.data(), s.size());
  };
  const uint32_t version = 3, string_type = 8;
  const uint64_t counts[2] = {0, 1};
  put("GGUF", 4);
  put(&version, sizeof(version));
  put(counts, sizeof(counts));
  put_string("tokenizer.chat_template");
  put(&string_type, sizeof(string_type));
  put_string(source);
  try {
    const auto chat = ChatTemplate::from_gguf(Gguf::parse(file, "fuzz.gguf"));
    SB_CHECK(chat->render({}) == "<s>");
  } catch (const Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
    case 1:
      fuzz_text(vocabulary(data[0] % 4 == 1), text);
      break;
    case 2:
      fuzz_file(text);
      break;
    case 3:
      fuzz_template(text);
      break;
  }
  return 0;
}
