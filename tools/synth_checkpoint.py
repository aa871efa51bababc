#!/usr/bin/env python3
"""Write a deterministic synthetic Gemma 4 checkpoint in the Hugging Face layout.

The weights are random but reproducible: every tensor is drawn from its own Philox stream keyed by
SHA-256(seed, tensor name), so any machine writes the same bytes. Magnitudes are chosen so that activations
stay O(1), attention is neither flat nor one-hot and the top logits are well separated. Needs numpy only.

  synth_checkpoint.py OUT --preset tiny           the E2B architecture at toy size, 1.2 MB
  synth_checkpoint.py OUT --preset e2b            the full-size E2B text model, 9.3 GB of bf16
  synth_checkpoint.py OUT --preset tiny --dtype F32 --shards 3 --prefix model.
  synth_checkpoint.py OUT --drafter-for TARGET    a drafter (gemma4_assistant) for the checkpoint TARGET

Writes config.json, generation_config.json and model*.safetensors (with an index when sharded). There is no
tokenizer.json: bring one when text is needed.
"""
import argparse
import hashlib
import json
import math
import struct
from pathlib import Path

import numpy as np

SLIDING, FULL = "sliding_attention", "full_attention"
DTYPE_BYTES = {"BF16": 2, "F16": 2, "F32": 4}

# Keys of config.json, and `period`: every period-th layer has full attention.
PRESETS = {
    "tiny": dict(hidden_size=64, num_hidden_layers=10, period=5, num_attention_heads=4,
                 num_key_value_heads=1, head_dim=16, global_head_dim=32, intermediate_size=128,
                 hidden_size_per_layer_input=8, vocab_size=512, sliding_window=16, num_kv_shared_layers=5,
                 use_double_wide_mlp=True),
    # The real vocabulary and layer schedule, narrow: to try a real tokenizer.
    "narrow": dict(hidden_size=64, num_hidden_layers=35, period=5, num_attention_heads=8,
                   num_key_value_heads=1, head_dim=16, global_head_dim=32, intermediate_size=96,
                   hidden_size_per_layer_input=8, vocab_size=262144, sliding_window=512,
                   num_kv_shared_layers=20, use_double_wide_mlp=True),
    "e2b": dict(hidden_size=1536, num_hidden_layers=35, period=5, num_attention_heads=8,
                num_key_value_heads=1, head_dim=256, global_head_dim=512, intermediate_size=6144,
                hidden_size_per_layer_input=256, vocab_size=262144, sliding_window=512,
                num_kv_shared_layers=20, use_double_wide_mlp=True),
    "e4b": dict(hidden_size=2560, num_hidden_layers=42, period=6, num_attention_heads=8,
                num_key_value_heads=2, head_dim=256, global_head_dim=512, intermediate_size=10240,
                hidden_size_per_layer_input=256, vocab_size=262144, sliding_window=512,
                num_kv_shared_layers=18, use_double_wide_mlp=False),
    # The traits of the larger models at toy size: no per-layer embeddings, K = V on full layers, and another
    # number of K/V heads there.
    "tiny-dense": dict(hidden_size=64, num_hidden_layers=6, period=6, num_attention_heads=4,
                       num_key_value_heads=2, head_dim=16, global_head_dim=32, intermediate_size=128,
                       hidden_size_per_layer_input=0, vocab_size=512, sliding_window=16,
                       num_kv_shared_layers=0, use_double_wide_mlp=False, attention_k_eq_v=True,
                       num_global_key_value_heads=1),
    "tiny-moe": dict(hidden_size=64, num_hidden_layers=6, period=6, num_attention_heads=4,
                     num_key_value_heads=2, head_dim=16, global_head_dim=32, intermediate_size=96,
                     hidden_size_per_layer_input=0, vocab_size=512, sliding_window=16,
                     num_kv_shared_layers=0, use_double_wide_mlp=False, attention_k_eq_v=True,
                     num_global_key_value_heads=1, enable_moe_block=True, num_experts=8, top_k_experts=2,
                     moe_intermediate_size=32),
}


