// Markdown by md4c, whose library is opened at run time: a program with the desktop app in it
// starts on machines that lack it, where replies are shown as they were written.
#include <dlfcn.h>
#include <md4c.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "gui/model/markdown.h"
#include "text/utf8.h"

namespace specbound::gui {

namespace {

// Of md4c 0.4, whose structures are those of md4c.h up to what later versions added at their ends.
constexpr const char* kLibrary = "libmd4c.so.0";

using Parse = decltype(&md_parse);

Parse md4c() {
  static const auto found = [] {
    void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    return library ? reinterpret_cast<Parse>(dlsym(library, "md_parse")) : nullptr;
  }();
  return found;
}

// Bytes of shown text, calls of the parser, and bytes of links' addresses and titles, for each
// byte of the source: tables whose rows lack cells and links to one long address can make much of
// little.
constexpr size_t kMostGrowth = 4, kFreeBytes = 4096;
// The parser looks for the line of each bracket among all lines of its paragraph, and goes through
// what is in an image once for each image around it, which is dearer.
constexpr size_t kMostLookups = 8'000'000, kLookupsOfNested = 16;
constexpr size_t kTab = 4;

constexpr unsigned kFlags = MD_FLAG_TABLES | MD_FLAG_STRIKETHROUGH | MD_FLAG_TASKLISTS |
                            MD_FLAG_NOHTML | MD_FLAG_NOINDENTEDCODEBLOCKS;

std::string entity_text(std::string_view entity) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kNamed = {
      {{"&amp;", "&"},
       {"&lt;", "<"},
       {"&gt;", ">"},
       {"&quot;", "\""},
       {"&apos;", "'"},
       {"&nbsp;", "\u00a0"},
       {"&copy;", "\u00a9"},
       {"&times;", "\u00d7"},
       {"&ndash;", "\u2013"},
       {"&mdash;", "\u2014"},
       {"&hellip;", "\u2026"},
       {"&bull;", "\u2022"}}};
  for (const auto& [name, text] : kNamed) {
    if (name == entity) return std::string(text);
  }
  if (!entity.starts_with("&#")) return std::string(entity);
  const bool hex = entity.size() > 2 && (entity[2] == 'x' || entity[2] == 'X');
  uint32_t code = 0;
  const char* begin = entity.data() + (hex ? 3 : 2);
  const char* end = entity.data() + entity.size() - 1;  // before the semicolon
  const auto read = std::from_chars(begin, end, code, hex ? 16 : 10);
  const bool good = read.ec == std::errc() && code >= 0x20 && code <= 0x10ffff &&
                    (code < 0xd800 || code > 0xdfff);
  return to_utf8(good ? code : 0xfffd);
}

// Whether brackets times lines, over all paragraphs, are too many for the parser. Paragraphs are
// taken to end at blank lines alone, so that none is longer than it seems.
bool too_many_lookups(std::string_view source) {
  size_t lookups = 0, lines = 0, brackets = 0, open = 0;
  bool blank = true;
  for (size_t i = 0; i < source.size(); ++i) {
    const char c = source[i];
    if (c == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    if (c == '[') ++brackets, ++open;
    if (c == ']' && open > 0) lookups += kLookupsOfNested * open--;
    if (c != '\n' && c != '\r') {
      blank = blank && (c == ' ' || c == '\t');
      continue;
    }
    ++lines;
    if (blank) {
      lookups += lines * brackets;
      lines = brackets = open = 0;
    }
    blank = true;
  }
  return lookups + (lines + 1) * brackets > kMostLookups;
}

class Builder {
 public:
  Builder(RichText& to, std::string_view source, size_t base)
      : to_(to), source_(source), base_(base), first_text_(to.text.size()) {}

  void enter(MD_BLOCKTYPE type, void* detail);
  void leave(MD_BLOCKTYPE type);
  void enter(MD_SPANTYPE type, void* detail);
  void leave(MD_SPANTYPE type);
  void text(MD_TEXTTYPE type, std::string_view text);

  // To be asked at each call of the parser.
  bool bounded() {
    const size_t most = kFreeBytes + kMostGrowth * source_.size();
    return ++calls_ <= most && to_.text.size() - first_text_ <= most && link_bytes_ <= most;
  }

 private:
  struct List {
    bool ordered = false, tight = false;
    unsigned next = 1;
  };
  RichBlock& block() { return to_.blocks.back(); }
  RichBlock& begin(RichBlock::Kind kind);
  void begin_item(const MD_BLOCK_LI_DETAIL& detail);
  void end();
  void append(std::string_view text, size_t raw, uint8_t style);
  void text_of_code(std::string_view text, uint8_t style);
  size_t raw_of(const char* at) const;
  uint8_t style() const;

  RichText& to_;
  std::string_view source_;
  size_t base_, first_text_;  // of the source, in the whole one; of what is shown, before
  size_t calls_ = 0, link_bytes_ = 0;
  bool open_ = false;  // the last block takes text
  std::string nest_;   // without its bound
  std::vector<List> lists_;
  std::string marker_;  // of an item that has no text yet
  std::string indent_;  // of a line of code that has no text yet
  int bold_ = 0, italic_ = 0, code_ = 0, link_ = 0, struck_ = 0;
  struct Link {
    std::string address;
    size_t begin;  // of its text
  };
  std::vector<Link> links_;
};

size_t Builder::raw_of(const char* at) const {
  const auto address = reinterpret_cast<uintptr_t>(at);
  const auto first = reinterpret_cast<uintptr_t>(source_.data());
  const bool inside = address >= first && address < first + source_.size();
  return inside ? base_ + (address - first) : RichSpan::kNowhere;
}

uint8_t Builder::style() const {
  return static_cast<uint8_t>((bold_ > 0 ? kBold : 0) | (italic_ > 0 ? kItalic : 0) |
                              (code_ > 0 ? kCode : 0) | (link_ > 0 ? kLink : 0) |
                              (struck_ > 0 ? kStruck : 0));
}

void Builder::append(std::string_view text, size_t raw, uint8_t style) {
  if (text.empty()) return;
  bool goes_on = false;
  if (!to_.spans.empty() && to_.spans.back().style == style) {
    const RichSpan& last = to_.spans.back();
    const bool nowhere = last.raw == RichSpan::kNowhere;
    goes_on =
        nowhere ? raw == RichSpan::kNowhere : last.raw + (to_.text.size() - last.begin) == raw;
  }
  if (!goes_on) to_.spans.push_back({to_.text.size(), raw, style});
  to_.text += text;
}

RichBlock& Builder::begin(RichBlock::Kind kind) {
  end();
  RichBlock next;
  next.kind = kind;
  next.nest = nest_.substr(0, kMostNest);
  const bool in_list = next.nest.find('l') != std::string::npos;
  if (!to_.blocks.empty()) {
    next.close = in_list && lists_.back().tight && block().nest.find('l') != std::string::npos;
    append(next.close ? "\n" : "\n\n", RichSpan::kNowhere, 0);
  }
  // Copied text shows by blanks what is within what.
  const auto depth = static_cast<size_t>(std::count(next.nest.begin(), next.nest.end(), 'l'));
  if (depth > 1) append(std::string(2 * (depth - 1), ' '), RichSpan::kNowhere, 0);
  next.marker = {to_.text.size(), to_.text.size() + marker_.size()};
  if (!marker_.empty()) append(marker_ + " ", RichSpan::kNowhere, 0);
  marker_.clear();
  next.text = {to_.text.size(), to_.text.size()};
  to_.blocks.push_back(std::move(next));
  open_ = true;
  return block();
}

void Builder::end() {
  if (open_) block().text.end = to_.text.size();
  open_ = false;
}

void Builder::begin_item(const MD_BLOCK_LI_DETAIL& detail) {
  end();
  if (lists_.empty()) return;
  List& list = lists_.back();
  marker_ = list.ordered ? std::to_string(list.next++) + "." : "\u2022";
  if (detail.is_task) marker_ = detail.task_mark == ' ' ? "[ ]" : "[x]";
}

void Builder::enter(MD_BLOCKTYPE type, void* detail) {
  switch (type) {
    case MD_BLOCK_QUOTE:
      end();
      nest_ += 'q';
      break;
    case MD_BLOCK_UL:
      end();
      nest_ += 'l';
      lists_.push_back({false, static_cast<MD_BLOCK_UL_DETAIL*>(detail)->is_tight != 0, 1});
      break;
    case MD_BLOCK_OL: {
      end();
      nest_ += 'l';
      const auto& list = *static_cast<MD_BLOCK_OL_DETAIL*>(detail);
      lists_.push_back({true, list.is_tight != 0, list.start});
      break;
    }
    case MD_BLOCK_LI:
      begin_item(*static_cast<MD_BLOCK_LI_DETAIL*>(detail));
      break;
    case MD_BLOCK_HR:
      begin(RichBlock::Kind::kRule);
      break;
    case MD_BLOCK_H:
      begin(RichBlock::Kind::kHeading).level =
          static_cast<int>(static_cast<MD_BLOCK_H_DETAIL*>(detail)->level);
      break;
    case MD_BLOCK_CODE: {
      const MD_ATTRIBUTE& language = static_cast<MD_BLOCK_CODE_DETAIL*>(detail)->lang;
      if (language.text) {
        begin(RichBlock::Kind::kCode).language.assign(language.text, language.size);
      } else {
        begin(RichBlock::Kind::kCode);
      }
      break;
    }
    case MD_BLOCK_P:
      begin(RichBlock::Kind::kParagraph);
      break;
    case MD_BLOCK_TABLE:  // its detail, the columns' number, is null before md4c 0.4.7
      begin(RichBlock::Kind::kTable);
      break;
    case MD_BLOCK_TH:
    case MD_BLOCK_TD: {
      RichBlock& table = block();
      if (type == MD_BLOCK_TH) ++table.columns;
      if (!table.cells.empty()) {
        const bool row = table.cells.size() % std::max<size_t>(table.columns, 1) == 0;
        append(row ? "\n" : "\t", RichSpan::kNowhere, 0);
      }
      const MD_ALIGN align = static_cast<MD_BLOCK_TD_DETAIL*>(detail)->align;
      if (table.aligns.size() < table.columns) {
        table.aligns.push_back(align == MD_ALIGN_RIGHT    ? RichBlock::Align::kRight
                               : align == MD_ALIGN_CENTER ? RichBlock::Align::kCentre
                                                          : RichBlock::Align::kLeft);
      }
      table.cells.push_back({to_.text.size(), to_.text.size()});
      if (type == MD_BLOCK_TH) ++bold_;
      break;
    }
    default:
      break;
  }
}

void Builder::leave(MD_BLOCKTYPE type) {
  switch (type) {
    case MD_BLOCK_QUOTE:
      end();
      nest_.pop_back();
      break;
    case MD_BLOCK_UL:
    case MD_BLOCK_OL:
      end();
      nest_.pop_back();
      lists_.pop_back();
      break;
    case MD_BLOCK_LI:
      if (!marker_.empty()) begin(RichBlock::Kind::kParagraph);
      end();
      break;
    case MD_BLOCK_CODE:
      indent_.clear();
      // The line end of its last line ends the block.
      if (to_.text.size() > block().text.begin && to_.text.ends_with('\n')) {
        to_.text.pop_back();
        while (!to_.spans.empty() && to_.spans.back().begin >= to_.text.size())
          to_.spans.pop_back();
      }
      end();
      break;
    case MD_BLOCK_TH:
    case MD_BLOCK_TD:
      block().cells.back().end = to_.text.size();
      if (type == MD_BLOCK_TH) --bold_;
      break;
    case MD_BLOCK_HR:
    case MD_BLOCK_H:
    case MD_BLOCK_P:
    case MD_BLOCK_TABLE:
      end();
      break;
    default:
      break;
  }
}

void Builder::enter(MD_SPANTYPE type, void* detail) {
  if (!open_) begin(RichBlock::Kind::kParagraph);  // items of tight lists have no paragraphs
  if (type == MD_SPAN_EM) ++italic_;
  if (type == MD_SPAN_STRONG) ++bold_;
  if (type == MD_SPAN_CODE) ++code_;
  if (type == MD_SPAN_DEL) ++struck_;
  if (type == MD_SPAN_A || type == MD_SPAN_IMG) {
    const auto* link = static_cast<MD_SPAN_A_DETAIL*>(detail);
    const auto* image = static_cast<MD_SPAN_IMG_DETAIL*>(detail);
    const MD_ATTRIBUTE& address = type == MD_SPAN_A ? link->href : image->src;
    const MD_ATTRIBUTE& title = type == MD_SPAN_A ? link->title : image->title;
    link_bytes_ += size_t{address.size} + title.size;
    ++link_;
    links_.push_back(
        {address.text ? std::string(address.text, address.size) : "", to_.text.size()});
  }
}

void Builder::leave(MD_SPANTYPE type) {
  if (type == MD_SPAN_EM) --italic_;
  if (type == MD_SPAN_STRONG) --bold_;
  if (type == MD_SPAN_CODE) --code_;
  if (type == MD_SPAN_DEL) --struck_;
  if (type != MD_SPAN_A && type != MD_SPAN_IMG) return;
  --link_;
  const Link link = std::move(links_.back());
  links_.pop_back();
  const std::string_view text = std::string_view(to_.text).substr(link.begin);
  // Nothing is opened from here: one reads where a link leads.
  if (link.address.empty() || link.address == text || link.address == "mailto:" + std::string(text))
    return;
  append((text.empty() ? "(" : " (") + link.address + ")", RichSpan::kNowhere,
         static_cast<uint8_t>(style() | kAside));
}

void Builder::text(MD_TEXTTYPE type, std::string_view text) {
  if (!open_) begin(RichBlock::Kind::kParagraph);
  const bool code = block().kind == RichBlock::Kind::kCode;
  const auto now = static_cast<uint8_t>(style() | (code ? kCode : 0));
  switch (type) {
    case MD_TEXT_BR:
    case MD_TEXT_SOFTBR:  // models write lines as they are to be read
      append("\n", RichSpan::kNowhere, now);
      break;
    case MD_TEXT_NULLCHAR:
      append("\ufffd", RichSpan::kNowhere, now);
      break;
    case MD_TEXT_ENTITY:
      // A span of its own: the text behind it is not as far from its start as in the source.
      to_.spans.push_back({to_.text.size(), raw_of(text.data()), now});
      to_.text += entity_text(text);
      break;
    default:
      if (code) text_of_code(text, now);
      if (!code) append(text, raw_of(text.data()), now);
      break;
  }
}

// The parser makes blanks of the tabs that code is indented with; copied code needs them.
void Builder::text_of_code(std::string_view text, uint8_t style) {
  const size_t raw = raw_of(text.data());
  if (raw == RichSpan::kNowhere && text.find_first_not_of(' ') == std::string_view::npos) {
    indent_ += text;
    return;
  }
  if (raw != RichSpan::kNowhere && !indent_.empty()) {
    size_t begin = raw - base_, width = 0;
    while (begin > 0 && width < indent_.size()) {
      const char c = source_[begin - 1];
      if (c != ' ' && c != '\t') break;
      width += c == '\t' ? kTab : 1;
      --begin;
    }
    const bool same = width == indent_.size();
    const size_t length = raw - base_ - begin;
    append(same ? source_.substr(begin, length) : std::string_view(indent_),
           same ? base_ + begin : RichSpan::kNowhere, style);
  } else {
    append(indent_, RichSpan::kNowhere, style);
  }
  indent_.clear();
  append(text, raw, style);
}

Builder& builder(void* self) {
  return *static_cast<Builder*>(self);
}

// What the parser's calls give back: 0 to go on.
int go_on(void* self) {
  return builder(self).bounded() ? 0 : 1;
}

}  // namespace

bool markdown_available() {
  return md4c() != nullptr;
}

bool append_markdown(RichText& to, std::string_view source, size_t begin) {
  if (!markdown_available()) return false;
  const RichText::Mark before = to.mark();
  const std::string_view part = source.substr(begin);
  if (too_many_lookups(part)) return false;
  Builder built(to, part, begin);
  MD_PARSER parser = {};
  parser.flags = kFlags;
  parser.enter_block = [](MD_BLOCKTYPE type, void* detail, void* self) {
    builder(self).enter(type, detail);
    return go_on(self);
  };
  parser.leave_block = [](MD_BLOCKTYPE type, void*, void* self) {
    builder(self).leave(type);
    return go_on(self);
  };
  parser.enter_span = [](MD_SPANTYPE type, void* detail, void* self) {
    builder(self).enter(type, detail);
    return go_on(self);
  };
  parser.leave_span = [](MD_SPANTYPE type, void*, void* self) {
    builder(self).leave(type);
    return go_on(self);
  };
  parser.text = [](MD_TEXTTYPE type, const MD_CHAR* text, MD_SIZE size, void* self) {
    builder(self).text(type, {text, size});
    return go_on(self);
  };
  if (md4c()(part.data(), static_cast<MD_SIZE>(part.size()), &parser, &built) == 0) return true;
  to.cut(before);
  return false;
}

}  // namespace specbound::gui
