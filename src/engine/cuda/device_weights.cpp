#include "engine/cuda/device_weights.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <functional>
#include <vector>

#include "engine/cpu/cpu_topology.h"
#include "engine/cpu/thread_pool.h"
#include "engine/cuda/device.h"
#include "engine/cuda/weight_layout.h"
#include "error.h"
#include "kernels/probe.h"
#include "model/conversion.h"
#include "model/weights.h"

namespace specbound {

namespace {

// Weights on their way to a GPU: converted to the type and repacked into the order that kernels
// want by several threads, piece by piece, while the piece before is copied.
struct UploadSize {
  size_t source = 0;         // bytes of the file
  size_t widest_tile = 0;    // bytes on the device
  size_t staging_bytes = 0;  // of each of two buffers, at most
};

class WeightUpload {
 public:
  using Progress = std::function<void(size_t done, size_t total)>;

  // `progress` may be null, and may throw.
  WeightUpload(Device& device, const UploadSize& size, const Progress& progress);

  // In fragment order, for INT8 rows or FP16 ones: what does not run as it is becomes
  // Q8_0 for the former (model/conversion.h), quantizations are dequantized for the latter.
  // Throws Error(kUnsupported) where a quantization's conversion loses weights.
  void matrix(const Matrix& source, bool int8, const MatrixParts& to);
  void bytes(const void* source, size_t bytes, std::byte* to);
  // Waits until all is there. Throws Error(kUnsupported) when FP16 numbers could not hold finite
  // weights; `help` says what runs them.
  void finish(const char* help);

 private:
  size_t convert(const Matrix& source, bool int8, int begin, int end, const MatrixParts& to);
  void arrived(size_t source_bytes);

