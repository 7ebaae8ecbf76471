// GGUF reader and writer on files that are as they should be.
#include "model/gguf.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "expect_error.h"
#include "gguf_bytes.h"
#include "model/config.h"
#include "model/gguf_writer.h"
#include "model/weights.h"
#include "temp_dir.h"

namespace specbound::test::gguf_test {
namespace {

std::vector<std::byte> file_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto* from = reinterpret_cast<const std::byte*>(text.data());
  return {from, from + text.size()};
}

TEST_CASE("gguf: every value type is read, versions 2 and 3") {
  for (uint32_t version : {2u, 3u}) {
    const GgufBytes file = every_value_type(version);
    const Gguf gguf = Gguf::parse(file.bytes, "all.gguf");
    CHECK(gguf.version() == version);
    CHECK(gguf.path() == "all.gguf");
    CHECK(gguf.file_size() == file.bytes.size());
    REQUIRE(gguf.metadata().size() == 24);
    CHECK(gguf.metadata().front().first == "one.u8");
    CHECK(gguf.metadata().back().first == "none.i64");

    CHECK(gguf.get_uint("one.u8") == 200u);
    CHECK(gguf.get_uint("one.u16") == 60000u);
    CHECK(gguf.get_uint("one.u32") == 4000000000u);
    CHECK(gguf.get_uint("one.i32") == 2000000000u);
    CHECK(gguf.get_uint("one.u64") == UINT64_MAX);
    CHECK(gguf.get_float("one.f32") == 0.5);
    CHECK(gguf.get_float("one.f64") == 0.1);
    CHECK(gguf.get_bool("one.bool") == true);
    CHECK(gguf.get_string("one.string") == "text");
    CHECK(gguf.get_ints("some.u32") == std::vector<int32_t>{7, 8});
    CHECK(gguf.get_ints("some.i32") == std::vector<int32_t>{-7, 8});
    CHECK(gguf.get_floats("some.f32") == std::vector<float>{1.5f, -2.5f});
    CHECK(gguf.get_strings("some.string") == std::vector<std::string_view>{"a", "", "\xff\xfe"});

    const GgufValue* bools = gguf.find("some.bool");
    REQUIRE(bools);
    CHECK(bools->is_array);
    CHECK(bools->type == GgufType::kBool);
    CHECK(bools->count == 2);
    const GgufValue* none = gguf.find("none.i64");
    REQUIRE(none);
    CHECK(none->count == 0);
    CHECK(none->bytes.empty());
  }
}

TEST_CASE("gguf: absent keys are nullopt, wrong types and ranges are errors") {
  const GgufBytes file = every_value_type();
  const Gguf gguf = Gguf::parse(file.bytes, "all.gguf");
  CHECK(gguf.find("absent") == nullptr);
  CHECK(gguf.find_tensor("absent") == nullptr);
  CHECK(gguf.get_uint("absent") == std::nullopt);
  CHECK(gguf.get_float("absent") == std::nullopt);
  CHECK(gguf.get_bool("absent") == std::nullopt);
  CHECK(gguf.get_string("absent") == std::nullopt);
  CHECK(gguf.get_strings("absent") == std::nullopt);
  CHECK(gguf.get_floats("absent") == std::nullopt);
  CHECK(gguf.get_ints("absent") == std::nullopt);

  const auto wrong = [&](auto&& question, std::initializer_list<std::string_view> parts) {
    check_mentions(expect_error(ErrorCode::kFormat, question), parts);
  };
  wrong([&] { gguf.get_uint("one.i8"); }, {"all.gguf", "'one.i8'", "zero or more", "-100"});
  wrong([&] { gguf.get_uint("one.i64"); }, {"'one.i64'", "-9223372036854775808"});
  wrong([&] { gguf.get_uint("one.f32"); }, {"whole number", "found f32"});
  wrong([&] { gguf.get_uint("one.bool"); }, {"whole number", "found bool"});
  wrong([&] { gguf.get_uint("some.u8"); }, {"whole number", "an array of u8"});
  wrong([&] { gguf.get_float("one.u32"); }, {"f32 or f64", "found u32"});
  wrong([&] { gguf.get_float("some.f32"); }, {"f32 or f64", "an array of f32"});
  wrong([&] { gguf.get_bool("one.u8"); }, {"bool", "found u8"});
  wrong([&] { gguf.get_bool("some.bool"); }, {"bool", "an array of bool"});
  wrong([&] { gguf.get_string("one.u8"); }, {"string", "found u8"});
  wrong([&] { gguf.get_strings("one.string"); }, {"an array of string", "found string"});
  wrong([&] { gguf.get_strings("some.u8"); }, {"an array of string", "an array of u8"});
  wrong([&] { gguf.get_floats("some.f64"); }, {"an array of f32", "an array of f64"});
  wrong([&] { gguf.get_ints("some.u64"); }, {"an array of i32 or u32", "an array of u64"});

  GgufBytes large(0, 1);
  large.array("a", GgufType::kU32, 2).add(uint32_t{1}).add(uint32_t{3000000000});
  const Gguf with_large = Gguf::parse(large.bytes, "large.gguf");
  wrong([&] { with_large.get_ints("a"); }, {"'a'", "2147483647", "3000000000"});
}

TEST_CASE("gguf: tensors are views at the right place") {
  const GgufBytes file = every_value_type();
  const Gguf gguf = Gguf::parse(file.bytes, "all.gguf");
  REQUIRE(gguf.tensors().size() == 3);
  const size_t data = file.bytes.size() - 160;

  const GgufTensor* f32 = gguf.find_tensor("f32");
  REQUIRE(f32);
  CHECK(f32->type == DType::kF32);
  CHECK(f32->shape == std::vector<uint64_t>{3, 2});
  CHECK(f32->bytes.data() == file.bytes.data() + data);
  CHECK(f32->bytes.size() == 24);
  const GgufTensor* q8_0 = gguf.find_tensor("q8_0");
  REQUIRE(q8_0);
  CHECK(q8_0->type == DType::kQ8_0);
  CHECK(q8_0->bytes.data() == file.bytes.data() + data + 32);
  CHECK(q8_0->bytes.size() == 68);
  const GgufTensor* f16 = gguf.find_tensor("f16");
  REQUIRE(f16);
  CHECK(f16->shape == std::vector<uint64_t>{2, 2, 2, 2});
  CHECK(f16->bytes.data() == file.bytes.data() + data + 128);
  CHECK(f16->bytes.size() == 32);
}

TEST_CASE(
    "gguf: general.alignment moves the tensor data; bytes after the last tensor are ignored") {
  for (uint32_t alignment : {8u, 64u, 4096u}) {
    GgufBytes file(2, 1);
    file.key("general.alignment", GgufType::kU32).add(alignment);
    file.tensor("b", {1}, 0, alignment).tensor("a", {2}, 0, 0).pad(alignment);
    const size_t data = file.bytes.size();
    file.zeros(alignment + 4 + 13);
    const Gguf gguf = Gguf::parse(file.bytes, "aligned.gguf");
    CHECK(gguf.find_tensor("a")->bytes.data() == file.bytes.data() + data);
    CHECK(gguf.find_tensor("b")->bytes.data() == file.bytes.data() + data + alignment);
  }
}

TEST_CASE("gguf: a file without tensors needs no padding, an empty one no entries") {
  GgufBytes file(0, 1);
  file.key("k", GgufType::kString).string("");
  CHECK(Gguf::parse(file.bytes, "vocab.gguf").get_string("k") == "");
  const GgufBytes empty(0, 0);
  const Gguf gguf = Gguf::parse(empty.bytes, "none.gguf");
  CHECK(gguf.metadata().empty());
  CHECK(gguf.tensors().empty());
}

TEST_CASE("gguf: views stay valid when the Gguf moves") {
  Gguf first = Gguf::open(SPECBOUND_TEST_DATA "/models/stories260K.gguf");
  const std::byte* where = first.find_tensor("output_norm.weight")->bytes.data();
  const Gguf second = std::move(first);
  CHECK(second.find_tensor("output_norm.weight")->bytes.data() == where);
  CHECK(second.get_string("general.architecture") == "llama");
  CHECK(second.metadata().size() == 19);
}

TEST_CASE("gguf: stories260K") {
  const Gguf gguf = Gguf::open(SPECBOUND_TEST_DATA "/models/stories260K.gguf");
  CHECK(gguf.version() == 3);
  CHECK(gguf.file_size() == 1185376);
  CHECK(gguf.metadata().size() == 19);
  CHECK(gguf.tensors().size() == 48);
  const auto tokens = gguf.get_strings("tokenizer.ggml.tokens");
  REQUIRE(tokens);
  REQUIRE(tokens->size() == 512);
  CHECK((*tokens)[0] == "<unk>");
  CHECK(gguf.get_floats("tokenizer.ggml.scores")->size() == 512);
  CHECK(gguf.get_ints("tokenizer.ggml.token_type")->at(3) == 6);
  CHECK(gguf.get_uint("tokenizer.ggml.padding_token_id") == 4294967295u);

  const ModelConfig config = read_config(gguf);
  CHECK(config.architecture == "llama");
  CHECK(config.dim == 64);
  CHECK(config.ffn_dim == 172);
  CHECK(config.n_layers == 5);
  CHECK(config.n_heads == 8);
  CHECK(config.n_kv_heads == 4);
  CHECK(config.head_dim == 8);
  CHECK(config.vocab_size == 512);
  CHECK(config.max_seq_len == 2048);
  CHECK(config.norm_eps == 1e-5f);
  CHECK(config.rope_theta == 10000.0);
  CHECK(config.rope_scale == 1.0);
  CHECK(config.rope_style == RopeStyle::kInterleaved);
  const Weights weights = map_weights(gguf, config);
  CHECK(!weights.tied);
  CHECK(weights.layers.size() == 5);
  CHECK(weights.layers[4].w_down.n_in == 172);
}

TEST_CASE("gguf: the demo model") {
  const Gguf gguf = Gguf::open(SPECBOUND_MODELS "/demo-chat-16l-q8_0.gguf");
  CHECK(gguf.tensors().size() == 146);
  const ModelConfig config = read_config(gguf);
  CHECK(config.n_layers == 16);
  CHECK(config.dim == 256);
  CHECK(config.head_dim == 64);
  CHECK(config.n_kv_heads == 2);
  CHECK(config.vocab_size == 4096);
  CHECK(config.max_seq_len == 768);
  CHECK(config.name == "SpecBound demo chat 16L");
  const Weights weights = map_weights(gguf, config);
  CHECK(weights.tied);
  CHECK(weights.lm_head.data == weights.token_embd.data);
  CHECK(weights.lm_head.type == DType::kQ8_0);
  // Every parameter but none twice: 113 Q8_0 tensors, 33 norms of 256 floats.
  CHECK(weights.bytes_per_token() == 12845056 / 32 * 34 + 33 * 256 * 4);
}

// Writes and reads back; also what the writer promises about layout.
TEST_CASE("gguf writer: what is written is what is read") {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};
  const std::vector<uint16_t> b = {7, 8, 9};
  const std::string text("with \0 and \xff", 12);
  const std::vector<std::string_view> strings = {"", "x", text};
  const std::vector<int32_t> ints = {-1, INT32_MAX};
  const std::vector<float> floats = {0.25f};
  GgufWriter writer;
  writer.add_uint("uint", UINT32_MAX);
  writer.add_float("float", -0.0f);
  writer.add_bool("yes", true);
  writer.add_bool("no", false);
  writer.add_string("string", text);
  writer.add_ints("ints", ints);
  writer.add_ints("no.ints", {});
  writer.add_floats("floats", floats);
  writer.add_strings("strings", strings);
  writer.add_strings("no.strings", {});
  const uint64_t shape_a[] = {3, 2}, shape_b[] = {3};
  writer.add_tensor("a", DType::kF32, shape_a, std::as_bytes(std::span(a)));
  writer.add_tensor("b", DType::kBF16, shape_b, std::as_bytes(std::span(b)));

