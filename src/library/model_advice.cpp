#include "library/model_advice.h"

namespace specbound {

namespace {

constexpr double kReadingSpeed = 10;     // tokens a second
constexpr double kShareOfWeights = 0.7;  // of memory; the rest is for K/V, rows and other programs

double bytes_of(const ShortName& model) {
  return 1e6 * model.megabytes;
}

double room_for_weights(uint64_t free_bytes) {
  return kShareOfWeights * static_cast<double>(free_bytes);
}

}  // namespace

bool fits_in_memory(const ShortName& model, uint64_t free_bytes) {
  return bytes_of(model) <= room_for_weights(free_bytes);
}

ModelAdvice advised_model(const RoomForModel& room) {
  ModelAdvice advice;
  const ShortName* smallest = nullptr;
  for (const ShortName& model : short_names()) {
    const double bytes = bytes_of(model);
    if (!smallest || bytes < bytes_of(*smallest)) smallest = &model;
    if (!fits_in_memory(model, room.free_bytes) || room.read_bandwidth < kReadingSpeed * bytes)
      continue;
    if (!advice.model || bytes > bytes_of(*advice.model)) advice.model = &model;
  }
  if (!advice.model) advice.model = smallest;
  advice.tokens_per_second = room.read_bandwidth / bytes_of(*advice.model);
  advice.largest_file = static_cast<uint64_t>(room_for_weights(room.free_bytes));
  return advice;
}

}  // namespace specbound
