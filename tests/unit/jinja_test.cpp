// The Jinja interpreter against Jinja2, and what it does with templates that mean no good.
#include "jinja/jinja.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "jinja/text.h"
#include "template_golden.h"
#include "text/utf8.h"

namespace specbound::jinja_test {

namespace {

using nlohmann::json;

jinja::Inputs inputs(const json& messages) {
  jinja::Inputs in;
  for (const json& m : messages) in.messages.push_back(jinja::message(m["role"], m["content"]));
  in.bos_token = "<s>";
  in.eos_token = "</s>";
  in.add_generation_prompt = messages.back()["role"] == "user";
  return in;
}

enum class Outcome { kText, kRefused, kNotUnderstood };

struct Rendering {
  Outcome outcome;
  std::string text = {};
};

Rendering render(std::string_view source, const json& messages) {
  try {
    return {Outcome::kText, jinja::Template(source).render(inputs(messages)).bytes()};
  } catch (const jinja::Refused&) {
    return {Outcome::kRefused};
  } catch (const jinja::NotUnderstood&) {
    return {Outcome::kNotUnderstood};
  }
}

Rendering render(std::string_view source) {
  static const json kMessages = {{{"role", "user"}, {"content", "Hi"}}};
  return render(source, kMessages);
}

std::string repeated(std::string_view text, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += text;
  return out;
}

// What came out of messages, in brackets.
std::string marked(std::string_view source) {
  const json messages = {{{"role", "user"}, {"content", " One,two\n"}}};
  const jinja::Text text = jinja::Template(source).render(inputs(messages));
  std::string out;
  for (const auto& part : text.parts()) {
    out += part.input ? "[" + std::string(part.bytes) + "]" : std::string(part.bytes);
  }
  return out;
}

}  // namespace

TEST_CASE("jinja: what a template may do comes out as Jinja2 has it") {
  const json& golden = test::template_renders();
  int n_texts = 0, n_failures = 0;
  for (const json& snippet : golden["snippets"]) {
    const std::string source = snippet[0];
    CAPTURE(source);
    const Rendering rendering = render(source, golden["conversations"][1]);
    if (snippet[1].is_null()) {
      CHECK(rendering.outcome != Outcome::kText);
      ++n_failures;
    } else {
      CHECK(rendering.outcome == Outcome::kText);
      CHECK(rendering.text == snippet[1].get<std::string>());
      ++n_texts;
    }
  }
  CHECK(n_texts == 153);
  CHECK(n_failures == 67);
}

TEST_CASE("jinja: the templates of real models come out as Jinja2 has them") {
  const json& golden = test::template_renders();
  int n_renders = 0, n_understood = 0;
  for (const json& entry : golden["templates"]) {
    const std::string name = entry["name"], source = test::template_source(entry);
    CAPTURE(name);
    bool understood = true;
    for (size_t i = 0; i < entry["renders"].size(); ++i) {
      CAPTURE(i);
      const json& wanted = entry["renders"][i];
      const Rendering rendering = render(source, golden["conversations"][i]);
      ++n_renders;
      if (wanted.is_null()) {
        CHECK(rendering.outcome == Outcome::kRefused);
      } else if (wanted.is_boolean()) {
        CHECK(rendering.outcome == Outcome::kNotUnderstood);
      } else if (rendering.outcome == Outcome::kText) {
        CHECK(rendering.text == test::render_of(entry, i));
      } else {
        understood = false;
      }
    }
    n_understood += understood;
    CHECK(understood);
  }
  CHECK(golden["templates"].size() == 76);
  CHECK(n_understood == 76);
  CHECK(n_renders == 865);
}

TEST_CASE("jinja: what is not built in is said, not guessed") {
  for (const char* source :
       {"{{ namespace() }}",
        "{{ [namespace()] }}",
        "{{ ['\u200b'] }}",
        "{{ 'É' | upper }}",
        "{{ 'É'.lower() }}",
        "{{ '%s' % 'a' }}",
        "{{ 2 ** 3 }}",
        "{{ 1.5 + 1 }}",
        "{{ 1e5 }}",
        "{{ '\\N{DASH}' }}",
        "{{ '\\101' }}",
        "{% include 'x' %}",
        "{% extends 'x' %}",
        "{% import 'x' as y %}",
        "{% call m() %}{% endcall %}",
        "{% do x %}",
        "{% for x in [[1]] recursive %}{% endfor %}",
        "{{ loop.cycle }}",
        "{{ messages.copy() }}",
        "{{ {'items': 1}.items is defined }}",
        "{{ 'y' if {}.keys else 'n' }}",
        "{{ [1, 2, 3, 4][::2] | join }}",
        "{{ 9223372036854775807 + 1 }}",
        "{{ é }}",
        "{{ -9223372036854775807 - 2 }}",
        "{{ 9223372036854775808 }}",
        "{{ 'a' | e }}",
        "{{ 'x'.format() }}",
        "{{ ''.__class__ }}{{ ''.__class__.__mro__ }}",
        "\xff",
        "{{ '\xc3' }}",
        "{% break %}",
        "{% macro m() %}{% break %}{% endmacro %}{% for x in [1] %}{{ m() }}{% endfor %}"}) {
    CAPTURE(source);
    CHECK(render(source).outcome == Outcome::kNotUnderstood);
  }
}

TEST_CASE("jinja: hostile templates end soon") {
  const std::string doubling =
      "{% set n = namespace(x='0123456789') %}"
      "{% for i in range(100) %}";
  const std::string sources[] = {
      // loops in loops
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
      repeated("{% for a in range(100) %}", 40) + repeated("{% endfor %}", 40),
      "{% for a in range(99999) %}{{ messages | map(attribute='role') | join }}{% endfor %}",
      // memory
      doubling + "{% set n.x = n.x + n.x %}{% endfor %}",
      doubling + "{% set n.x = n.x ~ n.x %}{% endfor %}",
      doubling + "{% set n.x = n.x | replace('0', n.x) %}{% endfor %}",
      doubling + "{% set n.x = [n.x, n.x, n.x] | join(n.x) %}{% endfor %}",
      doubling + "{% set n.x = n.x | tojson %}{% endfor %}",
      doubling + "{% set n.x = n.x * 4096 %}{% endfor %}",
      doubling + "{% set n.x %}{{ n.x }}{{ n.x }}{% endset %}{% endfor %}",
      doubling + "{% set n.x = n.x | list | join(n.x) %}{% endfor %}",
      doubling + "{% set n.x = (n.x + '\\n') * 2 | indent(60, true) %}{% endfor %}",
      "{{ 'x' * 9223372036854775807 }}{{ '' * 9223372036854775807 }}",
      "{% for a in range(99999) %}0123456789012345678901234567890123456789{% endfor %}",
      "{% set n = namespace(x=[]) %}{% for i in range(9999) %}{% set n.x = n.x + n.x + [1] %}{% "
      "endfor %}",
      // depth
      repeated("(", 50000),
      repeated("[", 50000),
      repeated("{{ not ", 1) + repeated("not ", 30000),
      "{{ " + repeated("-", 50000) + "1 }}",
      "{{ " + repeated("{'a':", 30000),
      "{{ 1" + repeated(" if 1 else 1", 9000) + " }}",
      repeated("{% if 1 %}", 9000),
      "{{ 1" + repeated(" + 1", 30000) + " }}",
      "{{ 'a'" + repeated(" | trim", 15000) + " }}",
      "{{ x" + repeated("[0]", 30000) + " }}",
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f() %}{% set x %}{{ f() }}{% endset %}{% endmacro %}{{ f() }}",
      "{% set n = namespace(x=[]) %}{% for i in range(9999) %}{% set n.x = [n.x] %}{% endfor %}"
      "{{ n.x == n.x }}",
      "{% set n = namespace(x=[]) %}{% for i in range(9999) %}{% set n.x = [n.x] %}{% endfor %}"
      "{{ n.x | tojson }}",
      // itself
      "{% set n = namespace() %}{% set n.n = n %}{{ n.n == n }}{{ n | tojson }}",
      // much of what costs more than it looks
      "{% set s = 'a' * 4096 %}{% set s = s * 60 %}{% set t = s + 'b' %}{% for i in range(99999) %}"
      "{% if t in s %}{% endif %}{% endfor %}",
      "{% set s = 'a' * 4096 * 60 %}{% for i in range(99999) %}{% if s | length %}{% endif %}{% "
      "endfor %}",
      "{% set s = 'a' * 4096 * 60 %}{% for i in range(99999) %}{{ s[-1] }}{% endfor %}",
      "{% set s = 'a' * 4096 * 60 %}{% for i in range(99999) %}{% set x = s.split('aaab') %}{% "
      "endfor %}",
      "{% set s = ' ' * 4096 * 60 %}{% for i in range(99999) %}{% set x = s | trim %}{% endfor %}",
      repeated("{% set a = 1 %}", 8000),
      "{% set m = 'map' %}{{ 'x' | map(" + repeated("m, ", 30000) + "m) }}",
      "a" + std::string(200000, 'b'),
  };
  for (const std::string& source : sources) {
    CAPTURE(source.substr(0, 80));
    const Rendering rendering = render(source);
    CHECK(rendering.text.size() < (size_t{4} << 20));
  }
  // Those that must fail because they want more than there is.
  for (size_t i = 0; i < 12; ++i) {
    CAPTURE(sources[i].substr(0, 80));
    CHECK(render(sources[i]).outcome == Outcome::kNotUnderstood);
  }
  // Renderings may share a budget.
  const std::string busy = "{% for a in range(9000) %}{{ 1 }}{% endfor %}";
  const jinja::Template thrifty(busy);
  jinja::Budget budget;
  const json messages = {{{"role", "user"}, {"content", "Hi"}}};
  int n_renderings = 0;
  try {
    for (; n_renderings < 100; ++n_renderings) (void)thrifty.render(inputs(messages), budget);
  } catch (const jinja::NotUnderstood&) {
  }
  CHECK(n_renderings > 0);
  CHECK(n_renderings < 20);
}

