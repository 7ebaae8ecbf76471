// The datastore: places against naive sorting, lookups against a search of the whole text, and
// files that lie.
#include "model/datastore.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "expect_error.h"
#include "model/gguf_writer.h"
#include "model/sorted_places.h"
#include "temp_dir.h"
#include "tiny_datastore.h"
#include "tiny_gguf.h"

namespace datastore_test {

using namespace specbound;
using namespace specbound::test;

namespace {

using Text = std::vector<int32_t>;
constexpr VocabularyId kVocabulary = {9, 77};

// Now and then an end of a text, or what stood there before once more.
Text random_tokens(size_t n, int vocabulary, uint64_t seed) {
  TinyRandom random(seed);
  Text text;
  while (text.size() < n) {
    if (text.size() > 60 && random.next() % 40 == 0) {
      const size_t from = random.next() % (text.size() - 50);
      for (size_t i = 0; i < 50; ++i) text.push_back(text[from + i]);
    }
    const bool between = random.next() % 20 == 0;
    text.push_back(between ? -1 : static_cast<int32_t>(random.next() % vocabulary));
  }
  text.resize(n);
  return text;
}

std::vector<uint32_t> naively_sorted(const Text& text) {
  std::vector<uint32_t> places(text.size());
  for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<uint32_t>(i);
  const auto begins = [&](uint32_t place) {
    return std::span(text).subspan(place, std::min<size_t>(kSortedTokens, text.size() - place));
  };
  std::ranges::stable_sort(places, std::ranges::lexicographical_compare, begins);
  return places;
}

std::vector<uint32_t> search(const Text& text, std::span<const int32_t> context) {
  std::vector<uint32_t> places;
  for (size_t i = 0; i + context.size() <= text.size(); ++i) {
    const auto at = text.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::equal(context.begin(), context.end(), at)) places.push_back(static_cast<uint32_t>(i));
  }
  return places;
}

std::vector<uint32_t> sorted(std::span<const uint32_t> places) {
  std::vector<uint32_t> out(places.begin(), places.end());
  std::ranges::sort(out);
  return out;
}

std::vector<std::byte> good_file() {
  return datastore_file(kVocabulary, store_tokens({{1, 2, 3}, {1, 2, 4}}));
}

std::string refused(const std::vector<std::byte>& bytes, ErrorCode code = ErrorCode::kFormat,
                    const VocabularyId& vocabulary = kVocabulary) {
  return expect_error(code, [&] { Datastore::parse(bytes, "bad.datastore", vocabulary); });
}

}  // namespace

TEST_CASE("datastore: places are sorted as a naive sort has them") {
  for (const int vocabulary : {1, 2, 5, 300}) {
    for (const size_t n : {1, 2, 3, 31, 32, 33, 65, 500, 3000}) {
      CAPTURE(vocabulary);
      CAPTURE(n);
      const Text text = random_tokens(n, vocabulary, n + vocabulary);
      CHECK(sorted_places(text, vocabulary) == naively_sorted(text));
    }
  }
  const Text same(200, 0);
  CHECK(sorted_places(same, 1) == naively_sorted(same));
  CHECK(sorted_places({}, 5).empty());
}

