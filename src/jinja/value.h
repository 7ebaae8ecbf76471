// Values of the Jinja interpreter, what they live in, and how much of everything a template may
// use. Everything a rendering makes lies in one heap and goes with it: values are plain words that
// point there, so that a namespace that holds itself leaks nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/chat_value.h"
#include "jinja/text.h"

namespace specbound::jinja {

// The template is broken, wants more than it may use, or something that is not built in here: this
// program cannot tell what it does.
struct NotUnderstood {};
// The template refuses the conversation: raise_exception().
struct Refused {
  std::string reason;
};

struct Loop;
struct Macro;

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,  // UTF-8
  kList,    // tuples too
  kDict,    // in the order in which its keys, strings or numbers, were put in
  kNamespace,
  kLoop,   // the variable `loop`
  kMacro,  // defined by the template
  kFunction,
};

// What Python has for a list: a tuple is written in round brackets; a generator, which filters
// give, can only be looped over and counts as true.
enum class ListForm : uint8_t { kList, kTuple, kGenerator };

enum class Function : uint8_t { kNamespace, kDict, kRange, kRaise, kStrftime };

struct Value;
using List = std::vector<Value>;
using Dict = std::vector<std::pair<Value, Value>>;
using Names = std::vector<std::pair<std::string, Value>>;  // variables, arguments

struct Value {
  Kind kind = Kind::kUndefined;
  bool is_markup = false;  // of a string: what is added to it with + is escaped for HTML
  ListForm form = ListForm::kList;
  union {
    bool boolean;
    int64_t integer = 0;
    double number;
    const Text* text;
    const List* list;
    Dict* dict;  // changed only if it is a namespace
    const Loop* loop;
    const Macro* macro;
    Function function;
  };

  bool is(Kind k) const { return kind == k; }
  static Value none() { return {.kind = Kind::kNone, .integer = 0}; }
  static Value of(bool b) { return {.kind = Kind::kBool, .boolean = b}; }
  static Value of(int64_t i) { return {.kind = Kind::kInt, .integer = i}; }
  static Value of(double d) { return {.kind = Kind::kFloat, .number = d}; }
  static Value of(const Text* t) { return {.kind = Kind::kString, .text = t}; }
  static Value markup(const Text* t) {
    return {.kind = Kind::kString, .is_markup = true, .form = ListForm::kList, .text = t};
  }
  static Value of(Function f) { return {.kind = Kind::kFunction, .function = f}; }
  static Value of(const Loop* l) { return {.kind = Kind::kLoop, .loop = l}; }
  static Value of(const Macro* m) { return {.kind = Kind::kMacro, .macro = m}; }
  static Value of(const char*) = delete;  // would be a bool
};

struct Loop {
  const List* items;
  size_t index;
};

// What renderings may use; a step of the interpreter costs 1. Real templates need below 4,000 for a
// short conversation without tools. Steps are counted down over all renderings that share a budget,
// bytes are those of one.
struct Budget {
  int64_t steps = 1'000'000;
  size_t bytes = size_t{4} << 20;
};

// One call within others, so many at most. Throws NotUnderstood.
struct Deeper {
  Deeper(int& counter, int most) : depth(counter) {
    if (++depth > most) throw NotUnderstood();
  }
  ~Deeper() { --depth; }
  int& depth;
};

class Heap {
 public:
  explicit Heap(Budget& budget) : budget_(budget) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // Each throws NotUnderstood where a limit is passed.
  void step(size_t n = 1);
  void touch(size_t bytes) { step(1 + bytes / 64); }  // reading that many
  Value text(Text t);
  Value text(std::string own) { return text(Text(std::move(own))); }
  Value list(List l, ListForm form = ListForm::kList);
  Value dict(Dict d);
  Value names(Dict d);  // a namespace
  // A value from outside; its strings and keys are input, or not.
  Value given(const ChatValue& v, bool input, int depth = 0);
  void grow(size_t bytes);

  template <typename T>
  T* keep(std::deque<T>& in, T thing) {
    grow(sizeof(T));
    in.push_back(std::move(thing));
    return &in.back();
  }
  std::deque<Loop> loops;

 private:
  Budget& budget_;
  size_t bytes_ = 0;
  std::deque<Text> texts_;
  std::deque<List> lists_;
  std::deque<Dict> dicts_;
};

// Null if absent.
const Value* find(const Names& names, std::string_view name);
const Value* find(const Dict& dict, std::string_view key);
const Value* find(const Dict& dict, const Value& key, Heap& heap);

bool truth(const Value& v);
// As Python's ==; throws NotUnderstood where lists lie too deep in each other.
bool equal(const Value& a, const Value& b, Heap& heap, int depth = 0);
// -1, 0, 1; throws NotUnderstood unless both are numbers or both strings.
int compare(const Value& a, const Value& b, Heap& heap);
bool contains(const Value& container, const Value& item, Heap& heap);
// What {{ v }} puts out: of lists and dicts Python's own notation.
Text to_text(const Value& v, Heap& heap);
// The elements that a loop over `v` meets.
const List* elements(const Value& v, Heap& heap);
int64_t length(const Value& v, Heap& heap);

}  // namespace specbound::jinja
