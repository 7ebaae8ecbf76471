// Small datastores, and bytes of them that lie with a checksum that is right.
#pragma once

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "model/datastore.h"
#include "model/word_hash.h"

namespace specbound::test {

inline constexpr size_t kStoreHeader = 48, kStoreChecksum = 40;

// Texts with an end behind each.
inline std::vector<int32_t> store_tokens(const std::vector<std::vector<int32_t>>& texts) {
  std::vector<int32_t> tokens;
  for (const std::vector<int32_t>& text : texts) {
    tokens.insert(tokens.end(), text.begin(), text.end());
    tokens.push_back(Datastore::kBetween);
  }
  return tokens;
}

// In memory.
class TinyStore {
 public:
  TinyStore(const VocabularyId& vocabulary, std::vector<int32_t> tokens)
      : bytes_(datastore_file(vocabulary, tokens)),
        store_(Datastore::parse(bytes_, "tiny.datastore", vocabulary)) {}

  const Datastore& operator*() const { return store_; }
  const Datastore* operator->() const { return &store_; }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
  Datastore store_;
};

template <class T>
void put(std::vector<std::byte>& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

// As if what the bytes say had been written so.
inline void set_checksum(std::vector<std::byte>& bytes) {
  if (bytes.size() < kStoreHeader) return;
  uint64_t n_tokens = 0;
  std::memcpy(&n_tokens, bytes.data() + 24, sizeof n_tokens);
  const std::span<const std::byte> all = bytes, behind = all.subspan(kStoreHeader);
  const size_t split = std::min<uint64_t>(behind.size() / 4, n_tokens) * 4;
  WordHash hash;
  hash.add(all.first(kStoreChecksum));
  hash.add(behind.first(split));
  hash.add(behind.subspan(split));
  put(bytes, kStoreChecksum, hash.value());
}

}  // namespace specbound::test
