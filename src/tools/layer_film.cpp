#include "tools/layer_film.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "error.h"
#include "terminal/terminal_text.h"
#include "text/utf8.h"
#include "train/svg.h"

namespace specbound {

namespace {

constexpr int kFilmWidth = 1280, kFilmMargin = 16, kMapLeft = 76, kMapTop = 84;
constexpr int kColumn = 18;  // pixels of a token
constexpr int kColumns = (kFilmWidth - kMapLeft - kFilmMargin) / kColumn;
constexpr double kMapHeight = 420, kLeastRow = 5, kMostRow = 22;
constexpr int kLineHeight = 24, kLines = 4;  // of text below the map
constexpr double kCharacter = 9;             // pixels of one, 15 px monospace
constexpr int kLineColumns = int((kFilmWidth - kMapLeft - kFilmMargin) / kCharacter);
constexpr double kTokensPerSecond = 12;        // that an eye can follow
constexpr double kLeadIn = 0.5, kLeadOut = 3;  // seconds of the film before the reply and behind it

constexpr const char* kFilmStyle =
    "<style>\n"
    "text{font:15px ui-monospace,Menlo,Consolas,\"DejaVu Sans Mono\",monospace;fill:#111}\n"
    ".s{font-size:12px;fill:#555}\n"
    ".n{font-size:12px;fill:#555;text-anchor:end}\n"
    ".h{font-size:18px;font-weight:bold}\n"
    ".all{fill:#b3bac2}\n"
    ".rest{fill:#e6ebf0}\n"
    ".draft{fill:none;stroke:#555;stroke-width:1.5}\n"
    ".wrong{fill:none;stroke:#d01c1c;stroke-width:2}\n"
    "</style>\n";

// Green over yellow to red by depth; blue for what was drafted before any layer.
std::string depth_color(int layer, int n_layers) {
  struct Rgb {
    double r, g, b;
  };
  if (layer <= 0) return "#2b6cb0";
  constexpr Rgb kStops[] = {{26, 152, 80}, {253, 187, 45}, {215, 48, 39}};
  const double at = n_layers > 1 ? 2.0 * (std::min(layer, n_layers) - 1) / (n_layers - 1) : 0;
  const int stop = at < 1 ? 0 : 1;
  const Rgb &a = kStops[stop], &b = kStops[stop + 1];
  const auto mix = [&](double from, double to) {
    return static_cast<int>(std::lround(from + (at - stop) * (to - from)));
  };
  return format("#%02x%02x%02x", mix(a.r, b.r), mix(a.g, b.g), mix(a.b, b.b));
}

std::string filled(const std::string& color) {
  return "fill=\"" + color + "\"";
}

// Rows of the map, the lane of what is drafted before any layer first, where there is one.
struct Rows {
  int n_layers;
  bool lane;
  double height;

  Rows(int layers, bool has_lane) : n_layers(layers), lane(has_lane) {
    height = std::clamp(kMapHeight / (layers + lane), kLeastRow, kMostRow);
  }
  double top(int layer) const { return (std::clamp(layer, 0, n_layers) - 1 + lane) * height; }
  double bottom() const { return (n_layers + lane) * height; }
};

// When things happen in the film, in seconds of it.
class FilmClock {
 public:
  FilmClock(double seconds, size_t tokens) {
    const double wanted = static_cast<double>(tokens) / kTokensPerSecond;
    slow_ = seconds > 0 ? std::max(1.0, wanted / seconds) : 1;
    length_ = kLeadIn + slow_ * seconds + kLeadOut;
  }
  double at(double decode_seconds) const { return kLeadIn + slow_ * decode_seconds; }
  double slow() const { return slow_; }
  double length() const { return length_; }

 private:
  double slow_, length_;
};

// `inner` from second `begin` of the film on.
std::string shown_from(double begin, const std::string& inner) {
  return format(
             "<g><set attributeName=\"visibility\" to=\"hidden\" begin=\"film.begin\" "
             "dur=\"%.3fs\"/>\n",
             begin) +
         inner + "</g>\n";
}

// `inner` from `begin` to `end`; not at all where nothing plays.
std::string shown_between(double begin, double end, const std::string& inner) {
  return format(
             "<g visibility=\"hidden\"><set attributeName=\"visibility\" to=\"visible\" "
             "begin=\"film.begin+%.3fs\" dur=\"%.3fs\"/>\n",
             begin, std::max(end - begin, 0.001)) +
         inner + "</g>\n";
}

// Where a group is moved to, from when on.
class Moves {
 public:
  void add(double second, double x, double y) {
    if (!times_.empty() && x == x_ && y == y_) return;
    x_ = x;
    y_ = y;
    times_.push_back(second);
    values_ += format("%s%.6g %.6g", values_.empty() ? "" : ";", x, y);
  }
  std::string animation(double length) const {
    std::string keys;
    for (const double time : times_) {
      keys += format("%s%.6f", keys.empty() ? "" : ";", std::min(time / length, 1.0));
    }
    return format(
        "<animateTransform attributeName=\"transform\" type=\"translate\" "
        "calcMode=\"discrete\" begin=\"film.begin\" dur=\"%.3fs\" keyTimes=\"%s\" "
        "values=\"%s\"/>\n",
        length, keys.c_str(), values_.c_str());
  }

