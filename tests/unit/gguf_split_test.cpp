// Models in several files: what is one model, and what is said where it is not.
#include "model/gguf_split.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "expect_error.h"
#include "gguf_bytes.h"
#include "model/exit_heads.h"
#include "temp_dir.h"
#include "tiny_gguf.h"

namespace specbound::test::gguf_split_test {
namespace {

namespace fs = std::filesystem;

struct PartKeys {
  int no, count, n_tensors;  // negative: no such key
};

// A file of `tensors` with the keys of a part; the model's own metadata in the first alone.
std::vector<std::byte> part_file(const TinySpec& spec, const PartKeys& keys,
                                 const std::vector<TinyTensor>& tensors) {
  GgufWriter writer;
  if (keys.no <= 0) tiny_metadata(spec, writer);
  if (keys.no >= 0) writer.add_uint("split.no", keys.no);
  if (keys.count >= 0) writer.add_uint("split.count", keys.count);
  if (keys.n_tensors >= 0) writer.add_uint("split.tensors.count", keys.n_tensors);
  for (const TinyTensor& t : tensors) writer.add_tensor(t.name, t.type, t.shape, t.bytes);
  return writer.serialize();
}

void write(const std::string& path, const std::vector<std::byte>& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  REQUIRE(file);
}

// A tiny model in three files, of which tests poison one.
struct Split {
  TempDir dir;
  TinySpec spec;
  std::vector<TinyTensor> tensors[3];
  PartKeys keys[3];

