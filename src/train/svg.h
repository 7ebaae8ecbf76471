// The elements that our pages and SVG files are made of: shapes and text, nothing from elsewhere.
// Coordinates are pixels, from the top left. `attributes`, such as class="n", stand as they are.
#pragma once

#include <string>

namespace specbound {

// What a file begins with; </svg> ends it.
std::string svg_open(int width, int height);

// `text` between tags: not for attributes.
std::string markup_escaped(const std::string& text);

std::string svg_text(double x, double y, const char* attributes, const std::string& text);
std::string svg_rect(double x, double y, double width, double height,
                     const std::string& attributes);
std::string svg_line(double x1, double y1, double x2, double y2, const char* attributes);

}  // namespace specbound
