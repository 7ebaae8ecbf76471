// GGUF files that lie, stop short or are something else. Each must end in one Error whose text
// names the file, says what was expected and what was found; under ASan, no byte outside the file
// is read: every variant is parsed from a block of exactly its size.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "expect_error.h"
#include "gguf_bytes.h"
#include "temp_dir.h"

namespace specbound::test::gguf_hostile_test {
namespace {

constexpr uint64_t kLies[] = {uint64_t{1} << 31, uint64_t{1} << 32, (uint64_t{1} << 61) + 1,
                              INT64_MAX,         uint64_t{1} << 63, UINT64_MAX - 31,
                              UINT64_MAX - 7,    UINT64_MAX};

using Parts = std::initializer_list<std::string_view>;

// Parsing must fail with this code and mention these parts, the file and both sides.
void refuse(const std::vector<std::byte>& bytes, ErrorCode code, Parts parts) {
  const std::string text =
      expect_error(code, [&] { Gguf::parse(std::vector<std::byte>(bytes), "bad.gguf"); });
  check_mentions(text, {"bad.gguf: ", "expected ", "found "});
  check_mentions(text, parts);
}

// Parses and asks everything, or throws an Error in the common form. True if it parsed.
bool survives(const std::vector<std::byte>& bytes) {
  try {
    exercise(Gguf::parse(bytes, "bad.gguf"));
    return true;
  } catch (const Error& error) {
    const std::string text = error.what();
    const bool told = text.starts_with("bad.gguf: ") && text.find("expected ") != text.npos &&
                      text.find("found ") != text.npos && text.find('\n') == text.npos;
    if (!told) FAIL_CHECK("unclear message: ", text);
    return false;
  }
}

std::vector<std::byte> header_of_stories() {
  std::ifstream in(SPECBOUND_TEST_DATA "/models/stories260K.gguf", std::ios::binary);
  std::string text(14176, '\0');  // the header ends at byte 14152, its padding here
  REQUIRE(in.read(text.data(), static_cast<std::streamsize>(text.size())));
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

GgufBytes one_tensor(const std::vector<uint64_t>& shape, uint32_t dtype, uint64_t offset,
                     size_t n_data) {
  GgufBytes file(1, 0);
  file.tensor("t", shape, dtype, offset).pad().zeros(n_data);
  return file;
}

TEST_CASE("hostile gguf: cut at every byte") {
  const std::vector<std::byte> whole = every_value_type().bytes;
  CHECK(survives(whole));
  for (size_t n = 0; n < whole.size(); ++n) {
    INFO("cut at byte ", n);
    CHECK(!survives({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(n)}));
  }
}

TEST_CASE("hostile gguf: stories260K cut at every byte of its header") {
  const std::vector<std::byte> header = header_of_stories();
  size_t parsed = 0;
  for (size_t n = 0; n <= header.size(); ++n) {
    parsed += survives({header.begin(), header.begin() + static_cast<ptrdiff_t>(n)});
  }
  CHECK(parsed == 0);
}

TEST_CASE("hostile gguf: every single bit flipped") {
  const std::vector<std::byte> whole = every_value_type().bytes;
  size_t parsed = 0;
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::vector<std::byte> flipped = whole;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    parsed += survives(flipped);
  }
  // Flips in plain values, names and tensor data change no structure; most others must be noticed.
  CHECK(parsed > 160 * 8);
  CHECK(parsed < whole.size() * 8);
}

TEST_CASE("hostile gguf: one bit of each byte of stories260K's header flipped") {
  std::ifstream in(SPECBOUND_TEST_DATA "/models/stories260K.gguf", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto all = std::as_bytes(std::span(text));
  std::vector<std::byte> whole(all.begin(), all.end());  // flipped in place: copies would take long
  REQUIRE(survives(whole));
  size_t parsed = 0;
  for (size_t i = 0; i < 14152; ++i) {
    const std::byte mask = std::byte{1} << (i * 5 % 8);
    whole[i] ^= mask;
    parsed += survives(whole);
    whole[i] ^= mask;
  }
  CHECK(parsed > 0);
  CHECK(parsed < 14152);
}

TEST_CASE("hostile gguf: other files, versions and byte orders") {
  refuse({}, ErrorCode::kFormat, {"magic 'GGUF'", "expected 4 bytes, found 0"});
  refuse(GgufBytes().raw("GG").bytes, ErrorCode::kFormat, {"expected 4 bytes, found 2"});
  refuse(GgufBytes().raw(std::string_view("PK\x03\x04 something", 14)).bytes, ErrorCode::kFormat,
         {"magic 'GGUF'", "'PK\\x03\\x04'", "not a GGUF file"});
  refuse(GgufBytes().raw("tjgg").zeros(100).bytes, ErrorCode::kUnsupported, {"GGML", "convert"});
  refuse(GgufBytes().raw("FUGG").zeros(100).bytes, ErrorCode::kUnsupported, {"big-endian"});
  for (uint32_t version : {0x02000000u, 0x03000000u}) {
    refuse(GgufBytes(0, 0, version).bytes, ErrorCode::kUnsupported,
           {"little-endian", "big-endian"});
  }
  refuse(GgufBytes(0, 0, 1).bytes, ErrorCode::kUnsupported,
         {"version 2 or 3", "found 1", "convert the model again"});
  for (uint32_t version : {0u, 4u, UINT32_MAX}) {
    refuse(GgufBytes(0, 0, version).bytes, ErrorCode::kUnsupported,
           {"version 2 or 3", "found " + std::to_string(version)});
  }
}

TEST_CASE("hostile gguf: counts and lengths that lie") {
  for (const uint64_t lie : kLies) {
    const std::string number = std::to_string(lie);
    refuse(GgufBytes(0, lie).zeros(64).bytes, ErrorCode::kFormat, {"metadata count", number});
    refuse(GgufBytes(lie, 0).zeros(64).bytes, ErrorCode::kFormat, {"tensor count", number});
    GgufBytes key(0, 1);
    refuse(key.add(lie).zeros(64).bytes, ErrorCode::kFormat, {"metadata entry 0", number});
    GgufBytes text(0, 1);
    text.key("k", GgufType::kString).add(lie).zeros(64);
    refuse(text.bytes, ErrorCode::kFormat, {"key 'k'", number, "found 64"});
    for (GgufType type :
         {GgufType::kU8, GgufType::kF32, GgufType::kU64, GgufType::kString, GgufType::kBool}) {
      GgufBytes array(0, 1);
      array.array("a", type, lie).zeros(64);
      refuse(array.bytes, ErrorCode::kFormat, {"key 'a'", number, gguf_type_name(type)});
    }
    GgufBytes strings(0, 1);
    strings.array("s", GgufType::kString, 2).string("x").add(lie).zeros(64);
    refuse(strings.bytes, ErrorCode::kFormat, {"key 's'", number});
    GgufBytes name(1, 0);
    refuse(name.add(lie).zeros(64).bytes, ErrorCode::kFormat, {"tensor 0", number});
  }
  // One entry more than there is room for, however little is missing.
  GgufBytes two(0, 2);
  two.key("k", GgufType::kU8).add(uint8_t{1}).zeros(13);
  refuse(two.bytes, ErrorCode::kFormat, {"metadata count", "at most 1", "found 2"});
}

TEST_CASE("hostile gguf: metadata") {
  GgufBytes twice(0, 2);
  twice.key("k", GgufType::kU32).add(uint32_t{1}).key("k", GgufType::kU8).add(uint8_t{1}).zeros(9);
  refuse(twice.bytes, ErrorCode::kFormat, {"key 'k'", "once", "twice"});
  for (uint32_t type : {13u, 255u, UINT32_MAX}) {
    GgufBytes unknown(0, 1);
    unknown.string("k").add(type).zeros(32);
    refuse(unknown.bytes, ErrorCode::kFormat, {"key 'k'", "type", std::to_string(type)});
    GgufBytes element(0, 1);
    element.array("k", static_cast<GgufType>(type), 1).zeros(32);
    refuse(element.bytes, ErrorCode::kFormat, {"key 'k'", "element", std::to_string(type)});
  }
  GgufBytes nested(0, 1);
  nested.array("k", GgufType::kArray, 1).zeros(32);
  refuse(nested.bytes, ErrorCode::kUnsupported, {"key 'k'", "array of arrays"});
  GgufBytes boolean(0, 1);
  boolean.key("k", GgufType::kBool).add(uint8_t{2}).zeros(32);
  refuse(boolean.bytes, ErrorCode::kFormat, {"key 'k'", "bool of 0 or 1", "found 2"});
  GgufBytes booleans(0, 1);
  booleans.array("k", GgufType::kBool, 3).raw(std::string_view("\x00\x01\xff", 3)).zeros(32);
  refuse(booleans.bytes, ErrorCode::kFormat, {"key 'k'", "bool of 0 or 1", "found 255"});

  for (const char* name : {"", "\x1b[2J", "a\nb", "\x7f", "caf\xc3\xa9"}) {
    GgufBytes key(0, 1);
    key.key(name, GgufType::kU8).add(uint8_t{1}).zeros(32);
    refuse(key.bytes, ErrorCode::kFormat, {"metadata entry 0", "printable ASCII"});
  }
  GgufBytes nul(0, 1);
  nul.key(std::string_view("a\0b", 3), GgufType::kU8).add(uint8_t{1}).zeros(32);
  refuse(nul.bytes, ErrorCode::kFormat, {"printable ASCII", "'a\\x00b'"});
}

TEST_CASE("hostile gguf: alignment") {
  for (uint32_t alignment : {0u, 1u, 4u, 7u, 24u, 33u, 2u << 20, 1u << 31, UINT32_MAX}) {
    GgufBytes file(0, 1);
    file.key("general.alignment", GgufType::kU32).add(alignment);
    refuse(file.bytes, ErrorCode::kFormat,
           {"general.alignment", "power of two", "found " + std::to_string(alignment)});
  }
  GgufBytes text(0, 1);
  text.key("general.alignment", GgufType::kString).string("32");
  refuse(text.bytes, ErrorCode::kFormat, {"general.alignment", "whole number", "string"});
}

TEST_CASE("hostile gguf: shapes") {
  CHECK(survives(one_tensor({8}, 0, 0, 32).bytes));
  refuse(one_tensor({}, 0, 0, 32).bytes, ErrorCode::kFormat, {"tensor 't'", "found 0"});
  refuse(one_tensor({1, 1, 1, 1, 1}, 0, 0, 32).bytes, ErrorCode::kFormat,
         {"tensor 't'", "1 to 4 dimensions", "found 5"});
  GgufBytes dims(1, 0);
  dims.string("t").add(UINT32_MAX).zeros(64);
  refuse(dims.bytes, ErrorCode::kFormat, {"tensor 't'", "found 4294967295"});
  refuse(one_tensor({8, 0}, 0, 0, 32).bytes, ErrorCode::kFormat, {"tensor 't'", "size 0"});
  for (const uint64_t lie : kLies) {
    const uint64_t whole_blocks = lie / 32 * 32;
    for (uint32_t dtype : {0u, 1u, 8u, 28u}) {
      refuse(one_tensor({whole_blocks}, dtype, 0, 64).bytes, ErrorCode::kFormat, {"tensor 't'"});
      refuse(one_tensor({32, lie}, dtype, 0, 64).bytes, ErrorCode::kFormat, {"tensor 't'"});
      refuse(one_tensor({whole_blocks, lie, lie, lie}, dtype, 0, 64).bytes, ErrorCode::kFormat,
             {"tensor 't'"});
    }
  }
  // Products that wrap to something small.
  refuse(one_tensor({uint64_t{1} << 32, uint64_t{1} << 32}, 0, 0, 64).bytes, ErrorCode::kFormat,
         {"tensor 't'"});
  refuse(one_tensor({(uint64_t{1} << 62) + 1}, 0, 0, 64).bytes, ErrorCode::kFormat, {"tensor 't'"});
}

TEST_CASE("hostile gguf: element types") {
  for (uint32_t dtype : {4u, 5u, 31u, 100u, UINT32_MAX}) {
    refuse(one_tensor({32}, dtype, 0, 256).bytes, ErrorCode::kUnsupported,
           {"tensor 't'", "element type", "number " + std::to_string(dtype)});
  }
  refuse(one_tensor({31}, 8, 0, 64).bytes, ErrorCode::kFormat,
         {"tensor 't'", "Q8_0 blocks (32 elements)", "rows of 31"});
  // 64 elements make two whole blocks, but no row is one.
  refuse(one_tensor({16, 4}, 8, 0, 68).bytes, ErrorCode::kFormat, {"tensor 't'", "rows of 16"});
  refuse(one_tensor({128}, 12, 0, 144).bytes, ErrorCode::kFormat, {"Q4_K blocks (256 elements)"});
}

TEST_CASE("hostile gguf: offsets") {
  CHECK(survives(one_tensor({8}, 0, 32, 64).bytes));
  for (uint64_t offset : {uint64_t{1}, uint64_t{16}, uint64_t{33}, UINT64_MAX}) {
    refuse(one_tensor({8}, 0, offset, 64).bytes, ErrorCode::kFormat,
           {"tensor 't'", "divisible by 32", "found " + std::to_string(offset)});
  }
  for (uint64_t offset : {uint64_t{64}, uint64_t{1} << 32, uint64_t{1} << 63, UINT64_MAX - 31}) {
    refuse(one_tensor({8}, 0, offset, 64).bytes, ErrorCode::kFormat,
           {"tensor 't'", "expected 32 bytes at offset " + std::to_string(offset),
            "found 64 bytes of tensor data"});
  }
  refuse(one_tensor({8}, 0, 0, 31).bytes, ErrorCode::kFormat,
         {"tensor 't'", "expected 32 bytes", "found 31 bytes"});
  // Not even the padding before the data is there.
  GgufBytes bare(1, 0);
  bare.tensor("t", {1}, 0, 0);
  REQUIRE(bare.bytes.size() % 32 != 0);
  refuse(bare.bytes, ErrorCode::kFormat, {"tensor 't'", "found 0 bytes of tensor data"});
}

TEST_CASE("hostile gguf: tensors named twice or laid over each other") {
  GgufBytes twice(2, 0);
  twice.tensor("t", {8}, 0, 0).tensor("t", {8}, 0, 32).pad().zeros(64);
  refuse(twice.bytes, ErrorCode::kFormat, {"tensor 't'", "once", "twice"});
  GgufBytes over(3, 0);
  over.tensor("c", {8}, 0, 64).tensor("b", {9}, 0, 32).tensor("a", {8}, 0, 0).pad().zeros(96);
  refuse(over.bytes, ErrorCode::kFormat, {"'b'", "overlapping 'c'"});
  GgufBytes same(2, 0);
  same.tensor("a", {8}, 0, 0).tensor("b", {8}, 0, 0).pad().zeros(64);
  refuse(same.bytes, ErrorCode::kFormat, {"overlapping"});
  for (const char* name : {"", "a\x01", "\xff"}) {
    GgufBytes named(1, 0);
    named.tensor(name, {8}, 0, 0).pad().zeros(32);
    refuse(named.bytes, ErrorCode::kFormat, {"tensor 0", "printable ASCII"});
  }
}

TEST_CASE("hostile gguf: what is no regular file") {
  const TempDir dir;
  const auto refuse_path = [](const std::string& path, Parts parts) {
    const std::string text = expect_error(ErrorCode::kFile, [&] { Gguf::open(path); });
    check_mentions(text, {path + ": "});
    check_mentions(text, parts);
  };
  refuse_path(dir / "absent.gguf", {"cannot open", "No such file"});
  refuse_path("", {"cannot open"});
  refuse_path(dir.path().string(), {"regular file", "a directory"});
  const std::string fifo = dir / "fifo.gguf";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  refuse_path(fifo, {"regular file", "FIFO"});  // and it does not wait for a writer
  refuse_path("/dev/null", {"regular file", "a device"});
  const std::string empty = dir / "empty.gguf";
  std::ofstream(empty).close();
  refuse_path(empty, {"empty", "0 bytes"});
  std::filesystem::create_symlink("nowhere", dir / "dangling.gguf");
  refuse_path(dir / "dangling.gguf", {"cannot open"});

  const std::string text = dir / "text.gguf";
  std::ofstream(text) << "hello";
  check_mentions(expect_error(ErrorCode::kFormat, [&] { Gguf::open(text); }),
                 {text, "'hell'", "not a GGUF file"});
}

}  // namespace
}  // namespace specbound::test::gguf_hostile_test
