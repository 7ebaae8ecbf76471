#include "text/merges.h"

#include <bit>
#include <limits>
#include <string>

#include "error.h"

namespace specbound {

MergePairs::MergePairs(const Gguf& gguf, const Vocabulary& vocabulary) {
  constexpr const char* kMerges = "tokenizer.ggml.merges";
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::kFormat, format("%s: %s%s", gguf.path().c_str(), kMerges, what.c_str()));
  };
  const auto merges = gguf.get_strings(kMerges);
  if (!merges) refuse(" is missing; a byte-level BPE vocabulary needs it");
  if (merges->size() > std::numeric_limits<uint32_t>::max()) {
    refuse(format(" has %zu entries; at most 4294967295 can be ranked", merges->size()));
  }
  slots_.assign(std::bit_ceil(merges->size() + merges->size() / 2 + 2), Slot{kFree, {0, -1}});
  mask_ = slots_.size() - 1;

  std::string joined;
  for (size_t rank = 0; rank < merges->size(); ++rank) {
    const std::string_view merge = (*merges)[rank];
    const auto refuse_merge = [&](const std::string& why) {
      refuse(format(": entry %zu, \"%s\": %s", rank, printable(merge).c_str(), why.c_str()));
    };
    const size_t space = merge.find(' ');
    if (space == merge.npos || space == 0 || space + 1 == merge.size() ||
        merge.find(' ', space + 1) != merge.npos) {
      refuse_merge("expected two tokens with one space between them");
    }
    joined.assign(merge.substr(0, space)).append(merge.substr(space + 1));
    const auto token = [&](std::string_view text) {
      const int32_t id = vocabulary.index.find(text);
      if (id < 0) refuse_merge(format("\"%s\" is no token", printable(text).c_str()));
      return id;
    };
    const int32_t left = token(merge.substr(0, space)), right = token(merge.substr(space + 1));
    const int32_t result = token(joined);
    const TokenType type = vocabulary.types[result];
    if (type == TokenType::kControl || type == TokenType::kUnknown) continue;
    const uint64_t key = pair(left, right);
    size_t i = slot(key);
    for (int n = 1; slots_[i].key != kFree; ++n, i = (i + 1) & mask_) {
      if (slots_[i].key == key) {
        refuse_merge(format("the same as entry %u", slots_[i].merge.rank));
      }
      if (n == kMostProbes) {
        refuse_merge(
            format("its hash collides with more than %d others, as none do by chance", n - 1));
      }
    }
    slots_[i] = {key, {static_cast<uint32_t>(rank), result}};
  }
}

}  // namespace specbound
