#!/usr/bin/env python3
"""What encoders of pictures that transformers lacks make of one, written in torch after their publishers' code: the witness of
go/model/projector.

Needs torch, and nothing that the build or the tests need.

    golden_eyes.py            write go/model/testdata/eyes.json
    golden_eyes.py NAME...    only these cases

A case has

    name     of the kind
    keys     of its file: name, type, values
    tensors  of it: name, dimensions, scale, offset. Number i is offset + scale * noise(name, i); # is the number of each layer
    size     of the picture: its byte i is the first 8 bits of the noise of "picture"
    shape    of the rows
    numbers  some of theirs: i * 7919 modulo their count says which
"""

import json
import math
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F
from golden_hf import noise

PATH = pathlib.Path(__file__).resolve().parent.parent / "go/model/testdata/eyes.json"
LAYERS, WIDTH, FF, HEADS, PATCH, SIDE = 2, 32, 48, 2, 4, 16
COUNT = 32


def keys(kind, *more, width=WIDTH, side=SIDE):
    v = "clip.vision."
    return ["general.architecture str \"clip\"", "clip.has_vision_encoder bool true", f'clip.projector_type str "{kind}"',
            f"{v}embedding_length u32 {WIDTH}", f"{v}feed_forward_length u32 {FF}", f"{v}block_count u32 {LAYERS}",
            f"{v}attention.head_count u32 {HEADS}", f"{v}attention.layer_norm_epsilon f32 1e-06",
            f"{v}projection_dim u32 {width}", f"{v}image_size u32 {side}", f"{v}patch_size u32 {PATCH}",
            f"{v}image_mean f32[] 0.5*3", f"{v}image_std f32[] 0.5*3", *more]


def linear(name, n, m, bias=True):
    return {name + ".weight": (n, m)} | ({name + ".bias": (m,)} if bias else {})


def norm(name, n, bias=True):
    return {name + ".weight": (n,)} | ({name + ".bias": (n,)} if bias else {})


def vit(bias=True):
    """The tensors of layers."""
    t, block = {}, "v.blk.#."
    for name in ("ln1", "ln2"):
        t |= norm(block + name, WIDTH)
    for name in ("attn_q", "attn_k", "attn_v", "attn_out"):
        t |= linear(block + name, WIDTH, WIDTH, bias)
    return t | linear(block + "ffn_up", WIDTH, FF) | linear(block + "ffn_down", FF, WIDTH)


