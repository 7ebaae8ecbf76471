// libFuzzer target: any bytes as a datastore, as they are and with the checksum that they need to
// get past it; what is taken is then looked up in. The answer is an Error, or places and tokens
// that are there.
//
// Started with an empty corpus directory, it fills it with well-formed files first.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "../unit/tiny_datastore.h"
#include "empty_corpus.h"
#include "error.h"

using namespace specbound;

namespace {

constexpr VocabularyId kVocabulary = {40, 9};

void look_up(const Datastore& store) {
  for (const std::vector<int32_t>& context : {std::vector<int32_t>{3},
                                              {3, 4},
                                              {1, 2, 3, 4, 5},
                                              std::vector<int32_t>(40, 7),
                                              std::vector<int32_t>()}) {
    const Datastore::Match match = store.longest(context, 1, 32);
    SB_CHECK(match.length <= static_cast<int>(context.size()));
    for (const uint32_t place : match.places) {
      SB_CHECK(place < store.tokens().size());
      for (size_t n = 0; n < 48; ++n) {
        const int32_t token = store.behind(place, n);
        SB_CHECK(token >= -1 && token < kVocabulary.size);
      }
    }
  }
}

void check(const std::vector<std::byte>& bytes) {
  try {
    look_up(Datastore::parse(bytes, "fuzz.datastore", kVocabulary));
  } catch (const Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::vector<int32_t> sevens(50, 7);
  const std::vector<std::vector<std::byte>> seeds = {
      datastore_file(kVocabulary, test::store_tokens({{3}})),
      datastore_file(kVocabulary, test::store_tokens({{1, 2, 3, 4}, {2, 3, 5}, {3, 4, 39}})),
      datastore_file(kVocabulary, test::store_tokens({sevens, sevens})),
      datastore_file({39, 9}, test::store_tokens({{3, 4, 5}})),
  };
  test::fill_empty_corpus(*argc, *argv, seeds);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span input(reinterpret_cast<const std::byte*>(data), size);
  std::vector<std::byte> bytes(input.begin(), input.end());
  check(bytes);
  test::set_checksum(bytes);
  check(bytes);
  return 0;
}
