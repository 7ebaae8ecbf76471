// How far loading is, as often as somebody reads it: each whole percent, and of a download, whose
// percent may take minutes, each second what its line says then.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "error.h"
#include "gui/worker/messages.h"

namespace specbound::gui {

class LoadTeller {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Of `done` of `total` bytes; nullopt: nothing that is to be told again.
  std::optional<LoadProgress> at(const std::string& label, size_t done, size_t total, Time now) {
    const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0;
    const int percent = static_cast<int>(100 * share);
    const bool downloads = label == "downloading";
    std::string line = downloads ? told_download(done, total) : label;
    const bool moved = label != label_ || percent != percent_;
    if (!moved && (line == line_ || now - told_ < std::chrono::seconds(1))) return std::nullopt;
    label_ = label;
    percent_ = percent;
    told_ = now;
    line_ = line;
    return LoadProgress{std::move(line), share};
  }

 private:
  // Of what may take an hour one wants to know how much it is.
  static std::string told_download(size_t done, size_t total) {
    return format("downloading %.1f of %.1f MB", 1e-6 * static_cast<double>(done),
                  1e-6 * static_cast<double>(total));
  }

  std::string label_, line_;
  int percent_ = -1;
  Time told_;
};

}  // namespace specbound::gui
