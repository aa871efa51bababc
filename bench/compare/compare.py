#!/usr/bin/env python3
"""Times Carat, llama.cpp and transformers on one checkpoint and one machine, in turn, and prints a table.

bench/compare/prepare.sh makes WORK. In a round every engine runs once, so that a slow minute of the machine
hits all of them; medians of the rounds count. --run-with "chrt -f 1" gives all of them a machine's cores.

  bench/compare/compare.py MODEL WORK --carat build/release/src/cli/carat --threads 2
"""
import argparse
import json
import pathlib
import shlex
import statistics
import subprocess
import sys

FORMATS = {"bf16": "bf16", "int8": "Q8_0", "int4": "Q4_0"}  # ours: the file of llama.cpp


def run(args, command):
    command = shlex.split(args.run_with) + [str(part) for part in command]
    print("+", *command, file=sys.stderr)
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(result.stdout)


def time_carat(args, form):
    command = [args.carat, "bench", args.model, "--device", args.device, "--format", form,
               "--prompt", args.prompt, "-n", args.tokens, "--json", "-q"]
    command += ["-t", args.threads] if args.device == "cpu" else []
    result = run(args, command)
    print(f"  {result['bandwidth_fraction']:.3f} of {result['read_bandwidth_bytes_s'] / 1e9:.1f} GB/s",
          file=sys.stderr)
    return result


def time_llama(args, form):
    model = args.work / f"{FORMATS[form]}.gguf"
    return run(args, [args.work / "time_llama", model, args.threads, args.prompt, args.tokens])


def time_transformers(args, form):
    script = pathlib.Path(__file__).with_name("time_transformers.py")
    return run(args, [args.python, script, args.model, "--threads", args.threads, "--prompt", args.prompt,
                      "--tokens", args.transformers_tokens, "--dtype", form])


def table(rounds):
    """rounds: {(weights, engine): [figures of one round, ...]}"""
    def figures(key):
        median = lambda name: statistics.median(result[name] for result in rounds[key])
        return median("prefill_tok_s"), 1000 / median("median_step_ms")

    lines = ["| weights | engine | prompt tok/s | decode tok/s | of the bandwidth | Carat is faster by |",
             "|---|---|---:|---:|---:|---|"]
    for weights, engine in rounds:
        mine = figures((weights, engine))
        fraction = ratio = ""
        if engine == "Carat":
            fractions = [result["bandwidth_fraction"] for result in rounds[weights, engine]]
            fraction = f"{100 * statistics.median(fractions):.0f} %"
        else:
            ours = figures((weights if weights in FORMATS else "bf16", "Carat"))
            ratio = f"{ours[0] / mine[0]:.1f} x and {ours[1] / mine[1]:.1f} x"
        name = FORMATS[weights] if engine == "llama.cpp" else weights
        lines.append(f"| {name} | {engine} | {mine[0]:.1f} | {mine[1]:.2f} | {fraction} | {ratio} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--carat", default="build/release/src/cli/carat")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with torch and transformers")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda:0 where prepare.sh was run with CUDA=1")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--transformers-tokens", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--formats", nargs="*", choices=FORMATS, default=list(FORMATS))
    parser.add_argument("--transformers", nargs="*", choices=["bf16", "f32"], default=["bf16"],
                        help="on the CPU; time_transformers_cuda.py is for GPUs")
    parser.add_argument("--run-with", default="", help="a command in front of every engine's")
    args = parser.parse_args()

    rounds = {}
    for _ in range(args.rounds):
        for form in args.formats:
            rounds.setdefault((form, "Carat"), []).append(time_carat(args, form))
            rounds.setdefault((form, "llama.cpp"), []).append(time_llama(args, form))
        for form in args.transformers:
            rounds.setdefault((form, "transformers"), []).append(time_transformers(args, form))
        print(table(rounds), flush=True)


if __name__ == "__main__":
    main()
