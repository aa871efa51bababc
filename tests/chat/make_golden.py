#!/usr/bin/env python3
"""Write tests/data/jinja.json: what Jinja2 makes of the templates below and of the built-in chat templates.

Usage: make_golden.py [--check]   --check compares with the file instead; exit code 77 without Jinja2

Jinja2 is set up as Hugging Face transformers does it for chat templates: sandboxed, trim_blocks, lstrip_blocks, loop
controls, its own tojson, raise_exception and strftime_now. Debian's python3-jinja2 will do.
"""
import json
import re
import sys
from pathlib import Path

try:
    import jinja2.ext
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError:
    print("no Jinja2 here")
    sys.exit(77)

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/data/jinja.json"
BUILTIN = ROOT / "src/chat/gemma4_template.cc"

VARIABLES = {
    "x": 3, "f": 2.5, "s": "  Hello World ", "l": [3, 1, 2], "m": {"b": 1, "A": 2, "c": None}, "n": None, "t": True,
    "fa": False, "nested": {"a": {"b": [1, {"c": "d"}]}}, "u": "h\u00e9llo \u20ac\U0001f600", "e": "",
    "items": [{"n": "a", "v": 1, "on": True}, {"n": "b", "v": 2, "on": False}, {"n": "C", "v": 1}],
    "q": "it's \"q\"\n\t\\", "big": 1e20, "small": 1e-7,
}

