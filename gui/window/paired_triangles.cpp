#include "gui/window/paired_triangles.h"

#include <algorithm>

namespace specbound::gui {

namespace {

constexpr unsigned kTriangle = 3, kPair = 6;

// As ImGui numbers the corners of a rectangle: a b c, a c d.
bool is_pair(const ImDrawIdx* index) {
  return index[0] == index[3] && index[2] == index[4];
}

class PairedList {
 public:
  explicit PairedList(ImDrawList& list) : list_(list) {
    indices_.reserve(list.IdxBuffer.Size + list.IdxBuffer.Size / 8);
  }

  void call(const ImDrawCmd& command) { commands_.push_back(command); }

  // The triangles of a command; with a region, those that may reach into it.
  void draw(const ImDrawCmd& command, const PixelRect* region) {
    begin_ = indices_.Size;
    corners_ = list_.VtxBuffer.Data + command.VtxOffset;
    const ImDrawIdx* index = list_.IdxBuffer.Data + command.IdxOffset;
    for (unsigned left = command.ElemCount; left >= kTriangle;) {
      const bool pair = left >= kPair && is_pair(index);
      const unsigned n = pair ? kPair : kTriangle;
      if (!region || reaches(index, n, *region)) {
        if (pair) fill_pair();
        for (unsigned i = 0; i < n; ++i) indices_.push_back(index[i]);
      }
      index += n;
      left -= n;
    }
    fill_pair();
    for (int at = begin_; at < indices_.Size; at += kPairedIndices) {
      ImDrawCmd part = command;
      part.IdxOffset = static_cast<unsigned>(at);
      part.ElemCount = static_cast<unsigned>(std::min(indices_.Size - at, kPairedIndices));
      commands_.push_back(part);
    }
  }

  void finish() {
    list_.IdxBuffer.swap(indices_);
    list_.CmdBuffer.swap(commands_);
  }

 private:
  bool reaches(const ImDrawIdx* index, unsigned n, const PixelRect& region) const {
    ImVec2 min = corners_[index[0]].pos, max = min;
    for (unsigned i = 1; i < n; ++i) {
      const ImVec2 at = corners_[index[i]].pos;
      min = {std::min(min.x, at.x), std::min(min.y, at.y)};
      max = {std::max(max.x, at.x), std::max(max.y, at.y)};
    }
    const auto points = [](int pixels) { return static_cast<float>(pixels); };
    return max.x + 1 > points(region.left) && min.x - 1 < points(region.right) &&
           max.y + 1 > points(region.top) && min.y - 1 < points(region.bottom);
  }

  void fill_pair() {
    if ((indices_.Size - begin_) % static_cast<int>(kPair) == 0) return;
    const ImDrawIdx last = indices_.back();
    for (unsigned i = 0; i < kTriangle; ++i) indices_.push_back(last);
  }

  ImDrawList& list_;
  ImVector<ImDrawIdx> indices_;
  ImVector<ImDrawCmd> commands_;
  int begin_ = 0;                        // of the indices of the command under way
  const ImDrawVert* corners_ = nullptr;  // likewise
};

}  // namespace

void pair_triangles(ImDrawList& list, std::span<const PixelRect> regions, int height) {
  PairedList paired(list);
  for (const ImDrawCmd& command : list.CmdBuffer) {
    if (command.UserCallback) {
      paired.call(command);
    } else if (regions.empty()) {
      paired.draw(command, nullptr);
    } else {
      for (const PixelRect& region : regions) {
        const PixelRect clip = common(clip_pixels(command.ClipRect, height), region);
        if (clip.empty()) continue;
        ImDrawCmd part = command;
        const auto points = [](int pixels) { return static_cast<float>(pixels); };
        part.ClipRect = {points(clip.left), points(clip.top), points(clip.right),
                         points(clip.bottom)};
        paired.draw(part, &clip);
      }
    }
  }
  paired.finish();
}

}  // namespace specbound::gui
