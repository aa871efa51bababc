#!/usr/bin/env python3
"""Check that tracked text files hold nothing that belongs to one machine or is left for later.

Paths of a developer's machine, hosts of package registries, marks of unfinished work, carriage returns,
trailing blanks, a missing newline at the end.
"""
import re
import sys
from pathlib import Path

from repository import ROOT, tracked_files

# A bracket in each pattern keeps it from finding itself here.
PATTERNS = [
    (re.compile(r"(?<![\w.])/(wor[k]|roo[t]|dat[a]|hom[e]/\w|opt/ven[v]|Users/\w)\b"),
     "a path of one machine"),
    (re.compile(r"bash_job[s]|[.]librar[y]|\bsubagen[t]|\b(this|developer) sessio[n]"),
     "a note about who works here"),
    (re.compile(r"[p]ypi[.]org|[d]eb[.]debian[.]org|[f]iles[.]pythonhosted[.]org|[r]egistry[.]npmjs[.]org"),
     "a package registry's host"),
    (re.compile(r"\b(TOD[O]|FIXM[E]|XX[X])\b"), "unfinished work: finish it or open an issue"),
]
SKIPPED = {".safetensors", ".png", ".gz", ".xz"}
DATA = ("models/", "tests/data/", "tests/fuzz/corpus", "LICENSE")  # not written by hand


def check_text(text):
    """Yields (line, problem) for one hand-written file."""
    for number, line in enumerate(text.split("\n"), 1):
        for pattern, what in PATTERNS:
            match = pattern.search(line)
            if match:
                yield number, f"{what}: {match.group()}"
        if line != line.rstrip():
            yield number, "blanks or a carriage return at the end of the line"
    if text and not text.endswith("\n"):
        yield text.count("\n") + 1, "no newline at the end of the file"


def main():
    files = [name for name in tracked_files() if Path(name).suffix not in SKIPPED
             and (not name.startswith(DATA) or name.endswith(".md"))]
    count = 0
    for name in files:
        for line, problem in check_text((ROOT / name).read_bytes().decode("utf-8")):
            print(f"{name}:{line}: {problem}")
            count += 1
    print(f"text: {len(files)} files, {count} problems")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
