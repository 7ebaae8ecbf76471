// The lens table as an SVG file: shapes and text only, no script, font or image from elsewhere.
#include <algorithm>
#include <cmath>

#include "error.h"
#include "terminal/terminal_text.h"
#include "tools/lens.h"
#include "train/svg.h"

namespace specbound {

namespace {

constexpr size_t kPerBlock = 16;  // tokens side by side
constexpr int kCellWidth = 92, kCellHeight = 22;
constexpr int kTextColumns = 9;  // of a cell, 12 px monospace
constexpr int kMargin = 16, kLayerWidth = 84, kLine = 20;

constexpr const char* kStyle =
    "<style>\n"
    "text{font:12px ui-monospace,Menlo,Consolas,\"DejaVu Sans Mono\",monospace;fill:#111}\n"
    ".h{font-size:14px;font-weight:bold}\n"
    ".p{font-size:9px;text-anchor:end}\n"
    ".n{text-anchor:end}\n"
    ".w text,text.w{fill:#fff}\n"
    ".a text{fill:#888}\n"
    ".r text,.x text,.t{font-weight:bold}\n"
    ".r rect{stroke:#12803c;stroke-width:3}\n"
    ".x rect{stroke:#d01c1c;stroke-width:3}\n"
    "</style>\n";

std::string label(int x, int y, const char* kind, const std::string& text) {
  return svg_text(x, y, format("class=\"%s\"", kind).c_str(), text);
}

bool is_dark(double confidence) {
  return confidence >= 0.55;
}

// White to dark blue.
std::string shade(double confidence) {
  const double c = confidence >= 0 ? std::min(confidence, 1.0) : 0;
  const auto channel = [c](int from, int to) {
    return static_cast<int>(std::lround(from + c * (to - from)));
  };
  return format("#%02x%02x%02x", channel(255, 8), channel(255, 64), channel(255, 129));
}

// Marks are drawn inside the cell, where its neighbours cannot cover them.
std::string box(int x, int y, int width, const LensCell& cell, const std::string& inner) {
  constexpr const char* kKinds[] = {"", " x", " r", " a"};
  const bool after = cell.mark == LensMark::kAfter;
  return format("<g class=\"c%s%s\">", kKinds[static_cast<int>(cell.mark)],
                !after && is_dark(cell.confidence) ? " w" : "") +
         svg_rect(x + 2, y + 2, width - 4, kCellHeight - 4,
                  "fill=\"" + (after ? "#e4e4e4" : shade(cell.confidence)) + "\"") +
         inner + "</g>\n";
}

std::string cut(const std::string& text) {
  return display_width(text) > kTextColumns ? fit_width(text, kTextColumns) : text;
}

std::string cell_box(const LensView& view, int x, int y, int layer, const LensCell& cell) {
  const std::string text = token_label(view, cell.token);
  return box(x, y, kCellWidth, cell,
             // The whole token and figure, where a viewer shows them under the pointer.
             format("<title>layer %d: %s %.4f</title>", layer, markup_escaped(text).c_str(),
                    cell.confidence) +
                 svg_text(x + 6, y + 15, "", cut(text)) +
                 label(x + kCellWidth - 5, y + 15, "p", std::to_string(percent(cell.confidence))));
}

// Columns [begin, end) with their top at `y`.
std::string block(const LensView& view, const std::vector<double>& agreement, size_t begin,
                  size_t end, int y) {
  const LensTable& table = view.table;
  const int left = kMargin + kLayerWidth;
  std::string out = label(kMargin + 34, y + 14, "n", "layer");
  out += label(left - 6, y + 14, "n", "same");
  for (size_t i = begin; i < end; ++i) {
    const int x = left + static_cast<int>(i - begin) * kCellWidth;
    out += label(x + 6, y + 14, "", format("%zu", i + 1));
  }
  for (int l = 1; l <= table.n_layers; ++l) {
    const int top = y + l * kCellHeight;
    out += label(kMargin + 34, top + 15, "n", std::to_string(l));
    if (table.is_check_layer(l)) out += label(kMargin + 35, top + 15, "", "*");
    out += label(left - 6, top + 15, "n", format("%.0f%%", 100 * agreement[l - 1]));
    for (size_t i = begin; i < end; ++i) {
      out += cell_box(view, left + static_cast<int>(i - begin) * kCellWidth, top, l,
                      table.columns[i].cells[l - 1]);
    }
  }
  const int bottom = y + (table.n_layers + 1) * kCellHeight;
  out += label(kMargin + 34, bottom + 15, "n", "text");
  for (size_t i = begin; i < end; ++i) {
    const int x = left + static_cast<int>(i - begin) * kCellWidth;
    out += label(x + 6, bottom + 15, "t", cut(token_label(view, table.columns[i].token())));
  }
  return out;
}

// Two lines: what a cell says, what the marks mean.
std::string legend(int y) {
  std::string out = label(kMargin, y, "", "A cell: the layer's top token and its confidence in %");
  for (int i = 0; i < 8; ++i) {
    out +=
        svg_rect(kMargin + 400 + 20 * i, y - 10, 20, 12, "fill=\"" + shade((i + 0.5) / 8) + "\"");
  }
  out += label(kMargin + 568, y, "", "0 to 100");
  int x = kMargin;
  const auto sample = [&](LensMark mark, const char* text, int width) {
    const int top = y + 6;
    out += box(x, top, width, {0, 0, mark}, svg_text(x + 8, top + 15, "", text));
    x += width + 12;
  };
  sample(LensMark::kRight, "right exit", 92);
  sample(LensMark::kWrong, "wrong exit", 92);
  sample(LensMark::kAfter, "after the right exit", 164);
  return out + label(x, y + 21, "",
                     "* a draft may leave here; same: how often the layer's token is the last's");
}

}  // namespace

std::string lens_svg(const LensView& view) {
  const LensTable& table = view.table;
  const size_t n = table.columns.size();
  const size_t n_blocks = (n + kPerBlock - 1) / kPerBlock;
  const int block_height = (table.n_layers + 2) * kCellHeight + kLine;
  const int head = kMargin + 5 * kLine;
  const int columns = static_cast<int>(std::max<size_t>(std::min(n, kPerBlock), 9));
  const int width = 2 * kMargin + kLayerWidth + columns * kCellWidth;
  const int height = head + static_cast<int>(n_blocks) * block_height + kMargin;
  std::string out = svg_open(width, height) + kStyle;
  out += "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
  out += label(
      kMargin, kMargin + 12, "h",
      "What each layer would say: " + visible_text(view.model.substr(view.model.rfind('/') + 1)));
  out += label(kMargin, kMargin + 12 + kLine, "", summary_line(view));
  out += legend(kMargin + 12 + 2 * kLine);
  const std::vector<double> agreement = summarize(table).agreement;
  for (size_t i = 0; i < n_blocks; ++i) {
    out += block(view, agreement, i * kPerBlock, std::min(n, (i + 1) * kPerBlock),
                 head + static_cast<int>(i) * block_height);
  }
  return out + "</svg>\n";
}

}  // namespace specbound
