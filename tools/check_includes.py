#!/usr/bin/env python3
"""Check which folder of src/ includes what: the dependency rules of docs/architecture.md.

A folder includes its own headers, the public ones of include/carat, and those of the folders named in USES,
directly or through another. The public headers include each other and nothing else of ours.
Third-party headers appear only in .cc files of the folders in THIRD_PARTY, so that no header spreads them and
the kernels build on a machine that has a compiler and nothing else.
"""
import re
import sys
from pathlib import Path

from repository import ROOT

USES = {
    "carat": [],  # include/carat
    "base": [],
    "io": ["base"],
    "text": ["base"],
    "chat": ["text"],
    "model": ["io"],
    "engine": ["model", "text"],
    "grammar": ["engine", "chat"],
    "ref": ["engine"],
    "cpu": ["engine"],
    "cuda": ["engine"],
    "server": ["engine", "chat", "grammar"],
    "api": ["ref", "cpu", "cuda", "chat"],
    "cli": ["api", "server", "grammar"],
}
THIRD_PARTY = {
    "io": ["nlohmann/"],
    "text": ["nlohmann/"],
    "chat": ["nlohmann/"],
    "server": ["nlohmann/", "boost/", "openssl/"],
    "grammar": ["nlohmann/"],
    "cli": ["nlohmann/", "CLI/"],
}

STANDARD = re.compile(r"[a-z_0-9]+")  # <vector>
SYSTEM = re.compile(r"(sys|linux|asm)/[a-z_]+\.h|"
                    r"(unistd|fcntl|pthread|sched|signal|termios|dirent|cpuid|errno|netdb)\.h")
C = re.compile(r"(stddef|stdint)\.h")  # in the C header
INTRINSICS = re.compile(r"(immintrin|arm_neon|x86intrin)\.h")
CUDA = re.compile(r"(cuda|cub|cooperative_groups|mma|nv)[a-zA-Z_0-9]*(\.h|/.*)?")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def reachable(folder):
    """The folders whose headers `folder` may include."""
    found = {folder}
    for used in USES[folder]:
        found |= reachable(used)
    return found


def check_quoted(folder, target, exists):
    """Why the folder may not include "target", or None."""
    if target.startswith("carat/"):
        return None if (ROOT / "include" / target).is_file() else f'"{target}" is not a path below include/'
    if not exists(target):
        return f'"{target}" is not a path below src/'
    used = target.split("/")[0]
    if used not in reachable(folder):
        return f'{folder} must not include "{target}": it may use {", ".join(sorted(reachable(folder)))}'
    return None


def check_angled(folder, suffix, target):
    """Why a file of the folder may not include <target>, or None."""
    if STANDARD.fullmatch(target) or SYSTEM.fullmatch(target) or INTRINSICS.fullmatch(target):
        return None
    if folder == "cuda" and CUDA.fullmatch(target) or folder == "carat" and C.fullmatch(target):
        return None
    if not any(target.startswith(prefix) for prefix in THIRD_PARTY.get(folder, [])):
        return f"{folder} must not include the third-party header <{target}>"
    if suffix != ".cc":
        return f"<{target}> belongs in a .cc file: a header would hand it to every includer"
    return None


def check_source(path, text, exists):
    """Problems of one file; `path` is relative to src/."""
    folder = path.split("/")[0]
    if folder not in USES:
        return [f"{folder}/ is not in USES: give the folder its place in tools/check_includes.py"]
    problems = []
    if path.endswith(".h") and "#pragma once" not in text:
        problems.append("no #pragma once")
    for kind, target in INCLUDE.findall(text):
        if kind == '"':
            problem = check_quoted(folder, target, exists)
        else:
            problem = check_angled(folder, Path(path).suffix, target)
        if problem:
            problems.append(problem)
    return problems


def main():
    source = ROOT / "src"
    files = [(root, path) for root in (ROOT / "include", source) for path in sorted(root.rglob("*"))
             if path.suffix in {".h", ".cc", ".cu", ".cuh"}]
    count = 0
    for root, path in files:
        relative = path.relative_to(root).as_posix()
        for problem in check_source(relative, path.read_text(), lambda target: (source / target).is_file()):
            print(f"{root.name}/{relative}: {problem}")
            count += 1
    print(f"includes: {len(files)} files, {count} problems")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
