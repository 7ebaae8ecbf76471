#include "terminal/exit_colors.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "error.h"

namespace specbound {

namespace {

constexpr std::array<int, 11> kGreenToRed = {46, 82, 118, 154, 190, 226, 220, 214, 208, 202, 196};

}  // namespace

std::string color_refusal(int fd, const char* name) {
  const auto variable = [](const char* key) {
    const char* value = std::getenv(key);
    return std::string_view(value ? value : "");
  };
  if (!isatty(fd)) return format("%s is no terminal", name);
  if (!variable("NO_COLOR").empty()) return "NO_COLOR is set";
  if (variable("TERM") == "dumb") return "TERM is dumb";
  return "";
}

int ExitColors::color(int layer) const {
  constexpr int kLast = static_cast<int>(kGreenToRed.size()) - 1;
  const int range = std::max(deepest_ - 1, 1);
  const int depth = std::clamp(layer - 1, 0, range);
  return kGreenToRed[static_cast<size_t>((depth * kLast + range / 2) / range)];
}

std::string ExitColors::paint(std::string_view text, int layer) const {
  if (layer == kNoDraft || text.empty()) return std::string(text);
  return format("\x1b[38;5;%dm", color(layer)) + std::string(text) + "\x1b[39m";
}

std::string ExitColors::legend(const std::set<int>& layers, bool painted) const {
  if (layers.empty()) return "exit layer: no token came from a draft; uncoloured: the last layer";
  std::string line = painted ? "exit layer:" : "exit layer, from green to red:";
  for (const int layer : layers) {
    const std::string number = std::to_string(layer);
    line += ' ';
    line += painted ? paint(number, layer) : number;
  }
  if (layers.contains(0)) line += "; 0: before any layer";
  return line + "; uncoloured: the last layer";
}

}  // namespace specbound
