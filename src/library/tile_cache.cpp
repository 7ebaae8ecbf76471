#include "library/tile_cache.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <utility>

#include "descriptor.h"
#include "error.h"
#include "model/exit_heads.h"
#include "system/machine.h"
#include "system/user_path.h"

namespace specbound {

namespace {

namespace fs = std::filesystem;

constexpr char kMagic[] = "SBTILES1";
constexpr const char* kPart = ".part";  // NAME.PID.part is under way

struct Trailer {
  char magic[8];
  uint64_t bytes;
  char source[16], layout[16];  // name_digits()
  uint64_t checksum, zero;
};
static_assert(sizeof(Trailer) == KeptTiles::kAlignment);

Trailer trailer_of(const std::string& source, const std::string& layout, size_t bytes) {
  Trailer trailer = {};
  std::memcpy(trailer.magic, kMagic, sizeof trailer.magic);
  trailer.bytes = bytes;
  source.copy(trailer.source, sizeof trailer.source);
  name_digits(layout).copy(trailer.layout, sizeof trailer.layout);
  return trailer;
}

// Where cores have memories of their own, each thread's weights are to lie in its own: a file's
// pages lie anywhere.
bool one_memory() {
  std::ifstream file("/sys/devices/system/node/online");
  std::string nodes;
  return !std::getline(file, nodes) || count_cpu_list(nodes) <= 1;
}

// There a file takes the memory that mapping it was to save.
bool lies_in_memory(fs::path folder) {
  struct statfs system = {};
  while (statfs(folder.c_str(), &system) != 0) {
    if (errno != ENOENT || !folder.has_relative_path()) return false;
    folder = folder.parent_path();
  }
  const auto type = static_cast<uint32_t>(system.f_type);
  return type == TMPFS_MAGIC || type == RAMFS_MAGIC;
}

struct KeptFile {
  std::string path;
  uint64_t bytes;
  fs::file_time_type used;
};

std::vector<KeptFile> kept_files() {
  std::vector<KeptFile> files;
  std::error_code error;
  for (fs::directory_iterator it(tile_folder(), error), end; !error && it != end;
       it.increment(error)) {
    std::error_code no_file;
    if (!fs::is_regular_file(it->symlink_status(no_file))) continue;
    const KeptFile file{it->path().string(), it->file_size(no_file), it->last_write_time(no_file)};
    if (!no_file) files.push_back(file);
  }
  std::ranges::sort(files, {}, &KeptFile::used);
  return files;
}

bool is_part(const std::string& path) {
  return path.ends_with(kPart);
}

// Whether another program writes it just now. Who was killed left a file that nobody has locked.
bool under_way(const std::string& part) {
  const Descriptor file(open(part.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  return file && held_by_another(file);
}

// Makes room for a file of `bytes`. False: another program is at it.
bool clear_up(const OfferedTiles& tiles, uint64_t bytes) {
  std::vector<KeptFile> files = kept_files();
  for (KeptFile& file : files) {
    if (!is_part(file.path)) continue;
    if (!under_way(file.path)) {
      unlink(file.path.c_str());
      file.bytes = 0;
    } else if (file.path.starts_with(tiles.path + ".")) {
      return false;
    }
  }
  std::erase_if(files, [&](const KeptFile& file) { return file.path == tiles.path; });  // replaced
  uint64_t total = bytes;
  for (const KeptFile& file : files) total += file.bytes;
  for (const KeptFile& file : files) {
    if (total <= tiles.most_kept) break;
    if (is_part(file.path) || unlink(file.path.c_str()) != 0) continue;
    total -= file.bytes;
  }
  return true;
}

// Empty: the disk takes so many bytes.
std::string why_no_room(const std::string& folder, uint64_t bytes, uint64_t leave_free) {
  struct statvfs disk = {};
  if (statvfs(folder.c_str(), &disk) != 0) return std::strerror(errno);
  const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize;
  if (free < bytes + leave_free) {
    return format("expected %.1f MB free, found %.1f",
                  1e-6 * static_cast<double>(bytes + leave_free), 1e-6 * static_cast<double>(free));
  }
  // Writing past this limit would be a signal that ends the program.
  rlimit most = {};
  if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur < bytes) {
    return format("files may have %llu bytes at most (ulimit -f)",
                  static_cast<unsigned long long>(most.rlim_cur));
  }
  return "";
}

bool write_all(int fd, std::span<const std::byte> bytes) {
  return write_whole(fd, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}) == 0;
}

}  // namespace

size_t OfferedTiles::bytes() const {
  size_t bytes = 0;
  for (const auto& run : runs) bytes += run.size();
  return bytes;
}

std::string tile_folder() {
  return user_path("XDG_CACHE_HOME", ".cache", "tiles");
}

TileCache::~TileCache() {
  unmap();
}

void TileCache::unmap() {
  if (map_) munmap(map_, image_bytes_);
  map_ = nullptr;
}

// Small models are not even asked for their fingerprint.
bool TileCache::wanted(size_t bytes) {
  if (keep_ == KeepTiles::kOff || bytes == 0 || tile_folder().empty()) return false;
  if (model_.identity().empty()) return false;
  if (keep_ == KeepTiles::kAuto &&
      (bytes < kLeastKeptBytes || !one_memory() || lies_in_memory(tile_folder()))) {
    return false;
  }
  if (fingerprint_.empty()) {
    fingerprint_ = model_fingerprint(model_);
    // A fingerprint knows a part of the weights, and others would be other replies: which files
    // they are and when these last changed counts too.
    source_ = name_digits(fingerprint_ + " " + model_.identity());
  }
  return true;
}

std::string TileCache::path_of(const std::string& layout) const {
  return tile_folder() + "/" + fingerprint_ + "-" + name_digits(layout);
}

std::optional<KeptTiles::Image> TileCache::find(const std::string& layout, size_t bytes) {
  if (map_ || !wanted(bytes)) return std::nullopt;
  path_ = path_of(layout);
  // O_NONBLOCK: opening a FIFO without a writer would otherwise wait for ever.
  const Descriptor file(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status = {};
  Trailer found = {};
  Trailer expected = trailer_of(source_, layout, bytes);
  if (!file || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_uid != geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0 ||
      static_cast<uint64_t>(status.st_size) != bytes + sizeof(Trailer) ||
      pread(file.get(), &found, sizeof found, static_cast<off_t>(bytes)) != sizeof found) {
    return std::nullopt;
  }
  expected.checksum = found.checksum;
  if (std::memcmp(&found, &expected, sizeof found) != 0) return std::nullopt;
  void* map = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (map == MAP_FAILED) return std::nullopt;
  madvise(map, bytes, MADV_HUGEPAGE);
  madvise(map, bytes, MADV_WILLNEED);
  futimens(file.get(), nullptr);  // when it was last used; of no weight where that cannot be noted
  map_ = static_cast<std::byte*>(map);
  image_bytes_ = bytes;
  return Image{{map_, bytes}, found.checksum};
}

void TileCache::refuse() {
  unmap();
  unlink(path_.c_str());
}

void TileCache::offer(const std::string& layout, std::vector<std::span<const std::byte>> runs) {
  OfferedTiles tiles;
  tiles.layout = layout;
  tiles.runs = std::move(runs);
  if (!wanted(tiles.bytes())) return;
  tiles.path = path_of(layout);
  tiles.source = source_;
  if (keep_ == KeepTiles::kOn) tiles.leave_free = 0;
  offered_ = std::move(tiles);
}

std::string why_not_kept(const OfferedTiles& tiles) {
  const std::string folder = fs::path(tiles.path).parent_path().string();
  const uint64_t bytes = tiles.bytes() + sizeof(Trailer);
  if (bytes > tiles.most_kept) {
    return format("expected at most %.1f MB, found %.1f",
                  1e-6 * static_cast<double>(tiles.most_kept), 1e-6 * static_cast<double>(bytes));
  }
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return folder + ": " + error.message();
  if (access(folder.c_str(), W_OK) != 0) return folder + ": " + std::strerror(errno);
  return why_no_room(folder, bytes, tiles.leave_free);
}

TileFile::State TileFile::open() {
  if (!why_not_kept(tiles_).empty()) return State::kGivenUp;
  if (!clear_up(tiles_, tiles_.bytes() + sizeof(Trailer))) return State::kGivenUp;
  part_ = tiles_.path + format(".%ld", static_cast<long>(getpid())) + kPart;
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  file_ = Descriptor(::open(part_.c_str(), kFlags, 0600));
  return file_ && !held_by_another(file_) ? State::kUnderWay : State::kGivenUp;
}

// By whole chunks: where a file system has large pages, a map of the file then has them too.
TileFile::State TileFile::write_chunk() {
  chunk_.clear();
  chunk_.reserve(TileChecksum::kChunk);
  while (run_ < tiles_.runs.size() && chunk_.size() < TileChecksum::kChunk) {
    const std::span<const std::byte> run = tiles_.runs[run_].subspan(at_);
    const size_t n = std::min(run.size(), TileChecksum::kChunk - chunk_.size());
    chunk_.insert(chunk_.end(), run.begin(), run.begin() + static_cast<ptrdiff_t>(n));
    at_ += n;
    if (n == run.size()) ++run_, at_ = 0;
  }
  checksum_.add(TileChecksum::of_chunk(chunk_));
  if (!write_all(file_.get(), chunk_)) return State::kGivenUp;
  written_ += chunk_.size();
  if (bytes_left() > 0) return State::kUnderWay;
  Trailer trailer = trailer_of(tiles_.source, tiles_.layout, tiles_.bytes());
  trailer.checksum = checksum_.value();
  const bool whole = write_all(file_.get(), std::as_bytes(std::span(&trailer, 1))) &&
                     rename(part_.c_str(), tiles_.path.c_str()) == 0;
  return whole ? State::kWhole : State::kGivenUp;
}

bool TileFile::step() noexcept {
  try {
    if (state_ == State::kNew) {
      state_ = open();
    } else if (state_ == State::kUnderWay) {
      state_ = write_chunk();
    }
  } catch (const std::exception&) {  // memory has run out
    state_ = State::kGivenUp;
  }
  if (state_ == State::kNew || state_ == State::kUnderWay) return true;
  give_up();
  return false;
}

void TileFile::give_up() {
  if (!whole()) state_ = State::kGivenUp;
  if (file_ && !whole()) unlink(part_.c_str());
  file_ = Descriptor();
}

TileWriter::TileWriter(OfferedTiles tiles, const std::atomic<bool>* interrupt)
    : file_(std::move(tiles)), interrupt_(interrupt) {
  try {
    thread_ = std::thread([this] {
      // A core that nobody else wants: decoding spins at its barriers, and waits for its slowest
      // thread.
      const sched_param none = {};
      sched_setscheduler(0, SCHED_IDLE, &none);
      while (!stop_ && file_.step()) {
      }
    });
  } catch (const std::exception&) {  // no thread is to be had
    file_.give_up();
  }
}

TileWriter::~TileWriter() {
  static std::atomic<double> patience{kPatience};
  constexpr double kTrial = 0.1;  // seconds after which the disk's speed is known
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  const size_t before = file_.written();
  const double mine = patience;
  double spent = 0;
  for (bool more = true; more;) {
    spent = std::chrono::duration<double>(Clock::now() - start).count();
    const double rate = static_cast<double>(file_.written() - before) / spent;
    const bool in_time = static_cast<double>(file_.bytes_left()) <= rate * (mine - spent);
    more =
        spent < mine && (spent < kTrial || in_time) && !(interrupt_ && *interrupt_) && file_.step();
  }
  patience = mine - spent;
}

uint64_t remove_tiles(const std::string& model_fingerprint) {
  uint64_t bytes = 0;
  for (const KeptFile& file : kept_files()) {
    const std::string name = fs::path(file.path).filename().string();
    if (!name.starts_with(model_fingerprint + "-") || (is_part(name) && under_way(file.path))) {
      continue;
    }
    if (unlink(file.path.c_str()) == 0) bytes += file.bytes;
  }
  return bytes;
}

}  // namespace specbound
