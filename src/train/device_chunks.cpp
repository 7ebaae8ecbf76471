#include "train/device_chunks.h"

#include <algorithm>

#include "error.h"

namespace specbound {

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
