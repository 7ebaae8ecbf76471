#include "train/svg.h"

#include "error.h"

namespace specbound {

std::string markup_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    }
  }
  return out;
}

std::string svg_open(int width, int height) {
  return format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
      "viewBox=\"0 0 %d %d\">\n",
      width, height, width, height);
}

std::string svg_text(double x, double y, const char* attributes, const std::string& text) {
  return format("<text x=\"%.6g\" y=\"%.6g\" %s>%s</text>\n", x, y, attributes,
                markup_escaped(text).c_str());
}

std::string svg_rect(double x, double y, double width, double height,
                     const std::string& attributes) {
  return format("<rect x=\"%.6g\" y=\"%.6g\" width=\"%.6g\" height=\"%.6g\" %s/>\n", x, y, width,
                height, attributes.c_str());
}

std::string svg_line(double x1, double y1, double x2, double y2, const char* attributes) {
  return format("<line x1=\"%.6g\" y1=\"%.6g\" x2=\"%.6g\" y2=\"%.6g\" %s/>\n", x1, y1, x2, y2,
                attributes);
}

}  // namespace specbound
