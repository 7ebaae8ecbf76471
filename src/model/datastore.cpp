#include "model/datastore.h"

#include <algorithm>
#include <array>
#include <bit>
#include <climits>
#include <cstring>
#include <iterator>

#include "error.h"
#include "model/new_file.h"
#include "model/sorted_places.h"
#include "model/word_hash.h"

namespace specbound {
namespace {

static_assert(std::endian::native == std::endian::little, "a datastore is read in place");

constexpr uint32_t kVersion = 1;
constexpr const char* kAgain = "make it again: specbound datastore build";

struct Header {
  std::array<char, 8> magic;
  uint32_t version, vocab_size;
  uint64_t vocabulary, n_tokens, n_places, checksum;
};
static_assert(sizeof(Header) == 48);

uint64_t checksum(const Header& header, std::span<const std::byte> tokens,
                  std::span<const std::byte> places) {
  WordHash hash;
  hash.add(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, checksum)));
  hash.add(tokens);
  hash.add(places);
  return hash.value();
}

// What write_datastore() writes, in its order.
struct Parts {
  Header header;
  std::vector<uint32_t> places;
};

Parts parts_of(const VocabularyId& vocabulary, std::span<const int32_t> tokens,
               const std::function<void(int done, int total)>& progress) {
  SB_CHECK(!tokens.empty() && tokens.back() == Datastore::kBetween);
  Parts parts;
  parts.places = sorted_places(tokens, vocabulary.size, progress);
  // They come first.
  const auto between = std::ranges::count(tokens, Datastore::kBetween);
  parts.places.erase(parts.places.begin(), parts.places.begin() + between);
  parts.header = {{},
                  kVersion,
                  static_cast<uint32_t>(vocabulary.size),
                  vocabulary.fingerprint,
                  tokens.size(),
                  parts.places.size(),
                  0};
  std::ranges::copy(Datastore::kMagic, parts.header.magic.begin());
  parts.header.checksum = checksum(parts.header, std::as_bytes(tokens),
                                   std::as_bytes(std::span<const uint32_t>(parts.places)));
  return parts;
}

[[noreturn]] void refuse_datastore(const std::string& path, const std::string& expected,
                                   const std::string& found) {
  throw Error(ErrorCode::kFormat, format("%s: expected %s, found %s; %s", path.c_str(),
                                         expected.c_str(), found.c_str(), kAgain));
}

