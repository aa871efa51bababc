#!/usr/bin/env python3
"""Writes the golden files of the tokenizer tests with Hugging Face tokenizers.

Usage: tests/text/make_golden.py   (needs `pip install tokenizers`; written with 0.23)
"""
import json
import pathlib
import random

from tokenizers import Tokenizer

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
DEMO = ROOT / "models" / "demo" / "tokenizer.json"
SPACES = [" ", "  ", "   ", "\n", "\n\n", "\n\n\n", "\t", "\r\n", "▁", "▁▁", " \n ", "\u3000", "\xa0",
          " " * 31, "\n" * 33]
FRAGMENTS = ["<turn|>", "<|turn>", "<bos>", "<eos>", "<unk>", "<0x0A>", "<0xE2>", "<|", "|>", "<pad",
             "1234567890", "://", "{\n    \"a\": [1, 2]\n}", "Schröder", "日本語", "안녕하세요",
             "مرحبا", "नमस्ते", "👨‍👩‍👧‍👦", "🇩🇪", "ﬁ", "é"]


def any_character(rng):
    while True:
        code = rng.choice([rng.randrange(0x7F), rng.randrange(0x300), rng.randrange(0x3000),
                           rng.randrange(0xD800), rng.randrange(0x1F300, 0x1FAFF),
                           rng.randrange(0x10000, 0x110000),
                           rng.choice([0x200D, 0xFE0F, 0x301, 0x2581, 0xFFFD, 0x85, 0x2028, 0xFEFF])])
        if not 0xD800 <= code <= 0xDFFF:
            return chr(code)


def random_text(rng, pieces):
    text = ""
    for _ in range(rng.choice([1, 2, 3, 5, 8])):
        kind = rng.randrange(6)
        if kind == 0:
            text += "".join(any_character(rng) for _ in range(rng.randrange(1, 6)))
        elif kind == 1:
            text += rng.choice(SPACES)
        elif kind == 2:
            text += rng.choice(FRAGMENTS)
        elif kind == 3:
            text += rng.choice("abe \n<>/é") * rng.randrange(1, 20)
        else:
            text += "".join(rng.choice(pieces).replace("▁", rng.choice("▁ "))
                            for _ in range(rng.randrange(1, 6)))
    return text


def random_ids(rng, tokenizer, pieces):
    size = tokenizer.get_vocab_size()
    byte = [tokenizer.token_to_id(f"<0x{b:02X}>") for b in range(256)]
    ids = []
    for _ in range(rng.randrange(1, 12)):
        kind = rng.randrange(5)
        if kind == 0:
            ids.append(rng.randrange(size + 2))
        elif kind == 1:
            ids += [byte[b] for b in any_character(rng).encode()]
        elif kind == 2:
            ids.append(byte[rng.choice([rng.randrange(256), rng.randrange(0x80, 0xC0),
                                        rng.randrange(0xC0, 256)])])
        else:
            ids.append(tokenizer.token_to_id(rng.choice(pieces)))
    return [i for i in ids if i is not None]


def encode(tokenizer, text, as_text):
    tokenizer.encode_special_tokens = as_text
    return tokenizer.encode(text, add_special_tokens=False).ids


def encoded(tokenizer, text):
    return {"text": text, "ids": encode(tokenizer, text, False), "ids_as_text": encode(tokenizer, text, True)}


def golden(tokenizer, rng, count):
    """Texts with the ids of both modes, and ids with the text of both modes."""
    pieces = sorted(tokenizer.get_vocab())
    texts = [random_text(rng, pieces) for _ in range(count)]
    sequences = [random_ids(rng, tokenizer, pieces) for _ in range(count)]
    return {
        "encode": [encoded(tokenizer, text) for text in texts],
        "decode": [{"ids": s, "text": tokenizer.decode(s, skip_special_tokens=False),
                    "text_without_special": tokenizer.decode(s, skip_special_tokens=True)}
                   for s in sequences],
    }


