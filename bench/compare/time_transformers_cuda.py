#!/usr/bin/env python3
"""Times Hugging Face transformers on a GPU: bf16, greedy, a static cache with compiled decode steps and, for
comparison, the dynamic cache without compilation.

  time_transformers_cuda.py CHECKPOINT_DIR [--batches 1,8,32] [--prompts 512,4096] [--caches static,dynamic]

Prints the time of prompts (one forward pass, logits of the last position) and per decode step (the time
between two tokens that generate() hands to a streamer, behind 100 tokens of prompt). Medians. Needs torch and
transformers >= 5.14.
"""
import argparse
import statistics
import time

import torch
import transformers
from transformers.generation.streamers import BaseStreamer

CONTEXT, TOKENS, RUNS = 100, 128, 5


class Stopwatch(BaseStreamer):
    """When each token was there, on the host."""

    def __init__(self):
        self.times = []

    def put(self, value):
        self.times.append(time.perf_counter())

    def end(self):
        pass


def time_prompt(model, tokens):
    ids = torch.randint(3, model.config.get_text_config().vocab_size, (1, tokens), device="cuda")
    times = []
    for _ in range(RUNS + 2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        model(input_ids=ids, use_cache=True, logits_to_keep=1)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    took = statistics.median(times[2:])
    print(f"prompt {tokens:5}: {took * 1e3:8.2f} ms, {tokens / took:8.0f} tokens/s", flush=True)


def time_decode(model, batch, cache):
    ids = torch.randint(3, model.config.get_text_config().vocab_size, (batch, CONTEXT), device="cuda")
    options = {"cache_implementation": "static"} if cache == "static" else {"disable_compile": True}
    for _ in range(2):  # the first one compiles
        watch = Stopwatch()
        model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS, min_new_tokens=TOKENS,
                       do_sample=False, top_k=None, top_p=None, temperature=None, pad_token_id=0,
                       streamer=watch, **options)
    gaps = [b - a for a, b in zip(watch.times[8:], watch.times[9:])]
    step = statistics.median(gaps)
    print(f"{cache:7} cache, batch {batch:3}: {step * 1e3:8.3f} ms per step, {batch / step:8.0f} tokens/s",
          flush=True)


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--prompts", default="512,4096")
    parser.add_argument("--caches", default="static,dynamic")
    args = parser.parse_args()
    model = transformers.AutoModelForCausalLM.from_pretrained(
        args.checkpoint, dtype=torch.bfloat16, device_map="cuda", attn_implementation="sdpa").eval()
    model.generation_config.eos_token_id = None
    print(f"{type(model).__name__}, transformers {transformers.__version__}, torch {torch.__version__}, "
          f"{torch.cuda.get_device_name()}", flush=True)
    for tokens in map(int, args.prompts.split(",")):
        time_prompt(model, tokens)
    for cache in args.caches.split(","):
        for batch in map(int, args.batches.split(",")):
            try:
                time_decode(model, batch, cache)
            except Exception as error:  # one way of decoding may fail where the other works
                print(f"{cache:7} cache, batch {batch:3}: {type(error).__name__}: {str(error)[:300]}",
                      flush=True)


if __name__ == "__main__":
    main()
