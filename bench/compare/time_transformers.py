"""Times transformers on the CPU: prefill of a prompt, then greedy decoding with its cache. Prints one JSON object."""
import argparse, json, time

import torch
from transformers import AutoModelForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("--threads", type=int, required=True)
parser.add_argument("--prompt", type=int, default=512)
parser.add_argument("--tokens", type=int, default=32)
args = parser.parse_args()

torch.set_num_threads(args.threads)
model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.bfloat16).eval()
ids = torch.randint(3, 1000, (1, args.prompt), generator=torch.Generator().manual_seed(0))
with torch.inference_mode():
    model(ids[:, :8], use_cache=False)  # first-call costs
    start = time.perf_counter()
    out = model(ids, use_cache=True, logits_to_keep=1)
    prefill_s = time.perf_counter() - start
    token = out.logits[:, -1:].argmax(-1)
    start = time.perf_counter()
    for _ in range(args.tokens):
        out = model(token, past_key_values=out.past_key_values, use_cache=True)
        token = out.logits[:, -1:].argmax(-1)
    decode_s = time.perf_counter() - start
print(json.dumps({"prefill_tok_s": args.prompt / prefill_s, "decode_tok_s": args.tokens / decode_s}))
