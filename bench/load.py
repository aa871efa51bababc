#!/usr/bin/env python3
"""Many streamed completions at once against a server with OpenAI's API on this machine.

Usage: load.py PORT [--streams N] [--tokens N] [--over SECONDS] [--pid PID]

Prints how many replies came whole, the time to the first event and to the end, pieces of text per second over
all, and with --pid the server's memory before, at its highest, and after. Sockets alone, no client library: a
client in Python is slow enough as it is.
"""
import argparse
import asyncio
import json
import time
from pathlib import Path


def resident_mb(pid):
    if not pid:
        return 0
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0


async def stream(port, tokens, number):
    """Seconds to the first event and to the end, tokens received; None for what never came."""
    body = json.dumps({"model": "demo", "prompt": f"Story {number}: once upon a time", "max_tokens": tokens,
                       "ignore_eos": True, "stream": True, "temperature": 1, "seed": number}).encode()
    start = time.monotonic()
    first, count = None, 0
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        async for line in reader:
            if line.startswith(b"data: {"):
                first = first or time.monotonic() - start
                count += b'"text":""' not in line
            elif line.startswith(b"data: [DONE]"):
                return first, time.monotonic() - start, count
        return first, None, count
    except OSError:
        return first, None, count
    finally:
        if "writer" in locals():
            writer.close()


def percentile(values, share):
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


async def watch_memory(pid, highest):
    while True:
        highest[0] = max(highest[0], resident_mb(pid))
        await asyncio.sleep(0.1)


async def load(port, streams, tokens, over, pid=None):
    """Figures of one load: see the help."""
    before, highest = resident_mb(pid), [0.0]
    watcher = asyncio.create_task(watch_memory(pid, highest))
    start, tasks = time.monotonic(), []
    for i in range(streams):
        tasks.append(asyncio.create_task(stream(port, tokens, i)))
        await asyncio.sleep(over / streams)
    replies = await asyncio.gather(*tasks)
    seconds = time.monotonic() - start
    watcher.cancel()
    firsts = [first for first, _, _ in replies if first is not None]
    ends = [end for _, end, _ in replies if end is not None]
    figures = {"whole": len(ends), "seconds": seconds,
               "pieces_per_s": sum(count for _, _, count in replies) / seconds}
    if firsts:
        figures |= {"first_p50_s": percentile(firsts, .5), "first_p99_s": percentile(firsts, .99)}
    if ends:
        figures |= {"reply_p50_s": percentile(ends, .5), "reply_p99_s": percentile(ends, .99)}
    if pid:
        await asyncio.sleep(1)
        figures |= {"mb_before": before, "mb_highest": highest[0], "mb_after": resident_mb(pid)}
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("port", type=int)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--over", type=float, default=1.0, help="seconds over which the requests arrive")
    parser.add_argument("--pid", type=int, help="of the server, on this machine")
    options = parser.parse_args()

    figures = asyncio.run(load(**vars(options)))
    print(f"{figures['whole']} of {options.streams} whole in {figures['seconds']:.2f} s")
    print(f"{figures['pieces_per_s']:.0f} pieces of text per second")
    if "first_p50_s" in figures:
        print(f"first event: p50 {figures['first_p50_s']:.3f} s, p99 {figures['first_p99_s']:.3f} s")
    if "reply_p50_s" in figures:
        print(f"whole reply: p50 {figures['reply_p50_s']:.3f} s, p99 {figures['reply_p99_s']:.3f} s")
    if options.pid:
        print(f"memory: {figures['mb_before']:.0f} MB before, {figures['mb_highest']:.0f} MB at most, "
              f"{figures['mb_after']:.0f} MB after")


if __name__ == "__main__":
    main()