Header read_header(std::span<const std::byte> bytes, const std::string& path) {
  Header header;
  if (bytes.size() < sizeof header) {
    refuse_datastore(path, "a datastore", format("a file of %zu bytes", bytes.size()));
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  if (!std::ranges::equal(header.magic, Datastore::kMagic)) {
    refuse_datastore(path, "a datastore", "something else");
  }
  if (header.version != kVersion) {
    refuse_datastore(path, format("a datastore of version %u", kVersion),
                     format("version %u", header.version));
  }
  if (header.n_tokens == 0 || header.n_tokens > Datastore::kMostTokens ||
      header.n_places > header.n_tokens) {
    refuse_datastore(path,
                     format("up to %llu tokens, and no more places than them",
                            static_cast<unsigned long long>(Datastore::kMostTokens)),
                     format("%llu and %llu", static_cast<unsigned long long>(header.n_tokens),
                            static_cast<unsigned long long>(header.n_places)));
  }
  const uint64_t size = sizeof header + 4 * (header.n_tokens + header.n_places);
  if (bytes.size() != size) {
    refuse_datastore(path, format("%llu bytes, as it says", static_cast<unsigned long long>(size)),
                     format("%zu: cut short or damaged", bytes.size()));
  }
  return header;
}

template <class T>
std::span<const T> numbers(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

}  // namespace

Datastore Datastore::parse(std::span<const std::byte> bytes, const std::string& path,
                           const VocabularyId& vocabulary) {
  SB_CHECK(reinterpret_cast<uintptr_t>(bytes.data()) % alignof(uint64_t) == 0);
  const Header header = read_header(bytes, path);
  const VocabularyId own = {
      static_cast<int>(std::min<uint32_t>(header.vocab_size, static_cast<uint32_t>(INT_MAX))),
      header.vocabulary};
  if (own != vocabulary) {
    throw Error(
        ErrorCode::kUsage,
        format(
            "%s: expected a datastore of the model's vocabulary of %d tokens, found one of %s; "
            "%s with this model",
            path.c_str(), vocabulary.size,
            own.size == vocabulary.size ? "as many other ones" : std::to_string(own.size).c_str(),
            kAgain));
  }
  const std::span<const std::byte> behind = bytes.subspan(sizeof(Header));
  const std::span<const std::byte> tokens = behind.first(4 * header.n_tokens);
  const std::span<const std::byte> places = behind.subspan(4 * header.n_tokens);
  Datastore store;
  store.path_ = path;
  store.tokens_ = numbers<int32_t>(tokens);
  store.places_ = numbers<uint32_t>(places);
  const auto strange_token = std::ranges::find_if(store.tokens_, [&](int32_t token) {
    return token != kBetween && (token < 0 || token >= vocabulary.size);
  });
  if (strange_token != store.tokens_.end()) {
    refuse_datastore(path, format("tokens below %d", vocabulary.size),
                     std::to_string(*strange_token));
  }
  if (store.tokens_.back() != kBetween) {
    refuse_datastore(path, "an end behind the last text", "none");
  }
  const auto strange_place =
      std::ranges::find_if(store.places_, [&](uint32_t place) { return place >= header.n_tokens; });
  if (strange_place != store.places_.end()) {
    refuse_datastore(path,
                     format("places below %llu", static_cast<unsigned long long>(header.n_tokens)),
                     std::to_string(*strange_place));
  }
  if (checksum(header, tokens, places) != header.checksum) {
    refuse_datastore(path, "what its checksum says", "other bytes: damaged");
  }
  return store;
}

Datastore Datastore::open(const std::string& path, const VocabularyId& vocabulary) {
  auto file = std::make_unique<MappedFile>(path);
  Datastore store = parse(file->bytes(), path, vocabulary);
  store.file_ = std::move(file);
  return store;
}

std::span<const uint32_t> Datastore::find(std::span<const int32_t> context) const {
  const auto text = [&](uint32_t place) {
    return tokens_.subspan(place, std::min(context.size(), tokens_.size() - place));
  };
  const auto first =
      std::ranges::lower_bound(places_, context, std::ranges::lexicographical_compare, text);
  const auto last = std::ranges::upper_bound(first, places_.end(), context,
                                             std::ranges::lexicographical_compare, text);
  return {first, last};
}

Datastore::Match Datastore::longest(std::span<const int32_t> context, int least, int most) const {
  Match match;
  int low = least, high = std::min(most, static_cast<int>(context.size()));
  // Where n tokens stand, the last n - 1 of them do too.
  while (low <= high) {
    const int n = low + (high - low) / 2;
    const std::span<const uint32_t> places = find(context.last(static_cast<size_t>(n)));
    if (places.empty()) {
      high = n - 1;
    } else {
      match = {n, places};
      low = n + 1;
    }
  }
  return match;
}

void write_datastore(const std::string& path, const VocabularyId& vocabulary,
                     std::span<const int32_t> tokens,
                     const std::function<void(int done, int total)>& progress) {
  const Parts parts = parts_of(vocabulary, tokens, progress);
  NewFile file(path);
  file.write(std::as_bytes(std::span(&parts.header, 1)));
  file.write(std::as_bytes(tokens));
  file.write(std::as_bytes(std::span<const uint32_t>(parts.places)));
  file.rename_over_target();
}

std::vector<std::byte> datastore_file(const VocabularyId& vocabulary,
                                      std::span<const int32_t> tokens) {
  const Parts parts = parts_of(vocabulary, tokens, {});
  std::vector<std::byte> bytes;
  for (const std::span<const std::byte> part :
       {std::as_bytes(std::span(&parts.header, 1)), std::as_bytes(tokens),
        std::as_bytes(std::span<const uint32_t>(parts.places))}) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

}  // namespace specbound
