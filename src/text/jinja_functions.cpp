#include "text/jinja_functions.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

namespace specbound::jinja {

namespace {

const Text& text_of(const Value& v) {
  if (!v.is(Kind::kString)) throw NotUnderstood();
  return *v.text;
}

const std::string& string_of(const Value& v) {
  return text_of(v).bytes();
}

int64_t int_of(const Value& v) {
  if (!v.is(Kind::kInt)) throw NotUnderstood();
  return v.integer;
}

const List& list_of(const Value& v) {
  if (!v.is(Kind::kList)) throw NotUnderstood();
  return *v.list;
}

// The text in other letters, which change no byte's place: input as a whole if any of it was.
template <typename Change>
Value changed(const Text& text, Heap& heap, const Change& change) {
  if (!is_ascii(text.bytes())) throw NotUnderstood();
  return heap.text(Text(change(text.bytes()), text.has_input()));
}

std::string capitalized(std::string_view text) {
  std::string out = lower(text);
  if (!out.empty()) out[0] = upper(out.substr(0, 1))[0];
  return out;
}

// A count that Python takes as "no limit" when it is negative.
size_t count_of(const Value* v) {
  return v && int_of(*v) >= 0 ? static_cast<size_t>(int_of(*v)) : static_cast<size_t>(-1);
}

Value replaced(const Text& text, std::string_view from, const Text& to, const Value* at_most,
               Heap& heap) {
  if (from.empty()) throw NotUnderstood();
  heap.step(1 + text.size() * from.size() / 256);
  heap.grow(text.size() + text.size() / from.size() * to.size());
  return heap.text(replace(text, from, to, count_of(at_most)));
}

Value strip_of(const Text& text, const Value* set, Side side, Heap& heap) {
  heap.touch(text.size() * (set && set->is(Kind::kString) ? 1 + set->text->size() / 64 : 1));
  const std::string_view rest = set && !set->is(Kind::kNone)
                                    ? strip(text.bytes(), string_of(*set), side)
                                    : strip(text.bytes(), side);
  return heap.text(text.part(rest));
}

// What attribute="a.b" names.
Value by_attribute(const Value& item, std::string_view path, Heap& heap) {
  Value v = item;
  for (const std::string_view part : split(path, ".")) {
    if (part.empty() || (part[0] >= '0' && part[0] <= '9')) throw NotUnderstood();
    v = attribute_of(v, part, heap);
  }
  return v;
}

Value joined(const Value& v, const CallValues& args, Heap& heap) {
  const Value* between = args.find(0, "d");
  const Value* path = args.find(1, "attribute");
  const Text separator = between ? to_text(*between) : Text();
  Text out;
  bool first = true;
  for (const Value& item : *elements(v, heap)) {
    const Text text = to_text(path ? by_attribute(item, string_of(*path), heap) : item);
    heap.grow(separator.size() + text.size());
    if (!first) out += separator;
    first = false;
    out += text;
  }
  return heap.text(std::move(out));
}

Value items_of(const Value& v, Heap& heap) {
  List out;
  if (v.is(Kind::kUndefined)) return heap.list({});
  if (!v.is(Kind::kDict)) throw NotUnderstood();
  for (const auto& [key, value] : *v.dict) out.push_back(heap.list({heap.text(key), value}));
  return heap.list(std::move(out));
}

const Value& needed(const CallValues& args, size_t position, std::string_view name) {
  const Value* v = args.find(position, name);
  if (!v) throw NotUnderstood();
  return *v;
}

Value texts(const Text& whole, const std::vector<std::string_view>& parts, Heap& heap) {
  List out;
  for (const std::string_view part : parts) out.push_back(heap.text(whole.part(part)));
  return heap.list(std::move(out));
}

bool has_end(const std::string& text, const Value& wanted, bool front, Heap& heap) {
  const auto fits = [&](const std::string& s) {
    heap.touch(s.size());
    return front ? text.starts_with(s) : text.ends_with(s);
  };
  if (!wanted.is(Kind::kList)) return fits(string_of(wanted));
  return std::any_of(wanted.list->begin(), wanted.list->end(),
                     [&](const Value& v) { return fits(string_of(v)); });
}

Value string_method(const Text& whole, std::string_view name, const CallValues& args, Heap& heap) {
  const std::string& text = whole.bytes();
  heap.touch(text.size());
  if (name == "strip") return strip_of(whole, args.find(0, "chars"), Side::kBoth, heap);
  if (name == "lstrip") return strip_of(whole, args.find(0, "chars"), Side::kLeft, heap);
  if (name == "rstrip") return strip_of(whole, args.find(0, "chars"), Side::kRight, heap);
  if (name == "startswith") return Value::of(has_end(text, needed(args, 0, ""), true, heap));
  if (name == "endswith") return Value::of(has_end(text, needed(args, 0, ""), false, heap));
  if (name == "upper") return changed(whole, heap, upper);
  if (name == "lower") return changed(whole, heap, lower);
  if (name == "capitalize") return changed(whole, heap, capitalized);
  if (name == "splitlines") return texts(whole, split_lines(text), heap);
  if (name == "split") {
    const Value* separator = args.find(0, "sep");
    const Value* at_most = args.find(1, "maxsplit");
    if (!separator || separator->is(Kind::kNone)) {
      if (at_most) throw NotUnderstood();
      return texts(whole, split_words(text), heap);
    }
    const std::string& at = string_of(*separator);
    if (at.empty()) throw NotUnderstood();
    heap.step(1 + text.size() * at.size() / 256);
    return texts(whole, split(text, at, count_of(at_most)), heap);
  }
  if (name == "replace") {
    return replaced(whole, string_of(needed(args, 0, "")), text_of(needed(args, 1, "")),
                    args.find(2, "count"), heap);
  }
  if (name == "join") {
    return joined(needed(args, 0, ""), {.list = {heap.text(whole)}, .named = {}}, heap);
  }
  if (name == "find") {
    const std::string& wanted = string_of(needed(args, 0, ""));
    if (args.list.size() != 1) throw NotUnderstood();
    heap.step(1 + text.size() * wanted.size() / 256);
    const size_t at = text.find(wanted);
    if (at == text.npos) return Value::of(int64_t{-1});
    return Value::of(static_cast<int64_t>(count_characters(std::string_view(text).substr(0, at))));
  }
  throw NotUnderstood();
}

Value dict_method(const Value& object, std::string_view name, const CallValues& args, Heap& heap) {
  if (name == "items") return items_of(object, heap);
  if (name == "keys") return heap.list(*elements(object, heap));
  if (name == "values") {
    List out;
    for (const auto& entry : *object.dict) out.push_back(entry.second);
    return heap.list(std::move(out));
  }
  if (name != "get") throw NotUnderstood();
  const Value* found = find(*object.dict, string_of(needed(args, 0, "key")));
  const Value* other = args.find(1, "default");
  return found ? *found : other ? *other : Value::none();
}

// Where a slice with this bound begins or ends in `n` elements.
int64_t bound(const Value* v, int64_t n, int64_t low, int64_t high, int64_t otherwise) {
  if (!v || v->is(Kind::kNone)) return otherwise;
  int64_t i = int_of(*v);
  if (i < 0) i = i < -n ? low : i + n;
  return std::clamp(i, low, high);
}

}  // namespace

const Value* CallValues::find(size_t position, std::string_view name) const {
  if (position < list.size()) return &list[position];
  return jinja::find(named, name);
}

bool apply_test(std::string_view name, const Value& v, const CallValues& args, Heap& heap) {
  heap.step();
  const Kind kind = v.kind;
  if (name == "defined") return kind != Kind::kUndefined;
  if (name == "undefined") return kind == Kind::kUndefined;
  if (name == "none") return kind == Kind::kNone;
  if (name == "string") return kind == Kind::kString;
  if (name == "mapping") return kind == Kind::kDict;
  if (name == "boolean") return kind == Kind::kBool;
  if (name == "true") return kind == Kind::kBool && v.boolean;
  if (name == "false") return kind == Kind::kBool && !v.boolean;
  if (name == "integer") return kind == Kind::kInt;
  if (name == "float") return kind == Kind::kFloat;
  if (name == "number") return kind == Kind::kInt || kind == Kind::kFloat || kind == Kind::kBool;
  if (name == "iterable" || name == "sequence") {
    return kind == Kind::kList || kind == Kind::kString || kind == Kind::kDict ||
           kind == Kind::kUndefined;
  }
  if (name == "callable") return kind == Kind::kMacro || kind == Kind::kFunction;
  if (name == "odd") return int_of(v) % 2 != 0;
  if (name == "even") return int_of(v) % 2 == 0;
  const Value& other = needed(args, 0, "");
  if (name == "equalto" || name == "eq") return equal(v, other, heap);
  if (name == "ne") return !equal(v, other, heap);
  if (name == "in") return contains(other, v, heap);
  if (name == "divisibleby") {
    if (int_of(other) == 0 || int_of(other) == -1) throw NotUnderstood();
    return int_of(v) % other.integer == 0;
  }
  throw NotUnderstood();
}

Value call_method(const Value& object, std::string_view name, const CallValues& args, Heap& heap) {
  heap.step();
  if (object.is(Kind::kString)) return string_method(*object.text, name, args, heap);
  if (object.is(Kind::kDict)) return dict_method(object, name, args, heap);
  throw NotUnderstood();
}

Value call_function(Function function, const CallValues& args, Heap& heap) {
  heap.step();
  switch (function) {
    case Function::kNamespace:
    case Function::kDict: {
      Dict out;
      if (args.list.size() > 1) throw NotUnderstood();
      if (!args.list.empty()) {
        if (!args.list[0].is(Kind::kDict)) throw NotUnderstood();
        out = *args.list[0].dict;
      }
      for (const auto& [key, value] : args.named) {
        heap.step(1 + out.size() / 8);
        if (find(out, key)) throw NotUnderstood();
        out.emplace_back(key, value);
      }
      return function == Function::kDict ? heap.dict(std::move(out)) : heap.names(std::move(out));
    }
    case Function::kRange: {
      if (args.list.empty() || args.list.size() > 3) throw NotUnderstood();
      const int64_t from = args.list.size() > 1 ? int_of(args.list[0]) : 0;
      const int64_t to = int_of(args.list[args.list.size() > 1]);
      const int64_t by = args.list.size() > 2 ? int_of(args.list[2]) : 1;
      constexpr int64_t kFar = 100000;
      for (const int64_t i : {from, to, by}) {
        if (i < -kFar || i > kFar) throw NotUnderstood();
      }
      if (by == 0) throw NotUnderstood();
      List out;
      for (int64_t i = from; by > 0 ? i < to : i > to; i += by) out.push_back(Value::of(i));
      return heap.list(std::move(out));
    }
    case Function::kRaise:
      throw Refused{args.list.empty() ? "" : to_text(args.list[0]).bytes()};
    case Function::kStrftime: {
      const Text& pattern = text_of(needed(args, 0, "format"));
      std::string date = fixed_date(pattern.bytes());
      if (date.empty()) throw NotUnderstood();
      return heap.text(Text(std::move(date), pattern.has_input()));
    }
  }
  throw NotUnderstood();
}

Value attribute_of(const Value& object, std::string_view name, Heap& heap) {
  heap.step();
  if (object.is(Kind::kDict) || object.is(Kind::kNamespace)) {
    heap.step(1 + object.dict->size() / 8);
    if (const Value* found = find(*object.dict, name)) return *found;
    return Value();
  }
  if (object.is(Kind::kLoop)) {
    const auto n = static_cast<int64_t>(object.loop->items->size());
    const auto i = static_cast<int64_t>(object.loop->index);
    const List& items = *object.loop->items;
    if (name == "index0") return Value::of(i);
    if (name == "index") return Value::of(i + 1);
    if (name == "revindex0") return Value::of(n - 1 - i);
    if (name == "revindex") return Value::of(n - i);
    if (name == "first") return Value::of(i == 0);
    if (name == "last") return Value::of(i + 1 == n);
    if (name == "length") return Value::of(n);
    if (name == "previtem") return i == 0 ? Value() : items[i - 1];
    if (name == "nextitem") return i + 1 == n ? Value() : items[i + 1];
    throw NotUnderstood();
  }
  // Nothing else has attributes that are no methods; of what is undefined Jinja asks nothing.
  if (object.is(Kind::kUndefined) || object.is(Kind::kMacro)) throw NotUnderstood();
  return Value();
}

Value item_of(const Value& object, const Value& key, Heap& heap) {
  heap.step();
  if (object.is(Kind::kUndefined)) throw NotUnderstood();
  if (key.is(Kind::kString)) {
    if (object.is(Kind::kString) || object.is(Kind::kList)) return Value();
    return attribute_of(object, key.text->bytes(), heap);
  }
  if (!key.is(Kind::kInt)) throw NotUnderstood();
  if (object.is(Kind::kDict) || object.is(Kind::kNone)) return Value();
  const int64_t n = length(object, heap);
  const int64_t i = key.integer < 0 ? key.integer + n : key.integer;
  if (i < 0 || i >= n) return Value();
  if (object.is(Kind::kList)) return (*object.list)[i];
  return heap.text(text_of(object).part(substring(string_of(object), i, i + 1)));
}

Value slice_of(const Value& object, const Value* from, const Value* to, const Value* step,
               Heap& heap) {
  const int64_t by = step && !step->is(Kind::kNone) ? int_of(*step) : 1;
  if (by != 1 && by != -1) throw NotUnderstood();
  const int64_t n = length(object, heap);
  heap.step(static_cast<size_t>(n));
  if (by == 1) {
    const int64_t begin = bound(from, n, 0, n, 0), end = bound(to, n, 0, n, n);
    if (object.is(Kind::kString)) {
      const size_t last = std::max(begin, end);
      return heap.text(object.text->part(substring(object.text->bytes(), begin, last)));
    }
    const List& items = list_of(object);
    if (begin >= end) return heap.list({});
    return heap.list(List(items.begin() + begin, items.begin() + end));
  }
  List out;
  const int64_t begin = bound(from, n, -1, n - 1, n - 1), end = bound(to, n, -1, n - 1, -1);
  const List& items = list_of(object);
  for (int64_t i = begin; i > end; --i) out.push_back(items[i]);
  return heap.list(std::move(out));
}

// ---- filters ----

namespace {

// The string that a filter works on: anything is written out first.
const Text& soft_text(const Value& v, Heap& heap) {
  return v.is(Kind::kString) ? *v.text : *heap.text(to_text(v)).text;
}

// select, reject, selectattr, rejectattr: the items for which a test (truth if none is named) is
// `wanted`.
Value selected(const Value& v, const CallValues& args, bool by_name, bool wanted, Heap& heap) {
  CallValues test = args;
  std::string path, name;
  const auto take = [&](std::string& into) {
    if (test.list.empty()) return;
    into = string_of(test.list[0]);
    test.list.erase(test.list.begin());
  };
  if (by_name) take(path);
  take(name);
  if (!truth(v)) return heap.list({});  // none, too
  List out;
  for (const Value& item : *elements(v, heap)) {
    const Value tested = by_name ? by_attribute(item, path, heap) : item;
    if ((name.empty() ? truth(tested) : apply_test(name, tested, test, heap)) == wanted) {
      out.push_back(item);
    }
  }
  return heap.list(std::move(out));
}

Value mapped(const Value& v, const CallValues& args, Heap& heap) {
  const Value* path = jinja::find(args.named, "attribute");
  const Value* other = jinja::find(args.named, "default");
  if (!path && args.list.empty()) throw NotUnderstood();
  // Each of map(map, map, ...) would be a call within the one before.
  if (!path && string_of(args.list[0]) == "map") throw NotUnderstood();
  if (!truth(v)) return heap.list({});
  List out;
  for (const Value& item : *elements(v, heap)) {
    if (path) {
      const Value found = by_attribute(item, string_of(*path), heap);
      out.push_back(found.is(Kind::kUndefined) && other ? *other : found);
    } else {
      CallValues rest = args;
      rest.list.erase(rest.list.begin());
      out.push_back(apply_filter(string_of(args.list[0]), item, rest, heap));
    }
  }
  return heap.list(std::move(out));
}

// sort and dictsort compare strings without case.
Value sort_key(const Value& v, Heap& heap) {
  return v.is(Kind::kString) ? changed(*v.text, heap, lower) : v;
}

Value sorted(const Value& v, const CallValues& args, Heap& heap) {
  const Value* reversed = args.find(0, "reverse");
  const Value* with_case = args.find(1, "case_sensitive");
  const Value* path = args.find(2, "attribute");
  if ((reversed && truth(*reversed)) || (with_case && truth(*with_case))) throw NotUnderstood();
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : *elements(v, heap)) {
    const Value key = path ? by_attribute(item, string_of(*path), heap) : item;
    keyed.emplace_back(sort_key(key, heap), item);
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return compare(a.first, b.first, heap) < 0;
  });
  List out;
  for (const auto& entry : keyed) out.push_back(entry.second);
  return heap.list(std::move(out));
}

