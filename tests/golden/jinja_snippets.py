"""Pieces of Jinja that show what a chat template may do, one thing each."""

SNIPPETS = [
    # white space control
    "a\n{% if true %}\nb\n{% endif %}\nc\n",
    "a\n  {% if true %}  \n b\n  {%- endif %}\nc\n\n",
    "a {%- if true -%} b {%- endif -%} c",
    "a {%+ if true +%} \n b {%+ endif +%}\n c",
    "  {% if true %}x{% endif %}  y\n   {# comment #}\n z",
    "{{ 'a' -}}  \n\n {{- 'b' }}\n{{ 'c' }}\n",
    "\t {#- c -#} \n x {#+ c +#}\n y",
    "a\r\nb\rc{{ 'd\r\ne' }}\r\n",
    "{% set x = 1 %}\n\n{% set y = 2 %}{{ x + y }}",
    "text {% if 1 %}  \n  {{ 'x' }}\n  {% endif %}",
    "a{% raw %} {{ x }} {% if %} {% endraw %}b",
    "a {%- raw -%}  {{ x }}  {%- endraw -%} b",
    "{", "{ {", "a { b } c %} }} #}", "{{ '{{' }}{{ \"}}\" }}{{ '%}' }}",
    "{{ {'a': {'b': 1}}['a']['b'] }}", "{#{{ x }}#}", "",
    # literals
    "{{ 'a\\n\\t\\\\\\'\\\"\\x41\\u00e9\\U0001F999\\q' }}", "{{ 'a' 'b' \"c\" }}",
    "{{ 1 }} {{ -2 }} {{ 1.5 }} {{ true }} {{ False }} {{ none }} {{ nothing }}",
    "{{ (1, 2)[1] }}{{ [1, 2,][0] }}{{ ('a',)[0] }}{{ {'x': 1, 'y': 'z',}.y }}",
    "{{ 10 // 3 }} {{ -10 // 3 }} {{ 10 % 3 }} {{ -10 % 3 }} {{ 7 / 2 }} {{ 2 * 3 + 4 }}",
    "{{ 'ab' * 3 }}{{ 'ab' * 0 }}{{ 'a' + 'b' ~ 1 ~ none ~ true }}",
    "{{ 1 + 2 ~ 3 }} {{ 2 - 1 ~ 'x' }}", "{{ 1 if false }}|{{ 1 if true else 2 }}",
    "{{ 'a' if false else 'b' if false else 'c' }}", "{{ not true or true and not false }}",
    "{{ '' or 'x' }}{{ 0 or none or [] or 'y' }}{{ 'a' and 'b' }}",
    "{{ 1 < 2 <= 2 < 3 }}{{ 1 < 2 > 3 }}{{ 'a' < 'b' }}{{ 1 == 1.0 }}{{ 1 == true }}",
    "{{ 'a' == 1 }}{{ none == false }}{{ [1, [2]] == [1, [2]] }}{{ {'a': 1} != {'a': 2} }}",
    "{{ 'b' in 'abc' }}{{ '' in 'a' }}{{ 2 in [1, 2] }}{{ 'k' in {'k': 1} }}{{ 'x' not in 'y' }}",
    "{{ x in [1] }}{{ 'a' in x }}{{ x == y }}{{ x == none }}", "{{ - 2 | abs }}",
    # names, attributes, items
    "{{ messages[0].role }}{{ messages[-1]['content'] }}{{ messages[9] }}{{ messages.0.role }}",
    "{{ messages[0].nothing is defined }}{{ messages[0]['content'] is defined }}",
    "{{ messages[0].nothing.more }}", "{{ nothing.x }}", "{{ nothing['x'] }}", "{{ nothing() }}",
    "{{ nothing + 'x' }}", "{{ 'x'.nothing }}|{{ none.x }}|{{ 'abc'[1] }}|{{ 'añ🦙'[2] }}",
    "{{ 'abc'[-1] }}{{ 'abc'[5] }}", "{{ messages['x'] }}", "{{ 1 + 'a' }}", "{{ 'a' + 1 }}",
    "{{ 1 < 'a' }}", "{{ 1 // 0 }}", "{{ nothing | length }}{{ none | length }}",
    # slices
    "{{ 'abcdef'[1:3] }}{{ 'abcdef'[:-2] }}{{ 'abcdef'[-2:] }}{{ 'abc'[5:] }}{{ 'abc'[2:1] }}",
    "{% for m in messages[::-1] %}{{ m.role[0] }}{% endfor %}",
    "{% for m in messages[1:] %}{{ loop.index0 }}{{ m.role }}{% endfor %}",
    "{{ messages[:-1] | length }}{{ messages[-2:][0].role }}{{ 'aé🦙z'[1:3] }}",
    "{{ [1, 2, 3][::-1][0] }}{{ [1, 2, 3][2:0:-1] | join }}{{ [1, 2][5::-1] | join }}",
    # loops
    "{% for x in [1, 2, 3] %}{{ loop.index }}/{{ loop.length }}{{ loop.first }}{{ loop.last }}"
    "{{ loop.revindex }}{{ loop.revindex0 }} {% endfor %}",
    "{% for x in [] %}a{% else %}none{% endfor %}{% for x in nothing %}a{% else %}b{% endfor %}",
    "{% for m in messages if m.role == 'user' %}{{ loop.index }}{{ loop.last }}{{ m.content }}"
    "{% endfor %}",
    "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in {'b': 1, 'a': 2} | items %}{{ k }}{{ v }}{% endfor %}",
    "{% for k in {'b': 1, 'a': 2} %}{{ k }}{% endfor %}{% for c in 'añ🦙' %}[{{ c }}]{% endfor %}",
    "{% for x in range(3) %}{{ x }}{% endfor %}{% for x in range(5, 1, -2) %}{{ x }}{% endfor %}",
    "{% for x in [1,2,3,4] %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}"
    "{% endif %}{{ x }}{% endfor %}",
    "{% for a in [1, 2] %}{% for b in [1, 2] %}{{ loop.index }}{% if b == a %}{% break %}"
    "{% endif %}{% endfor %}|{% endfor %}",
    "{% for x in [1, 2] %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }}{% endfor %}",
    "{% for x in none %}{% endfor %}", "{% for x in 5 %}{% endfor %}",
    "{% for a, b in [[1, 2, 3]] %}{% endfor %}",
    # variables and where they live
    "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = 5 %}{{ x }}{% endfor %}{{ x }}",
    "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% set n = namespace(x=1) %}{% for i in [1, 2] %}{% set n.x = n.x + i %}{% endfor %}{{ n.x }}",
    "{% set n = namespace() %}{% set n.a = 'b' %}{{ n.a }}{{ n.c is defined }}",
    "{% set d = {'a': 1} %}{% set d.a = 2 %}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set a, b = [1] %}", "{% set t = 1, 2 %}{{ t[1] }}",
    "{% set b %} x {{ 1 }} {% endset %}[{{ b }}]",
    "{% set b | trim | upper %} x {% endset %}[{{ b }}]",
    "{% filter upper %}a{{ 'b' }}{% endfilter %}",
    "{% set messages = messages[1:] %}{{ messages | length }}",
    "{% for messages in messages %}{{ messages.role }}{% endfor %}{{ messages | length }}",
    # macros
    "{% macro m(a, b='x') %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=3, a=4) }}",
    "{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}",
    "{% macro m() %}x{% endmacro %}{{ m() | upper }}{{ m() ~ 'y' }}{{ m() + 'z' }}",
    "{% set v = 1 %}{% macro m() %}{{ v }}{% endmacro %}{% set v = 2 %}{{ m() }}",
    "{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
    "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}",
    "{% macro m() %} {%- set x = 5 -%} {{ x }} {% endmacro %}[{{ m() }}]{{ x is defined }}",
    "{% generation %}{% set q = 1 %}a{% endgeneration %}{{ q is defined }}",
    # filters
    "{{ '  a b ' | trim }}|{{ 'xxaxx' | trim('x') }}|{{ '\\u00a0a\\u3000' | trim }}|",
    "{{ 'aBc' | upper }}{{ 'aBc' | lower }}{{ 'aBC dE' | capitalize }}{{ 'abc' | length }}",
    "{{ messages | length }}{{ 'añ🦙' | length }}{{ {'a': 1} | count }}",
    "{{ nothing | default('d') }}{{ '' | default('d') }}{{ '' | default('d', true) }}"
    "{{ none | d('e') }}",
    "{{ [1, 'a', none] | join(', ') }}{{ messages | join('-', attribute='role') }}"
    "{{ 'abc' | join('.') }}",
    "{{ 'a-b-c' | replace('-', '+') }}{{ 'aaa' | replace('a', 'b', 2) }}",
    "{{ [3, 1, 2] | first }}{{ [3, 1, 2] | last }}{{ [] | first }}{{ 'abc' | first }}"
    "{{ 'abc' | last }}",
    "{{ [1, 2] | list | length }}{{ 'ab' | list | join('|') }}{{ [1, 2] | reverse | list | join }}",
    "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}",
    "{{ messages | rejectattr('role', 'eq', 'user') | map(attribute='role') | join(',') }}",
    "{{ messages | selectattr('nothing') | list | length }}"
    "{{ messages | selectattr('role', 'defined') | list | length }}",
    "{{ ['a', '', 'b'] | select | join }}{{ [1, 2, 3] | reject('odd') | join }}"
    "{{ [1, 2] | select('in', [2]) | join }}",
    "{{ ['a', 'b'] | map('upper') | join }}{{ [' a '] | map('trim') | first }}",
    "{{ messages | map(attribute='x', default='-') | join }}",
    "{{ ['b', 'C', 'a'] | sort | join }}{{ [2, 1] | sort | join }}"
    "{{ messages | sort(attribute='role') | map(attribute='role') | join(' ') }}",
    "{% for k, v in {'b': 1, 'A': 2} | dictsort %}{{ k }}"
    "{{ v }}{% endfor %}{{ ['a', 'A', 'b'] | unique | join }}",
    "{{ 'a\\nb\\n\\nc' | indent(2) }}|{{ 'a\\nb' | indent(2, true) }}|{{ 'a\\n\\nb' | "
    "indent(2, first=true) }}|{{ 'a\\nb' | indent }}",
    "{{ '12' | int + 1 }}{{ 5 | string + 'x' }}{{ '<a>' | safe }}{{ none | string }}"
    "{{ true | string }}",
    "{{ 'a' | nothing_known }}",
    "{{ {'a': [1, 2.5, none, true, 'x\"\\n\\\\é'], 'b': {}, 'c': []} | tojson }}",
    "{{ {'a': [1, {'b': 2}], 'c': []} | tojson(indent=2) }}",
    "{{ 'é🦙\\x7f\\x01' | tojson(ensure_ascii=true) }}",
    "{{ nothing | tojson }}", "{{ messages[0] | tojson(ensure_ascii=False) }}",
    # tests
    "{{ 1 is defined }}{{ x is undefined }}{{ none is none }}{{ 'a' is string }}"
    "{{ {} is mapping }}",
    "{{ [] is iterable }}{{ 'a' is iterable }}{{ 1 is iterable }}{{ [] is sequence }}"
    "{{ {} is sequence }}{{ x is iterable }}",
    "{{ 1 is number }}{{ 1.5 is number }}{{ true is number }}{{ true is boolean }}"
    "{{ 1 is boolean }}",
    "{{ true is true }}{{ 1 is true }}{{ false is false }}{{ 1 is integer }}"
    "{{ 1.5 is float }}{{ true is integer }}",
    "{{ 3 is odd }}{{ 4 is even }}{{ 6 is divisibleby 3 }}{{ 6 is divisibleby(4) }}"
    "{{ 1 is eq 1 }}{{ 1 is not eq(2) }}",
    "{{ 'a' is not none and 'b' is string or false }}{{ 'a' is in ['a'] }}"
    "{{ namespace is callable }}",
    "{{ x is not defined }}{{ not x is defined }}{{ 'x' is nothing_known }}",
    # string methods
    "{{ ' a '.strip() }}|{{ ' a '.lstrip() }}|{{ ' a '.rstrip() }}|{{ 'xyaxy'.strip('yx') "
    "}}|{{ '\\n\\na\\n'.lstrip('\\n') }}|",
    "{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith('bc') }}{{ 'abc'.startswith(('x', 'a')) }}"
    "{{ ''.endswith('') }}",
    "{{ 'a,b,c'.split(',') | join('|') }}{{ 'a,b,c'.split(',', 1)[1] }}"
    "{{ ' a  b '.split() | join('|') }}{{ 'a,b'.split(',')[-1] }}",
    "{{ ''.split(',') | length }}{{ 'x'.split('</think>')[-1] }}"
    "{{ 'a\\nb\\r\\nc\\n'.splitlines() | join('|') }}",
    "{{ 'abc'.upper() }}{{ 'ABC'.lower() }}{{ 'hello World'.capitalize() }}"
    "{{ 'aXbX'.replace('X', '-') }}{{ 'aaa'.replace('a', 'b', 1) }}",
    "{{ ', '.join(['a', 'b']) }}{{ 'abcé'.find('é') }}{{ 'abc'.find('x') }}",
    "{{ 'abc'.nothing_known() }}",
    "{{ 'a'.split('') }}", "{{ 'abc'.replace('b', '') }}",
    # methods of dicts, and what the sandbox forbids
    "{{ messages[0].get('role') }}{{ messages[0].get('x') }}{{ messages[0].get('x', 'y') }}",
    "{{ {'a': 1, 'b': 2}.keys() | join }}{{ {'a': 1, 'b': 2}.values() | join }}"
    "{{ {'a': 1} | length }}",
    "{{ [1].append(2) }}", "{{ {'a': 1}.pop('a') }}", "{{ {'a': 1}.update({'b': 2}) }}",
    "{{ dict(a=1, b='x').b }}{{ namespace(a=1).a }}",
    # functions
    "{{ raise_exception('no') }}",
    "{{ strftime_now('%d %b %Y|%Y-%m-%d|%B %d, %Y|%A %a|%H:%M:%S|%j|%y|%%') }}",
    "{{ strftime_now('%-d %-m') }}", "{{ range(3) | list | length }}",
    # what is no template
    "{{ }}", "{% %}", "{{ 'a }}", "{% if %}x{% endif %}", "{% if x %}", "{% endif %}",
    "{% for x in y %}",
    "{{ (1 }}", "{{ 1) }}", "{{ [1 }}", "{{ {1 }}", "{# x", "{% raw %}x", "{{ a b }}", "{{ a. }}",
    "{{ a[ }}",
    "{{ | upper }}", "{{ 'a' | }}", "{{ a is }}", "{% set %}", "{% set x %}",
    "{% macro %}{% endmacro %}",
    "{% else %}", "{% for x y in z %}{% endfor %}", "{% unknown %}", "{{ not }}", "{{ 1 + }}",
    "{{ a ? b }}",
    # Python's notation
    "{{ [1, 'a', none, true, 1.5] }}{{ {'k': [1], 2: 'v'} }}{{ [] }}{{ {} }}{{ (1,) }}{{ () }}",
    "{{ ['it\\'s', '\"', '\\'\"', 'a\\n\\t\\\\', 'é你🦙', '\\x01\\x7f'] }}",
    "{{ [[1, 2], ('a', 'b')] ~ 'x' }}{{ {'a': {'b': ()}} | string }}", "{{ [nothing] }}",
    "{{ {'a': 1, 'b': 2}.items() | list }}{{ {'b': 1, 'a': 2} | dictsort }}",
    "{{ 0.00001 }} {{ 123456789012345680.0 }} {{ 1.0 }} {{ 0.1 }} {{ 100000.5 }}",
    "{{ '12345678901234567890.5' }}{{ 12345678901234567890.5 }}{{ 0.000123 }}",
    # dicts of numbers
    "{{ {1: 'a', 2: 'b'}[2] }}{{ {1: 'a'}[3] is defined }}{{ {1: 'a', 1: 'b'} | length }}",
    "{{ {0: 'a'}[false] }}{{ {1: 'a'}.get(1) }}{{ {1: 'a'}.get(2, 'z') }}{{ 1 in {1: 2} }}",
    "{{ {[1]: 2} }}", "{{ {'a': 1}[[1]] }}", "{% for k in {1: 'a', 'b': 2} %}{{ k }}{% endfor %}",
    # JSON
    "{{ {'b': [1, {}], 'a': []} | tojson(indent=2) }}",
    "{{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }}",
    "{{ {'a': [1, 2]} | tojson(separators=(',', ':')) }}", "{{ {1: none, 'é': 'é'} | tojson }}",
    "{{ {'a': {'b': 1}} | tojson(indent=1, separators=(';', '=')) }}", "{{ nothing | tojson }}",
    "{{ ('a', [1.5, -0.0]) | tojson(true) }}",
    # blocks
    "{% with a = 1, b = 'x' %}{{ a }}{{ b }}{% set a = 2 %}{{ a }}{% endwith %}{{ a is defined }}",
    "{% with %}x{% endwith %}",
    "{% set a = 1 %}{% with a = a + 1, b = a %}{{ a }}{{ b }}{% endwith %}",
    "{% macro m(x) %}<{{ x }}{{ caller() }}>{% endmacro %}{% call m(1) %}b{% endcall %}",
    "{% macro m() %}{{ caller('u', z=3) }}{% endmacro %}{% call(x, y=2, z=0) m() %}{{ x }}{{ y }}"
    "{{ z }}{% endcall %}", "{% call nothing() %}{% endcall %}", "{{ caller() }}",
    "{% macro m() %}{{ caller() }}{% endmacro %}"
    "{% set v = 'o' %}{% call m() %}{{ v }}{% endcall %}",
    # filters, tests, methods
    "{{ 'hello big-world' | title }}{{ 'ab Cd'.title() }}"
    "{{ [3, 1, 2] | min }}{{ ['b', 'A'] | max }}",
    "{{ [] | min is defined }}",
    "{{ 'a' is lower }}{{ 'A1' is upper }}",
    "{{ '1' is lower }}{{ 2 is gt(1) }}{{ 1 is le 1 }}{{ 1 is lessthan(2) }}{{ 2 is ge 3 }}",
    "{{ 'aXbXc'.count('X') }}{{ 'abcb'.rfind('b') }}{{ '12'.isdigit() }}{{ ''.isdigit() }}",
    "{{ 'pre-x'.removeprefix('pre-') }}{{ 'x.py'.removesuffix('.py') }}{{ 'x'.removeprefix('y') }}",
    "{{ {'a': 1}.copy().a }}", "{{ [1].append(2) }}", "{{ {'a': 1}.pop('a') }}",
    "{{ {'a': 1}.update({}) }}",
    # markup
    "{{ '<' | safe }}{{ '<b>' | safe + '<&\"\\'>' }}{{ '<' + ('>' | safe) }}{{ '<' | safe ~ '>' }}",
    "{{ ('<' | safe) + ('>' | safe) }}{{ (['<'] | join('&' | safe)) }}",
    # generators, which filters give
    "{{ messages | map(attribute='role') | tojson }}", "{{ messages | map('string') | length }}",
    "{{ 'y' if messages | selectattr('role', 'equalto', 'x') else 'n' }}",
    "{{ (messages | map(attribute='role'))[0] is defined }}{{ [1] | select | list | tojson }}",
    "{{ messages | reverse | tojson }}", "{{ [1, 2] | select | last }}",
    "{{ [3, 4] | unique | first }}{{ (1,) == [1] }}{{ (1, 2) == (1, 2) }}",
    "{{ [1] | select is sequence }}{{ [1] | select is iterable }}{{ [1] | select == [1] }}",
    "{{ [1, 2] | reverse | reverse | list }}{{ {'a': 1} | items | list | length }}",
    "{{ {3: 'c', 1: 'a'} | dictsort }}", "{{ {3: 'c', 'a': 1} | dictsort }}",
    "{{ {'你': 1, 'B': 2, 'a': 3} | dictsort }}{{ 'a你B' | upper }}{{ 'AI🦙x' | lower }}",
    "{{ \"can't a1b <x (y\" | title }}{{ \"can't a1b\".title() }}",
]
