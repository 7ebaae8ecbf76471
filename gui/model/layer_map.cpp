#include "gui/model/layer_map.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>

#include "error.h"
#include "terminal/terminal_text.h"
#include "tools/lens.h"

namespace specbound::gui {

namespace {

std::optional<float> share(float value) {
  return std::isfinite(value) ? std::optional(std::clamp(value, 0.0f, 1.0f)) : std::nullopt;
}

const ExitCheck* check_at(const Column& column, int layer) {
  for (const ExitCheck& check : column.token.checks) {
    if (check.layer == layer) return &check;
  }
  return nullptr;
}

const Guess* guess_at(const Column& column, int layer) {
  if (layer < 1 || static_cast<size_t>(layer) > column.guesses.size()) return nullptr;
  return &column.guesses[layer - 1];
}

// A file may hold tokens of any length; no vocabulary does.
constexpr size_t kLongestText = 64;

// Between quotation marks a space is seen as it is.
std::string quoted(const std::string& whole) {
  const std::string bytes = whole.substr(0, kLongestText);
  std::string out = "\"";
  for (size_t begin = 0; begin <= bytes.size();) {
    const size_t end = std::min(bytes.find(' ', begin), bytes.size());
    out += visible_text(bytes.substr(begin, end - begin));
    if (end < bytes.size()) out += ' ';
    begin = end + 1;
  }
  return out + (whole.size() > kLongestText ? "...\"" : "\"");
}

std::string token_name(int32_t token, const std::optional<std::string>& text) {
  return text && !text->empty() ? quoted(*text) : format("token %d", token);
}

std::string layer_name(int layer) {
  return layer == 0 ? "before any layer" : format("at layer %d", layer);
}

std::string plural(int n, const char* what) {
  return format("%d %s%s", n, what, n == 1 ? "" : "s");
}

}  // namespace

MapCell map_cell(const ReplyTrace& reply, int column, int layer, int n_layers) {
  const Column& c = reply.columns[column];
  const TokenKind kind = c.kind();
  const bool drafted = kind != TokenKind::kVerified;
  MapCell cell;
  if (drafted && layer == c.token.exit_layer) {
    cell.mark = kind == TokenKind::kAccepted ? TokenKind::kAccepted : TokenKind::kRejected;
  } else if (kind != TokenKind::kAccepted && layer == n_layers) {
    cell.mark = TokenKind::kVerified;
  }
  cell.skipped = kind == TokenKind::kAccepted && layer > c.token.exit_layer;
  const ExitCheck* check = check_at(c, layer);
  const Guess* guess = guess_at(c, layer);
  cell.checked = check != nullptr;
  // Where a draft left, what the exit head thought is what counted; its guesses are better than the
  // logit lens'.
  const bool decided = cell.mark == TokenKind::kAccepted || cell.mark == TokenKind::kRejected;
  if (check && (decided || !guess)) {
    cell.confidence = share(check->confidence);
  } else if (guess) {
    cell.confidence = share(guess->probability);
  }
  return cell;
}

MapGroup map_group(const ReplyTrace& reply, int column, int first, int last, int n_layers) {
  MapGroup group{map_cell(reply, column, first, n_layers), first};
  // A draft that was wrong and the last layer's token may be in one group: the draft comes first.
  for (int layer = first + 1; layer <= last; ++layer) {
    const MapCell cell = map_cell(reply, column, layer, n_layers);
    const bool speaks = !group.cell.mark && (cell.mark || cell.confidence);
    const bool checked = group.cell.checked || cell.checked;
    const bool skipped = group.cell.skipped && cell.skipped;
    if (speaks) group = {cell, layer};
    group.cell.checked = checked;
    group.cell.skipped = skipped;
  }
  return group;
}

MiniColumn mini_column(const ReplyTrace& reply, int begin, int end, int n_layers) {
  constexpr int kMostLooks = 8;
  const int looks = std::min(end - begin, kMostLooks);
  int of_kind[3] = {};
  float depth = 0;
  for (int i = 0; i < looks; ++i) {
    const auto column = begin + static_cast<int>(int64_t{end - begin} * i / looks);
    const Column& c = reply.columns[column];
    const bool accepted = c.kind() == TokenKind::kAccepted;
    ++of_kind[static_cast<int>(c.kind())];
    depth += accepted ? static_cast<float>(c.token.exit_layer) / static_cast<float>(n_layers) : 1;
  }
  const auto most = std::max_element(std::begin(of_kind), std::end(of_kind));
  return {static_cast<TokenKind>(most - std::begin(of_kind)), depth / static_cast<float>(looks)};
}

int first_map_layer(const ReplyTrace& reply) {
  if (!reply.drafts_at.empty() && reply.drafts_at[0].total() > 0) return 0;
  for (const SettingsFrom& from : reply.settings) {
    const auto& settings = from.reply.settings;
    if (settings && !settings->check_layers.empty() && settings->check_layers.front() == 0) {
      return 0;
    }
  }
  return 1;
}

int map_layers(const ReplyTrace& reply) {
  if (reply.n_layers > 0) return reply.n_layers;
  return std::max<int>(1, static_cast<int>(reply.drafts_at.size()));
}

std::string short_text(const std::string& bytes) {
  const size_t begin = bytes.size() > 1 && bytes.front() == ' ' ? 1 : 0;
  return visible_text(bytes.substr(begin, kLongestText));
}

std::string cell_label(const TraceModel& trace, const ReplyTrace& reply, int column, int layer) {
  const Column& c = reply.columns[column];
  const int last = map_layers(reply);
  const MapCell cell = map_cell(reply, column, layer, last);
  if (cell.mark == TokenKind::kAccepted || cell.mark == TokenKind::kVerified) {
    return short_text(c.token.text);
  }
  if (cell.mark == TokenKind::kRejected) {
    return c.draft_text.empty() ? format("#%d", c.token.draft) : short_text(c.draft_text);
  }
  if (const Guess* guess = guess_at(c, layer)) {
    const auto text = trace.text(guess->token);
    if (!text) return format("#%d", guess->token);
    return text->empty() ? "(end)" : short_text(*text);  // only control tokens have no text
  }
  if (cell.checked && cell.confidence) return format("%d%%", percent(*cell.confidence));
  return "";
}

std::vector<std::string> describe_token(const ReplyTrace& reply, int column, int n_layers) {
  const Column& c = reply.columns[column];
  const TokenRecord& token = c.token;
  std::vector<std::string> lines;
  lines.push_back(token.ends_reply ? "The end of the reply"
                                   : token_name(token.token, token.text) +
                                         format(", token %d of the reply", column + 1));
  switch (c.kind()) {
    case TokenKind::kAccepted:
      lines.push_back(format("Drafted %s; the last layer agreed: accepted.",
                             layer_name(token.exit_layer).c_str()));
      if (token.exit_layer < n_layers) {
        lines.push_back(format("Layers %d to %d ran afterwards, for all %s of its round at once.",
                               token.exit_layer + 1, n_layers, plural(token.rows, "row").c_str()));
      }
      break;
    case TokenKind::kRejected: {
      const auto draft = c.draft_text.empty() ? std::nullopt : std::optional(c.draft_text);
      lines.push_back(format("%s was drafted %s; the last layer said %s: rejected.",
                             token_name(token.draft, draft).c_str(),
                             layer_name(token.exit_layer).c_str(),
                             token_name(token.token, token.text).c_str()));
      if (c.dropped > 0) {
        lines.push_back(format("%s behind it went with it.", plural(c.dropped, "draft").c_str()));
      }
      break;
    }
    case TokenKind::kVerified:
      lines.push_back(token.checks.empty()
                          ? "No layer was asked early: the last layer gave it."
                          : "No layer was sure enough to draft it: the last layer gave it.");
      break;
  }
  return lines;
}

std::vector<std::string> describe_cell(const TraceModel& trace, const ReplyTrace& reply, int column,
                                       int layer, int n_layers) {
  const Column& c = reply.columns[column];
  std::vector<std::string> lines;
  const Guess* guess = guess_at(c, layer);
  if (layer == 0) {
    lines.push_back("Before any layer: looked up in text, or guessed from the tokens before.");
  } else if (guess) {
    lines.push_back(format("%s %d would say %s, with probability %.2f.",
                           layer == n_layers ? "The last layer," : "Layer", layer,
                           token_name(guess->token, trace.text(guess->token)).c_str(),
                           share(guess->probability).value_or(0.0f)));
  } else {
    lines.push_back(
        format("What layer %d would say is not known here: it is worked out for the newest "
               "live reply, while the worker rests.",
               layer));
  }
  if (const ExitCheck* check = check_at(c, layer)) {
    const auto& settings = reply.settings_at(column).settings;
    const float sure = share(check->confidence).value_or(0.0f);
    const bool left = c.kind() != TokenKind::kVerified && c.token.exit_layer == layer;
    // A head may hold some guesses to a standard of its own, and a draft that would end the reply
    // is not made.
    const char* outcome = left                                ? "the token left here"
                          : settings && sure >= settings->tau ? "no draft came of it"
                                                              : "on it went";
    lines.push_back(format("Its exit head was %.2f sure%s: %s.", sure,
                           settings ? format(" (tau is %.2f)", settings->tau).c_str() : "",
                           outcome));
  }
  return lines;
}

std::vector<RoundSpan> round_spans(const ReplyTrace& reply, int begin, int end) {
  const int n = static_cast<int>(reply.columns.size());
  const auto round = [&](int i) { return reply.columns[i].token.round; };
  begin = std::clamp(begin, 0, n);
  end = std::clamp(end, begin, n);
  while (begin > 0 && begin < n && round(begin - 1) == round(begin)) --begin;
  std::vector<RoundSpan> spans;
  for (int i = begin; i < end;) {
    RoundSpan span{i, i + 1, round(i)};
    while (span.end < n && round(span.end) == span.round) ++span.end;
    spans.push_back(span);
    i = span.end;
  }
  return spans;
}

int MapLayout::first_column() const {
  return std::clamp(static_cast<int>(scroll / cell_width), 0, columns);
}

int MapLayout::end_column() const {
  const double end = std::ceil((scroll + view_width) / cell_width);
  return std::clamp(static_cast<int>(std::min<double>(end, columns)), 0, columns);
}

std::optional<int> MapLayout::column_at(float x) const {
  if (!(x >= 0 && x < view_width)) return std::nullopt;
  const double column = std::floor((scroll + x) / cell_width);
  if (column < 0 || column >= columns) return std::nullopt;
  return static_cast<int>(column);
}

void MapLayout::fit_rows(float room, float least, float most) {
  room = std::max(room - (lane() ? lane_gap : 0), 1.0f);
  const int most_rows = std::max(static_cast<int>(room / least) - (lane() ? 1 : 0), 1);
  group = std::max((n_layers + most_rows - 1) / most_rows, 1);
  cell_height = std::floor(std::clamp(room / static_cast<float>(rows()), 1.0f, most));
}

std::optional<int> MapLayout::row_at(float y) const {
  if (!(y >= 0 && y < height())) return std::nullopt;
  if (lane() && y >= cell_height) {
    // Between the two is neither.
    y -= lane_gap;
    if (y < cell_height) return std::nullopt;
  }
  return std::min(static_cast<int>(y / cell_height), rows() - 1);
}

const ReplyTrace* MapFocus::choose(const TraceModel& trace, uint64_t newest,
                                   const std::optional<TokenRef>& selected) {
  if (newest != newest_) shown_ = newest_ = newest;
  if (selected != selected_) {
    selected_ = selected;
    shown_ = selected ? selected->reply : newest;
  }
  const ReplyTrace* reply = trace.find(shown_);
  return reply ? reply : trace.find(newest);
}

void MapScroll::clamp(MapLayout& layout) {
  scroll_ = following_ ? layout.max_scroll() : std::clamp(scroll_, 0.0, layout.max_scroll());
  layout.scroll = scroll_;
}

void MapScroll::set(double scroll, const MapLayout& layout) {
  scroll_ = std::clamp(scroll, 0.0, layout.max_scroll());
  following_ = scroll_ >= layout.max_scroll() - 1;
}

void MapScroll::reveal(int column, const MapLayout& layout) {
  const double left = static_cast<double>(column) * layout.cell_width;
  if (left >= scroll_ && left + layout.cell_width <= scroll_ + layout.view_width) {
    following_ = false;
    return;
  }
  set(left + layout.cell_width / 2 - layout.view_width / 2, layout);
}

}  // namespace specbound::gui
