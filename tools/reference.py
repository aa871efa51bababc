#!/usr/bin/env python3
"""Dump reference results of a Gemma 4 checkpoint, computed by Hugging Face transformers.

  reference.py CHECKPOINT_DIR OUT.json [--dtype float32|bfloat16] [--device cuda|cpu]
               [--greedy 64] [--prompts prompts.json] [--drafter DIR]

For every prompt (a list of token ids) the result holds the 20 largest logits of the last position and their
ids, the argmax of every position and the greedy continuation; `carat check` compares a backend with it.
With --drafter, also what a drafter (gemma4_assistant) guesses behind each prompt, with its logits; and the
greedy continuation is that of transformers' assisted generation.
float32 runs use eager attention and no TF32. Needs torch and transformers >= 5.14.
"""
import argparse
import json
from pathlib import Path

import numpy as np
import torch
from transformers import (AutoConfig, Gemma4AssistantForCausalLM, Gemma4ForCausalLM,
                          Gemma4ForConditionalGeneration)

TOP = 20
DRAFTS = 4


def default_prompts(vocab):
    """The France prompt where it fits, then seeded ids of growing length (two beyond the 512 window)."""
    rng = np.random.Generator(np.random.Philox(7))
    prompts = {"one": [2]}
    if vocab > 8000:
        prompts["france"] = [2, 818, 5279, 529, 7001, 563]
    for n in (5, 17, 100, 700, 2100):
        prompts[f"ids{n}"] = [2] + [int(x) for x in rng.integers(3, vocab, n - 1)]
    return prompts


def load(path, dtype, device):
    """The checkpoint as a transformers model, whichever of the two classes it was saved from."""
    text_only = AutoConfig.from_pretrained(path).model_type == "gemma4_text"
    model_class = Gemma4ForCausalLM if text_only else Gemma4ForConditionalGeneration
    return model_class.from_pretrained(path, dtype=getattr(torch, dtype), device_map=device,
                                       attn_implementation="eager" if dtype == "float32" else "sdpa").eval()


def load_drafter(path, dtype, device):
    return Gemma4AssistantForCausalLM.from_pretrained(path, dtype=getattr(torch, dtype), device_map=device,
                                                      attn_implementation="eager").eval()


def top_logits(logits):
    top = logits.topk(TOP)
    return {"top_ids": top.indices.tolist(), "top_logits": [round(value, 5) for value in top.values.tolist()]}


def run_drafter(model, drafter, ids):
    """The drafts behind the token that follows `ids`.

    The drafter stands at that token's position and sees the K/V of all tokens before it, in sliding layers
    those inside the window. transformers' own loop cuts the window one position later, and after refused
    drafts leaves the K/V of one of them in sight; both change guesses, never the text.
    """
    out = model(input_ids=torch.tensor([ids], device=model.device), output_hidden_states=True,
                return_shared_kv_states=True)
    window = drafter.config.text_config.sliding_window
    shared = {kind: tuple(part[:, :, max(0, len(ids) - window + 1):] if kind.startswith("sliding") else part
                          for part in pair) for kind, pair in out.shared_kv_states.items()}
    hidden, token = out.hidden_states[-1][:, -1:], out.logits[:, -1:].argmax(-1)
    record = {"token": token.item(), "steps": []}
    for _ in range(DRAFTS):
        inputs = torch.cat([model.get_input_embeddings()(token), hidden], dim=-1)
        step = drafter(inputs_embeds=inputs, shared_kv_states=shared, use_cache=False,
                       position_ids=torch.tensor([[len(ids)]], device=model.device))
        token, hidden = step.logits.argmax(-1), step.last_hidden_state
        record["steps"].append({"token": token.item(), **top_logits(step.logits[0, -1].float())})
    return record


def run_prompt(model, ids, greedy, drafter=None):
    """What the reference records of one prompt."""
    prompt = torch.tensor([ids], device=model.device)
    logits = model(input_ids=prompt).logits[0].float()
    last = logits[-1]
    continued = model.generate(prompt, max_new_tokens=greedy, do_sample=False, eos_token_id=None,
                               pad_token_id=0, top_k=None, top_p=None, temperature=None,
                               assistant_model=drafter)
    record = {"ids": ids, **top_logits(last), "argmax": logits.argmax(-1).tolist(),
              "greedy": continued[0, len(ids):].tolist(),
              "logit_mean": round(last.mean().item(), 6), "logit_std": round(last.std().item(), 6)}
    return record if drafter is None else {**record, "draft": run_drafter(model, drafter, ids)}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--greedy", type=int, default=64, help="tokens of the greedy continuation")
    parser.add_argument("--drafter", type=Path, help="directory of a gemma4_assistant checkpoint")
    parser.add_argument("--prompts", type=Path, help="JSON object: name -> list of token ids")
    return parser.parse_args()


@torch.inference_mode()
def main():
    args = arguments()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    model = load(args.checkpoint, args.dtype, args.device)
    drafter = load_drafter(args.drafter, args.dtype, args.device) if args.drafter else None
    vocab = getattr(model.config, "text_config", model.config).vocab_size
    prompts = json.loads(args.prompts.read_text()) if args.prompts else default_prompts(vocab)
    result = {"dtype": args.dtype, "vocab_size": vocab, "prompts": {}}
    for name, ids in prompts.items():
        record = run_prompt(model, ids, args.greedy, drafter)
        result["prompts"][name] = record
        print(args.dtype, name, len(ids), record["top_ids"][:5], record["top_logits"][:5], "greedy",
              record["greedy"][:8], flush=True)
    args.out.write_text(json.dumps(result))


if __name__ == "__main__":
    main()
