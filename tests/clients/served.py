"""A running `carat serve` for the tests of this folder: one for all of them, on a port of its own.

CARAT_PROGRAM names the program, CARAT_CLIENT_MODEL the checkpoint (by default the demo model).
"""
import atexit
import functools
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL = "tested"
START_SECONDS = 120


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@functools.lru_cache(maxsize=None)
def server_url(*options):
    """Starts the server on first use and returns its address, once it is ready; `options` are more flags."""
    program = os.environ.get("CARAT_PROGRAM") or sys.exit("CARAT_PROGRAM must name the carat program")
    checkpoint = os.environ.get("CARAT_CLIENT_MODEL", str(ROOT / "models/demo"))
    port = free_port()
    command = [program, "serve", checkpoint, "--port", str(port), "--alias", MODEL, *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    atexit.register(process.wait)
    atexit.register(process.terminate)
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            sys.exit(f"carat serve ended with code {process.returncode}")
        try:
            with urllib.request.urlopen(url + "/health", timeout=2):
                return url
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    sys.exit(f"carat serve was not ready within {START_SECONDS} s")


def knows_turns():
    """Whether the model has a chat format: the demo model only continues text."""
    import openai
    reply = openai.OpenAI(base_url=server_url(), api_key="none").post(
        "/apply-template", body={"messages": [{"role": "user", "content": "x"}]}, cast_to=object)
    return "<|turn>" in reply["prompt"]