  const std::vector<std::byte> bytes = writer.serialize();
  const Gguf gguf = Gguf::parse(bytes, "written.gguf");
  CHECK(gguf.version() == 3);
  CHECK(gguf.metadata().size() == 10);
  CHECK(gguf.get_uint("uint") == UINT32_MAX);
  CHECK(std::signbit(*gguf.get_float("float")));
  CHECK(gguf.get_bool("yes") == true);
  CHECK(gguf.get_bool("no") == false);
  CHECK(gguf.get_string("string") == text);
  CHECK(gguf.get_ints("ints") == ints);
  CHECK(gguf.get_ints("no.ints")->empty());
  CHECK(gguf.get_floats("floats") == floats);
  CHECK(gguf.get_strings("strings") == strings);
  CHECK(gguf.get_strings("no.strings")->empty());
  REQUIRE(gguf.tensors().size() == 2);
  const GgufTensor &ta = gguf.tensors()[0], &tb = gguf.tensors()[1];
  CHECK(ta.name == "a");
  CHECK(ta.shape == std::vector<uint64_t>{3, 2});
  CHECK(std::ranges::equal(ta.bytes, std::as_bytes(std::span(a))));
  CHECK(tb.type == DType::kBF16);
  CHECK(std::ranges::equal(tb.bytes, std::as_bytes(std::span(b))));

