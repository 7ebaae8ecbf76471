// What is said when a GPU fails, whatever is behind it.
#include "engine/cuda/device.h"

#include <algorithm>
#include <exception>

#include "error.h"

namespace specbound {

Error device_failed(const DeviceInfo& info, const std::string& what, const std::string& why) {
  return {ErrorCode::kDevice,
          format("GPU %d (%s): %s: %s; start again, with device=cpu if it comes again (the "
                 "kernel's log then has a line with NVRM: Xid)",
                 info.index, info.name.c_str(), what.c_str(), why.c_str())};
}

Error out_of_device_memory(const DeviceInfo& info, size_t bytes, size_t free_bytes) {
  return {
      ErrorCode::kLimit,
      format("GPU %d (%s): expected %.1f MB of free memory, found %.1f MB of %.1f MB free; a "
             "smaller context (n_ctx=N), dtype=int8 or another program less would help",
             info.index, info.name.c_str(), 1e-6 * static_cast<double>(bytes),
             1e-6 * static_cast<double>(free_bytes), 1e-6 * static_cast<double>(info.total_bytes))};
}

Error out_of_graph_memory(const DeviceInfo& info, size_t free_bytes) {
  return {ErrorCode::kLimit,
          format("GPU %d (%s): expected memory for one more graph of launches, found %.1f MB free; "
                 "a smaller context (n_ctx=N) or another program less would help",
                 info.index, info.name.c_str(), 1e-6 * static_cast<double>(free_bytes))};
}

Error out_of_pinned_memory(size_t bytes) {
  return {
      ErrorCode::kLimit,
      format("expected %.1f MB of host memory that can be pinned for the GPU, found less; another "
             "program less would help",
             1e-6 * static_cast<double>(bytes))};
}

Staging::Staging(Device& device, size_t bytes) : device_(device) {
  for (Buffer& buffer : buffers_) buffer.memory = PinnedMemory<std::byte>(device, bytes);
}

Staging::~Staging() {
  try {
    device_.synchronize();
  } catch (const std::exception&) {
    // The device is lost: it copies nothing any more.
  }
}

std::span<std::byte> Staging::room(size_t least) {
  constexpr size_t kAlignment = 64;
  SB_CHECK(least <= bytes());
  used_ = std::min(bytes(), (used_ + kAlignment - 1) / kAlignment * kAlignment);
  if (bytes() - used_ < least) {
    buffers_[filling_].sent = device_.mark();
    filling_ = 1 - filling_;
    used_ = 0;
    // What was sent from this one before has to be there, or this would overwrite it on its way.
    if (buffers_[filling_].sent) device_.wait(*buffers_[filling_].sent);
  }
  return {buffers_[filling_].memory.data() + used_, bytes() - used_};
}

void Staging::send(void* to, size_t bytes) {
  SB_CHECK(bytes <= this->bytes() - used_);
  device_.copy_in(to, buffers_[filling_].memory.data() + used_, bytes);
  used_ += bytes;
}

void Staging::finish() {
  device_.synchronize();
}

}  // namespace specbound
