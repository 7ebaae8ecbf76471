#include "gui/view/markdown_text.h"

#include <algorithm>
#include <cmath>

#include "gui/view/fonts.h"
#include "gui/view/probe.h"
#include "gui/view/rich_shapes.h"
#include "gui/view/theme.h"
#include "gui/view/widgets.h"

namespace specbound::gui {

namespace {

// A part that is longer than this, and not settled, is parsed again once it has grown by a share;
// so is one of any length that was refused.
constexpr size_t kPatientFrom = 4096, kPatience = 64;
// In points.
constexpr float kBlockGap = 9, kListIndent = 26, kQuoteIndent = 14, kBlockPad = 8,
                kLeastColumn = 44;

TextMetrics metrics_with(ImFont* font, float& line) {
  ImGui::PushFont(font);
  const TextMetrics metrics = font_metrics();
  line = SelectableText::line_height();
  ImGui::PopFont();
  return metrics;
}

}  // namespace

void MarkdownText::begin_frame() {
  std::erase_if(entries_, [&](const auto& item) { return item.second.used < frame_; });
  ++frame_;
  mouse_.begin_frame();
  const Theme& t = theme();
  body_ = metrics_with(fonts().body, metrics_.body_line);
  heading_ = metrics_with(fonts().heading, metrics_.heading_line);
  mono_ = metrics_with(fonts().mono, metrics_.mono_line);
  metrics_.body = &body_;
  metrics_.heading = &heading_;
  metrics_.mono = &mono_;
  metrics_.gap = t.px(kBlockGap);
  metrics_.list = t.px(kListIndent);
  metrics_.quote = t.px(kQuoteIndent);
  metrics_.pad = t.px(kBlockPad);
  metrics_.code_header = metrics_.body_line;
  metrics_.least_column = t.px(kLeastColumn);
}

bool MarkdownText::update(uint64_t key, std::string_view text, bool growing, float width) {
  if (!markdown_available()) return false;
  Entry& entry = entries_[key];
  entry.used = frame_;
  const std::string_view source = growing ? text.substr(0, whole_characters(text)) : text;
  size_t kept = entry.rich.blocks.size();
  if (source.size() != entry.read || entry.complete == growing) {
    if (source.size() < entry.read) {
      entry = Entry();
      entry.used = frame_;
    }
    entry.complete = !growing;
    const bool laid_out = entry.good;
    entry.good = parse(entry, source, kept);
    entry.read = source.size();
    if (!laid_out) kept = 0;  // parts may have settled while the rest was refused
  } else if (entry.good && entry.layout.fits(width, metrics_)) {
    return true;
  }
  if (entry.good) entry.layout.update(entry.rich, kept, width, metrics_);
  return entry.good;
}

// `kept`: the blocks that are as they were.
bool MarkdownText::parse(Entry& entry, std::string_view text, size_t& kept) {
  const auto append = [&](size_t begin, size_t end) {
    work_ += end - begin;
    return append_markdown(entry.rich, text.substr(0, end), begin);
  };
  kept = 0;
  if (text.size() > kMostBytes) return false;
  if (entry.complete) {
    // What stands far below may mean something for what is above.
    entry.rich = {};
    entry.settled = entry.parsed = entry.refused = 0;
    entry.settled_mark = entry.parsed_mark = {};
    return append(0, text.size());
  }
  const size_t pending = entry.parsed - entry.settled;
  const bool patient = entry.good && !entry.rich.blocks.empty() && pending > kPatientFrom;
  if (patient && text.size() - entry.parsed < pending / kPatience) {
    // To parse a long part again at each of its tokens would take longer and longer.
    entry.rich.cut(entry.parsed_mark);
    entry.rich.extend(text.substr(entry.parsed), entry.parsed);
    kept = entry.rich.blocks.size() - 1;
    return true;
  }
  if (entry.refused > 0 &&
      text.size() - entry.refused < (entry.refused - entry.settled) / kPatience) {
    return false;
  }
  // Where what is pending shows nothing, what came behind it was taken into the last settled block.
  const bool lengthened = entry.parsed_mark.blocks == entry.settled_mark.blocks;
  entry.rich.cut(entry.settled_mark);
  entry.refused = text.size();
  const size_t settled = settled_markdown(text, entry.settled);
  if (text.size() - settled > kMostUnsettled) return false;
  kept = entry.settled_mark.blocks;
  if (lengthened && kept > 0) --kept;
  if (settled > entry.settled) {
    if (!append(entry.settled, settled)) return false;
    entry.settled = entry.parsed = settled;
    entry.settled_mark = entry.parsed_mark = entry.rich.mark();
  }
  if (!append(settled, text.size())) return false;
  entry.refused = 0;
  entry.parsed = text.size();
  entry.parsed_mark = entry.rich.mark();
  return true;
}

float MarkdownText::top_of(uint64_t key, size_t at) const {
  const Entry& e = entry(key);
  return e.layout.y_of(e.rich.shown_at(at));
}

std::string_view MarkdownText::shown(uint64_t key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() || !found->second.good ? std::string_view()
                                                        : std::string_view(found->second.rich.text);
}

SelectableText::Result MarkdownText::draw(uint64_t key, float width, const TokenStyles& tokens,
                                          Probe& probe, const std::string& name) {
  const Entry& e = entry(key);
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  ImGui::PushID(static_cast<int>(key));
  // The buttons of code lie upon it.
  begin_overlapped_item("text", {std::max(width, 1.0f), std::max(e.layout.height(), 1.0f)});
  SelectableText::Result result{
      mouse_.take({key, e.rich.text, e.rich.text.size(),
                   [&](bool inside) { return byte_under_mouse(e, origin, inside); }}),
      origin};
  if (result.over) {
    const RichSpan& span = e.rich.spans[e.rich.span_at(*result.over)];
    const bool known = span.raw != RichSpan::kNowhere;
    result.over = known ? std::optional(span.raw + (*result.over - span.begin)) : std::nullopt;
  }
  const TextRange selected = mouse_.selected(key);
  const ImDrawList& list = *ImGui::GetWindowDrawList();
  const float top = list.GetClipRectMin().y - origin.y, bottom = list.GetClipRectMax().y - origin.y;
  const auto& blocks = e.layout.blocks();
  const auto first = std::partition_point(blocks.begin(), blocks.end(),
                                          [&](const auto& block) { return block.bottom < top; });
  for (auto i = static_cast<size_t>(first - blocks.begin()); i < blocks.size(); ++i) {
    if (blocks[i].y > bottom) break;
    draw_block(e, i, origin, probe, name);
  }
  const auto& lines = e.layout.lines();
  const auto line = std::partition_point(lines.begin(), lines.end(),
                                         [&](const auto& l) { return l.y + l.height < top; });
  for (auto i = static_cast<size_t>(line - lines.begin()); i < lines.size(); ++i) {
    if (lines[i].y > bottom) break;
    draw_line(e, lines[i], origin, selected, tokens);
  }
  if (!lines.empty()) {
    const RichLayout::Line& last = lines.back();
    result.end = {origin.x + last.x + rich_x_of(e.rich, last, last.end, metrics_),
                  origin.y + last.y};
  }
  ImGui::PopID();
  return result;
}

size_t MarkdownText::byte_under_mouse(const Entry& entry, ImVec2 origin, bool inside) const {
  const auto& lines = entry.layout.lines();
  const ImVec2 mouse = ImGui::GetMousePos();
  const float x = mouse.x - origin.x, y = mouse.y - origin.y;
  // Above all lines is before the text, below them behind it.
  if (lines.empty() || (!inside && y >= entry.layout.height())) return entry.rich.text.size();
  if (!inside && y < 0) return 0;
  const RichLayout::Line& line = lines[entry.layout.line_at(x, y)];
  // Beside its line, or between blocks, the mouse is over no character.
  if (inside && (x < line.x || y >= line.y + line.height)) return entry.rich.text.size();
  const size_t at = rich_byte_at(entry.rich, line, x - line.x, metrics_, inside);
  return inside && at == line.end ? entry.rich.text.size() : at;
}

void MarkdownText::draw_block(const Entry& entry, size_t index, ImVec2 origin, Probe& probe,
                              const std::string& name) const {
  const Theme& t = theme();
  const RichBlock& block = entry.rich.blocks[index];
  const RichLayout::Block& box = entry.layout.blocks()[index];
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImVec2 min{origin.x + box.x, origin.y + box.y},
      max{origin.x + box.right, origin.y + box.bottom};
  float x = origin.x;
  for (size_t i = 0; i < block.nest.size(); ++i) {
    if (block.nest[i] == 'q') {
      // On from the block above, where that is in the same quotation.
      const bool goes_on =
          index > 0 && entry.rich.blocks[index - 1].nest.starts_with(block.nest.substr(0, i + 1));
      const float above = goes_on ? entry.layout.blocks()[index - 1].bottom : box.y;
      list.AddRectFilled({x + t.px(2), origin.y + above}, {x + t.px(5), max.y}, t.faint, t.px(1));
    }
    x += block.nest[i] == 'q' ? metrics_.quote : metrics_.list;
  }
  if (block.marker.begin < block.marker.end) {
    const TextLayout::Line marker{block.marker.begin, block.marker.end};
    const float width = x_of(entry.rich.text, marker, marker.end, body_);
    const float height = metrics_.body_line;
    draw_characters({std::floor(min.x - width - t.px(7)),
                     min.y + std::floor((height - ImGui::GetFontSize()) / 2)},
                    t.dim, entry.rich.text.substr(marker.begin, marker.end - marker.begin), body_);
  }
  switch (block.kind) {
    case RichBlock::Kind::kRule:
      list.AddLine({min.x, max.y - t.px(1)}, {max.x, max.y - t.px(1)}, t.border, t.px(1));
      break;
    case RichBlock::Kind::kCode:
      list.AddRectFilled(min, max, code_background(), t.px(6));
      draw_code_header(entry, index, origin, probe, name);
      break;
    case RichBlock::Kind::kTable:
      draw_table(box, origin);
      if (probe.on()) probe.rect(name + ".table." + std::to_string(index), min, max);
      break;
    default:
      break;
  }
  if (probe.on() && block.kind == RichBlock::Kind::kHeading) {
    probe.rect(name + ".heading." + std::to_string(index), min, max);
  }
}

void MarkdownText::draw_code_header(const Entry& entry, size_t index, ImVec2 origin, Probe& probe,
                                    const std::string& name) const {
  const Theme& t = theme();
  const RichBlock& block = entry.rich.blocks[index];
  const RichLayout::Block& box = entry.layout.blocks()[index];
  const ImVec2 at{origin.x + box.x + metrics_.pad, origin.y + box.y};
  const float right = origin.x + box.right - metrics_.pad;
  const float button = ImGui::CalcTextSize("Copy code").x + 2 * ImGui::GetStyle().FramePadding.x;
  const std::string number = std::to_string(index);
  if (probe.on()) {
    probe.rect(name + ".code." + number, {origin.x + box.x, at.y},
               {origin.x + box.right, origin.y + box.bottom});
    probe.value(name + ".language." + number, block.language);
  }
  const float middle = at.y + std::floor((metrics_.code_header - ImGui::GetFontSize()) / 2);
  const std::string language = fitted(block.language, right - button - at.x);
  use_glyphs(language);
  ImGui::GetWindowDrawList()->AddText({at.x, middle}, t.dim, language.c_str());
  const ImVec2 before = ImGui::GetCursorScreenPos();
  ImGui::PushID(static_cast<int>(index));
  ImGui::SetCursorScreenPos({std::max(right - button, at.x), middle});
  if (quiet_button("Copy code")) {
    const std::string_view text = entry.rich.text;
    const auto [begin, end] = block.text;
    ImGui::SetClipboardText(clipboard_text(text.substr(begin, end - begin)).c_str());
  }
  probe.item(name + ".copy." + number);
  ImGui::PopID();
  ImGui::SetCursorScreenPos(before);
}

void MarkdownText::draw_table(const RichLayout::Block& box, ImVec2 origin) const {
  if (box.columns.empty()) return;
  const Theme& t = theme();
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float left = origin.x + box.columns.front(), right = origin.x + box.columns.back();
  const float top = origin.y + box.rows.front(), bottom = origin.y + box.rows.back();
  if (box.rows.size() > 1) {
    list.AddRectFilled({left, top}, {right, origin.y + box.rows[1]}, code_background());
  }
  const float seen_top = list.GetClipRectMin().y, seen_bottom = list.GetClipRectMax().y;
  for (const float row : box.rows) {
    const float y = origin.y + row;
    if (y < seen_top || y > seen_bottom) continue;
    list.AddLine({left, y}, {right, y}, t.border, t.px(1));
  }
  for (const float column : box.columns) {
    const float x = origin.x + column;
    list.AddLine({x, top}, {x, bottom}, t.border, t.px(1));
  }
}

void MarkdownText::draw_line(const Entry& entry, const RichLayout::Line& line, ImVec2 origin,
                             TextRange selected, const TokenStyles& tokens) const {
  const RichText& rich = entry.rich;
  const RichBlock& block = rich.blocks[line.block];
  const ImVec2 at{origin.x + line.x, origin.y + line.y};
  std::vector<RichPiece> pieces;
  float x = at.x;
  each_piece(rich, line.begin, line.end, [&](TextRange bytes, const RichSpan& span) {
    const RichFont font = font_of(block, span.style);
    const TextMetrics& metrics = metrics_of(metrics_, font);
    const float width = x_of(rich.text, {bytes.begin, bytes.end}, bytes.end, metrics);
    const uint8_t heading = block.kind == RichBlock::Kind::kHeading ? kBold : 0;
    pieces.push_back(
        {bytes, static_cast<uint8_t>(span.style | heading), font, &metrics, {x, at.y}, width});
    if (font == RichFont::kMono && block.kind != RichBlock::Kind::kCode) {
      draw_code_box({x, at.y}, width, line.height);
    }
    if (span.raw != RichSpan::kNowhere) {
      draw_tokens(rich.text, bytes,
                  static_cast<std::ptrdiff_t>(span.raw) - static_cast<std::ptrdiff_t>(span.begin),
                  {x, at.y}, line.height, metrics, tokens);
    }
    x += width;
  });
  if (selected.begin < selected.end && selected.begin <= line.end && selected.end > line.begin) {
    // A line end that is selected, too, is a stub behind the text.
    const float stub = selected.end > line.end ? ImGui::GetFontSize() / 3 : 0;
    ImGui::GetWindowDrawList()->AddRectFilled(
        {at.x + rich_x_of(rich, line, selected.begin, metrics_), at.y},
        {at.x + rich_x_of(rich, line, selected.end, metrics_) + stub, at.y + line.height},
        theme().selection);
  }
  const RichFont main = font_of(block, 0);
  for (const RichPiece& piece : pieces) draw_piece(rich.text, piece, line.height, main);
}

}  // namespace specbound::gui
