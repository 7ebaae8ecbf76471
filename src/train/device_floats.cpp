#include "train/device_floats.h"

#include <algorithm>
#include <cstring>

#include "error.h"
#include "kernels/training.h"

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

}  // namespace specbound
