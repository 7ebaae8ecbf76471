#include "text/stop_strings.h"

#include <algorithm>

#include "error.h"

namespace specbound {

StopStrings::StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {
  if (strings_.size() > kMaxStrings) {
    throw Error(ErrorCode::kUsage, format("expected at most %zu stop strings, found %zu",
                                          kMaxStrings, strings_.size()));
  }
  for (const std::string& s : strings_) {
    if (s.empty() || s.size() > kMaxBytes) {
      throw Error(ErrorCode::kUsage, format("expected a stop string of 1 to %zu bytes, found %zu",
                                            kMaxBytes, s.size()));
    }
  }
}

size_t StopStrings::completed(std::string_view text) const {
  size_t longest = 0;
  for (const std::string& s : strings_) {
    if (text.ends_with(s)) longest = std::max(longest, s.size());
  }
  return longest;
}

size_t StopStrings::begun(std::string_view text) const {
  size_t longest = 0;
  for (const std::string_view s : strings_) {
    for (size_t n = std::min(text.size(), s.size() - 1); n > longest; --n) {
      if (text.ends_with(s.substr(0, n))) longest = n;
    }
  }
  return longest;
}

ReplyText::ReplyText(const StopStrings& stop, Piece piece, FirstPiece first_piece)
    : stop_(stop), piece_(std::move(piece)), first_piece_(std::move(first_piece)) {}

// `held` is always the longest end of the text that may begin a stop string, so every one that is
// under way lies in it as a whole.
size_t ReplyText::Scan::take(char byte, const StopStrings& stop) {
  held += byte;
  const size_t completed = stop.completed(held);
  if (completed == 0) return held.size() - stop.begun(held);
  stopped = true;
  held.resize(held.size() - completed);
  return held.size();
}

std::string ReplyText::bytes_of(int32_t token, bool& begun) const {
  std::string piece = piece_(token);
  if (begun || piece.empty()) return piece;
  begun = true;
  return first_piece_ ? first_piece_(token, piece) : piece;
}

// The first n bytes that were held back.
void ReplyText::release(size_t n, std::vector<Stretch>& out) {
  for (size_t i = 0; i < n; ++i) {
    if (out.empty() || out.back().mark != marks_[i]) out.push_back({"", marks_[i]});
    out.back().bytes += scan_.held[i];
  }
  scan_.held.erase(0, n);
  marks_.erase(marks_.begin(), marks_.begin() + static_cast<long>(n));
}

std::vector<ReplyText::Stretch> ReplyText::push(int32_t token, int mark) {
  ++pushed_;
  std::string bytes = bytes_of(token, begun_);
  if (stop_.empty() && !bytes.empty()) return {{std::move(bytes), mark}};
  std::vector<Stretch> out;
  for (const char byte : bytes) {
    if (scan_.stopped) break;
    marks_.push_back(mark);
    release(scan_.take(byte, stop_), out);
  }
  return out;
}

std::vector<ReplyText::Stretch> ReplyText::finish() {
  std::vector<Stretch> out;
  if (!scan_.stopped) release(scan_.held.size(), out);
  return out;
}

bool ReplyText::ends(std::span<const int32_t> reply) const {
  SB_CHECK(reply.size() >= pushed_);
  Scan scan = scan_;
  bool begun = begun_;
  for (const int32_t token : reply.subspan(pushed_)) {
    for (const char byte : bytes_of(token, begun)) {
      if (!scan.stopped) scan.held.erase(0, scan.take(byte, stop_));
    }
  }
  return scan.stopped;
}

}  // namespace specbound