def text_config(preset):
    """The text part of config.json."""
    layers, period = preset["num_hidden_layers"], preset["period"]
    config = {key: value for key, value in preset.items() if key != "period"}
    config.update(model_type="gemma4_text",
                  layer_types=[FULL if (i + 1) % period == 0 else SLIDING for i in range(layers)])
    config.setdefault("attention_k_eq_v", False)
    config.setdefault("enable_moe_block", False)
    config.update(
        vocab_size_per_layer_input=preset["vocab_size"], rms_norm_eps=1e-6, max_position_embeddings=131072,
        final_logit_softcapping=30.0, hidden_activation="gelu_pytorch_tanh", attention_bias=False,
        tie_word_embeddings=True, bos_token_id=2, eos_token_id=1, pad_token_id=0, torch_dtype="bfloat16",
        rope_parameters={
            FULL: {"rope_theta": 1000000.0, "rope_type": "proportional", "partial_rotary_factor": 0.25},
            SLIDING: {"rope_theta": 10000.0, "rope_type": "default"}})
    return config


def fan_in(n):
    """The standard deviation that keeps a dot product over n terms at the size of its inputs."""
    return n ** -0.5


def tensors(config, vestigial):
    """Yields (name without prefix, shape, kind); kind is a standard deviation or ("norm", centre).

    `vestigial`: also the K/V tensors of layers that share K/V, which the published E-series files contain.
    """
    hidden, vocab = config["hidden_size"], config["vocab_size"]
    ple_dim, layers = config["hidden_size_per_layer_input"], config["num_hidden_layers"]
    yield "embed_tokens.weight", (vocab, hidden), fan_in(hidden)
    if ple_dim:
        yield "embed_tokens_per_layer.weight", (vocab, layers * ple_dim), fan_in(ple_dim)
        yield "per_layer_model_projection.weight", (layers * ple_dim, hidden), 1.0
        yield "per_layer_projection_norm.weight", (ple_dim,), ("norm", 1.0)
    for layer in range(layers):
        for name, shape, kind in layer_tensors(config, layer, vestigial):
            yield f"layers.{layer}.{name}", shape, kind
    yield "norm.weight", (hidden,), ("norm", 4.0)


def layer_tensors(config, layer, vestigial):
    """The tensors of one decoder layer, as tensors() yields them."""
    hidden, ple_dim = config["hidden_size"], config["hidden_size_per_layer_input"]
    shared = layer >= config["num_hidden_layers"] - config["num_kv_shared_layers"]
    inter = config["intermediate_size"] * (2 if shared and config["use_double_wide_mlp"] else 1)
    yield "input_layernorm.weight", (hidden,), ("norm", 1.0)
    yield from attention_tensors(config, layer, with_kv=vestigial or not shared)
    yield "post_attention_layernorm.weight", (hidden,), ("norm", 0.5)
    yield "pre_feedforward_layernorm.weight", (hidden,), ("norm", 1.0)
    yield "mlp.gate_proj.weight", (inter, hidden), 1.5 * fan_in(hidden)
    yield "mlp.up_proj.weight", (inter, hidden), fan_in(hidden)
    yield "mlp.down_proj.weight", (hidden, inter), fan_in(inter)
    yield "post_feedforward_layernorm.weight", (hidden,), ("norm", 0.5)
    if config["enable_moe_block"]:
        experts, expert_inter = config["num_experts"], config["moe_intermediate_size"]
        yield "router.proj.weight", (experts, hidden), 2.0
        yield "router.scale", (hidden,), ("norm", 1.0)
        yield "router.per_expert_scale", (experts,), ("norm", 1.0)
        yield "experts.gate_up_proj", (experts, 2 * expert_inter, hidden), 1.5 * fan_in(hidden)
        yield "experts.down_proj", (experts, hidden, expert_inter), fan_in(expert_inter)
        for norm in ("post_feedforward_layernorm_1", "post_feedforward_layernorm_2",
                     "pre_feedforward_layernorm_2"):
            yield norm + ".weight", (hidden,), ("norm", 0.7)
    if ple_dim:
        yield "per_layer_input_gate.weight", (ple_dim, hidden), fan_in(hidden)
        yield "per_layer_projection.weight", (hidden, ple_dim), fan_in(ple_dim)
        yield "post_per_layer_input_norm.weight", (hidden,), ("norm", 0.3)
    yield "layer_scalar", (1,), ("norm", 0.9)