# One template a line, each with VARIABLES.
LINES = r"""
{{ x }} {{ f }} {{ s }} {{ l }} {{ m }} {{ n }} {{ t }} {{ nested }} {{ big }} {{ small }} {{ q }} {{ [q, u] }}
{{ missing }}|{{ missing is defined }}|{{ m.missing }}|{{ m['missing'] }}|{{ n.foo }}|{{ n[0] }}|{{ x.foo }}
{{ missing.foo }}
{{ missing[0] }}
{{ missing() }}
{{ 1 + 2 * 3 - 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 1 / 3 }}
{{ 2 ** 3 ** 2 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ -x }} {{ +x }} {{ - x + 1 }} {{ -2 ** 2 }} {{ -1 | abs }} {{ 2 - -1 }}
{{ 1 / 0 }}
{{ 'a' + 'b' }} {{ 'a' ~ 1 ~ none ~ 2.0 }} {{ 'ab' * 3 }} {{ [1] + [2] }} {{ [1, 2] * 2 }} {{ 'a' ~ missing ~ 'b' }}
{{ 'a' + 1 }}
{{ [1] + (2,) }}
{{ missing + 'a' }}
{{ 1 == 1.0 }} {{ true == 1 }} {{ [1] == [1.0] }} {{ (1,) == [1] }} {{ {'a': 1} == {'a': 1} }} {{ missing == none }}
{{ 1 < 2 < 3 }} {{ 1 < 3 > 2 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 in l }} {{ 9 not in l }} {{ 'ell' in s }}
{{ 'b' in m }} {{ 5 in m }} {{ 'x' in missing }} {{ 'a' in 'abc' and 'b' not in 'xyz' }} {{ not 'a' in 'b' }}
{{ 1 < 'a' }}
{{ 1 in 'abc' }}
{{ not t }} {{ t and x }} {{ fa or 'd' }} {{ n or missing or 'z' }} {{ not x == 3 }} {{ '' or [] or {} or 0 or 'z' }}
{{ 'yes' if t else 'no' }} {{ 'yes' if fa }} {{ 'a' if fa else 'b' if fa else 'c' }} {{ (1 if fa else 2) + 3 }}
{{ l[0] }} {{ l[-1] }} {{ l[10] }} {{ l[1:] }} {{ l[:-1] }} {{ l[::-1] }} {{ l[::2] }} {{ l[5:1:-1] }} {{ l[-9:9] }}
{{ u[1:4] }} {{ u[-1] }} {{ u[::-1] }} {{ s[100:] }} {{ u[0] }} {{ l.0 }} {{ nested.a.b.1.c }} {{ l['0'] }}
{{ l[::0] }}
{{ m[1:] }}
{{ nested.a.b[1].c }} {{ nested['a']['b'][1]['c'] }} {{ {'a': {'b': {}}} }}{{ {'a': 1}['a'] }}{{ 'abc'[1] }}
{{ s.strip() }}|{{ s.lstrip() }}|{{ s.rstrip() }}|{{ s.upper() }}|{{ s.lower() }}|{{ 'xxaxx'.strip('x') }}
{{ 'a,b,,c'.split(',') }}|{{ 'a,b,c'.split(',', 1) }}|{{ ' a  b '.split() }}|{{ ' a  b c '.split(none, 1) }}
{{ 'abc'.startswith('a') }} {{ 'abc'.endswith(('c', 'd')) }} {{ 'aXbX'.replace('X', '-', 1) }} {{ ','.join(['a']) }}
{{ 'abcabc'.count('bc') }} {{ 'hello'.find('l') }} {{ 'a'.find('z') }} {{ '12'.isdigit() }} {{ "they're x1y".title() }}
{{ 'hELLO'.capitalize() }} {{ 'p-a'.removeprefix('p-') }} {{ 'a.txt'.removesuffix('.txt') }} {{ "a\nb\n".splitlines() }}
{{ 'abc'.nomethod() }}
{{ ','.join([1]) }}
{{ m.get('b') }} {{ m.get('zz') }} {{ m.get('zz', 5) }} {{ m.keys() | list }} {{ m.values() | list }}
{{ m.items() | list }} {{ m.items() is sequence }} {{ m['items'] is mapping }} {{ l.index(1) }} {{ l.count(1) }}
{{ l.append(4) }}
{{ m.update({'a': 1}) }}
{% for k, v in m.items() %}{{ k }}={{ v }};{% endfor %}{% for k in m %}{{ k }}{% endfor %}
{% for k, v in m | dictsort %}{{ k }}={{ v }};{% endfor %}{% for k, v in m | dictsort(true) %}{{ k }}{% endfor %}
{% for k, v in {'b': 2, 'a': 3} | dictsort(by='value') %}{{ k }}{% endfor %}{% for k, v in m | items %}{{ k }}{% endfor %}
{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}
{% for i in l %}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }} {% endfor %}
{% for i in [] %}x{% else %}empty{% endfor %}{% for i in missing %}x{% else %}none{% endfor %}
{% for i in none %}x{% endfor %}
{% for i in l if i > 1 %}{{ i }}{{ loop.index }}/{{ loop.length }} {% endfor %}{% for a in 'h\u00e9' %}{{ a }}.{% endfor %}
{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for i in range(1, 10, 3) %}{{ i }} {% endfor %}{% for i in range(5, 0, -2) %}{{ i }} {% endfor %}{{ range(3) | list }}
{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a, b in [[1, 2, 3]] %}{{ a }}{% endfor %}
{% for i in l %}{% for j in l %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}
{% set a = 1 %}{% for i in l %}{% set a = a + i %}{{ a }} {% endfor %}{{ a }}{% set a, b = 1, 2 %}{{ a }}{{ b }}
{% set ns = namespace(a=1, b='x') %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}
{% set ns = namespace(l=[]) %}{% for i in l %}{% set ns.l = ns.l + [i * 2] %}{% endfor %}{{ ns.l }}{{ ns is mapping }}
{% set m.x = 1 %}
{% set x %}  block {{ 1 + 1 }}{% set zz = 5 %} {% endset %}[{{ x }}][{{ zz }}]{% set y | upper | trim %} abc {% endset %}[{{ y }}]
{% filter replace('a', 'b') | trim %} aaa {{ s }}{% endfilter %}{% if true %}{% set zz = 5 %}{% endif %}[{{ zz }}]
{% macro m1(a, b=2, c=a) %}<{{ a }},{{ b }},{{ c }}>{% endmacro %}{{ m1(1) }}{{ m1(1, 3) }}{{ m1(1, c=4) }}{{ m1(a='z') }}{{ m1() }}
{% macro m1(a) %}{{ a }}{% endmacro %}{{ m1(1, 2) }}
{% macro m1(a) %}{{ a }}{% endmacro %}{{ m1(zz=2) }}
{% macro m1(a) %}{{ a }}{% endmacro %}{{ m1(1, a=2) }}
{% macro f(n) %}{% if n > 1 %}{{ n * (f(n - 1) | int) }}{% else %}1{% endif %}{% endmacro %}{{ f(10) }}
{% macro o() %}{{ i() }}{{ v }}{% endmacro %}{% macro i() %}in{% endmacro %}{% set v = 5 %}{{ o() }}{{ o() ~ 'y' }}{{ o() | length }}
{% macro a() %}{{ loop is defined }}{{ i is defined }}{% set v = 9 %}{{ v }}{% endmacro %}{% set v = 1 %}{% for i in l %}{{ a() }}{% endfor %}{{ v }}
{{ s | trim }}|{{ s | upper }}|{{ s | lower }}|{{ 'foo bar-baz (qux) it' | title }}|{{ s | trim | capitalize }}|{{ u | length }}
{{ l | join(', ') }} {{ items | join(',', attribute='n') }} {{ [1, 'a', none, true] | join('-') }} {{ l | first }} {{ l | last }}
{{ l | min }} {{ l | max }} {{ l | sum }} {{ items | sum(attribute='v') }} {{ l | sort }} {{ ['b', 'A', 'c'] | sort(reverse=true) }}
{{ items | sort(attribute='n') | map(attribute='n') | list }} {{ l | reverse | list }} {{ 'abc' | reverse }} {{ [1, 1, 'a', 'A'] | unique | list }}
{{ ['a', 'b'] | map('upper') | list }} {{ ['a', 'b'] | map('replace', 'a', 'z') | join }} {{ items | map(attribute='on', default='?') | list }}
{{ [1, 0, 2] | select | list }} {{ [1, 0] | reject | list }} {{ [1, 2, 3] | select('odd') | list }} {{ [1, 2, 3] | reject('gt', 1) | list }}
{{ items | selectattr('on') | map(attribute='n') | list }} {{ items | selectattr('v', 'equalto', 1) | list | length }} {{ items | rejectattr('on', 'defined') | list }}
{% if [] | select | list %}y{% else %}n{% endif %}{% if [] | map('upper') %}y{% else %}n{% endif %}
{{ missing | default('d') }} {{ e | default('d') }} {{ e | default('d', true) }} {{ n | default('d') }} {{ none | d('x', boolean=true) }} {{ missing | length }}
{{ missing | dictsort }}
{{ missing | tojson }}
{{ n | length }}
{{ m | tojson }} {{ u | tojson }} {{ u | tojson(ensure_ascii=true) }} {{ q | tojson }} {{ m | tojson(sort_keys=true) }} {{ m | tojson(separators=(',', ':')) }}
{{ nested | tojson(indent=2) }} {{ [] | tojson(indent=2) }} {{ big | tojson }} {{ 1.0 | tojson }} {{ '<a&b>' | tojson }} {{ '\x7f\x01' | tojson }} {{ (1, 2) | tojson }}
{{ 3.7 | int }} {{ '42' | int }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ '3.9' | int }} {{ true | int }} {{ '1e3' | float }} {{ 'z' | float }} {{ ' 12 ' | int }}
{{ 2.567 | round(2) }} {{ 2.5 | round }} {{ 2.1 | round(method='ceil') }} {{ 2.19 | round(1, 'floor') }} {{ 3 | round }} {{ -1.5 | abs }}
{{ "a\nb\n\nc" | indent }}|{{ "a\nb" | indent(2, true) }}|{{ "a\n\nb" | indent(2, blank=true) }}|{{ "a\nb" | indent('> ') }}
{{ 'a' is string }} {{ 1 is string }} {{ true is number }} {{ 1.0 is float }} {{ true is integer }} {{ true is boolean }} {{ m is mapping }} {{ l is mapping }}
{{ l is sequence }} {{ 'a' is sequence }} {{ m is sequence }} {{ missing is sequence }} {{ 1 is iterable }} {{ n is not none }} {{ (l | map('string')) is sequence }}
{{ x is odd }} {{ x is even }} {{ x is divisibleby 3 }} {{ x is divisibleby(2) }} {{ x is eq 3 }} {{ x is in [1, 2, 3] }} {{ 'abc' is lower }} {{ range is callable }}
{{ x is equalto 3 and t }} {{ x is defined or fa }} {{ not x is defined }} {{ t is true }} {{ fa is false }}
{{ 'a' 'b' }} {{ "q'q" }} {{ 'a\\nb' }} {{ 'a\nb\t\x41\u00e9\U0001F600\101\q' }} {{ 1_000 }} {{ 1.5e3 }} {{ 1E-2 }}
{{ 1e16 }} {{ 123456789012345.6 }} {{ 1e15 }} {{ 0.0001 }} {{ 0.00001 }} {{ -0.0 }} {{ 5e-324 }} {{ 1.7976931348623157e308 }}
{{ (1, 2) }} {{ (1,) }} {{ () }} {{ [1, [2, (3,)]] }} {{ 1, 2 }} {{ [1,] }} {{ {'a': 1,} }} {{ 9223372036854775807 - 1 }}
{{ 'a' ~ 'b' | upper }} {{ 1 + 2 ~ 3 + 4 }} {{ 2 * 3 ~ 4 }} {{ l | length > 2 }} {{ s | trim ~ '!' }} {{ 'a' not in 'b' == true }}
{# comment #}a{#- x -#} b {#- y #} c
a  {%- if t -%}  b  {%- endif -%}  c {{- ' y ' -}} z
{% raw %}{{ x }}{% endraw %} {%- raw -%}  {% a %}  {%- endraw -%}  z
{% if fa %}a{% elif n %}b{% else %}c{% endif %}{% if t %}a{% elif x %}b{% endif %}
{{ raise_exception('boom ' + s) }}
{{ dict(a=1, b=2) }} {{ dict({'x': 1}, y=2) }} {{ strftime_now('%d %b %Y') }}
{{ " \u00a0\u2003a\u3000 " | trim }}|{{ "\x1ca\x1f" | trim }}|{{ l | nofilter }}
{{ l is notest }}
{% foo %}
{{
{% if x %}
{% for x in l %}{% endif %}
{{ x y }}
{{ 'abc }}
{{ ) }}
{% break %}
"""

