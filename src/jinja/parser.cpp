#include "jinja/parser.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <utility>

namespace specbound::jinja {

namespace {

constexpr size_t kMaxSource = size_t{128} << 10;
constexpr int kMaxNesting = 48;  // of brackets, blocks, else-chains

bool is_operator(const Token& token, std::string_view text) {
  return token.kind == Token::kOperator && token.text == text;
}

bool is_name(const Token& token, std::string_view text) {
  return token.kind == Token::kName && token.text == text;
}

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Program run() {
    program_.body = block({});
    for (Expression& e : program_.expressions) {  // the texts stay where they are from now on
      if (e.kind != Expression::kConstant || !e.value.is(Kind::kString)) continue;
      e.constant = Text(std::move(e.text));
      e.value.text = &e.constant;
    }
    return std::move(program_);
  }

 private:
  const Token& now() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  void skip() { at_ = std::min(at_ + 1, tokens_.size() - 1); }
  bool take(std::string_view sign) {
    const bool there = is_operator(now(), sign);
    if (there) skip();
    return there;
  }
  bool take_name(std::string_view name) {
    const bool there = is_name(now(), name);
    if (there) skip();
    return there;
  }
  void need(bool there) const {
    if (!there) throw NotUnderstood();
  }
  std::string name() {
    need(now().kind == Token::kName);
    std::string text = now().text;
    skip();
    return text;
  }
  void end(Token::Kind kind) {
    need(now().kind == kind);
    skip();
  }

  Node add(Expression e) {
    program_.expressions.push_back(std::move(e));
    return static_cast<Node>(program_.expressions.size()) - 1;
  }
  Node add(Statement s) {
    program_.statements.push_back(std::move(s));
    return static_cast<Node>(program_.statements.size()) - 1;
  }

  // ---- statements ----

  // Up to a block that begins with one of `ends`, whose name is then the current token; the whole
  // template if there are none.
  std::vector<Node> block(std::initializer_list<std::string_view> ends) {
    const Deeper deeper(depth_, kMaxNesting);
    std::vector<Node> body;
    for (;;) {
      switch (now().kind) {
        case Token::kText:
          body.push_back(add(Statement{.kind = Statement::kText, .text = now().text}));
          skip();
          break;
        case Token::kBeginOutput: {
          skip();
          const Node value = expression();
          end(Token::kEndOutput);
          body.push_back(add(Statement{.kind = Statement::kOutput, .a = value}));
          break;
        }
        case Token::kBeginBlock:
          skip();
          if (std::any_of(ends.begin(), ends.end(),
                          [&](std::string_view e) { return is_name(now(), e); })) {
            return body;
          }
          body.push_back(statement(name()));
          end(Token::kEndBlock);
          break;
        default:
          need(now().kind == Token::kEnd && ends.size() == 0);
          return body;
      }
    }
  }

  // The block of a tag that ends with `{% closing`, that name taken.
  std::vector<Node> body_until(std::string_view closing) {
    end(Token::kEndBlock);
    std::vector<Node> body = block({closing});
    skip();
    return body;
  }

  Node statement(const std::string& keyword) {
    if (keyword == "if") return if_statement();
    if (keyword == "for") return for_statement();
    if (keyword == "set") return set_statement();
    if (keyword == "macro") return macro();
    if (keyword == "call") return call_block();
    if (keyword == "break") return add(Statement{.kind = Statement::kBreak});
    if (keyword == "continue") return add(Statement{.kind = Statement::kContinue});
    Statement s{.kind = Statement::kScope};
    if (keyword == "generation") {
      s.body = body_until("endgeneration");
    } else if (keyword == "with") {
      while (now().kind == Token::kName) {
        s.names.push_back(name());
        need(take("="));
        s.defaults.push_back(expression());
        if (!take(",")) break;
      }
      s.body = body_until("endwith");
    } else if (keyword == "filter") {
      s.kind = Statement::kFilter;
      s.a = filters(-1, true);
      s.body = body_until("endfilter");
    } else {
      throw NotUnderstood();
    }
    return add(std::move(s));
  }

  Node if_statement() {
    Statement s{.kind = Statement::kIf};
    for (bool otherwise = false;;) {
      const Node condition = otherwise ? -1 : expression();
      end(Token::kEndBlock);
      std::vector<Node> body = otherwise ? block({"endif"}) : block({"elif", "else", "endif"});
      s.branches.emplace_back(condition, std::move(body));
      if (take_name("endif")) return add(std::move(s));
      otherwise = take_name("else");
      if (!otherwise) skip();
    }
  }

  Node for_statement() {
    Statement s{.kind = Statement::kFor};
    const bool bracket = take("(");
    do {
      s.names.push_back(name());
    } while (take(","));
    if (bracket) need(take(")"));
    need(take_name("in"));
    s.a = or_();  // not a ternary: `if` begins the filter
    if (take_name("if")) s.b = expression();
    need(!is_name(now(), "recursive"));
    end(Token::kEndBlock);
    s.body = block({"else", "endfor"});
    if (take_name("else"))
      s.otherwise = body_until("endfor");
    else
      skip();
    return add(std::move(s));
  }

