#!/usr/bin/env python3
"""Sets Carat's tokenizer beside Hugging Face tokenizers: one thread, the same text whole and line by line.

Usage: bench/compare_tokenizers.py BENCH_TOKENIZER TOKENIZER.json TEXT_FILE
BENCH_TOKENIZER is the program built from bench/tokenizer.cc (-DCARAT_BENCH=ON).
Needs `pip install tokenizers`.
Times are processor seconds, the best of a few runs. Fails when the numbers of tokens differ.
"""

import json
import os
import subprocess
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import tokenizers  # noqa: E402 - reads the variable above


def best_seconds(action, repeats):
    best = float("inf")
    for _ in range(repeats):
        begin = time.process_time()
        result = action()
        best = min(best, time.process_time() - begin)
    return best, result


def hugging_face(tokenizer_json, text):
    load_s, tokenizer = best_seconds(lambda: tokenizers.Tokenizer.from_file(tokenizer_json), 2)

    def count(part):
        return len(tokenizer.encode(part, add_special_tokens=False).ids)

    whole_s, tokens = best_seconds(lambda: count(text), 2)
    lines = text.split("\n")
    lines_s, line_tokens = best_seconds(lambda: sum(map(count, lines)), 3)
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    decode_s, _ = best_seconds(lambda: tokenizer.decode(ids, skip_special_tokens=False), 2)
    return {
        "load_s": load_s,
        "whole_s": whole_s,
        "lines_s": lines_s,
        "decode_s": decode_s,
        "tokens": tokens,
        "line_tokens": line_tokens,
    }


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    program, tokenizer_json, text_file = sys.argv[1:]
    output = subprocess.run([program, tokenizer_json, text_file], check=True, capture_output=True).stdout
    ours = json.loads(output)
    with open(text_file, "rb") as file:
        text = file.read().decode("utf-8", errors="replace")
    theirs = hugging_face(tokenizer_json, text)
    megabytes = os.path.getsize(text_file) / 1e6
    print(f"{megabytes:.1f} MB, {ours['tokens']} tokens, Hugging Face tokenizers {tokenizers.__version__}")
    for key in ["load_s", "whole_s", "lines_s", "decode_s"]:
        ratio = theirs[key] / ours[key]
        line = f"{key:9} {ours[key]:7.3f} against {theirs[key]:7.3f}   {ratio:6.1f} times as fast"
        if key != "load_s":
            line += f"   {megabytes / ours[key]:7.1f} against {megabytes / theirs[key]:5.2f} MB/s"
        print(line)
    if any(ours[key] != theirs[key] for key in ["tokens", "line_tokens"]):
        sys.exit(f"numbers of tokens differ: {ours}, {theirs}")


if __name__ == "__main__":
    main()
