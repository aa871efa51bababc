#!/usr/bin/env python3
"""Check that files fit in a sitting and functions on a screen: 500 lines, 60 lines, 110 columns.

Kernels, which are long for a reason, may have functions of 120 lines. An entry in EXCEPTIONS lifts a limit
for one file or function and says why; an entry that is no longer needed is an error.
"""
import ast
import re
import sys
from pathlib import Path

from repository import ROOT, tracked_files

FILE_LINES, FUNCTION_LINES, KERNEL_LINES, COLUMNS = 500, 60, 120, 110
CPP = {".h", ".cc", ".cu", ".cuh"}
CHECKED = CPP | {".py", ".sh", ".cmake"}
KERNELS = re.compile(r"src/cuda/.*\.cuh?|src/cpu/.*(kernel|_isa|vec_|gemm|gemv).*\.(h|cc)")

# "path" or "path:function" -> reason.
EXCEPTIONS = {}

TOKEN = re.compile(
    r'R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"'             # raw string
    r"|//[^\n]*|/\*.*?\*/"                            # comments
    r'|(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"'              # string
    r"|(?<![0-9a-fA-F'])'(?:\\.|[^'\\\n])+'"          # character; not a digit separator
    r"|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",                # preprocessor line
    re.DOTALL | re.MULTILINE)


def blank(text):
    """`text` with comments, literals and preprocessor lines turned to spaces; offsets and lines stay."""
    return TOKEN.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def matching_brace(code, opening):
    """Offset of the brace that closes the one at `opening`, or the end of the text."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(code, opening):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return match.start()
    return len(code) - 1


SCOPE = re.compile(r"(inline\s+)?(namespace|class|struct|union|enum|extern)\b[^(]*$")
NOISE = re.compile(r"\btemplate\s*<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>|\balignas\s*\([^()]*\)|\[\[.*?\]\]")
NAME = re.compile(r"([~\w:]+|operator\s*\S+)\s*\(")


def cpp_functions(text):
    """Yields (name, first line, lines) of the functions defined in C++ text."""
    code = blank(text)
    statement, at = 0, 0
    for match in iter(lambda: re.compile(r"[;{}]").search(code, at), None):
        at = match.end()
        if match.group() != "{":
            statement = at
            continue
        head = code[statement:match.start()]
        declaration = NOISE.sub("", head).strip()
        if SCOPE.match(declaration):
            statement = at  # look inside
            continue
        end = matching_brace(code, match.start())
        at = end + 1
        if code[at:].lstrip()[:1] in {",", "{"}:
            continue  # `member_{value}` of a constructor's initialiser list: the body comes later
        name = NAME.search(declaration)
        if name and "concept" not in declaration:
            first = statement + len(head) - len(head.lstrip())
            lines = code.count("\n", first, end) + 1
            yield name.group(1), code.count("\n", 0, first) + 1, lines
        statement = at


def python_functions(text):
    """Yields (name, first line, lines) of the functions defined in Python text."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def check_source(path, text):
    """Yields (key of EXCEPTIONS, line, problem) for one file; `path` is relative to the root."""
    suffix = Path(path).suffix
    lines = text.splitlines()
    if len(lines) > FILE_LINES:
        yield path, 1, f"{len(lines)} lines, at most {FILE_LINES}"
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS:
            yield f"{path}:{number}", number, f"{len(line)} columns, at most {COLUMNS}"
    functions = cpp_functions if suffix in CPP else python_functions if suffix == ".py" else lambda _: ()
    limit = KERNEL_LINES if KERNELS.fullmatch(path) else FUNCTION_LINES
    for name, first, length in functions(text):
        if length > limit:
            yield f"{path}:{name}", first, f"{name}() has {length} lines, at most {limit}"


def main():
    files = [name for name in tracked_files() if Path(name).suffix in CHECKED]
    count, unused = 0, set(EXCEPTIONS)
    for name in files:
        for key, line, problem in check_source(name, (ROOT / name).read_text()):
            if key in EXCEPTIONS:
                unused.discard(key)
                continue
            print(f"{name}:{line}: {problem}")
            count += 1
    for key in sorted(unused):
        print(f"tools/check_size.py: the exception for {key} is no longer needed")
    print(f"sizes: {len(files)} files, {count} problems, {len(EXCEPTIONS)} exceptions")
    return 1 if count or unused else 0


if __name__ == "__main__":
    sys.exit(main())
