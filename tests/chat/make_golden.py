#!/usr/bin/env python3
"""Write tests/data/jinja.json: what Jinja2 makes of tests/data/jinja_templates.txt and the templates below.

Usage: make_golden.py [--check]   --check compares with the file instead; exit code 77 without Jinja2

Jinja2 is set up as Hugging Face transformers does it for chat templates: sandboxed, trim_blocks,
lstrip_blocks, loop controls, its own tojson, raise_exception and strftime_now.
Debian's python3-jinja2 will do.
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

ERRORS = (jinja2.TemplateError, TypeError, ValueError, ArithmeticError, AttributeError, SyntaxError)
ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/data/jinja.json"
TEMPLATES = ROOT / "tests/data/jinja_templates.txt"  # one a line, each with VARIABLES
BUILTIN = ROOT / "src/chat/gemma4_template.cc"

VARIABLES = {
    "x": 3, "f": 2.5, "s": "  Hello World ", "l": [3, 1, 2], "m": {"b": 1, "A": 2, "c": None}, "n": None,
    "t": True,
    "fa": False, "nested": {"a": {"b": [1, {"c": "d"}]}}, "u": "h\u00e9llo \u20ac\U0001f600", "e": "",
    "items": [{"n": "a", "v": 1, "on": True}, {"n": "b", "v": 2, "on": False}, {"n": "C", "v": 1}],
    "q": "it's \"q\"\n\t\\", "big": 1e20, "small": 1e-7,
}

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
            "place": {"type": "object", "required": ["lat"], "properties": {
                "lat": {"type": "number", "nullable": True}}},
        }}}}
CALL = {"role": "assistant", "content": "Let me see.", "reasoning_content": "Look it up.", "tool_calls": [
    {"id": "c1", "type": "function", "function": {
        "name": "get_weather", "arguments": {
            "unit": None, "city": "Paris", "B": [1, 2.5, True, {"k": "v"}]}}}]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "sunny"}
USER = {"role": "user", "content": " Hello <|turn> \n"}
SYSTEM = {"role": "system", "content": [
    {"type": "text", "text": " Be brief. "}, {"type": "text", "text": "Be kind."}]}
ANSWER = {
    "role": "assistant", "content": "<|channel>thought\nhm<channel|>Hi there ", "reasoning_content": "old"}
CHATS = [
    [USER], [SYSTEM, USER], [{"role": "developer", "content": "dev"}, USER], [SYSTEM], [USER, USER],
    [ANSWER, USER], [USER, ANSWER, USER], [USER, CALL, RESULT], [USER, CALL, RESULT, ANSWER, USER],
    [USER, CALL], [USER, ANSWER], [SYSTEM, USER, CALL, RESULT, CALL, RESULT],
    [USER, {"role": "assistant"}, SYSTEM], [{"role": "user", "content": ""}],
]


def environment():
    def raise_exception(message):
        raise jinja2.TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(
            value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    result = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
    result.filters["tojson"] = tojson
    result.globals["raise_exception"] = raise_exception
    result.globals["strftime_now"] = lambda format: "01 Jan 1970" if format == "%d %b %Y" else "?"
    return result


def inputs():
    """Pairs of a template and its variables; {"builtin": i} stands for the i-th template of BUILTIN."""
    for template in TEMPLATES.read_text().splitlines() + BLOCKS:
        yield template, None
    for i, chat in enumerate(CHATS):
        for thinking, generate in ((False, True), (True, True), (False, False)):
            yield {"builtin": 0}, {
                "messages": chat, "tools": [WEATHER] if i in (0, 7) else None, "enable_thinking": thinking,
                "add_generation_prompt": generate, "expects_empty_thought": len(chat) % 2 == 0,
                "bos_token": "<bos>"}
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
        except ERRORS as error:
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