Value sorted_dict(const Value& v, const CallValues& args, Heap& heap) {
  if (!v.is(Kind::kDict) || !args.list.empty() || !args.named.empty()) throw NotUnderstood();
  Dict out = *v.dict;
  for (const auto& entry : out) {
    if (!is_ascii(entry.first)) throw NotUnderstood();
  }
  heap.step(out.size() * 16);
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return lower(a.first) < lower(b.first); });
  return items_of(heap.dict(std::move(out)), heap);
}

Value unique(const Value& v, Heap& heap) {
  List out;
  for (const Value& item : *elements(v, heap)) {
    const Value key = sort_key(item, heap);
    if (std::none_of(out.begin(), out.end(),
                     [&](const Value& kept) { return equal(sort_key(kept, heap), key, heap); })) {
      out.push_back(item);
    }
  }
  return heap.list(std::move(out));
}

Value indented(const Text& text, const CallValues& args, Heap& heap) {
  const Value* width = args.find(0, "width");
  const Value* first = args.find(1, "first");
  const Value* blank = args.find(2, "blank");
  const int64_t n = width && width->is(Kind::kInt) ? width->integer : 4;
  if (n < 0 || n > 64) throw NotUnderstood();
  const Text pad = width && width->is(Kind::kString) ? *width->text : Text(std::string(n, ' '));
  Text lines = text;
  lines += "\n";
  Text out;
  bool head = true;
  for (const std::string_view line : split_lines(lines.bytes())) {
    heap.grow(pad.size() + line.size());
    if (!head) out += "\n";
    const bool padded = head ? first && truth(*first) : !line.empty() || (blank && truth(*blank));
    if (padded) out += pad;
    out += lines.part(line);
    head = false;
  }
  return heap.text(std::move(out));
}

