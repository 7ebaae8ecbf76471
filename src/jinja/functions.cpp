#include "jinja/functions.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "jinja/arguments.h"

namespace specbound::jinja {

namespace {

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
  if (name == "title") return changed(whole, heap, titled);
  if (name == "isdigit" && is_ascii(text)) {
    return Value::of(!text.empty() && std::all_of(text.begin(), text.end(),
                                                  [](char c) { return c >= '0' && c <= '9'; }));
  }
  if (name == "removeprefix" || name == "removesuffix") {
    std::string_view rest = text;
    const std::string& cut = string_of(needed(args, 0, ""));
    if (name == "removeprefix" && rest.starts_with(cut)) rest.remove_prefix(cut.size());
    if (name == "removesuffix" && rest.ends_with(cut)) rest.remove_suffix(cut.size());
    return heap.text(whole.part(rest));
  }
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
  if (name == "count") {
    const std::string& wanted = string_of(needed(args, 0, ""));
    if (args.list.size() != 1 || wanted.empty()) throw NotUnderstood();
    heap.step(1 + text.size() * wanted.size() / 256);
    return Value::of(static_cast<int64_t>(split(text, wanted).size()) - 1);
  }
  if (name == "find" || name == "rfind") {
    const std::string& wanted = string_of(needed(args, 0, ""));
    if (args.list.size() != 1) throw NotUnderstood();
    heap.step(1 + text.size() * wanted.size() / 256);
    const size_t at = name == "find" ? text.find(wanted) : text.rfind(wanted);
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
  if (name == "copy") return heap.dict(*object.dict);
  if (name != "get") throw NotUnderstood();
  const Value* found = find(*object.dict, needed(args, 0, "key"), heap);
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
  if (name == "sequence" && kind == Kind::kList && v.form == ListForm::kGenerator) return false;
  if (name == "iterable" || name == "sequence") {
    return kind == Kind::kList || kind == Kind::kString || kind == Kind::kDict ||
           kind == Kind::kUndefined;
  }
  if (name == "callable") return kind == Kind::kMacro || kind == Kind::kFunction;
  if (name == "odd") return int_of(v) % 2 != 0;
  if (name == "even") return int_of(v) % 2 == 0;
  if (name == "lower" || name == "upper") {  // some letter, and none of the other case
    const std::string& text = string_of(v);
    if (!is_ascii(text)) throw NotUnderstood();
    return lower(text) != upper(text) && text == (name == "lower" ? lower(text) : upper(text));
  }
  const Value& other = needed(args, 0, "");
  if (name == "gt" || name == "greaterthan") return compare(v, other, heap) > 0;
  if (name == "ge") return compare(v, other, heap) >= 0;
  if (name == "lt" || name == "lessthan") return compare(v, other, heap) < 0;
  if (name == "le") return compare(v, other, heap) <= 0;
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
        out.emplace_back(heap.text(key), value);
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
      throw Refused{args.list.empty() ? "" : to_text(args.list[0], heap).bytes()};
    case Function::kStrftime: {
      const Text& pattern = text_of(needed(args, 0, "format"));
      std::string date = fixed_date(pattern.bytes());
      if (date.empty()) throw NotUnderstood();
      return heap.text(Text(std::move(date), pattern.has_input()));
    }
  }
  throw NotUnderstood();
}

bool is_dict_method(std::string_view name) {
  constexpr std::string_view kMethods[] = {"clear",      "copy",   "fromkeys", "get",
                                           "items",      "keys",   "pop",      "popitem",
                                           "setdefault", "update", "values"};
  return std::ranges::find(kMethods, name) != std::end(kMethods);
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
  if (key.is(Kind::kList) || key.is(Kind::kDict)) return Value();
  if (object.is(Kind::kDict)) {
    if (const Value* found = find(*object.dict, key, heap)) return *found;
    return Value();
  }
  if (key.is(Kind::kString)) {
    if (object.is(Kind::kString) || object.is(Kind::kList)) return Value();
    return attribute_of(object, key.text->bytes(), heap);
  }
  if (!key.is(Kind::kInt)) throw NotUnderstood();
  if (object.is(Kind::kNone)) return Value();
  if (object.is(Kind::kList) && object.form == ListForm::kGenerator) return Value();
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
  if (object.is(Kind::kList) && object.form == ListForm::kGenerator) return Value();
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

}  // namespace specbound::jinja
