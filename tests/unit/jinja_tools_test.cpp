// Chat templates with all that a request may hold, against Jinja2, and where what they write came
// from: tests/golden/make_tool_renders.py.
#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "jinja/jinja.h"
#include "template_golden.h"

namespace specbound::jinja_tools_test {

namespace {

// Of a case: its messages, variables, and whether a reply is asked for.
jinja::Inputs inputs(const ChatValue& given) {
  jinja::Inputs in;
  for (const ChatValue& message : *given.find("messages")->list()) {
    in.messages.push_back(*message.dict());
  }
  in.variables = *given.find("variables")->dict();
  in.bos_token = "<s>";
  in.eos_token = "</s>";
  in.add_generation_prompt = std::get<bool>(given.find("ask")->value);
  return in;
}

std::string source_of(const std::string& name) {
  return test::read_text(SPECBOUND_TEST_DATA "/chat-templates/" + name + ".jinja");
}

// A digest, "refused" or "failed".
std::string outcome(const jinja::Template& style, const jinja::Inputs& in) {
  try {
    return test::digest(style.render(in).bytes());
  } catch (const jinja::Refused&) {
    return "refused";
  } catch (const jinja::NotUnderstood&) {
    return "failed";
  }
}

// Each string in it with `mark` around.
ChatValue attacked(const ChatValue& value, const std::string& mark) {
  if (const std::string* text = value.text()) return mark + *text + mark;
  ChatValue out = value;
  if (auto* list = std::get_if<ChatValue::List>(&out.value)) {
    for (ChatValue& item : *list) item = attacked(item, mark);
  }
  if (auto* entries = std::get_if<ChatValue::Dict>(&out.value)) {
    for (auto& [key, entry] : *entries) entry = attacked(entry, mark);
  }
  return out;
}

}  // namespace

TEST_CASE("jinja tools: all templates write all conversations as Jinja2 does") {
  const ChatValue::List& cases = *test::tool_renders().find("cases")->list();
  const ChatValue::List& templates = *test::tool_renders().find("templates")->list();
  size_t n_texts = 0, n_refused = 0, n_failed = 0;
  for (const ChatValue& entry : templates) {
    const std::string& name = *(*entry.list())[0].text();
    CAPTURE(name);
    const ChatValue::List* wanted = (*entry.list())[1].list();
    if (!wanted) {  // no Jinja
      CHECK_THROWS_AS(jinja::Template(source_of(name)), jinja::NotUnderstood);
      continue;
    }
    const jinja::Template style(source_of(name));
    REQUIRE(wanted->size() == cases.size());
    for (size_t i = 0; i < cases.size(); ++i) {
      CAPTURE(i);
      const std::string found = outcome(style, inputs(cases[i]));
      if (const std::string* text = (*wanted)[i].text()) {
        CHECK(found == *text);
        ++n_texts;
      } else if ((*wanted)[i].is_null()) {
        CHECK(found == "refused");
        ++n_refused;
      } else {
        CHECK(found == "failed");
        ++n_failed;
      }
    }
  }
  CHECK(templates.size() == 55);
  CHECK(n_texts == 1177);
  CHECK(n_refused == 31);
  CHECK(n_failed == 167);
}

TEST_CASE("jinja tools: no string of messages or tools passes for the template's own") {
  const std::string mark = "\x02";
  size_t n_texts = 0;
  for (const ChatValue& entry : *test::tool_renders().find("templates")->list()) {
    if (!(*entry.list())[1].list()) continue;
    const std::string& name = *(*entry.list())[0].text();
    CAPTURE(name);
    const jinja::Template style(source_of(name));
    for (const ChatValue& given : *test::tool_renders().find("cases")->list()) {
      jinja::Inputs in = inputs(given);
      for (ChatValue::Dict& message : in.messages) {
        for (auto& [key, value] : message) {
          if (key != "role") value = attacked(value, mark);
        }
      }
      for (auto& [variable, value] : in.variables) value = attacked(value, mark);
      try {
        const jinja::Text text = style.render(in);
        for (const jinja::Text::Part& part : text.parts()) {
          CHECK((part.input || part.bytes.find(mark) == part.bytes.npos));
        }
        ++n_texts;
      } catch (const jinja::Refused&) {
      } catch (const jinja::NotUnderstood&) {
      }
    }
  }
  CHECK(n_texts > 900);
}

}  // namespace specbound::jinja_tools_test