  // Each tensor starts at a multiple of 32, and what lies between is zero.
  CHECK((ta.bytes.data() - bytes.data()) % 32 == 0);
  CHECK((tb.bytes.data() - bytes.data()) % 32 == 0);
  CHECK(bytes.size() % 32 == 0);
  const auto is_zero = [](std::byte x) { return x == std::byte{0}; };
  CHECK(std::all_of(ta.bytes.data() + ta.bytes.size(), tb.bytes.data(), is_zero));
  CHECK(std::all_of(tb.bytes.data() + tb.bytes.size(), bytes.data() + bytes.size(), is_zero));
}

TEST_CASE("gguf writer: a real file read and written again keeps every value and tensor") {
  const Gguf in = Gguf::open(SPECBOUND_TEST_DATA "/models/stories260K.gguf");
  GgufWriter writer;
  for (const auto& [key, value] : in.metadata()) {
    if (value.type == GgufType::kString) {
      value.is_array ? writer.add_strings(key, *in.get_strings(key))
                     : writer.add_string(key, *in.get_string(key));
    } else if (value.type == GgufType::kF32) {
      value.is_array ? writer.add_floats(key, *in.get_floats(key))
                     : writer.add_float(key, static_cast<float>(*in.get_float(key)));
    } else if (value.is_array) {
      writer.add_ints(key, *in.get_ints(key));
    } else {
      writer.add_uint(key, static_cast<uint32_t>(*in.get_uint(key)));
    }
  }
  for (const GgufTensor& t : in.tensors()) writer.add_tensor(t.name, t.type, t.shape, t.bytes);

  const TempDir dir;
  writer.write(dir / "again.gguf");
  const Gguf out = Gguf::open(dir / "again.gguf");
  REQUIRE(out.metadata().size() == in.metadata().size());
  for (size_t i = 0; i < in.metadata().size(); ++i) {
    const auto& [key, value] = in.metadata()[i];
    const auto& [out_key, out_value] = out.metadata()[i];
    CHECK(out_key == key);
    CHECK(out_value.type == value.type);
    CHECK(out_value.count == value.count);
    CHECK(std::ranges::equal(out_value.bytes, value.bytes));
  }
  REQUIRE(out.tensors().size() == in.tensors().size());
  for (size_t i = 0; i < in.tensors().size(); ++i) {
    CHECK(out.tensors()[i].name == in.tensors()[i].name);
    CHECK(out.tensors()[i].shape == in.tensors()[i].shape);
    CHECK(std::ranges::equal(out.tensors()[i].bytes, in.tensors()[i].bytes));
  }
}

