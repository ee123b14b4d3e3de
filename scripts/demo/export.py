#!/usr/bin/env python3
"""Writes the model as GGUF: export.py CORPUS TRAINED.pt OUT.gguf"""

import struct
import sys
from pathlib import Path

import numpy as np
import torch

import model as m
from quantize import PACK
from vocabulary import ASSISTANT, BEGIN, END, Vocabulary

TYPES = {"F32": 0, "F16": 1, "Q8_0": 8, "Q4_K": 12, "Q6_K": 14}
Q4_K_M = 15  # general.file_type
ALIGN = 32

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message.role not in ['system', 'user', 'assistant'] %}"
    "{{ raise_exception('roles are system, user and assistant, not ' ~ message.role) }}{% endif %}"
    "{{ '<|' ~ message.role ~ '|>' ~ message.content | trim ~ '" + END + "' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '" + ASSISTANT + "' }}{% endif %}"
)


def metadata(v):
    yield from {
        "general.architecture": "llama",
        "general.name": "Quern demo",
        "general.description": "A demo: it tells small stories and knows nothing.",
        "general.license": "apache-2.0",
        "general.author": "The Quern authors",
        "general.version": "1",
        "general.languages": ["en"],
        "general.tags": ["text-generation", "stories"],
        "general.file_type": np.uint32(Q4_K_M),
        "general.quantization_version": np.uint32(2),
        "general.sampling.temp": np.float32(0.7),
        "general.sampling.top_k": np.int32(40),
        "general.sampling.top_p": np.float32(0.95),
        "general.sampling.min_p": np.float32(0.05),
        "llama.context_length": np.uint32(m.CONTEXT),
        "llama.embedding_length": np.uint32(m.WIDTH),
        "llama.block_count": np.uint32(m.LAYERS),
        "llama.feed_forward_length": np.uint32(m.HIDDEN),
        "llama.rope.dimension_count": np.uint32(m.HEAD),
        "llama.rope.freq_base": np.float32(m.BASE),
        "llama.attention.head_count": np.uint32(m.HEADS),
        "llama.attention.head_count_kv": np.uint32(m.KV_HEADS),
        "llama.attention.layer_norm_rms_epsilon": np.float32(m.EPS),
        "llama.vocab_size": np.uint32(len(v.tokens)),
    }.items()
    yield from tokenizer(v)


def tokenizer(v):
    control, normal = 3, 1
    yield from {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": v.tokens,
        "tokenizer.ggml.token_type": [np.int32(control if t in v.control else normal) for t in v.tokens],
        "tokenizer.ggml.merges": [f"{a} {b}" for a, b in v.merges],
        "tokenizer.ggml.bos_token_id": np.uint32(v.ids[BEGIN]),
        "tokenizer.ggml.eos_token_id": np.uint32(v.ids[END]),
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_eos_token": False,
        "tokenizer.chat_template": TEMPLATE,
    }.items()


KINDS = {np.uint32: (4, "<I"), np.int32: (5, "<i"), np.float32: (6, "<f"), bool: (7, "<?"), str: (8, None), list: (9, None)}


def string(s):
    b = s.encode()
    return struct.pack("<Q", len(b)) + b


def value(x, typed=True):
    kind, form = KINDS[type(x)]
    head = struct.pack("<I", kind) if typed else b""
    if isinstance(x, str):
        return head + string(x)
    if isinstance(x, list):
        inner = KINDS[type(x[0])][0]
        return head + struct.pack("<IQ", inner, len(x)) + b"".join(value(e, False) for e in x)
    return head + struct.pack(form, x)


def pad(b):
    return b + bytes(-len(b) % ALIGN)


def main():
    corpus, trained, out = map(Path, sys.argv[1:])
    v = Vocabulary.load(corpus / "merges.json")
    weights = {k.removeprefix("w.").replace("/", "."): w for k, w in torch.load(trained)["model"].items()}
    write(out, metadata(v), [(name, m.kind(name), w) for name, w in weights.items()])


def write(out, keys, tensors):
    """Writes a file of tensors, each a name, a type and values."""
    kvs = list(keys)
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(kvs))
    head += b"".join(string(k) + value(x) for k, x in kvs)
    data = b""
    for name, kind, w in tensors:
        head += string(name) + struct.pack("<I", w.dim()) + struct.pack(f"<{w.dim()}Q", *reversed(w.shape))
        head += struct.pack("<IQ", TYPES[kind], len(data))
        data += pad(PACK[kind](w))
    out.write_bytes(pad(head) + data)
    print(f"{out}: {out.stat().st_size} bytes, {sum(w.numel() for *_, w in tensors)} parameters")


if __name__ == "__main__":
    main()