TEST_CASE("datastore: sorting tells of its parts, and ends where it is told to") {
  // A sort and five doublings; of more than a million places each in parts.
  for (const size_t n : {size_t{50}, (size_t{1} << 20) + 1}) {
    const int parts = n == 50 ? 11 : 22;
    int next = 0, of = 0;
    const std::vector<uint32_t> places = sorted_places(Text(n, 1), 2, [&](int done, int total) {
      CHECK(done == next++);
      of = total;
    });
    CHECK(places.size() == n);
    CHECK(next == parts + 1);
    CHECK(of == parts);
  }
  const auto stop = [](int d, int) {
    if (d == 2) throw std::runtime_error("enough");
  };
  CHECK_THROWS_AS(sorted_places(Text(50, 1), 2, stop), std::runtime_error);
  const TempDir folder;
  const Text text = store_tokens({{1, 2}});
  CHECK_THROWS(write_datastore(folder / "a.datastore", kVocabulary, text, stop));
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("datastore: what is found is what a search finds, and so is the longest match") {
  Text text = random_tokens(4000, 5, 3);
  text.push_back(Datastore::kBetween);
  const TinyStore store(kVocabulary, text);
  CHECK(store->tokens().size() == text.size());
  CHECK(store->places().size() ==
        text.size() - static_cast<size_t>(std::ranges::count(text, Datastore::kBetween)));
  TinyRandom random(8);
  int found = 0, longer = 0;
  for (int step = 0; step < 600; ++step) {
    Text context;
    if (step % 3 == 0) {
      for (size_t i = random.next() % 8 + 1; i > 0; --i) {
        context.push_back(static_cast<int32_t>(random.next() % 6));
      }
    } else {  // what stands there, but for a token perhaps
      const size_t from = random.next() % (text.size() - 40);
      const auto at = text.begin() + static_cast<std::ptrdiff_t>(from);
      context.assign(at, at + static_cast<std::ptrdiff_t>(random.next() % 40 + 1));
      std::ranges::replace(context, Datastore::kBetween, 4);
      if (step % 3 == 1) context[random.next() % context.size()] = 2;
    }
    const std::span<const uint32_t> places = store->find(context);
    CHECK(sorted(places) == search(text, context));
    found += !places.empty();
    int longest = 0;
    for (int n = 2; n <= std::min<int>(16, static_cast<int>(context.size())); ++n) {
      if (!search(text, std::span(context).last(static_cast<size_t>(n))).empty()) longest = n;
    }
    const Datastore::Match match = store->longest(context, 2, 16);
    CHECK(match.length == longest);
    longer += longest > 8;
    if (longest == 0) {
      CHECK(match.places.empty());
    } else {
      const auto end = std::span(context).last(static_cast<size_t>(longest));
      CHECK(sorted(match.places) == search(text, end));
    }
  }
  CHECK(found > 100);
  CHECK(longer > 100);
  CHECK(store->find({}).size() == store->places().size());
}

TEST_CASE("datastore: what is written is what is read, and the file is whole or not there") {
  const TempDir folder;
  const std::string path = folder / "a.datastore";
  const Text text = store_tokens({{1, 2, 3}, {8}});
  write_datastore(path, kVocabulary, text);
  CHECK(std::filesystem::file_size(path) == kStoreHeader + 4 * 6 + 4 * 4);
  {
    const Datastore store = Datastore::open(path, kVocabulary);
    CHECK(store.path() == path);
    CHECK(std::ranges::equal(store.tokens(), text));
    CHECK(sorted(store.places()) == std::vector<uint32_t>{0, 1, 2, 4});
    write_datastore(path, kVocabulary, store_tokens({{5}}));  // beside one that is open
    CHECK(store.tokens()[0] == 1);
  }
  CHECK(Datastore::open(path, kVocabulary).tokens()[0] == 5);
  CHECK(std::ranges::distance(std::filesystem::directory_iterator(folder.path())) == 1);
  check_mentions(expect_error(ErrorCode::kFile,
                              [&] { write_datastore(folder / "none/a", kVocabulary, text); }),
                 {"none/a"});
}

TEST_CASE("datastore: files that lie are refused in one line") {
  std::vector<std::byte> bytes = good_file();
  const size_t n = bytes.size();
  for (size_t size = 0; size < n; ++size) {
    CAPTURE(size);
    refused({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)});
  }
  for (size_t at = 0; at < n; ++at) {  // by the checksum at the latest
    CAPTURE(at);
    std::vector<std::byte> bad = good_file();
    bad[at] ^= std::byte{1};
    const bool vocabulary = at >= 12 && at < 24;
    check_mentions(refused(bad, vocabulary ? ErrorCode::kUsage : ErrorCode::kFormat),
                   {"bad.datastore: expected"});
  }
  bytes.push_back(std::byte{0});
  check_mentions(refused(bytes), {"cut short or damaged", "specbound datastore build"});

  // Lies with a checksum that is right.
  const auto lie = [](size_t at, auto value) {
    std::vector<std::byte> bad = good_file();
    put(bad, at, value);
    set_checksum(bad);
    return bad;
  };
  const size_t places = kStoreHeader + 8 * 4;
  check_mentions(refused(lie(0, 'X')), {"expected a datastore, found something else"});
  check_mentions(refused(lie(8, uint32_t{2})), {"expected a datastore of version 1", "version 2"});
  for (const uint64_t size : {uint64_t{0}, uint64_t{7}, uint64_t{9}, uint64_t{1} << 32,
                              uint64_t{1} << 62, ~uint64_t{0}}) {
    CAPTURE(size);
    refused(lie(24, size));
    if (size != 0) refused(lie(32, size));
  }
  check_mentions(refused(lie(kStoreHeader, int32_t{9})), {"expected tokens below 9, found 9"});
  refused(lie(kStoreHeader, int32_t{-2}));
  check_mentions(refused(lie(kStoreHeader + 7 * 4, int32_t{3})), {"an end behind the last text"});
  check_mentions(refused(lie(places, uint32_t{8})), {"expected places below 8, found 8"});
  refused(lie(places, ~uint32_t{0}));

  // Places in no order find less, and nothing else happens.
  const std::vector<std::byte> mixed = lie(places, uint32_t{6});
  const Datastore store = Datastore::parse(mixed, "mixed", kVocabulary);
  CHECK(store.find(Text{1, 2, 3, 4, 5, 6, 7, 8, 8, 8}).empty());
}

TEST_CASE("datastore: one of another vocabulary is refused, one of the same is not") {
  check_mentions(refused(good_file(), ErrorCode::kUsage, {10, 77}),
                 {"the model's vocabulary of 10 tokens, found one of 9", "datastore build"});
  check_mentions(refused(good_file(), ErrorCode::kUsage, {9, 78}),
                 {"vocabulary of 9 tokens, found one of as many other ones"});
  const auto fingerprint = [](std::vector<std::string_view> tokens, int32_t type) {
    GgufWriter writer;
    writer.add_strings("tokenizer.ggml.tokens", tokens);
    writer.add_ints("tokenizer.ggml.token_type", std::vector<int32_t>(tokens.size(), type));
    const std::vector<std::byte> bytes = writer.serialize();
    return vocabulary_fingerprint(Gguf::parse(bytes, "v.gguf"));
  };
  const uint64_t one = fingerprint({"a", "bc"}, 1);
  CHECK(fingerprint({"a", "bc"}, 3) == one);
  CHECK(fingerprint({"ab", "c"}, 1) != one);
  CHECK(fingerprint({"bc", "a"}, 1) != one);
}

TEST_CASE("datastore: what is no file of any kind is told as such") {
  const TempDir folder;
  const auto refused_file = [&](const std::string& path) {
    return expect_error(ErrorCode::kFile, [&] { Datastore::open(path, kVocabulary); });
  };
  std::ofstream(folder / "empty");
  check_mentions(refused_file(folder / "empty"), {"an empty one"});
  check_mentions(refused_file(folder / "none"), {"cannot open"});
  check_mentions(refused_file(folder.path().string()), {"found a directory"});
}

}  // namespace datastore_test
