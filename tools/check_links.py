#!/usr/bin/env python3
"""Check the relative links of the Markdown files, to the line.

  check_links.py          every linked file and heading exists; a link to a line shows what it promises
  check_links.py --fix    the same, but first renews line numbers that have moved
  check_links.py FOLDER   the same for the documents below a folder, such as installed ones

A link to a line names what stands there: [`forward`](../src/model/gemma4.h#L157) needs "forward" on line 157.
--fix takes the nearest line that has the name; for `Class::name` also `name` alone.
"""
import re
import sys
from pathlib import Path

from repository import ROOT, tracked_files

LINK = re.compile(r"\[(?P<text>[^\]\n]*)\]\((?P<target>[^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def headings(text):
    """GitHub's anchors of the headings of a Markdown text."""
    plain = FENCE.sub("", text)
    titles = re.findall(r"^#+\s+(.*?)\s*$", plain, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def nearest_line(lines, name, wanted):
    """The 1-based number nearest to `wanted` of a line with the whole word `name`, or None."""
    word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    found = [number for number, line in enumerate(lines, 1) if word.search(line)]
    return min(found, key=lambda number: abs(number - wanted), default=None)


def check_line_link(text, path, wanted):
    """(line number that the link should have, problem or None)."""
    name = text.strip("`").removesuffix("()")
    lines = path.read_text().split("\n")
    line = nearest_line(lines, name, wanted) or nearest_line(lines, name.split("::")[-1], wanted)
    if line is None:
        return wanted, f"has no line with `{name}`"
    if line == wanted:
        return line, None
    return line, f"line {wanted} has no `{name}`; it is on line {line} (use --fix)"


def check_document(path, text, fix):
    """(problems, text with renewed line numbers) of one Markdown file."""
    problems = []

    def check(match):
        target, _, anchor = match["target"].partition("#")
        if re.match(r"[a-z]+:", match["target"]):
            return match.group()
        file = (path.parent / target).resolve() if target else path
        line_anchor = re.fullmatch(r"L(\d+)", anchor)
        if not file.exists():
            problems.append(f"{match['target']}: no such file")
        elif line_anchor:
            line, problem = check_line_link(match["text"], file, int(line_anchor[1]))
            if problem and fix and line != int(line_anchor[1]):
                return f"[{match['text']}]({target}#L{line})"
            if problem:
                problems.append(f"{match['target']}: {problem}")
        elif anchor and anchor not in headings(file.read_text()):
            problems.append(f"{match['target']}: no such heading")
        return match.group()

    return problems, LINK.sub(check, text)


def main():
    fix = "--fix" in sys.argv[1:]
    folders = [Path(word) for word in sys.argv[1:] if word != "--fix"]
    root = folders[0].resolve() if folders else ROOT
    files = sorted(root.rglob("*.md")) if folders else [ROOT / name for name in tracked_files("*.md")]
    count = 0
    for path in files:
        text = path.read_text()
        problems, renewed = check_document(path, text, fix)
        if renewed != text:
            path.write_text(renewed)
        for problem in problems:
            print(f"{path.relative_to(root)}: {problem}")
        count += len(problems)
    print(f"links: {len(files)} documents, {count} problems")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
