#include "engine/cuda/device_weights.h"

#include <algorithm>
#include <chrono>

#include "engine/cuda/weight_upload.h"
#include "error.h"
#include "kernels/probe.h"

namespace specbound {
namespace {

DeviceMatrix device_matrix(const Matrix& source, bool int8, const MatrixParts& parts) {
  DeviceMatrix matrix;
  if (int8) {
    const bool four = source.type == DType::kQ4_0 || source.type == DType::kQ4_K;
    matrix.i8 = kernels::TilesI8{source.n_out,
                                 source.n_in,
                                 reinterpret_cast<const int8_t*>(parts.values),
                                 reinterpret_cast<const uint16_t*>(parts.scales),
                                 four ? source.type : DType::kQ8_0,
                                 reinterpret_cast<const uint32_t*>(parts.d2)};
  } else {
    matrix.f16 = kernels::TilesF16{source.n_out, source.n_in,
                                   reinterpret_cast<const uint16_t*>(parts.values)};
  }
  return matrix;
}

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

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
  // A matrix as the file has it.
  void table(const Matrix& source) { fill_table(source, take(source.bytes())); }

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
  const Stopwatch watch;
  WeightUpload upload(device, {sizes.source, sizes.widest_tile, options.staging_bytes},
                      options.progress);
  Uploading sink(upload);
  place(config, weights, options.dtype, sink);
  upload.finish(options.dtype == GpuDtype::kInt8
                    ? "--device cpu runs this model"
                    : "--dtype int8 or --device cpu may run this model");
  upload_seconds_ = watch.seconds();
}

DeviceWeights::DeviceWeights(Device& device, const ModelConfig& config, GpuDtype dtype,
                             uint64_t seed) {
  SB_CHECK(dtype == GpuDtype::kInt8 || dtype == GpuDtype::kFp16);
  const Weights shapes = random_weights(config);
  allocate(device, weight_sizes(config, shapes, dtype));
  const Stopwatch watch;
  Randomizing sink(device, seed);
  place(config, shapes, dtype, sink);
  device.synchronize();
  upload_seconds_ = watch.seconds();
}

size_t DeviceWeights::bytes() const {
  size_t bytes = 0;
  for (const auto& memory : memory_) bytes += memory.bytes();
  return bytes;
}

std::string DeviceWeights::description() const {
  bool int8 = false, four = false, half = false;
  const auto add = [&](const DeviceMatrix& m) {
    (!m.int8() ? half : m.i8->type == DType::kQ8_0 ? int8 : four) = true;
  };
  add(head_.lm_head);
  for (const DeviceLayer& l : layers_) {
    for (const DeviceMatrix* m : {&l.wq, &l.wk, &l.wv, &l.wo, &l.w_gate, &l.w_up, &l.w_down}) {
      add(*m);
    }
  }
  std::string text = int8 ? "int8" : "";
  if (four) text += int8 && half ? ", 4-bit" : int8 ? " and 4-bit" : "4-bit";
  if (half) text += text.empty() ? "fp16" : " and fp16";
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
  upload.finish("--device cpu can use them");
  const DeviceMatrix matrix = device_matrix(source, int8, parts);
  memory.push_back(std::move(all));
  return matrix;
}

}  // namespace specbound