  const UploadSize size_;
  const Progress& progress_;
  ThreadPool pool_;
  Staging staging_;
  size_t done_ = 0;       // of size_.source
  size_t too_large_ = 0;  // finite weights that became infinite
};

// A thread for less than this would cost more than it does.
constexpr size_t kBytesOfThread = size_t{4} << 20;

int upload_threads(size_t source) {
  constexpr int kMost = 16;  // enough for the memory of a desktop, and for its PCIe
  const size_t wanted = std::max<size_t>(1, source / kBytesOfThread);
  return static_cast<int>(std::min<size_t>(wanted, std::min(kMost, usable_cores())));
}

// Half of what there is: the two buffers take turns with small models too.
size_t buffer_bytes(const UploadSize& size) {
  return std::max({std::min(size.staging_bytes, size.source / 2), size.widest_tile, size_t{64}});
}

// Tiles [begin, end) of a matrix that is not Q8_0, as Q8_0. Returns how many weights were lost.
size_t repack_converted(const Matrix& source, int begin, int end, int8_t* q, uint16_t* d) {
  const FragmentShape shape = int8_fragments(source);
  std::vector<BlockQ8_0> blocks(static_cast<size_t>(kFragmentOutputs) * shape.n_blocks);
  size_t lost = 0;
  for (int tile = begin; tile < end; ++tile) {
    const int first = tile * kFragmentOutputs;
    const int n_rows = std::min(kFragmentOutputs, source.n_out - first);
    for (int r = 0; r < n_rows; ++r) {
      lost += convert_to_int8(source, first + r, &blocks[static_cast<size_t>(r) * shape.n_blocks]);
    }
    repack_int8(
        {DType::kQ8_0, n_rows, source.n_in, reinterpret_cast<const std::byte*>(blocks.data())}, 0,
        1, q + shape.bytes_of(tile - begin), d + shape.scales_of(tile - begin));
  }
  return lost;
}

// Where tile `n` of each part is.
MatrixParts at_tile(const MatrixParts& parts, const MatrixBytes& tile, size_t n) {
  return {parts.values + n * tile.values, parts.scales + n * tile.scales, parts.d2 + n * tile.d2};
}

DeviceMatrix device_matrix(const Matrix& source, bool int8, const MatrixParts& parts) {
  DeviceMatrix matrix;
  if (int8) {
    matrix.i8 = kernels::TilesI8{source.n_out,
                                 source.n_in,
                                 reinterpret_cast<const int8_t*>(parts.values),
                                 reinterpret_cast<const uint16_t*>(parts.scales),
                                 int8_form(source.type),
                                 reinterpret_cast<const uint32_t*>(parts.d2)};
  } else {
    matrix.f16 = kernels::TilesF16{source.n_out, source.n_in,
                                   reinterpret_cast<const uint16_t*>(parts.values)};
  }
  return matrix;
}

}  // namespace

WeightUpload::WeightUpload(Device& device, const UploadSize& size, const Progress& progress)
    : size_(size),
      progress_(progress),
      pool_(upload_threads(size.source)),
      staging_(device, buffer_bytes(size)) {}

// Tiles [begin, end), by all threads together. Returns how many finite weights were lost.
size_t WeightUpload::convert(const Matrix& source, bool int8, int begin, int end,
                             const MatrixParts& to) {
  const MatrixBytes tile = tile_bytes(source, int8);
  std::atomic<size_t> lost = 0;
  pool_.run_parts([&](int thread) {
    const Slice mine = slice(end - begin, thread, pool_.size());
    if (mine.begin == mine.end) return;
    const int first = begin + mine.begin, last = begin + mine.end;
    const MatrixParts part = at_tile(to, tile, mine.begin);
    if (!int8) {
      lost += repack_half(source, first, last, reinterpret_cast<uint16_t*>(part.values));
      return;
    }
    auto* q = reinterpret_cast<int8_t*>(part.values);
    auto* d = reinterpret_cast<uint16_t*>(part.scales);
    if (int8_form(source.type) == source.type) {
      repack_int8(source, first, last, q, d, reinterpret_cast<uint32_t*>(part.d2));
    } else {
      lost += repack_converted(source, first, last, q, d);
    }
  });
  return lost;
}

void WeightUpload::matrix(const Matrix& source, bool int8, const MatrixParts& to) {
  const MatrixBytes tile = tile_bytes(source, int8);
  const size_t step = tile.values + tile.scales + tile.d2, row = source.bytes() / source.n_out;
  const int n_tiles = half_fragments(source).n_tiles;
  size_t lost = 0;
  for (int begin = 0, end; begin < n_tiles; begin = end) {
    // Pieces of a reasonable size, where there is so much.
    const size_t left = (n_tiles - begin) * step;
    const auto room = staging_.room(std::min(left, std::max(step, staging_.bytes() / 4)));
    end = begin + static_cast<int>(std::min(left, room.size()) / step);
    const size_t n = end - begin;
    std::byte* scales = room.data() + n * tile.values;
    lost += convert(source, int8, begin, end, {room.data(), scales, scales + n * tile.scales});
    const MatrixParts piece = at_tile(to, tile, begin);
    staging_.send(piece.values, n * tile.values);
    if (tile.scales > 0) staging_.send(piece.scales, n * tile.scales);
    if (tile.d2 > 0) staging_.send(piece.d2, n * tile.d2);
    arrived((std::min(end * kFragmentOutputs, source.n_out) - begin * kFragmentOutputs) * row);
  }
  // A float matrix may be run in another way; what loses here would be lost on the CPU as well.
  if (int8 && takes_int8_rows(source.type)) {
    refuse_lost_weights(source.type, lost);
  } else {
    too_large_ += lost;
  }
}

void WeightUpload::bytes(const void* source, size_t bytes, std::byte* to) {
  constexpr size_t kUnit = 4096;  // of a thread's part
  for (size_t at = 0, n; at < bytes; at += n) {
    const auto room = staging_.room(std::min(bytes - at, staging_.bytes() / 4));
    n = std::min(bytes - at, room.size());
    const auto* from = static_cast<const std::byte*>(source) + at;
    pool_.run([&](int thread) {
      const Slice mine = slice(static_cast<int>(n), thread, pool_.size(), kUnit);
      std::memcpy(room.data() + mine.begin, from + mine.begin, mine.end - mine.begin);
    });
    staging_.send(to + at, n);
    arrived(n);
  }
}

void WeightUpload::arrived(size_t source_bytes) {
  done_ += source_bytes;
  if (progress_) progress_(done_, size_.source);
}

void WeightUpload::finish(const char* help) {
  staging_.finish();
  if (too_large_ == 0) return;
  throw Error(ErrorCode::kUnsupported,
              format("expected weights that the GPU's FP16 numbers can hold, found %zu too large "
                     "for them; %s",
                     too_large_, help));
}

// Gives each weight its place, one after another in an allocation.
class DeviceWeights::Placing : public WeightSink {
 public:
  void begin(const DeviceMemory<std::byte>& memory) {
    next_ = memory.data();
    end_ = next_ + memory.bytes();
  }

