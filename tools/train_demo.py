#!/usr/bin/env python3
"""Train the story-telling demo model: a small Gemma 4 with the E2B traits, from scratch.

  train_demo.py CORPUS.xz OUT_DIR [--steps 2000] [--word-dropout 0.1]

The corpus is documents separated by lines that hold only <|endoftext|>. Writes tokenizer.json, config.json,
generation_config.json and bf16 safetensors shards with the tensor names of the real checkpoint, and prints
the held-out loss and some samples. Needs torch, transformers >= 5.14, tokenizers, safetensors and a CUDA GPU.
"""
import argparse
import json
import lzma
import math
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch.nn.functional import cross_entropy
from transformers import Gemma4ForCausalLM, Gemma4TextConfig

VOCAB, CONTEXT = 4096, 512
HELD_OUT_DOCUMENTS, HELD_OUT_BATCH = 60, 64
SHARD_BYTES = 12 << 20
SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<|tool>", "<tool|>", "<|tool_call>",
           "<tool_call|>", "<|tool_response>", "<tool_response|>", "<|\"|>", "<|think|>", "<|channel>",
           "<channel|>", "<|turn>", "<turn|>"]
EOS, BOS, MASK = 1, 2, 4
SPACE = "\u2581"
SAMPLE_PROMPTS = ("Once upon a time", "The king said to his three sons",
                  '"Where are you going?" asked the fox')


def train_tokenizer(documents):
    """Gemma's pipeline: spaces become U+2581, byte fallback, no prefix space; learned on words."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", SPACE)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex("\n+"), "isolated"),
        pre_tokenizers.Split(SPACE, "merged_with_next"),
        pre_tokenizers.Split(Regex("[0-9]"), "isolated"),
        pre_tokenizers.Split(Regex(f"[^\\w{SPACE}'\n]"), "isolated")])
    tokenizer.train_from_iterator(documents, trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=SPECIAL + [f"<0x{byte:02X}>" for byte in range(256)],
        limit_alphabet=110, show_progress=False))
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = [dict(id=i, content=token, single_word=False, lstrip=False, rstrip=False,
                                  normalized=False, special=True) for i, token in enumerate(SPECIAL)]
    # Merges never cross a word start, so Gemma's pre-tokenizer (which never fires) gives the same pieces.
    state["pre_tokenizer"] = dict(type="Split", pattern=dict(String=" "), behavior="MergedWithPrevious",
                                  invert=False)
    tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A <bos> $B", special_tokens=[("<bos>", BOS)])
    return tokenizer


def model_config():
    """E2B's traits in small: sliding and full layers, K/V shared by the second half, per-layer embeddings."""
    return Gemma4TextConfig(
        vocab_size=VOCAB, vocab_size_per_layer_input=VOCAB, hidden_size=256, num_hidden_layers=10,
        layer_types=(["sliding_attention"] * 4 + ["full_attention"]) * 2, num_attention_heads=4,
        num_key_value_heads=1, head_dim=64, global_head_dim=128, intermediate_size=448,
        hidden_size_per_layer_input=32, sliding_window=128, num_kv_shared_layers=5, use_double_wide_mlp=True,
        final_logit_softcapping=30.0, attention_k_eq_v=False, enable_moe_block=False,
        max_position_embeddings=8192, pad_token_id=0, eos_token_id=EOS, bos_token_id=BOS,
        tie_word_embeddings=True)


def published_config(config):
    """The nested config.json of the real checkpoint, fields spelled out."""
    text = dict(model_type="gemma4_text", global_head_dim=128, attention_bias=False, dtype="bfloat16",
                hidden_activation="gelu_pytorch_tanh", rms_norm_eps=1e-6,
                rope_parameters={"full_attention": {"rope_theta": 1e6, "rope_type": "proportional",
                                                    "partial_rotary_factor": 0.25},
                                 "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"}})
    text.update(head_dim=64, num_key_value_heads=1)  # per-layer attributes: not readable as one value
    for key in ("vocab_size", "vocab_size_per_layer_input", "hidden_size", "num_hidden_layers", "layer_types",
                "num_attention_heads", "intermediate_size", "hidden_size_per_layer_input", "sliding_window",
                "num_kv_shared_layers", "use_double_wide_mlp", "final_logit_softcapping", "attention_k_eq_v",
                "enable_moe_block", "max_position_embeddings", "pad_token_id", "eos_token_id", "bos_token_id",
                "tie_word_embeddings"):
        text[key] = getattr(config, key)
    return dict(architectures=["Gemma4ForConditionalGeneration"], model_type="gemma4", text_config=text,
                vision_config=None, audio_config=None, tie_word_embeddings=True, dtype="bfloat16")


def encode_corpus(tokenizer, documents, rng):
    """(training ids, held-out ids, characters held out); every document ends with <eos>."""
    order = rng.permutation(len(documents))
    held_out = set(order[:HELD_OUT_DOCUMENTS].tolist())
    train, valid = [], []
    for i, encoding in enumerate(tokenizer.encode_batch(documents)):
        (valid if i in held_out else train).extend(encoding.ids + [EOS])
    on_gpu = [torch.tensor(ids, dtype=torch.int32).cuda() for ids in (train, valid)]
    return *on_gpu, sum(len(documents[i]) for i in held_out)


def new_model():
    """A model whose initial attention and residual branches have the right size for Gemma 4's norms."""
    model = Gemma4ForCausalLM(model_config()).cuda()
    for name, parameter in model.named_parameters():
        if name.endswith(("q_norm.weight", "k_norm.weight")):
            parameter.data.fill_(parameter.numel() ** -0.25)
        elif name.endswith(("o_proj.weight", "down_proj.weight", "per_layer_projection.weight")):
            parameter.data.mul_(0.5)
    return model


