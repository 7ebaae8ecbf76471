// What is said when a GPU fails, whatever is behind it.
#include "engine/cuda/device.h"

namespace specbound {

Error device_failed(const DeviceInfo& info, const std::string& what, const std::string& why) {
  return {ErrorCode::kDevice,
          format("GPU %d (%s): %s: %s; start again, with --device cpu if it comes again (the "
                 "kernel's log then has a line with NVRM: Xid)",
                 info.index, info.name.c_str(), what.c_str(), why.c_str())};
}

Error out_of_device_memory(const DeviceInfo& info, size_t bytes, size_t free_bytes) {
  return {
      ErrorCode::kLimit,
      format("GPU %d (%s): expected %.1f MB of free memory, found %.1f MB of %.1f MB free; a "
             "smaller context (-c N), --dtype int8 or another program less would help",
             info.index, info.name.c_str(), 1e-6 * static_cast<double>(bytes),
             1e-6 * static_cast<double>(free_bytes), 1e-6 * static_cast<double>(info.total_bytes))};
}

Error out_of_graph_memory(const DeviceInfo& info, size_t free_bytes) {
  return {ErrorCode::kLimit,
          format("GPU %d (%s): expected memory for one more graph of launches, found %.1f MB free; "
                 "a smaller context (-c N) or another program less would help",
                 info.index, info.name.c_str(), 1e-6 * static_cast<double>(free_bytes))};
}

Error out_of_pinned_memory(size_t bytes) {
  return {
      ErrorCode::kLimit,
      format("expected %.1f MB of host memory that can be pinned for the GPU, found less; another "
             "program less would help",
             1e-6 * static_cast<double>(bytes))};
}

}  // namespace specbound
