// Repacked weights kept in files: taken whole or not at all, whatever lies there.
#include "library/tile_cache.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "engine/cpu/linear.h"
#include "engine/first_layers.h"
#include "engine_rig.h"
#include "library/load_watcher.h"
#include "process_state.h"
#include "temp_dir.h"
#include "tiny_gguf.h"
#include "tiny_heads.h"

namespace tile_cache_test {

using namespace specbound;
using namespace specbound::test;
namespace fs = std::filesystem;

namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_bytes(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<long>(bytes.size()));
  chmod(path.c_str(), 0600);
}

void write_bytes(const std::string& path, const std::vector<std::byte>& bytes) {
  write_bytes(path, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

bool written(const OfferedTiles& tiles) {
  TileFile file(tiles);
  while (file.step()) {
  }
  return file.whole();
}

// Chunks of an image that no model has.
struct Image {
  std::vector<std::byte> chunk{TileChecksum::kChunk};

  OfferedTiles tiles(const std::string& name, int n_chunks) const {
    OfferedTiles tiles;
    tiles.path = tile_folder() + "/" + name;
    tiles.source = tiles.layout = "0123456789abcdef";
    tiles.runs.assign(n_chunks, chunk);
    tiles.leave_free = 0;
    return tiles;
  }
};

// A GPU that has layers: nothing runs on it here.
class LayersElsewhere : public FirstLayers {
 public:
  int n_layers() const override { return 1; }
  std::string device() const override { return "elsewhere"; }
  size_t kv_bytes() const override { return 0; }
  Device& gpu() override { throw Error(ErrorCode::kDevice, "none"); }
  void run(float*, int, const RowPath*, int, int, int, int) override {}
  void keep_path(int, const RowPath&) override {}
  void read_kv(int, int, std::span<uint16_t>, std::span<uint16_t>) const override {}
};

// A model in a file, and a cache folder of its own.
struct Rig {
  TempDir folder;
  CacheFolder cache{folder / "cache"};
  std::string path = folder / "m.gguf";
  Gguf gguf;
  ModelConfig config;
  Weights weights;
  CpuOptions options;

  explicit Rig(const TinySpec& spec = q8_0_spec(3)) {
    write_bytes(path, tiny_model(spec));
    open();
  }
  void open() {
    gguf = Gguf::open(path);
    config = read_config(gguf);
    weights = map_weights(gguf, config);
  }
  std::unique_ptr<Backend> backend(TileCache& tiles, int threads = 2) const {
    CpuOptions with = options;
    with.n_threads = threads;
    with.kept_tiles = &tiles;
    return make_cpu_backend(config, weights, with);
  }
  // Repacks and writes, as a first start does; false: nothing was offered, or it was not written.
  bool keep(int threads = 2) const {
    TileCache tiles(gguf, KeepTiles::kOn);
    const auto made = backend(tiles, threads);
    const std::optional<OfferedTiles> offered = tiles.take_offered();
    return offered && written(*offered);
  }
  // Whether a start takes what is there; its logits are those of tiles made anew.
  bool taken(int threads = 2) const {
    TileCache tiles(gguf, KeepTiles::kOn), none(gguf, KeepTiles::kOff);
    const auto kept = backend(tiles, threads), made = backend(none, threads);
    CHECK(none.mapped_bytes() == 0);
    CHECK(!none.take_offered());
    CHECK(tiles.take_offered().has_value() == (tiles.mapped_bytes() == 0));
    std::vector<float> z(config.vocab_size), expected(config.vocab_size);
    for (int pos = 0; pos < 4; ++pos) {
      for (const auto& [backend, out] : {std::pair{kept.get(), &z}, {made.get(), &expected}}) {
        backend->embed(0, 5 + pos);
        backend->run_layers(0, 1, pos, 1, config.n_layers);
        backend->logits(0, 1, out->data());
      }
      CHECK(same_bits(z.data(), expected.data(), z.size()));
    }
    return tiles.mapped_bytes() > 0;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> found;
    if (!fs::exists(tile_folder())) return found;
    for (const auto& entry : fs::directory_iterator(tile_folder())) {
      found.push_back(entry.path().string());
    }
    return found;
  }
  std::string file() const {
    REQUIRE(files().size() == 1);
    return files().front();
  }
};

}  // namespace

TEST_CASE("a second start maps what the first one repacked, and gives its bits") {
  const Rig rig;
  CHECK(!rig.taken());
  REQUIRE(rig.keep());
  CHECK(rig.taken());
  CHECK(!rig.taken(1));  // dealt to other threads
  REQUIRE(rig.keep(1));
  CHECK(rig.files().size() == 2);
  CHECK(rig.taken());
  CHECK(rig.taken(1));
  struct stat status = {};
  REQUIRE(stat(rig.files().front().c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  CHECK(remove_tiles("0123456789abcdef") == 0);
  CHECK(remove_tiles(model_fingerprint(rig.gguf)) > 0);
  CHECK(rig.files().empty());
}

TEST_CASE("small models are kept only where that is asked for, and off is off") {
  const Rig rig;
  for (const KeepTiles keep : {KeepTiles::kAuto, KeepTiles::kOff}) {
    TileCache tiles(rig.gguf, keep);
    const auto made = rig.backend(tiles);
    CHECK(!tiles.take_offered());
  }
  CHECK(rig.files().empty());
}

TEST_CASE("files cut short, longer, of other bytes or of another kind are not taken") {
  const Rig rig;
  REQUIRE(rig.keep());
  const std::string path = rig.file(), whole = bytes_of(path);
  const auto with_byte = [&](size_t at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    return bytes;
  };
  for (const size_t size : {size_t{0}, size_t{1}, whole.size() / 2, whole.size() - 1}) {
    write_bytes(path, whole.substr(0, size));
    CHECK(!rig.taken());
  }
  write_bytes(path, whole + "x");
  CHECK(!rig.taken());
  for (size_t at = whole.size() - 64; at < whole.size(); ++at) {  // each of the trailer
    write_bytes(path, with_byte(at));
    CHECK(!rig.taken());
  }
  for (size_t at = 0; at < whole.size() - 64; at += whole.size() / 23) {
    write_bytes(path, with_byte(at));
    CHECK(!rig.taken());
    CHECK(!fs::exists(path));  // nobody reads it again
  }
  write_bytes(path, std::string(whole.size(), '\0'));
  CHECK(!rig.taken());
  fs::remove(path);
  fs::create_directory(path);
  CHECK(!rig.taken());
  fs::remove(path);
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  CHECK(!rig.taken());
  fs::remove(path);
  write_bytes(rig.folder / "elsewhere", whole);
  fs::create_symlink(rig.folder / "elsewhere", path);
  CHECK(!rig.taken());
  fs::remove(path);
  write_bytes(path, whole);
  CHECK(rig.taken());
  chmod(path.c_str(), 0620);  // others may write it
  CHECK(!rig.taken());
  chmod(path.c_str(), 0600);
  // Not every root may: in a container nobody else may be known.
  if (chown(path.c_str(), 1, 1) == 0) {
    CHECK(!rig.taken());
  } else {
    MESSAGE("SKIP another owner: this user cannot give files away");
  }
}

TEST_CASE("a model's file that was written again is another model") {
  Rig rig;
  REQUIRE(rig.keep());
  CHECK(rig.taken());
  fs::last_write_time(rig.path, fs::last_write_time(rig.path) + std::chrono::seconds(2));
  rig.open();
  CHECK(!rig.taken());
  REQUIRE(rig.keep());
  CHECK(rig.taken());
  CHECK(rig.files().size() == 1);  // of the same name
  // A file that has come to the path is not the one that is open.
  const auto other = rig.folder / "other.gguf";
  fs::copy(rig.path, other);
  const Gguf mapped = Gguf::open(other);
  CHECK(mapped.identity() != rig.gguf.identity());
  fs::rename(other, rig.path);
  CHECK(rig.taken());
  rig.open();
  CHECK(!rig.taken());
}

TEST_CASE("each file of a split model counts") {
  Rig rig;
  const TinySpec spec = q8_0_spec(3);
  const std::vector<TinyTensor> tensors = tiny_tensors(spec);
  std::string paths[2];
  for (const uint64_t no : {0, 1}) {
    GgufWriter writer;
    if (no == 0) tiny_metadata(spec, writer);
    writer.add_uint("split.no", no);
    writer.add_uint("split.count", 2);
    writer.add_uint("split.tensors.count", tensors.size());
    for (size_t i = no * 5; i < (no == 0 ? 5 : tensors.size()); ++i) {
      const TinyTensor& t = tensors[i];
      writer.add_tensor(t.name, t.type, t.shape, t.bytes);
    }
    paths[no] = rig.folder / (no == 0 ? "s-00001-of-00002.gguf" : "s-00002-of-00002.gguf");
    write_bytes(paths[no], writer.serialize());
  }
  rig.path = paths[0];
  rig.open();
  REQUIRE(rig.keep());
  CHECK(rig.taken());
  fs::last_write_time(paths[1], fs::last_write_time(paths[1]) + std::chrono::seconds(2));
  rig.open();
  CHECK(!rig.taken());
}

TEST_CASE("what stays in place and what another device has is not in the file") {
  TinySpec spec = q8_0_spec(3);
  spec.types["ffn_down.weight"] = DType::kQ4_0;
  Rig rig(spec);
  REQUIRE(rig.keep());
  const auto whole = fs::file_size(rig.file());
  rig.options.repack = false;  // Q4_0 alone is in tiles
  CHECK(!rig.taken());
  REQUIRE(rig.keep());
  CHECK(rig.taken());
  CHECK(rig.files().size() == 2);
  rig.options.repack = true;
  CHECK(rig.taken());
  rig.options.first_layers = std::make_shared<LayersElsewhere>();
  {
    TileCache tiles(rig.gguf, KeepTiles::kOn);
    const auto made = rig.backend(tiles);
    CHECK(tiles.mapped_bytes() == 0);
    CHECK(tiles.take_offered()->bytes() < whole);
  }
  REQUIRE(rig.keep());
  CHECK(rig.files().size() == 3);
  TileCache tiles(rig.gguf, KeepTiles::kOn);
  const auto made = rig.backend(tiles);
  CHECK(tiles.mapped_bytes() > 0);
}

TEST_CASE("a draft layer's tiles are not taken for the model's") {
  const Rig rig;
  const HeadsBase base = heads_base(rig.gguf, rig.config);
  NewHeads file;
  file.base = base;
  for (int i = 0; i < 48; ++i) file.shortlist.push_back(i);
  file.heads = {random_layer(base, 64, 3)};
  file.defaults.kind = HeadKind::kLayer;
  file.defaults.shortlist = 48;
  const std::vector<std::byte> bytes = exit_heads_file("heads", file);
  const ExitHeads heads = ExitHeads::from_gguf(Gguf::parse(bytes, "heads"), &base);
  TileCache tiles(rig.gguf, KeepTiles::kOn);
  const auto made = rig.backend(tiles);
  const std::optional<OfferedTiles> offered = tiles.take_offered();
  REQUIRE(offered);
  made->set_exit_heads(&heads, 48);
  CHECK(!tiles.take_offered());
  REQUIRE(written(*offered));
  CHECK(rig.taken());
}

TEST_CASE("those used longest ago make room, and what is replaced takes none") {
  const Rig rig;
  const Image image;
  const auto age = [&](const std::string& name, int hours) {
    fs::last_write_time(tile_folder() + "/" + name,
                        fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  for (const char* name : {"old", "older", "new"}) REQUIRE(written(image.tiles(name, 1)));
  age("old", 2);
  age("older", 3);
  const uint64_t bytes = fs::file_size(tile_folder() + "/old");
  OfferedTiles again = image.tiles("new", 1);
  again.most_kept = 3 * bytes;
  REQUIRE(written(again));
  CHECK(rig.files().size() == 3);
  OfferedTiles tiles = image.tiles("newest", 1);
  tiles.most_kept = 2 * bytes;
  REQUIRE(written(tiles));
  for (const char* name : {"old", "older"}) CHECK(!fs::exists(tile_folder() + "/" + name));
  for (const char* name : {"new", "newest"}) CHECK(fs::exists(tile_folder() + "/" + name));
  tiles.most_kept = bytes - 1;
  CHECK(!why_not_kept(tiles).empty());
  CHECK(!written(tiles));
}

TEST_CASE("folders that cannot be written and files that may not be so long are survived") {
  const Rig rig;
  TileCache tiles(rig.gguf, KeepTiles::kOn);
  const auto made = rig.backend(tiles);
  const std::optional<OfferedTiles> offered = tiles.take_offered();
  REQUIRE(offered);
  rlimit before = {};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit small = before;
  small.rlim_cur = offered->bytes() / 2;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::string why = why_not_kept(*offered);
  const bool whole = written(*offered);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(why.find("ulimit -f") != std::string::npos);
  CHECK(!whole);
  CHECK(rig.files().empty());
  fs::remove_all(tile_folder());
  write_bytes(tile_folder(), "a file where the folder belongs");
  CHECK(!why_not_kept(*offered).empty());
  CHECK(!written(*offered));
  CHECK(!rig.taken());
}

TEST_CASE("what a killed program left goes, what another one writes stays") {
  const Rig rig;
  fs::create_directories(tile_folder());
  const std::string killed = tile_folder() + "/0123456789abcdef-0.1.part";
  write_bytes(killed, "half");
  REQUIRE(rig.keep());
  CHECK(!fs::exists(killed));
  const std::string path = rig.file(), part = path + ".1.part";
  fs::remove(path);
  const int other = open(part.c_str(), O_WRONLY | O_CREAT, 0600);
  REQUIRE(flock(other, LOCK_EX) == 0);
  CHECK(!rig.keep());
  CHECK(fs::exists(part));
  close(other);
  CHECK(rig.keep());
  CHECK(!fs::exists(part));
  CHECK(rig.taken());
}

TEST_CASE("checksums know every byte, its place and the number of threads not") {
  ThreadPool one(1), three(3);
  std::vector<std::byte> image(2 * TileChecksum::kChunk + 640);
  TinyRandom random(3);
  for (std::byte& byte : image) byte = static_cast<std::byte>(random.next());
  const uint64_t sum = TileChecksum::of(image, one);
  CHECK(TileChecksum::of(image, three) == sum);
  for (const size_t at : {size_t{0}, size_t{63}, TileChecksum::kChunk, image.size() - 1}) {
    image[at] ^= std::byte{1};
    CHECK(TileChecksum::of(image, three) != sum);
    image[at] ^= std::byte{1};
  }
  std::swap_ranges(image.begin(), image.begin() + 64, image.begin() + 64);
  CHECK(TileChecksum::of(image, three) != sum);
}

TEST_CASE("checksums tell how far they are, and end when that throws") {
  ThreadPool one(1);
  const std::vector<std::byte> image(65 * TileChecksum::kChunk);
  std::vector<size_t> told;
  TileChecksum::of(image, one, [&](size_t done, size_t total) {
    CHECK(total == image.size());
    told.push_back(done);
  });
  CHECK(told == std::vector<size_t>{64 * TileChecksum::kChunk, image.size()});
  CHECK_THROWS_AS(TileChecksum::of(image, one, [](size_t, size_t) { throw Interrupted(""); }),
                  Interrupted);
}

TEST_CASE("of a file that is cut off nothing is left") {
  const Rig rig;
  const Image image;
  {
    TileFile file(image.tiles("cut", 3));
    for (int step = 0; step < 3; ++step) CHECK(file.step());
    CHECK(file.written() == 2 * TileChecksum::kChunk);
    CHECK(file.bytes_left() == TileChecksum::kChunk);
    CHECK(rig.file().ends_with(".part"));
    file.give_up();
    CHECK(rig.files().empty());
    CHECK(!file.step());
    CHECK(!file.whole());
  }
  {
    TileFile file(image.tiles("cut", 3));
    file.step();
  }
  CHECK(rig.files().empty());
  const std::atomic<bool> interrupt{true};
  { const TileWriter writer(image.tiles("cut", 256), &interrupt); }
  CHECK(rig.files().empty());
}

TEST_CASE("a writer has written when it is gone") {
  const Rig rig;
  TileCache tiles(rig.gguf, KeepTiles::kOn);
  const auto made = rig.backend(tiles);
  { const TileWriter writer(*tiles.take_offered()); }
  CHECK(rig.taken());
}

}  // namespace tile_cache_test