# White space around tags and lines.
BLOCKS = [
    "  {% if t %}  \n  a\n  {% endif %}  \nb",
    "{% if t %}\n{% if x == 3 %}\nthree\n{% endif %}\n{% endif %}\nend\n",
    "a\n  {#- c -#}\n b\n  {# d #}\n  e\n",
    "\n\n{% if t %}\n\nx\n\n{% endif %}\n\n",
    "  {%- for i in l %}\n    {{ i }}\n  {%- endfor %}\n",
    "{% for i in l -%}\n  {{ i }}\n{% endfor -%}\n  z",
    "a\r\nb\rc\n{% if t %}\r\nx{% endif %}",
    "{% set a = 1 %}  {% set b = 2 %}\n  x\n  {{ a }}  \n",
    "   {# a #}  {# b #}\nx",
    "\t{% if t %}\ty\t{% endif %}\t\nz",
    "{% raw %}\n  {{ x }}\n{% endraw %}\nq",
    "{%- macro f(a) -%}\n  {{- a -}}\n{%- endmacro -%}\n\n{{ f(1) }}\n",
    "{#+ a +#}\nx{%+ if t +%}\nx{% endif %}\n  {%+ if t %} x {%+ endif %}",
    "x\n    {%- if t %} y{% endif +%}\nz{{ {\n 'a': 1 } }}",
]

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Get weather", "parameters": {
        "type": "object", "required": ["city"], "properties": {
            "city": {"type": "string", "description": "City"},
            "unit": {"type": ["string", "null"], "enum": ["c", "f"]},
            "days": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
            "place": {"type": "object", "properties": {"lat": {"type": "number", "nullable": True}}, "required": ["lat"]},
        }}}}
