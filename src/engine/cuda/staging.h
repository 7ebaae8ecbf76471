// The way of large things onto the device: through two pinned buffers, one being filled while the
// other is copied.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "engine/cuda/device.h"

namespace specbound {

class Staging {
 public:
  // Two buffers of `bytes` each.
  Staging(Device& device, size_t bytes);
  // Waits for what is under way: nothing that was sent still reads the buffers, nor writes to where
  // it was sent.
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  size_t bytes() const { return buffers_[0].memory.size(); }
  // What of a buffer can be filled now, at least `least` bytes (at most bytes()), 64-byte aligned.
  // May wait for copies.
  std::span<std::byte> room(size_t least);
  // Copies the first `bytes` of what room() gave and send() has not yet taken to the device.
  void send(void* to, size_t bytes);
  void finish();  // waits until all has arrived

 private:
  struct Buffer {
    PinnedMemory<std::byte> memory;
    std::unique_ptr<DeviceEvent> sent;  // null: nothing is
  };

  Device& device_;
  Buffer buffers_[2];
  int filling_ = 0;
  size_t used_ = 0;
};

}  // namespace specbound
