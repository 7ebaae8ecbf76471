// Repacked weights in files, $XDG_CACHE_HOME/specbound/tiles/MODEL-LAYOUT (without that variable
// ~/.cache/specbound/tiles), so that a later start maps what an earlier one made:
//
//   image | "SBTILES1" | u64 bytes of the image | source[16] | layout[16] | u64 checksum | u64 0
//
// MODEL is the fingerprint; `source` stands for it and for which file it was and when that last
// changed, `layout` for what lies where, for how many threads. A file is taken whole or not at all:
// by its owner, its size, this trailer and, when it is read, its checksum. Written by a thread that
// has no time of the CPU while anybody else wants it, to a name of its own, and renamed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "descriptor.h"
#include "engine/cpu/kept_tiles.h"
#include "model/gguf.h"

namespace specbound {

enum class KeepTiles {
  kOff,
  // Models whose tiles take kLeastKeptBytes, on a disk that is no memory, on machines with one
  // memory for all cores.
  kAuto,
  kOn
};
// Tiles of less are repacked in a tenth of a second.
inline constexpr size_t kLeastKeptBytes = size_t{256} << 20;

// Of all files together: those used longest ago go first.
inline constexpr uint64_t kMostKeptBytes = uint64_t{16} << 30;
// What a disk must have left, unless it was asked for with kOn.
inline constexpr uint64_t kLeaveFreeBytes = uint64_t{1} << 30;

// What is to be written. `runs` are readable until it is.
struct OfferedTiles {
  std::string path, source, layout;
  std::vector<std::span<const std::byte>> runs;
  uint64_t most_kept = kMostKeptBytes, leave_free = kLeaveFreeBytes;

  size_t bytes() const;
};

class TileCache final : public KeptTiles {
 public:
  // `model` outlives it.
  TileCache(const Gguf& model, KeepTiles keep) : model_(model), keep_(keep) {}
  ~TileCache() override;
  TileCache(const TileCache&) = delete;
  TileCache& operator=(const TileCache&) = delete;

  std::optional<Image> find(const std::string& layout, size_t bytes) override;
  void refuse() override;
  void offer(const std::string& layout, std::vector<std::span<const std::byte>> runs) override;

  size_t mapped_bytes() const { return map_ ? image_bytes_ : 0; }  // that are used
  std::optional<OfferedTiles> take_offered() { return std::exchange(offered_, std::nullopt); }

 private:
  std::string path_of(const std::string& layout) const;
  bool wanted(size_t bytes);
  void unmap();

  const Gguf& model_;
  const KeepTiles keep_;
  std::string fingerprint_, source_;  // once they are asked for
  std::string path_;                  // of what is mapped
  std::byte* map_ = nullptr;
  size_t image_bytes_ = 0;
  std::optional<OfferedTiles> offered_;
};

// Empty: folder and disk take them.
std::string why_not_kept(const OfferedTiles& tiles);

// Their file on its way to the disk, a chunk of TileChecksum at a step. A cache never ends a
// program: where anything is lacking, there is no file. Another program that writes the same is
// left to it.
class TileFile {
 public:
  explicit TileFile(OfferedTiles tiles) : tiles_(std::move(tiles)) {}
  ~TileFile() { give_up(); }
  TileFile(const TileFile&) = delete;
  TileFile& operator=(const TileFile&) = delete;

  // The first makes room and opens it. False: it is over, the file whole or given up.
  bool step() noexcept;
  void give_up();  // nothing of it is left, unless it is whole
  bool whole() const { return state_ == State::kWhole; }
  size_t written() const { return written_; }  // of the image
  size_t bytes_left() const { return tiles_.bytes() - written_; }

 private:
  enum class State { kNew, kUnderWay, kWhole, kGivenUp };
  State open();
  State write_chunk();

  OfferedTiles tiles_;
  State state_ = State::kNew;
  std::string part_;  // its name while it is under way
  Descriptor file_;
  size_t run_ = 0, at_ = 0;  // where in the runs the next chunk begins
  size_t written_ = 0;
  TileChecksum checksum_;
  std::vector<std::byte> chunk_;
};

// Writes in a thread, from now on.
class TileWriter {
 public:
  // `interrupt`, if there is one, outlives it.
  explicit TileWriter(OfferedTiles tiles, const std::atomic<bool>* interrupt = nullptr);
  // Writes the rest, unless `interrupt` is set or that would take longer than what is left of
  // kPatience: seconds that all writers of a program have at their ends together.
  ~TileWriter();
  static constexpr double kPatience = 3;

 private:
  TileFile file_;
  const std::atomic<bool>* interrupt_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Empty without a home.
std::string tile_folder();
// Deletes those of a model, by its fingerprint. How many bytes they took.
uint64_t remove_tiles(const std::string& model_fingerprint);

}  // namespace specbound