TEST_CASE("jinja: every beginning of a template ends in an answer") {
  const json& golden = test::template_renders();
  for (const char* name : {"Qwen-Qwen3-0.6B", "mistralai-Mistral-Nemo-Instruct-2407", "Gemma 3"}) {
    for (const json& entry : golden["templates"]) {
      if (entry["name"] != name) continue;
      const std::string source = test::template_source(entry);
      int n_texts = 0;
      for (size_t n = 0; n <= source.size(); n += 3) {
        n_texts += render(std::string_view(source).substr(0, n)).outcome == Outcome::kText;
      }
      CHECK(n_texts > 0);
    }
  }
}

TEST_CASE("jinja: strings as Python has them") {
  using namespace jinja;
  CHECK(strip("\u00a0\u3000 a\u2028\x1c") == "a");
  CHECK(strip("\u200b a") == "\u200b a");  // no white space to Python
  CHECK(strip("\xa0 a \xa0") == "\xa0 a \xa0");
  CHECK(strip("\xff\x80", Side::kRight) == "\xff\x80");
  CHECK(strip("éaé", "é") == "a");
  CHECK(strip("") == "");
  CHECK(count_characters("a\xff\xc3é🦙") == 5);
  CHECK(substring("añ🦙b", 1, 3) == "ñ🦙");
  CHECK(substring("abc", 2, 9) == "c");
  CHECK(substring("abc", 5, 9) == "");
  CHECK(json_string("a\"\\\n\x01é\x7f", false) == "\"a\\\"\\\\\\n\\u0001é\x7f\"");
  CHECK(json_string("é🦙\x7f", true) == "\"\\u00e9\\ud83e\\udd99\\u007f\"");
  CHECK(fixed_date("%Y-%m-%d") == "2024-07-26");
  CHECK(fixed_date("%Q") == "");
  CHECK(fixed_date("100%") == "");
  CHECK(fixed_date("%-") == "");
  CHECK(is_utf8("aé🦙"));
  CHECK_FALSE(is_utf8("\xed\xa0\x80"));  // a surrogate
  CHECK_FALSE(is_utf8("\xc0\x80"));
  CHECK_FALSE(is_utf8("\xf4\x90\x80\x80"));
}

