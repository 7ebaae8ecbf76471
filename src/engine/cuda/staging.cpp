#include "engine/cuda/staging.h"

#include <algorithm>
#include <exception>

#include "error.h"

namespace specbound {

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
