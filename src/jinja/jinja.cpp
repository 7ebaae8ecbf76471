#include "jinja/jinja.h"

#include <algorithm>
#include <deque>
#include <limits>

#include "jinja/functions.h"

namespace specbound::jinja {

// A macro with the variables it sees.
struct Scope;
struct Macro {
  const Statement* statement;
  Scope* scope;
};

struct Scope {
  Scope* outer;
  Names names;
};

namespace {

constexpr int kMaxDepth = 160;  // of expressions, blocks and macros in each other

class Interpreter {
 public:
  Interpreter(const Program& program, Budget& budget) : program_(program), heap_(budget) {}

  Text run(const Inputs& inputs) {
    heeds_refusals_ = inputs.heeds_refusals;
    Scope* globals = new_scope(nullptr);
    List messages;
    for (size_t i = 0; i < inputs.messages.size(); ++i) {
      messages.push_back(message(inputs, i));
    }
    globals->names = {
        {"messages", heap_.list(std::move(messages))},
        {"bos_token", heap_.text(inputs.bos_token)},
        {"eos_token", heap_.text(inputs.eos_token)},
        {"add_generation_prompt", Value::of(inputs.add_generation_prompt)},
        {"namespace", Value::of(Function::kNamespace)},
        {"dict", Value::of(Function::kDict)},
        {"range", Value::of(Function::kRange)},
        {"raise_exception", Value::of(Function::kRaise)},
        {"strftime_now", Value::of(Function::kStrftime)},
    };
    for (const auto& [name, value] : inputs.variables) {
      put_name(globals->names, name, heap_.given(value, !inputs.marked));
    }
    scope_ = new_scope(globals);
    Text out;
    out_ = &out;
    run_body(program_.body);
    if (flow_ != Flow::kOn) throw NotUnderstood();  // a break outside of a loop
    return out;
  }

 private:
  enum class Flow { kOn, kBreak, kContinue };
  const Expression& expression(Node node) const { return program_.expressions[node]; }

  // Which of its values are input: the content of message `marked`, or all but the role and the
  // marks of thoughts.
  Value message(const Inputs& inputs, size_t number) {
    const ChatValue::Dict& entries = inputs.messages[number];
    const bool replies =
        !inputs.marked && std::any_of(entries.begin(), entries.end(), [](const auto& entry) {
          const std::string* role = entry.first == "role" ? entry.second.text() : nullptr;
          return role && *role == "assistant";
        });
    Dict out;
    for (const auto& [key, value] : entries) {
      const bool content = key == "content";
      const bool input = inputs.marked ? *inputs.marked == number && content : key != "role";
      const Value name = heap_.text(key);
      const std::string* reply = replies && content ? value.text() : nullptr;
      out.emplace_back(name, reply ? heap_.text(reply_text(*reply, inputs.reply_marks))
                                   : heap_.given(value, input));
    }
    return heap_.dict(std::move(out));
  }

  // Input but for the marks.
  static Text reply_text(std::string_view content, const std::vector<std::string>& marks) {
    Text out;
    size_t begin = 0;
    for (size_t at = 0; at < content.size();) {
      const auto mark = std::find_if(marks.begin(), marks.end(), [&](const std::string& each) {
        return content.substr(at).starts_with(each);
      });
      if (mark == marks.end()) {
        ++at;
        continue;
      }
      out += Text(std::string(content.substr(begin, at - begin)), true);
      out += *mark;
      begin = at += mark->size();
    }
    out += Text(std::string(content.substr(begin)), true);
    return out;
  }

  Scope* new_scope(Scope* outer) { return heap_.keep(scopes_, Scope{outer, {}}); }

  Value look_up(std::string_view name) {
    for (Scope* scope = scope_; scope; scope = scope->outer) {
      heap_.step(1 + scope->names.size() / 8);
      if (const Value* found = find(scope->names, name)) return *found;
    }
    return Value();
  }