TEST_CASE("jinja: what came out of a message stays marked, whatever is done to it") {
  const std::string c = "{% set c = messages[0].content %}";
  const std::pair<const char*, const char*> cases[] = {
      {"a{{ c }}b", "a[ One,two\n]b"},
      {"{{ 'a' + c + 'b' }}", "a[ One,two\n]b"},
      {"{{ 'a' ~ c ~ 1 }}", "a[ One,two\n]1"},
      {"{{ ('(' + c + ')').strip('()') | trim }}", "[One,two]"},
      {"{{ ('(' ~ c ~ ')')[3:-3] }}", "[ne,tw]"},
      {"{{ ('(' ~ c ~ ')')[0] }}{{ c[1] }}", "([O]"},
      {"{{ ('a,' ~ c).split(',') | join('|') }}", "a|[ One]|[two\n]"},
      {"{{ c.split() | join }}{{ c.splitlines() | last }}", "[One,two One,two]"},
      {"{{ c | replace('One', 'x') }}", "[ ]x[,two\n]"},
      {"{{ 'x-y'.replace('-', c) }}", "x[ One,two\n]y"},
      {"{{ c | upper }}{{ ('a' + c) | lower }}{{ c | capitalize }}",
       "[ ONE,TWO\na one,two\n one,two\n]"},
      {"{{ c | tojson }}", "[\" One,two\\n\"]"},
      {"{{ {'k': [c, 'd']} | tojson }}", "{\"k\": [[\" One,two\\n\"], \"d\"]}"},
      {"{{ c | indent(2) }}", "[ One,two]\n"},
      {"{{ ('a\nb' ~ c) | indent(2) }}", "a\n  b[ One,two]\n"},
      {"{{ c * 2 }}|{{ 'a' * 2 }}", "[ One,two\n One,two\n]|aa"},
      {"{% set x %}<{{ c }}>{% endset %}{{ x | trim }}", "<[ One,two\n]>"},
      {"{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(c) }}", "<[ One,two\n]>"},
      {"{% filter upper %}a{{ c }}{% endfilter %}", "[A ONE,TWO\n]"},
      {"{% for x in c %}{{ x }}{% endfor %}", "[ One,two\n]"},
      {"{{ (c ~ 'b') | list | first }}{{ [c, 'b'] | last }}", "[ ]b"},
      {"{{ c | default('x') }}{{ '' or c }}", "[ One,two\n One,two\n]"},
      {"{{ c | length }}{{ c == ' ' }}{{ messages[0].role }}", "9Falseuser"},
      {"{{ strftime_now(c) }}", "[ One,two\n]"},
      {"{{ {c: 1} }}{{ {c: 'a'} | tojson }}", "{[' One,two\\n']: 1}{[\" One,two\\n\"]: \"a\"}"},
      {"{% for k, v in {c: 'a'} | items %}{{ k ~ v }}{% endfor %}{{ {c: 1} | join }}",
       "[ One,two\n]a[ One,two\n]"},
      {"{{ [c, 'a'] }}{{ '<' | safe + c + '<' }}", "[[' One,two\\n'], 'a']<[ One,two\n]&lt;"},
      {"{% call m() %}{{ c }}{% endcall %}", "([ One,two\n])"},
  };
  for (const auto& one : cases) {
    CAPTURE(one.first);
    CHECK(marked(c + "{% macro m() %}({{ caller() }}){% endmacro %}" + one.first) == one.second);
  }
}

