#!/usr/bin/env python3
"""The same streamed completions against `carat serve` and llama.cpp's llama-server, in turn, as a table.

In a round each server starts, takes an eighth of the load of bench/load.py to warm up and all of it for the
figures; medians of the rounds count. llama-server gets a thread per connection and --slots slots.

  bench/compare/compare_servers.py MODEL MODEL.gguf --carat build/release/src/cli/carat --llama llama-server
"""
import argparse
import asyncio
import pathlib
import shlex
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from load import load  # noqa: E402


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def commands(args):
    """{server: command without its port}"""
    context = args.slots * args.context
    return {
        "Carat": [args.carat, "serve", args.model, "--device", "cpu", "-t", args.threads],
        "llama-server": [args.llama, "-m", args.gguf, "-t", args.threads, "-np", args.slots, "-c", context,
                         "--threads-http", args.streams + 8, "--no-webui"],
    }


def wait_until_ready(server, port):
    for _ in range(600):
        if server.poll() is not None:
            sys.exit(f"the server ended with {server.returncode}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    sys.exit("the server did not become ready")


def measure(args, command):
    port = free_port()
    command = shlex.split(args.run_with) + [str(part) for part in command + ["--port", port]]
    print("+", *command, file=sys.stderr)
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until_ready(server, port)
        asyncio.run(load(port, max(args.streams // 8, 1), args.tokens, args.over / 8))
        return asyncio.run(load(port, args.streams, args.tokens, args.over, server.pid))
    finally:
        server.terminate()
        server.wait()


def table(args, rounds):
    lines = ["| server | whole | text pieces/s | first event p50, p99 | whole reply p50, p99 | memory |",
             "|---|---:|---:|---:|---:|---:|"]
    for name, results in rounds.items():
        median = lambda figure: statistics.median(result.get(figure, float("nan")) for result in results)
        lines.append(f"| {name} | {median('whole'):.0f} of {args.streams} | {median('pieces_per_s'):.0f} "
                     f"| {median('first_p50_s'):.2f}, {median('first_p99_s'):.2f} s "
                     f"| {median('reply_p50_s'):.2f}, {median('reply_p99_s'):.2f} s "
                     f"| {median('mb_highest'):.0f} MB |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="the checkpoint for Carat")
    parser.add_argument("gguf", help="the same for llama-server")
    parser.add_argument("--carat", default="build/release/src/cli/carat")
    parser.add_argument("--llama", default="llama-server")
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--over", type=float, default=1.0, help="seconds over which the requests arrive")
    parser.add_argument("--slots", type=int, default=64, help="replies that llama-server computes at once")
    parser.add_argument("--context", type=int, default=512, help="tokens in each slot")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run-with", default="", help='such as "chrt -f 1"')
    args = parser.parse_args()

    rounds = {name: [] for name in commands(args)}
    for _ in range(args.rounds):
        for name, command in commands(args).items():
            rounds[name].append(measure(args, command))
            print(name, rounds[name][-1], file=sys.stderr)
    print(table(args, rounds))


if __name__ == "__main__":
    main()