  DeviceMatrix matrix(const Matrix& source, bool int8) final {
    const MatrixBytes bytes = matrix_bytes(source, int8);
    MatrixParts parts{};
    parts.values = take(bytes.values);
    parts.scales = take(bytes.scales);
    if (bytes.d2 > 0) parts.d2 = take(bytes.d2);
    fill_matrix(source, int8, parts);
    return device_matrix(source, int8, parts);
  }
  const float* floats(const float* source, int n) final {
    std::byte* to = take(n * sizeof(float));
    fill_floats(source, n, to);
    return reinterpret_cast<const float*>(to);
  }
  const void* table(const Matrix& source) final {
    std::byte* to = take(source.bytes());
    fill_table(source, to);
    return to;
  }

 protected:
  virtual void fill_matrix(const Matrix& source, bool int8, const MatrixParts& to) = 0;
  virtual void fill_floats(const float* source, int n, std::byte* to) = 0;
  virtual void fill_table(const Matrix& source, std::byte* to) = 0;

 private:
  std::byte* take(size_t bytes) {
    std::byte* taken = next_;
    SB_CHECK(bytes <= static_cast<size_t>(end_ - taken));
    next_ += std::min<size_t>(device_aligned(bytes), end_ - taken);
    return taken;
  }

  std::byte *next_ = nullptr, *end_ = nullptr;
};

class DeviceWeights::Uploading final : public Placing {
 public:
  explicit Uploading(WeightUpload& upload) : upload_(upload) {}

 private:
  void fill_matrix(const Matrix& source, bool int8, const MatrixParts& to) override {
    upload_.matrix(source, int8, to);
  }
  void fill_floats(const float* source, int n, std::byte* to) override {
    upload_.bytes(source, n * sizeof(float), to);
  }
  void fill_table(const Matrix& source, std::byte* to) override {
    upload_.bytes(source.data, source.bytes(), to);
  }

  WeightUpload& upload_;
};

class DeviceWeights::Randomizing final : public Placing {
 public:
  Randomizing(Device& device, uint64_t seed) : device_(device), seed_(seed) {}

 private:
  // FP16 of either sign from 2^-7 to 2^-5, and INT8 of about that size: rows that pass through
  // many layers stay finite.
  static constexpr uint32_t kHalfMask = 0x87ff87ff, kHalfBits = 0x20002000;
  static constexpr uint32_t kScaleMask = 0x03ff03ff, kScaleBits = 0x04000400;  // 2^-14 to 2^-13
  static constexpr uint32_t kOne = 0x3f800000;

  void fill_matrix(const Matrix& source, bool int8, const MatrixParts& to) override {
    const MatrixBytes bytes = matrix_bytes(source, int8);
    if (int8) {
      fill(to.values, bytes.values, ~0u, 0);
      fill(to.scales, bytes.scales, kScaleMask, kScaleBits);
    } else {
      fill(to.values, bytes.values, kHalfMask, kHalfBits);
    }
  }
  void fill_floats(const float*, int n, std::byte* to) override {
    fill(to, n * sizeof(float), 0, kOne);
  }
  void fill_table(const Matrix& source, std::byte* to) override {
    fill(to, source.bytes(), kHalfMask, kHalfBits);
  }

  void fill(std::byte* to, size_t bytes, uint32_t mask, uint32_t bits) {
    kernels::fill_random(
        {reinterpret_cast<uint32_t*>(to), bytes / sizeof(uint32_t), mask, bits, seed_},
        device_.stream());
    seed_ += 0x9e3779b97f4a7c15u;  // far from all others
  }