TEST_CASE("jinja: one message may be marked alone, and a refusal be left unheeded") {
  const json messages = {{{"role", "user"}, {"content", "a"}},
                         {{"role", "assistant"}, {"content", "b"}}};
  jinja::Inputs in = inputs(messages);
  in.marked = 1;
  const jinja::Template both("{{ messages[0].content }}{{ messages[1].content }}");
  const jinja::Text text = both.render(in);
  REQUIRE(text.parts().size() == 2);
  CHECK_FALSE(text.parts()[0].input);
  CHECK(text.parts()[1].input);
  const jinja::Template refusing("a{{ raise_exception('no') }}b");
  try {
    (void)refusing.render(in);
    FAIL("heeded nothing");
  } catch (const jinja::Refused& refused) {
    CHECK(refused.reason == "no");
  }
  in.heeds_refusals = false;
  CHECK(refusing.render(in).bytes() == "ab");
}

TEST_CASE("jinja: long conversations have the budget they need") {
  json messages = json::array();
  for (int i = 0; i < 3000; ++i) {
    messages.push_back(
        {{"role", i % 2 ? "assistant" : "user"}, {"content", repeated("word ", 40)}});
  }
  messages.push_back({{"role", "user"}, {"content", std::string(size_t{3} << 20, 'x')}});
  const Rendering rendering = render(
      "{% for m in messages %}{% if m.role == 'user' %}<{{ m.content.strip() }}>{% else %}"
      "{{ m['content'].split('</think>')[-1].lstrip('\n') + '|' }}{% endif %}{% endfor %}",
      messages);
  CHECK(rendering.outcome == Outcome::kText);
  CHECK(rendering.text.size() > (size_t{3} << 20));
}

}  // namespace specbound::jinja_test
