#include "server/logprobs_json.h"

#include "error.h"
#include "text/utf8.h"

namespace specbound::server {

namespace {

using Ordered = nlohmann::ordered_json;

// `bytes` tells what the text of half a character does not.
Ordered chat_entry(const PieceLogprob& of) {
  Ordered bytes = Ordered::array();
  for (const unsigned char byte : of.piece) bytes.push_back(byte);
  return {{"token", shown_utf8(of.piece)}, {"logprob", of.logprob}, {"bytes", std::move(bytes)}};
}

// Here there is no other place for bytes that are no text: OpenAI's "bytes:\xe2\x80".
std::string key_of(const std::string& piece) {
  if (is_utf8(piece)) return piece;
  std::string key = "bytes:";
  for (const unsigned char byte : piece) key += format("\\x%02x", byte);
  return key;
}

}  // namespace

Ordered chat_logprobs(std::span<const TokenLogprobs> tokens) {
  Ordered content = Ordered::array();
  for (const TokenLogprobs& token : tokens) {
    Ordered entry = chat_entry(token.drawn);
    Ordered& top = entry["top_logprobs"] = Ordered::array();
    for (const PieceLogprob& likely : token.top) top.push_back(chat_entry(likely));
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Ordered completion_logprobs(std::span<const TokenLogprobs> tokens) {
  Ordered names = Ordered::array(), drawn = names, tops = names, offsets = names;
  for (const TokenLogprobs& token : tokens) {
    names.push_back(key_of(token.drawn.piece));
    drawn.push_back(token.drawn.logprob);
    Ordered top = Ordered::object();
    for (const PieceLogprob& likely : token.top) {
      top.emplace(key_of(likely.piece), likely.logprob);  // of equal texts the likelier stays
    }
    top.emplace(key_of(token.drawn.piece), token.drawn.logprob);
    tops.push_back(std::move(top));
    offsets.push_back(token.offset);
  }
  return {{"tokens", std::move(names)},
          {"token_logprobs", std::move(drawn)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

}  // namespace specbound::server