  void put_name(Names& names, const std::string& name, Value value) {
    heap_.step(1 + names.size() / 8);
    for (auto& entry : names) {
      if (entry.first == name) {
        entry.second = value;
        return;
      }
    }
    heap_.grow(sizeof(Names::value_type) + name.size());
    names.emplace_back(name, value);
  }

  void put_entry(Dict& dict, Value key, Value value) {
    if (key.is(Kind::kList) || key.is(Kind::kDict)) throw NotUnderstood();  // not hashable
    for (auto& entry : dict) {
      if (equal(entry.first, key, heap_)) {
        entry.second = value;
        return;
      }
    }
    heap_.grow(sizeof(Dict::value_type));
    dict.emplace_back(key, value);
  }

  template <typename T>  // Text, or the template's own
  void put_text(const T& text) {
    heap_.grow(text.size());
    *out_ += text;
  }

  // ---- statements ----

  void run_body(const std::vector<Node>& body) {
    const Deeper deeper(depth_, kMaxDepth);
    for (const Node node : body) {
      heap_.step();
      run_statement(program_.statements[node]);
      if (flow_ != Flow::kOn) return;
    }
  }

  void run_statement(const Statement& s) {
    switch (s.kind) {
      case Statement::kText:
        return put_text(std::string_view(s.text));
      case Statement::kOutput:
        return put_text(to_text(value_of(s.a), heap_));
      case Statement::kIf:
        for (const auto& [condition, body] : s.branches) {
          if (condition >= 0 && !truth(value_of(condition))) continue;
          return run_body(body);
        }
        return;
      case Statement::kFor:
        return run_for(s);
      case Statement::kSet:
        return assign(s, value_of(s.a));
      case Statement::kSetBlock:
        return assign(s, heap_.text(captured(s.body, s.a, scope_)));
      case Statement::kFilter:
        return put_text(captured(s.body, s.a, scope_));
      case Statement::kScope:
        return run_scope(s);
      case Statement::kCall:
        return run_call(s);
      case Statement::kMacro:
        return put_name(scope_->names, s.text, Value::of(heap_.keep(macros_, Macro{&s, scope_})));
      case Statement::kBreak:
        flow_ = Flow::kBreak;
        return;
      case Statement::kContinue:
        flow_ = Flow::kContinue;
        return;
    }
  }

  void assign(const Statement& s, Value value) {
    if (!s.text.empty()) {  // name.attribute
      const Value names = look_up(s.text);
      if (!names.is(Kind::kNamespace)) throw NotUnderstood();
      return put_entry(*names.dict, heap_.text(s.names[0]), value);
    }
    bind(s.names, value);
  }

  // One name, or one for each element.
  void bind(const std::vector<std::string>& names, Value value) {
    if (names.size() == 1) return put_name(scope_->names, names[0], value);
    const List& items = *elements(value, heap_);
    if (items.size() != names.size()) throw NotUnderstood();
    for (size_t i = 0; i < names.size(); ++i) put_name(scope_->names, names[i], items[i]);
  }

  // What a body puts out in a scope of its own, through `filters` unless that is -1.
  Text captured(const std::vector<Node>& body, Node filters, Scope* outer) {
    Text text;
    {
      Text* const out = std::exchange(out_, &text);
      Scope* const scope = std::exchange(scope_, new_scope(outer));
      run_body(body);
      scope_ = scope;
      out_ = out;
    }
    if (flow_ != Flow::kOn) throw NotUnderstood();
    if (filters < 0) return text;
    return to_text(filtered(filters, heap_.text(std::move(text))), heap_);
  }

  // A chain of filters whose innermost operand is `inner`.
  Value filtered(Node node, Value inner) {
    const Deeper deeper(depth_, kMaxDepth);
    const Expression& e = expression(node);
    const Value v = e.a < 0 ? inner : filtered(e.a, inner);
    return apply_filter(e.text, v, values_of(e.args), heap_);
  }