 private:
  std::vector<double> times_;
  std::string values_;
  double x_ = 0, y_ = 0;
};

// A token's column: the layers it went through before it left, those that verified it, and the last
// layer, where it came from there.
std::string token_column(const Rows& rows, double x, const TokenRecord& token) {
  const double width = kColumn - 2;
  const auto bar = [&](int first, int last, const std::string& how) {
    const double top = rows.top(first);
    return svg_rect(x, top + 0.5, width, rows.top(last) + rows.height - top - 1, how);
  };
  std::string out;
  const int left = std::clamp(token.exit_layer, 0, rows.n_layers);
  if (!token.accepted()) {
    out += bar(1, rows.n_layers, "class=\"all\"");
    if (token.draft >= 0) out += bar(left, left, "class=\"wrong\"");
    return out;
  }
  if (left < rows.n_layers) out += bar(left + 1, rows.n_layers, "class=\"rest\"");
  return out + bar(std::min(left, 1), left, filled(depth_color(left, rows.n_layers)));
}

// What was drafted in a round whose first token is column `first`, each where it was.
std::string drafts(const Rows& rows, const RoundRecord& round, size_t first) {
  std::string out;
  std::vector<int> depth(round.rows.size(), 0), ordinal(round.rows.size(), 0);
  for (size_t i = 1; i < round.rows.size(); ++i) {
    const RowRecord& row = round.rows[i];
    if (row.parent < 0 || static_cast<size_t>(row.parent) >= i) continue;
    depth[i] = depth[static_cast<size_t>(row.parent)] + 1;
    const int inset = std::min(ordinal[static_cast<size_t>(row.parent)]++, 4);  // among siblings
    const double x = static_cast<double>(first + static_cast<size_t>(depth[i]) - 1) * kColumn;
    out += svg_rect(x + 1 + 1.5 * inset, rows.top(row.drafted_at) + 1, kColumn - 4 - 3 * inset,
                    std::max(rows.height - 2, 2.0), "class=\"draft\"");
  }
  return out;
}

// Text of tokens, line by line as wide as the map.
class TextLines {
 public:
  // The token's whole characters in its colour, where they stand.
  std::string add(const TokenRecord& token, const Rows& rows) {
    std::string out, word;
    const std::string color = token.accepted() ? depth_color(token.exit_layer, rows.n_layers) : "";
    const auto flush = [&] {
      if (word.empty()) return;
      const int wide = display_width(word);
      if (column_ > 0 && column_ + wide > kLineColumns) new_line();
      std::string how = "xml:space=\"preserve\"";
      if (!color.empty()) how += " style=\"fill:" + color + "\"";  // before the style's own
      out += svg_text(column_ * kCharacter, line_ * kLineHeight, how.c_str(), word);
      column_ += wide;
      word.clear();
    };
    std::string text = utf8_.push(token.text);
    for (size_t at = 0; at < text.size();) {
      const Utf8Head head = utf8_head(std::string_view(text).substr(at));
      const std::string_view character =
          std::string_view(text).substr(at, static_cast<size_t>(head.length));
      at += static_cast<size_t>(head.length);
      if (character == "\n") {
        flush();
        new_line();
      } else {
        word += character == " " ? " " : visible_text(character);
      }
    }
    flush();
    return out;
  }
  int line() const { return line_; }

 private:
  void new_line() {
    ++line_;
    column_ = 0;
  }

