#include "train/device_features.h"

#include <algorithm>
#include <cstring>

#include "error.h"

namespace specbound {
namespace {

constexpr size_t kPieceBytes = size_t{8} << 20;
constexpr size_t kPiece = kPieceBytes / sizeof(float);

}  // namespace

DeviceFloats::DeviceFloats(Device& device)
    : device_(device),
      floats_(device, kPiece),
      downloaded_(device, kPieceBytes),
      staging_(device, kPieceBytes) {}

void DeviceFloats::upload(std::span<const float> from, float* to) {
  for (size_t done = 0; done < from.size();) {
    const size_t n = std::min(kPiece, from.size() - done);
    std::memcpy(staging_.room(n * sizeof(float)).data(), from.data() + done, n * sizeof(float));
    staging_.send(to + done, n * sizeof(float));
    done += n;
  }
}

void DeviceFloats::upload_halves(std::span<const float> from, int n_rows, int n, float factor,
                                 uint16_t* to) {
  SB_CHECK(from.size() == static_cast<size_t>(n_rows) * n && static_cast<size_t>(n) <= kPiece);
  const int at_once = static_cast<int>(kPiece / static_cast<size_t>(n));
  for (int row = 0; row < n_rows; row += at_once) {
    const int rows = std::min(at_once, n_rows - row);
    const size_t first = static_cast<size_t>(row) * n;
    upload(from.subspan(first, static_cast<size_t>(rows) * n), floats_.data());
    kernels::halve_rows({floats_.data(), rows, n, n, factor, to + first, n}, device_.stream());
  }
}

void DeviceFloats::halve(const float* from, int n_rows, int n, uint16_t* to) {
  kernels::halve_rows({from, n_rows, n, n, 1, to, n}, device_.stream());
}

void DeviceFloats::download_bytes(const void* from, void* to, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const size_t n = std::min(kPieceBytes, bytes - done);
    device_.copy_out(downloaded_.data(), static_cast<const std::byte*>(from) + done, n);
    device_.synchronize();
    std::memcpy(static_cast<std::byte*>(to) + done, downloaded_.data(), n);
    done += n;
  }
}

DeviceChunks::DeviceChunks(Device& device, DeviceFloats& floats, const FeatureSource& features,
                           const BatchPlan& plan, size_t bytes)
    : device_(device), floats_(floats), features_(features), limit_(bytes) {
  for (size_t l = 0; l < plan.layer.size(); ++l) {
    planes_.push_back(static_cast<int>(layers_.size()));
    if (plan.layer[l]) layers_.push_back(static_cast<int>(l));
  }
}

size_t DeviceChunks::bytes_of(const FeatureSource& features, const BatchPlan& plan) {
  const auto planes = static_cast<size_t>(std::count(plan.layer.begin(), plan.layer.end(), 1)) + 1;
  return static_cast<size_t>(features.n_rows) * planes * static_cast<size_t>(features.dim) *
         sizeof(uint16_t);
}

void DeviceChunks::open(std::span<const int> chunks) {
  for (const int chunk : chunks) {
    if (!chunks_.contains(chunk)) bring(chunk, chunks);
  }
}

void DeviceChunks::bring(int number, std::span<const int> wanted) {
  const FeatureChunk chunk = features_.load(number);
  const size_t plane = chunk.y.size(), n = plane * (layers_.size() + 1);
  const size_t bytes = n * sizeof(uint16_t);
  for (auto at = chunks_.begin(); used_ + bytes > limit_ && at != chunks_.end();) {
    if (std::find(wanted.begin(), wanted.end(), at->first) != wanted.end()) {
      ++at;
      continue;
    }
    device_.synchronize();  // what was asked for may still read it
    used_ -= at->second.values.bytes();
    at = chunks_.erase(at);
  }
  if (used_ + bytes > limit_) {
    throw Error(ErrorCode::kLimit,
                format("features on the GPU: expected %zu MB of its memory for the rows that are "
                       "shuffled together, found room for %zu MB",
                       (used_ + bytes) >> 20, limit_ >> 20));
  }
  Chunk& there = chunks_[number];
  there.values = DeviceMemory<uint16_t>(device_, n);
  there.follows = chunk.follows;
  used_ += bytes;
  uint16_t* to = there.values.data();
  for (const int layer : layers_) {
    floats_.upload_halves(chunk.x[static_cast<size_t>(layer)], chunk.rows, chunk.dim, 1, to);
    to += plane;
  }
  floats_.upload_halves(chunk.y, chunk.rows, chunk.dim, 1, to);
}

kernels::RowPlace DeviceChunks::place(int chunk, int row) const {
  const Chunk& of = chunks_.at(chunk);
  const size_t dim = static_cast<size_t>(features_.dim);
  return {of.values.data() + static_cast<size_t>(row) * dim,
          static_cast<int64_t>(of.follows.size() * dim)};
}

const uint16_t* DeviceChunks::plane(int chunk, int plane) const {
  const Chunk& of = chunks_.at(chunk);
  return of.values.data() +
         static_cast<size_t>(plane) * of.follows.size() * static_cast<size_t>(features_.dim);
}

}  // namespace specbound