  Node set_statement() {
    Statement s{.kind = Statement::kSet};
    s.names.push_back(name());
    if (take(".")) {
      s.text = std::exchange(s.names[0], name());
    } else {
      while (take(",")) s.names.push_back(name());
    }
    if (take("=")) {
      s.a = expression();
      if (is_operator(now(), ",")) s.a = list_from(s.a);
      return add(std::move(s));
    }
    need(s.names.size() == 1);
    s.kind = Statement::kSetBlock;
    if (is_operator(now(), "|")) s.a = filters(-1, false);
    s.body = body_until("endset");
    return add(std::move(s));
  }

  // Behind an opening bracket.
  void parameters(Statement& s) {
    while (!take(")")) {
      if (!s.names.empty()) need(take(","));
      s.names.push_back(name());
      s.defaults.push_back(take("=") ? expression() : -1);
    }
  }

  Node macro() {
    Statement s{.kind = Statement::kMacro, .text = name()};
    need(take("("));
    parameters(s);
    s.body = body_until("endmacro");
    return add(std::move(s));
  }

  Node call_block() {
    Statement s{.kind = Statement::kCall};
    if (take("(")) parameters(s);
    s.a = expression();
    need(program_.expressions[s.a].kind == Expression::kCall);
    s.body = body_until("endcall");
    return add(std::move(s));
  }

  // ---- expressions, from the loosest to the tightest ----

  Node expression() {
    const Deeper deeper(depth_, kMaxNesting);
    Node value = or_();
    while (take_name("if")) {
      const Node condition = or_();
      const Node other = take_name("else") ? expression() : -1;
      value = add(Expression{.kind = Expression::kTernary, .a = value, .b = condition, .c = other});
    }
    return value;
  }

  Node or_() { return connected("or", Expression::kOr, &Parser::and_); }
  Node and_() { return connected("and", Expression::kAnd, &Parser::not_); }

  Node connected(std::string_view word, Expression::Kind kind, Node (Parser::*operand)()) {
    Node left = (this->*operand)();
    while (take_name(word)) {
      const Node right = (this->*operand)();
      left = add(Expression{.kind = kind, .a = left, .b = right});
    }
    return left;
  }

  Node not_() {
    if (is_name(now(), "not") && !is_name(next(), "in")) {
      const Deeper deeper(depth_, kMaxNesting);
      skip();
      const Node operand = not_();
      return add(Expression{.kind = Expression::kNot, .a = operand});
    }
    return comparison();
  }

  Node comparison() {
    const Node first = sum();
    Expression e{.kind = Expression::kCompare};
    e.args.list.push_back(first);
    for (;;) {
      std::string op;
      if (now().kind == Token::kOperator) {
        for (const char* known : {"==", "!=", "<", "<=", ">", ">="}) {
          if (now().text == known) op = known;
        }
      } else if (is_name(now(), "in")) {
        op = "in";
      } else if (is_name(now(), "not") && is_name(next(), "in")) {
        skip();
        op = "not in";
      }
      if (op.empty()) break;
      skip();
      e.operators.push_back(op);
      e.args.list.push_back(sum());
    }
    return e.operators.empty() ? first : add(std::move(e));
  }

  Node binary(Node left, std::initializer_list<std::string_view> signs, Node (Parser::*operand)()) {
    for (;;) {
      const auto* sign = std::find_if(signs.begin(), signs.end(),
                                      [&](std::string_view s) { return is_operator(now(), s); });
      if (sign == signs.end()) return left;
      skip();
      const Node right = (this->*operand)();
      left = add(Expression{
          .kind = Expression::kArithmetic, .text = std::string(*sign), .a = left, .b = right});
    }
  }

  Node sum() { return binary(concat(), {"+", "-"}, &Parser::concat); }

  Node concat() {
    const Node first = product();
    if (!is_operator(now(), "~")) return first;
    Expression e{.kind = Expression::kConcat};
    e.args.list.push_back(first);
    while (take("~")) e.args.list.push_back(product());
    return add(std::move(e));
  }

  Node product() { return binary(unary(), {"*", "/", "//", "%"}, &Parser::unary); }

  Node unary() { return filters_and_tests(signed_value()); }

  Node signed_value() {
    if (take("-")) {
      const Deeper deeper(depth_, kMaxNesting);
      const Node operand = signed_value();
      return postfix(add(Expression{.kind = Expression::kMinus, .a = operand}));
    }
    return postfix(primary());
  }

  Node constant(Value value) {
    return add(Expression{.kind = Expression::kConstant, .value = value});
  }

  template <class Number>
  Node number(std::string_view text) {
    Number value = 0;
    need(std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc());
    return constant(Value::of(value));
  }

