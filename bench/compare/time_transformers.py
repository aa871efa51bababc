"""Times transformers on the CPU: a prompt, then greedy decoding with its cache. Prints one JSON object."""
import argparse
import json
import statistics
import time

import torch
from transformers import AutoModelForCausalLM

DTYPES = {"bf16": torch.bfloat16, "f32": torch.float32}

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("--threads", type=int, required=True)
parser.add_argument("--prompt", type=int, default=512)
parser.add_argument("--tokens", type=int, default=8)
parser.add_argument("--dtype", choices=DTYPES, default="bf16")
args = parser.parse_args()

torch.set_num_threads(args.threads)
model = AutoModelForCausalLM.from_pretrained(args.model, dtype=DTYPES[args.dtype]).eval()
ids = torch.randint(3, 1000, (1, args.prompt), generator=torch.Generator().manual_seed(0))
with torch.inference_mode():
    model(ids[:, :8], use_cache=False)  # first-call costs
    start = time.perf_counter()
    out = model(ids, use_cache=True, logits_to_keep=1)
    prefill_s = time.perf_counter() - start
    token = out.logits[:, -1:].argmax(-1)
    steps_s = []
    for _ in range(args.tokens):
        start = time.perf_counter()
        out = model(token, past_key_values=out.past_key_values, use_cache=True)
        token = out.logits[:, -1:].argmax(-1)
        steps_s.append(time.perf_counter() - start)
print(json.dumps({"prefill_tok_s": args.prompt / prefill_s,
                  "median_step_ms": 1e3 * statistics.median(steps_s)}))
