#include "gui/window/damage.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace specbound::gui {

namespace {

uint64_t stirred(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

template <class T>
uint64_t stirred_bytes(uint64_t hash, const T& value) {
  static_assert(sizeof(T) % 4 == 0);
  uint32_t words[sizeof(T) / 4];
  std::memcpy(words, &value, sizeof words);
  for (const uint32_t word : words) hash = stirred(hash, word);
  return hash;
}

bool overlap(PixelRect a, PixelRect b) {
  return !common(a, b).empty();
}

int64_t area(PixelRect r) {
  return int64_t{r.right - r.left} * (r.bottom - r.top);
}

// Until no two overlap.
void join_overlapping(std::vector<PixelRect>& rects) {
  for (size_t i = 0; i < rects.size(); ++i) {
    for (size_t k = i + 1; k < rects.size(); ++k) {
      if (!overlap(rects[i], rects[k])) continue;
      rects[i] = around(rects[i], rects[k]);
      rects.erase(rects.begin() + static_cast<std::ptrdiff_t>(k));
      return join_overlapping(rects);
    }
  }
}

// The two whose common frame adds the least.
void join_nearest(std::vector<PixelRect>& rects) {
  size_t first = 0, second = 1;
  int64_t least = -1;
  for (size_t i = 0; i < rects.size(); ++i) {
    for (size_t k = i + 1; k < rects.size(); ++k) {
      const int64_t added = area(around(rects[i], rects[k])) - area(rects[i]) - area(rects[k]);
      if (least >= 0 && added >= least) continue;
      least = added;
      first = i;
      second = k;
    }
  }
  rects[first] = around(rects[first], rects[second]);
  rects.erase(rects.begin() + static_cast<std::ptrdiff_t>(second));
}

}  // namespace

PixelRect common(PixelRect a, PixelRect b) {
  return {std::max(a.left, b.left), std::max(a.top, b.top), std::min(a.right, b.right),
          std::min(a.bottom, b.bottom)};
}

PixelRect around(PixelRect a, PixelRect b) {
  return {std::min(a.left, b.left), std::min(a.top, b.top), std::max(a.right, b.right),
          std::max(a.bottom, b.bottom)};
}

PixelRect clip_pixels(const ImVec4& clip, int height) {
  PixelRect r;
  r.left = static_cast<int>(clip.x);
  r.right = r.left + static_cast<int>(clip.z - clip.x);
  r.bottom = height - static_cast<int>(static_cast<float>(height) - clip.w);
  r.top = r.bottom - static_cast<int>(clip.w - clip.y);
  return r;
}

void Damage::add(PixelRect where, uint64_t what) {
  where = common(where, {0, 0, width_, height_});
  if (where.empty()) return;
  for (int y = where.top / kTile; y <= (where.bottom - 1) / kTile; ++y) {
    for (int x = where.left / kTile; x <= (where.right - 1) / kTile; ++x) {
      uint64_t& tile = now_[static_cast<size_t>(y * columns_ + x)];
      tile = stirred(tile, what);
    }
  }
}

std::vector<PixelRect> Damage::since_last(const ImDrawData& data,
                                          const std::vector<Backdrop>& backdrops, int width,
                                          int height) {
  if (width != width_ || height != height_) forget();
  width_ = width;
  height_ = height;
  columns_ = (width + kTile - 1) / kTile;
  rows_ = (height + kTile - 1) / kTile;
  now_.assign(static_cast<size_t>(columns_ * rows_), 0);
  for (const Backdrop& b : backdrops) {
    add({static_cast<int>(b.min.x), static_cast<int>(b.min.y), static_cast<int>(b.max.x),
         static_cast<int>(b.max.y)},
        stirred_bytes(1, b));
  }
  for (int l = 0; l < data.CmdListsCount; ++l) {
    const ImDrawList& list = *data.CmdLists[l];
    for (const ImDrawCmd& command : list.CmdBuffer) {
      const PixelRect clip = clip_pixels(command.ClipRect, height);
      const uint64_t base =
          stirred(stirred_bytes(2, command.ClipRect),
                  static_cast<uint64_t>(reinterpret_cast<uintptr_t>(command.GetTexID())));
      const ImDrawIdx* index = list.IdxBuffer.Data + command.IdxOffset;
      const ImDrawVert* corners = list.VtxBuffer.Data + command.VtxOffset;
      for (unsigned i = 0; i + 3 <= command.ElemCount; i += 3) {
        uint64_t what = base;
        ImVec2 min = corners[index[i]].pos, max = min;
        for (unsigned k = i; k < i + 3; ++k) {
          const ImDrawVert& corner = corners[index[k]];
          what = stirred_bytes(what, corner);
          min = {std::min(min.x, corner.pos.x), std::min(min.y, corner.pos.y)};
          max = {std::max(max.x, corner.pos.x), std::max(max.y, corner.pos.y)};
        }
        const auto pixel = [](float at) { return static_cast<int>(std::clamp(at, -1e6f, 1e6f)); };
        add(common(clip, {pixel(min.x) - 1, pixel(min.y) - 1, pixel(max.x) + 2, pixel(max.y) + 2}),
            what);
      }
    }
  }
  std::vector<PixelRect> rects =
      before_.empty() ? std::vector<PixelRect>{{0, 0, width, height}} : different();
  before_.swap(now_);
  return rects;
}

std::vector<PixelRect> Damage::different() const {
  std::vector<PixelRect> rects;
  for (int y = 0; y < rows_; ++y) {
    const auto same = [&](int x) {
      const auto at = static_cast<size_t>(y * columns_ + x);
      return before_[at] == now_[at];
    };
    for (int x = 0; x < columns_; ++x) {
      if (same(x)) continue;
      const int begin = x;
      while (x + 1 < columns_ && !same(x + 1)) ++x;
      const PixelRect run = {begin * kTile, y * kTile, (x + 1) * kTile, (y + 1) * kTile};
      const auto above = std::ranges::find_if(rects, [&](const PixelRect& r) {
        return r.left == run.left && r.right == run.right && r.bottom == run.top;
      });
      if (above == rects.end()) {
        // Joining takes the cube of how many there are.
        if (rects.size() == kMostRuns) return {{0, 0, width_, height_}};
        rects.push_back(run);
      } else {
        above->bottom = run.bottom;
      }
    }
  }
  while (rects.size() > kMostRects) {
    join_nearest(rects);
    join_overlapping(rects);
  }
  for (PixelRect& r : rects) r = common(r, {0, 0, width_, height_});
  return rects;
}

}  // namespace specbound::gui