CALL = {"role": "assistant", "content": "Let me see.", "reasoning_content": "Look it up.", "tool_calls": [
    {"id": "c1", "type": "function", "function": {
        "name": "get_weather", "arguments": {"unit": None, "city": "Paris", "B": [1, 2.5, True, {"k": "v"}]}}}]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "sunny"}
USER = {"role": "user", "content": " Hello <|turn> \n"}
SYSTEM = {"role": "system", "content": [{"type": "text", "text": " Be brief. "}, {"type": "text", "text": "Be kind."}]}
ANSWER = {"role": "assistant", "content": "<|channel>thought\nhm<channel|>Hi there ", "reasoning_content": "old"}
CHATS = [
    [USER], [SYSTEM, USER], [{"role": "developer", "content": "dev"}, USER], [SYSTEM], [USER, USER], [ANSWER, USER],
    [USER, ANSWER, USER], [USER, CALL, RESULT], [USER, CALL, RESULT, ANSWER, USER], [USER, CALL], [USER, ANSWER],
    [SYSTEM, USER, CALL, RESULT, CALL, RESULT], [USER, {"role": "assistant"}, SYSTEM], [{"role": "user", "content": ""}],
]


def environment():
    def raise_exception(message):
        raise jinja2.TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    result = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
    result.filters["tojson"] = tojson
    result.globals["raise_exception"] = raise_exception
    result.globals["strftime_now"] = lambda format: "01 Jan 1970" if format == "%d %b %Y" else "?"
    return result