TEST_CASE("gguf writer: the file appears whole, over an older one, and nothing else stays behind") {
  const TempDir dir;
  const std::string path = dir / "model.gguf";
  std::ofstream(path) << "older contents";
  GgufWriter writer;
  writer.add_uint("k", 1);
  const float x = 1;
  const uint64_t shape[] = {1};
  writer.add_tensor("t", DType::kF32, shape, std::as_bytes(std::span(&x, 1)));
  writer.write(path);
  CHECK(file_bytes(path) == writer.serialize());
  const auto count = [&] {
    return std::distance(std::filesystem::directory_iterator(dir.path()), {});
  };
  CHECK(count() == 1);

  std::filesystem::create_directory(dir / "directory");
  check_mentions(expect_error(ErrorCode::kFile, [&] { writer.write(dir / "directory"); }),
                 {dir / "directory", "rename"});
  check_mentions(expect_error(ErrorCode::kFile, [&] { writer.write(dir / "absent/model.gguf"); }),
                 {dir / "absent/model.gguf", "No such file"});
  CHECK(count() == 2);
  CHECK(file_bytes(path) == writer.serialize());
}

TEST_CASE("dtype: sizes of the element types") {
  CHECK(dtype_info(DType::kF32)->bytes == 4);
  CHECK(dtype_info(DType::kBF16)->bytes == 2);
  CHECK(dtype_info(DType::kQ8_0)->block == 32);
  CHECK(dtype_info(DType::kQ8_0)->bytes == sizeof(BlockQ8_0));
  CHECK(std::string_view(dtype_info(DType::kQ4_K)->name) == "Q4_K");
  CHECK(dtype_info(DType::kQ4_K)->bytes == 144);
  CHECK(dtype_info(static_cast<DType>(4)) == nullptr);  // removed from the format long ago
  CHECK(dtype_info(static_cast<DType>(1000)) == nullptr);
}

}  // namespace
}  // namespace specbound::test::gguf_test
