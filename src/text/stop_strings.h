// Stop strings: texts that end a reply where they appear, and are not part of it.
//
// They are looked for byte by byte in the text as it is shown, after a template or a vocabulary has
// cut the space in front of it: a stop string never matches what nobody sees. The one that is
// complete first counts, of several that end together the longest. So where the text ends does not
// depend on how it was cut into tokens or on what was drafted, and one ReplyText decides it for the
// decode loop and for the reader alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace specbound {

class StopStrings {
 public:
  static constexpr size_t kMaxStrings = 16, kMaxBytes = 256;

  StopStrings() = default;  // nothing stops
  // Throws Error(kUsage): too many of them, an empty one, one that is too long.
  explicit StopStrings(std::vector<std::string> strings);

  bool empty() const { return strings_.empty(); }
  const std::vector<std::string>& strings() const { return strings_; }
  // Size of the longest one that `text` ends with, 0 for none.
  size_t completed(std::string_view text) const;
  // Size of the longest end of `text` that one of them may begin with, without being all of it.
  size_t begun(std::string_view text) const;

 private:
  std::vector<std::string> strings_;
};

// The text of one reply, from its tokens. Bytes that may turn out to begin a stop string are held
// back until it is clear that they do not.
class ReplyText {
 public:
  // The bytes a token stands for.
  using Piece = std::function<std::string(int32_t token)>;
  // What becomes of the first piece that is not empty.
  using FirstPiece = std::function<std::string(int32_t token, std::string_view piece)>;

  // Text that can be shown, of tokens with the same mark.
  struct Stretch {
    std::string bytes;
    int mark;
  };

  // `stop` must outlive it.
  ReplyText(const StopStrings& stop, Piece piece, FirstPiece first_piece = {});

  // The next token of the reply. `mark` stays with its bytes, however late they come out.
  std::vector<Stretch> push(int32_t token, int mark = 0);
  // The reply is over: what was held back, unless a stop string ended it.
  std::vector<Stretch> finish();

  // The text of `reply` has a stop string in it, the tokens pushed so far being its first. Tokens
  // behind them may be drafts: nothing of them is kept.
  bool ends(std::span<const int32_t> reply) const;

 private:
  struct Scan {
    std::string held;
    bool stopped = false;

    // One more byte. Bytes at the front of `held` that can go now; after a stop, `held` is those.
    size_t take(char byte, const StopStrings& stop);
  };
  std::string bytes_of(int32_t token, bool& begun) const;
  void release(size_t n, std::vector<Stretch>& out);

  const StopStrings& stop_;
  Piece piece_;
  FirstPiece first_piece_;
  size_t pushed_ = 0;  // tokens
  bool begun_ = false;
  Scan scan_;
  std::vector<int> marks_;  // of the bytes in scan_.held
};

}  // namespace specbound