  void run_for(const Statement& s) {
    const List* items = elements(value_of(s.a), heap_);
    Scope* const outer = scope_;
    if (s.b >= 0) {
      List kept;
      for (const Value& item : *items) {
        scope_ = new_scope(outer);
        bind(s.names, item);
        if (truth(value_of(s.b))) kept.push_back(item);
      }
      scope_ = outer;
      items = heap_.list(std::move(kept)).list;
    }
    for (size_t i = 0; i < items->size(); ++i) {
      scope_ = new_scope(outer);
      put_name(scope_->names, "loop", Value::of(heap_.keep(heap_.loops, Loop{items, i})));
      bind(s.names, (*items)[i]);
      run_body(s.body);
      if (std::exchange(flow_, Flow::kOn) == Flow::kBreak) break;
    }
    scope_ = outer;
    if (items->empty()) run_body(s.otherwise);
  }

  void run_scope(const Statement& s) {
    Scope* const inner = new_scope(scope_);
    for (size_t i = 0; i < s.names.size(); ++i) {
      put_name(inner->names, s.names[i], value_of(s.defaults[i]));
    }
    put_text(captured(s.body, -1, inner));
  }

  // {% call(..) macro(..) %}: the macro's variable `caller` is a macro of the block's body.
  void run_call(const Statement& s) {
    const Expression& e = expression(s.a);
    const Value called = value_of(e.a);
    if (!called.is(Kind::kMacro)) throw NotUnderstood();
    const Value caller = Value::of(heap_.keep(macros_, Macro{&s, scope_}));
    put_text(to_text(call_macro(*called.macro, values_of(e.args), &caller), heap_));
  }

  Value call_macro(const Macro& macro, const CallValues& args, const Value* caller = nullptr) {
    const Deeper deeper(depth_, kMaxDepth);
    const Statement& s = *macro.statement;
    if (args.list.size() > s.names.size()) throw NotUnderstood();
    for (const auto& entry : args.named) {
      heap_.step(1 + s.names.size() / 8);
      if (std::find(s.names.begin(), s.names.end(), entry.first) == s.names.end()) {
        throw NotUnderstood();
      }
    }
    Scope* const parameters = new_scope(macro.scope);
    Scope* const outside = std::exchange(scope_, parameters);
    if (caller) put_name(parameters->names, "caller", *caller);
    for (size_t i = 0; i < s.names.size(); ++i) {
      heap_.step(1 + args.named.size() / 8);
      const Value* given = args.find(i, s.names[i]);
      const Value value = given ? *given : s.defaults[i] >= 0 ? value_of(s.defaults[i]) : Value();
      put_name(parameters->names, s.names[i], value);
    }
    scope_ = outside;
    return heap_.text(captured(s.body, -1, parameters));
  }

  // ---- expressions ----

  CallValues values_of(const Arguments& args) {
    CallValues out;
    for (const Node node : args.list) out.list.push_back(value_of(node));
    for (const auto& [name, node] : args.named) out.named.emplace_back(name, value_of(node));
    return out;
  }