  Device& device_;
  uint64_t seed_;
};

// All of it at once: what cannot be had is known before anything is converted.
void DeviceWeights::allocate(Device& device, const WeightSizes& sizes) {
  for (size_t bytes : sizes.layers) memory_.emplace_back(device, bytes);
  memory_.emplace_back(device, sizes.head);
  memory_.emplace_back(device, sizes.embedding);
}

void DeviceWeights::place(const ModelConfig& config, const Weights& weights, GpuDtype dtype,
                          Placing& sink) {
  auto memory = memory_.begin();
  for (const LayerWeights& layer : weights.layers) {
    sink.begin(*memory++);
    layers_.push_back(place_layer(config, layer, dtype, sink));
  }
  sink.begin(*memory++);
  head_ = place_head(config, weights, dtype, sink);
  sink.begin(*memory);
  sink.table(weights.token_embd);
  embedding_type_ = weights.token_embd.type;
}

DeviceWeights::DeviceWeights(Device& device, const ModelConfig& config, const Weights& weights,
                             const UploadOptions& options) {
  const WeightSizes sizes = weight_sizes(config, weights, options.dtype);
  allocate(device, sizes);
  WeightUpload upload(device, {sizes.source, sizes.widest_tile, options.staging_bytes},
                      options.progress);
  Uploading sink(upload);
  place(config, weights, options.dtype, sink);
  upload.finish(options.help                       ? options.help
                : options.dtype == GpuDtype::kInt8 ? "device=cpu runs this model"
                                                   : "dtype=int8 or device=cpu may run this model");
}

DeviceWeights::DeviceWeights(Device& device, const ModelConfig& config, GpuDtype dtype,
                             uint64_t seed) {
  SB_CHECK(dtype == GpuDtype::kInt8 || dtype == GpuDtype::kFp16);
  const Weights shapes = random_weights(config);
  allocate(device, weight_sizes(config, shapes, dtype));
  Randomizing sink(device, seed);
  place(config, shapes, dtype, sink);
  device.synchronize();
}

size_t DeviceWeights::bytes() const {
  size_t bytes = 0;
  for (const auto& memory : memory_) bytes += memory.bytes();
  return bytes;
}

std::string DeviceWeights::description() const {
  constexpr std::pair<int, const char*> kNames[] = {
      {8, "int8"}, {4, "4-bit"}, {5, "5-bit"}, {6, "6-bit"}, {16, "fp16"}};
  bool present[std::size(kNames)] = {};
  const auto add = [&](const DeviceMatrix& m) {
    const int bits = m.int8() ? bits_of_form(m.i8->type) : 16;
    for (size_t i = 0; i < std::size(kNames); ++i) present[i] |= kNames[i].first == bits;
  };
  if (head_.lm_head.n_out() > 0) add(head_.lm_head);
  for (const DeviceLayer& l : layers_) {
    for (const DeviceMatrix* m : {&l.wq, &l.wk, &l.wv, &l.wo, &l.w_gate, &l.w_up, &l.w_down}) {
      add(*m);
    }
  }
  std::string text;
  long left = std::count(std::begin(present), std::end(present), true);
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (!present[i]) continue;
    text += kNames[i].second + std::string(--left == 0 ? "" : left == 1 ? " and " : ", ");
  }
  return text;
}

DeviceMatrix upload_matrix(Device& device, const Matrix& source, bool int8,
                           std::vector<DeviceMemory<std::byte>>& memory) {
  const MatrixBytes bytes = matrix_bytes(source, int8), tile = tile_bytes(source, int8);
  DeviceMemory<std::byte> all(device, device_bytes(source, int8));
  MatrixParts parts{all.data(), all.data() + device_aligned(bytes.values), nullptr};
  if (bytes.d2 > 0) parts.d2 = parts.scales + device_aligned(bytes.scales);
  const WeightUpload::Progress silent;
  WeightUpload upload(
      device, {source.bytes(), tile.values + tile.scales + tile.d2, UploadOptions{}.staging_bytes},
      silent);
  upload.matrix(source, int8, parts);
  upload.finish(kHeadsHelp);
  const DeviceMatrix matrix = device_matrix(source, int8, parts);
  memory.push_back(std::move(all));
  return matrix;
}

const float* upload_floats(Device& device, const float* source, int n,
                           std::vector<DeviceMemory<std::byte>>& memory) {
  if (!source) return nullptr;
  DeviceMemory<std::byte> all(device, n * sizeof(float));
  Staging staging(device, all.bytes());
  std::memcpy(staging.room(all.bytes()).data(), source, all.bytes());
  staging.send(all.data(), all.bytes());
  staging.finish();
  memory.push_back(std::move(all));
  return reinterpret_cast<const float*>(memory.back().data());
}

}  // namespace specbound
