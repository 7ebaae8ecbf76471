#include "text/utf8.h"

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
  const auto byte = static_cast<unsigned char>(text[0]);
  const Lead first = lead(byte);
  if (first.length == 0) return {Utf8Head::kBroken, 1};
  if (first.length == 1) return {Utf8Head::kWhole, 1, byte};
  char32_t code = byte & (0x7F >> first.length);
  const int available = static_cast<int>(std::min<size_t>(text.size(), first.length));
  for (int i = 1; i < available; ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool fits = i == 1 ? c >= first.low && c <= first.high : (c & 0xC0) == 0x80;
    if (!fits) return {Utf8Head::kBroken, i};
    code = code << 6 | (c & 0x3F);
  }
  if (available < first.length) return {Utf8Head::kCut, available};
  return {Utf8Head::kWhole, available, code};
}

char32_t code_point(std::string_view character) {
  const Utf8Head head = utf8_head(character);
  return head.kind == Utf8Head::kWhole ? head.code : static_cast<unsigned char>(character[0]);
}

std::string to_utf8(char32_t c) {
  const auto lead = [c](int mark, int shift) { return static_cast<char>(mark | c >> shift); };
  const auto tail = [c](int shift) { return static_cast<char>(0x80 | (c >> shift & 0x3F)); };
  if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return "";
  if (c < 0x80) return {lead(0, 0)};
  if (c < 0x800) return {lead(0xC0, 6), tail(0)};
  if (c < 0x10000) return {lead(0xE0, 12), tail(6), tail(0)};
  return {lead(0xF0, 18), tail(12), tail(6), tail(0)};
}

size_t utf8_prefix(std::string_view text) {
  size_t size = 0;
  while (size < text.size()) {
    const Utf8Head head = utf8_head(text.substr(size));
    if (head.kind != Utf8Head::kWhole) break;
    size += head.length;
  }
  return size;
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

std::string shown_utf8(std::string_view bytes) {
  Utf8Stream text;
  std::string shown = text.push(bytes);
  return shown += text.finish();
}

bool is_shapeless(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c || c == 0x180e ||
         (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
         (c >= 0x2060 && c <= 0x206f) || (c >= 0xfe00 && c <= 0xfe0f) || c == 0xfeff ||
         (c >= 0xfff9 && c <= 0xfffb) || (c & 0xfffe) == 0xfffe || (c >= 0xe0000 && c <= 0xe0fff);
}

}  // namespace specbound
