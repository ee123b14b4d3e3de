#!/usr/bin/python3
"""Golden gradients of whole models, in float64: the witness of training that shares no code with the engine.

Needs Python 3.9 and NumPy (Debian: python3-numpy), and the small models of the test data (docs/building.md).

    golden_grad.py             write go/model/testdata/gradients.json
    golden_grad.py --check     compare it with what would be written; exit 1 with one line per difference
    golden_grad.py --report    print how well gradients agree with differences of the loss, and what rounding does to them

A model's logits are held against another implementation's (the .json beside each model), its gradients against differences
of the loss. The file is {NAME: {"loss", "gradients"}}, of the loss of three texts with an adapter of random numbers on each
matrix of attention and of the feed-forward; gradients are those of the backward pass whose products read factors rounded to
BF16, as docs/training.md has it. Of each matrix of the adapter there are the norm of its gradient and SUMS sums of it with
random signs: the mean square of the differences of such sums is that of the gradients' norm.

    random numbers  Rand of golden_types, by names: of the tensor for an adapter's, of the model for tokens, "signs"
    adapter         rank 3, alpha 4; (word >> 40) / 2^24 - 0.5, over 4
    texts           of 40, 7 and 20 tokens below the vocabulary; token i has the weight (i % 3 + 1) / 2, but 0 where i % 4 = 2
    signs           bit k of word i: number i in sum k is subtracted
"""

import argparse
import json
import os
import pathlib
import sys

sys.dont_write_bytecode = True  # leave no cache beside the sources

import numpy as np  # noqa: E402

import golden_back as back  # noqa: E402
from golden_gguf import File  # noqa: E402
from golden_math import rope_angles  # noqa: E402
from golden_types import Rand  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "go/model/testdata/gradients.json"
DATA = pathlib.Path(os.environ.get("QUERN_TESTDATA") or ROOT.parent / "shared/data") / "archs"

