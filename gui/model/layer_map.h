// The layer map, paper Figure 1, apart from drawing: columns are tokens, rows are layers from the
// first at the top to the last at the bottom. Where a cell lies, what it shows, what is said of it
// under the pointer, and how the map scrolls with the text.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "gui/model/trace_model.h"

namespace specbound::gui {

struct MapCell {
  // What became of the token, in the cell that decided it: drafted here, right or wrong, or the
  // last layer's, where no right draft was.
  std::optional<TokenKind> mark = {};
  std::optional<float> confidence = {};  // 0..1; none: nobody asked this layer
  bool checked = false;                  // an exit head did
  // The token had left already, and rightly: the layer ran later, for the whole round at once.
  bool skipped = false;
};

MapCell map_cell(const ReplyTrace& reply, int column, int layer, int n_layers);

// Layers [first, last] as one cell: what decided the token is shown where it is among them, else
// what the deepest layer that was asked had to say. `layer`: the one that speaks for them.
struct MapGroup {
  MapCell cell;
  int layer;
};
MapGroup map_group(const ReplyTrace& reply, int column, int first, int last, int n_layers);

// Columns [begin, end) as one of a map of the whole reply: the commonest kind among them, and how
// far down they went on average, 1 to the last layer. Of many some are looked at.
// Precondition: begin < end <= columns.
struct MiniColumn {
  TokenKind kind;
  float depth;
};
MiniColumn mini_column(const ReplyTrace& reply, int begin, int end, int n_layers);

// The first row of the map: 0 (drafts before any layer) only where such drafts are made.
int first_map_layer(const ReplyTrace& reply);
// Layers of the model; as far as the reply tells, where no model told.
int map_layers(const ReplyTrace& reply);

// What the cell says in a few letters, empty where there is nothing to say: the token drafted here,
// the layer's guess, or how sure the exit head was.
std::string cell_label(const TraceModel& trace, const ReplyTrace& reply, int column, int layer);
// A token's text as it stands in a narrow cell: without the space in front.
std::string short_text(const std::string& bytes);

// For the tooltip: what happened to the token, in whole sentences, the newest question last.
std::vector<std::string> describe_token(const ReplyTrace& reply, int column, int n_layers);
// And what this layer had to say of it.
std::vector<std::string> describe_cell(const TraceModel& trace, const ReplyTrace& reply, int column,
                                       int layer, int n_layers);

// Tokens that came out of one round: columns [begin, end).
struct RoundSpan {
  int begin, end;
  int round;
};
// The rounds that columns [begin, end) belong to, whole.
std::vector<RoundSpan> round_spans(const ReplyTrace& reply, int begin, int end);

// Where cells lie. x and y are measured from the top left of the cells' own area, `scroll` pixels
// of the map lie left of it. What is drafted before any layer has a row of its own on top, a little
// apart; where there is no room for a row a layer, a row stands for several.
struct MapLayout {
  int columns = 0;
  int first_layer = 1, n_layers = 0;
  int group = 1;  // layers a row
  float cell_width = 1, cell_height = 1;
  float lane_gap = 0;  // below the row of what is before any layer
  float view_width = 0;
  double scroll = 0;

  // Rows into `room`, of that height at most, and at least where the room has one as high.
  void fit_rows(float room, float least, float most);
  bool lane() const { return first_layer == 0; }
  int rows() const { return (lane() ? 1 : 0) + (n_layers + group - 1) / group; }
  int row_of(int layer) const {
    return lane() && layer == 0 ? 0 : (std::max(layer, 1) - 1) / group + lane();
  }
  // Layers first_of(row) to last_of(row) are in a row.
  int first_of(int row) const { return lane() && row == 0 ? 0 : (row - lane()) * group + 1; }
  int last_of(int row) const {
    return lane() && row == 0 ? 0 : std::min(first_of(row) + group - 1, n_layers);
  }
  float row_y(int row) const {
    return static_cast<float>(row) * cell_height + (lane() && row > 0 ? lane_gap : 0);
  }
  float height() const { return row_y(rows()); }
  double width() const { return static_cast<double>(columns) * cell_width; }
  double max_scroll() const { return width() > view_width ? width() - view_width : 0; }
  // Columns [first_column(), end_column()) are visible.
  int first_column() const;
  int end_column() const;
  float x(int column) const {
    return static_cast<float>(static_cast<double>(column) * cell_width - scroll);
  }
  std::optional<int> column_at(float x) const;
  std::optional<int> row_at(float y) const;
};

// Which reply the map shows: the one that was looked for last, be it because it began or because a
// token of it was selected.
class MapFocus {
 public:
  // nullptr: none. `newest`: the reply that is shown where nothing is selected.
  const ReplyTrace* choose(const TraceModel& trace, uint64_t newest,
                           const std::optional<TokenRef>& selected);

 private:
  uint64_t shown_ = 0, newest_ = 0;
  std::optional<TokenRef> selected_;
};

// Follows the newest token until somebody looks at older ones; goes on when the end is reached
// again.
class MapScroll {
 public:
  bool following() const { return following_; }
  void follow() { following_ = true; }
  // To the place for this frame; the layout is as long and wide as it is now.
  void clamp(MapLayout& layout);
  void move(double pixels, const MapLayout& layout) { set(scroll_ + pixels, layout); }
  void set(double scroll, const MapLayout& layout);
  // Brings a column into view, in the middle unless it is in view already.
  void reveal(int column, const MapLayout& layout);
  // Cells are wider now by this factor; what stood at `x` stays there.
  void zoom(float factor, float x) { scroll_ = std::max(0.0, (scroll_ + x) * factor - x); }
  // Another reply is shown.
  void reset() { *this = {}; }

 private:
  double scroll_ = 0;
  bool following_ = true;
};

}  // namespace specbound::gui
