// Texts to look up in, as tokens, with their places sorted (model/sorted_places.h): what REST (He
// et al. 2023, arXiv 2311.08252) drafts from. Mapped, so that processes share it. Opening it
// reads all of it once; what lookups then do not come to, the system may take back.
//
//   byte  0   "SBSTORE\n"
//         8   u32 version, 1; u32 vocab_size
//        16   u64 vocabulary_fingerprint(); u64 n_tokens; u64 n_places
//        40   u64 WordHash of the header before and of all behind it
//        48   i32 tokens[n_tokens]: texts, kBetween behind each
//         .   u32 places[n_places]: all places but those of kBetween, sorted
//
// All of it is held against what it says when it is opened, but for the order of the places, which
// would take as long as to sort them: whatever the file is, tokens are of the vocabulary and
// behind() is safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/gguf.h"
#include "model/mapped_file.h"

namespace specbound {

// Which token each id is.
struct VocabularyId {
  int size = 0;
  uint64_t fingerprint = 0;

  bool operator==(const VocabularyId&) const = default;
};
// Of the texts of its tokens alone: a model that was quantized otherwise has the same.
uint64_t vocabulary_fingerprint(const Gguf& model);

class Datastore {
 public:
  static constexpr std::string_view kMagic = "SBSTORE\n";
  static constexpr int32_t kBetween = -1;  // no token: no context reaches over it
  static constexpr uint64_t kMostTokens = (uint64_t{1} << 32) - 1;

  // Throws Error(kFile | kFormat) for what is no whole datastore, Error(kUsage) for one of another
  // vocabulary.
  static Datastore open(const std::string& path, const VocabularyId& vocabulary);
  // `bytes`, aligned for numbers of 64 bits, must outlive it.
  static Datastore parse(std::span<const std::byte> bytes, const std::string& path,
                         const VocabularyId& vocabulary);

  const std::string& path() const { return path_; }
  std::span<const int32_t> tokens() const { return tokens_; }
  std::span<const uint32_t> places() const { return places_; }

  // What stands `n` tokens behind a place; kBetween behind the last text.
  int32_t behind(uint32_t place, size_t n) const {
    return place + n < tokens_.size() ? tokens_[place + n] : kBetween;
  }
  // The places where `context`, tokens of the vocabulary, stands, sorted by what is behind it;
  // anything where they are not sorted.
  std::span<const uint32_t> find(std::span<const int32_t> context) const;
  struct Match {
    int length = 0;  // 0: nothing stands there
    std::span<const uint32_t> places = {};
  };
  // The longest end of `context` that stands there, of `least` to `most` tokens.
  Match longest(std::span<const int32_t> context, int least, int most) const;

 private:
  Datastore() = default;

  std::string path_;
  std::unique_ptr<MappedFile> file_;
  std::span<const int32_t> tokens_;
  std::span<const uint32_t> places_;
};

// Sorts `tokens`, of which the last is kBetween, and writes the file, whole or not at all.
// `progress`, told of parts done, may throw. Throws Error(kFile).
void write_datastore(const std::string& path, const VocabularyId& vocabulary,
                     std::span<const int32_t> tokens,
                     const std::function<void(int done, int total)>& progress = {});
// The same as bytes.
std::vector<std::byte> datastore_file(const VocabularyId& vocabulary,
                                      std::span<const int32_t> tokens);

}  // namespace specbound