RANK, ALPHA, SUMS, LENGTHS = 3, 4.0, 6, (40, 7, 20)
ADAPTED = ("attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
ADAPTED += ("ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp")

# What neither tensors nor keys of a model say: halves of a head are rotated, not neighbours; the function of the gate;
# embeddings are multiplied by the root of their width; every layer of so many has no window; logits are divided by
# logit_scale; the weights of a token's experts sum to 1.
HALVES = {"halves": True}
GEMMA = {"halves": True, "fn": "gelu", "root": True}
MODELS = {
    "llama": {},
    "llama-tied": {},
    "mistral3": {},
    "qwen2": HALVES,
    "qwen3": HALVES,
    "gemma": GEMMA,
    "gemma2": GEMMA | {"full": 2},
    "gemma3": GEMMA | {"full": 6},
    "phi2": HALVES | {"fn": "gelu"},
    "phi3": HALVES,
    "olmo2": HALVES,
    "glm4": {},
    "granite": {"divide": True},
    "command-r": {},
    "stablelm": HALVES,
    "starcoder2": HALVES | {"fn": "gelu"},
    "llama-moe": {"shares": True},
    "qwen3moe": HALVES | {"shares": True},
    "olmoe": HALVES,
    "granitemoe": {"divide": True, "shares": True},
}


class Node:
    """A value, and the gradient of the loss with respect to it."""

    def __init__(self, v):
        self.v, self.d = v, 0.0


class Net:
    """A model with an adapter. rounded is what the backward pass does to factors of products."""

    def __init__(self, name, rounded=back.exact, adapted=True):
        file = File((DATA / f"{name}.gguf").read_bytes())
        self.name, self.rounded, self.of = name, rounded, MODELS[name]
        arch = file.meta["general.architecture"]
        self.key = lambda key, default=None: file.meta.get(f"{arch}.{key}", default)
        self.w = {t: Node(file.tensor(t)) for t in file.tensors if t.startswith(("blk", "output", "token_embd"))}
        self.heads = self.key("attention.head_count")
        self.heads_kv = self.key("attention.head_count_kv", self.heads)
        self.dims = self.key("attention.key_length", self.key("embedding_length") // self.heads)
        self.centred = self.key("attention.layer_norm_rms_epsilon") is None
        self.eps = self.key("attention.layer_norm_rms_epsilon") or self.key("attention.layer_norm_epsilon")
        self.factors = file.tensor("rope_freqs.weight")
        if self.factors is None:
            self.factors = file.tensor("rope_factors_short.weight")
        self.adapter = {}
        for t in file.tensors if adapted else ():
            if t.startswith("blk") and t.split(".")[2] in ADAPTED and t.endswith(".weight"):
                rows, cols = file.tensors[t][0]
                for part, shape in ((".lora_a", (RANK, cols)), (".lora_b", (rows, RANK))):
                    words = Rand(t + part).words(shape[0] * shape[1]) >> np.uint64(40)
                    self.adapter[t + part] = Node((words.astype(np.float64) / 2**24 - 0.5).reshape(shape) / 4)

    def fused(self, t):
        """Whether a tensor is gate and up in one."""
        return t.endswith("ffn_up.weight") and len(self.w[t].v) == 2 * self.key("feed_forward_length")

    def do(self, made, *read):
        """The node of an operation (its result and its reverse) that has read these nodes."""
        out = Node(made[0])
        self.tape.append((out, made[1], read))
        return out

    def split(self, x, *sizes):
        """Nodes of columns of x."""
        ends = np.cumsum(sizes)

        def part(at, n):
            def reverse(dy):
                d = np.zeros_like(x.v)
                d[:, at : at + n] = dy
                return (d,)

            return self.do((x.v[:, at : at + n], reverse), x)

        return [part(end - n, n) for end, n in zip(ends, sizes)]

    def shaped(self, x, shape):
        return self.do((x.v.reshape(shape), lambda dy: (dy.reshape(x.v.shape),)), x)

    def add(self, *of):
        return self.do((sum(x.v for x in of), lambda dy: [dy] * len(of)), *of)

    def product(self, name, x, scale=1.0, weight=None):
        w, bias = weight or self.w[name + ".weight"], self.w.get(name + ".bias")
        made = back.product(x.v, w.v, bias and bias.v, scale, self.rounded)
        y = self.do(made, x, w, bias)
        a, b = (self.adapter.get(f"{name}.weight.lora_{c}") for c in "ab")
        if a is None:
            return y
        return self.add(y, self.do(back.low(x.v, a.v, b.v, scale * ALPHA / RANK), x, a, b))

    def norm(self, name, x):
        """x where the model has no such norm."""
        w, bias = self.w.get(name + ".weight"), self.w.get(name + ".bias")
        if w is None:
            return x
        return self.do(back.norm(x.v, w.v, bias and bias.v, self.eps, self.centred), x, w, bias)

    def norm_heads(self, name, x):
        """Norms of heads, all by the same weights or each by its own, or of all of them as one row."""
        w = self.w.get(name + ".weight")
        if w is None:
            return x
        if w.v.size == w.v.shape[-1] == x.v.shape[1] * x.v.shape[2]:
            return self.shaped(self.norm(name, self.shaped(x, (len(x.v), -1))), x.v.shape)
        y, reverse = back.norm(x.v, None, None, self.eps, self.centred)
        n = y

        def weighted(dy):
            return reverse(dy * w.v)[0], (dy * n).sum(0 if w.v.ndim > 1 else (0, 1))

        return self.do((y * w.v, weighted), x, w)

    def rotated(self, x, il):
        """Heads, rotated."""
        kw, length = {"factors": self.factors}, self.key("rope.scaling.attn_factor", 1.0)
        base, factor = self.key("rope.freq_base", 10000.0), self.key("rope.scaling.factor", 1.0)
        if self.window(il) and self.of.get("full") == 6:
            base, factor = 10000.0, 1.0
        kw["freq_scale"] = 1 / factor
        if self.key("rope.scaling.type") == "yarn":
            kw["yarn"] = {
                "n_ctx_orig": self.key("rope.scaling.original_context_length"),
                "ext_factor": 1.0,
                "attn_factor": 1 / (1 + 0.1 * self.key("rope.scaling.yarn_log_multiplier") * np.log(factor)),
                "beta_fast": self.key("rope.scaling.yarn_beta_fast"),
                "beta_slow": self.key("rope.scaling.yarn_beta_slow"),
            }
        angle, grown = rope_angles(np.arange(len(x.v)), self.key("rope.dimension_count", self.dims), base, **kw)
        return self.do(back.turn(x.v, angle, length * grown, self.of.get("halves", False)), x)

    def window(self, il):
        """Positions that a token of the layer sees, 0: all before it."""
        every = self.of.get("full", 0)
        return self.key("attention.sliding_window") if every and (il + 1) % every else 0

    def attention(self, il, x):
        b, n = f"blk.{il}.", len(x.v)
        q, kv = self.heads * self.dims, self.heads_kv * self.dims
        if b + "attn_qkv.weight" in self.w:
            parts = self.split(self.product(b + "attn_qkv", x), q, kv, kv)
        else:
            parts = [self.product(b + f"attn_{c}", x) for c in "qkv"]
        q, k, v = (self.shaped(p, (n, -1, self.dims)) for p in parts)
        q, k = self.norm_heads(b + "attn_q_norm", q), self.norm_heads(b + "attn_k_norm", k)
        q, k = self.rotated(q, il), self.rotated(k, il)
        scale = self.key("attention.scale", self.dims**-0.5)
        if grows := self.key("attention.temperature_scale"):
            at = np.arange(n) // self.key("rope.scaling.original_context_length")
            scale = scale * (1 + grows * np.log(at + 1.0))
        cap = self.key("attn_logit_softcapping", 0.0)
        y = self.do(back.attend(q.v, k.v, v.v, scale, self.window(il), cap), q, k, v)
        y = self.product(b + "attn_output", self.shaped(y, (n, -1)), self.key("residual_scale", 1.0))
        return self.norm(b + "post_attention_norm", y)

    def gated(self, g, u=None):
        made = back.gate(self.of.get("fn", "silu"), g.v, u and u.v)
        return self.do(made, g, u)

    def feed_forward(self, il, x):
        b, n = f"blk.{il}.ffn_", self.key("feed_forward_length")
        up = self.product(b + "up", x)
        if self.fused(b + "up.weight"):
            h = self.gated(*self.split(up, n, n))
        elif b + "gate.weight" in self.w:
            h = self.gated(self.product(b + "gate", x), up)
        else:
            h = self.gated(up)
        return self.norm(f"blk.{il}.post_ffw_norm", self.product(b + "down", h, self.key("residual_scale", 1.0)))

    def experts(self, il, x):
        """Those that the router chooses, weighted by it, and the shared one."""
        b, n = f"blk.{il}.ffn_", len(x.v)
        logits, residual = self.product(b + "gate_inp", x), self.key("residual_scale", 1.0)
        used, shares = self.key("expert_used_count"), self.of.get("shares", False)
        ids, weights, reverse = back.route(logits.v, used, "softmax", shares, residual)
        weights = self.do((weights, reverse), logits)
        parts = []
        for e in range(self.key("expert_count")):
            t, k = np.nonzero(ids == e)
            if len(t) == 0:
                continue
            h = self.gated(self.one(b + "gate_exps", e, self.rows(x, t)), self.one(b + "up_exps", e, self.rows(x, t)))
            parts.append(self.placed(self.one(b + "down_exps", e, h), weights, t, k, n))
        if b + "up_shexp.weight" in self.w:
            h = self.gated(self.product(b + "gate_shexp", x), self.product(b + "up_shexp", x))
            parts.append(self.product(b + "down_shexp", h, residual))
        return self.add(*parts)

    def rows(self, x, t):
        def reverse(dy):
            d = np.zeros_like(x.v)
            np.add.at(d, t, dy)
            return (d,)

        return self.do((x.v[t], reverse), x)

    def one(self, name, e, x):
        """The product with the matrix of an expert."""
        w = self.w[name + ".weight"]
        y, reverse = back.product(x.v, w.v[e], rounded=self.rounded)

        def of_all(dy):
            dx, d = reverse(dy)[0], np.zeros_like(w.v)
            d[e] = reverse(dy)[1]
            return dx, d

        return self.do((y, of_all), x, w)

    def placed(self, y, weights, t, k, n):
        """Rows of an expert times the weights of choices k of tokens t, at these of n tokens."""
        w = weights.v[t, k][:, None]
        z = np.zeros((n, y.v.shape[1]))
        z[t] = w * y.v

        def reverse(dz):
            d = np.zeros_like(weights.v)
            d[t, k] = (dz[t] * y.v).sum(-1)
            return w * dz[t], d

        return self.do((z, reverse), y, weights)

    def embed(self, ids):
        w = self.w["token_embd.weight"]
        scale = self.key("embedding_scale", w.v.shape[1] ** 0.5 if self.of.get("root") else 1.0)

        def reverse(dy):
            d = np.zeros_like(w.v)
            np.add.at(d, ids, scale * dy)
            return (d,)

        return self.do((scale * w.v[ids], reverse), w)

    def logits(self, ids):
        self.tape = []
        x = self.embed(ids)
        for il in range(self.key("block_count")):
            b = f"blk.{il}."
            n = self.norm(b + "attn_norm", x)
            y = self.attention(il, n)
            if b + "attn_norm.weight" in self.w and b + "ffn_norm.weight" not in self.w:  # both read the same
                x = self.add(x, y, self.feed_forward(il, n))
                continue
            x = self.add(x, y)
            n = self.norm(b + "ffn_norm", x)
            x = self.add(x, (self.experts if b + "ffn_gate_inp.weight" in self.w else self.feed_forward)(il, n))
        scale = self.key("logit_scale", 1.0)
        x = self.product(
            "output",
            self.norm("output_norm", x),
            1 / scale if self.of.get("divide") else scale,
            self.w.get("output.weight") or self.w["token_embd.weight"],
        )
        cap = self.key("final_logit_softcapping", 0.0)
        return self.do(back.softcap(x.v, cap), x) if cap else x

    def loss(self, reverse=True):
        """The sum of the texts' losses, whose gradients the nodes of weights and of the adapter have afterwards."""
        for x in (*self.w.values(), *self.adapter.values()):
            x.d = 0.0
        total, r = 0.0, Rand(self.name)
        for n in LENGTHS:
            ids = r.below(len(self.w["token_embd.weight"].v), n)
            i = np.arange(1, n)
            weights = np.where(i % 4 == 2, 0, (i % 3 + 1) / 2)
            x = self.logits(ids[:-1])
            last = self.do(back.loss(x.v, ids[1:], weights), x)
            total += last.v
            if not reverse:
                continue
            last.d = 1.0
            for out, f, read in reversed(self.tape):
                for node, d in zip(read, f(out.d)):
                    if node is not None:
                        node.d = node.d + d
        return float(total)


def check_logits(name):
    """An error unless the model's logits are those of the other implementation."""
    want = json.loads((DATA / f"{name}.json").read_text())
    got = Net(name, adapted=False).logits(np.array(want["ids"])).v
    for row in want["logits_top"]:
        for i, v in row["top"]:
            if not abs(got[row["pos"], i] - v) < 2e-3:
                raise ValueError(f"{name}: logit {i} at {row['pos']} is {got[row['pos'], i]:.5f}, {v:.5f} elsewhere")


def off(net, names, step=1e-5):
    """By how much the gradient of some nodes is off differences of the loss along a random way, as a share of its norm."""
    nodes = {**net.w, **net.adapter}
    r, along, norm, ways = Rand("way"), 0.0, 0.0, {}
    for n in names:
        ways[n] = r.normal(nodes[n].v.shape)
        along += (ways[n] * nodes[n].d).sum()
        norm += (nodes[n].d ** 2).sum()
    ends = []
    for h in (step, -step):
        kept = {n: nodes[n].v for n in names}
        gradients = {n: nodes[n].d for n in nodes}
        for n in names:
            nodes[n].v = kept[n] + h * ways[n]
        ends.append(net.loss(reverse=False))
        for n in nodes:
            nodes[n].v, nodes[n].d = kept.get(n, nodes[n].v), gradients[n]
    return abs(along - (ends[0] - ends[1]) / (2 * step)) / norm**0.5


def groups(net):
    """Names of the nodes of each kind of matrix, of the adapter and of the weights."""
    found = {}
    for n in (*net.adapter, *net.w):
        found.setdefault(".".join(n.split(".")[2:]) or n, []).append(n)
    return found


def cosine(a, b):
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


def signs(n):
    words = Rand("signs").words(n)
    return [1 - 2.0 * ((words >> np.uint64(k)) & np.uint64(1)).astype(np.float64) for k in range(SUMS)]


def short(v):
    return float(f"{v:.5g}")


def golden(name, every=False):
    """What the file has of a model, and how exact its gradients are: off differences, cosine of rounded ones."""
    check_logits(name)
    net, rounded = Net(name), Net(name, back.bf16)
    loss = net.loss()
    rounded.loss()
    kinds = groups(net)
    if not every:  # all kinds of matrices of the adapter at once
        kinds = {"adapter": list(net.adapter)}
    worst = max((off(net, names), kind) for kind, names in kinds.items())
    if not worst[0] < 1e-5:
        raise ValueError(f"{name}: the gradient of {worst[1]} is off by {worst[0]:.1e} of differences of the loss")
    gradients = {}
    for n, x in rounded.adapter.items():
        g = x.d.ravel()
        gradients[n] = [short(v) for v in (np.sqrt((g * g).sum()), *(sum(g * s) for s in signs(len(g))))]
    least = min(cosine(x.d, rounded.adapter[n].d) for n, x in net.adapter.items())
    return {"loss": float(f"{loss:.9g}"), "gradients": gradients}, worst, least


def written():
    lines = [f'"{name}": {json.dumps(golden(name)[0])}' for name in MODELS]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def differences(want, got):
    """Lines of what the file has otherwise. Sums may differ as another BLAS makes them."""
    want, got = json.loads(want), json.loads(got)
    for name in sorted(want.keys() | got.keys()):
        a, b = want.get(name), got.get(name)
        if a is None or b is None or a["gradients"].keys() != b["gradients"].keys():
            yield f"{name}: other matrices"
            continue
        for n, x in a["gradients"].items():
            if not np.allclose(x, b["gradients"][n], rtol=0, atol=1e-4 * x[0]):
                yield f"{name}: {n} differs"
        if not np.isclose(a["loss"], b["loss"], rtol=1e-5):
            yield f"{name}: the loss differs"


def main():
    p = argparse.ArgumentParser(description="golden gradients of whole models; see the head of this file")
    p.add_argument("--check", action="store_true", help="compare the committed file")
    p.add_argument("--report", action="store_true", help="print how exact gradients are")
    args = p.parse_args()
    if args.report:
        for name in MODELS:
            _, (worst, kind), least = golden(name, every=True)
            print(f"{name:12} off differences by {worst:.0e} ({kind}), cosine of rounded ones {least:.6f}", flush=True)
    elif args.check:
        lines = list(differences(written(), OUT.read_text()))
        print("\n".join(lines), end="\n" if lines else "")
        return 1 if lines else 0
    else:
        OUT.write_text(written())
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ValueError, OSError) as e:
        sys.exit(f"golden_grad.py: {e}")