def attention_tensors(config, layer, with_kv):
    """The self_attn tensors of one layer; without v_proj where K = V."""
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    full = config["layer_types"][layer] == FULL
    head_dim = config["global_head_dim"] if full else config["head_dim"]
    k_eq_v = config["attention_k_eq_v"] and full
    kv_heads = config.get("num_global_key_value_heads") if k_eq_v else config["num_key_value_heads"]
    head_norm = ("norm", 1.4 * head_dim ** -0.25)
    yield "self_attn.q_proj.weight", (heads * head_dim, hidden), fan_in(hidden)
    yield "self_attn.q_norm.weight", (head_dim,), head_norm
    if with_kv:
        yield "self_attn.k_proj.weight", (kv_heads * head_dim, hidden), fan_in(hidden)
        yield "self_attn.k_norm.weight", (head_dim,), head_norm
        if not k_eq_v:
            yield "self_attn.v_proj.weight", (kv_heads * head_dim, hidden), fan_in(hidden)
    yield "self_attn.o_proj.weight", (hidden, heads * head_dim), fan_in(heads * head_dim)


def drafter_config(target, centroids):
    """config.json of a drafter for a target with this text config; centroids: 0 for a dense head."""
    backbone = target["hidden_size"]
    hidden = 32 if backbone < 1024 else 256 if backbone <= 2560 else 1024
    text = {key: target[key] for key in (
        "head_dim", "global_head_dim", "num_key_value_heads", "attention_k_eq_v", "vocab_size",
        "sliding_window", "rms_norm_eps", "max_position_embeddings", "hidden_activation", "attention_bias",
        "bos_token_id", "eos_token_id", "pad_token_id", "torch_dtype", "rope_parameters")}
    if "num_global_key_value_heads" in target:
        text["num_global_key_value_heads"] = target["num_global_key_value_heads"]
    text.update(model_type="gemma4_text", hidden_size=hidden, intermediate_size=8 * hidden,
                num_hidden_layers=4, num_kv_shared_layers=4, layer_types=[SLIDING] * 3 + [FULL],
                num_attention_heads=max(4 if hidden <= 256 else 16, target["num_key_value_heads"]),
                hidden_size_per_layer_input=0, vocab_size_per_layer_input=0, use_double_wide_mlp=False,
                enable_moe_block=False, tie_word_embeddings=True)
    return dict(architectures=["Gemma4AssistantForCausalLM"], model_type="gemma4_assistant",
                text_config=text, backbone_hidden_size=backbone, use_ordered_embeddings=centroids > 0,
                num_centroids=centroids or 2048, centroid_intermediate_top_k=min(32, max(1, centroids // 4)),
                tie_word_embeddings=True, torch_dtype="bfloat16")


def drafter_tensors(config):
    """Yields what tensors() yields, with whole names."""
    text, backbone = config["text_config"], config["backbone_hidden_size"]
    hidden, vocab = text["hidden_size"], text["vocab_size"]
    yield "pre_projection.weight", (hidden, 2 * backbone), fan_in(2 * backbone)
    yield "post_projection.weight", (backbone, hidden), fan_in(hidden)
    for name, shape, kind in tensors(text, vestigial=False):
        yield "model." + name, shape, kind
    if config["use_ordered_embeddings"]:
        yield "masked_embedding.centroids.weight", (config["num_centroids"], hidden), fan_in(hidden)
        yield "masked_embedding.token_ordering", (vocab,), "permutation"


# Exponents subtracted at random so that magnitudes are close to uniform; the result's standard deviation is
# 1.1556 * 2**exponent.
EXPONENT_DROP = np.array([0, 0, 0, 0, 1, 1, 2, 3], dtype=np.uint16) << 7
DROPPED_STD = 1.1556


def bf16_stream(seed, name, count, kind, chunk=1 << 24):
    """Yields arrays of uint16 bf16 bit patterns, `count` in all."""
    key = int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:16], "little")
    generator = np.random.Philox(key=key)
    for done in range(0, count, chunk):
        n = min(chunk, count - done)
        random = generator.random_raw((n + 3) // 4).astype("<u8", copy=False).view("<u2")[:n]
        if isinstance(kind, tuple):  # norm gains, uniform within 25 % of their centre
            uniform = random.astype(np.float32) / 65536.0 - 0.5
            bits = (kind[1] * (1.0 + 0.5 * uniform)).astype(np.float32).view(np.uint32)
            yield ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        else:  # random sign and mantissa, and an exponent near the wanted standard deviation
            exponent = np.uint16((127 + round(math.log2(kind / DROPPED_STD))) << 7)
            yield (random & np.uint16(0x807F)) | (exponent - EXPONENT_DROP[(random >> 7) & 7])


def convert(bits, dtype):
    """bf16 bit patterns as an array of `dtype`."""
    if dtype == "BF16":
        return bits
    values = (bits.astype(np.uint32) << 16).view(np.float32)
    return values if dtype == "F32" else values.astype(np.float16)


def permutation(seed, name, count):
    """A random order of the numbers below `count`, as int64."""
    key = int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:16], "little")
    return np.argsort(np.random.Philox(key=key).random_raw(count), kind="stable").astype("<i8")