  Split() {
    const std::vector<TinyTensor> all = tiny_tensors(spec);
    const size_t cuts[] = {0, 4, 11, all.size()};
    for (int i = 0; i < 3; ++i) {
      tensors[i].assign(all.begin() + cuts[i], all.begin() + cuts[i + 1]);
      keys[i] = {i, 3, static_cast<int>(all.size())};
    }
  }
  std::string path(int i) const { return dir / format("tiny-%05d-of-00003.gguf", i + 1); }
  void write_all() const {
    for (int i = 0; i < 3; ++i) write(path(i), part_file(spec, keys[i], tensors[i]));
  }
  Gguf open() const {
    write_all();
    return Gguf::open(path(0));
  }
  void refuse(ErrorCode code, std::initializer_list<std::string_view> parts) const {
    check_mentions(expect_error(code, [&] { open(); }), parts);
  }
};

TEST_CASE("split gguf: all files are one model, the same as in one file") {
  Split split;
  for (int with_tensors : {0, 1}) {  // llama-gguf-split can leave the first without tensors
    if (with_tensors == 0) {
      split.tensors[1].insert(split.tensors[1].begin(), split.tensors[0].begin(),
                              split.tensors[0].end());
      split.tensors[0].clear();
    } else {
      split.tensors[0].assign(split.tensors[1].begin(), split.tensors[1].begin() + 4);
      split.tensors[1].erase(split.tensors[1].begin(), split.tensors[1].begin() + 4);
    }
    const Gguf gguf = split.open();
    const std::vector<std::byte> bytes = tiny_model(split.spec);
    const Gguf whole = Gguf::parse(bytes, "whole.gguf");
    REQUIRE(gguf.tensors().size() == whole.tensors().size());
    for (size_t i = 0; i < whole.tensors().size(); ++i) {
      const GgufTensor &a = gguf.tensors()[i], &b = whole.tensors()[i];
      CHECK(a.name == b.name);
      CHECK(a.shape == b.shape);
      CHECK(std::ranges::equal(a.bytes, b.bytes));
      CHECK(gguf.find_tensor(b.name) == &a);
    }
    CHECK(model_fingerprint(gguf) == model_fingerprint(whole));  // heads of one fit the other
    const ModelConfig config = read_config(gguf);
    CHECK(config.dim == 64);
    CHECK(map_weights(gguf, config).layers.size() == 2);
    CHECK(gguf.path() == split.path(0));
    REQUIRE(gguf.parts().size() == 3);
    uint64_t bytes_on_disk = 0;
    for (int i = 0; i < 3; ++i) {
      CHECK(gguf.parts()[i].path == split.path(i));
      CHECK(gguf.parts()[i].bytes == fs::file_size(split.path(i)));
      CHECK(gguf.parts()[i].n_tensors == split.tensors[i].size());
      bytes_on_disk += fs::file_size(split.path(i));
    }
    CHECK(gguf.file_size() == bytes_on_disk);
    CHECK(exercise(gguf) > 0);
  }
}

TEST_CASE("split gguf: names of later parts") {
  for (const char* name : {"a-00002-of-00002.gguf", "dir/a-00010-of-00011.gguf",
                           "-99999-of-99999.gguf", "a-10001-of-10002.gguf"}) {
    CAPTURE(name);
    CHECK(is_later_part(name));
  }
  for (const char* name : {"", "a.gguf", "a-00001-of-00002.gguf", "a-00001-of-00001.gguf",
                           "a-0002-of-0002.gguf", "a-0000x-of-00002.gguf", "a-00002-of-0000x.gguf",
                           "a-00002-of-00002.heads.gguf", "a-00002-of-00002.gguf.part"}) {
    CAPTURE(name);
    CHECK(!is_later_part(name));
  }
}

TEST_CASE("split gguf: the fingerprint covers every file") {
  Split split;
  const std::string plain = model_fingerprint(split.open());
  for (int i = 0; i < 3; ++i) {
    std::vector<std::byte>& bytes = split.tensors[i].back().bytes;
    bytes.back() ^= std::byte{1};
    CHECK(model_fingerprint(split.open()) != plain);
    bytes.back() ^= std::byte{1};
  }
}

TEST_CASE("split gguf: a count of 0 or 1 is a whole file, whatever its name") {
  const TempDir dir;
  for (int count : {0, 1}) {
    const TinySpec spec;
    const std::string path = dir / "model-00002-of-00003.gguf";
    write(path, part_file(spec, {0, count, -1}, tiny_tensors(spec)));
    const Gguf gguf = Gguf::open(path);
    CHECK(gguf.parts().size() == 1);
    CHECK(read_config(gguf).dim == 64);
  }
}

TEST_CASE("split gguf: another file than the first names the first") {
  Split split;
  split.write_all();
  for (int i : {1, 2}) {
    check_mentions(expect_error(ErrorCode::kUnsupported, [&] { Gguf::open(split.path(i)); }),
                   {split.path(i) + ": expected the first of the model's 3 files",
                    format("found number %d", i + 1), "open " + split.path(0)});
  }
  fs::rename(split.path(1), split.dir / "odd.gguf");
  check_mentions(expect_error(ErrorCode::kUnsupported, [&] { Gguf::open(split.dir / "odd.gguf"); }),
                 {"found number 2", "that one"});
}

TEST_CASE("split gguf: files that are missing, damaged or not where they should be") {
  Split split;
  split.write_all();
  const auto refuse_now = [&](ErrorCode code, std::initializer_list<std::string_view> parts) {
    check_mentions(expect_error(code, [&] { Gguf::open(split.path(0)); }), parts);
  };
  for (int i : {1, 2}) {
    fs::rename(split.path(i), split.dir / "elsewhere");
    refuse_now(ErrorCode::kFile, {split.path(i), "No such file", format("file %d of 3", i + 1)});
    fs::rename(split.dir / "elsewhere", split.path(i));
  }
  fs::resize_file(split.path(1), 100);
  refuse_now(ErrorCode::kFormat, {split.path(1), "cut short", "file 2 of 3"});
  fs::remove(split.path(1));
  fs::create_directory(split.path(1));
  refuse_now(ErrorCode::kFile, {split.path(1), "a directory", "file 2 of 3"});
  for (const char* name : {"tiny.gguf", "tiny-00001-of-00004.gguf", "tiny-0001-of-0003.gguf"}) {
    write(split.dir / name, part_file(split.spec, split.keys[0], split.tensors[0]));
    check_mentions(expect_error(ErrorCode::kFormat, [&] { Gguf::open(split.dir / name); }),
                   {name, "ends in -00001-of-00003.gguf"});
  }
}

TEST_CASE("split gguf: keys that do not fit each other") {
  for (int i : {1, 2}) {
    Split split;
    const std::string path = split.path(i);
    split.keys[i].no = 3 - i;  // the other one's
    split.refuse(ErrorCode::kFormat, {path, "'split.no'", format("expected %d", i)});
    split.keys[i] = {-1, 3, split.keys[0].n_tensors};
    split.refuse(ErrorCode::kFormat, {path, "'split.no'", "no such key"});
    split.keys[i] = {i, 4, split.keys[0].n_tensors};
    split.refuse(ErrorCode::kFormat, {path, "'split.count'", "expected 3", "found 4"});
    split.keys[i] = {i, -1, split.keys[0].n_tensors};
    split.refuse(ErrorCode::kFormat, {path, "'split.count'", "no such key"});
    split.keys[i] = {i, 3, 5};
    split.refuse(ErrorCode::kFormat, {path, "'split.tensors.count'", "found 5"});
  }
  Split split;
  for (int no : {1, 2}) {  // the wrong file under the first's name
    split.keys[0].no = no;
    split.refuse(ErrorCode::kUnsupported, {"expected the first"});
  }
  split.keys[0] = {0, 100000, 20};
  split.refuse(ErrorCode::kFormat, {"'split.count'", "at most 99999", "found 100000"});
  split.keys[0] = {0, 3, -1};
  split.refuse(ErrorCode::kFormat, {"'split.tensors.count'", "no such key"});
}

TEST_CASE("split gguf: tensors listed twice, too few, too many") {
  Split split;
  split.tensors[2].push_back(split.tensors[0][1]);
  split.refuse(ErrorCode::kFormat,
               {split.path(2), "tensor '" + split.tensors[0][1].name + "'", "earlier"});
  split.tensors[2].pop_back();
  split.tensors[2].pop_back();
  const int all = split.keys[0].n_tensors;
  split.refuse(ErrorCode::kFormat,
               {"'split.tensors.count'", format("expected %d", all - 1), format("found %d", all)});
}

}  // namespace
}  // namespace specbound::test::gguf_split_test