  Utf8Stream utf8_;
  int line_ = 0, column_ = 0;
};

std::string layer_labels(const Rows& rows) {
  std::string out;
  if (rows.lane) out += svg_text(kMapLeft - 8, kMapTop + rows.height - 3, "class=\"n\"", "drafts");
  const int step = std::max(1, static_cast<int>(std::ceil(14 / rows.height)));
  for (int layer = 1; layer <= rows.n_layers; ++layer) {
    if (layer != 1 && layer != rows.n_layers && layer % (5 * ((step + 4) / 5)) != 0) continue;
    if (layer != rows.n_layers && layer != 1 && (rows.n_layers - layer) * rows.height < 14)
      continue;
    out += svg_text(kMapLeft - 8, kMapTop + rows.top(layer) + rows.height / 2 + 4, "class=\"n\"",
                    std::to_string(layer));
  }
  return out;
}

std::string film_legend(const Rows& rows) {
  double x = kMapLeft;
  const double y = 52;
  std::string out;
  const auto sample = [&](const std::string& how, const char* text) {
    out += svg_rect(x, y, 14, 12, how) + svg_text(x + 20, y + 11, "class=\"s\"", text);
    x += 20 + 7.5 * static_cast<double>(std::string_view(text).size()) + 18;
  };
  if (rows.lane) sample(filled(depth_color(0, rows.n_layers)), "drafted before layer 1");
  sample(filled(depth_color(1, rows.n_layers)), "left at a shallow layer");
  sample(filled(depth_color(rows.n_layers, rows.n_layers)), "at a deep one");
  sample("class=\"all\"", "the last layer's");
  sample("class=\"draft\"", "drafted, not yet verified");
  sample("class=\"wrong\"", "the draft was wrong");
  return out;
}

}  // namespace

void LayerFilm::add(RoundRecord round) {
  SB_CHECK(!whole());
  tokens_ += round.tokens.size();
  rounds_.push_back(std::move(round));
}

std::string LayerFilm::svg() const {
  const bool lane = std::ranges::any_of(rounds_, [](const RoundRecord& round) {
    return std::ranges::any_of(round.rows,
                               [](const RowRecord& row) { return row.drafted_at == 0; });
  });
  const Rows rows(std::max(n_layers_, 1), lane);
  const double seconds = rounds_.empty() ? 0 : rounds_.back().decode_seconds;
  const FilmClock clock(seconds, tokens_);
  std::string map, text;
  Moves map_moves, text_moves;
  map_moves.add(0, 0, 0);
  text_moves.add(0, 0, 0);
  TextLines lines;
  size_t at = 0;  // columns so far
  double begun = 0;
  for (const RoundRecord& round : rounds_) {
    const double drafted =
        std::min(begun + round.seconds({Phase::kDraft, Phase::kCheck}), round.decode_seconds);
    const double end = clock.at(round.decode_seconds);
    const std::string hollow = drafts(rows, round, at);
    if (!hollow.empty()) map += shown_between(clock.at(drafted), end, hollow);
    std::string columns, words;
    for (const TokenRecord& token : round.tokens) {
      columns += token_column(rows, static_cast<double>(at++) * kColumn, token);
      if (!token.ends_reply) words += lines.add(token, rows);
    }
    map += shown_from(end, columns);
    if (!words.empty()) text += shown_from(end, words);
    // The columns of the next round's drafts are in view too.
    const size_t ahead = at + 8;
    if (ahead > kColumns) map_moves.add(end, -static_cast<double>(ahead - kColumns) * kColumn, 0);
    if (lines.line() >= kLines)
      text_moves.add(end, 0, -double(lines.line() - kLines + 1) * kLineHeight);
    begun = round.decode_seconds;
  }

  const double map_bottom = kMapTop + rows.bottom(), text_top = map_bottom + 20;
  const double height = text_top + kLines * kLineHeight + kFilmMargin;
  std::string out = svg_open(kFilmWidth, static_cast<int>(std::lround(height))) + kFilmStyle;
  out += "<rect width=\"100%\" height=\"100%\" fill=\"#fff\">";
  out += format(
      "<animate id=\"film\" attributeName=\"opacity\" from=\"1\" to=\"1\" "
      "begin=\"0s;film.end\" dur=\"%.3fs\"/></rect>\n",
      clock.length());
  out += svg_text(kMapLeft, 32, "class=\"h\"",
                  visible_text(model_.substr(model_.rfind('/') + 1)) +
                      format(": %zu tokens in %zu passes through %d layers", tokens_,
                             rounds_.size(), rows.n_layers));
  const std::string speed =
      format("%.0f tokens a second%s", seconds > 0 ? static_cast<double>(tokens_) / seconds : 0,
             clock.slow() > 1 ? format(", shown %.3g times slower", clock.slow()).c_str() : "");
  out += svg_text(kFilmWidth - kFilmMargin, 32, "class=\"n\"", speed);
  out += film_legend(rows) + layer_labels(rows);
  const auto window = [&](double top, double tall, const Moves& moves, const std::string& inner) {
    return format("<svg x=\"%d\" y=\"%.6g\" width=\"%d\" height=\"%.6g\"><g>\n", kMapLeft, top,
                  kFilmWidth - kMapLeft - kFilmMargin, tall) +
           moves.animation(clock.length()) + inner + "</g></svg>\n";
  };
  out += window(kMapTop, rows.bottom(), map_moves, map);
  out += window(text_top, kLines * kLineHeight, text_moves,
                "<g transform=\"translate(0 17)\">\n" + text + "</g>\n");
  return out + "</svg>\n";
}

}  // namespace specbound