def write_shard(path, group, dtype, prefix, seed):
    """Writes one safetensors file; returns its data bytes."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape, kind in group:
        stored, size = ("I64", 8) if kind == "permutation" else (dtype, DTYPE_BYTES[dtype])
        end = offset + math.prod(shape) * size
        header[prefix + name] = dict(dtype=stored, shape=list(shape), data_offsets=[offset, end])
        offset = end
    raw = json.dumps(header, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % 8)
    with open(path, "wb", buffering=1 << 24) as file:
        file.write(struct.pack("<Q", len(raw)) + raw)
        for name, shape, kind in group:
            if kind == "permutation":
                file.write(permutation(seed, name, shape[0]).data)
                continue
            for bits in bf16_stream(seed, name, math.prod(shape), kind):
                file.write(np.ascontiguousarray(convert(bits, dtype)).data)
    return offset


def write_configs(out, config, text_only):
    """Writes config.json and generation_config.json."""
    if text_only:
        whole = dict(config, architectures=["Gemma4ForCausalLM"])
    else:
        whole = dict(architectures=["Gemma4ForConditionalGeneration"], model_type="gemma4",
                     text_config=config, vision_config=None, audio_config=None, tie_word_embeddings=True,
                     torch_dtype="bfloat16")
    (out / "config.json").write_text(json.dumps(whole, indent=2))
    generation = dict(bos_token_id=2, eos_token_id=[1, 106], pad_token_id=0, do_sample=True, temperature=1.0,
                      top_k=64, top_p=0.95)
    (out / "generation_config.json").write_text(json.dumps(generation, indent=2))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--preset", choices=PRESETS, default="tiny")
    parser.add_argument("--drafter-for", type=Path, metavar="TARGET",
                        help="write a drafter for this checkpoint instead of a preset")
    parser.add_argument("--centroids", type=int, default=0,
                        help="of a drafter's ordered head (default: a dense head)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtype", choices=DTYPE_BYTES, default="BF16")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--prefix", default="model.language_model.", help="tensor name prefix")
    parser.add_argument("--text-only", action="store_true", help="a flat gemma4_text config, not gemma4")
    parser.add_argument("--no-vestigial", action="store_true", help="omit K/V tensors of KV-shared layers")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=JSON",
                        help="override a preset value")
    return parser.parse_args()


def write_drafter(args):
    """Writes the drafter's configs and tensors."""
    target = json.loads((args.drafter_for / "config.json").read_text())
    config = drafter_config(target.get("text_config", target), args.centroids)
    (args.out / "config.json").write_text(json.dumps(config, indent=2))
    (args.out / "generation_config.json").write_text(json.dumps(dict(num_assistant_tokens=4), indent=2))
    todo = list(drafter_tensors(config))
    total = write_shard(args.out / "model.safetensors", todo, args.dtype, "", args.seed)
    print(f"{args.out}: drafter, {len(todo)} tensors, {total / 1e9:.3f} GB")


def main():
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.drafter_for:
        write_drafter(args)
        return
    preset = dict(PRESETS[args.preset])
    for override in args.set:
        key, value = override.split("=", 1)
        preset[key] = json.loads(value)
    config = text_config(preset)
    write_configs(args.out, config, args.text_only)

    todo = list(tensors(config, not args.no_vestigial))
    total, weight_map = 0, {}
    for shard in range(args.shards):
        file = "model.safetensors"
        if args.shards > 1:
            file = f"model-{shard + 1:05d}-of-{args.shards:05d}.safetensors"
        group = todo[shard::args.shards]
        total += write_shard(args.out / file, group, args.dtype, args.prefix, args.seed)
        weight_map.update({args.prefix + name: file for name, _, _ in group})
    if args.shards > 1:
        index = dict(metadata=dict(total_size=total), weight_map=weight_map)
        (args.out / "model.safetensors.index.json").write_text(json.dumps(index, indent=1))
    print(f"{args.out}: {len(todo)} tensors, {total / 1e9:.3f} GB")


if __name__ == "__main__":
    main()