  Value value_of(Node node) {
    const Deeper deeper(depth_, kMaxDepth);
    heap_.step();
    const Expression& e = expression(node);
    switch (e.kind) {
      case Expression::kConstant:
        return e.value;
      case Expression::kName:
        return look_up(e.text);
      case Expression::kAttribute: {
        const Value object = value_of(e.a);
        // A method that is not called.
        if (object.is(Kind::kDict) && is_dict_method(e.text)) throw NotUnderstood();
        return attribute_of(object, e.text, heap_);
      }
      case Expression::kItem: {
        const Value object = value_of(e.a);
        return item_of(object, value_of(e.b), heap_);
      }
      case Expression::kSlice:
        return slice(e);
      case Expression::kCall:
        return call(e);
      case Expression::kFilter:
        return filter(e);
      case Expression::kTest:
        return test(e);
      case Expression::kList:
        return heap_.list(list(e));
      case Expression::kTuple:
        return heap_.list(list(e), ListForm::kTuple);
      case Expression::kDict:
        return dict(e);
      case Expression::kNot:
        return Value::of(!truth(value_of(e.a)));
      case Expression::kMinus:
        return minus(value_of(e.a));
      case Expression::kArithmetic: {
        const Value left = value_of(e.a);
        return arithmetic(e.text, left, value_of(e.b));
      }
      case Expression::kConcat:
        return concat(e);
      case Expression::kCompare:
        return comparison(e);
      case Expression::kAnd:
      case Expression::kOr: {
        const Value left = value_of(e.a);
        return truth(left) == (e.kind == Expression::kAnd) ? value_of(e.b) : left;
      }
      case Expression::kTernary:
        if (truth(value_of(e.b))) return value_of(e.a);
        return e.c >= 0 ? value_of(e.c) : Value();
    }
    throw NotUnderstood();
  }

  Value slice(const Expression& e) {
    const Value object = value_of(e.a);
    Value parts[3];
    const Value* given[3] = {};
    for (int i = 0; i < 3; ++i) {
      if (e.args.list[i] < 0) continue;
      parts[i] = value_of(e.args.list[i]);
      given[i] = &parts[i];
    }
    return slice_of(object, given[0], given[1], given[2], heap_);
  }

  Value call(const Expression& e) {
    const Expression& callee = expression(e.a);
    const bool by_name = callee.kind == Expression::kAttribute;
    const Value object = value_of(by_name ? callee.a : e.a);
    Value called = object;
    if (by_name) {
      // What a namespace or a dict holds under that name; of a dict, its methods come first.
      if (object.is(Kind::kString) || object.is(Kind::kDict)) {
        return call_method(object, callee.text, values_of(e.args), heap_);
      }
      called = attribute_of(object, callee.text, heap_);
    }
    const CallValues args = values_of(e.args);
    if (called.is(Kind::kFunction)) {
      if (called.function == Function::kRaise && !heeds_refusals_) return Value();
      return call_function(called.function, args, heap_);
    }
    if (!called.is(Kind::kMacro)) throw NotUnderstood();
    return call_macro(*called.macro, args);
  }

  Value filter(const Expression& e) {
    const Value v = value_of(e.a);
    return apply_filter(e.text, v, values_of(e.args), heap_);
  }

  Value test(const Expression& e) {
    const Value v = value_of(e.a);
    return Value::of(apply_test(e.text, v, values_of(e.args), heap_));
  }

  List list(const Expression& e) {
    List out;
    for (const Node node : e.args.list) out.push_back(value_of(node));
    return out;
  }

  Value dict(const Expression& e) {
    Dict out;
    for (size_t i = 0; i < e.args.list.size(); i += 2) {
      const Value key = value_of(e.args.list[i]);
      put_entry(out, key, value_of(e.args.list[i + 1]));
    }
    return heap_.dict(std::move(out));
  }

  static Value minus(const Value& v) {
    if (v.is(Kind::kFloat)) return Value::of(-v.number);
    if (!v.is(Kind::kInt) || v.integer == std::numeric_limits<int64_t>::min()) {
      throw NotUnderstood();
    }
    return Value::of(-v.integer);
  }

