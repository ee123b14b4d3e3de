#!/usr/bin/env python3
"""Writes the seeing demo as GGUF, a text model and its projector: see_export.py TEXT.gguf MMPROJ.gguf TRAINED.pt [MORE.pt ..]

Of several states of one training it writes the mean, which sees better than any of them while the rate is high."""

import sys
from pathlib import Path

import numpy as np
import torch

import see_model as m
from export import tokenizer, write
from see_draw import SIDE
from see_talk import vocabulary

Q8_0 = 7  # general.file_type
ABOUT = {"general.license": "apache-2.0", "general.author": "The Quern authors", "general.version": "1"}


def kind(name, w):
    """What a tensor is stored as. Patches and the last product of the projector are so in all files of this kind."""
    if w.dim() == 1 or "position_embd" in name:
        return "F32"
    return "F16" if "patch_embd" in name or name.startswith("mm.") else "Q8_0"


def text_keys(v):
    yield from {
        "general.architecture": "gemma3",
        "general.name": "Quern vision demo",
        "general.description": "A demo: it names coloured shapes, digits and letters in a picture, and knows nothing else.",
        **ABOUT,
        "general.languages": ["en"],
        "general.tags": ["image-text-to-text"],
        "general.file_type": np.uint32(Q8_0),
        "general.quantization_version": np.uint32(2),
        "general.sampling.temp": np.float32(0),
        "gemma3.context_length": np.uint32(m.CONTEXT),
        "gemma3.embedding_length": np.uint32(m.WIDTH),
        "gemma3.block_count": np.uint32(m.LAYERS),
        "gemma3.feed_forward_length": np.uint32(m.HIDDEN),
        "gemma3.attention.head_count": np.uint32(m.HEADS),
        "gemma3.attention.head_count_kv": np.uint32(m.KV_HEADS),
        "gemma3.attention.key_length": np.uint32(m.HEAD),
        "gemma3.attention.value_length": np.uint32(m.HEAD),
        "gemma3.attention.layer_norm_rms_epsilon": np.float32(m.EPS),
        "gemma3.attention.sliding_window": np.uint32(m.CONTEXT),
        "gemma3.rope.freq_base": np.float32(m.BASE),
        "gemma3.vocab_size": np.uint32(len(v.tokens)),
    }.items()
    yield from tokenizer(v)


def eye_keys():
    p = "clip.vision."
    yield from {
        "general.architecture": "clip",
        "general.type": "mmproj",
        "general.name": "Quern vision demo",
        **ABOUT,
        "general.file_type": np.uint32(Q8_0),
        "general.quantization_version": np.uint32(2),
        "clip.has_vision_encoder": True,
        "clip.projector_type": "gemma3",
        "clip.use_gelu": True,
        p + "image_size": np.uint32(SIDE),
        p + "patch_size": np.uint32(m.PATCH),
        p + "embedding_length": np.uint32(m.WIDTH),
        p + "feed_forward_length": np.uint32(m.EYE_HIDDEN),
        p + "block_count": np.uint32(m.EYE_LAYERS),
        p + "projection_dim": np.uint32(m.WIDTH),
        p + "attention.head_count": np.uint32(m.HEADS),
        p + "attention.layer_norm_epsilon": np.float32(m.EPS),
        p + "projector.scale_factor": np.uint32(m.POOL),
        p + "image_mean": [np.float32(0.5)] * 3,
        p + "image_std": [np.float32(0.5)] * 3,
    }.items()


def main():
    text, eyes, *trained = map(Path, sys.argv[1:])
    states = [torch.load(path)["model"] for path in trained]
    weights = {k.removeprefix("w.").replace("/", "."): sum(s[k] for s in states) / len(states) for k in states[0] if k.startswith("w.")}
    tensors = [(name, kind(name, w), w) for name, w in weights.items()]
    seen = lambda name: name.startswith(("v.", "mm."))
    write(text, text_keys(vocabulary()), [t for t in tensors if not seen(t[0])])
    write(eyes, eye_keys(), [t for t in tensors if seen(t[0])])


if __name__ == "__main__":
    main()