def odd_file(rng):
    """A small tokenizer.json with Gemma's pipeline and everything that may vary in it."""
    alphabet = rng.sample(list("abcd▁\n<>Éß漢😀_1.\t"), rng.randrange(4, 10))
    byte_pieces = [f"<0x{b:02X}>" for b in range(256) if rng.random() < rng.choice([1, 1, 0.5])]
    pieces, merges = ["<unk>", "<bos>"] + byte_pieces + alphabet, []
    pool = alphabet + rng.sample(byte_pieces, 1)
    for _ in range(rng.randrange(30)):
        left, right = rng.choice(pool), rng.choice(pool)
        if len(left + right) <= 12 and [left, right] not in merges:
            merges.append([left, right])
            pool.append(left + right)
            pieces += [left + right] if left + right not in pieces else []
    rng.shuffle(merges)
    contents = ["<unk>", "<bos>"]
    for _ in range(rng.randrange(8)):
        content = rng.choice(["foo", "foo bar", " foo", " ", "\n", "<tok>", "x", rng.choice(pieces),
                              "".join(rng.choice(alphabet + ["x", " "]) for _ in range(rng.randrange(1, 4)))])
        contents += [content] if content not in contents else []
    added = []
    for content in contents:
        new_id = len(pieces) + sum(token["id"] >= len(pieces) for token in added)
        token = {"id": pieces.index(content) if content in pieces else new_id, "content": content}
        for flag in ["single_word", "lstrip", "rstrip", "normalized", "special"]:
            token[flag] = rng.random() < 0.3 if len(added) > 1 else flag == "special"
        added.append(token)
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    split = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
    bos, a, b = ({kind: {"id": name, "type_id": 0}}
                 for kind, name in [("SpecialToken", "<bos>"), ("Sequence", "A"), ("Sequence", "B")])
    template = {"type": "TemplateProcessing", "single": [bos, a], "pair": [a, b],
                "special_tokens": {"<bos>": {"id": "<bos>", "ids": [1], "tokens": ["<bos>"]}}}
    joined = rng.random() < 0.5
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": rng.choice([replace, {"type": "Sequence", "normalizers": [replace]}]),
        "pre_tokenizer": rng.choice([None, split, {"type": "Sequence", "pretokenizers": [split]}]),
        "post_processor": rng.choice([None, template]),
        "decoder": {"type": "Sequence",
                    "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                                 {"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {"type": "BPE", "dropout": None, "unk_token": rng.choice(["<unk>", None]),
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": rng.random() < 0.5, "byte_fallback": True, "ignore_merges": rng.random() < 0.25,
                  "vocab": {piece: i for i, piece in enumerate(pieces)},
                  "merges": [" ".join(m) for m in merges] if joined else merges},
    }


def odd_texts(rng, document):
    bag = [t["content"] for t in document["added_tokens"]] * 2
    bag += ["x", " ", "  ", "\n", "_", "é", "\u3000", "漢", "▁"]
    bag += [p for p in document["model"]["vocab"] if not p.startswith("<0x")]
    return ["".join(rng.choice(bag) for _ in range(rng.randrange(16))) for _ in range(12)]


def odd_golden(rng):
    document = odd_file(rng)
    tokenizer = Tokenizer.from_str(json.dumps(document))
    cases = []
    for text in odd_texts(rng, document):
        try:  # overlapping added tokens can make Hugging Face tokenizers panic
            cases.append(encoded(tokenizer, text))
        except BaseException as error:  # noqa: B036 - PanicException is not an Exception
            print("left out:", str(error).splitlines()[0])
    return {"file": document, "encode": cases, "decode": golden(tokenizer, rng, 8)["decode"]}


def write(name, value):
    with open(DATA / name, "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=True, separators=(",", ":"))
        file.write("\n")


def main():
    rng = random.Random(4)
    write("tokenizer_demo_random.json", golden(Tokenizer.from_file(str(DEMO)), rng, 300))
    write("tokenizer_odd.json", [odd_golden(rng) for _ in range(16)])


if __name__ == "__main__":
    main()
