#!/usr/bin/env python3
"""Times Carat, llama.cpp and transformers on one checkpoint and one machine, in turn, and writes a table.

bench/compare/prepare.sh makes WORK. Every engine runs once per round, so that a slow minute of the machine hits all of
them; the best of all rounds counts. Nothing else should run meanwhile.

  bench/compare/compare.py MODEL WORK --carat build/release/src/cli/carat --threads 2 --out docs/benchmarks.md
"""
import argparse
import json
import pathlib
import platform
import subprocess
import sys

FORMATS = {"bf16": "bf16", "int8": "Q8_0", "int4": "Q4_0"}  # ours: the file of llama.cpp
FIGURES = ("prefill_tok_s", "decode_tok_s")


def run(command):
    print("+", *command, file=sys.stderr)
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)


def time_carat(args, form):
    command = [args.carat, "bench", args.model, "--device", "cpu", "-t", str(args.threads), "--prompt", str(args.prompt),
               "-n", str(args.tokens), "--json", "-q"]
    if form != "bf16":
        command += ["--format", form]
    result = run(command)
    args.bandwidth = max(args.bandwidth, result.get("read_bandwidth_bytes_s") or 0)
    return {**{name: result[name] for name in FIGURES}, "bytes": result["bytes_per_token"]}


def time_llama(args, form):
    command = [str(args.work / "build/bin/llama-bench"), "-m", str(args.work / f"{FORMATS[form]}.gguf"), "-t",
               str(args.threads), "-p", str(args.prompt), "-n", str(args.tokens), "-r", "1", "-o", "json"]
    tests = run(command)
    speed = lambda field: next(t["avg_ts"] for t in tests if t[field] > 0)
    return {"prefill_tok_s": speed("n_prompt"), "decode_tok_s": speed("n_gen")}


def time_transformers(args, form):
    script = pathlib.Path(__file__).with_name("time_transformers.py")
    return run([str(args.work / "venv/bin/python"), str(script), args.model, "--threads", str(args.threads), "--prompt",
                str(args.prompt), "--tokens", str(min(args.tokens, 32))])


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def table(args, best):
    lines = ["| weights | engine | prefill tok/s | decode tok/s | decode GB/s | Carat is faster by |", "|---|---|---:|---:|---:|---|"]
    for form in args.formats:
        ours = best[form, "Carat"]
        for engine in ("Carat", "llama.cpp", "transformers"):
            if (form, engine) not in best:
                continue
            other = best[form, engine]
            name = FORMATS[form] if engine == "llama.cpp" else form
            rate = f"{ours['bytes'] * ours['decode_tok_s'] / 1e9:.1f}" if engine == "Carat" else ""
            ratio = "" if engine == "Carat" else " and ".join(f"{ours[f] / other[f]:.2f} x" for f in FIGURES)
            lines.append(f"| {name} | {engine} | {other['prefill_tok_s']:.1f} | {other['decode_tok_s']:.2f} | {rate} | {ratio} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--carat", default="build/release/src/cli/carat")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=list(FORMATS))
    parser.add_argument("--no-transformers", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, help="write the table there; default: standard output")
    args = parser.parse_args()
    args.bandwidth = 0

    best = {}
    for _ in range(args.rounds):
        for form in args.formats:
            engines = {"Carat": time_carat, "llama.cpp": time_llama}
            if form == "bf16" and not args.no_transformers:
                engines["transformers"] = time_transformers
            for engine, measure in engines.items():
                result, before = measure(args, form), best.get((form, engine), {})
                best[form, engine] = {k: max(v, before.get(k, 0)) for k, v in result.items()}

    text = f"""# Benchmarks

{cpu_name()}, {args.threads} threads, read bandwidth {args.bandwidth / 1e9:.1f} GB/s in 2 MiB pages. Prompt of {args.prompt}
tokens, then {args.tokens} tokens one by one; best of {args.rounds} rounds in which the engines took turns.

{table(args, best)}

    bench/compare/prepare.sh MODEL WORK
    bench/compare/compare.py {' '.join(a if not pathlib.Path(a).exists() else pathlib.Path(a).name for a in sys.argv[1:])}
"""
    if args.out:
        args.out.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
