#!/usr/bin/env python3
"""Time Hugging Face transformers on a GPU: bf16, static cache, compiled decode steps.

  time_transformers_cuda.py CHECKPOINT_DIR [--batches 1,8,32] [--prompts 512,4096]

Prints the time of prompts (one forward pass, logits of the last position) and per decode step (greedy, after
100 tokens; the difference of a long and a short call of generate(), so that prompt and start don't count).
Medians. Needs torch and transformers >= 5.14.
"""
import argparse
import statistics
import time

import torch
from transformers import Gemma4ForConditionalGeneration

CONTEXT, SHORT, LONG, RUNS = 100, 16, 144, 3


def seconds(call, runs):
    """Median time of a call that leaves work on the GPU, after one call that doesn't count."""
    times = []
    for _ in range(runs + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def time_prompt(model, tokens):
    ids = torch.randint(3, 200_000, (1, tokens), device="cuda")
    took = seconds(lambda: model(input_ids=ids, use_cache=True, logits_to_keep=1), 2 * RUNS)
    print(f"prompt {tokens:5}: {took * 1e3:8.2f} ms, {tokens / took:8.0f} tokens/s", flush=True)


def time_decode(model, batch):
    ids = torch.randint(3, 200_000, (batch, CONTEXT), device="cuda")

    def generate(tokens):
        model.generate(ids, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False, top_k=None,
                       top_p=None, temperature=None, pad_token_id=0, cache_implementation="static")

    generate(LONG)  # compiles
    step = (seconds(lambda: generate(LONG), RUNS) - seconds(lambda: generate(SHORT), RUNS)) / (LONG - SHORT)
    print(f"batch  {batch:5}: {step * 1e3:8.3f} ms per step, {batch / step:8.0f} tokens/s", flush=True)


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--prompts", default="512,4096")
    args = parser.parse_args()
    model = Gemma4ForConditionalGeneration.from_pretrained(
        args.checkpoint, dtype=torch.bfloat16, device_map="cuda", attn_implementation="sdpa").eval()
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")
    for tokens in map(int, args.prompts.split(",")):
        time_prompt(model, tokens)
    for batch in map(int, args.batches.split(",")):
        time_decode(model, batch)


if __name__ == "__main__":
    main()
