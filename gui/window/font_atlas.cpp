#include "gui/window/font_atlas.h"

#include <stb_truetype.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "gui/view/fonts.h"

namespace specbound::gui {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMostEntries = 20'000, kMostOthers = 64;

// Best first: wide coverage, made for screens.
constexpr std::array<std::string_view, 12> kBody = {
    "DejaVuSans.ttf",       "NotoSans-Regular.ttf",
    "NotoSans[wght].ttf",   "LiberationSans-Regular.ttf",
    "Ubuntu-R.ttf",         "Roboto-Regular.ttf",
    "OpenSans-Regular.ttf", "Carlito-Regular.ttf",
    "Arimo-Regular.ttf",    "FreeSans.ttf",
    "FreeSans.otf",         "arial.ttf"};
constexpr std::array<std::string_view, 6> kMono = {"DejaVuSansMono.ttf",
                                                   "NotoSansMono-Regular.ttf",
                                                   "LiberationMono-Regular.ttf",
                                                   "UbuntuMono-R.ttf",
                                                   "FreeMono.ttf",
                                                   "cour.ttf"};
// What others are asked first, by the beginning of the name: whole scripts, then symbols.
constexpr std::array<std::string_view, 14> kWide = {
    "NotoSansCJK",  "SourceHanSans", "wqy-microhei",     "wqy-zenhei",      "DroidSansFallback",
    "TakaoPGothic", "NanumGothic",   "NotoSansSymbols2", "NotoSansSymbols", "Symbola",
    "NotoSansMath", "NotoSans",      "FreeSans",         "unifont"};

size_t rank(std::string_view name) {
  const auto found = std::ranges::find_if(kWide, [&](auto wide) { return name.starts_with(wide); });
  return static_cast<size_t>(found - kWide.begin());
}

// Variants of weight and slant add no character.
bool is_plain(std::string_view name) {
  for (const char* word : {"Bold", "Italic", "Oblique", "Light", "Thin", "Black", "Medium",
                           "Condensed", "Serif", "Mono", "Emoji", "ExtraLight"}) {
    if (name.find(word) != std::string_view::npos) return false;
  }
  return true;
}

bool is_font(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".ttf" || extension == ".otf" || extension == ".ttc";
}

template <size_t N>
std::string best(const std::vector<fs::path>& files, const std::array<std::string_view, N>& names) {
  for (const std::string_view name : names) {
    const auto found =
        std::ranges::find_if(files, [&](const fs::path& f) { return f.filename() == name; });
    if (found != files.end()) return found->string();
  }
  return {};
}

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

std::vector<std::string> font_folders() {
  std::vector<std::string> result;
  const auto add = [&result](const char* base, const char* below) {
    // A relative one is to be ignored (XDG).
    if (base && *base == '/') result.push_back(std::string(base) + below);
  };
  const char* home = std::getenv("HOME");
  const char* data_home = std::getenv("XDG_DATA_HOME");
  if (data_home && *data_home == '/') {
    add(data_home, "/fonts");
  } else {
    add(home, "/.local/share/fonts");
  }
  add(home, "/.fonts");
  const char* data = std::getenv("XDG_DATA_DIRS");
  std::string_view rest = data && *data ? data : "/usr/local/share:/usr/share";
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    add(std::string(folder).c_str(), "/fonts");
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
  }
  return result;
}

FontFiles find_fonts(const std::vector<std::string>& folders) {
  std::vector<fs::path> files;
  size_t entries = 0;
  for (const std::string& folder : folders) {
    std::error_code error;
    fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied,
                                        error);
    while (!error && it != fs::recursive_directory_iterator() && ++entries < kMostEntries) {
      std::error_code ignored;
      if (is_font(it->path()) && it->is_regular_file(ignored)) files.push_back(it->path());
      it.increment(error);
    }
  }
  // Folders come in no order of their own.
  std::ranges::sort(files);
  FontFiles result;
  result.body = best(files, kBody);
  result.mono = best(files, kMono);
  for (const fs::path& file : files) {
    const std::string name = file.filename().string();
    if (is_plain(name) && file.string() != result.body) result.others.push_back(file.string());
  }
  std::ranges::stable_sort(result.others, {}, [](const std::string& file) {
    return rank(fs::path(file).filename().string());
  });
  if (result.others.size() > kMostOthers) result.others.resize(kMostOthers);
  if (result.body.empty() && !result.others.empty()) {
    result.body = result.others.front();
    result.others.erase(result.others.begin());
  }
  return result;
}

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
  std::set<ImWchar> of_mono;
  if (Face* mono = open(files_.mono)) {
    std::ranges::copy_if(wanted, std::inserter(of_mono, of_mono.end()),
                         [mono](ImWchar c) { return mono->has(c); });
  }
  mono_ranges_ = ranges_of(of_mono);
}

// The characters `own` of one face, and of the others what they have been asked for.
ImFont* FontAtlas::add(Face* first, const std::vector<ImWchar>& own, float size) {
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
  ImFont* font = load(first, own.empty() ? kBase : own.data());
  config.MergeMode = true;
  for (const auto& [face, ranges] : ranges_) {
    if (face != first) load(face, ranges.data());
  }
  return font;
}

void FontAtlas::build(float scale, float density) {
  ImGuiIO& io = ImGui::GetIO();
  density = std::clamp(density, 1.0f, std::max(1.0f, kMostScale / scale));
  io.FontGlobalScale = 1 / density;
  io.Fonts->Clear();
  io.Fonts->Flags |= ImFontAtlasFlags_NoPowerOfTwoHeight;
  gather();
  const auto pixels = [=](float points) { return std::round(points * scale * density); };
  Face* body = open(files_.body);
  Face* mono = open(files_.mono);
  if (body) {
    static const std::vector<ImWchar> kNone;
    const std::vector<ImWchar>& own = ranges_.contains(body) ? ranges_.at(body) : kNone;
    fonts().body = add(body, own, pixels(kBodyPoints));
    fonts().small = add(body, own, pixels(kSmallPoints));
    fonts().heading = add(body, own, pixels(kHeadingPoints));
    fonts().mono = mono ? add(mono, mono_ranges_, pixels(kMonoPoints)) : fonts().body;
  } else {
    ImFontConfig config;
    config.SizePixels = pixels(kSmallPoints);
    ImFont* own = io.Fonts->AddFontDefault(&config);
    fonts() = {own, own, own, own};
  }
  io.FontDefault = fonts().body;
  io.Fonts->Build();
  ++font_generation();
}

bool FontAtlas::wants_build() {
  if (!take_new_glyphs() || files_.body.empty() || full_) return false;
  return std::ranges::any_of(used_glyphs(), [this](ImWchar c) {
    return !fonts().body->FindGlyphNoFallback(c) && face_of(c) != nullptr;
  });
}

}  // namespace specbound::gui
