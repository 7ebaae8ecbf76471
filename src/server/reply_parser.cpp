#include "server/reply_parser.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "server/call_heads.h"

namespace specbound::server {

namespace {

constexpr std::string_view kTag = "<function=";

// The tags around a value, and what ends a call behind the last one.
struct Tags {
  std::string_view open, close, end;
};
Tags tags_of(const ReplyFormat& format) {
  if (format.syntax == CallSyntax::kGlm) return {kGlmTags[2], kGlmTags[3], format.call_close};
  return {"<parameter=", "</parameter>", "</function>"};
}

// `text`, which is not empty, begins one of the marks; *whole: it is one.
bool begins_mark(std::string_view text, const std::vector<std::string_view>& marks,
                 std::string_view* whole) {
  bool begins = false;
  for (const std::string_view mark : marks) {
    if (mark == text) *whole = mark;
    begins = begins || mark.starts_with(text);
  }
  return begins;
}

}  // namespace

ReplyParser::ReplyParser(Options options) : options_(std::move(options)) {
  const bool thinks = options_.splits_thoughts && !options_.format.think_open.empty();
  may_think_ = thinks;
  if (thinks && options_.thinks) state_ = State::kThoughts;
  if (!in_channels()) return;
  if (!options_.goes_on) state_ = State::kHead;
  begins_ = false;
}

ReplyPieces ReplyParser::push(std::string_view bytes) {
  for (const char c : bytes) take(c);
  return std::exchange(out_, {});
}

ReplyPieces ReplyParser::finish() {
  switch (state_) {
    case State::kText:
      put_text(std::exchange(held_, {}));
      out_.text += lead();
      break;
    case State::kThoughts:
      put_thoughts(std::exchange(held_, {}));
      break;
    case State::kBehindCall: {
      // Of a mark that was cut off, what can only close a call goes; so does one of a message.
      if (in_channels()) {
        end_message();
        break;
      }
      std::string_view whole;
      if (!held_.empty() && begins_mark(held_, opening_marks(), &whole)) out_.text += held_;
      held_.clear();
      break;
    }
    case State::kHead:
      if (!in_channels()) {
        give_up();
        break;
      }
      if (!begins_message_head(raw_)) {
        go_back(std::exchange(raw_, {}));
        return finish();  // what is left is shorter by a mark
      }
      end_message();
      if (calls_somebody(raw_)) out_.text += raw_;
      raw_.clear();
      break;
    default:
      if (!streamed_) give_up();  // else the client has what there is of it
  }
  return std::exchange(out_, {});
}

void ReplyParser::take(char c) {
  switch (state_) {
    case State::kText:
      return take_text(c);
    case State::kThoughts:
      return take_thoughts(c);
    case State::kHead:
      return take_head(c);
    case State::kArguments:
      return take_arguments(c);
    case State::kJson:
      return take_json(c);
    case State::kTags:
      return take_tags(c);
    case State::kBehindCall:
      return take_behind_call(c);
  }
}

std::vector<std::string_view> ReplyParser::text_marks() const {
  if (in_channels()) return {harmony::kEnd};
  std::vector<std::string_view> marks;
  if (begins_ && may_think_) marks.push_back(options_.format.think_open);
  if (reads_calls()) std::ranges::copy(options_.format.call_opens(), std::back_inserter(marks));
  return marks;
}

void ReplyParser::take_text(char c) {
  // Small models leave out the marks of their own syntax.
  using Bare = Options::Bare;
  const bool list = options_.bare == Bare::kAny && !is_mistral(options_.format.syntax);
  const bool opens = (c == '{' && options_.bare != Bare::kNone) || (c == '[' && list);
  if (opens && reads_calls() && begins_ && held_.empty()) {
    raw_ = lead();
    bare_ = true;
    return begin_json(c, {});
  }
  held_ += c;
  while (!held_.empty()) {
    std::string_view mark;
    const bool begun = begins_mark(held_, text_marks(), &mark);
    if (mark == options_.format.think_open && !mark.empty() && begins_ && may_think_) {
      held_.clear();
      blanks_.clear();
      state_ = State::kThoughts;
      return;
    }
    if (!mark.empty() && in_channels()) return go_behind_message();
    if (!mark.empty()) return begin_call(std::exchange(held_, {}));
    if (begun) return;
    put_text(std::string_view(held_).substr(0, 1));
    held_.erase(0, 1);
  }
}

std::string ReplyParser::lead() {
  std::string blanks = std::exchange(blanks_, {});
  return blanks_go_ ? std::string() : blanks;
}

// White space at the front waits: it is none of the text where thoughts or a call follow.
void ReplyParser::put_text(std::string_view bytes) {
  for (const char c : bytes) {
    if (begins_ && is_blank(c)) {
      blanks_ += c;
      continue;
    }
    if (begins_) out_.text += lead();
    if (std::exchange(joins_, false)) out_.text += '\n';
    begins_ = false;
    has_text_ = true;
    out_.text += c;
  }
}

void ReplyParser::take_thoughts(char c) {
  const std::string_view close = in_channels() ? harmony::kEnd : options_.format.think_close;
  held_ += c;
  while (!held_.empty() && !close.starts_with(held_)) {
    put_thoughts(std::string_view(held_).substr(0, 1));
    held_.erase(0, 1);
  }
  if (held_ != close) return;
  if (in_channels()) return go_behind_message();
  held_.clear();
  blanks_.clear();
  state_ = State::kText;
  begins_ = blanks_go_ = true;
  may_think_ = false;
}

// Without the white space in front of them and behind them.
void ReplyParser::put_thoughts(std::string_view bytes) {
  for (const char c : bytes) {
    if (is_blank(c)) {
      blanks_ += c;
      continue;
    }
    if (!begins_) out_.thoughts += blanks_;
    blanks_.clear();
    begins_ = false;
    has_thoughts_ = true;
    out_.thoughts += c;
  }
}

void ReplyParser::begin_call(std::string mark) {
  raw_ = in_channels() ? std::move(mark) : lead() + mark;
  bare_ = false;
  head_.clear();
  state_ = State::kHead;
}

// Where `<|end|>` stands; that it ends the message is not known before another one begins.
void ReplyParser::go_behind_message() {
  message_ = state_;
  behind_ = std::exchange(held_, {});
  state_ = State::kBehindCall;
}

void ReplyParser::end_message() {
  if (!behind_.empty() && shows_end_) out_.text += harmony::kEnd;
  behind_.clear();
  held_.clear();
  blanks_.clear();
  begins_ = joins_ = shows_end_ = false;
}

// No message begins with `bytes`: the one before goes on.
void ReplyParser::go_back(const std::string& bytes) {
  const std::string behind = std::exchange(behind_, {});
  state_ = behind.empty() ? State::kText : message_;
  state_ == State::kThoughts ? put_thoughts(behind) : put_text(behind);
  for (const char each : bytes) take(each);
}

void ReplyParser::show_message() {
  out_.text += std::exchange(raw_, {});
  has_text_ = shows_end_ = true;
  state_ = State::kText;
}

void ReplyParser::take_message_head(char c) {
  raw_ += c;
  // A reply without channels, or text that spells one of their marks.
  if (!may_be_message_head(raw_) || raw_.ends_with(harmony::kEnd) || raw_.size() > kMaxHead) {
    return go_back(std::exchange(raw_, {}));
  }
  if (!raw_.ends_with(harmony::kMessage)) return;
  using Kind = MessageHead::Kind;
  const MessageHead head = message_head(raw_);
  end_message();
  if (head.kind == Kind::kCall && reads_calls()) {
    call_ = {.name = head.name};
    state_ = State::kArguments;
  } else if (head.kind == Kind::kThoughts && options_.splits_thoughts) {
    raw_.clear();
    begins_ = !has_thoughts_;
    if (has_thoughts_) blanks_ = "\n";
    state_ = State::kThoughts;
  } else if (head.kind == Kind::kText) {
    raw_.clear();
    joins_ = has_text_;
    state_ = State::kText;
  } else {
    show_message();
  }
}

void ReplyParser::take_arguments(char c) {
  if (c == '{') return begin_json(c, call_);
  if (!is_blank(c) || raw_.size() > 2 * kMaxHead) {
    show_message();
    return take(c);
  }
  raw_ += c;
}

void ReplyParser::take_head(char c) {
  if (in_channels()) return take_message_head(c);
  const ReplyFormat& format = options_.format;
  const CallSyntax syntax = format.syntax;
  if (syntax == CallSyntax::kGlm) {
    const std::string_view name = trimmed(head_);
    const bool behind = c == '<' || (c == '\n' && !name.empty());
    if ((behind && !is_one_word(name)) || head_.size() > kMaxHead) {
      give_up();
      return take(c);  // it may begin a mark
    }
    raw_ += c;
    head_ += c;
    if (!behind) return;
    body_ = head_;
    in_value_ = false;
    state_ = State::kTags;
    return;
  }
  const bool first = trimmed(head_).empty();
  if (syntax == CallSyntax::kXml) {
    raw_ += c;
    head_ += c;
    const std::string_view tag = trimmed(head_);
    if (tag == kTag) {
      body_ = kTag;
      in_value_ = false;
      state_ = State::kTags;
    } else if (!kTag.starts_with(tag) || head_.size() > kMaxHead) {
      give_up_before(head_.size());
    }
    return;
  }
  if (c == '{' || (c == '[' && first && format.each_open.empty())) {
    const CallHead head = call_head(format, head_);
    if (head.fits) return begin_json(c, head.call, head.fenced);
    raw_ += c;
    return give_up();
  }
  const bool named = is_mistral(syntax) || !format.each_open.empty();
  if ((!named && !is_blank(c)) || head_.size() > kMaxHead) {
    give_up();
    return take(c);  // it may begin a mark
  }
  raw_ += c;
  head_ += c;
  if (named && head_.ends_with(format.call_open)) give_up_before(format.call_open.size());
}

void ReplyParser::begin_json(char c, CallText call, bool fenced) {
  call_ = std::move(call);
  inside_ = 0;
  streamed_ = false;
  fenced_ = fenced;
  body_.clear();
  end_ = JsonEnd();
  state_ = State::kJson;
  take_json(c);
}

// Of calls that are held: `c`, which was just read, is one of their arguments' bytes. In `body_`
// an empty object stands for those that came out.
bool ReplyParser::stream_arguments(char c) {
  const int depth = !call_.name.empty() ? 1 : body_.starts_with('[') ? 3 : 2;
  if (inside_ == kNever) return false;
  if (inside_ == 0) {
    const bool one_more = n_calls_ < kMaxCalls && (n_calls_ == 0 || options_.several);
    if (c != '{' || end_.depth() != depth || !one_more) return false;
    CallText begun = call_;
    if (begun.name.empty()) begun.name = name_in_json(body_);
    if (begun.name.empty()) {
      inside_ = kNever;
      return false;
    }
    out_.calls.push_back(std::move(begun));
    ++n_calls_;
    inside_ = depth;
    streamed_ = true;
  } else {
    if (out_.calls.empty()) out_.calls.push_back({.goes_on = true});
  }
  out_.calls.back().arguments += c;
  if (end_.depth() < inside_) {
    inside_ = 0;
    body_ += "{}";
  }
  return true;
}

void ReplyParser::take_json(char c) {
  if (!end_.fits(c) && !streamed_) {
    give_up_before(body_.ends_with('[') ? 1 : 0);  // which Mistral's mark begins with
    return take(c);                                // another call's may begin here
  }
  const bool over = end_.take(c);
  const bool streams = options_.held && stream_arguments(c);
  if (!streams) {
    raw_ += c;
    body_ += c;
  }
  if (body_.size() > kMaxCall && !streamed_) return give_up();
  if (!over) return;
  if (streamed_) return end_call({});
  if (!call_.name.empty()) {
    std::optional<std::string> arguments = call_arguments(body_);
    if (!arguments) return give_up();
    call_.arguments = *std::move(arguments);
    return end_call({call_});
  }
  // Without a mark in front of it any JSON may be an answer, and Command R+'s action to answer
  // directly is the call of nothing.
  const bool known = bare_ || options_.format.syntax == CallSyntax::kAction;
  auto calls = calls_in_json(body_, known ? std::span(options_.tools) : std::span<const Tool>());
  if (!calls) return give_up();
  std::string rest;
  if (!options_.several && calls->size() > 1) {
    rest = body_.substr(first_call_end(body_));
    calls->erase(calls->begin() + 1, calls->end());
  }
  end_call(*std::move(calls));
  out_.text += rest;
}

void ReplyParser::take_tags(char c) {
  raw_ += c;
  body_ += c;
  if (body_.size() > kMaxCall) return give_up();
  const bool pairs = options_.format.syntax == CallSyntax::kGlm;
  // The mark behind a call, and no end of one before it.
  const std::string_view behind = options_.format.call_close;
  const bool unended = !pairs && !behind.empty() && body_.ends_with(behind);
  if (unended && !in_value_) return give_up();
  const std::string_view open = options_.format.call_open;
  if (!in_value_ && body_.ends_with(open)) return give_up_before(open.size());
  const Tags tags = tags_of(options_.format);
  if (!in_value_) {
    in_value_ = c == tags.open.back() && body_.ends_with(tags.open);
  } else if (c == '>' && body_.ends_with(tags.close)) {
    in_value_ = false;
  }
  if (in_value_ || c != '>' || !body_.ends_with(tags.end)) return;
  if (pairs) body_.resize(body_.size() - tags.end.size());
  std::optional<CallText> call =
      pairs ? call_in_pairs(body_, options_.tools) : call_in_tags(body_, options_.tools);
  if (!call) return give_up();
  end_call({*std::move(call)});
}

void ReplyParser::end_call(std::vector<CallText> calls) {
  if (calls.size() + n_calls_ > kMaxCalls) return give_up();
  n_calls_ += calls.size();
  for (CallText& call : calls) out_.calls.push_back(std::move(call));
  raw_.clear();
  body_.clear();
  held_.clear();
  begins_ = streamed_ = false;
  state_ = State::kBehindCall;
}

std::vector<std::string_view> ReplyParser::closing_marks() const {
  if (in_channels()) return {harmony::kEnd, harmony::kCall, harmony::kReturn};
  const ReplyFormat& format = options_.format;
  std::vector<std::string_view> marks;
  if (!format.call_close.empty()) marks.push_back(format.call_close);
  if (bare_) marks.push_back(";");
  if (fenced_) marks.push_back(kFence);
  if (!format.each_close.empty()) marks.push_back(format.each_close);
  return marks;
}

std::vector<std::string_view> ReplyParser::opening_marks() const {
  if (in_channels()) return {harmony::kStart, harmony::kChannel};
  const ReplyFormat& format = options_.format;
  std::vector<std::string_view> marks;
  if (reads_calls() && !format.call_open.empty()) marks.push_back(format.call_open);
  if (reads_calls() && !format.each_open.empty()) marks.push_back(format.each_open);
  return marks;
}

// What closes a call goes, and the white space there; the next one may follow. Behind a message it
// waits: without a next one it is the message's.
void ReplyParser::take_behind_call(char c) {
  const bool behind_message = !behind_.empty();
  if (held_.empty() && is_blank(c)) {
    if (behind_message) behind_ += c;
    return;
  }
  if (held_.empty() && bare_ && reads_calls() && (c == '{' || c == '[')) return begin_json(c, {});
  held_ += c;
  std::string_view mark;
  const bool closes = begins_mark(held_, closing_marks(), &mark);
  if (!mark.empty()) {
    if (mark == kFence) fenced_ = false;
    if (behind_message) behind_ += held_;
    held_.clear();
    return;
  }
  const bool opens = begins_mark(held_, opening_marks(), &mark);
  if (!mark.empty()) {
    const std::string found = std::exchange(held_, {});
    begin_call(found);
    if (mark == options_.format.each_open) head_ = found;  // there is no other mark around each
    return;
  }
  if (closes || opens) return;
  go_back(std::exchange(held_, {}));
}

void ReplyParser::give_up() {
  if (in_channels()) show_message();
  streamed_ = false;
  state_ = State::kText;
  begins_ = blanks_go_ = false;
  out_.text += std::exchange(raw_, {});
  body_.clear();
}

void ReplyParser::give_up_before(size_t n) {
  const std::string rest = raw_.substr(raw_.size() - n);
  raw_.resize(raw_.size() - n);
  give_up();
  for (const char each : rest) take(each);
}

}  // namespace specbound::server