Value json_of(const Value& v, const CallValues& args, Heap& heap) {
  for (const auto& entry : args.named) {
    if (entry.first != "ensure_ascii" && entry.first != "indent") throw NotUnderstood();
  }
  const Value* ascii_only = args.find(0, "ensure_ascii");
  const Value* indent = args.find(1, "indent");
  const int64_t n = indent && !indent->is(Kind::kNone) ? int_of(*indent) : -1;
  if (n > 16) throw NotUnderstood();
  return heap.text(to_json(v, ascii_only && truth(*ascii_only), static_cast<int>(n), heap));
}

Value whole_number(const Value& v) {
  if (v.is(Kind::kInt)) return v;
  if (!v.is(Kind::kString)) throw NotUnderstood();
  int64_t number = 0;
  const std::string& digits = v.text->bytes();
  const char* end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end) throw NotUnderstood();
  return Value::of(number);
}

}  // namespace

Value apply_filter(std::string_view name, const Value& v, const CallValues& args, Heap& heap) {
  heap.step();
  if (name == "trim") return strip_of(soft_text(v, heap), args.find(0, "chars"), Side::kBoth, heap);
  if (name == "length" || name == "count") return Value::of(length(v, heap));
  if (name == "string" || name == "safe") return heap.text(to_text(v));
  if (name == "tojson") return json_of(v, args, heap);
  if (name == "default" || name == "d") {
    const Value* other = args.find(0, "default_value");
    const Value* falsy = args.find(1, "boolean");
    const bool absent = v.is(Kind::kUndefined) || (falsy && truth(*falsy) && !truth(v));
    return !absent ? v : other ? *other : heap.text("");
  }
  if (name == "upper") return changed(soft_text(v, heap), heap, upper);
  if (name == "lower") return changed(soft_text(v, heap), heap, lower);
  if (name == "capitalize") return changed(soft_text(v, heap), heap, capitalized);
  if (name == "replace") {
    return replaced(soft_text(v, heap), string_of(needed(args, 0, "old")),
                    text_of(needed(args, 1, "new")), args.find(2, "count"), heap);
  }
  if (name == "indent") return indented(soft_text(v, heap), args, heap);
  if (name == "join") return joined(v, args, heap);
  if (name == "list") return heap.list(*elements(v, heap));
  if (name == "items") return items_of(v, heap);
  if (name == "dictsort") return sorted_dict(v, args, heap);
  if (name == "sort") return sorted(v, args, heap);
  if (name == "unique") return unique(v, heap);
  if (name == "map") return mapped(v, args, heap);
  if (name == "select") return selected(v, args, false, true, heap);
  if (name == "reject") return selected(v, args, false, false, heap);
  if (name == "selectattr") return selected(v, args, true, true, heap);
  if (name == "rejectattr") return selected(v, args, true, false, heap);
  if (name == "int") return whole_number(v);
  if (name == "abs" && int_of(v) != std::numeric_limits<int64_t>::min()) {
    return Value::of(std::abs(v.integer));
  }
  if (name == "first" || name == "last") {
    const List& items = *elements(v, heap);
    return items.empty() ? Value() : name == "first" ? items.front() : items.back();
  }
  if (name == "reverse") {
    List out = list_of(v);
    std::reverse(out.begin(), out.end());
    return heap.list(std::move(out));
  }
  throw NotUnderstood();
}

}  // namespace specbound::jinja