  Value arithmetic(const std::string& sign, const Value& a, const Value& b) {
    if (sign == "+" && a.is(Kind::kString) && b.is(Kind::kString)) {
      const bool markup = a.is_markup || b.is_markup;
      Text out = markup && !a.is_markup ? escaped(*a.text) : *a.text;
      out += markup && !b.is_markup ? escaped(*b.text) : *b.text;
      const Value sum = heap_.text(std::move(out));
      return markup ? Value::markup(sum.text) : sum;
    }
    if (sign == "+" && a.is(Kind::kList) && b.is(Kind::kList)) {
      List out = *a.list;
      out.insert(out.end(), b.list->begin(), b.list->end());
      if (a.form == ListForm::kGenerator || a.form != b.form) throw NotUnderstood();
      return heap_.list(std::move(out), a.form);
    }
    if (sign == "*" && a.is(Kind::kString) && b.is(Kind::kInt)) {
      if (b.integer > 4096) throw NotUnderstood();
      heap_.grow(a.text->size() * std::max<int64_t>(b.integer, 0));
      Text out;
      for (int64_t i = 0; i < b.integer; ++i) out += *a.text;
      return heap_.text(std::move(out));
    }
    if (!a.is(Kind::kInt) || !b.is(Kind::kInt)) throw NotUnderstood();
    int64_t out = 0;
    bool overflow = false;
    if (sign == "+") {
      overflow = __builtin_add_overflow(a.integer, b.integer, &out);
    } else if (sign == "-") {
      overflow = __builtin_sub_overflow(a.integer, b.integer, &out);
    } else if (sign == "*") {
      overflow = __builtin_mul_overflow(a.integer, b.integer, &out);
    } else {
      if (b.integer == 0 || b.integer == -1) throw NotUnderstood();
      const int64_t rest = a.integer % b.integer;
      const bool below = rest != 0 && (rest < 0) != (b.integer < 0);  // Python rounds down
      if (sign == "%") {
        out = below ? rest + b.integer : rest;
      } else if (sign == "//") {
        out = a.integer / b.integer - below;
      } else {
        return Value::of(static_cast<double>(a.integer) / static_cast<double>(b.integer));
      }
    }
    if (overflow) throw NotUnderstood();
    return Value::of(out);
  }

  Value concat(const Expression& e) {
    Text out;
    for (const Node node : e.args.list) {
      const Text text = to_text(value_of(node), heap_);
      heap_.grow(text.size());
      out += text;
    }
    return heap_.text(std::move(out));
  }

  Value comparison(const Expression& e) {
    Value left = value_of(e.args.list[0]);
    for (size_t i = 0; i < e.operators.size(); ++i) {
      const Value right = value_of(e.args.list[i + 1]);
      if (!holds(e.operators[i], left, right)) return Value::of(false);
      left = right;
    }
    return Value::of(true);
  }

  bool holds(const std::string& op, const Value& a, const Value& b) {
    if (op == "==") return equal(a, b, heap_);
    if (op == "!=") return !equal(a, b, heap_);
    if (op == "in") return contains(b, a, heap_);
    if (op == "not in") return !contains(b, a, heap_);
    const int order = compare(a, b, heap_);
    if (op == "<") return order < 0;
    if (op == "<=") return order <= 0;
    if (op == ">") return order > 0;
    return order >= 0;
  }

  const Program& program_;
  Heap heap_;
  std::deque<Scope> scopes_;
  std::deque<Macro> macros_;
  Scope* scope_ = nullptr;
  Text* out_ = nullptr;
  bool heeds_refusals_ = true;
  Flow flow_ = Flow::kOn;
  int depth_ = 0;
};

}  // namespace

Text Template::render(const Inputs& inputs) const {
  const size_t n = inputs.messages.size();
  ChatValue::Size size;
  for (const ChatValue::Dict& entries : inputs.messages) {
    for (const auto& [key, value] : entries) value.add_to(size);
  }
  for (const auto& [name, value] : inputs.variables) value.add_to(size);
  Budget budget;
  budget.steps += static_cast<int64_t>(4 * size.bytes + 4000 * n + 200 * size.values);
  budget.bytes += 64 * size.bytes + 4096 * n + 256 * size.values;
  return render(inputs, budget);
}

Text Template::render(const Inputs& inputs, Budget& budget) const {
  return Interpreter(program_, budget).run(inputs);
}

}  // namespace specbound::jinja