def siglip(positions=SIDE // PATCH):
    return {"v.patch_embd.weight": (PATCH, PATCH, 3, WIDTH), "v.patch_embd.bias": (WIDTH,),
            "v.position_embd.weight": (WIDTH, positions ** 2), **vit(), **norm("v.post_ln", WIDTH)}


def spread(name, dims):
    """The scale and the offset of a tensor's numbers."""
    if name.endswith("bias"):
        return 0.3, 0
    if len(dims) == 1 and name.endswith("weight"):
        return 0.4, 0.8
    if "position" in name or len(dims) == 1 or not name.endswith("weight"):
        return 0.5, 0
    return round(2 / math.sqrt(math.prod(dims[:-1])), 3), 0


class Weights(dict):
    """Tensors by their names, with their functions."""

    def linear(self, x, name):
        return F.linear(x, self[name + ".weight"], self.get(name + ".bias"))

    def norm(self, x, name, eps=1e-6):
        w = self[name + ".weight"]
        return F.layer_norm(x, w.shape, w, self.get(name + ".bias"), eps)

    def conv(self, x, name, **how):
        return F.conv2d(x, self[name + ".weight"], self.get(name + ".bias"), **how)

    def layer(self, h, block, act):
        y = self.norm(h, block + "ln1")
        q, k, v = (self.linear(y, block + "attn_" + n) for n in "qkv")
        h = h + self.linear(attention(q, k, v, HEADS), block + "attn_out")
        y = act(self.linear(self.norm(h, block + "ln2"), block + "ffn_up"))
        return h + self.linear(y, block + "ffn_down")

    def layers(self, h, act, count=LAYERS):
        for il in range(count):
            h = self.layer(h, f"v.blk.{il}.", act)
        return h


def attention(q, k, v, heads):
    split = [t.reshape(len(t), heads, -1).transpose(0, 1) for t in (q, k, v)]
    q, k, v = split
    return (((q @ k.transpose(1, 2)) / math.sqrt(q.shape[-1])).softmax(-1) @ v).transpose(0, 1).flatten(1)


def tanh_gelu(x):
    return F.gelu(x, approximate="tanh")


def quick_gelu(x):
    return x * torch.sigmoid(1.702 * x)


def pixels(w, h):
    return ((noise("picture", w * h * 3) + 1) * 128).astype(np.uint8).reshape(h, w, 3)


def picture(of):
    return torch.from_numpy(((of.astype(np.float32) / np.float32(255) - np.float32(0.5)) / np.float32(0.5)).transpose(2, 0, 1).copy())


def patches(w, x):
    """Rows of patches, row by row, with their bias."""
    return F.conv2d(x[None], w["v.patch_embd.weight"], w.get("v.patch_embd.bias"), stride=PATCH).flatten(2)[0].T


def waves(width, places):
    """MiniCPM's get_1d_sincos_pos_embed."""
    omega = 1 / 10000 ** (torch.arange(width // 2, dtype=torch.float64) / (width // 2))
    angles = places.double()[:, None] * omega
    return torch.cat([angles.sin(), angles.cos()], 1).float()


def nearest(w, x):
    """SigLIP with the positions that are at the part of the sides where patches are."""
    _, h, b = (n // PATCH for n in x.shape)
    n = math.isqrt(len(w["v.position_embd.weight"]))
    y, x_ = torch.meshgrid(torch.arange(h), torch.arange(b), indexing="ij")
    at = (y * n // h * n + x_ * n // b).flatten()
    return patches(w, x) + w["v.position_embd.weight"][at], y.flatten(), x_.flatten()


def resampler(w, x):
    h, y, x = nearest(w, x)
    h = w.norm(w.layers(h, tanh_gelu), "v.post_ln")
    n = 128
    value = w.norm(w.linear(h, "resampler.kv"), "resampler.ln_kv")
    key = value + torch.cat([waves(n // 2, x), waves(n // 2, y)], 1)
    asked = w.norm(w["resampler.query"], "resampler.ln_q")
    a = "resampler.attn."
    made = attention(w.linear(asked, a + "q"), w.linear(key, a + "k"), w.linear(value, a + "v"), n // 128)
    return w.linear(w.norm(w.linear(made, a + "out"), "resampler.ln_post"), "resampler.proj")


RESAMPLER = siglip() | {"resampler.query": (128, 5), "resampler.pos_embed_k": (128, 16)}
for name in ("q", "k", "v", "out"):
    RESAMPLER |= linear("resampler.attn." + name, 128, 128)
for name in ("q", "kv", "post"):
    RESAMPLER |= norm("resampler.ln_" + name, 128)
RESAMPLER |= linear("resampler.kv", WIDTH, 128, False) | linear("resampler.proj", 128, 128, False)

CASES = {
    "resampler": ([20, 12], resampler, RESAMPLER,
                  keys("resampler", "clip.use_gelu bool true", "clip.minicpmv_version i32 3", width=0)),
}


def case(name):
    size, see, tensors, of = CASES[name]
    lines, w = [], Weights()
    for tensor, dims in sorted(tensors.items()):
        scale, offset = spread(tensor, dims)
        lines.append(" ".join(map(str, (tensor, *dims, scale, offset))))
        for layer in range(LAYERS) if "#" in tensor else [0]:
            one = tensor.replace("#", str(layer))
            numbers = (offset + scale * noise(one, math.prod(dims))).astype(np.float32)
            w[one] = torch.from_numpy(numbers.reshape(dims[::-1]))
    with torch.inference_mode():
        rows = see(w, picture(pixels(*size)))
    flat = rows.flatten().tolist()
    return {"name": name, "keys": of, "tensors": lines, "size": size, "shape": list(rows.shape),
            "numbers": [round(flat[i * 7919 % len(flat)], 6) for i in range(COUNT)]}


def main():
    all = {}
    if sys.argv[1:] and PATH.exists():
        all = {c["name"]: c for c in json.loads(PATH.read_text())}
    for name in sys.argv[1:] or CASES:
        all[name] = case(name)
    lines = ",\n".join(json.dumps(all[name], separators=(",", ":")) for name in sorted(all))
    PATH.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
