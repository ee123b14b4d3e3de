"""The seeing demo in PyTorch: a ViT and its projector as a gemma3 mmproj file has them, and a small Gemma 3."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from see_draw import CELLS, HUES, NAMES, SIDE
from see_talk import PICTURE, ROWS

PATCH = SIDE // CELLS
WIDTH = 128  # of both
HEADS, HEAD = 4, 32
EYE_LAYERS, EYE_HIDDEN = 4, 256
LAYERS, HIDDEN, KV_HEADS = 2, 256, 2
CONTEXT = 512
EPS, BASE = 1e-6, 10000.0
POOL = CELLS // math.isqrt(ROWS)  # cells that a row of the text model stands for, each way


def eye_shapes():
    shapes = {"v.patch_embd.weight": (WIDTH, 3, PATCH, PATCH), "v.patch_embd.bias": (WIDTH,),
              "v.position_embd.weight": (CELLS * CELLS, WIDTH), "v.post_ln.weight": (WIDTH,), "v.post_ln.bias": (WIDTH,),
              "mm.soft_emb_norm.weight": (WIDTH,), "mm.input_projection.weight": (WIDTH, WIDTH)}
    for i in range(EYE_LAYERS):
        p = f"v.blk.{i}."
        for name, out, into in [(f"attn_{x}", WIDTH, WIDTH) for x in ("q", "k", "v", "out")] + \
                [("ffn_up", EYE_HIDDEN, WIDTH), ("ffn_down", WIDTH, EYE_HIDDEN)]:
            shapes |= {f"{p}{name}.weight": (out, into), f"{p}{name}.bias": (out,)}
        for name in ("ln1", "ln2"):
            shapes |= {f"{p}{name}.weight": (WIDTH,), f"{p}{name}.bias": (WIDTH,)}
    return shapes


def text_shapes(vocabulary):
    shapes = {"token_embd.weight": (vocabulary, WIDTH), "output_norm.weight": (WIDTH,)}
    for i in range(LAYERS):
        p = f"blk.{i}."
        shapes |= {p + "attn_q.weight": (HEADS * HEAD, WIDTH), p + "attn_k.weight": (KV_HEADS * HEAD, WIDTH),
                   p + "attn_v.weight": (KV_HEADS * HEAD, WIDTH), p + "attn_output.weight": (WIDTH, HEADS * HEAD),
                   p + "ffn_gate.weight": (HIDDEN, WIDTH), p + "ffn_up.weight": (HIDDEN, WIDTH), p + "ffn_down.weight": (WIDTH, HIDDEN),
                   p + "attn_q_norm.weight": (HEAD,), p + "attn_k_norm.weight": (HEAD,)}
        shapes |= {f"{p}{n}.weight": (WIDTH,) for n in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")}
    return shapes


def first(name, shape):
    if name.endswith("bias"):
        return torch.zeros(shape)
    if len(shape) == 1:
        return torch.full(shape, 0.5) if "post_" in name and "post_ln" not in name else torch.ones(shape)
    if "embd" in name:
        return torch.randn(shape) * {"v.position_embd.weight": 0.5}.get(name, WIDTH**-0.5)
    w = torch.randn(shape) * shape[1] ** -0.5
    return w * 0.3 if name.endswith(("attn_out.weight", "ffn_down.weight")) and name.startswith("v.") else w


def rms(x, w):
    return F.rms_norm(x, (w.shape[0],), w, EPS)


def patches(pixels):
    """Pictures as bytes [n, 3, SIDE, SIDE] as the encoder reads them: rows of CELLS * CELLS patches each."""
    x = pixels.view(-1, 3, CELLS, PATCH, CELLS, PATCH).permute(0, 2, 4, 1, 3, 5)
    return x.reshape(-1, 3 * PATCH * PATCH).float() / 127.5 - 1


class Seeing(nn.Module):
    """Parameters have the names of GGUF's tensors, with "/" for "."."""

    def __init__(self, vocabulary):
        super().__init__()
        shapes = eye_shapes() | text_shapes(vocabulary)
        self.w = nn.ParameterDict({n.replace(".", "/"): nn.Parameter(first(n, s)) for n, s in shapes.items()})
        # What each cell shows, which is asked of the encoder while it learns. No part of the files.
        self.names, self.hues = nn.Linear(WIDTH, len(NAMES) + 1), nn.Linear(WIDTH, len(HUES))
        at = torch.arange(CONTEXT)[:, None] * BASE ** (-torch.arange(0, HEAD, 2) / HEAD)
        self.cos, self.sin = torch.cat([at.cos()] * 2, 1), torch.cat([at.sin()] * 2, 1)

    def get(self, name):
        return self.w[name.replace(".", "/")]

    @torch.no_grad()
    def whiten(self, pixels):
        """Begins with patches as numbers that vary alike and do not tell of each other, most of what is seen in few."""
        x = patches(pixels).double()
        far, way = torch.linalg.eigh((x - x.mean(0)).T.cov())
        w = (way[:, -WIDTH:] / (far[-WIDTH:] + 0.05).sqrt()).T
        self.get("v.patch_embd.weight").copy_(w.view(WIDTH, 3, PATCH, PATCH))
        self.get("v.patch_embd.bias").copy_(-w @ x.mean(0))

    def cells(self, pixels):
        """The encoder's last states [n, CELLS * CELLS, WIDTH] of pictures as bytes."""
        g = self.get
        n = len(pixels)
        x = F.linear(patches(pixels), g("v.patch_embd.weight").flatten(1), g("v.patch_embd.bias")).view(n, -1, WIDTH)
        x = x + g("v.position_embd.weight")
        for i in range(EYE_LAYERS):
            w = lambda name: (g(f"v.blk.{i}.{name}.weight"), g(f"v.blk.{i}.{name}.bias"))
            y = F.layer_norm(x, (WIDTH,), *w("ln1"), EPS)
            q, k, v = (F.linear(y, *w("attn_" + c)).view(n, -1, HEADS, HEAD).transpose(1, 2) for c in "qkv")
            y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
            x = x + F.linear(y, *w("attn_out"))
            y = F.gelu(F.linear(F.layer_norm(x, (WIDTH,), *w("ln2"), EPS), *w("ffn_up")), approximate="tanh")
            x = x + F.linear(y, *w("ffn_down"))
        return F.layer_norm(x, (WIDTH,), g("v.post_ln.weight"), g("v.post_ln.bias"), EPS)

    def rows(self, cells):
        """What the text model gets of them: [n, ROWS, WIDTH]."""
        side = CELLS // POOL
        x = cells.view(-1, side, POOL, side, POOL, WIDTH).mean((2, 4)).flatten(1, 2)
        return rms(x, self.get("mm.soft_emb_norm.weight")) @ self.get("mm.input_projection.weight")

    def forward(self, ids, rows):
        """The states behind ids [n, t], in which PICTURE stands for the rows of one picture a line, or of none."""
        g, (n, t) = self.get, ids.shape
        seen = ids == PICTURE
        x = F.embedding(ids.clamp_min(0), g("token_embd.weight")) * WIDTH**0.5
        has = seen.any(1)
        x = x.masked_scatter(seen[:, :, None], rows[has]) if has.any() else x
        see = torch.ones(t, t, dtype=torch.bool).tril() | seen[:, None] & seen[:, :, None]
        cos, sin = self.cos[:t], self.sin[:t]
        rope = lambda a: a * cos + torch.cat([-a[..., HEAD // 2:], a[..., :HEAD // 2]], -1) * sin
        for i in range(LAYERS):
            w = lambda name: g(f"blk.{i}.{name}.weight")
            y = rms(x, w("attn_norm"))
            q, k, v = (F.linear(y, w("attn_" + c)).view(n, t, -1, HEAD).transpose(1, 2) for c in "qkv")
            q, k = rope(rms(q, w("attn_q_norm"))), rope(rms(k, w("attn_k_norm")))
            k, v = (a.repeat_interleave(HEADS // KV_HEADS, 1) for a in (k, v))
            y = F.scaled_dot_product_attention(q, k, v, see[:, None]).transpose(1, 2).flatten(2)
            x = x + rms(F.linear(y, w("attn_output")), w("post_attention_norm"))
            y = rms(x, w("ffn_norm"))
            y = F.linear(F.gelu(F.linear(y, w("ffn_gate")), approximate="tanh") * F.linear(y, w("ffn_up")), w("ffn_down"))
            x = x + rms(y, w("post_ffw_norm"))
        return rms(x, g("output_norm.weight"))

    def logits(self, states):
        return F.linear(states, self.get("token_embd.weight"))