def inputs():
    """Pairs of a template and its variables; {"builtin": i} stands for the i-th template of BUILTIN."""
    for template in LINES.strip("\n").split("\n") + BLOCKS:
        yield template, None
    for i, chat in enumerate(CHATS):
        for thinking, generate in ((False, True), (True, True), (False, False)):
            yield {"builtin": 0}, {
                "messages": chat, "tools": [WEATHER] if i in (0, 7) else None, "enable_thinking": thinking,
                "add_generation_prompt": generate, "expects_empty_thought": len(chat) % 2 == 0, "bos_token": "<bos>"}
        yield {"builtin": 1}, {"messages": chat, "bos_token": "<bos>"}


def main():
    builtin = re.findall(r'R"jinja\((.*?)\)jinja"', BUILTIN.read_text(), re.DOTALL)
    cases = []
    for template, variables in inputs():
        case = {"template": template}
        if variables:
            case["variables"] = variables
        source = builtin[template["builtin"]] if isinstance(template, dict) else template
        try:
            case["text"] = environment().from_string(source).render(**(variables or VARIABLES))
        except (jinja2.TemplateError, TypeError, ValueError, ZeroDivisionError, AttributeError, SyntaxError) as error:
            case["error"] = type(error).__name__
        cases.append(case)
    lines = ",\n".join(json.dumps(case) for case in cases)
    golden = f'{{"variables": {json.dumps(VARIABLES)},\n"cases": [\n{lines}\n]}}\n'
    if sys.argv[1:] == ["--check"]:
        if golden != GOLDEN.read_text():
            sys.exit(f"{GOLDEN} is not what Jinja2 {jinja2.__version__} says: run tests/chat/make_golden.py")
        return
    GOLDEN.write_text(golden)
    print(f"{len(cases)} cases, {sum('error' in case for case in cases)} of them errors")


if __name__ == "__main__":
    main()
