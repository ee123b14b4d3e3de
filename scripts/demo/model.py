"""The demo model in PyTorch: a llama with tied embeddings."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from quantize import as_stored

WIDTH, HIDDEN, LAYERS, HEADS, KV_HEADS, CONTEXT = 256, 512, 6, 8, 4, 1024
HEAD = WIDTH // HEADS
EPS, BASE = 1e-5, 10000.0

# What each matrix is stored as. The mix is that of Q4_K_M: more bits where errors spread furthest.
KINDS = {"attn_q": "Q4_K", "attn_k": "Q4_K", "attn_v": "Q6_K", "attn_output": "Q4_K",
         "ffn_gate": "Q4_K", "ffn_up": "Q4_K", "ffn_down": "Q4_K", "token_embd": "Q6_K"}
FINE_DOWN = {0, LAYERS - 1}  # layers whose ffn_down is Q6_K


def kind(name):
    """What the matrix called so in the file is stored as; norms stay F32."""
    part = name.removesuffix(".weight").split(".")
    if part[-1] == "ffn_down" and int(part[1]) in FINE_DOWN:
        return "Q6_K"
    return KINDS.get(part[-1], "F32")


class Demo(nn.Module):
    """Parameters have the names of GGUF's tensors, with "/" for "."."""

    def __init__(self, vocabulary):
        super().__init__()
        shapes = {"token_embd.weight": (vocabulary, WIDTH), "output_norm.weight": (WIDTH,)}
        for i in range(LAYERS):
            shapes |= {
                f"blk.{i}.attn_norm.weight": (WIDTH,), f"blk.{i}.ffn_norm.weight": (WIDTH,),
                f"blk.{i}.attn_q.weight": (WIDTH, WIDTH), f"blk.{i}.attn_output.weight": (WIDTH, WIDTH),
                f"blk.{i}.attn_k.weight": (KV_HEADS * HEAD, WIDTH), f"blk.{i}.attn_v.weight": (KV_HEADS * HEAD, WIDTH),
                f"blk.{i}.ffn_gate.weight": (HIDDEN, WIDTH), f"blk.{i}.ffn_up.weight": (HIDDEN, WIDTH),
                f"blk.{i}.ffn_down.weight": (WIDTH, HIDDEN),
            }
        self.w = nn.ParameterDict()
        for name, shape in shapes.items():
            w = torch.ones(shape) if len(shape) == 1 else torch.randn(shape) * 0.02
            if "attn_output" in name or "ffn_down" in name:
                w /= math.sqrt(2 * LAYERS)
            self.w[name.replace(".", "/")] = nn.Parameter(w)
        at = torch.arange(CONTEXT)[:, None] * BASE ** (-torch.arange(0, HEAD, 2) / HEAD)
        self.cos, self.sin = at.cos(), at.sin()
        self.rounded = False  # whether matrices are as the file will hold them

    def matrices(self, dtype):
        for key, p in self.w.items():
            name = key.replace("/", ".")
            if p.dim() == 1:
                yield name, p
            else:
                yield name, (as_stored(p, kind(name)) if self.rounded else p).to(dtype)

    def forward(self, ids, targets=None, weight=None, dtype=torch.bfloat16):
        """Returns the logits of ids [n, t], or the mean loss against targets, of which -1 does not count, each weighted
        as weight has its token."""
        w = dict(self.matrices(dtype))
        n, t = ids.shape
        cos, sin = self.cos[:t].to(dtype), self.sin[:t].to(dtype)
        later = torch.full((t, t), -1e9, dtype=dtype).triu(1)
        x = F.embedding(ids, w["token_embd.weight"]).float()
        for i in range(LAYERS):
            b = lambda name: w[f"blk.{i}.{name}.weight"]
            a = norm(x, b("attn_norm"), dtype)
            q = rope((a @ b("attn_q").T).view(n, t, HEADS, HEAD), cos, sin)
            k = rope((a @ b("attn_k").T).view(n, t, KV_HEADS, HEAD), cos, sin)
            v = (a @ b("attn_v").T).view(n, t, KV_HEADS, HEAD).transpose(1, 2)
            # The queries of a group of heads stacked, over the keys that they share.
            q = q.view(n, t, KV_HEADS, -1, HEAD).permute(0, 2, 3, 1, 4).reshape(n * KV_HEADS, -1, HEAD)
            k = k.transpose(1, 2).reshape(n * KV_HEADS, t, HEAD)
            score = torch.bmm(q, k.transpose(1, 2)) * HEAD**-0.5
            score = score.view(-1, t, t).add_(later)
            p = score.softmax(-1).view(n * KV_HEADS, -1, t)
            o = torch.bmm(p, v.reshape(n * KV_HEADS, t, HEAD))
            o = o.view(n, KV_HEADS, -1, t, HEAD).permute(0, 3, 1, 2, 4).reshape(n, t, WIDTH)
            x = x + o @ b("attn_output").T
            a = norm(x, b("ffn_norm"), dtype)
            x = x + (F.silu(a @ b("ffn_gate").T) * (a @ b("ffn_up").T)) @ b("ffn_down").T
        logits = norm(x, w["output_norm.weight"], dtype) @ w["token_embd.weight"].T
        if targets is None:
            return logits.float()
        return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), targets.reshape(-1), weight, ignore_index=-1)


class Norm(torch.autograd.Function):
    """RMSNorm of x in float32, times w, in dtype: by hand, since it is the slowest thing beside the products."""

    @staticmethod
    def forward(ctx, x, w, dtype):
        scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS)
        y = x * scale
        ctx.save_for_backward(y.to(dtype), w, scale)
        return y.mul_(w).to(dtype)

    @staticmethod
    def backward(ctx, g):
        y, w, scale = ctx.saved_tensors
        to_w = (g * y).flatten(0, -2).sum(0).float()
        g = g * w
        return g.sub_(y * (g * y).mean(-1, keepdim=True)).mul_(scale), to_w, None


norm = Norm.apply


def rope(x, cos, sin):
    """Turns neighbouring pairs, as GGUF's llama does."""
    a, b = x[..., 0::2], x[..., 1::2]
    cos, sin = cos[:, None], sin[:, None]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)
