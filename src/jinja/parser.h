// A Jinja template as a tree. Nodes lie in two arrays and name each other by index, so that no
// template is deep enough to be dangerous to free. Reference: jinja2's parser.py, as far as chat
// templates go; loopcontrols and {% generation %} are in, inheritance and imports are not.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/value.h"

namespace specbound::jinja {

// A piece of a template: text, or a token inside of a tag.
struct Token {
  enum Kind : char {
    kText,         // outside of tags
    kBeginOutput,  // {{
    kEndOutput,    // }}
    kBeginBlock,   // {%
    kEndBlock,     // %}
    kName,
    kString,  // its contents, escapes resolved
    kInt,
    kFloat,
    kOperator,
    kEnd,
  };
  Kind kind;
  std::string text;
};

// Ends with kEnd. Throws NotUnderstood.
std::vector<Token> tokenize(std::string_view source);

using Node = int32_t;  // index; -1: none

struct Arguments {
  std::vector<Node> list;
  std::vector<std::pair<std::string, Node>> named;
};

struct Expression {
  enum Kind : char {
    kConstant,    // value; a string lies in `constant`
    kName,        // text
    kAttribute,   // a.text
    kItem,        // a[b]
    kSlice,       // a[args]: from, to, step, each may be -1
    kCall,        // a(args)
    kFilter,      // a | text(args)
    kTest,        // a is text(args)
    kList,        // args
    kTuple,       // args
    kDict,        // args: keys and values in turn
    kNot,         // a
    kMinus,       // a
    kArithmetic,  // a text b
    kConcat,      // args joined: ~
    kCompare,     // args[0] operators[0] args[1] ...
    kAnd,
    kOr,
    kTernary,  // a if b else c; c may be -1
  };
  Kind kind;
  std::string text = {};
  Node a = -1, b = -1, c = -1;
  Arguments args = {};
  std::vector<std::string> operators = {};
  Value value = {};
  Text constant = {};
};

struct Statement {
  enum Kind : char {
    kText,
    kOutput,    // a
    kIf,        // branches: condition (-1: else) and body
    kFor,       // names in a, filter b; body, otherwise
    kSet,       // names = a; or text.names[0] = a if text is not empty
    kSetBlock,  // names[0], text as in kSet; body, through the filters of a (its operand is -1)
    kFilter,    // the same, put out
    kMacro,     // text(names, defaults in args); body
    kScope,     // names = defaults in body: {% with %}; none: {% generation %}
    kCall,      // a is a call of a macro, whose caller(names, defaults in args) is body
    kBreak,
    kContinue,
  };
  Kind kind;
  std::string text = {};
  std::vector<std::string> names = {};
  Node a = -1, b = -1;
  std::vector<Node> body = {}, otherwise = {};
  std::vector<std::pair<Node, std::vector<Node>>> branches = {};
  std::vector<Node> defaults = {};  // of parameters, -1 where there is none
};

struct Program {
  std::vector<Expression> expressions;
  std::vector<Statement> statements;
  std::vector<Node> body;
};

// Throws NotUnderstood.
Program parse(std::string_view source);

}  // namespace specbound::jinja
