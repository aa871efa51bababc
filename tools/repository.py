"""The repository's files, for the check scripts beside this one."""
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def tracked_files(*patterns):
    """Names relative to ROOT of the tracked files that exist; all of them without patterns."""
    command = ["git", "ls-files", "-z", "--", *patterns]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    return [name for name in names.split("\0") if name and (ROOT / name).is_file()]
