#include "gui/window/font_atlas.h"

#include <stb_truetype.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "gui/view/fonts.h"

namespace specbound::gui {

namespace {

constexpr float kBodyPoints = 16, kSmallPoints = 13, kHeadingPoints = 21, kMonoPoints = 15;
constexpr std::uintmax_t kMostBytes = 64u << 20;  // of a font file
// What the views themselves write, and most of what Latin texts hold.
constexpr ImWchar kBase[] = {0x20, 0xff, 0x2010, 0x2027, 0x2190, 0x2193, 0xfffd, 0xfffd, 0};
// Of these scripts a text that has one character will soon have the others.
constexpr ImWchar kFirstSingle = 0x2e80, kBlock = 0x80;

std::vector<ImWchar> ranges_of(const std::set<ImWchar>& characters) {
  std::vector<ImWchar> result;
  for (const ImWchar c : characters) {
    if (!result.empty() && result.back() + 1 == c) {
      result.back() = c;
    } else {
      result.insert(result.end(), {c, c});
    }
  }
  result.push_back(0);
  return result;
}

}  // namespace

struct FontAtlas::Face {
  std::string bytes;
  stbtt_fontinfo info = {};
  bool good = false;

  bool has(ImWchar character) const { return stbtt_FindGlyphIndex(&info, character) != 0; }
};

FontAtlas::FontAtlas(FontFiles files) : files_(std::move(files)) {
  if (!open(files_.body)) files_.body.clear();
  if (!open(files_.mono)) files_.mono.clear();
}

FontAtlas::~FontAtlas() = default;

// nullptr for what is no font.
FontAtlas::Face* FontAtlas::open(const std::string& file) {
  if (file.empty()) return nullptr;
  std::unique_ptr<Face>& face = faces_[file];
  if (!face) {
    face = std::make_unique<Face>();
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(file, error);
    std::ifstream stream(file, std::ios::binary);
    if (!error && size <= kMostBytes && stream) {
      face->bytes.assign(std::istreambuf_iterator<char>(stream), {});
      const auto* data = reinterpret_cast<const unsigned char*>(face->bytes.data());
      // The smallest table directory; stb looks no further than it says.
      const int offset = face->bytes.size() < 512 ? -1 : stbtt_GetFontOffsetForIndex(data, 0);
      face->good = offset >= 0 && stbtt_InitFont(&face->info, data, offset) != 0;
    }
    if (!face->good) face->bytes = {};
  }
  return face->good ? face.get() : nullptr;
}

FontAtlas::Face* FontAtlas::face_of(ImWchar character) {
  const auto known = found_.find(character);
  if (known != found_.end()) return known->second;
  Face* result = open(files_.body);
  if (result && !result->has(character)) result = nullptr;
  for (size_t i = 0; !result && i < files_.others.size(); ++i) {
    Face* other = open(files_.others[i]);
    if (other && other->has(character)) result = other;
  }
  found_[character] = result;
  return result;
}

void FontAtlas::gather() {
  std::set<ImWchar> wanted;
  for (const ImWchar* range = kBase; *range; range += 2) {
    for (ImWchar c = range[0]; c <= range[1]; ++c) wanted.insert(c);
  }
  for (const ImWchar used : used_glyphs()) {
    full_ = wanted.size() >= kMostCharacters;
    if (full_) break;
    if (used >= kFirstSingle) {
      wanted.insert(used);
    } else {
      const auto first = static_cast<ImWchar>(used / kBlock * kBlock);
      for (ImWchar c = first; c < first + kBlock; ++c) wanted.insert(c);
    }
  }
  std::map<Face*, std::set<ImWchar>> by_face;
  Face* body = open(files_.body);
  for (const ImWchar c : wanted) {
    // Others are asked only for what is really there to be drawn: that may open many files.
    Face* face = used_glyphs().contains(c) ? face_of(c) : body && body->has(c) ? body : nullptr;
    if (face) by_face[face].insert(c);
  }
  ranges_.clear();
  for (const auto& [face, characters] : by_face) ranges_[face] = ranges_of(characters);
}

// `all`: with the characters of the other fonts too.
ImFont* FontAtlas::add(Face* first, float size, bool all) {
  ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
  ImFontConfig config;
  config.FontDataOwnedByAtlas = false;
  // Pictures that lie on whole pixels can be drawn without interpolation (Window::upload_fonts).
  config.OversampleH = config.OversampleV = 1;
  config.PixelSnapH = true;
  const auto load = [&](Face* face, const ImWchar* ranges) {
    return atlas.AddFontFromMemoryTTF(face->bytes.data(), static_cast<int>(face->bytes.size()),
                                      size, &config, ranges);
  };
  const bool gathered = ranges_.contains(first);
  ImFont* font = load(first, all && gathered ? ranges_[first].data() : kBase);
  if (!all) return font;
  config.MergeMode = true;
  for (const auto& [face, ranges] : ranges_) {
    if (face != first) load(face, ranges.data());
  }
  return font;
}

void FontAtlas::build(float scale) {
  ImGuiIO& io = ImGui::GetIO();
  io.Fonts->Clear();
  io.Fonts->Flags |= ImFontAtlasFlags_NoPowerOfTwoHeight;
  gather();
  const auto pixels = [scale](float points) { return std::round(points * scale); };
  Face* body = open(files_.body);
  Face* mono = open(files_.mono);
  if (body) {
    fonts().body = add(body, pixels(kBodyPoints), true);
    fonts().small = add(body, pixels(kSmallPoints), true);
    fonts().heading = add(body, pixels(kHeadingPoints), true);
    fonts().mono = mono ? add(mono, pixels(kMonoPoints), false) : fonts().body;
  } else {
    ImFontConfig config;
    config.SizePixels = pixels(kSmallPoints);
    ImFont* own = io.Fonts->AddFontDefault(&config);
    fonts() = {own, own, own, own};
  }
  io.FontDefault = fonts().body;
  io.Fonts->Build();
  next_font_generation();
}

bool FontAtlas::wants_build() {
  if (!take_new_glyphs() || files_.body.empty() || full_) return false;
  return std::ranges::any_of(used_glyphs(), [this](ImWchar c) {
    return !fonts().body->FindGlyphNoFallback(c) && face_of(c) != nullptr;
  });
}

}  // namespace specbound::gui
