// The lens table on a terminal: a row a layer, blocks of as many tokens as fit. Without colour the
// same columns, with marks that programs can cut out.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>

#include "error.h"
#include "system/number_text.h"
#include "terminal/exit_colors.h"
#include "terminal/terminal_text.h"
#include "tools/lens.h"

namespace specbound {

namespace {

constexpr int kLabelWidth = 10;  // "layer same"
constexpr int kMinText = 4, kMaxText = 8;

// Of the 256 colours: white to dark blue as the confidence grows, with text that reads on it.
struct Shade {
  int back, text;
};
constexpr std::array<Shade, 8> kShades = {
    {{231, 16}, {189, 16}, {153, 16}, {117, 16}, {75, 16}, {33, 231}, {26, 231}, {18, 231}}};
constexpr Shade kRight = {28, 231}, kWrong = {160, 231}, kAfter = {252, 242};

std::string coloured(const LensCell& cell, const std::string& text) {
  const auto at =
      std::min<size_t>(kShades.size() - 1, percent(cell.confidence) * kShades.size() / 100);
  Shade shade = kShades[at];
  const bool exits = cell.mark == LensMark::kRight || cell.mark == LensMark::kWrong;
  if (exits) shade = cell.mark == LensMark::kRight ? kRight : kWrong;
  if (cell.mark == LensMark::kAfter) shade = kAfter;
  return format("\x1b[%s48;5;%d;38;5;%dm%s\x1b[0m", exits ? "1;" : "", shade.back, shade.text,
                text.c_str());
}

// `[text 87]`: the mark, `width` columns of text, two digits, the mark.
std::string cell_text(const LensView& view, const LensCell& cell, int width, bool colour) {
  struct Marks {
    char before, after;
  };
  constexpr Marks kMarks[] = {{' ', ' '}, {'!', '!'}, {'[', ']'}, {'.', ' '}};
  const Marks marks = kMarks[static_cast<int>(cell.mark)];
  const std::string text =
      format("%c%s %2d%c", marks.before, fit_width(token_label(view, cell.token), width).c_str(),
             percent(cell.confidence), marks.after);
  return colour ? coloured(cell, text) : text;
}

int text_width(const LensView& view) {
  int width = kMinText;
  for (const LensColumn& column : view.table.columns) {
    for (const LensCell& cell : column.cells) {
      if (width == kMaxText) return width;
      width = std::clamp(display_width(token_label(view, cell.token)), width, kMaxText);
    }
  }
  return width;
}

void end_line(std::string& out) {
  out.erase(out.find_last_not_of(' ') + 1);
  out += '\n';
}

// Columns [begin, end).
std::string block(const LensView& view, const std::vector<double>& agreement, size_t begin,
                  size_t end, int width, bool colour) {
  const LensTable& table = view.table;
  const int cell_width = width + 5;
  std::string out = "layer same";
  for (size_t i = begin; i < end; ++i) out += format("  %-*zu", cell_width - 1, i + 1);
  end_line(out);
  for (int l = 1; l <= table.n_layers; ++l) {
    out += format("%3d%c %4.0f%%", l, table.is_check_layer(l) ? '*' : ' ', 100 * agreement[l - 1]);
    for (size_t i = begin; i < end; ++i) {
      out += ' ' + cell_text(view, table.columns[i].cells[l - 1], width, colour);
    }
    end_line(out);
  }
  out += fit_width("text", kLabelWidth);
  for (size_t i = begin; i < end; ++i) {
    const std::string text = fit_width(token_label(view, table.columns[i].token()), width);
    out += format("  %s    ", text.c_str());
  }
  end_line(out);
  return out;
}

std::string legend(bool colour) {
  const auto sample = [colour](LensMark mark, const char* text) {
    return colour ? coloured({0, 0, mark}, text) : std::string(text);
  };
  std::string shades;
  if (colour) {
    for (size_t i = 0; i < kShades.size(); ++i) {
      shades +=
          coloured({0, (static_cast<float>(i) + 0.5f) / kShades.size(), LensMark::kNone}, " ");
    }
    shades = " " + shades + " 0 to 100 %";
  }
  return "A cell: the layer's top token and its confidence in percent" + shades + ".\n" +
         sample(LensMark::kRight, "[right exit]") + "  " +
         sample(LensMark::kWrong, "!wrong exit!") + "  " +
         sample(LensMark::kAfter, ".after the right exit") +
         "  * a draft may leave here\nsame: how often the layer's token is the text's\n";
}

}  // namespace

TerminalStyle terminal_style(int fd, const char* name) {
  const bool terminal = isatty(fd) == 1;
  TerminalStyle style;
  style.colour = color_refusal(fd, name).empty();
  style.width = terminal ? 80 : 120;
  if (const char* given = std::getenv("COLUMNS")) {
    const std::optional<int64_t> columns = parse_int(given);
    if (columns && *columns >= 1 && *columns <= 10000) {
      style.width = static_cast<int>(*columns);
      return style;
    }
  }
  winsize size = {};
  if (terminal && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) style.width = size.ws_col;
  return style;
}

std::string lens_terminal(const LensView& view, const TerminalStyle& style) {
  const int width = text_width(view);
  const size_t cell = width + 6;
  const size_t n = view.table.columns.size();
  const size_t room = std::max(style.width - kLabelWidth, 0);
  const size_t per_block = std::max<size_t>(1, room / cell);
  const std::vector<double> agreement = summarize(view.table).agreement;
  std::string out;
  for (size_t begin = 0; begin < n; begin += per_block) {
    out +=
        block(view, agreement, begin, std::min(n, begin + per_block), width, style.colour) + '\n';
  }
  return out + legend(style.colour) + summary_line(view) + '\n';
}

}  // namespace specbound