def loss_of(network, inputs, targets):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits = network(input_ids=inputs, use_cache=False).logits
        return cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def held_out_loss(model, network, valid):
    """Nats per token over the held-out documents, in windows of CONTEXT tokens."""
    model.eval()
    stride = HELD_OUT_BATCH * CONTEXT
    windows = len(valid) // CONTEXT - 1
    ids = valid[:windows * CONTEXT + 1].long()
    with torch.no_grad():
        losses = [loss_of(network, ids[at:at + stride].view(-1, CONTEXT),
                          ids[at + 1:at + stride + 1].view(-1, CONTEXT)).item()
                  for at in range(0, windows // HELD_OUT_BATCH * stride, stride)]
    model.train()
    return sum(losses) / len(losses)


def random_batch(ids, count):
    at = torch.randint(0, len(ids) - CONTEXT - 1, (count,), device="cuda")
    windows = ids[at[:, None] + torch.arange(CONTEXT + 1, device="cuda")].long()
    return windows[:, :-1], windows[:, 1:]


def new_optimizer(model, learning_rate):
    decayed = [parameter for parameter in model.parameters() if parameter.dim() >= 2]
    plain = [parameter for parameter in model.parameters() if parameter.dim() < 2]
    return torch.optim.AdamW([dict(params=decayed, weight_decay=0.1), dict(params=plain, weight_decay=0.0)],
                             lr=learning_rate, betas=(0.9, 0.95), fused=True)


def train_model(model, train, valid, args):
    """Trains in place and keeps the weights of the best held-out loss; returns that loss."""
    optimizer = new_optimizer(model, args.lr)
    network = torch.compile(model)
    best, kept, start = math.inf, None, time.time()
    for step in range(1, args.steps + 1):
        inputs, targets = random_batch(train, args.batch)
        inputs = torch.where(torch.rand(inputs.shape, device="cuda") < args.word_dropout, MASK, inputs)
        loss = loss_of(network, inputs, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        cosine = 0.02 + 0.49 * (1 + math.cos(math.pi * step / args.steps))
        rate = args.lr * min(1.0, step / 200) * cosine
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 250 == 0 or step == args.steps:
            now = held_out_loss(model, network, valid)
            if now < best:
                best, kept = now, {name: value.detach().clone() for name, value in model.state_dict().items()}
            print(f"step {step} {time.time() - start:.0f}s lr {rate:.5f} train {loss.item():.3f} "
                  f"held-out {now:.4f}", flush=True)
    model.load_state_dict(kept)
    return held_out_loss(model, network, valid)


def save_checkpoint(model, out):
    """Writes the weights under the names of the multimodal checkpoint, and the config files."""
    named = list(model.named_parameters())
    named += [(name, value) for name, value in model.named_buffers() if name.endswith("layer_scalar")]
    state = {name.replace("model.", "model.language_model.", 1):
             value.detach().to(torch.bfloat16).cpu().contiguous()
             for name, value in named if name != "lm_head.weight"}
    shards, size = [{}], 0
    for name, value in state.items():
        if size + value.nbytes > SHARD_BYTES:
            shards.append({})
            size = 0
        shards[-1][name] = value
        size += value.nbytes
    files = [f"model-{i + 1:05d}-of-{len(shards):05d}.safetensors" for i in range(len(shards))]
    for file, shard in zip(files, shards):
        save_file(shard, out / file, metadata=dict(format="pt"))
    index = dict(metadata=dict(total_size=sum(value.nbytes for value in state.values())),
                 weight_map={name: file for file, shard in zip(files, shards) for name in shard})
    (out / "model.safetensors.index.json").write_text(json.dumps(index, indent=1))
    (out / "config.json").write_text(json.dumps(published_config(model_config()), indent=2))
    generation = dict(bos_token_id=BOS, eos_token_id=[EOS], pad_token_id=0, do_sample=True, temperature=0.8,
                      top_k=64, top_p=0.95)
    (out / "generation_config.json").write_text(json.dumps(generation, indent=2))


def print_samples(model, tokenizer):
    model.eval()
    for prompt in SAMPLE_PROMPTS:
        ids = torch.tensor([tokenizer.encode(prompt).ids], device="cuda")
        for sample in (False, True):
            reply = model.generate(ids, max_new_tokens=120, do_sample=sample,
                                   temperature=0.8 if sample else None, top_k=64 if sample else None,
                                   pad_token_id=0)
            how = "sampled" if sample else "greedy"
            print(f"[{how}] {tokenizer.decode(reply[0].tolist())}\n", flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=192)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--word-dropout", type=float, default=0.1,
                        help="share of input tokens replaced by <mask>")
    return parser.parse_args()


def main():
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    with lzma.open(args.corpus, "rt", encoding="utf-8") as file:
        documents = [text.strip() for text in file.read().split("<|endoftext|>") if text.strip()]
    start = time.time()
    tokenizer = train_tokenizer(documents)
    tokenizer.save(str(args.out / "tokenizer.json"))
    train, valid, held_out_chars = encode_corpus(tokenizer, documents, rng)
    print(f"tokenizer {time.time() - start:.0f}s, {len(train) / 1e6:.1f} M train, "
          f"{len(valid) / 1e3:.0f} k held-out tokens", flush=True)

    model = new_model()
    print(f"{sum(parameter.numel() for parameter in model.parameters()) / 1e6:.2f} M parameters", flush=True)
    loss = train_model(model, train, valid, args)
    bits_per_char = loss * len(valid) / held_out_chars / math.log(2)
    print(f"{args.steps} steps, held-out loss {loss:.4f} nats/token, {bits_per_char:.4f} bits/char",
          flush=True)
    save_checkpoint(model, args.out)
    print_samples(model, tokenizer)


if __name__ == "__main__":
    main()
