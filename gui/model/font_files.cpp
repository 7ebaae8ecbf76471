#include "gui/model/font_files.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>

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

}  // namespace specbound::gui
