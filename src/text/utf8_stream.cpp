#include "text/utf8_stream.h"

#include <algorithm>

#include "error.h"

namespace specbound {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// How a lead byte goes on: the range of the second byte keeps out overlong forms, surrogates and
// values above U+10FFFF (Unicode 15, table 3-7). Length 0: no character starts so.
struct Lead {
  int length;
  unsigned char low, high;
};

Lead lead(unsigned char c) {
  if (c < 0x80) return {1, 0, 0};
  if (c < 0xC2) return {0, 0, 0};
  if (c < 0xE0) return {2, 0x80, 0xBF};
  if (c == 0xE0) return {3, 0xA0, 0xBF};
  if (c == 0xED) return {3, 0x80, 0x9F};
  if (c < 0xF0) return {3, 0x80, 0xBF};
  if (c == 0xF0) return {4, 0x90, 0xBF};
  if (c < 0xF4) return {4, 0x80, 0xBF};
  if (c == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Head utf8_head(std::string_view text) {
  SB_CHECK(!text.empty());
  const Lead first = lead(static_cast<unsigned char>(text[0]));
  if (first.length <= 1) return {first.length ? Utf8Head::kWhole : Utf8Head::kBroken, 1};
  const int available = static_cast<int>(std::min<size_t>(text.size(), first.length));
  for (int i = 1; i < available; ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool fits = i == 1 ? c >= first.low && c <= first.high : (c & 0xC0) == 0x80;
    if (!fits) return {Utf8Head::kBroken, i};
  }
  return {available < first.length ? Utf8Head::kCut : Utf8Head::kWhole, available};
}

std::string Utf8Stream::push(std::string_view bytes) {
  std::string joined;
  if (!pending_.empty()) {
    joined = pending_;
    joined += bytes;
    bytes = joined;
    pending_.clear();
  }
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const Utf8Head head = utf8_head(bytes);
    if (head.kind == Utf8Head::kCut) {
      pending_ = bytes;
      break;
    }
    out += head.kind == Utf8Head::kWhole ? bytes.substr(0, head.length) : kReplacement;
    bytes.remove_prefix(head.length);
  }
  return out;
}

std::string Utf8Stream::finish() {
  std::string out(pending_.empty() ? std::string_view() : kReplacement);
  pending_.clear();
  return out;
}

}  // namespace specbound