  Node primary() {
    const Token token = now();
    skip();
    if (token.kind == Token::kName) {
      if (token.text == "true" || token.text == "True") return constant(Value::of(true));
      if (token.text == "false" || token.text == "False") return constant(Value::of(false));
      if (token.text == "none" || token.text == "None") return constant(Value::none());
      return add(Expression{.kind = Expression::kName, .text = token.text});
    }
    if (token.kind == Token::kString) {
      Expression e{.kind = Expression::kConstant, .text = token.text};
      for (; now().kind == Token::kString; skip()) e.text += now().text;
      e.value.kind = Kind::kString;
      return add(std::move(e));
    }
    if (token.kind == Token::kInt) return number<int64_t>(token.text);
    if (token.kind == Token::kFloat) return number<double>(token.text);
    if (is_operator(token, "(")) return tuple();
    if (is_operator(token, "[")) {
      Expression e{.kind = Expression::kList};
      while (!take("]")) {
        if (!e.args.list.empty()) {
          need(take(","));
          if (take("]")) break;
        }
        e.args.list.push_back(expression());
      }
      return add(std::move(e));
    }
    need(is_operator(token, "{"));
    Expression e{.kind = Expression::kDict};
    while (!take("}")) {
      if (!e.args.list.empty()) {
        need(take(","));
        if (take("}")) break;
      }
      e.args.list.push_back(expression());
      need(take(":"));
      e.args.list.push_back(expression());
    }
    return add(std::move(e));
  }

  // Behind an opening bracket.
  Node tuple() {
    if (take(")")) return add(Expression{.kind = Expression::kTuple});
    Node value = expression();
    if (is_operator(now(), ",")) value = list_from(value);
    need(take(")"));
    return value;
  }

  Node list_from(Node first) {
    Expression e{.kind = Expression::kTuple};
    e.args.list.push_back(first);
    while (take(",")) {
      if (is_operator(now(), ")") || now().kind == Token::kEndBlock) break;
      e.args.list.push_back(expression());
    }
    return add(std::move(e));
  }

  Node postfix(Node value) {
    for (;;) {
      if (take(".")) {
        if (now().kind == Token::kInt) {  // x.0 is x[0]
          const Node place = primary();
          value = add(Expression{.kind = Expression::kItem, .a = value, .b = place});
          continue;
        }
        value = add(Expression{.kind = Expression::kAttribute, .text = name(), .a = value});
      } else if (take("[")) {
        value = subscript(value);
      } else if (is_operator(now(), "(")) {
        value = call(value);
      } else {
        return value;
      }
    }
  }

  Node subscript(Node value) {
    Node parts[3] = {-1, -1, -1};
    int colons = 0;
    for (; !take("]"); ++colons) {
      if (!is_operator(now(), ":") && !is_operator(now(), "]")) parts[colons] = expression();
      if (take("]")) break;
      need(colons < 2 && take(":"));
    }
    if (colons == 0) {
      need(parts[0] >= 0);
      return add(Expression{.kind = Expression::kItem, .a = value, .b = parts[0]});
    }
    Expression e{.kind = Expression::kSlice, .a = value};
    e.args.list.assign(parts, parts + 3);
    return add(std::move(e));
  }

  Node call(Node value) {
    Expression e{.kind = Expression::kCall, .a = value};
    e.args = arguments();
    return add(std::move(e));
  }

  Arguments arguments() {
    Arguments out;
    need(take("("));
    for (bool first = true; !take(")"); first = false) {
      if (!first) {
        need(take(","));
        if (take(")")) break;
      }
      if (now().kind == Token::kName && is_operator(next(), "=")) {
        std::string key = name();
        skip();
        out.named.emplace_back(std::move(key), expression());
      } else {
        need(out.named.empty());
        out.list.push_back(expression());
      }
    }
    return out;
  }

  Node filters_and_tests(Node value) {
    for (;;) {
      if (is_operator(now(), "|")) {
        value = filters(value, false);
      } else if (take_name("is")) {
        value = test(value);
      } else if (is_operator(now(), "(")) {
        value = call(value);
      } else {
        return value;
      }
    }
  }

  // `inside`: the first filter's name comes without its |.
  Node filters(Node value, bool inside) {
    while (inside || take("|")) {
      inside = false;
      Expression e{.kind = Expression::kFilter, .text = name(), .a = value};
      if (is_operator(now(), "(")) e.args = arguments();
      value = add(std::move(e));
    }
    return value;
  }

  Node test(Node value) {
    const bool negated = take_name("not");
    Expression e{.kind = Expression::kTest, .text = name(), .a = value};
    const Token& token = now();
    if (is_operator(token, "(")) {
      e.args = arguments();
    } else if ((token.kind == Token::kName && token.text != "else" && token.text != "or" &&
                token.text != "and") ||
               token.kind == Token::kString || token.kind == Token::kInt ||
               token.kind == Token::kFloat || is_operator(token, "[") || is_operator(token, "{")) {
      need(!is_name(token, "is"));
      e.args.list.push_back(postfix(primary()));
    }
    const Node tested = add(std::move(e));
    return negated ? add(Expression{.kind = Expression::kNot, .a = tested}) : tested;
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  Program program_;
};

}  // namespace

Program parse(std::string_view source) {
  if (source.size() > kMaxSource) throw NotUnderstood();
  return Parser(tokenize(source)).run();
}

}  // namespace specbound::jinja
